"""Growth: one process reserves the rest of a cache, another goes on where it was killed."""

import os
import threading
import time
import warnings

import pytest
import ready
import torch
from engine import Place, Process

import seneca
from seneca import SampleCache, SenecaWarning
from seneca._core.segment import GRANULE
from seneca._runtime.memory import Limit
from seneca.cache import growth, sample_cache
from seneca.cache.growth import Growth

MiB = 1 << 20
PATIENCE_S = 300


@pytest.fixture
def place(monkeypatch):
    monkeypatch.setattr(growth, "PIECE_BYTES", MiB)
    monkeypatch.setattr(growth, "SPARE_BYTES", 0)
    with Place(100, 8 * MiB) as place:
        yield place


class Dataset:
    def __len__(self):
        return 100

    def fingerprint(self):
        return b"a dataset of 100"

    def total_bytes(self):
        return 10_000_000


def test_who_made_it_reserves_piece_by_piece(place):
    segment = place.attach(first_bytes=3 * MiB)
    steps = Growth(segment, "mine", "/dev/shm")
    assert [steps.step() for _ in range(6)] == [0.0] * 5 + [None]
    assert segment.reserved_bytes == 8 * MiB


def test_others_check_whether_it_goes_on_and_do_it_where_it_does_not(place):
    maker, other = place.attach(first_bytes=MiB), place.attach(2)
    of_maker, of_other = Growth(maker, "mine", "/dev/shm"), Growth(other, "mine", "/dev/shm")
    for _ in range(3):
        of_maker.step()
        assert of_other.step() == growth.CHECK_EVERY_S
    assert other.reserved_bytes == 4 * MiB
    assert [of_other.step() for _ in range(5)] == [0.0] * 4 + [None], "the maker was killed"
    assert other.reserved_bytes == 8 * MiB and of_maker.step() is None


def test_of_two_that_go_on_at_once_one_checks_again(place):
    class Raced:
        created, payload_bytes, reserved_bytes, tried = True, 8 * MiB, MiB, 0

        def grow(self, granules):
            self.tried += 1
            self.reserved_bytes += MiB  # by the other
            return False

    segment = Raced()
    steps = Growth(segment, "mine", "/dev/shm")
    assert [steps.step() for _ in range(2)] == [growth.CHECK_EVERY_S] * 2 and segment.tried == 1
    segment.reserved_bytes += MiB
    assert steps.step() == growth.CHECK_EVERY_S and segment.tried == 1, "the other goes on"
    steps.step()
    assert segment.tried == 2, "it does not"


def steps_of(segment, name="mine"):
    """All steps until the last; what was warned of."""
    steps = Growth(segment, name, "/dev/shm")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        while (pause := steps.step()) is not None:
            time.sleep(pause)
    return [str(warning.message) for warning in caught if warning.category is SenecaWarning]


@pytest.mark.parametrize("short", ["shm", "memory"])
def test_where_memory_is_short_it_stays_at_what_it_has_and_one_says_so(place, monkeypatch, short):
    segment, other = place.attach(first_bytes=MiB), place.attach(2)

    def left(_):
        return 4 * MiB + MiB // 2 - segment.reserved_bytes

    if short == "shm":
        monkeypatch.setattr(growth, "free_space", left)
        why = "/dev/shm has 0.5 MiB left"
    else:
        monkeypatch.setattr(growth, "limit_of", lambda folder: Limit(0, left(folder), "this host"))
        why = "this host still allows 0.5 MiB"
    assert steps_of(segment) == [
        f"seneca: the cache 'mine' stays at 0.0 of 0.0 GiB: {why}. The jobs go on with that"
    ]
    assert steps_of(other) == []
    assert segment.payload_bytes == segment.reserved_bytes == other.payload_bytes == 4 * MiB


def test_a_cache_that_does_not_fit_leaves_some_memory_to_others(place, monkeypatch):
    monkeypatch.setattr(growth, "SPARE_BYTES", 2 * MiB)
    segment = place.attach(first_bytes=MiB)
    monkeypatch.setattr(growth, "free_space", lambda _: 7 * MiB - segment.reserved_bytes)
    assert len(steps_of(segment)) == 1 and segment.reserved_bytes == 5 * MiB


def test_one_that_just_fits_gets_all(place, monkeypatch):
    monkeypatch.setattr(growth, "SPARE_BYTES", 2 * MiB)
    segment = place.attach(first_bytes=MiB)
    monkeypatch.setattr(growth, "free_space", lambda _: 8 * MiB - segment.reserved_bytes)
    assert steps_of(segment) == [] and segment.reserved_bytes == 8 * MiB


def test_of_a_closed_cache_there_is_nothing_to_do(place):
    segment = place.attach(first_bytes=MiB)
    steps = Growth(segment, "mine", "/dev/shm")
    place.close(segment)
    assert steps.step() is None


@pytest.fixture
def name(place, monkeypatch):
    monkeypatch.setattr(sample_cache, "FIRST_BYTES", MiB)
    name = place.name.removeprefix(f"/seneca-{os.geteuid()}-")
    yield name
    assert not place.exists


def wait_until_it_is_whole(cache):
    deadline = time.monotonic() + PATIENCE_S
    while (stats := cache.stats())["reserved_bytes"] < stats["payload_bytes"]:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_cache_is_there_at_once_and_whole_soon(name):
    with SampleCache.create(name, Dataset(), cache_bytes="8MiB") as cache:
        assert cache.stats()["payload_bytes"] == 8 * MiB
        wait_until_it_is_whole(cache)


def test_a_process_that_joins_goes_on_where_the_maker_was_killed(name, monkeypatch):
    def make(pipe):
        monkeypatch.setattr(growth, "CHECK_EVERY_S", 3600)
        monkeypatch.setattr(growth.Growth, "step", lambda self: 3600.0)
        cache = SampleCache.create(name, Dataset(), cache_bytes="8MiB")
        pipe.send(cache.stats()["reserved_bytes"])
        pipe.receive(patience_s=None)

    with Process(make) as maker:
        assert maker.receive() == MiB
        with SampleCache.attach(name) as cache:
            maker.kill()
            wait_until_it_is_whole(cache)


def test_it_is_left_while_it_grows_and_by_a_forked_child_too(name, monkeypatch):
    monkeypatch.setattr(growth, "PIECE_BYTES", 4096)

    def leave(pipe):
        cache.close()
        pipe.send("left")

    with SampleCache.create(name, Dataset(), cache_bytes="256MiB") as cache:
        with Process(leave) as child:
            assert child.receive() == "left"
        assert cache.stats()["processes"] == 1
    assert cache.segment.closed


class Counted:
    """A segment of which only the counts are there."""

    payload_bytes, created = 8 * MiB, True

    def __init__(self, unused, reserved=MiB):
        self.unused_bytes, self.reserved_bytes = unused, reserved
        self.grown = []

    def grow(self, granules):
        self.grown.append(granules * GRANULE)
        return True


@pytest.mark.parametrize(
    ("unused", "reserved", "needed", "grown"),
    [
        (MiB, MiB, 0, []),
        (MiB // 2, MiB, MiB // 2, []),
        (MiB // 2 - 1, MiB, 0, [MiB]),
        (MiB, 2 * MiB, MiB, []),
        (MiB - 1, 2 * MiB, 0, [2 * MiB]),
        (MiB, MiB, MiB + 1, [MiB + GRANULE]),
        (0, MiB, 3 * MiB, [3 * MiB]),
        (0, 8 * MiB, 3 * MiB, []),
    ],
)
def test_on_demand_it_gets_as_much_again_where_half_is_used(monkeypatch, unused, reserved, needed, grown):
    monkeypatch.setattr(growth, "FIRST_ON_DEMAND", MiB)
    segment = Counted(unused, reserved)
    Growth(segment, "mine", "/dev/shm").make_room(needed)
    assert segment.grown == grown


def test_on_demand_it_stays_at_what_it_has_where_memory_is_short(place, monkeypatch):
    monkeypatch.setattr(growth, "free_space", lambda _: MiB // 2)
    segment = place.attach(first_bytes=MiB)
    with pytest.warns(SenecaWarning, match="/dev/shm has 0.5 MiB left. The jobs go on with that"):
        Growth(segment, "mine", "/dev/shm").make_room(2 * MiB)
    assert segment.payload_bytes == segment.reserved_bytes == MiB
    Growth(segment, "mine", "/dev/shm").make_room(2 * MiB)
    segment.close()
    Growth(segment, "mine", "/dev/shm").make_room(2 * MiB)


class Items(torch.utils.data.Dataset):
    def __init__(self, count, floats):
        self.count, self.floats = count, floats

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return torch.full((self.floats,), float(index))


def reserved_in(folder):
    return sum(os.stat(os.path.join(folder, each)).st_blocks * 512 for each in os.listdir(folder))


@pytest.mark.small(1)
@pytest.mark.parametrize("workers", [0, 2])
def test_a_dataset_whose_items_have_unknown_sizes_takes_memory_as_they_come(segment_folder, workers):
    before = set(threading.enumerate())
    small = seneca.DataLoader(Items(60, 10), 4, num_workers=workers)
    for _ in small:
        assert reserved_in(segment_folder) < 20 * MiB
    new = {thread.name for thread in set(threading.enumerate()) - before}
    assert "seneca-growth" not in new, "nothing grows in the background"
    del small


def test_it_grows_while_another_job_takes_what_is_staged(segment_folder):
    """Each item has 1 MiB, so that few of them have room at the begin."""
    jobs = [ready.Script("-c", TRAINS) for _ in range(2)]
    lines = [job.stdout.readline().split() for job in jobs]
    most = max(reserved_in(segment_folder), *(int(reserved) for reserved, _ in lines))
    ended = [job.communicate() for job in jobs]
    assert [job.wait() for job in jobs] == [0, 0], ended
    assert most > 2 * growth.FIRST_ON_DEMAND
    assert sum(int(served) for _, served in lines) > 100, lines


TRAINS = """if True:
    import os, sys, torch, seneca
    class Items(torch.utils.data.Dataset):
        def __len__(self):
            return 150
        def __getitem__(self, index):
            return torch.full((1 << 18,), float(index))
    loader = seneca.DataLoader(Items(), 4, shuffle=True)
    epoch = served = 0
    while epoch < 4 or (served < 60 and epoch < 200):  # the other job may come later
        for batch in loader:
            pass
        epoch, served = epoch + 1, loader.stats()["served"]["augmented"]
    folder = os.environ["SENECA_DIR"]
    used = sum(os.stat(os.path.join(folder, each)).st_blocks * 512 for each in os.listdir(folder))
    print(used, served, flush=True)
"""
