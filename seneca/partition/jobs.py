"""The training jobs that a prediction is for."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Literal

from seneca.partition.hosts import ALONE, Hosts

__all__ = ["MOST_JOBS", "Jobs"]

MOST_JOBS = 64  # each job has a bit in a copy's mask of uses


@dataclass(frozen=True)
class Jobs:
    """Training jobs on one dataset, which share one cache.

    Args:
        count: The number of jobs, from 1 to 64.
        step_per_s: The samples a second that a job's training step takes; a tuple gives each job's. None: a
            step takes as many as it is given.
        batch_size: The samples of a batch.
        ahead: The batches that a loader prepares ahead (``prefetch_factor``).
        threads: The threads, or workers, that prepare in each job (``num_workers``); None: as many as the
            host has cores.
        reads_ahead: The files that each job reads at a time while its threads prepare, at most. 0: its
            threads read for themselves, as worker processes do.
        share: As the loader's argument. With ``"augmented"`` a job uses copies that other jobs made. So it
            does with ``"exact"``, if their seeds are equal, as is assumed here.
        hosts: The hosts that run such jobs. Predictions are for one of them.

    Raises:
        ValueError: An argument is not as described. The message says which.

    Example:
        >>> Jobs(2, step_per_s=(900, 300)).paces
        (900.0, 300.0)
        >>> Jobs(3).paces
        (inf, inf, inf)
    """

    count: int = 1
    step_per_s: float | tuple[float, ...] | None = None
    batch_size: int = 256
    ahead: int = 2
    threads: int | None = None
    reads_ahead: int = 0
    share: Literal["augmented", "decoded", "exact", "none"] = "augmented"
    hosts: Hosts = ALONE
    paces: tuple[float, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 1 <= self.count <= MOST_JOBS:
            raise ValueError(f"jobs are from 1 to {MOST_JOBS}, but got {self.count!r}")
        if self.batch_size < 1:
            raise ValueError(f"batch_size is at least 1, but got {self.batch_size!r}")
        counts = ("ahead", self.ahead), ("threads", self.threads), ("reads_ahead", self.reads_ahead)
        for name, value in counts:
            if value is not None and value < 0:
                raise ValueError(f"{name} is at least 0, but got {value!r}")
        if self.share not in ("augmented", "decoded", "exact", "none"):
            raise ValueError(f'share is "augmented", "decoded", "exact" or "none", but got {self.share!r}')
        steps = self.step_per_s
        if not isinstance(steps, tuple):
            steps = (math.inf if steps is None else float(steps),) * self.count
        if len(steps) != self.count or not all(step > 0 for step in steps):
            raise ValueError(f"step_per_s is one number above 0 or one a job, but got {self.step_per_s!r}")
        object.__setattr__(self, "paces", tuple(map(float, steps)))

    def longer(self, seconds: float) -> Jobs:
        """The same jobs, with training loops that need so much more time for each sample."""
        if not seconds:
            return self  # with the same paces to the last digit
        spans = [1.0 / pace + seconds for pace in self.paces]
        return replace(self, step_per_s=tuple(1.0 / span for span in spans))

    @property
    def in_flight(self) -> int:
        """The samples that all jobs together have under way, at most: an epoch may have fewer."""
        return self.count * self.batch_size * (self.ahead + 1)
