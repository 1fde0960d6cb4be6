"""Loaders of pictures in buckets: batches are the folder's, and closing waits for no request."""

import gc
import threading
import time

import pytest
import torch
from bucket_in_memory import Bucket, Refused

import seneca
from seneca import transforms as T
from seneca.data.sources import buckets, stores

CROP = T.Compose([T.RandomResizedCrop(32), T.ToTensor()])
URL = "gs://bucket/train/"


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(buckets, "PAUSES_S", (0.0, 0.001, 0.002))
    gc.collect()  # iterators that an error's traceback held


@pytest.fixture
def bucket(monkeypatch, picture_folder):
    return Bucket.made(monkeypatch, picture_folder)


def loader_of(dataset, **options):
    options = {"batch_size": 8, "cache": None, "num_workers": 1, "shuffle": True} | options
    return seneca.DataLoader(dataset, **options, generator=torch.Generator().manual_seed(1))


def images_of(loader):
    return torch.cat([images.clone() for images, _ in loader])


def fetchers():
    return [thread for thread in threading.enumerate() if thread.name == "seneca-fetch"]


@pytest.mark.small(1)
@pytest.mark.parametrize("workers", [0, 2])
def test_batches_are_those_of_the_folder(bucket, picture_folder, workers):
    loader = loader_of(seneca.open(URL, CROP), num_workers=workers)
    assert loader.explain().startswith("native: PictureArchive")
    folder = loader_of(seneca.ImageFolder(picture_folder, CROP), num_workers=workers)
    for _ in range(2):
        assert torch.equal(images_of(loader), images_of(folder))
    assert loader.stats()["read_bytes"] == 2 * sum(map(len, bucket.content.values()))
    assert not fetchers()


def test_requests_run_beside_each_other_but_64_at_the_most(bucket, picture_folder):
    bucket.content |= {
        f"{URL}class_9/{i:03}.jpg": (picture_folder / "class_0" / "00.jpg").read_bytes() for i in range(300)
    }
    images_of(loader_of(seneca.open(URL, CROP), batch_size=150))
    assert 4 <= bucket.most_at_a_time <= 64


def test_jobs_share_a_cache_and_fetch_each_sample_once(bucket, name):
    options = {"cache": name, "cache_bytes": "8MiB", "share": "decoded", "split": "100-0-0"}
    ours, theirs = (loader_of(seneca.open(URL, CROP), job=job, **options) for job in ("a", "b"))
    for loader in (ours, theirs, ours):
        assert sorted(torch.cat([labels for _, labels in loader]).tolist()) == sorted([0, 1, 2, 3] * 12)
    checked = sum(loader.stats()["checked"] for loader in (ours, theirs))  # those are fetched once more
    assert sum(bucket.asked[url] for url in bucket.content) == 48 + checked
    assert "size and etag of these objects" in ours.explain()


def test_what_is_no_jpeg_is_fetched_once_and_decoded_by_pillow(monkeypatch, picture_folder):
    from PIL import Image

    for path in list(picture_folder.rglob("*.jpg"))[:7]:
        Image.open(path).save(path.with_suffix(".bmp"))
        path.unlink()
    bucket = Bucket.made(monkeypatch, picture_folder)
    for workers in (0, 2):
        bucket.asked.clear()
        images = images_of(loader_of(seneca.open(URL, CROP), num_workers=workers))
        assert torch.equal(images, images_of(loader_of(seneca.ImageFolder(picture_folder, CROP))))
        assert {bucket.asked[url] for url in bucket.content} == {1}


@pytest.mark.small(1)
@pytest.mark.parametrize("workers", [0, 2])
def test_an_object_that_changes_in_an_epoch_is_named(bucket, workers):
    batches = iter(loader_of(seneca.open(URL, CROP), num_workers=workers, shuffle=False))
    next(batches)
    url = URL + "class_3/11.jpg"
    bucket.content[url] = bucket.content[URL + "class_0/00.jpg"]
    with pytest.raises(OSError, match="has changed since it was opened") as error:
        list(batches)
    assert error.value.filename == url


def test_bad_objects_can_be_skipped(bucket):
    bad = URL + "class_0/00.jpg"
    dataset = seneca.open(URL, CROP)
    bucket.first[bad] = [Refused(403)]
    with pytest.warns(seneca.SenecaWarning, match="skipped a sample that cannot be read.*may not be read"):
        assert len(images_of(loader_of(dataset, on_error="skip"))) == 47


def test_an_error_that_nobody_has_thought_of_ends_no_wait_for_ever(bucket, monkeypatch):
    def fails(*_):
        raise ZeroDivisionError("of a library")

    dataset = seneca.open(URL, CROP)
    monkeypatch.setattr(buckets.Objects, "fetch", fails)
    with pytest.raises(OSError, match="ZeroDivisionError: of a library"):
        images_of(loader_of(dataset))


@pytest.mark.small(1)
@pytest.mark.parametrize("workers", [0, 1])
def test_closing_in_an_epoch_leaves_no_thread_and_no_request(bucket, workers):
    batches = iter(loader_of(seneca.open(URL, CROP), num_workers=workers))
    next(batches)
    assert fetchers()
    del batches
    gc.collect()
    assert not fetchers()
    until = time.monotonic() + 60
    while bucket.at_a_time and time.monotonic() < until:
        time.sleep(0.001)
    assert bucket.at_a_time == 0


@pytest.mark.small(1)
@pytest.mark.parametrize("hangs", [True, "for ever"])
def test_a_server_that_hangs_holds_up_no_closing(bucket, hangs):
    """A wait can be given up, or not even that: threads end when they come back, and bring nothing."""
    bucket.hangs = hangs
    batches, came = iter(loader_of(seneca.open(URL, CROP))), []
    consumer = threading.Thread(target=lambda: came.append(next(batches, None)))
    consumer.start()
    until = time.monotonic() + 60
    while bucket.at_a_time < 24 and time.monotonic() < until:
        time.sleep(0.001)
    assert bucket.at_a_time == 24, "three batches are under way"
    batches._close()
    consumer.join()
    assert came == [None] and bool(fetchers()) == (hangs == "for ever")
    bucket.released.set()
    for thread in fetchers():
        thread.join()


def in_python(picture):
    return torch.tensor(picture.size)


def test_worker_processes_read_for_themselves(bucket, picture_folder, monkeypatch, name):
    monkeypatch.setitem(stores.KINDS, "gs", lambda scheme: bucket)
    options = {"cache": name, "cache_bytes": "16MiB", "num_workers": 2, "multiprocessing_context": "fork"}
    loader = loader_of(seneca.open(URL, in_python), **options)
    assert loader.explain().startswith("staged"), loader.explain()
    folder = loader_of(seneca.ImageFolder(picture_folder, in_python), num_workers=0)
    assert sorted(map(tuple, images_of(loader).tolist())) == sorted(map(tuple, images_of(folder).tolist()))
    assert not bucket.asked.keys() & bucket.content.keys(), "this process has read none"
