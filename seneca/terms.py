"""What a job's processes agree on: what the samples are, and what was drawn for whom."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from seneca.stages import Stages

__all__ = ["Batch", "Names", "PlannedBatch", "Terms"]

_B = TypeVar("_B", bound="Batch")

Names = tuple[bytes, int, int]
"""What jobs share under: the samples, and what DECODED and AUGMENTED payloads hold."""


@dataclass(frozen=True)
class Terms:
    """On what terms processes of a job share, as a look at the dataset found them.

    Attributes:
        name: Of the cache, or "auto".
        source: Names the samples: 16 bytes.
        n_samples: Of the dataset beneath ``Subset``: records are kept of all.
        bytes_about: What its ENCODED payloads take, roughly, for ``cache_bytes="auto"``.
        cache_bytes, split: As the user says.
        shares: Whether AUGMENTED copies are shared.
        stages: How a sample is made.
        own: Indices of the ``n_samples`` that the job goes over, uint32; None: all.
        own_generator: Whether items may be random by a generator of the dataset's own, which nobody can set.
    """

    name: str
    source: bytes
    n_samples: int
    bytes_about: int
    cache_bytes: int | str
    split: Any
    shares: bool
    stages: Stages
    own: np.ndarray | None
    own_generator: bool = False

    # As the cache asks a dataset.

    def __len__(self) -> int:
        return self.n_samples

    def fingerprint(self) -> bytes:
        return self.source

    def total_bytes(self) -> int:
        return self.bytes_about

    @property
    def names(self) -> Names:
        return self.source, self.stages.decoded, self.stages.augmented

    def shares_as(self, other: Terms | None) -> bool:
        """Whether what was made and held on the other terms is good on these. Labels are no part of that."""
        return other is not None and (self.name, self.names, self.shares) == (
            other.name,
            other.names,
            other.shares,
        )


class Batch(list[int]):
    """The indices of a batch, and the look at the dataset that was made for its epoch.

    Attributes:
        look: Which look of the loader's process.
        found: The names that it found. None: that the dataset of worker processes which stay is another by
            now, and they have to look for themselves.
    """

    look: int
    found: Names | None

    @classmethod
    def of(cls: type[_B], indices: Iterable[int], look: int, found: Names | None) -> _B:
        """These indices, for which this look was made."""
        batch = cls(indices)
        batch.look, batch.found = look, found
        return batch


class PlannedBatch(Batch):
    """A batch, and what the sampler holds for it.

    Attributes:
        names: For which it holds that.
        row: The member's, and ``generation`` whose it is.
        claims: In the order of the indices; None: nothing is held, and everything is made.
        log: Where its delivery is written down; None: nowhere.
    """

    names: Names
    row: int
    generation: int
    claims: np.ndarray | None
    log: str | None = None
