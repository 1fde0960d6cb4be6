"""CoorDL's MinIO: what was read first stays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from papers.policies.independent import Independent, Indices
from papers.simulate import Scenario


class MinIO(Independent):
    """MinIO (CoorDL: Mohan et al., VLDB '21): files that were read first stay, and none is ever evicted.

    Kinder than the original: one cache serves all jobs of the host, which CoorDL has for the jobs of one
    search only. Less kind: nothing. Its misses are those of the paper, 35 % where 65 % of the dataset is
    cached.
    """

    def __init__(self, scenario: Scenario, memory: int) -> None:
        super().__init__(scenario, memory)
        self.is_kept = np.zeros(self.n_samples, bool)
        self.room = memory

    def read(self, indices: Indices) -> npt.NDArray[np.bool_]:
        hits = self.is_kept[indices]
        new = indices[~hits][: self.room]
        self.is_kept[new] = True
        self.room -= len(new)
        return hits
