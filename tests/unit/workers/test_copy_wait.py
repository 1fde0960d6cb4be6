"""How long a process waits for copies that other jobs make, by a clock of the test's own."""

from types import SimpleNamespace

import pytest

from seneca.workers import copy_wait as module
from seneca.workers.copy_wait import CopyWait


@pytest.fixture
def clock(monkeypatch):
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


@pytest.mark.parametrize(
    ("item_s", "wait_s"),
    [(0.0, 0.02), (0.004, 0.02), (0.01, 0.04), (0.025, 0.1), (0.04, 0.1), (0.3, 0.6)],
)
def test_it_is_four_samples_long_within_limits(clock, item_s, wait_s):
    copy_wait = CopyWait()
    copy_wait.begin(item_s)
    clock.now += wait_s * 0.99
    assert not copy_wait.is_over([5])
    clock.now += wait_s * 0.02
    assert copy_wait.is_over([5])


def test_each_copy_that_comes_begins_it_anew(clock):
    copy_wait = CopyWait()
    for _ in range(10):
        copy_wait.begin(0.0)
        clock.now += 0.019
        assert not copy_wait.is_over([5])
        copy_wait.came(5)


def test_who_was_waited_for_in_vain_is_not_waited_for_again_until_a_copy_of_its_making_comes(clock):
    copy_wait = CopyWait()
    copy_wait.begin(0.0)
    clock.now += 1
    assert copy_wait.is_over([5, 6])
    copy_wait.begin(0.0)
    assert copy_wait.is_over([5]) and copy_wait.is_over([6, 5])
    assert not copy_wait.is_over([5, 7]), "another may still come"
    copy_wait.came(5)
    assert not copy_wait.is_over([5]) and copy_wait.is_over([6])
