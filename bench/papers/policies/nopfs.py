"""NoPFS: what is used most often stays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from papers.policies.belady import all_draws
from papers.policies.independent import Independent, Indices
from papers.simulate import Scenario


class NoPFS(Independent):
    """NoPFS (Dryden et al., SC '21): what a host uses most often is placed in its memory.

    Each job's orders are known, because they follow from a seed.

    Kinder than the original: the draws of all jobs are known, also of those that come later. Less kind:
    there is one host, and its memory is the one tier. Files are not fetched from other hosts' memory. It
    reads in the known order ahead of the jobs, which hides reads and saves none. Therefore that is left
    out: only what is read counts here.

    Jobs of one host that each take the whole dataset use all files equally often. Then the placement is
    MinIO's.
    """

    def __init__(self, scenario: Scenario, memory: int) -> None:
        super().__init__(scenario, memory)
        uses = np.bincount(all_draws(scenario), minlength=self.n_samples)
        self.is_placed = np.zeros(self.n_samples, bool)
        self.is_placed[np.argsort(-uses, kind="stable")[:memory]] = True
        self.is_here = np.zeros(self.n_samples, bool)

    def read(self, indices: Indices) -> npt.NDArray[np.bool_]:
        hits = self.is_here[indices]
        self.is_here[indices[self.is_placed[indices]]] = True
        return hits
