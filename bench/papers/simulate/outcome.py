"""The counts of a simulation, and the bound with which they are compared."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Outcome:
    """The counts of one run.

    Attributes:
        bound: The least possible number of preparations, see :class:`Tally`.
        served: Samples drawn, by the form from which they were served: storage, encoded, decoded,
            augmented.
        besides: Samples that were read and prepared in advance, before any job had asked for them.
        delivered: Samples that each job got.
        epochs: Epochs that each job completed.
        stalled: The time that each job waited for batches.
        time: When the last job left.
    """

    bound: float
    served: tuple[int, int, int, int]
    besides: int
    delivered: tuple[int, ...]
    epochs: tuple[int, ...]
    stalled: tuple[float, ...]
    time: float

    @property
    def preparations(self) -> int:
        """AUGMENTED copies that were made, for one job or for several."""
        return sum(self.served[:3]) + self.besides

    @property
    def efficiency(self) -> float:
        """Sharing efficiency: bound over preparations. It can be slightly above 1, because copies may outlive
        a job."""
        return self.bound / self.preparations if self.preparations else 1.0

    @property
    def reads(self) -> int:
        """Samples that were read from storage."""
        return self.served[0] + self.besides

    @property
    def hits(self) -> float:
        """The share of samples that needed no read from storage, neither when they were served nor in
        advance."""
        return 1 - self.reads / max(1, sum(self.served))


@dataclass
class Tally:
    """Counts what jobs consume, and computes the bound from it.

    The bound: every sample that the fastest attached job consumes must be prepared once, because each copy
    serves that job at most once. A stretch lasts from one coming or going of a job to the next. In each
    stretch the attached jobs are the same, and the largest consumption of any job counts.

    Samples that belong to the same set of jobs' datasets form a class. The bound is the sum over classes,
    because jobs on subsets can share only samples that both have.

    Args:
        samples: Each job's own samples; None for the whole dataset.
        n_samples: The number of samples in the dataset.
    """

    samples: list[npt.NDArray[np.uint32] | None]
    n_samples: int
    bound: float = 0.0
    classes: npt.NDArray[np.intp] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        n_classes = 1
        if any(own is not None for own in self.samples):
            member = np.ones((len(self.samples), self.n_samples), bool)
            for row, own in zip(member, self.samples, strict=True):
                if own is not None:
                    row[:] = False
                    row[own] = True
            _, self.classes = np.unique(member, axis=1, return_inverse=True)
            n_classes = int(self.classes.max()) + 1
        self._consumed = np.zeros((len(self.samples), n_classes), np.int64)

    def consume(self, job: int, indices: npt.NDArray[np.uint32]) -> None:
        """Count a batch that ``job`` takes from its loader."""
        if self.classes is None:
            self._consumed[job, 0] += len(indices)
        else:
            self._consumed[job] += np.bincount(self.classes[indices], minlength=self._consumed.shape[1])

    def next_stretch(self) -> None:
        """Begin a new stretch, because a job comes or goes."""
        self.bound += float(self._consumed.max(axis=0).sum())
        self._consumed[:] = 0

    def forget(self) -> None:
        """Start counting anew."""
        self.bound = 0.0
        self._consumed[:] = 0
