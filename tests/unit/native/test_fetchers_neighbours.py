"""Members of an archive in a bucket that lie beside each other come by one request, as if each came alone."""

import io
import tarfile

import pytest
import torch
from bucket_in_memory import Bucket, Refused
from redis_servers import RedisServer, needs_redis

import seneca
from seneca import transforms as T
from seneca.data.sources import buckets

CROP = T.Compose([T.RandomResizedCrop(32), T.ToTensor()])
URL = "gs://bucket/train.tar"
GAP = 2**16
COUNT = 48
REQUEST = 2**20


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(buckets, "PAUSES_S", (0.0, 0.001, 0.002))


def archive_of(folder, *, between=0):
    """The folder as a tar; ``between`` its pictures lie members that nobody wants, of so many bytes."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path in sorted(folder.rglob("*.jpg")):
            archive.add(path, path.relative_to(folder).as_posix())
            if between:
                filler = tarfile.TarInfo(f"{path.stem}.bin")
                filler.size = between
                archive.addfile(filler, io.BytesIO(bytes(between)))
    return packed.getvalue()


@pytest.fixture
def opened(monkeypatch, picture_folder, tmp_path):
    """Opens the pictures as an archive in a bucket, and forgets how it was listed."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "lists"))

    def open_(**options):
        bucket = Bucket.made(monkeypatch)
        bucket.content[URL] = archive_of(picture_folder, **options)
        dataset = seneca.open(URL, CROP)
        bucket.ranges.clear()
        return bucket, dataset

    return open_


def loader_of(dataset, **options):
    options = {"batch_size": 8, "cache": None, "num_workers": 1} | options
    return seneca.DataLoader(dataset, **options, generator=torch.Generator().manual_seed(1))


def images_of(loader):
    return torch.cat([images.clone() for images, _ in loader])


def lengths(dataset):
    return [len(dataset.read(index)) for index in range(len(dataset))]


@pytest.mark.small(1)
@pytest.mark.parametrize("workers", [0, 2])
def test_an_epoch_in_the_archive_s_order_needs_few_requests(opened, picture_folder, workers):
    bucket, dataset = opened()
    images = images_of(loader_of(dataset, num_workers=workers))
    assert torch.equal(images, images_of(loader_of(seneca.ImageFolder(picture_folder, CROP))))
    assert len(bucket.ranges) <= COUNT // 8, "a request for a batch, or fewer"
    fetched = sum(end - start for _, start, end in bucket.ranges)
    assert fetched < len(bucket.content[URL]), "each member once"
    assert max(end - start for _, start, end in bucket.ranges) <= REQUEST


def test_stats_count_the_members_and_no_gaps(opened):
    _, dataset = opened(between=1000)
    loader = loader_of(dataset)
    images_of(loader)
    assert loader.stats()["read_bytes"] == sum(lengths(dataset))


@pytest.mark.small(1)
@pytest.mark.parametrize("batch_size", [8, 24])
def test_a_shuffled_epoch_fetches_each_member_and_64_KiB_more_a_request_at_the_most(
    opened, picture_folder, batch_size
):
    bucket, dataset = opened(between=20_000)
    options = {"shuffle": True, "batch_size": batch_size}
    images = images_of(loader_of(dataset, **options))
    assert torch.equal(images, images_of(loader_of(seneca.ImageFolder(picture_folder, CROP), **options)))
    ranges = list(bucket.ranges)
    wanted = sum(lengths(dataset))
    fetched = sum(end - start for _, start, end in ranges)
    assert wanted < fetched <= wanted + GAP * len(ranges), "some are neighbours"
    assert len(ranges) < COUNT


@pytest.mark.small(1)
@pytest.mark.parametrize("between, are_joined", [(GAP - 10_000, True), (GAP, False)])
def test_members_are_neighbours_up_to_64_KiB_apart(opened, between, are_joined):
    bucket, dataset = opened(between=between)
    images_of(loader_of(dataset))
    assert (len(bucket.ranges) < COUNT) == are_joined
    if not are_joined:
        assert sorted(end - start for _, start, end in bucket.ranges) == sorted(lengths(dataset))


def refuse_what_covers(bucket, monkeypatch, at, status):
    whole = bucket.get

    def get(found, start, end, waiting):
        if start <= at < end:
            bucket.ranges.append((found.url, start, end))
            raise Refused(status)
        return whole(found, start, end, waiting)

    monkeypatch.setattr(bucket, "get", get)


@pytest.mark.small(1)
@pytest.mark.parametrize("status, why", [(500, "could not be fetched in 4 tries"), (400, "was refused by")])
def test_one_member_that_cannot_be_fetched_takes_no_neighbour_with_it(opened, monkeypatch, status, why):
    bucket, dataset = opened()
    at = int(dataset.listing.pieces["offset"][5])
    refuse_what_covers(bucket, monkeypatch, at, status)
    with pytest.raises(OSError, match=why) as error:
        images_of(loader_of(dataset))
    member = dataset.samples[5][0]
    assert error.value.filename == member and member.endswith(".jpg") and URL in member
    with pytest.warns(seneca.SenecaWarning, match="skipped a sample that cannot be read"):
        loader = loader_of(dataset, on_error="skip")
        delivered = [int(index) for _ in loader for index in loader.last_indices]
    assert sorted(delivered) == [index for index in range(COUNT) if index != 5]
    assert loader.stats()["skipped"] == 1


def test_an_answer_that_helps_at_the_second_try_is_asked_for_together_again(opened):
    bucket, dataset = opened()
    bucket.first[URL] = [Refused(503), Refused(503), lambda data: data[:-1]]
    assert len(images_of(loader_of(dataset))) == COUNT
    assert len(bucket.ranges) <= 3 + COUNT // 8


def test_an_archive_that_changes_in_an_epoch_is_named(opened):
    bucket, dataset = opened()
    batches = iter(loader_of(dataset))
    next(batches)
    bucket.content[URL] = bytes(len(bucket.content[URL]))
    with pytest.raises(OSError, match="has changed since it was opened"):
        list(batches)


def test_a_sample_that_comes_twice_is_fetched_once(opened):
    bucket, dataset = opened()
    images_of(loader_of(dataset, sampler=[3, 3, 4, 4, 3, 4, 3, 4], batch_size=8))
    [(_, start, end)] = bucket.ranges
    assert end - start < sum(lengths(dataset)[3:5]) + 2048


@pytest.mark.small(1)
@needs_redis
@pytest.mark.parametrize("between", [0, 30_000])
def test_what_other_hosts_have_is_not_fetched_and_may_part_neighbours(opened, tmp_path, between):
    bucket, dataset = opened(between=between)
    with RedisServer(tmp_path / "redis") as server:
        images_of(loader_of(dataset, sampler=range(0, COUNT, 2), remote=server.url))
        bucket.ranges.clear()
        alone = images_of(loader_of(dataset, remote=False))
        bucket.ranges.clear()
        loader = loader_of(dataset, remote=server.url)
        assert torch.equal(images_of(loader), alone)
        counts = loader.stats()["remote"][server.name]
        ranges, read = list(bucket.ranges), loader.stats()["read_bytes"]
        assert server.ask("DBSIZE") == f":{COUNT}"
    of = lengths(dataset)
    assert read == sum(of[1::2])
    assert counts["wrong"] == 0 and counts["hits"] >= COUNT // 2
    fetched = sum(end - start for _, start, end in ranges)
    assert fetched <= sum(of[1::2]) + GAP * len(ranges)
    if between:
        assert len(ranges) == COUNT // 2, "what lies between two of them is more than 64 KiB"
    else:
        assert len(ranges) <= COUNT // 4
