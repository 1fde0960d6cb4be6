"""What a simulation counted, and the bound that it is held to."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Outcome:
    """Of one run.

    Attributes:
        preparations: Augmented copies made, for one job or for several.
        bound: The least that could have been, see :class:`Tally`.
        served: Samples drawn by the form they were served from: storage, encoded, decoded, augmented.
        delivered: Samples that each job was given.
        epochs: Epochs that each job completed.
        stalled: Time that each job waited for batches.
        time: When the last job left.
    """

    preparations: int
    bound: float
    served: tuple[int, int, int, int]
    delivered: tuple[int, ...]
    epochs: tuple[int, ...]
    stalled: tuple[float, ...]
    time: float

    @property
    def efficiency(self) -> float:
        """Sharing efficiency: bound over preparations. It can pass 1 a little: copies may outlive a job."""
        return self.bound / self.preparations if self.preparations else 1.0

    @property
    def reads(self) -> int:
        """Samples read from storage."""
        return self.served[0]

    @property
    def hits(self) -> float:
        """The share of samples that were served without reading storage."""
        return 1 - self.served[0] / max(1, sum(self.served))


@dataclass
class Tally:
    """Counts what jobs consume, and from it the bound.

    The bound: every sample that the fastest attached job consumes must be prepared once, since each
    copy serves it at most once. The jobs that are attached are the same from one coming or going to the
    next; for each such stretch the most that any job consumed in it counts. Samples that belong to the
    same set of jobs' datasets form a class, and the bound is the sum over classes: jobs on subsets
    can share only what both have.

    Args:
        samples: Of each job, its own; None for the whole dataset.
        n_samples: Of the dataset.
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
        """A batch is drawn out of its loader by ``job``."""
        if self.classes is None:
            self._consumed[job, 0] += len(indices)
        else:
            self._consumed[job] += np.bincount(self.classes[indices], minlength=self._consumed.shape[1])

    def next_stretch(self) -> None:
        """A job comes or goes: another set of them is attached from now on."""
        self.bound += float(self._consumed.max(axis=0).sum())
        self._consumed[:] = 0

    def forget(self) -> None:
        """Count from now on."""
        self.bound = 0.0
        self._consumed[:] = 0
