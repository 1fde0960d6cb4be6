"""Threads that fetch take places by ticket, until their stream is closed. What is damaged is fetched too."""

import threading

import pytest
import torch
from bucket_in_memory import Bucket
from test_damaged_payloads import ENCODED, damage, wipe_end

import seneca
from seneca import transforms as T
from seneca._core.fetches import fetched, next_fetch, not_fetched
from seneca._core.pool import READS_AHEAD, StreamClosed

CROP = T.Compose([T.RandomResizedCrop(32), T.ToTensor()])


class ByHand:
    """In place of the loader's fetcher: the test brings the bytes."""

    streams = []  # noqa: RUF012

    def __init__(self, stream, objects, asks_hosts):
        self.streams.append(stream)

    def start(self):
        self.ended = False

    def end(self):
        self.ended = True


@pytest.fixture
def bucket(monkeypatch, picture_folder):
    monkeypatch.setattr("seneca.native.iterator.Fetchers", ByHand)
    yield Bucket.made(monkeypatch, picture_folder)
    ByHand.streams.clear()


@pytest.fixture
def dataset(bucket):
    return seneca.open("gs://bucket/train/", CROP)


def loader_of(dataset, **options):
    options = {"batch_size": 8, "cache": None, "num_workers": 1} | options
    return seneca.DataLoader(dataset, **options, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def under_way():
    """Begins an epoch, whose first batch a thread waits for; its stream. What came of that is in a list."""
    threads = []

    def begin(loader):
        batches, came = iter(loader), []

        def waits():
            try:
                came.append(next(batches, None))
            except OSError as error:
                came.append(error)

        threads.append(threading.Thread(target=waits))
        threads[-1].start()
        return ByHand.streams[-1], came, threads[-1]

    yield begin
    for stream in ByHand.streams:
        stream.close()
    for thread in threads:
        thread.join()


def bring(stream, dataset):
    """Bring everything until the stream is closed; which samples were wanted."""
    wanted = []
    try:
        while True:
            one = next_fetch(stream, 50)
            if one is not None:
                ticket, (sample,), *_ = one  # each is an object of its own, and has no neighbours
                wanted.append(sample)
                assert fetched(stream, ticket, dataset.read(sample))
    except StreamClosed:
        return wanted


def epoch(loader, dataset):
    """The batches of an epoch, and which samples were fetched for it."""
    known, asked = len(ByHand.streams), []
    threads, done = [], threading.Event()

    def brings():
        while len(ByHand.streams) == known and not done.is_set():
            done.wait(0.001)
        asked.extend(bring(ByHand.streams[known], dataset))

    for _ in range(3):
        threads.append(threading.Thread(target=brings))
        threads[-1].start()
    images = torch.cat([images for images, _ in loader])
    done.set()
    for thread in threads:
        thread.join()
    return images, sorted(asked)


@pytest.mark.small(1)
@pytest.mark.parametrize("workers", [0, 1, 3])
def test_each_sample_is_wanted_once_with_its_place(dataset, picture_folder, workers):
    images, wanted = epoch(loader_of(dataset, num_workers=workers, shuffle=True), dataset)
    assert wanted == list(range(48))
    folder = loader_of(seneca.ImageFolder(picture_folder, CROP), num_workers=workers, shuffle=True)
    assert torch.equal(images, torch.cat([images for images, _ in folder]))


def test_what_is_wanted_says_where_it_is(dataset, under_way):
    stream, *_ = under_way(loader_of(dataset))
    ticket, (sample,), container, offset, length = next_fetch(stream, 10_000)
    assert (container, offset, length) == (sample, 0, len(dataset.read(sample)))
    assert next_fetch(stream, 10_000)[0] != ticket


def test_a_ticket_is_good_once_and_one_that_was_never_given_is_not(dataset, under_way):
    stream, *_ = under_way(loader_of(dataset))
    ticket, (sample,), *_ = next_fetch(stream, 10_000)
    assert fetched(stream, ticket, dataset.read(sample))
    assert not fetched(stream, ticket, b"another's") and not fetched(stream, 10**9, b"nobody's")
    with pytest.raises(ValueError, match="is no number of an error"):
        not_fetched(stream, ticket, 0, "")


def test_a_closed_stream_wants_nothing_and_wakes_those_who_wait(dataset, under_way):
    stream, came, consumer = under_way(loader_of(dataset))
    ended, held = [], next_fetch(stream, 10_000)

    def waits():
        with pytest.raises(StreamClosed):
            while True:
                next_fetch(stream, 600_000)
        ended.append(True)

    threads = [threading.Thread(target=waits) for _ in range(3)]
    for thread in threads:
        thread.start()
    stream.close()
    for thread in threads:
        thread.join()
    assert ended == [True] * 3
    with pytest.raises(StreamClosed):
        fetched(stream, held[0], b"too late")
    consumer.join()
    assert came == [None], "the epoch is over"


def test_why_bytes_did_not_come_is_the_sample_s_error(dataset, under_way):
    stream, came, consumer = under_way(loader_of(dataset))
    for _ in range(8):
        ticket, (sample,), *_ = next_fetch(stream, 10_000)
        if sample == 3:
            not_fetched(stream, ticket, 13, "may not be read, w\u00fcrde man sagen")
        else:
            fetched(stream, ticket, dataset.read(sample))
    consumer.join()
    [error] = came
    assert isinstance(error, PermissionError) and "w\u00fcrde man sagen" in str(error)
    assert error.filename == dataset.samples[3][0]


def test_files_ahead_are_limited_in_number(bucket, under_way):
    """Of a batch that is larger, while nothing is known of storage yet."""
    for url, data in list(bucket.content.items()):
        bucket.content[url.replace("class_", "class_9")] = data
    dataset = seneca.open("gs://bucket/train/", CROP)
    stream, *_ = under_way(loader_of(dataset, batch_size=96))
    tickets = [next_fetch(stream, 10_000)[0] for _ in range(READS_AHEAD)]
    assert next_fetch(stream, 20) is None
    fetched(stream, tickets[0], dataset.read(0))
    assert next_fetch(stream, 10_000) is not None


@pytest.mark.small(1)
@pytest.mark.parametrize("workers", [0, 2])
def test_a_payload_that_is_damaged_is_fetched(dataset, picture_folder, name, workers):
    whole = seneca.open("gs://bucket/train/", T.Compose([T.Resize((16, 20))]))
    options = {"cache": name, "cache_bytes": "8MiB", "split": "100-0-0", "check_every": None}
    loader = loader_of(whole, num_workers=workers, **options)
    assert epoch(loader, dataset)[1] == list(range(48))
    assert epoch(loader, dataset)[1] == [], "all of them are in the cache"
    assert damage(name, ENCODED, wipe_end) == 48
    images, wanted = epoch(loader, dataset)
    assert wanted == list(range(48)) and loader.stats()["damaged"] == 48
    folder = seneca.ImageFolder(picture_folder, T.Compose([T.Resize((16, 20))]))
    assert all(torch.equal(image, folder[index][0]) for index, image in enumerate(images))


@pytest.mark.small(1)
@pytest.mark.parametrize("workers", [0, 2])
def test_samples_that_are_checked_are_fetched_for_that(dataset, name, workers):
    options = {"cache": name, "cache_bytes": "8MiB", "split": "100-0-0", "check_every": 4}
    loader = loader_of(dataset, num_workers=workers, **options)
    epoch(loader, dataset)
    _, wanted = epoch(loader, dataset)
    assert len(wanted) == loader.stats()["checked"] == 12 and loader.stats()["different"] == 0
