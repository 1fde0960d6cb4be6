"""Policies to compare with, under the same virtual clock: each a model of what a published system does.

All get the same memory, in samples. They deliver each sample once an epoch (the published artifacts of some
do not), and give no job one augmented copy twice. Where a model is kinder than the system, or less kind, its
docstring says so.
"""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import numpy.typing as npt
from simulate import Batch, Scenario

STORAGE, ENCODED, AUGMENTED = 0, 1, 3
Indices = npt.NDArray[np.uint32]


class Independent:
    """Each job draws in an order of its own, and prepares all of it: what is kept are files.

    Subclasses say which of them are in memory.
    """

    def __init__(self, scenario: Scenario, memory: int) -> None:
        self.jobs = scenario.jobs
        self.n_samples = scenario.n_samples
        self.memory = memory
        self.rng = np.random.default_rng(scenario.seed)
        self.order: dict[int, Indices] = {}
        self.at: dict[int, int] = {}

    def samples_of(self, job: int) -> Indices:
        own = self.jobs[job].samples
        return np.arange(self.n_samples, dtype=np.uint32) if own is None else own

    def join(self, job: int) -> None:
        pass

    def leave(self, job: int) -> None:
        pass

    def begin(self, job: int, epoch: int) -> None:
        self.order[job] = self.rng.permutation(self.samples_of(job))
        self.at[job] = 0

    def end(self, job: int) -> None:
        del self.order[job], self.at[job]

    def draw(self, job: int, wanted: int) -> Batch | None:
        indices = self.order[job][self.at[job] : self.at[job] + wanted]
        self.at[job] += len(indices)
        if not len(indices):
            return None
        return Batch(indices, np.where(self.read(indices), np.uint8(ENCODED), np.uint8(STORAGE)))

    def prepared(self, job: int, batch: Batch, first: int, end: int) -> None:
        pass

    def read(self, indices: Indices) -> npt.NDArray[np.bool_]:
        """Which of these files are in memory; they are read, and may be from now on."""
        raise NotImplementedError


class PageCache(Independent):
    """The system's page cache, taken to be LRU: what PyTorch's loader runs over."""

    def __init__(self, *args, **options) -> None:
        super().__init__(*args, **options)
        self.pages: OrderedDict[int, None] = OrderedDict()

    def read(self, indices: Indices) -> npt.NDArray[np.bool_]:
        hits = np.zeros(len(indices), bool)
        for place, sample in enumerate(indices.tolist()):
            if sample in self.pages:
                self.pages.move_to_end(sample)
                hits[place] = True
            else:
                self.pages[sample] = None
                if len(self.pages) > self.memory:
                    self.pages.popitem(last=False)
        return hits


class MinIO(Independent):
    """CoorDL's MinIO: what was read first stays, nothing is ever evicted; shared by all jobs."""

    def __init__(self, *args, **options) -> None:
        super().__init__(*args, **options)
        self.is_kept = np.zeros(self.n_samples, bool)
        self.room = self.memory

    def read(self, indices: Indices) -> npt.NDArray[np.bool_]:
        hits = self.is_kept[indices]
        new = indices[~hits][: self.room]
        self.is_kept[new] = True
        self.room -= len(new)
        return hits


class Threshold(Independent):
    """The paper's opportunistic sampling (Desai et al., FAST '26): augmented copies serve all jobs.

    Places are served from copies whose sample the job has not had in this epoch, at random. A copy is dropped
    when it was used as often as there are jobs, and another sample, at random, takes its place: it is read
    and prepared in advance, which counts and takes the host's time. Kinder than the system: that one is there
    at once. Less kind: who has used a copy is known, so that none serves a job in two epochs.
    """

    def __init__(self, *args, **options) -> None:
        super().__init__(*args, **options)
        self.cached = np.empty(0, np.uint32)
        self.uses = np.empty(0, np.int64)
        self.used = np.zeros((len(self.jobs), 0), bool)  # job, slot: whether it has had this copy
        self.is_cached = np.zeros(self.n_samples, bool)
        self.seen: dict[int, npt.NDArray[np.bool_]] = {}
        self.here: set[int] = set()

    def join(self, job: int) -> None:
        self.here.add(job)

    def leave(self, job: int) -> None:
        self.here.remove(job)

    def begin(self, job: int, epoch: int) -> None:
        super().begin(job, epoch)
        self.seen[job] = np.ones(self.n_samples, bool)
        self.seen[job][self.order[job]] = False

    def draw(self, job: int, wanted: int) -> Batch | None:
        seen = self.seen[job]
        usable = np.flatnonzero(~(seen[self.cached] | self.used[job]))
        hits = self.rng.permutation(usable)[:wanted] if len(usable) > wanted else usable
        served = self.cached[hits]
        seen[served] = True
        misses = self.own(job, wanted - len(served))
        if not len(served) and not len(misses):
            return None
        seen[misses] = True
        self.uses[hits] += 1
        self.used[job, hits] = True
        batch = Batch(
            np.concatenate([served, misses]),
            np.repeat(np.array([AUGMENTED, STORAGE], np.uint8), [len(served), len(misses)]),
        )
        new = misses[~self.is_cached[misses]][: self.memory - len(self.cached)]
        if len(new):
            self.cached = np.concatenate([self.cached, new])
            self.uses = np.concatenate([self.uses, np.ones(len(new), np.int64)])
            self.used = np.pad(self.used, ((0, 0), (0, len(new))))
            self.used[job, -len(new) :] = True
            self.is_cached[new] = True
        batch.besides = self.replace(np.flatnonzero(self.uses >= len(self.here)))
        return batch

    def own(self, job: int, wanted: int) -> Indices:
        """The next of the job's own order that it has not had."""
        found: list[Indices] = []
        while wanted and self.at[job] < len(self.order[job]):
            ahead = self.order[job][self.at[job] : self.at[job] + max(2 * wanted, 256)]
            places = np.flatnonzero(~self.seen[job][ahead])[:wanted]
            self.at[job] += int(places[-1]) + 1 if len(places) == wanted else len(ahead)
            found.append(ahead[places])
            wanted -= len(places)
        return np.concatenate(found) if found else np.empty(0, np.uint32)

    def replace(self, slots: npt.NDArray[np.intp]) -> int:
        self.is_cached[self.cached[slots]] = False
        for slot in slots.tolist():
            if len(self.cached) == self.n_samples:
                sample = int(self.cached[slot])  # all are cached: it is made again
            else:
                sample = int(self.rng.integers(self.n_samples))
                while self.is_cached[sample]:
                    sample = int(self.rng.integers(self.n_samples))
            self.cached[slot] = sample
            self.is_cached[sample] = True
        self.uses[slots] = 0
        self.used[:, slots] = False
        return len(slots)


class _Rest:
    """What a job has still to be given in this epoch: a set that one can draw from at random."""

    def __init__(self, samples: Indices, n_samples: int) -> None:
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


class Joader:
    """JOADER (Xu et al., NeurIPS '22): dependent sampling, and a cache that evicts by reference count.

    A server fills the jobs' queues in rounds. In each round the jobs with room draw dependently: the one
    that has most left draws at random, and each other takes that sample too if it has still to be given it,
    else one that an earlier job of the round drew, else one at random. What a job left out still needs is
    kept while there is room; the least needed goes first. Kinder than the system: no sample is
    lost when a slow job leaves, and a round costs nothing. Less kind: no copy serves a job in two epochs.
    """

    def __init__(self, scenario: Scenario, memory: int) -> None:
        self.jobs = scenario.jobs
        self.n_samples = scenario.n_samples
        self.memory = memory
        self.rng = np.random.default_rng(scenario.seed)
        self.random: list[float] = []
        self.rest: dict[int, _Rest] = {}
        self.queues: dict[int, list[tuple[int, int]]] = {}  # samples given and not yet drawn, and their forms
        self.used: dict[int, int] = {}  # cached sample -> the jobs that had this copy of it, a bit each
        self.needs: dict[int, int] = {}  # cached sample -> how many jobs still need it
        self.by_need: dict[int, OrderedDict[int, None]] = {}

    def join(self, job: int) -> None:
        pass

    def leave(self, job: int) -> None:
        pass

    def begin(self, job: int, epoch: int) -> None:
        own = self.jobs[job].samples
        self.rest[job] = _Rest(np.arange(self.n_samples) if own is None else own, self.n_samples)
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

    def prepared(self, job: int, batch: Batch, first: int, end: int) -> None:
        pass

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


POLICIES = {"threshold": Threshold, "page-cache": PageCache, "minio": MinIO, "joader": Joader}
