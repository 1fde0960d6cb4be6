"""SHADE: samples by importance, with replacement."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from papers.policies.independent import Independent, Indices
from papers.simulate import Scenario


class Shade(Independent):
    """SHADE (Khan et al., FAST '23): jobs draw by importance, with replacement.

    The cache holds the most important samples.

    Only its hits compare: an epoch has as many draws as there are samples, some samples several times and
    others never. It is no policy for a job that asks for each sample once.

    Importance falls linearly with the rank, and stays as it is. Kinder than the original: the ranks are
    known from the start and are the same for all jobs, therefore the cache holds what all of them draw
    most. Less kind: SHADE's ranks come from losses, which may fall more steeply. With these, a cache of a
    share c finds c * (2 - c) of what is drawn.
    """

    def __init__(self, scenario: Scenario, memory: int) -> None:
        super().__init__(scenario, memory)
        self.rank = np.random.default_rng([scenario.seed, 1]).permutation(self.n_samples)  # of each sample
        self.is_here = np.zeros(self.n_samples, bool)

    def begin(self, job: int, epoch: int) -> None:
        own = self.samples_of(job)
        importance = self.n_samples - self.rank[own]
        self.order[job] = self.rng.choice(own, len(own), p=importance / importance.sum())
        self.at[job] = 0

    def read(self, indices: Indices) -> npt.NDArray[np.bool_]:
        hits = np.zeros(len(indices), bool)
        for place, sample in enumerate(indices.tolist()):  # one may be drawn twice in a batch
            hits[place] = self.is_here[sample]
            self.is_here[sample] = self.rank[sample] < self.memory
        return hits
