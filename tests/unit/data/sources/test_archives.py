"""Archives as lists of samples with labels; what was listed is kept."""

import io
import os
import random
import tarfile
import zipfile

import numpy as np
import pytest
from sizes import size

from seneca._runtime.warn import SenecaWarning
from seneca.data.sources import archives, kept_arrays
from seneca.data.sources.archives import list_archives
from seneca.data.sources.source import ListingOptions
from seneca.errors import SourceError

JPEG = (".jpg",)
JPEGS = ListingOptions(JPEG)


@pytest.fixture(autouse=True)
def cache_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def write(path, contents):
    with tarfile.open(path, "w") as archive:
        for name, data in contents.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return str(path)


def bytes_of(listing):
    found = []
    for offset, length, container in listing.pieces.tolist():
        with open(listing.containers[container], "rb") as file:
            file.seek(offset)
            found.append(file.read(length))
    return found


def test_folders_are_classes_in_the_order_of_an_image_folder(tmp_path):
    names = ["root/b/2.jpg", "root/a/9.jpg", "root/b/10.jpg", "root/a/1.JPG", "root/a/notes.txt"]
    path = write(tmp_path / "some.tar", {name: name.encode() for name in names})
    listing = list_archives(path, JPEGS)
    assert listing.names == ["root/a/1.JPG", "root/a/9.jpg", "root/b/10.jpg", "root/b/2.jpg"]
    assert (listing.labels, listing.classes) == ([0, 0, 1, 1], ["a", "b"])
    assert bytes_of(listing) == [name.encode() for name in listing.names]


@pytest.mark.small(1)
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_any_order_of_members_gives_the_order_of_folders(tmp_path, depth):
    """Names with characters that sort before and after a slash, and nested folders."""
    chance = random.Random(depth)
    words = ["a", "a-b", "a.b", "ab", "b", "ü", "\U0001f600"]
    for number in range(size(30, 1000)):
        count = chance.randint(2, 6)
        made = {"/".join(chance.choices(words, k=chance.randint(2, 1 + depth))) for _ in range(count)}
        made = {f"{name}.jpg" for name in made}
        names = sorted(made)
        if number % 2:
            chance.shuffle(names)
        path = write(tmp_path / f"{depth} {number}.tar", {name: name.encode() for name in names})
        listing = list_archives(path, JPEGS)
        assert listing.names == sorted(names, key=lambda name: name.rpartition("/"))
        assert bytes_of(listing) == [name.encode() for name in listing.names]
        kinds = [name.split("/")[-2] for name in listing.names]
        assert listing.classes == sorted(set(kinds))
        assert [listing.classes[label] for label in listing.labels] == kinds


def test_shards_of_web_dataset_have_labels_beside_the_pictures(tmp_path):
    for shard in range(3):
        contents = {}
        for number in range(4):
            key = f"{shard}{number}"
            contents |= {
                f"{key}.cls": str(100 - number).encode(),
                f"{key}.seg.jpg": b"s",
                f"{key}.jpg": key.encode(),
            }
        write(tmp_path / f"train-{shard:03d}.tar", contents)
    for source in (str(tmp_path / "train-{000..002}.tar"), str(tmp_path / "train-*.tar")):
        listing = list_archives(source, JPEGS)
        assert [os.path.basename(path) for path in listing.containers] == [
            f"train-{n:03d}.tar" for n in range(3)
        ]
        assert (
            listing.labels == [label for n in range(4) for label in [100 - n] * 2] * 3 and not listing.classes
        )
        assert bytes_of(listing)[1::2] == [f"{shard}{n}".encode() for shard in range(3) for n in range(4)]


def test_a_function_of_the_name_gives_labels(tmp_path):
    path = write(tmp_path / "some.tar", {f"{n}_cat.jpg": b"" for n in range(3)})
    listing = list_archives(path, ListingOptions(JPEG, lambda name: int(name[0]) * 7))
    assert listing.labels == [0, 7, 14]


@pytest.mark.parametrize(
    ("contents", "says"),
    [
        ({"a.jpg": b""}, r"has no labels: a.jpg lies in no folder.*give labels="),
        ({"a.jpg": b"", "a.cls": b"1", "b.jpg": b""}, r"b.jpg has no member b.cls with its label"),
        ({"a.jpg": b"", "a.cls": b"cat"}, r"a.cls is to hold a whole number, but holds b'cat'"),
        ({"a.jpg": b"", "a.cls": b"9" * 19}, r"a.cls is to hold a whole number, but holds b'999"),
        ({"a.jpg": b"", "a.cls": b"9" * 21}, r"a.cls is to hold a whole number, but holds b'999"),
        ({"a.jpg": b"", "a.cls": b" " * 20 + b"15"}, r"a.cls is to hold a whole number, but holds b' "),
    ],
)
def test_without_labels_it_says_what_to_do(tmp_path, contents, says):
    with pytest.raises(SourceError, match=says):
        list_archives(write(tmp_path / "some.tar", contents), JPEGS)


def test_what_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none-\*.tar"):
        list_archives(str(tmp_path / "none-*.tar"), JPEGS)
    with pytest.raises(FileNotFoundError, match=r"no pictures in .*some.tar: no member ends in .jpg"):
        list_archives(write(tmp_path / "some.tar", {"a/b.txt": b""}), JPEGS)
    with pytest.raises(FileNotFoundError, match=r"a list of no archives"):
        list_archives([], JPEGS)


def test_what_was_listed_is_kept_until_the_archive_changes(tmp_path, monkeypatch):
    path = write(tmp_path / "some.tar", {"a/ü.jpg": b"1", "b/2.jpg": b"22", "a/ü.cls": b"5", "b/2.cls": b"6"})
    listed, real = [], archives._listed
    monkeypatch.setattr(archives, "_listed", lambda *args: listed.append(1) or real(*args))
    first = list_archives(path, JPEGS)
    again = list_archives(path, JPEGS)
    assert len(listed) == 1
    assert (again.names, again.labels, again.classes) == (first.names, first.labels, first.classes)
    assert np.array_equal(again.pieces, first.pieces) and np.array_equal(again.stated, first.stated)

    write(path, {"a/3.jpg": b"333"})
    assert list_archives(path, JPEGS).names == ["a/3.jpg"] and len(listed) == 2

    (kept, _) = sorted((tmp_path / "cache" / "seneca" / "archives").iterdir(), key=os.path.getmtime)[::-1]
    kept.write_bytes(kept.read_bytes()[:40])
    assert list_archives(path, JPEGS).names == ["a/3.jpg"] and len(listed) == 3, "damaged: listed again"


def test_a_kept_list_is_not_taken_for_that_of_another_archive_of_equal_size_and_time(tmp_path):
    path = write(tmp_path / "some.tar", {"a/1.jpg": b"1", "a/2.jpg": b"22"})
    os.utime(path, (1, 1))
    assert bytes_of(list_archives(path, JPEGS)) == [b"1", b"22"]
    other = write(tmp_path / "other.tar", {"a/2.jpg": b"22", "a/1.jpg": b"1"})
    with open(path, "r+b") as file, open(other, "rb") as new:
        file.write(new.read())
    os.utime(path, (1, 1))
    assert bytes_of(list_archives(path, JPEGS)) == [b"1", b"22"], "rewritten in place"
    os.replace(write(tmp_path / "third.tar", {"a/1.jpg": b"1", "a/3.jpg": b"33"}), path)
    os.utime(path, (1, 1))
    assert bytes_of(list_archives(path, JPEGS)) == [b"1", b"33"], "replaced"


def test_a_kept_list_with_one_wrong_byte_is_made_again(tmp_path):
    path = write(tmp_path / "some.tar", {"a/1.jpg": b"1"})
    list_archives(path, JPEGS)
    (kept,) = (tmp_path / "cache" / "seneca" / "archives").iterdir()
    data = bytearray(kept.read_bytes())
    for at in random.sample(range(len(data)), 20):
        kept.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        assert list_archives(path, JPEGS).names == ["a/1.jpg"]
        assert kept.read_bytes() == data, "made again"


def test_where_nothing_can_be_kept_archives_are_listed_each_time(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    path = write(tmp_path / "some.tar", {"a/1.jpg": b"1"})
    assert list_archives(path, JPEGS).names == list_archives(path, JPEGS).names == ["a/1.jpg"]


def test_a_list_that_another_user_could_have_written_is_not_believed(tmp_path):
    path = write(tmp_path / "some.tar", {"a/1.jpg": b"1"})
    (tmp_path / "cache" / "seneca" / "archives").mkdir(parents=True)
    (tmp_path / "cache" / "seneca" / "archives").chmod(0o777)
    with pytest.warns(SenecaWarning, match="archives may be changed by other users: its mode is 0777; give"):
        assert list_archives(path, JPEGS).names == ["a/1.jpg"]
    assert not list((tmp_path / "cache" / "seneca" / "archives").iterdir())


def test_several_kinds_of_archives_are_one_dataset(tmp_path):
    tar = write(tmp_path / "one.tar", {"a/1.jpg": b"one"})
    with zipfile.ZipFile(tmp_path / "two.zip", "w") as archive:
        archive.writestr("b/2.jpg", b"two")
    listing = list_archives([tar, str(tmp_path / "two.zip")], JPEGS)
    assert bytes_of(listing) == [b"one", b"two"] and listing.classes == ["a", "b"]


def test_a_folder_that_lies_in_several_archives_is_sorted_as_one(tmp_path):
    parts = [["a/1.jpg", "b/4.jpg"], ["a/3.jpg", "a/2.jpg", "c/5.jpg"], ["x.txt"]]
    sources = [
        write(tmp_path / f"{n}.tar", {name: name.encode() for name in names}) for n, names in enumerate(parts)
    ]
    listing = list_archives(sources, JPEGS)
    assert listing.names == ["a/1.jpg", "a/2.jpg", "a/3.jpg", "b/4.jpg", "c/5.jpg"]
    assert (listing.labels, listing.classes) == ([0, 0, 0, 1, 2], ["a", "b", "c"])
    assert bytes_of(listing) == [name.encode() for name in listing.names]


def test_one_archive_with_labels_and_one_without(tmp_path):
    one = write(tmp_path / "one.tar", {"a/1.jpg": b"", "a/1.cls": b"7"})
    other = write(tmp_path / "other.tar", {"a/2.jpg": b""})
    with pytest.raises(SourceError, match=r"other.tar: a/2.jpg has no member a/2.cls with its label"):
        list_archives([one, other], JPEGS)


def test_a_kept_list_whose_parts_do_not_fit_is_made_again(tmp_path):
    path = write(tmp_path / "some.tar", {"b/1.jpg": b"1", "a/2.jpg": b"22"})
    expected = list_archives(path, JPEGS)
    (kept,) = (tmp_path / "cache" / "seneca" / "archives").iterdir()
    sound = dict(kept_arrays.opened(kept).arrays)
    for name, damaged in {
        "order": sound["order"] + 2,
        "folder_of": sound["folder_of"] + 9,
        "offsets": sound["offsets"][:1],
        "names_end": sound["names_end"] + 1,
        "labels": np.zeros(1, np.int64),
    }.items():
        kept_arrays.keep(kept, {}, sound | {name: damaged})
        found = list_archives(path, JPEGS)
        assert (found.names, found.labels) == (expected.names, expected.labels), name
        assert np.array_equal(found.pieces, expected.pieces), name


def overwrite(path, content):
    """Write an archive anew in place, with its size and time set back."""
    before = os.stat(path)
    with open(path, "r+b") as file:
        file.write(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert os.path.getsize(path) == before.st_size


def content_of(tmp_path, contents):
    with open(write(tmp_path / "another.tar", contents), "rb") as file:
        return file.read()


def test_archives_that_are_one_dataset_are_listed_again_one_by_one(tmp_path):
    parts = [["a/1.jpg", "b/4.jpg"], ["a/3.jpg", "a/2.jpg", "c/5.jpg"], ["x.txt"]]
    sources = [
        write(tmp_path / f"{n}.tar", {name: name.encode() for name in names}) for n, names in enumerate(parts)
    ]
    listing = list_archives(sources, JPEGS)
    assert listing.ctimes.tolist() == [os.stat(path).st_ctime_ns for path in sources]
    assert all(map(listing.holds, range(3)))
    overwrite(sources[1], content_of(tmp_path, {name: b"new" for name in parts[1]}))
    assert listing.holds(0) and not listing.holds(1), "these are shorter"
    overwrite(sources[0], content_of(tmp_path, {"a/1.jpg": b"another", "c/4.jpg": b"another"}))
    assert not listing.holds(0), "another class"


def test_a_label_beside_a_picture_is_part_of_what_an_archive_holds(tmp_path):
    contents = {"1.jpg": b"1", "1.cls": b"5", "2.jpg": b"2", "2.cls": b"6"}
    path = write(tmp_path / "some.tar", contents)
    listing, own = list_archives(path, JPEGS), list_archives(path, ListingOptions(JPEG, len))
    overwrite(path, content_of(tmp_path, contents | {"1.jpg": b"9"}))
    assert listing.holds(0) and own.holds(0)
    overwrite(path, content_of(tmp_path, contents | {"1.cls": b"7"}))
    assert not listing.holds(0) and own.holds(0), "a function gives labels by names, which are the same"
