"""The kernel's page cache: what torch's loader and DALI run over."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from papers.policies.independent import Independent, Indices
from papers.simulate import Scenario


class PageCache(Independent):
    """Each job by itself over files in the kernel's page cache, which all jobs share.

    A file that is read evicts one at random. That is what CoorDL (Mohan et al., VLDB '21) measured of one
    job: 53 % misses where 65 % of the dataset fit, and 85 % where 35 % fit. A strict LRU list would miss 72
    and 93 %: Linux has two lists, and ages whole folios by their referenced bits.

    Kinder than the original: memory of the jobs' own does not take pages away, and a file is in memory as a
    whole or not at all. CoorDL's eight jobs at 35 % read the dataset 7.2 times in an epoch, each nearly all
    of it. Jobs that share a cache of 35 % and are at other places of other orders find about 35 % in it,
    whatever is evicted: here they read it 5.5 times. The rest is not in the mechanism that the paper has.
    """

    def __init__(self, scenario: Scenario, memory: int) -> None:
        super().__init__(scenario, memory)
        self.slot = np.full(self.n_samples, -1)  # of each sample; -1: not in memory
        self.pages: list[int] = []
        self.chance = np.random.default_rng([scenario.seed, 1])

    def read(self, indices: Indices) -> npt.NDArray[np.bool_]:
        hits = np.zeros(len(indices), bool)
        victims = self.chance.integers(self.memory, size=len(indices)) if self.memory else None
        for place, sample in enumerate(indices.tolist()):
            hits[place] = self.slot[sample] >= 0
            if hits[place] or victims is None:
                continue
            if len(self.pages) < self.memory:
                self.slot[sample] = len(self.pages)
                self.pages.append(sample)
            else:
                victim = int(victims[place])
                self.slot[self.pages[victim]] = -1
                self.pages[victim], self.slot[sample] = sample, victim
        return hits
