"""How fast storage is, and whether it was storage."""

from __future__ import annotations

import os
import threading
import time

import pytest

import seneca
from seneca.transforms._pipeline import MAX_PIXELS, compile_transform
from seneca.tuning import profile as measure
from seneca.tuning import storage, work


@pytest.fixture(autouse=True)
def short(tmp_path, monkeypatch):
    """Measurements of a moment, kept in a folder of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("STORAGE_S", "ALONE_S", "TOGETHER_S", "STEP_S"):
        monkeypatch.setattr(measure, name, 0.2)
    monkeypatch.setattr(measure, "MEMORY_S", 0.02)


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
    assert [one.readers for one in storage.read_storage(paths, 0.2).readings] == [1, 2, 4, 8, 16, 32]
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
