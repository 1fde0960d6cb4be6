"""When the split of a cache is changed, and what for: the decision, then loaders that make it."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import itertools
import logging
import os
import signal
import time
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from engine import ENCODED, Place, Process
from PIL import Image
from profiles import ROUND, round_profile

import seneca
from seneca import adapt, maker, measure
from seneca import transforms as T
from seneca._core import store
from seneca._pipeline.plan import compile_transform
from seneca.cache import split_of
from seneca.measure import host
from seneca.measure.quick import quick
from seneca.partition import (
    Adaptation,
    Cost,
    Jobs,
    Reading,
    Seen,
    Size,
    Spent,
    Split,
    default_split,
    profile_of,
    solve,
)
from seneca.partition import adapt as decision
from seneca.stages import Payload

ONE, TWO = Jobs(1), Jobs(2)


def spent(read_s=None, prepare_s=None, decode_s=None, augment_s=None, times=100, read_bytes=97_952):
    """So many of what took so long each; None: none of it."""
    seconds = (read_s, prepare_s, decode_s, augment_s)
    return Spent(
        tuple(times if one is not None else 0 for one in seconds),
        tuple(times * (one or 0.0) for one in seconds),
        0 if read_s is None else times * read_bytes,
        0,
    )


def seen(jobs=ONE, what=None, *, seconds=2.0, cold=None, free=5_000_000_000):
    return Seen(jobs, what or Spent(), seconds, cold, free)


def chosen(profile, jobs=ONE):
    return Adaptation(profile, jobs), solve(profile, jobs).split


# --- the decision


def test_where_all_is_as_it_was_nothing_is_changed():
    profile = round_profile()
    adaptation, split = chosen(profile)
    as_measured = spent(prepare_s=profile.prepare.all_s, augment_s=profile.augment.all_s)
    for now in range(0, 1000, 100):
        assert adaptation.consider(now, split, seen(what=as_measured)) is None
    assert adaptation.consider(1000, Split(1, 0, 0), seen(what=as_measured)) is None, (
        "though it is not the best"
    )


@pytest.mark.parametrize(
    ("times_as_long", "changes"), [(1.2, False), (0.85, False), (1.3, True), (0.7, True)]
)
def test_a_rate_that_parts_by_more_than_a_quarter_is_a_reason(times_as_long, changes):
    profile = round_profile()
    adaptation = Adaptation(profile, ONE)
    bad = Split(0, 0, 1)  # anything else is worth it
    change = adaptation.consider(0, bad, seen(what=spent(prepare_s=times_as_long * profile.prepare.all_s)))
    assert (change is not None) == changes
    if change:
        assert f"to prepare takes {1.6 * times_as_long:.3g} ms in place of 1.6" in change.why


def test_what_was_seen_too_seldom_is_no_rate():
    profile = round_profile()
    seldom = spent(prepare_s=10 * profile.prepare.all_s, times=decision.ENOUGH - 1)
    assert Adaptation(profile, ONE).consider(0, Split(0, 0, 1), seen(what=seldom)) is None


def test_costs_that_were_not_seen_part_with_those_that_were():
    profile = round_profile()
    found = decision.corrected(profile, seen(what=spent(augment_s=2 * profile.augment.all_s)))
    assert found.prepare.all_s == pytest.approx(2 * profile.prepare.all_s)
    assert found.augment.one_s == pytest.approx(2 * profile.augment.one_s)
    assert found.storage == profile.storage


@pytest.mark.parametrize(("before", "now"), [(ONE, TWO), (TWO, ONE)])
def test_jobs_that_join_or_leave_are_a_reason(before, now):
    change = Adaptation(round_profile(), before).consider(0, Split(0, 0, 1), seen(now))
    assert change is not None
    assert change.why.startswith(
        f"{now.count} job{'s' if now.count > 1 else ''} in place of {before.count}: "
    )
    assert change.split == solve(round_profile(), now).split


def test_the_pace_of_a_step_is_a_reason():
    adaptation = Adaptation(round_profile(), Jobs(1, step_per_s=1000))
    assert adaptation.consider(0, Split(0, 0, 1), seen(Jobs(1, step_per_s=900))) is None
    change = adaptation.consider(0, Split(0, 0, 1), seen(Jobs(1, step_per_s=2000)))
    assert change.why.startswith("a job's step takes 2,000 samples/s in place of 1,000: ")


def test_reasons_are_written_as_people_do():
    """Neither inf nor a power of ten."""
    split, halved = Split(0, 0, 1), round_profile().with_storage(2e9)
    limited = Adaptation(round_profile(), Jobs(1, step_per_s=500)).consider(0, split, seen(ONE))
    assert limited.why.startswith("a job's step takes any samples/s in place of 500: ")
    [reason] = decision._reasons(halved, halved.with_storage(1.2e9), ONE, seen(ONE))
    assert reason == "storage gives 1,200 MB/s in place of 2,000"
    slow = dataclasses.replace(halved, prepare=Cost(1.5, 1.5))
    [reason] = decision._reasons(halved, slow, ONE, seen(ONE))
    assert reason == "to prepare takes 1,500 ms in place of 1.6"


def test_a_gain_of_a_few_per_cent_is_not_worth_a_change():
    profile = round_profile()
    best = solve(profile, TWO).split
    near = Split(best.encoded - 0.01, best.decoded + 0.01, best.augmented)
    adaptation = Adaptation(profile, ONE)
    assert adaptation.consider(0, near, seen(TWO)) is None
    assert adaptation.consider(100, Split(0, 0, 1), seen(TWO)) is None, "that was looked at"


def test_changes_keep_their_distance_and_the_reason_is_not_forgotten():
    adaptation = Adaptation(round_profile(), ONE)
    bad = Split(0, 0, 1)
    assert adaptation.consider(100.0, bad, seen(TWO)) is not None
    soon = 100.0 + decision.CHANGE_EVERY_S - 0.1
    # Somebody has undone it, which is a change as well; and two jobs have become three.
    assert adaptation.consider(soon, bad, seen(Jobs(3))) is None
    assert adaptation.consider(soon + decision.CHANGE_EVERY_S - 0.1, bad, seen(Jobs(3))) is None
    assert adaptation.consider(soon + decision.CHANGE_EVERY_S, bad, seen(Jobs(3))) is not None


def test_a_change_that_could_not_be_made_is_looked_for_again():
    adaptation, bad = Adaptation(round_profile(), ONE), Split(0, 0, 1)
    change = adaptation.consider(100.0, bad, seen(TWO))
    adaptation.failed(change)
    assert adaptation.consider(100.1, bad, seen(TWO)) is None
    again = adaptation.consider(100.0 + decision.CHANGE_EVERY_S, bad, seen(TWO))
    assert again == change
    assert adaptation.consider(200.0, again.split, seen(TWO)) is None, "it was made"


def test_who_does_not_decide_follows_the_jobs():
    adaptation = Adaptation(round_profile(), ONE)
    adaptation.follow(-100.0, Split(0, 0, 1), TWO)
    assert adaptation.consider(0, Split(0, 0, 1), seen(TWO)) is None
    assert adaptation.consider(0, Split(0, 0, 1), seen(ONE)).why.startswith("1 job in place of 2")


def test_who_takes_over_keeps_its_distance_from_the_changes_of_others():
    adaptation, bad = Adaptation(round_profile(), TWO), Split(0, 0, 1)
    adaptation.follow(0.0, Split(1, 0, 0), TWO)
    adaptation.follow(100.0, bad, TWO)
    assert adaptation.consider(100.0 + decision.CHANGE_EVERY_S - 0.1, bad, seen(ONE)) is None
    assert adaptation.consider(100.0 + decision.CHANGE_EVERY_S, bad, seen(ONE)) is not None


def test_reads_that_take_longer_slow_storage_for_as_many_readers():
    profile = round_profile()
    # 100 reads of 40 ms in 2 s: two at a time; by the profile two readers have 35 MB/s, 5.6 ms a file.
    found = decision.corrected(profile, seen(what=spent(read_s=0.04), cold=1.0))
    assert found.storage_at(2) == pytest.approx(2 * 97_952 / 0.04)
    assert found.storage[0].latency_s == pytest.approx(
        profile.storage[0].latency_s * 0.04 * 35e6 / 2 / 97_952
    )
    assert found.free_memory_bytes == profile.cache_bytes, "what was said to be free"


def test_what_the_page_cache_served_says_nothing_of_storage():
    profile = round_profile(free_memory_bytes=20_000_000_000)
    found = decision.corrected(profile, seen(what=spent(read_s=1e-4), cold=0.0, free=20_000_000_000))
    assert found == profile
    half = spent(read_s=0.5 * 1e-4 + 0.5 * 0.02)  # half of it from memory, half in 20 ms
    found = decision.corrected(profile, seen(what=half, cold=0.5, free=20_000_000_000))
    assert found.storage_at(1) == pytest.approx(97_952 / 0.02)


def test_slow_reads_that_the_kernel_knows_nothing_of_are_not_helped_by_its_page_cache():
    profile = round_profile(free_memory_bytes=20_000_000_000)
    assert solve(profile).page_cache == 1
    slow = seen(what=spent(read_s=0.05), cold=0.0, free=20_000_000_000)
    found = decision.corrected(profile, slow)
    assert found.free_memory_bytes == found.cache_bytes
    change = Adaptation(profile, ONE).consider(0, solve(profile).split, slow)
    assert "storage gives" in change.why
    assert change.split.encoded > solve(profile).split.encoded


def test_a_profile_is_made_of_what_was_seen():
    what = Spent((100, 80, 80, 120), (10.0, 0.8, 0.4, 0.24), 100 * 1000, 80 * 5000)
    known = {"samples": 1000, "cores": 2, "cache_bytes": 10**6, "decoded_bytes": 0.0, "copy_bytes": 3000}
    found = profile_of(seen(what=what, free=10**9), **known)
    assert (found.encoded, found.decoded, found.augmented) == (Size(1000.0), Size(5000.0), Size(3000))
    assert (found.prepare.all_s, found.augment.all_s) == (pytest.approx(0.01), pytest.approx(0.002))
    assert found.storage == (Reading(5, pytest.approx(5 * 1000 / 0.1), pytest.approx(0.1)),)
    never = Spent((100, 80, 80, 0), (10.0, 0.8, 0.4, 0.0), 100 * 1000, 80 * 5000)
    assert profile_of(seen(what=never), **known) is None, "nothing was augmented yet"


# --- what is in the segment


def test_the_first_to_change_a_split_is_the_only_one():
    with Place(100, split=(0, 6000, 2000, 2000)) as place:
        one, other = place.attach(1, adapts=True), place.attach(2)
        assert (one.adapts, other.adapts) == (True, True), "its maker has said so"
        assert one.change_split((0, 10000, 0, 0), 0, "at first")
        assert not other.change_split((0, 0, 10000, 0), 0, "at the same time")
        assert other.split() == (1, (0, 10000, 0, 0))
        for number in range(1, 12):
            assert other.change_split(
                (0, 0, 10000 - number, number), number, f"change {number}, ein längerer" * 20
            )
        changes = one.stats()["changes"]
        assert [split[3] for _, split, _ in changes] == list(range(4, 12)), "the last eight"
        assert all(why.startswith("change ") and len(why.encode()) <= 231 + 3 for _, _, why in changes)
        assert abs(changes[0][0] - time.time()) < 3600


def test_what_a_segment_has_is_read_as_a_split_whatever_it_is():
    assert split_of((0, 5800, 4200, 0)) == Split(0.58, 0.42, 0)
    assert split_of((0, 1, 1, 2)) == Split(0.25, 0.25, 0.5)
    assert split_of((7, 0, 0, 0)) == Split(0, 0, 1)


def test_a_row_says_nothing_of_who_had_it_before():
    with Place(100) as place:
        one, other = place.attach(1), place.attach(2)
        other.tell(77, 500)
        one.tell(78, 600)
        assert one.told() == [(True, 1, 78, 600), (False, 2, 77, 500)]
        other.close()
        assert one.told() == [(True, 1, 78, 600)]
        assert [row[1] for row in place.attach(3).told()] == [1]


def test_staged_copies_over_their_share_make_room():
    with Place(400, 40 * 4096) as place:  # all of it for the stage
        segments = [place.attach(1), place.attach(2)]
        one, other = (place.member(segment, keeps=True, in_flight=4) for segment in segments)
        for _ in range(5):
            items, _, _ = one.draw(8)
            for item in items:
                if item["target_slot"] != store.NONE:
                    one.commit(int(item["target_slot"]))
            one.done(items)
        one.draw(0)
        staged = segments[0].stats()["payloads"]["augmented"]
        assert segments[0].change_split((0, 10000, 0, 0), segments[0].split()[0], "a test")
        budget = segments[0].stats()["budget_bytes"]["augmented"] // 4096
        assert segments[0].stats()["payloads"]["augmented"] == staged > budget, (
            "nothing goes before space is needed"
        )
        for _ in range(8):  # the other job takes what there is
            other.done(other.draw(8)[0])
        assert segments[0].stats()["payloads"]["augmented"] <= budget
        offers = [(sample, ENCODED, 4096, 0, 0) for sample in range(100, 140)]
        accepted = [answer for answer in other.draw(0, offers)[1] if answer]
        assert len(accepted) >= 40 - budget - 8
        for slot, entry in accepted:
            other.abort(slot)
            other.offer_done(slot, entry)
        assert segments[0].check() is None
        one.close()
        other.close()


# --- what a dataset's stages take


def test_each_stage_of_a_dataset_is_noted_under_its_own_name(monkeypatch):
    stages = SimpleNamespace(
        decoded=1,
        read=lambda index: b"bytes",
        decode=lambda index, data: Payload(b"decoded", 0, 0),
        augment=lambda index, decoded: "augmented",
        augment_encoded=lambda index, data: "prepared",
    )
    wall, cpu = itertools.count(step=1000), itertools.count(step=1)
    clocks = SimpleNamespace(perf_counter_ns=lambda: next(wall), thread_time_ns=lambda: next(cpu))
    monkeypatch.setattr(maker, "time", clocks)
    counts = np.zeros(len(maker.COUNTERS), np.int64)
    timed = maker._Timed(stages, counts)
    assert timed.read(0) == b"bytes"
    assert {timed.augment(0, timed.decode(0, b"")) for _ in range(2)} == {"augmented"}
    assert {timed.augment(0, None), timed.augment_encoded(0, b"")} == {"augmented", "prepared"}
    assert {name: count for name, count in zip(maker.COUNTERS, counts.tolist(), strict=True) if count} == {
        **{"reads": 1, "prepares": 1, "decodes": 2, "augments": 3},
        **{"read_ns": 1000, "prepare_ns": 1, "decode_ns": 2, "augment_ns": 3},
        **{"read_bytes": 5, "decoded_bytes": 14},
    }


# --- loaders


@pytest.fixture
def quickly(tmp_path, monkeypatch):
    """Profiles in a folder of the test's own; looks and changes without delay."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(adapt, "LOOK_EVERY_S", 0.0)
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
    [change] = loader.stats()["cache"]["split_changes"]
    assert change["why"].startswith("by a quick look at ")


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
def test_who_joins_while_the_first_looks_is_not_overlooked(picture_folder, monkeypatch):
    monkeypatch.setattr(decision, "WORTH", 0.0)  # any reason will do
    dataset, loader = native(picture_folder, cache="both-begin")
    others = []

    def look(*arguments):
        others.append(seneca.SampleCache.join("both-begin", dataset, job="other"))
        others[0].segment.tell(int(time.monotonic()) + 1, 1000)
        return quick(*arguments)

    monkeypatch.setattr(adapt, "quick", look)
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
        self.shares, self.changes = (0, 6000, 2000, 2000), []
        self.is_busy = False
        self.adapts, self.closed, self.payload_bytes = True, False, ROUND.cache_bytes

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

    def tell(self, second, pace):
        self.row = (True, 1, second, pace)

    def told(self):
        return [*self.others, self.row]


@pytest.fixture
def clock(monkeypatch):
    """Seconds, as a test lets them pass."""
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(adapt, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(adapt, "free_memory", lambda: 0)
    return clock


class Loader:
    """What one tells its adapter."""

    def __init__(self, cache, clock):
        self.clock, self.delivered, self.looks = clock, 0, 0
        self.adapter = adapt.Adapter(cache, self._known, ONE, ROUND.samples)

    def _known(self, cache_bytes):
        self.looks += 1
        return ROUND, "a test"

    def progress(self):
        return adapt.Progress(Spent(), self.delivered, 0.0, False, 0)

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
    assert loader.looks == 1


def test_a_change_waits_for_the_lock(clock):
    cache = Cache()
    loader = Loader(cache, clock)
    loader.train(20)
    cache.shares, cache.is_busy = (0, 0, 0, 10000), True
    cache.others = ((False, 2, 10**6, adapt.ANY_PACE),)  # above this one's
    cache.told = lambda: [cache.row, *cache.others]
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


def test_the_pace_of_epochs_that_are_shorter_than_a_look_is_known(clock):
    cache = Cache()
    loader = Loader(cache, clock)
    for _ in range(20):
        loader.train(2)
        clock.now += 3.0
    assert cache.row[3] == 200


def test_what_was_done_in_epochs_shorter_than_a_look_is_looked_at(clock):
    loader = Loader(Cache(), clock)
    seen = []
    loader.adapter._look = lambda now, done: seen.append(loader.adapter._recent.spent.times[0])

    def progress():
        n = loader.delivered
        spent = Spent((n, n, 0, 0), (0.01 * n, 0.01 * n, 0.0, 0.0), 1000 * n, 0)
        return adapt.Progress(spent, n, 0.0, False, 0)

    loader.progress = progress
    for _ in range(50):
        loader.train(2)
        clock.now += 3.0
    assert sum(seen) > 0.8 * loader.delivered


def test_loaders_of_one_process_tell_what_they_take_together_and_one_decides(clock):
    cache = Cache()
    one, other = Loader(cache, clock), Loader(cache, clock)
    for loader in (one, other):
        loader.adapter.begin(loader.progress, ONE)
    told, decide = set(), set()
    for step in range(100):  # of both in turn: batches of 100 and of 50, a step of 0.5 s
        for loader, batch in ((one, 100), (other, 50)):
            loader.adapter.tick(loader.progress)
            loader.delivered += batch
            decide.add((loader is one, loader.adapter._decides(clock.now)))
        clock.now += 0.5
        if step > 10:
            told.add(cache.row[3])
    assert told == {300}
    assert decide == {(True, True), (False, False)}
    one.adapter.tick(one.progress, ended=True)
    other.train(30, batch=50)
    assert cache.row[3] == pytest.approx(100, abs=5), "the one is in no epoch any more"
    assert other.adapter._decides(clock.now)


def test_who_follows_tells_the_pace_of_the_last_minute(clock):
    cache = Cache(others=((False, 2, 10**6, 500),))
    loader = Loader(cache, clock)
    loader.train(400)
    assert cache.row[3] == 200
    loader.train(200, seconds=1.0)
    assert cache.row[3] == 100


def test_who_follows_does_not_look_before_it_takes_over(clock):
    cache = Cache(others=((False, 2, 10**6, 500),))
    cache.changes.append("by somebody")
    loader = Loader(cache, clock)
    loader.train(40)
    assert loader.looks == 0
    cache.others, cache.shares = (), (0, 0, 0, 10000)
    loader.train(40, batch=10**5)
    assert loader.looks == 1
    assert "1 job in place of 2" in cache.changes[1]


def test_what_is_seldom_seen_is_waited_for(picture_folder, monkeypatch):
    monkeypatch.setattr(decision, "WORTH", 0.0)
    clock = [1000.0]
    monkeypatch.setattr(adapt, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    dataset, _ = native(picture_folder)
    with seneca.SampleCache.create("seldom", dataset, cache_bytes="256KiB") as cache:
        adapter = adapt.Adapter(cache, lambda cache_bytes: (None, "a test"), ONE, 48)
        for count in range(1, 100):  # one of each in two seconds
            spent = Spent((count,) * 4, (0.01 * count,) * 4, 1000 * count, 5000 * count)
            adapter.tick(lambda spent=spent: adapt.Progress(spent, 0, None, False, 3000))
            clock[0] += adapt.LOOK_EVERY_S
        why = [change["why"] for change in cache.stats()["split_changes"]]
    assert why[0] == "by default: a test" and "its rates are known now" in why[1]


@pytest.mark.usefixtures("quickly")
@pytest.mark.parametrize("what", ["damaged", "gone"])
def test_nothing_that_goes_wrong_in_looking_stops_a_loader(picture_folder, monkeypatch, tmp_path, what):
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
    assert loader.stats()["cache"]["split_changes"][0]["why"].startswith("by a quick look at ")


def busily(array):
    """The same, after some milliseconds of the CPU."""
    until = time.thread_time() + 4e-3
    while time.thread_time() < until:
        pass
    return array


class SlowToDecode:
    """Worth keeping decoded, as long as storage answers at once."""

    def __init__(self):
        self.wait_s = ctypes.c_double()  # cannot be seen: the key stands for it

    def __len__(self):
        return 200

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
    # Files take a granule each, decoded samples two; there is room for 120.
    loader = seneca.DataLoader(
        sounds, batch_size=20, shuffle=True, cache_bytes=120 * 4096, key="sounds", cache="slow"
    )
    for _ in range(2):
        assert sum(map(len, loader)) > 0
    before = loader.stats()["cache"]
    assert before["split_changes"][0]["why"].startswith("by default: its samples are prepared in Python")
    sounds.wait_s.value = 0.012
    for _ in range(2):
        assert sum(map(len, loader)) > 0
    after = loader.stats()["cache"]
    assert "storage gives" in after["split_changes"][-1]["why"]
    assert before["budget_bytes"]["decoded"] > before["budget_bytes"]["encoded"]
    assert after["budget_bytes"]["encoded"] > after["budget_bytes"]["decoded"]
    assert after["payloads"]["encoded"] > before["payloads"]["encoded"], "and what is over its share goes"


@pytest.mark.usefixtures("quickly")
def test_the_native_threads_tell_what_samples_take(picture_folder):
    _, loader = native(picture_folder, split="0-100-0", cache_bytes="1MiB")
    for _ in range(2):
        list(loader)
    counts = loader._counts
    # All were read, and decoded to be kept, in the first epoch; augmented in both.
    assert counts.times == (48, 0, 48, 96)
    assert counts.decoded_bytes == 48 * 48 * 48 * 3
    assert [seconds > 0 for seconds in counts.spent_s] == [True, False, True, True]
    _, straight = native(picture_folder, cache=None)
    list(straight)
    assert straight._counts.times == (48, 48, 0, 0)
    assert not {"times", "spent_s", "decoded_bytes"} & loader.stats().keys(), "of no use to a user"


@pytest.mark.usefixtures("quickly")
def test_what_pillow_decodes_tells_nothing_of_what_threads_take(picture_folder):
    for path in picture_folder.rglob("*.jpg"):
        Image.open(path).save(path.with_suffix(".png"))
        path.unlink()
    _, loader = native(picture_folder, cache=None)
    list(loader)
    assert loader._counts.times == (48, 0, 0, 0)


@pytest.mark.usefixtures("quickly")
@pytest.mark.parametrize("path", ["native", "workers"])
def test_loaders_tell_where_an_epoch_begins_and_ends(picture_folder, monkeypatch, path):
    told, real_tick, real_begin = [], adapt.Adapter.tick, adapt.Adapter.begin

    def begin(self, progress, job):
        told.append(f"begins with {progress().delivered}")
        real_begin(self, progress, job)

    def tick(self, progress, *, ended=False):
        told.append(f"ended={ended} with {progress().delivered}")
        real_tick(self, progress, ended=ended)

    monkeypatch.setattr(adapt.Adapter, "begin", begin)
    monkeypatch.setattr(adapt.Adapter, "tick", tick)
    if path == "native":
        _, loader = native(picture_folder, batch_size=20)
        for before in (0, 48):
            list(loader)
            assert told == [
                f"begins with {before}",
                *(f"ended=False with {before + done}" for done in (0, 20, 40)),
                f"ended=True with {before + 48}",
            ]
            told.clear()
    else:
        loader = seneca.DataLoader(
            SlowToDecode(), batch_size=50, shuffle=True, cache_bytes="1MiB", key="sounds", cache="epochs"
        )
        list(loader)
        assert told[0] == "begins with 0" and told[-1] == "ended=True with 200"


@pytest.mark.usefixtures("quickly")
def test_a_split_is_chosen_for_the_batches_that_there_are():
    options = {"cache_bytes": "1MiB", "key": "sounds", "cache": "batches"}
    loader = seneca.DataLoader(SlowToDecode(), batch_size=20, num_workers=2, prefetch_factor=3, **options)
    loader._shared_dataset().look()
    iterator = iter(loader)
    assert loader._shared_dataset()._adapter._job == Jobs(batch_size=20, ahead=6, threads=2)
    del iterator
    shared = seneca.SharedDataset(SlowToDecode(), **options)
    sampler = torch.utils.data.RandomSampler(shared)
    batches = seneca.OpportunisticBatchSampler(sampler, batch_size=10, batches_ahead=5)
    next(iter(batches))
    assert shared._adapter._job == Jobs(batch_size=10, ahead=4)


def test_whole_items_have_one_form_and_no_choice(caplog):
    caplog.set_level(logging.INFO, "seneca")
    data = torch.utils.data.TensorDataset(torch.arange(64))
    loader = seneca.DataLoader(data, batch_size=8, shuffle=True, cache_bytes="1MiB")
    assert len(list(loader)) == 8
    cache = loader.stats()["cache"]
    assert (cache["split"], cache["split_changes"]) == ("0-0-100", [])
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == [
        "all of it is for whole items, the one form there is"
    ]


def train(pipe, folder):
    """A job that goes on for ever and tells, now and then, what has become of the split."""
    decision.WORTH = 0.0  # any reason will do
    _, loader = native(folder, cache="of-two", num_workers=0)
    told = None
    while True:
        for _ in loader:
            changes = [change["why"] for change in loader.stats()["cache"]["split_changes"]]
            if changes != told:
                told = changes
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
        wait_for(first, "by a quick look at ")
        second = Process(train, picture_folder)
        with second:
            wait_for(first, "2 jobs in place of 1")
            os.kill(first.pid, signal.SIGKILL)
            wait_for(second, "1 job in place of 2")
            os.kill(second.pid, signal.SIGKILL)
    seneca.SampleCache.remove("of-two")
