"""Eviction by next use: Belady's rule, and Lobster's, which knows less of the future."""

from __future__ import annotations

import heapq

import numpy as np
import numpy.typing as npt

from papers.policies.independent import Independent, Indices
from papers.simulate import Scenario, run

NEVER = np.iinfo(np.int64).max


def next_draws(draws: Indices) -> npt.NDArray[np.int64]:
    """For each draw, when its sample is drawn next."""
    following = np.full(len(draws), NEVER)
    order = np.lexsort((np.arange(len(draws)), draws))
    same = draws[order[1:]] == draws[order[:-1]]
    following[order[:-1][same]] = order[1:][same]
    return following


def found(draws: Indices, room: int) -> npt.NDArray[np.bool_]:
    """Which of ``draws`` a cache of ``room`` samples finds, if it evicts what is drawn last.

    No cache of that room finds more of the same draws (Belady, IBM Systems Journal 5(2), 1966), also none
    that reads in advance: what is read in advance is read.
    """
    kept: dict[int, int] = {}  # sample -> its next draw
    latest: list[tuple[int, int]] = []  # (-next draw, sample); may name what is not so any more
    hits = np.zeros(len(draws), bool)
    for place, (sample, following) in enumerate(zip(draws.tolist(), next_draws(draws).tolist(), strict=True)):
        hits[place] = sample in kept
        kept[sample] = following
        heapq.heappush(latest, (-following, sample))
        while len(kept) > room:
            minus, victim = heapq.heappop(latest)
            if kept.get(victim) == -minus:
                del kept[victim]
    return hits


class _Ahead(Independent):
    """Notes what is drawn."""

    def __init__(self, scenario: Scenario, memory: int) -> None:
        super().__init__(scenario, memory)
        self.seen: list[Indices] = []

    def read(self, indices: Indices) -> npt.NDArray[np.bool_]:
        self.seen.append(indices)
        return np.zeros(len(indices), bool)


def all_draws(scenario: Scenario) -> Indices:
    """What jobs with orders of their own will draw, all of it, in the order of the clock."""
    ahead = _Ahead(scenario, 0)
    run(scenario, ahead)
    return np.concatenate([np.empty(0, np.uint32), *ahead.seen])


class Belady(Independent):
    """Of files in memory, the one is evicted that is drawn last; one that is read need not be kept.

    This is Lobster (Liu et al., ICPP '22) with two things that are kinder. Lobster knows the orders of this
    epoch and the next, and here all draws to come are known, also those of jobs that have not begun.
    Lobster's threads are left out: it gives more of them to ranks that are behind, which changes when a
    batch comes and not what is read.
    """

    def __init__(self, scenario: Scenario, memory: int) -> None:
        super().__init__(scenario, memory)
        self.found = found(all_draws(scenario), memory)
        self.drawn = 0

    def read(self, indices: Indices) -> npt.NDArray[np.bool_]:
        first = self.drawn
        self.drawn += len(indices)
        return self.found[first : self.drawn]
