"""What memory gives."""

from __future__ import annotations

import itertools
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

from seneca.tuning import host
from seneca.tuning import profile as measure


@pytest.fixture(autouse=True)
def short(tmp_path, monkeypatch):
    """Measurements of a moment, kept in a folder of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("STORAGE_S", "ALONE_S", "TOGETHER_S", "STEP_S"):
        monkeypatch.setattr(measure, name, 0.2)
    monkeypatch.setattr(measure, "MEMORY_S", 0.02)


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
    raised_texts = []

    def measured():
        with pytest.raises((MemoryError, RuntimeError)) as raised:
            host.memory_bytes_per_s(3, 0.0, 1 << 16)
        raised_texts.append(str(raised.value))

    asks = thread(target=measured, daemon=True)
    asks.start()
    asks.join(timeout=60)
    assert raised_texts == [f"lacks {lacks}"], "who waits for ever says nothing"
    assert threading.active_count() == before
