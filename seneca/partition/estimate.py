"""What a model answers: for one split in full, for many in arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from seneca.partition.jobs import Jobs
from seneca.partition.profile import Profile
from seneca.partition.split import Split

__all__ = ["Estimates", "Model", "Prediction", "shares_of"]


@dataclass(frozen=True)
class Prediction:
    """What a model says of one split, in the steady state: caches full, first epoch over.

    Args:
        split: For which.
        samples_per_s: Delivered to all jobs together.
        per_job: Delivered to each.
        limited_by: The resource that runs out first.
        ceilings: What each resource would allow all jobs together, samples a second; its least is
            ``samples_per_s``. Models that average have none.
        memory_bytes: Of the cache, what would be filled.
        mix: Of the samples that are prepared, the shares by the form they start from.
        prepared: Of the samples that are delivered, the share that is prepared for them; the others
            are copies that another job's preparation made.
        page_cache: Of the reads from files, the share that the page cache serves.
    """

    split: Split
    samples_per_s: float
    per_job: tuple[float, ...]
    limited_by: str
    ceilings: dict[str, float] = field(default_factory=dict)
    memory_bytes: float = 0.0
    mix: dict[str, float] = field(default_factory=dict)
    prepared: float = 1.0
    page_cache: float = 0.0


@dataclass(frozen=True)
class Estimates:
    """What a model says of n splits; arrays of length n.

    Args:
        samples_per_s: Of all jobs together.
        memory_bytes: Of the cache, what would be filled.
    """

    samples_per_s: np.ndarray
    memory_bytes: np.ndarray


def shares_of(split: Split) -> np.ndarray:
    """One split as :class:`Model` takes many: float64 (1, 3)."""
    return np.array([[split.encoded, split.decoded, split.augmented]], np.float64)


@dataclass(frozen=True)
class Model:
    """A model in both its forms, pure functions of profile, splits and jobs.

    Args:
        name: As a user writes it.
        predict: For one split, in full.
        estimate: For many: shares are float64 (n, 3), encoded, decoded, augmented.
    """

    name: str
    predict: Callable[[Profile, Split, Jobs], Prediction]
    estimate: Callable[[Profile, np.ndarray, Jobs], Estimates]
