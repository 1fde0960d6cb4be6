"""The answers of a model: for one split in full, for many splits in arrays."""

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
    """A model's prediction for one split in the steady state: the cache is full, the first epoch is over.

    Args:
        split: The split.
        samples_per_s: Samples a second that are delivered to all jobs together.
        per_job: Samples a second that are delivered to each job.
        limited_by: The resource that runs out first.
        ceilings: The samples a second that each resource would allow all jobs together. The least is
            ``samples_per_s``. Models that average have no ceilings.
        filled_bytes: The bytes of the cache that each form would fill.
        mix: For each form, the share of the preparations that start from it.
        prepared: The share of the delivered samples that are prepared for their delivery. The others are
            copies that another job has made.
        page_cache: The share of the reads that the page cache serves.
    """

    split: Split
    samples_per_s: float
    per_job: tuple[float, ...]
    limited_by: str
    ceilings: dict[str, float] = field(default_factory=dict)
    filled_bytes: dict[str, float] = field(default_factory=dict)
    mix: dict[str, float] = field(default_factory=dict)
    prepared: float = 1.0
    page_cache: float = 0.0

    @property
    def memory_bytes(self) -> float:
        """The bytes of the cache that would be filled."""
        return sum(self.filled_bytes.values())


@dataclass(frozen=True)
class Estimates:
    """A model's predictions for n splits, in arrays of length n.

    Args:
        samples_per_s: Samples a second of all jobs together.
        memory_bytes: The bytes of the cache that would be filled.
    """

    samples_per_s: np.ndarray
    memory_bytes: np.ndarray


def shares_of(split: Split) -> np.ndarray:
    """One split in the array form of :class:`Model`: float64 (1, 4)."""
    return np.array([[split.encoded, split.recoded, split.decoded, split.augmented]], np.float64)


@dataclass(frozen=True)
class Model:
    """A model in two forms. Both are pure functions of profile, splits and jobs.

    Args:
        name: The name that users write.
        predict: The full prediction for one split.
        estimate: The estimates for many splits. The shares are float64 (n, 4): encoded, recoded, decoded,
            augmented.
        has_recoded: Whether the model has the form RECODED. If not, no share for it is tried.
    """

    name: str
    predict: Callable[[Profile, Split, Jobs], Prediction]
    estimate: Callable[[Profile, np.ndarray, Jobs], Estimates]
    has_recoded: bool = True
