"""What a bucket's listing has, and what becomes of a piece when the server fails, refuses or has another."""

import errno
import io
import pickle
import tarfile

import numpy as np
import pytest
from bucket_in_memory import Bucket, Refused

import seneca
from seneca import transforms as T
from seneca.data.sources import buckets
from seneca.data.sources.buckets import is_bucket, list_bucket
from seneca.data.sources.source import ListingOptions
from seneca.data.sources.waiting import Waiting
from seneca.errors import SourceError

ENDINGS = (".jpg", ".jpeg")
ROOT = "gs://bucket/train/"


@pytest.fixture(autouse=True)
def at_once(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(buckets, "PAUSES_S", (0.0, 0.001, 0.002))


@pytest.fixture
def bucket(monkeypatch, picture_folder):
    return Bucket.made(monkeypatch, picture_folder)


def packed(bucket, folder, url, classes=None):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for path in sorted(folder.iterdir()):
            if classes is None or path.name in classes:
                archive.add(path, path.name)
    bucket.content[url] = data.getvalue()


def test_a_url_is_known_by_its_scheme():
    assert is_bucket("s3://b/p") and is_bucket("https://host/x.tar")
    assert not any(map(is_bucket, ("/a/b", "a.tar", "~/x", "C:/x", "odd name://x")))


def test_samples_classes_and_order_are_those_of_the_folder(bucket, picture_folder, tmp_path):
    deeper = picture_folder / "class_1" / "a" / "b"
    deeper.mkdir(parents=True)
    (deeper / "00.jpg").write_bytes((picture_folder / "class_0" / "00.jpg").read_bytes())
    bucket.content[ROOT + "class_1/a/b/00.jpg"] = (deeper / "00.jpg").read_bytes()
    bucket.content |= {ROOT + "no_class.jpg": b"x", ROOT + "class_1/notes.txt": b"x", ROOT + "class_2/": b""}
    folder, found = seneca.ImageFolder(picture_folder), seneca.open(ROOT)
    assert found.classes == folder.classes and found.targets == folder.targets
    below = [path[len(str(picture_folder)) + 1 :] for path, _ in folder.samples]
    assert [path[len(ROOT) :] for path, _ in found.samples] == below
    assert [found.read(i) for i in (0, 20, 48)] == [folder.read(i) for i in (0, 20, 48)]
    assert seneca.open(ROOT.rstrip("/")).samples == found.samples, "with and without the slash"


def test_labels_of_ones_own_need_no_folders(bucket):
    bucket.content[ROOT + "7.jpg"] = b"x"
    found = seneca.open(ROOT, labels=lambda name: len(name))
    assert (found.samples[0], found.classes) == ((ROOT + "7.jpg", 5), [])


def test_what_is_not_there_or_too_large_is_named(bucket, monkeypatch):
    with pytest.raises(FileNotFoundError, match="has no folder of a class with pictures"):
        seneca.open("gs://bucket/empty/")
    with pytest.raises(FileNotFoundError, match="no object is called gs://bucket/train-"):
        seneca.open("gs://bucket/train-*.tar")
    monkeypatch.setattr(buckets, "MOST_BYTES", 10)
    with pytest.raises(SourceError, match=r"class_\d/\d+\.jpg has .* bytes, and a sample has at most 1 GiB"):
        seneca.open(ROOT)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("gs://bucket/x.zip", "zip archives are read on this host's storage only"),
        ("gs://me:secret@bucket/x.tar", "a name or password in a URL would be kept with the dataset"),
        (["gs://bucket/a/", "gs://bucket/b.tar"], "a list of URLs is to name .tar archives"),
        ("ftp://host/x.tar", "ftp:// is none of s3://"),
    ],
)
def test_what_cannot_be_opened_is_refused(bucket, source, says):
    with pytest.raises(SourceError, match=says) as error:
        seneca.open(source)
    assert "secret" not in str(error.value)


def test_urls_and_files_are_not_one_dataset(bucket, tmp_path):
    with pytest.raises(ValueError, match="either of URLs or of files"):
        seneca.open([ROOT, str(tmp_path / "x.tar")])


@pytest.mark.small(1)
@pytest.mark.parametrize("as_", ["one", "range", "pattern"])
def test_members_of_archives_are_pieces(bucket, picture_folder, as_):
    if as_ == "one":
        source = "gs://bucket/all.tar"
        packed(bucket, picture_folder, source)
    else:
        packed(bucket, picture_folder, "gs://bucket/t-00.tar", ("class_0", "class_1"))
        packed(bucket, picture_folder, "gs://bucket/t-01.tar", ("class_2", "class_3"))
        source = "gs://bucket/t-{00..01}.tar" if as_ == "range" else "gs://bucket/t-*.tar"
    folder, found = seneca.ImageFolder(picture_folder), seneca.open(source)
    assert (found.classes, found.targets) == (folder.classes, folder.targets)
    bucket.ranges.clear()
    assert [found.read(i) for i in range(48)] == [folder.read(i) for i in range(48)]
    assert [end - start for _, start, end in bucket.ranges] == [len(folder.read(i)) for i in range(48)]


def test_an_archive_is_listed_once_for_an_etag(bucket, picture_folder):
    url = "gs://bucket/all.tar"
    packed(bucket, picture_folder, url)
    first = seneca.open(url)
    asked = bucket.asked[url]
    assert asked > 0 and seneca.open(url).samples == first.samples and bucket.asked[url] == asked
    packed(bucket, picture_folder, url, ("class_0",))
    assert len(seneca.open(url)) == 12 and bucket.asked[url] > asked


def test_headers_of_large_members_are_read_without_the_members(bucket, monkeypatch):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for number in range(6):
            info = tarfile.TarInfo(f"class/{number}.jpg")
            info.size = 300_000
            archive.addfile(info, io.BytesIO(bytes(300_000)))
    bucket.content["gs://bucket/large.tar"] = data.getvalue()
    monkeypatch.setattr(buckets, "BLOCK", 50_000)
    listing = list_bucket(["gs://bucket/large.tar"], ListingOptions(ENDINGS))
    assert len(listing.names) == 6
    assert sum(end - start for _, start, end in bucket.ranges) < 300_000


def test_etags_sizes_and_names_make_the_fingerprint(bucket):
    first = seneca.open(ROOT).fingerprint()
    assert seneca.open(ROOT).fingerprint() == first
    elsewhere = {"gs://other/copy/" + url[len(ROOT) :]: data for url, data in bucket.content.items()}
    bucket.content |= elsewhere
    assert seneca.open("gs://other/copy/").fingerprint() == first, "a copy of equal etags is the same dataset"
    url = next(iter(bucket.content))
    bucket.content[url] = bucket.content[url][:-1] + b"\0"
    assert seneca.open(ROOT).fingerprint() != first


def test_it_pickles(bucket):
    found = seneca.open(ROOT, T.Compose([T.Resize((8, 8))]))
    again = pickle.loads(pickle.dumps(found))
    assert again.fingerprint() == found.fingerprint() and again.read(5) == found.read(5)


@pytest.mark.parametrize(
    "failure", [Refused(503), Refused(429), ConnectionResetError("reset"), TimeoutError()]
)
def test_what_may_pass_is_tried_again(bucket, failure):
    found = seneca.open(ROOT)
    url = found.samples[3][0]
    bucket.first[url] = [failure] * 3
    assert found.read(3) == bucket.content[url] and bucket.asked[url] == 4
    bucket.first[url] = [failure] * 4
    with pytest.raises(OSError, match="could not be fetched in 4 tries: ") as error:
        found.read(3)
    assert error.value.filename == url and bucket.asked[url] == 8
    assert isinstance(error.value, TimeoutError) == isinstance(failure, TimeoutError)


@pytest.mark.parametrize("cut", [lambda data: data[:-1], lambda data: data + b"x"])
def test_a_body_of_another_length_is_tried_again_and_named(bucket, cut):
    found = seneca.open(ROOT)
    url = found.samples[3][0]
    bucket.first[url] = [cut]
    assert found.read(3) == bucket.content[url] and bucket.asked[url] == 2
    bucket.first[url] = [cut] * 4
    with pytest.raises(OSError, match=r"in 4 tries: its answer has [\d,]+ of [\d,]+ bytes"):
        found.read(3)


@pytest.mark.parametrize(
    ("status", "kind", "number", "says"),
    [
        (
            403,
            PermissionError,
            errno.EACCES,
            r"may not be read by this process \(403\); give it credentials, as gcsfs",
        ),
        (404, FileNotFoundError, errno.ENOENT, r"is not there \(404\)"),
        (412, OSError, errno.ESTALE, "has changed since it was opened; open it again"),
        (400, OSError, errno.EIO, r"was refused by its server \(400\)"),
    ],
)
def test_what_no_try_mends_is_named_at_once(bucket, status, kind, number, says):
    found = seneca.open(ROOT)
    url = found.samples[3][0]
    bucket.first[url] = [Refused(status)]
    with pytest.raises(kind, match=says) as error:
        found.read(3)
    assert (error.value.errno, error.value.filename, bucket.asked[url]) == (number, url, 1)


def test_an_object_that_has_changed_is_no_other_sample(bucket):
    found = seneca.open(ROOT)
    url = found.samples[3][0]
    bucket.content[url] = bytes(len(bucket.content[url]))
    with pytest.raises(OSError, match="has changed since it was opened") as error:
        found.read(3)
    assert (error.value.errno, bucket.asked[url]) == (errno.ESTALE, 1)


def test_a_listing_is_tried_again_too(bucket):
    bucket.first[ROOT] = [Refused(503)]
    assert len(seneca.open(ROOT)) == 48 and bucket.asked[ROOT] == 2
    bucket.first[ROOT] = [Refused(403)]
    with pytest.raises(PermissionError, match="may not be read"):
        seneca.open(ROOT)


def test_a_sample_without_bytes_asks_for_none(bucket):
    bucket.content[ROOT + "class_0/empty.jpg"] = b""
    found = seneca.open(ROOT)
    at = [path for path, _ in found.samples].index(ROOT + "class_0/empty.jpg")
    assert found.read(at) == b"" and bucket.asked[ROOT + "class_0/empty.jpg"] == 0


def test_statuses_are_found_in_what_caused_an_error():
    class Botocore(Exception):
        response = {"ResponseMetadata": {"HTTPStatusCode": 403}}  # noqa: RUF012

    try:
        raise PermissionError("denied") from Botocore()
    except PermissionError as error:
        assert buckets._status(error) == 403
    assert buckets._status(ValueError()) is None


def test_pieces_are_read_by_those_who_measure(bucket):
    from seneca.data.files import files_of
    from seneca.tuning.storage import read_storage

    pieces = files_of(seneca.open(ROOT)).pieces()
    rates = read_storage(pieces, 0.05, readers=(1, 2), most_files=4)
    assert rates.cold and all(one.bytes_per_s > 0 for one in rates.readings)
    assert np.array_equal([len(piece.read()) for piece in pieces[:3]], [piece.length for piece in pieces[:3]])
    assert pieces[0].objects.fetch(0, 1, 2, Waiting()) == pieces[0].read()[1:3]
