"""TensorSocket: one loader for all jobs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from papers.policies.coordinated import Coordinated
from papers.policies.independent import Indices
from papers.policies.page_cache import PageCache
from papers.simulate import Scenario


class TensorSocket(Coordinated):
    """TensorSocket (Robroek et al., 2024): one process loads for all jobs, in one order.

    The loader reads over the page cache, which has all memory but that of the batches under way. A job may
    be two batches ahead of the slowest. Kinder than the original: there is no process between, and a job
    that ends stops nobody. Less kind: a job that comes within the first 2 % of an epoch waits for the next
    one too, where TensorSocket lets it catch up.
    """

    WINDOW = 2

    def __init__(self, scenario: Scenario, memory: int) -> None:
        super().__init__(scenario, memory)
        self.page_cache = PageCache(scenario, self.memory)

    def read(self, indices: Indices) -> npt.NDArray[np.bool_]:
        return self.page_cache.read(indices)
