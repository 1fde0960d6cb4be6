"""A simulated job: how fast it consumes, from when until when, and which samples are its own."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Job:
    """A training run of one process.

    Attributes:
        speed: The samples that it consumes in a unit of time while it never waits, as a share of
            ``n_samples``.
        start: When the job comes. It may have to wait for a place, see ``at_once`` of :class:`Scenario`.
        epochs: It leaves after so many epochs; None: epochs do not end it.
        end: It leaves at this time, in mid-epoch; None: time does not end it.
        jitter: The standard deviation of a batch's step time, divided by its mean. Step times are gamma
            distributed.
        samples: A uint32 array of its own samples (a ``Subset``), each once; None: the whole dataset.
        seed: The seed of its order; None: one derived from the simulation's seed.
        fixed_order: Whether it takes each sample when its own order has it, and stages no copies, as jobs
            with ``share="decoded"`` do.
    """

    speed: float = 1.0
    start: float = 0.0
    epochs: int | None = None
    end: float | None = None
    jitter: float = 0.0
    samples: npt.NDArray[np.uint32] | None = None
    seed: int | None = None
    fixed_order: bool = False

    def __post_init__(self) -> None:
        if not (self.speed > 0 and math.isfinite(self.speed)):
            raise ValueError(f"speed is above 0, not {self.speed}")
        if self.epochs is None and self.end is None:
            raise ValueError("a job leaves at some time: give epochs, end, or both")
        if self.jitter < 0:
            raise ValueError(f"jitter is at least 0, not {self.jitter}")
