"""What a job's processes agree on: what the samples are, and what was drawn for whom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from seneca.stages import Stages

__all__ = ["PlannedBatch", "Terms"]


@dataclass(frozen=True)
class Terms:
    """On what terms processes of a job share: the same in all of them."""

    name: str  # of the cache, or "auto"
    source: bytes
    n_samples: int
    bytes_about: int
    cache_bytes: int | str
    split: Any
    shares: bool
    stages: Stages
    own: np.ndarray | None

    # As the cache asks a dataset.

    def __len__(self) -> int:
        return self.n_samples

    def fingerprint(self) -> bytes:
        return self.source

    def total_bytes(self) -> int:
        return self.bytes_about

    def equals(self, other: Terms | None) -> bool:
        """Whether all that was found is as it was."""
        if other is None or (self.own is None) != (other.own is None):
            return False
        same = self.own is None or other.own is None or np.array_equal(self.own, other.own)
        return same and self._key == other._key

    @property
    def _key(self) -> tuple[Any, ...]:
        stages = self.stages
        return self.name, self.source, self.n_samples, stages.decoded, stages.augmented, self.shares


class PlannedBatch(list[int]):
    """The indices of a batch, and what the sampler holds for them.

    Attributes:
        source: Names the samples, as the sampler found them.
        augmented: Names what the claimed copies hold.
        row: The member's, and ``generation`` whose it is.
        claims: In the order of the indices; None: nothing is held, and everything is made.
        log: Where its delivery is written down; None: nowhere.
    """

    source: bytes
    augmented: int
    row: int
    generation: int
    claims: np.ndarray | None
    log: str | None = None
