"""JOADER's dependent sampling."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np

from papers.policies.independent import AUGMENTED, STORAGE, Independent, Indices
from papers.simulate import Batch, Scenario


class _Rest:
    """What a job has still to be given in this epoch: a set that one can draw from at random."""

    def __init__(self, samples: Indices) -> None:
        self.items = samples.tolist()
        self.place = dict(zip(self.items, range(len(self.items)), strict=True))

    def __len__(self) -> int:
        return len(self.items)

    def __contains__(self, sample: int) -> bool:
        return sample in self.place

    def remove(self, sample: int) -> None:
        place, last = self.place.pop(sample), self.items.pop()
        if last != sample:
            self.items[place] = last
            self.place[last] = place


class Joader(Independent):
    """JOADER (Xu et al., NeurIPS '22): dependent sampling, and a cache that evicts by reference count.

    A server fills the jobs' queues in rounds. In each round the jobs with room draw dependently: the one
    that has most left draws at random, and each other takes that sample too if it has still to be given it,
    else one that an earlier job of the round drew, else one at random. What a job left out still needs is
    kept while there is room; the least needed goes first. Kinder than the original: no sample is
    lost when a slow job leaves, and a round costs nothing. Less kind: no copy serves a job in two epochs.
    """

    def __init__(self, scenario: Scenario, memory: int) -> None:
        super().__init__(scenario, memory)
        self.random: list[float] = []
        self.rest: dict[int, _Rest] = {}
        self.queues: dict[int, list[tuple[int, int]]] = {}  # samples given and not yet drawn, and their forms
        self.used: dict[int, int] = {}  # cached sample -> the jobs that had this copy of it, a bit each
        self.needs: dict[int, int] = {}  # cached sample -> how many jobs still need it
        self.by_need: dict[int, OrderedDict[int, None]] = {}

    def begin(self, job: int, epoch: int) -> None:
        self.rest[job] = _Rest(self.samples_of(job))
        self.queues[job] = []
        for sample in list(self.needs):
            self.count(sample)

    def end(self, job: int) -> None:
        del self.rest[job], self.queues[job]
        for sample in list(self.needs):
            self.count(sample)

    def draw(self, job: int, wanted: int) -> Batch | None:
        queue = self.queues[job]
        while len(queue) < wanted and self.rest[job]:
            self.round(wanted)
        if not queue:
            return None
        given, self.queues[job] = queue[:wanted], queue[wanted:]
        array = np.array(given, np.uint32)
        return Batch(array[:, 0], array[:, 1].astype(np.uint8))

    def pick(self, n: int) -> int:
        if not self.random:
            self.random = self.rng.random(4096).tolist()
        return int(self.random.pop() * n)

    def round(self, room: int) -> None:
        jobs = [j for j, rest in self.rest.items() if rest and len(self.queues[j]) < room]
        jobs.sort(key=lambda j: -len(self.rest[j]))
        drawn: list[int] = []
        for j in jobs:
            rest, bit, form = self.rest[j], 1 << j, AUGMENTED
            sample = next((s for s in drawn if s in rest and not self.used[s] & bit), None)
            if sample is None:
                sample = rest.items[self.pick(len(rest))]
                if sample not in drawn:
                    drawn.append(sample)
                if self.used.get(sample, bit) & bit:  # there is no copy, or one that it has had
                    self.used[sample], form = 0, STORAGE
            self.used[sample] |= bit
            self.queues[j].append((sample, form))
            rest.remove(sample)
        for sample in drawn:
            self.count(sample)

    def count(self, sample: int) -> None:
        """Note how many still need a copy; keep it while somebody does and there is room."""
        if sample not in self.used:
            return  # given up for another of this round
        old = self.needs.pop(sample, None)
        if old is not None:
            del self.by_need[old][sample]
        used = self.used[sample]
        need = sum(sample in rest and not used >> j & 1 for j, rest in self.rest.items())
        if need and len(self.needs) >= self.memory:
            least = min((n for n, samples in self.by_need.items() if samples), default=need)
            if least >= need:
                need = 0
            else:
                evicted, _ = self.by_need[least].popitem(last=False)
                del self.needs[evicted], self.used[evicted]
        if need:
            self.needs[sample] = need
            self.by_need.setdefault(need, OrderedDict())[sample] = None
        else:
            del self.used[sample]
