"""What is simulated: the jobs, their dataset, and the host that they run on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from seneca.simulate.jobs import Job


@dataclass(frozen=True)
class Scenario:
    """Jobs on one host; equal scenarios have equal outcomes.

    Preparing takes time: the host prepares ``preparing`` times as many samples a unit of time as the
    jobs would consume together if they never waited (of ``at_once`` jobs the fastest count), in the order in
    which they were drawn, on ``threads`` threads; a batch is ready when its last sample is. At 0.5 jobs
    that do not share wait half of their time.

    Attributes:
        jobs: Who they are; in one process here, but each with a handle of its own.
        n_samples: Of the dataset.
        batch: Samples in a batch.
        ahead: Batches under way beyond the one that is asked for.
        preparing: What the host prepares, as a share of what the jobs want to consume.
        threads: Of the host, for all jobs.
        at_once: Jobs that run at a time; who comes when all places are taken waits. None: all.
        warm: What is drawn before all jobs have completed so many epochs is not counted.
        seed: Of orders and jitter.
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
        """Jobs that run at a time, at the most."""
        return self.at_once or len(self.jobs)

    @property
    def prepared_per_time(self) -> float:
        """Samples that the host prepares a unit of time."""
        fastest = sorted((job.speed for job in self.jobs), reverse=True)[: self.places]
        return self.preparing * sum(fastest) * self.n_samples
