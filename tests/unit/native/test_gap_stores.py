"""The gap between two epochs where files come from a bucket, or from the memory of other hosts."""

import shutil

import pytest
import torch
from audited_jobs import small_pictures
from bucket_in_memory import Bucket
from gap_loaders import CROP, alike, epoch, loader_of, prepared, validate
from redis_servers import RedisServer, needs_redis

import seneca
from seneca import transforms as T
from seneca.native import gap

COUNT = 48
FIRST = 12  # samples of the batches that are prepared
URL = "gs://bucket/train/"


@pytest.fixture(autouse=True)
def nothing_waits(monkeypatch):
    monkeypatch.setattr(gap, "_waiting", None)


@pytest.fixture
def pictures(tmp_path):
    return small_pictures(tmp_path / "pictures", COUNT)


@pytest.fixture
def bucket(monkeypatch, pictures):
    return Bucket.made(monkeypatch, pictures)


def of_bucket(pictures, **options):
    return shuffled(pictures, dataset=seneca.open(URL, T.Compose(CROP)), **options)


def shuffled(pictures, **options):
    return loader_of(pictures, generator=torch.Generator().manual_seed(1), **options)


def epochs(loader, count):
    """The batches of so many epochs, and how many samples were prepared before each."""
    batches, early = [], []
    for _ in range(count):
        batches += epoch(loader)
        early.append(loader.stats()["early"] - sum(early))
        prepared(loader)
        validate()
    return batches, early


def test_a_bucket_is_asked_in_advance_from_the_third_epoch_on(bucket, pictures):
    """Until then nobody knows whether another epoch comes, and requests may cost money."""
    batches, early = epochs(of_bucket(pictures), 4)
    assert early == [0, 0, FIRST, FIRST]
    assert alike(batches, epochs(shuffled(pictures), 4)[0])


def test_what_a_bucket_was_asked_for_in_advance_is_not_asked_for_again(bucket, pictures):
    loader = of_bucket(pictures)
    epochs(loader, 3)
    bucket.ranges.clear()
    batches = iter(loader)
    for _ in range(COUNT // 4):
        next(batches)
    assert len(bucket.ranges) == COUNT - FIRST  # the epoch after has not begun: this one has not ended


def test_an_object_that_has_changed_is_refused_in_the_place_of_its_batch(bucket, pictures):
    loader = of_bucket(pictures)
    epochs(loader, 2)
    prepared(loader)
    (changed,) = [url for url in bucket.content if url.endswith("00.jpg")][:1]
    bucket.content[changed] += b"more"
    validate()
    with pytest.raises(OSError, match="has changed since it was opened"):
        epoch(loader)
        prepared(loader)
        epoch(loader)


@needs_redis
def test_what_other_hosts_have_is_prepared_in_advance(bucket, pictures, tmp_path):
    with RedisServer(tmp_path / "redis") as server:
        epoch(of_bucket(pictures, remote=server.url))
        bucket.ranges.clear()
        loader = of_bucket(pictures, remote=server.url)
        batches, early = epochs(loader, 3)
        assert early == [0, 0, FIRST]
        assert loader.stats()["remote"][server.name]["wrong"] == 0
        assert bucket.ranges == [], "the server has all"
        assert alike(batches, epochs(of_bucket(pictures), 3)[0])


@needs_redis
def test_a_server_that_goes_in_the_gap_costs_no_sample(bucket, pictures, tmp_path):
    with RedisServer(tmp_path / "redis") as server:
        epoch(of_bucket(pictures, remote=server.url))
        loader = of_bucket(pictures, remote=server.url)
        batches, _ = epochs(loader, 2)
        alone = of_bucket(pictures)
        wanted, _ = epochs(alone, 2)
        server.process.kill()
        assert alike([*batches, *epoch(loader)], [*wanted, *epoch(alone)])


@needs_redis
def test_a_file_that_hosts_share_and_that_changes_in_the_gap_is_read_anew(pictures, tmp_path):
    with RedisServer(tmp_path / "redis") as server:
        epoch(shuffled(pictures, remote=server.url))
        loader, alone = (shuffled(pictures, remote=remote) for remote in (server.url, False))
        assert alike(epochs(loader, 1)[0], epochs(alone, 1)[0])
        first = loader._gap._early.batches[0].batch.indices[0]
        path, other = (loader.dataset.samples[index][0] for index in (first, (first + 1) % COUNT))
        shutil.copyfile(other, path)
        assert alike(epoch(loader), epoch(alone))
        assert loader.stats()["early"] == 0
