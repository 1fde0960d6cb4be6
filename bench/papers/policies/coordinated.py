"""CoorDL's coordinated preparation: one order for all jobs, in lock-step."""

from __future__ import annotations

import numpy as np

from papers.policies.independent import AUGMENTED, Indices
from papers.policies.minio import MinIO
from papers.simulate import Batch, Scenario
from papers.simulate.clock import NOT_YET


class Coordinated(MinIO):
    """Coordinated preparation (CoorDL: Mohan et al., VLDB '21): a minibatch is prepared once for all.

    All jobs of a search take the same minibatches in the same order. A minibatch stays until each job has
    had it, and no job takes one that lies more than :attr:`WINDOW` ahead of the slowest. The rest of the
    memory is MinIO's. Therefore all run at the pace of the slowest, all see the same order, and a job that
    comes in mid-epoch waits for the next one.

    Kinder than the original: a job that ends is left out at once, where CoorDL waits for a timeout, and
    those that come second have a minibatch as soon as the first has begun with it. Less kind: the
    minibatches of the window take memory from MinIO's files, where CoorDL's staging comes on top.

    Jobs have one dataset: ``Job.samples`` is ignored.
    """

    WINDOW = 1  # minibatches

    def __init__(self, scenario: Scenario, memory: int) -> None:
        super().__init__(scenario, max(0, memory - self.WINDOW * scenario.batch))
        starts = sorted(job.start for job in self.jobs)
        self.awaited = min(starts.count(starts[0]), scenario.places)  # jobs that start together
        self.ready: set[int] = set()  # jobs that wait for the epoch that all begin
        self.taken: dict[int, int] = {}  # job of the epoch under way -> the minibatches that it has had
        self.shared: Indices = np.empty(0, np.uint32)

    def begin(self, job: int, epoch: int) -> None:
        self.ready.add(job)

    def end(self, job: int) -> None:
        self.ready.discard(job)
        self.taken.pop(job, None)

    def draw(self, job: int, wanted: int) -> Batch | None:
        if job in self.ready:
            if self.taken or len(self.ready) < self.awaited:
                return NOT_YET
            self.awaited = 0
            self.taken = dict.fromkeys(self.ready, 0)
            self.ready.clear()
            self.shared = self.rng.permutation(np.arange(self.n_samples, dtype=np.uint32))
        number = self.taken[job]
        indices = self.shared[number * wanted : (number + 1) * wanted]
        if not len(indices):
            return None
        if number >= min(self.taken.values()) + self.WINDOW:
            return NOT_YET
        is_first = number >= max(self.taken.values())
        self.taken[job] += 1
        if not is_first:
            return Batch(indices, np.full(len(indices), AUGMENTED, np.uint8))
        return Batch(indices, self.read(indices).astype(np.uint8))  # ENCODED or STORAGE
