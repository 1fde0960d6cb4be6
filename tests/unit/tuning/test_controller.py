"""Loaders that choose the split of their cache, and change it while they run."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import signal
import time
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from engine import Process
from PIL import Image
from profiles import ROUND, round_profile
from sizes import size

import seneca
from seneca import transforms as T
from seneca.cache import split_of
from seneca.partition import (
    Jobs,
    Reading,
    Seen,
    Spent,
    default_split,
    solve,
)
from seneca.partition import drift as decision
from seneca.transforms._pipeline import compile_transform
from seneca.tuning import controller as adapt
from seneca.tuning import host
from seneca.tuning import profile as measure
from seneca.tuning.quick import quick

ONE, TWO = Jobs(1), Jobs(2)


def spent(read_s=None, prepare_s=None, decode_s=None, augment_s=None, times=100, read_bytes=97_952):
    """So many of what took so long each; None: none of it."""
    seconds = (read_s, prepare_s, decode_s, augment_s, None, None)  # nothing is RECODED
    return Spent(
        tuple(times if one is not None else 0 for one in seconds),
        tuple(times * (one or 0.0) for one in seconds),
        0 if read_s is None else times * read_bytes,
        0,
    )


def seen(jobs=ONE, what=None, *, seconds=2.0, cold=None, free=5_000_000_000):
    return Seen(jobs, what or Spent(), seconds, cold, free)


# --- loaders


@pytest.fixture
def quickly(tmp_path, monkeypatch):
    """Profiles in a folder of the test's own; steps and changes without delay."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(adapt, "STEP_EVERY_S", 0.0)
    monkeypatch.setattr(decision, "CHANGE_EVERY_S", 0.0)
    monkeypatch.setattr(decision, "ENOUGH", 8)


def native(folder, **options):
    dataset = seneca.ImageFolder(folder, T.Compose([T.Resize((48, 48)), T.RandomCrop(32)]))
    defaults = {"batch_size": 8, "shuffle": True, "num_workers": 1, "cache_bytes": "256KiB"}
    return dataset, seneca.DataLoader(dataset, **(defaults | options))


def keep_profile(dataset, **changes):
    """What `seneca profile` would have found, where the test says what that is."""
    pipeline = compile_transform(dataset.transform)
    profile = round_profile(
        host=host.fingerprint(),
        dataset=dataset.fingerprint().hex(),
        pipeline=measure._fingerprint(pipeline),
        samples=len(dataset),
        **changes,
    )
    profile.save(measure.profile_path(profile.host, profile.dataset, profile.pipeline))
    return profile


@pytest.mark.usefixtures("quickly")
def test_a_kept_profile_decides_the_first_split(picture_folder, caplog):
    caplog.set_level(logging.INFO, "seneca")
    dataset, loader = native(picture_folder)
    # Decoding is free, and files are as good as pictures and a fifth of their size.
    profile = keep_profile(dataset, storage=(Reading(1, 1e5, 1e-3),), prepare=round_profile().augment)
    next(iter(loader))
    cache = loader.stats()["cache"]
    wanted = solve(profile.with_memory(256 * 1024), Jobs(batch_size=8, threads=1))
    assert cache["split"] == "100-0-0" == str(wanted.split)
    assert cache["split_changes"][0]["split"] == "100-0-0"
    assert "by what seneca.profile measured" in cache["split_changes"][0]["why"]
    assert any("100-0-0 by what seneca.profile measured" in record.getMessage() for record in caplog.records)


@pytest.mark.usefixtures("quickly")
def test_without_one_a_quick_look_does(picture_folder):
    _, loader = native(picture_folder)
    next(iter(loader))
    change = loader.stats()["cache"]["split_changes"][0]
    assert change["why"].startswith("by a quick measurement of ")


@pytest.mark.usefixtures("quickly")
def test_who_joins_follows_and_what_the_user_wants_stays(picture_folder, monkeypatch):
    _, first = native(picture_folder, split="10-20-70", cache="his-own")
    _, second = native(picture_folder, cache="his-own", job="second")
    monkeypatch.setattr(adapt, "quick", lambda *arguments: pytest.fail("nothing is to be decided"))
    for _ in range(3):
        for loader in (first, second):
            assert sum(len(labels) for _, labels in loader) == 48
    cache = second.stats()["cache"]
    assert (cache["split"], cache["split_changes"]) == ("10-20-70", [])


@pytest.mark.usefixtures("quickly")
def test_who_joins_while_the_first_measures_is_not_overlooked(picture_folder, monkeypatch):
    monkeypatch.setattr(decision, "WORTH", 0.0)  # any reason will do
    dataset, loader = native(picture_folder, cache="both-begin")
    others = []

    def measured(*arguments):
        others.append(seneca.SampleCache.join("both-begin", dataset, job="other"))
        others[0].segment.publish_pace(int(time.monotonic()) + 1, 1000)
        return quick(*arguments)

    monkeypatch.setattr(adapt, "quick", measured)
    list(loader)
    changes = loader.stats()["cache"]["split_changes"]
    others[0].close()
    assert "2 jobs in place of 1" in changes[1]["why"]


class Cache:
    """One that is nowhere, with a segment of which a test says what others do with it."""

    name = "nowhere"

    def __init__(self, others=()):
        self.segment = self
        self.others = others  # rows below this process's
        self.row = None
        self.shares, self.changes = (0, 6000, 2000, 2000, 0), []
        self.is_busy = False
        self.adapts, self.closed, self.payload_bytes = True, False, ROUND.cache_bytes
        self.reserved_bytes = self.payload_bytes

    def split(self):
        return len(self.changes), self.shares

    def change_split(self, shares, after, why):
        if self.is_busy:
            raise BlockingIOError
        if after != len(self.changes):
            return False
        self.shares = shares
        self.changes.append(why)
        return True

    def publish_pace(self, second, pace):
        self.row = (True, 1, second, pace)

    def published_paces(self):
        return [*self.others, self.row]


@pytest.fixture
def clock(monkeypatch):
    """Seconds, as a test lets them pass."""
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(adapt, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(adapt, "free_memory", lambda: 0)
    return clock


class Loader:
    """What one reports to its adapter."""

    def __init__(self, cache, clock):
        self.clock, self.delivered, self.searches = clock, 0, 0
        self.adapter = adapt.SplitController(cache, self._known, ONE, ROUND.samples)

    def _known(self, cache_bytes):
        self.searches += 1
        return ROUND, "a test"

    def progress(self):
        return adapt.WorkDone(Spent(), self.delivered, 0.0, False, 0)

    def train(self, steps, *, batch=100, seconds=0.5, to_the_end=True):
        """So many steps of a training loop that never waits."""
        self.adapter.begin(self.progress, ONE)
        for _ in range(steps):
            self.adapter.tick(self.progress)
            self.clock.now += seconds
            self.delivered += batch
        if to_the_end:
            self.adapter.tick(self.progress, ended=True)


def test_a_first_choice_that_was_not_to_be_made_is_made_later(clock):
    cache = Cache()
    cache.is_busy = True
    loader = Loader(cache, clock)
    loader.train(20)
    assert cache.changes == []
    cache.is_busy = False
    loader.train(20)
    assert len(cache.changes) == 1 and cache.changes[0].startswith("by a test: ")
    assert split_of(cache.shares) == solve(ROUND, ONE).split
    assert loader.searches == 1


def test_a_change_waits_for_the_lock(clock):
    cache = Cache()
    loader = Loader(cache, clock)
    loader.train(20)
    cache.shares, cache.is_busy = (0, 0, 0, 10000, 0), True
    cache.others = ((False, 2, 10**6, adapt.ANY_PACE),)  # above this one's
    cache.published_paces = lambda: [cache.row, *cache.others]
    loader.train(60)
    assert len(cache.changes) == 1
    cache.is_busy = False
    loader.train(60)
    assert "2 jobs in place of 1" in cache.changes[1]


@pytest.mark.parametrize("to_the_end", [True, False])
def test_a_pause_between_epochs_is_not_the_training_step_s(clock, to_the_end):
    cache = Cache()
    loader = Loader(cache, clock)
    for _ in range(5):
        loader.train(20, to_the_end=to_the_end)
        assert cache.row[3] == 200
        clock.now += 40.0  # a validation


def test_a_job_that_has_got_no_sample_yet_has_no_pace(clock):
    """Others would take it for one that takes a sample a second, and choose a split for that."""
    cache = Cache()
    loader = Loader(cache, clock)
    loader.adapter.begin(loader.progress, ONE)
    clock.now += 0.01  # the loop has asked for its first batch
    loader.adapter.tick(loader.progress)
    assert cache.row[3] == adapt.ANY_PACE


def test_the_pace_of_epochs_that_are_shorter_than_a_step_is_known(clock):
    cache = Cache()
    loader = Loader(cache, clock)
    for _ in range(20):
        loader.train(2)
        clock.now += 3.0
    assert cache.row[3] == 200


def test_what_was_done_in_epochs_shorter_than_a_step_counts(clock):
    loader = Loader(Cache(), clock)
    seen = []
    loader.adapter._step = lambda now, done: seen.append(loader.adapter._recent.spent.times[0])

    def progress():
        n = loader.delivered
        spent = Spent((n, n, 0, 0, 0, 0), (0.01 * n, 0.01 * n, 0.0, 0.0, 0.0, 0.0), 1000 * n, 0)
        return adapt.WorkDone(spent, n, 0.0, False, 0)

    loader.progress = progress
    for _ in range(50):
        loader.train(2)
        clock.now += 3.0
    assert sum(seen) > 0.8 * loader.delivered


def test_loaders_of_one_process_publish_what_they_take_together_and_one_decides(clock):
    cache = Cache()
    one, other = Loader(cache, clock), Loader(cache, clock)
    for loader in (one, other):
        loader.adapter.begin(loader.progress, ONE)
    paces, decide = set(), set()
    for step in range(100):  # of both in turn: batches of 100 and of 50, a step of 0.5 s
        for loader, batch in ((one, 100), (other, 50)):
            loader.adapter.tick(loader.progress)
            loader.delivered += batch
            decide.add((loader is one, loader.adapter._decides(clock.now)))
        clock.now += 0.5
        if step > 10:
            paces.add(cache.row[3])
    assert paces == {300}
    assert decide == {(True, True), (False, False)}
    one.adapter.tick(one.progress, ended=True)
    other.train(30, batch=50)
    assert cache.row[3] == pytest.approx(100, abs=5), "the one is in no epoch any more"
    assert other.adapter._decides(clock.now)


def test_who_follows_publishes_the_pace_of_the_last_minute(clock):
    cache = Cache(others=((False, 2, 10**6, 500),))
    loader = Loader(cache, clock)
    loader.train(400)
    assert cache.row[3] == 200
    loader.train(200, seconds=1.0)
    assert cache.row[3] == 100


def test_who_follows_searches_no_profile_before_it_takes_over(clock):
    cache = Cache(others=((False, 2, 10**6, 500),))
    cache.changes.append("by somebody")
    loader = Loader(cache, clock)
    loader.train(40)
    assert loader.searches == 0
    cache.others, cache.shares = (), (0, 0, 0, 10000, 0)
    loader.train(40, batch=10**5)
    assert loader.searches == 1
    assert "1 job in place of 2" in cache.changes[1]


def test_what_is_seldom_seen_is_waited_for(picture_folder, monkeypatch):
    monkeypatch.setattr(decision, "WORTH", 0.0)
    clock = [1000.0]
    monkeypatch.setattr(adapt, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    dataset, _ = native(picture_folder)
    with seneca.SampleCache.create("seldom", dataset, cache_bytes="256KiB") as cache:
        adapter = adapt.SplitController(cache, lambda cache_bytes: (None, "a test"), ONE, 48)
        for count in range(1, 100):  # one of each in two seconds
            spent = Spent((count,) * 6, (0.01 * count,) * 6, 1000 * count, 5000 * count)
            adapter.tick(lambda spent=spent: adapt.WorkDone(spent, 0, None, False, 3000))
            clock[0] += adapt.STEP_EVERY_S
        why = [change["why"] for change in cache.stats()["split_changes"]]
    assert why[0] == "by default: a test" and "its rates are known now" in why[1]


@pytest.mark.usefixtures("quickly")
@pytest.mark.parametrize("what", ["damaged", "gone"])
def test_nothing_that_goes_wrong_in_measuring_stops_a_loader(picture_folder, monkeypatch, tmp_path, what):
    monkeypatch.setattr(decision, "ENOUGH", 10**9)  # so that what is seen meanwhile changes nothing
    if what == "damaged":
        for path in picture_folder.rglob("*.jpg"):
            path.write_bytes(b"\xff\xd8\xff no picture")
    else:
        monkeypatch.setattr(adapt, "quick", lambda *arguments: (tmp_path / "nothing").read_bytes())
    _, loader = native(picture_folder, on_error="skip")
    with contextlib.suppress(StopIteration):
        next(iter(loader))
    cache = loader.stats()["cache"]
    assert cache["split"] == str(default_split())
    assert cache["split_changes"][0]["why"].startswith("by default: ")


@pytest.mark.usefixtures("quickly")
def test_without_a_folder_of_profiles_a_quick_look_does(picture_folder, monkeypatch, tmp_path):
    (tmp_path / "a file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a file"))
    _, loader = native(picture_folder)
    next(iter(loader))
    assert loader.stats()["cache"]["split_changes"][0]["why"].startswith("by a quick measurement of ")


def busily(array):
    """The same, after some milliseconds of the CPU."""
    until = time.thread_time() + size(2e-3, 4e-3)
    while time.thread_time() < until:
        pass
    return array


class SlowToDecode:
    """Worth keeping decoded, as long as storage answers at once."""

    def __init__(self):
        self.wait_s = ctypes.c_double()  # cannot be seen: the key stands for it

    def __len__(self):
        return 100

    def read(self, index):
        # Else not even a sleep of 0 s, which lets others run.
        if self.wait_s.value:
            time.sleep(self.wait_s.value)
        return bytes([index % 251]) * 2000

    def decode(self, data):
        return busily(np.frombuffer(data * 4, np.uint8))

    def augment(self, array, rng):
        return np.roll(array, int(rng.integers(100)))


@pytest.mark.usefixtures("quickly")
def test_storage_that_becomes_slow_moves_the_split():
    sounds = SlowToDecode()
    # Files take a granule each, decoded samples two; there is room for 60.
    loader = seneca.DataLoader(
        sounds, batch_size=10, shuffle=True, cache_bytes=60 * 4096, key="sounds", cache="slow"
    )
    for _ in range(2):
        assert sum(map(len, loader)) > 0
    before = loader.stats()["cache"]
    assert before["split_changes"][0]["why"].startswith("by default: its samples are prepared in Python")
    sounds.wait_s.value = size(0.006, 0.012)
    for _ in range(2):
        assert sum(map(len, loader)) > 0
    after = loader.stats()["cache"]
    assert "storage gives" in after["split_changes"][-1]["why"]
    assert before["budget_bytes"]["decoded"] > before["budget_bytes"]["encoded"]
    assert after["budget_bytes"]["encoded"] > after["budget_bytes"]["decoded"]
    assert after["payloads"]["encoded"] > before["payloads"]["encoded"], "and what is over its share goes"


@pytest.mark.usefixtures("quickly")
def test_the_native_threads_report_what_samples_take(picture_folder):
    _, loader = native(picture_folder, split="0-100-0", cache_bytes="1MiB")
    for _ in range(2):
        list(loader)
    counts = loader._session.counts
    # All were read, and decoded to be kept, in the first epoch; augmented in both.
    assert counts.times == (48, 0, 48, 96, 0, 0)
    assert counts.decoded_bytes == 48 * 48 * 48 * 3
    assert [seconds > 0 for seconds in counts.spent_s] == [True, False, True, True, False, False]
    _, straight = native(picture_folder, cache=None)
    list(straight)
    assert straight._session.counts.times == (48, 48, 0, 0, 0, 0)
    assert not {"times", "spent_s", "decoded_bytes"} & loader.stats().keys(), "of no use to a user"


@pytest.mark.usefixtures("quickly")
def test_what_pillow_decodes_says_nothing_of_what_threads_take(picture_folder):
    for path in picture_folder.rglob("*.jpg"):
        Image.open(path).save(path.with_suffix(".bmp"))
        path.unlink()
    _, loader = native(picture_folder, cache=None)
    list(loader)
    assert loader._session.counts.times == (48, 0, 0, 0, 0, 0)


@pytest.mark.usefixtures("quickly")
@pytest.mark.parametrize("path", size(["native"], ["native", "workers"]))
def test_loaders_report_where_an_epoch_begins_and_ends(picture_folder, monkeypatch, path):
    reported, real_tick, real_begin = [], adapt.SplitController.tick, adapt.SplitController.begin

    def begin(self, progress, job):
        reported.append(f"begins with {progress().delivered}")
        real_begin(self, progress, job)

    def tick(self, progress, *, ended=False):
        reported.append(f"ended={ended} with {progress().delivered}")
        real_tick(self, progress, ended=ended)

    monkeypatch.setattr(adapt.SplitController, "begin", begin)
    monkeypatch.setattr(adapt.SplitController, "tick", tick)
    if path == "native":
        _, loader = native(picture_folder, batch_size=20)
        for before in (0, 48):
            list(loader)
            assert reported == [
                f"begins with {before}",
                *(f"ended=False with {before + done}" for done in (0, 20, 40)),
                f"ended=True with {before + 48}",
            ]
            reported.clear()
    else:
        loader = seneca.DataLoader(
            SlowToDecode(), batch_size=50, shuffle=True, cache_bytes="1MiB", key="sounds", cache="epochs"
        )
        list(loader)
        assert reported[0] == "begins with 0" and reported[-1] == "ended=True with 100"


@pytest.mark.usefixtures("quickly")
def test_a_split_is_chosen_for_the_batches_that_there_are():
    options = {"cache_bytes": "1MiB", "key": "sounds", "cache": "batches"}
    loader = seneca.DataLoader(SlowToDecode(), batch_size=20, num_workers=2, prefetch_factor=3, **options)
    loader._shared_dataset().look()
    iterator = iter(loader)
    assert loader._shared_dataset()._session._controller._job == Jobs(batch_size=20, ahead=6, threads=2)
    del iterator
    shared = seneca.SharedDataset(SlowToDecode(), **options)
    sampler = torch.utils.data.RandomSampler(shared)
    batches = seneca.OpportunisticBatchSampler(sampler, batch_size=10, batches_ahead=5)
    next(iter(batches))
    assert shared._session._controller._job == Jobs(batch_size=10, ahead=4)


def test_whole_items_have_one_form_and_no_choice(caplog):
    caplog.set_level(logging.INFO, "seneca.adapt")
    data = torch.utils.data.TensorDataset(torch.arange(64))
    loader = seneca.DataLoader(data, batch_size=8, shuffle=True, cache_bytes="1MiB")
    assert len(list(loader)) == 8
    cache = loader.stats()["cache"]
    assert (cache["split"], cache["split_changes"]) == ("0-0-100", [])
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == [
        "all of it is for whole items, the one form there is"
    ]


def train(pipe, folder):
    """A job that goes on for ever and sends, now and then, what has become of the split."""
    decision.WORTH = 0.0  # any reason will do
    _, loader = native(folder, cache="of-two", num_workers=0)
    sent = None
    while True:
        for _ in loader:
            changes = [change["why"] for change in loader.stats()["cache"]["split_changes"]]
            if changes != sent:
                sent = changes
                pipe.send(changes)


def wait_for(pipe, why):
    for _ in range(1000):
        if any(why in change for change in pipe.receive()):
            return
    pytest.fail(f"no change because of {why!r}")


@pytest.mark.usefixtures("quickly")
def test_the_first_adapts_and_when_it_is_killed_the_second_does(picture_folder):
    first = Process(train, picture_folder)
    with first:
        wait_for(first, "by a quick measurement of ")
        second = Process(train, picture_folder)
        with second:
            wait_for(first, "2 jobs in place of 1")
            os.kill(first.pid, signal.SIGKILL)
            wait_for(second, "1 job in place of 2")
            os.kill(second.pid, signal.SIGKILL)
    with contextlib.suppress(
        FileNotFoundError
    ):  # another job of this host may have swept up what the dead left
        seneca.SampleCache.remove("of-two")
