"""Measures again what something else has disturbed.

Virtual machines share their cores with others. The time for which a core of this one was ready to run and
another machine had it is *stolen* time; the kernel counts it. It also counts the time that all programs have
used. What is neither idle nor the benchmark's own is that of *other programs*. A measurement that compares a
known stall with the one that was found, or a prediction with a rate, must not count another's work as either.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TypeVar

__all__ = ["least_disturbed"]

T = TypeVar("T")

NO_MATTER = 0.01  # of the time of all cores
TIMES = 3


def least_disturbed(measure: Callable[[], T]) -> tuple[T, float]:
    """What ``measure`` returns from the least disturbed of at most three calls.

    The first call in which less than 1 % of the time of all cores was stolen or used by other programs is the
    last. The calls are chosen by that share alone, and never by what they return. ``measure`` waits for the
    processes that it starts: else they would count as others.

    Returns:
        The result; the share (0 to 1) of the time of all cores that was stolen or others' meanwhile.
    """
    found: list[tuple[float, T]] = []
    for _ in range(TIMES):
        began, stolen, used, own = time.monotonic(), *host_s(), own_s()
        result = measure()
        stolen_after, used_after = host_s()
        others = max(0.0, (used_after - used) - (own_s() - own))
        passed = (time.monotonic() - began) * (os.cpu_count() or 1)
        share = (stolen_after - stolen + others) / passed
        found.append((share, result))
        if share < NO_MATTER:
            break
    share, result = min(found, key=lambda one: one[0])
    return result, share


def host_s() -> tuple[float, float]:
    """Seconds of all cores since this machine began: stolen by the hypervisor; used by programs."""
    with open("/proc/stat") as file:
        user, nice, system, _, _, irq, softirq, stolen = map(int, file.readline().split()[1:9])
    tick = os.sysconf("SC_CLK_TCK")
    return stolen / tick, (user + nice + system + irq + softirq) / tick


def own_s() -> float:
    """Seconds that this process has used, and those that it and its children have waited for."""
    return sum(os.times()[:4])
