"""Measuring a host: what a profile of real files says, and what it does where it cannot measure."""

from __future__ import annotations

import itertools
import json
import math
import os
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

import seneca
from seneca import groups, measure
from seneca import transforms as T
from seneca._pipeline.plan import MAX_PIXELS, compile_transform
from seneca.errors import DecodeError, PlanError
from seneca.measure import host, storage, work
from seneca.measure.quick import quick
from seneca.partition import Cost, Profile


@pytest.fixture(autouse=True)
def short(tmp_path, monkeypatch):
    """Measurements of a moment, kept in a folder of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("STORAGE_S", "ALONE_S", "TOGETHER_S", "STEP_S"):
        monkeypatch.setattr(measure, name, 0.2)
    monkeypatch.setattr(measure, "MEMORY_S", 0.02)


def test_a_profile_is_of_these_files_and_this_transform(picture_folder):
    dataset = seneca.ImageFolder(picture_folder, T.Compose([T.Resize((40, 48)), T.RandomCrop(32)]))
    told = []
    found = seneca.profile(dataset, step=123.0, cache_bytes="1MiB", progress=lambda *what: told.append(what))
    sizes = [os.path.getsize(path) for path, _ in dataset.samples]
    assert found.samples == 48
    assert found.encoded.mean_bytes == pytest.approx(np.mean(sizes))
    assert found.decoded.mean_bytes == 40 * 48 * 3 and found.decoded.std_bytes == 0
    assert found.augmented.mean_bytes == 32 * 32 * 3
    assert found.batch_bytes == 32 * 32 * 3 * 4
    assert (found.step_per_s, found.cache_bytes, found.deterministic) == (123.0, 1 << 20, False)
    assert found.dataset == dataset.fingerprint().hex()
    assert found.cores == host.cores()
    assert [reading.readers for reading in found.storage] == [1, 2, 4, 8, 16]
    for stage in work.STAGES:
        cost = getattr(found, stage)
        assert isinstance(cost, Cost) and cost.one_s > 0 and cost.all_s > 0
    shares = [share for share, _ in told]
    assert shares == sorted(shares) and shares[0] == 0 and shares[-1] == 1


def test_a_measurement_is_kept_and_recalled(picture_folder, monkeypatch):
    first = seneca.profile(picture_folder, cache_bytes="1MiB")
    monkeypatch.setattr(measure, "_measure", lambda *arguments: pytest.fail("measured again"))
    again = seneca.profile(picture_folder, cache_bytes="2MiB", step=10)
    assert again.storage == first.storage and again.prepare == first.prepare
    assert (again.cache_bytes, again.step_per_s) == (2 << 20, 10)
    with pytest.raises(pytest.fail.Exception):
        seneca.profile(picture_folder, fresh=True)
    with pytest.raises(pytest.fail.Exception):  # other files
        os.utime(next(picture_folder.rglob("*.jpg")), (1, 1))
        seneca.profile(picture_folder)


def test_another_transform_is_another_measurement(picture_folder):
    first = seneca.profile(picture_folder)
    other = seneca.profile(picture_folder, transform=T.Compose([T.RandomResizedCrop(64)]))
    assert first.dataset == other.dataset and first.pipeline != other.pipeline


def test_a_profile_of_another_version_is_measured_anew(picture_folder):
    first = seneca.profile(picture_folder)
    path = measure.profile_path(first.host, first.dataset, first.pipeline)
    fields = json.loads(path.read_text())
    path.write_text(json.dumps({**fields, "version": 99}))
    assert seneca.profile(picture_folder).version == 1
    assert Profile.load(path).version == 1


@pytest.mark.parametrize("home", ["/dev/null", "/proc/nowhere"])
def test_without_a_home_it_is_measured_and_not_kept(picture_folder, monkeypatch, home):
    """As of users that services run as."""
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", home)
    dataset = seneca.ImageFolder(picture_folder, measure.default_transform())
    found = seneca.profile(dataset)
    assert found.samples == 48 and any("could not be kept" in note for note in found.notes)
    pipeline = compile_transform(dataset.transform)
    assert measure.recall(dataset.fingerprint().hex(), pipeline) is None


def test_torch_is_not_needed_for_a_folder_of_jpegs(picture_folder, tmp_path):
    code = f"""if True:
        import sys, seneca.measure as measure
        measure.STORAGE_S = measure.ALONE_S = measure.TOGETHER_S = measure.MEMORY_S = 0.02
        measure.profile({str(picture_folder)!r})
        assert "torch" not in sys.modules"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=os.getcwd())


def test_the_pace_of_a_step_is_measured(picture_folder, monkeypatch):
    monkeypatch.setattr(measure, "STEP_S", 0.0)  # one step
    seen = []

    def step(images, labels):
        seen.append((tuple(images.shape), str(images.dtype), tuple(labels.shape)))

    found = seneca.profile(picture_folder, step=step, batch_size=6)
    assert seen == [((6, 3, 224, 224), "torch.float32", (6,))] * (measure.WARM_UP_STEPS + 1)
    assert found.step_per_s > 0


@pytest.mark.parametrize("step", [0.0, -1.0, math.nan, math.inf])
def test_a_pace_that_is_none_is_refused(picture_folder, step):
    with pytest.raises(ValueError, match="step is samples a second, above 0"):
        seneca.profile(picture_folder, step=step)


def test_what_cannot_be_measured_is_refused(picture_folder, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError):
        seneca.profile(tmp_path / "empty")
    with pytest.raises(PlanError, match="only what runs natively can be profiled"):
        seneca.profile(seneca.ImageFolder(picture_folder, transform=lambda picture: picture))
    with pytest.raises(ValueError, match="a dataset has its own transform"):
        seneca.profile(seneca.ImageFolder(picture_folder), transform=T.Compose([T.RandomCrop(8)]))


def test_pictures_that_cannot_be_decoded_are_left_out_and_told(picture_folder):
    for path in list(picture_folder.rglob("*.jpg"))[:10]:
        path.write_bytes(b"\xff\xd8\xff\xe0 no more of it")
    found = seneca.profile(picture_folder)
    assert any("could not be decoded and were left out" in note for note in found.notes)
    for path in picture_folder.rglob("*.jpg"):
        path.write_bytes(b"\xff\xd8\xff\xe0 no more of it")
    with pytest.raises(DecodeError, match=r"none of \d+ pictures could be decoded"):
        seneca.profile(picture_folder)


def test_pictures_that_pillow_decodes_are_measured_and_told(tmp_path):
    for number in range(4):
        (tmp_path / "pictures" / "a").mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (50 + number, 60)).save(tmp_path / "pictures" / "a" / f"{number}.png")
    found = seneca.profile(tmp_path / "pictures", transform=T.Compose([T.RandomResizedCrop(16)]))
    assert found.augmented.mean_bytes == 16 * 16 * 3
    assert any("are no JPEGs: Pillow decodes these" in note for note in found.notes)


def test_scaling_is_told_by_pictures_that_both_measurements_saw():
    alone = work.Work(seconds={0: (1.0,) * 5, 1: (3.0,) * 5})
    together = work.Work(seconds={0: (2.0,) * 5, 1: (6.0,) * 5, 2: (40.0,) * 5})
    assert work.costs(alone, together)["decode"] == Cost(one_s=8.0, all_s=16.0)


def test_a_stage_that_the_clock_reads_0_for_scales_and_is_a_number():
    alone = work.Work(seconds={0: (1e-3,) * 5})
    together = work.Work(seconds={0: (0.0, 2e-3, 0.0, 2e-3, 1e-4)})
    found = work.costs(alone, together)
    assert found["fetch"] == Cost(0.0, 0.0)
    assert found["decode"] == Cost(1e-3, 2e-3)


def test_every_picture_is_worked_on_once_whatever_the_threads(picture_folder):
    paths = sorted(str(path) for path in picture_folder.rglob("*.jpg"))
    pipeline = compile_transform(T.Compose([T.RandomResizedCrop(16)]))
    done = work.work_through(paths, pipeline, MAX_PIXELS, threads=3, seconds=60)
    assert sorted(done.seconds) == list(range(48))
    assert sorted(done.encoded) == sorted(os.path.getsize(path) for path in paths)


def test_storage_is_read_by_so_many_at_a_time(picture_folder, monkeypatch):
    paths = sorted(str(path) for path in picture_folder.rglob("*.jpg"))
    real, lock, all_here = storage._read_whole, threading.Lock(), threading.Barrier(4)
    at_once, most, read = 0, 0, []

    def read_whole(path, buffer):
        nonlocal at_once, most
        with lock:
            at_once, most = at_once + 1, max(most, at_once + 1)
            read.append(path)
            first = len(read) <= 4
        if first:
            all_here.wait(timeout=5)  # broken if there are fewer
        got = real(path, buffer)
        with lock:
            at_once -= 1
        return got

    monkeypatch.setattr(storage, "_read_whole", read_whole)
    reading, count, amount = storage._read(paths, 4, time.perf_counter() + 60)
    assert (reading.readers, count, most, all_here.broken) == (4, 48, 4, False)
    assert amount == sum(os.path.getsize(path) for path in paths)
    assert sorted(read) == paths
    assert reading.bytes_per_s > 0 and reading.latency_s > 0


def test_small_files_are_dropped_and_read_for_every_number_of_readers(picture_folder):
    paths = sorted(str(path) for path in picture_folder.rglob("*.jpg"))
    assert [one.readers for one in storage.read_storage(paths, 0.2).readings] == list(storage.READERS)
    assert [one.readers for one in storage.read_storage(paths[:3], 0.2).readings] == [1, 2]


@pytest.mark.parametrize(("share", "cold"), [(1.0, True), (0.5, False)])
def test_files_are_cold_if_their_bytes_come_from_storage(picture_folder, monkeypatch, share, cold):
    paths = sorted(str(path) for path in picture_folder.rglob("*.jpg"))
    real, fetched = storage._read_whole, [0.0]

    def read_whole(path, buffer):
        fetched[0] += share * os.path.getsize(path)
        return real(path, buffer)

    monkeypatch.setattr(storage, "_read_whole", read_whole)
    monkeypatch.setattr(storage, "from_storage", lambda: fetched[0])
    assert storage.read_storage(paths[:1], 0.1).cold == cold


def test_files_that_stay_in_memory_are_told(picture_folder, monkeypatch):
    monkeypatch.setattr(storage, "_drop", lambda path: None)
    found = seneca.profile(picture_folder)
    assert not found.storage_cold
    assert any("could not be dropped from the page cache" in note for note in found.notes)


def test_a_file_that_has_gone_is_named(picture_folder):
    paths = sorted(str(path) for path in picture_folder.rglob("*.jpg"))
    os.remove(paths[3])
    with pytest.raises(FileNotFoundError, match=os.path.basename(paths[3])):
        storage.read_storage(paths, 1.0)
    with pytest.raises(FileNotFoundError, match=os.path.basename(paths[3])):
        work.work_through(
            paths, compile_transform(measure.default_transform()), MAX_PIXELS, threads=2, seconds=60
        )


@pytest.mark.parametrize("cores", [1, 6, 64])
def test_a_quick_look_measures_memory_without_taking_much(picture_folder, monkeypatch, cores):
    real, asked = host.memory_bytes_per_s, []

    def measured(threads, seconds, bytes_each):
        asked.append((threads, seconds, bytes_each))
        real(threads, seconds, 1 << 10)
        return 123e9

    monkeypatch.setattr(host, "cores", lambda: cores)
    monkeypatch.setattr(host, "memory_bytes_per_s", measured)
    dataset = seneca.ImageFolder(picture_folder, T.Compose([T.RandomCrop(32)]))
    found = quick(dataset, compile_transform(dataset.transform), MAX_PIXELS, 1 << 20)
    assert found.memory_bytes_per_s == 123e9
    [(threads, seconds, bytes_each)] = asked
    assert threads == min(cores, 8) and seconds == 0.0  # each copies once
    assert 0.9 * host.COPIED_BYTES < threads * bytes_each <= host.COPIED_BYTES


def test_both_looks_say_the_same_of_what_they_both_know(picture_folder):
    dataset = seneca.ImageFolder(picture_folder, T.Compose([T.Resize((40, 48)), T.RandomCrop(32)]))
    quickly = quick(dataset, compile_transform(dataset.transform), MAX_PIXELS, 1 << 20)
    whole = seneca.profile(dataset, cache_bytes="1MiB")
    for name in ("host", "dataset", "samples", "cores", "cache_bytes", "decoded", "augmented", "batch_bytes"):
        assert getattr(quickly, name) == getattr(whole, name), name
    assert quickly.encoded.mean_bytes == whole.encoded.mean_bytes
    for stage in work.STAGES:
        assert getattr(quickly, stage).all_s > 0
    assert 0 < quickly.measured_samples <= 48


def test_what_memory_gives_is_by_bytes_read_and_written(monkeypatch):
    seconds = iter([0.0, 0.5])
    clocks = SimpleNamespace(perf_counter=time.perf_counter, thread_time=lambda: next(seconds))
    monkeypatch.setattr(host, "time", clocks)
    assert host.memory_bytes_per_s(1, 0.0, 1 << 20) == 2 * (1 << 20) / 0.5


@pytest.mark.parametrize(("free", "each"), [(1 << 40, 1 << 20), (8 << 20, 1 << 20), (2 << 20, 1 << 18)])
def test_memory_is_measured_with_half_of_what_is_free_at_the_most(monkeypatch, free, each):
    real, taken = np.empty, []
    monkeypatch.setattr(np, "empty", lambda size, kind: taken.append(size) or real(size, kind))
    monkeypatch.setattr(host, "free_memory", lambda: free)
    assert host.memory_bytes_per_s(2, 0.0, 1 << 20) > 0
    assert taken == [each] * 4


@pytest.mark.parametrize("lacks", ["room", "pages", "threads"])
def test_no_thread_waits_for_one_that_does_not_come(monkeypatch, lacks):
    real, thread, before = np.empty, threading.Thread, threading.active_count()
    arrays, threads = itertools.count(), itertools.count()

    class WithoutPages:
        def fill(self, value):
            raise MemoryError("lacks pages")

    def empty(size, kind):
        number = next(arrays)
        if lacks == "room" and number == 5:
            raise MemoryError("lacks room")
        return WithoutPages() if lacks == "pages" and number == 4 else real(size, kind)

    class Thread(thread):
        def start(self):
            if lacks == "threads" and next(threads) == 2:
                raise RuntimeError("lacks threads")
            super().start()

    monkeypatch.setattr(np, "empty", empty)
    monkeypatch.setattr(threading, "Thread", Thread)
    told = []

    def measured():
        with pytest.raises((MemoryError, RuntimeError)) as raised:
            host.memory_bytes_per_s(3, 0.0, 1 << 16)
        told.append(str(raised.value))

    asks = thread(target=measured, daemon=True)
    asks.start()
    asks.join(timeout=60)
    assert told == [f"lacks {lacks}"], "who waits for ever tells nothing"
    assert threading.active_count() == before


@pytest.fixture
def grouped(tmp_path, monkeypatch):
    """A host of 8 cores; ``grouped(path, text)`` writes a file of its control groups."""

    def write(path, text):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    monkeypatch.setattr(groups, "PROC", tmp_path / "proc")
    monkeypatch.setattr(groups, "GROUPS", tmp_path / "groups")
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))
    return write


@pytest.mark.parametrize("place", ["", "user/job/", "user/"])
def test_a_control_group_may_allow_fewer_cores(grouped, place):
    grouped("proc/self/cgroup", "0::/user/job\n")
    assert host.cores() == 8
    for text, cores in (
        ("max 100000\n", 8),
        ("250000 100000\n", 3),
        ("50000 100000\n", 1),
        ("9900000 100000", 8),
    ):
        grouped(f"groups/{place}cpu.max", text)
        assert host.cores() == cores


def test_the_group_that_allows_least_decides(grouped):
    grouped("proc/self/cgroup", "0::/user/job\n")
    grouped("groups/user/job/cpu.max", "500000 100000\n")
    grouped("groups/user/cpu.max", "300000 100000\n")
    assert host.cores() == 3
    grouped("groups/user/job/cpu.max", "200000 100000\n")
    assert host.cores() == 2


@pytest.mark.parametrize(("quota", "cores"), [(-1, 8), (250000, 3), (1000, 1)])
def test_a_control_group_of_the_first_version_may_allow_fewer_cores(grouped, quota, cores):
    grouped("proc/self/cgroup", "7:memory:/other\n4:cpu,cpuacct:/user/job\n")
    grouped("groups/cpu/user/job/cpu.cfs_quota_us", f"{quota}\n")
    grouped("groups/cpu/user/job/cpu.cfs_period_us", "100000\n")
    assert host.cores() == cores
