"""Jobs that draw in orders of their own: what such policies have in common."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from papers.simulate import Batch, Scenario

STORAGE, ENCODED, AUGMENTED = 0, 1, 3
Indices = npt.NDArray[np.uint32]


class Independent:
    """Each job draws in an order of its own, and prepares all of it: what is kept are files.

    Subclasses say which of them are in memory. The orders follow from the scenario's seed alone, and the
    clock does not depend on what is read. Therefore all subclasses draw the same samples at the same times.

    Args:
        scenario: The jobs and their dataset.
        memory: The number of samples that have room in the cache.
    """

    def __init__(self, scenario: Scenario, memory: int) -> None:
        self.scenario = scenario
        self.jobs = scenario.jobs
        self.n_samples = scenario.n_samples
        self.memory = memory
        self.rng = np.random.default_rng(scenario.seed)  # of the orders alone
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
