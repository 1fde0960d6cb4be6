"""The input of a simulation: the jobs, their dataset, and the host on which they run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from papers.simulate.jobs import Job


@dataclass(frozen=True)
class Scenario:
    """Jobs on one host. Equal scenarios have equal outcomes.

    Preparing takes time. The host's rate is ``preparing`` times the samples that the jobs would consume
    together if they never waited. If there are more jobs than ``at_once``, only the fastest count for this.
    The host prepares samples in the order of the draws, on ``threads`` threads. A batch is ready when its
    last sample is ready. With ``preparing=0.5``, jobs that do not share wait half of their time.

    Attributes:
        jobs: The jobs. They run in one process here, but each has its own handle.
        n_samples: The number of samples in the dataset.
        batch: Samples in a batch.
        ahead: Batches under way besides the one that is asked for.
        preparing: The host's rate, as a share of what the jobs would consume.
        threads: The host's threads, for all jobs together.
        at_once: The number of jobs that run at a time. A job that comes when all places are taken waits.
            None: all jobs run.
        warm: Draws before all jobs have completed so many epochs are not counted.
        seed: The seed of orders and jitter.
    """

    jobs: Sequence[Job]
    n_samples: int
    batch: int = 64
    ahead: int = 2
    preparing: float = 0.5
    threads: int = 8
    at_once: int | None = None
    warm: int = 0
    seed: int = 0

    @property
    def places(self) -> int:
        """The most jobs that run at a time."""
        return self.at_once or len(self.jobs)

    @property
    def prepared_per_time(self) -> float:
        """The samples that the host prepares in a unit of time."""
        fastest = sorted((job.speed for job in self.jobs), reverse=True)[: self.places]
        return self.preparing * sum(fastest) * self.n_samples
