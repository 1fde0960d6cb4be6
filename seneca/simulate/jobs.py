"""What a simulated job is: how fast it consumes, from when until when, and which samples are its own."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Job:
    """One training run of one process.

    Attributes:
        speed: Samples it consumes a unit of time, as a share of ``n_samples``, when it never waits.
        start: When it comes; it may have to wait for a place, see ``at_once`` of :func:`simulate`.
        epochs: It leaves after so many; None: not for that reason.
        end: It leaves at this time, in mid-epoch; None: not for that reason.
        jitter: The standard deviation of a batch's step time over its mean; steps are gamma distributed.
        samples: uint32 array of its own samples (a ``Subset``), each once; None: the whole dataset.
        seed: Names its order; None: one of its own, made of the simulation's seed.
    """

    speed: float = 1.0
    start: float = 0.0
    epochs: int | None = None
    end: float | None = None
    jitter: float = 0.0
    samples: npt.NDArray[np.uint32] | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        if not (self.speed > 0 and math.isfinite(self.speed)):
            raise ValueError(f"speed is above 0, not {self.speed}")
        if self.epochs is None and self.end is None:
            raise ValueError("a job leaves at some time: give epochs, end, or both")
        if self.jitter < 0:
            raise ValueError(f"jitter is at least 0, not {self.jitter}")
