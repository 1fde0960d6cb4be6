"""How long preparing takes: the threads of one host, which all jobs share."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


class Host:
    """Threads that prepare samples in the order in which they were drawn, each as long as the other.

    Args:
        rate: Samples all threads together prepare a unit of time; ``inf``: preparing takes no time.
        threads: A sample takes ``threads / rate``.
    """

    def __init__(self, rate: float, threads: int = 8) -> None:
        self._takes = threads / rate
        self._free_at = np.zeros(threads)  # ascending

    def prepare(self, now: float, count: int) -> npt.NDArray[np.float64]:
        """When each of ``count`` samples that were drawn ``now`` is done, in their order; never decreases."""
        threads = len(self._free_at)
        begins = np.maximum(self._free_at, now)
        turns = np.arange(count)
        done = begins[turns % threads] + (turns // threads + 1) * self._takes
        if count >= threads:
            self._free_at = done[count - threads :]
        else:
            self._free_at = np.concatenate([begins[count:], done])
        return done
