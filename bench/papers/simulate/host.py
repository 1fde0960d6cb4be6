"""The time of preparing: the threads of one host, which all jobs share."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_NOTHING = np.empty(0)


class Host:
    """Threads that prepare samples in the order of the draws. Each sample takes equally long.

    Args:
        rate: Samples that all threads together prepare in a unit of time; ``inf``: preparing takes no time.
        threads: The number of threads. A sample takes ``threads / rate``.
    """

    def __init__(self, rate: float, threads: int = 8) -> None:
        self._takes = threads / rate
        self._free_at = np.zeros(threads)  # ascending

    def prepare(self, now: float, count: int) -> npt.NDArray[np.float64]:
        """The times at which ``count`` samples drawn ``now`` are done, in their order. They never
        decrease."""
        if count == 0:
            return _NOTHING
        threads = len(self._free_at)
        begins = np.maximum(self._free_at, now)
        turns = np.arange(count)
        done = begins[turns % threads] + (turns // threads + 1) * self._takes
        if count >= threads:
            self._free_at = done[count - threads :]
        else:
            self._free_at = np.concatenate([begins[count:], done])
        return done
