"""How fast storage is, and whether it was storage."""

from __future__ import annotations

import os
import threading
import time

import pytest

import seneca
from seneca._runtime.regular_files import Piece
from seneca.transforms._pipeline import compile_transform
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
    pieces = [Piece(path) for path in sorted(map(str, picture_folder.rglob("*.jpg")))]
    real, lock, all_here = storage._read_whole, threading.Lock(), threading.Barrier(4)
    at_once, most, read = 0, 0, []

    def read_whole(piece, buffer):
        nonlocal at_once, most
        with lock:
            at_once, most = at_once + 1, max(most, at_once + 1)
            read.append(piece)
            first = len(read) <= 4
        if first:
            all_here.wait(timeout=5)  # broken if there are fewer
        got = real(piece, buffer)
        with lock:
            at_once -= 1
        return got

    monkeypatch.setattr(storage, "_read_whole", read_whole)
    reading, count, amount = storage._read(pieces, 4, time.perf_counter() + 60)
    assert (reading.readers, count, most, all_here.broken) == (4, 48, 4, False)
    assert amount == sum(os.path.getsize(piece.path) for piece in pieces)
    assert sorted(read) == pieces
    assert reading.bytes_per_s > 0 and reading.latency_s > 0


def test_small_files_are_dropped_and_read_for_every_number_of_readers(picture_folder):
    pieces = [Piece(path) for path in sorted(map(str, picture_folder.rglob("*.jpg")))]
    assert [one.readers for one in storage.read_storage(pieces, 0.2).readings] == [1, 2, 4, 8, 16, 32]
    assert [one.readers for one in storage.read_storage(pieces[:3], 0.2).readings] == [1, 2]


@pytest.mark.parametrize(("share", "cold"), [(1.0, True), (0.5, False)])
def test_files_are_cold_if_their_bytes_come_from_storage(picture_folder, monkeypatch, share, cold):
    pieces = [Piece(path) for path in sorted(map(str, picture_folder.rglob("*.jpg")))]
    real, fetched = storage._read_whole, [0.0]

    def read_whole(piece, buffer):
        fetched[0] += share * os.path.getsize(piece.path)
        return real(piece, buffer)

    monkeypatch.setattr(storage, "_read_whole", read_whole)
    monkeypatch.setattr(storage, "from_storage", lambda: fetched[0])
    assert storage.read_storage(pieces[:1], 0.1).cold == cold


def test_files_that_stay_in_memory_are_reported(picture_folder, monkeypatch):
    monkeypatch.setattr(storage, "_drop", lambda path: None)
    found = seneca.profile(picture_folder)
    assert not found.storage_cold
    assert any("could not be dropped from the page cache" in note for note in found.notes)


def test_a_file_that_has_gone_is_named(picture_folder):
    pieces = [Piece(path) for path in sorted(map(str, picture_folder.rglob("*.jpg")))]
    os.remove(pieces[3].path)
    with pytest.raises(FileNotFoundError, match=os.path.basename(pieces[3].path)):
        storage.read_storage(pieces, 1.0)
    with pytest.raises(FileNotFoundError, match=os.path.basename(pieces[3].path)):
        work.work_through(pieces, compile_transform(measure.default_transform()), None, threads=2, seconds=60)


@pytest.mark.parametrize("began", [0.0, 0.05, 0.1, 0.15])
def test_a_rate_counts_no_bytes_that_came_before_its_clock_started(began):
    done = [(0.2 * number, 0.2, 1000) for number in range(1, 21)]  # a file of 1000 bytes each 0.2 s
    assert storage._bytes_per_s(done, began, readers=1) == pytest.approx(5000)


def test_a_burst_counts_with_the_pause_before_it():
    """Storage that is held back to 4 MB each 0.1 s: at once, then nothing, then at once."""
    first = [(0.0003 * number, 0.0003, 100_000) for number in range(1, 41)]
    second = [(0.1 + 0.0003 * number, 0.0003, 100_000) for number in range(1, 5)]
    assert storage._bytes_per_s(first + second, 0.0, readers=4) == pytest.approx(44e5 / 0.1012)


def test_few_reads_all_count():
    assert storage._bytes_per_s([(1.0, 1.0, 500), (2.0, 1.0, 700)], 0.0, readers=2) == 600
    one_late = [(0.1, 0.1, 100)] * 5 + [(2.0, 2.0, 700)]
    assert storage._bytes_per_s(one_late, 0.0, readers=1) == 600
