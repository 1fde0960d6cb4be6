"""The terms on which the processes of a job agree, and a batch with what was drawn for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from seneca.data.stages import Pictures, Stages, names_of_exact
from seneca.data.support import Support
from seneca.options import Options
from seneca.partition import Split

__all__ = ["Batch", "Names", "PlannedBatch", "Terms"]

_B = TypeVar("_B", bound="Batch")

Names = tuple[bytes, int, int]
"""The names under which jobs share: of the samples, and of what DECODED and AUGMENTED payloads hold."""


@dataclass(frozen=True)
class Terms:
    """The terms by which processes of a job share, as an inspection of the dataset found them.

    Attributes:
        name: The name of the cache, or "auto".
        source: The fingerprint of the samples: 16 bytes.
        n_samples: The number of samples of the dataset beneath ``Subset``. The cache has records of all.
        bytes_about: The size of all its ENCODED payloads, roughly, for ``cache_bytes="auto"``.
        on_demand: Whether the cache gets memory only as it fills, because ``bytes_about`` is a guess.
        cache_bytes, split: As the user gave them.
        keep: For how many seconds the cache outlives its last user.
        shares: Whether AUGMENTED copies are shared.
        stages: How a sample is made.
        own: The samples that the job goes over, uint32; None: all.
        exact: Whether each sample's random numbers are named by the seed and the number of the epoch, so that
            all jobs make the same copies.
        own_generator: Whether the dataset has a random generator of its own, which nobody else can set.
        always: Whether copies are shared whatever they cost: exact ones, because other jobs wait for them,
            and those for which the user gave a split.
    """

    name: str
    source: bytes
    n_samples: int
    bytes_about: int
    on_demand: bool
    cache_bytes: int | str
    split: Any
    keep: float
    shares: bool
    stages: Stages
    own: np.ndarray | None
    exact: bool = False
    own_generator: bool = False
    always: bool = False

    @classmethod
    def of(cls, support: Support, options: Options) -> Terms | None:
        """The terms for what an inspection has found; None: nothing can be shared."""
        stages, is_exact = support.stages, options.share == "exact"
        shares = stages is not None and (is_exact or (options.share == "augmented" and not stages.same))
        if stages is None or options.cache is None or not (shares or stages.decoded):
            return None
        return cls(
            name=options.cache,
            source=stages.source,
            n_samples=len(support.base),
            bytes_about=support.total_bytes,
            on_demand=support.files is None and options.cache_bytes == "auto",
            cache_bytes=options.cache_bytes,
            split=options.split_wanted if stages.decoded or options.split != "auto" else Split(0, 0, 1),
            keep=options.keep_wanted,
            shares=shares,
            stages=stages,
            own=support.own,
            exact=is_exact,
            own_generator=support.made_of is not None and support.made_of.own_generator,
            always=is_exact or options.split != "auto",
        )

    # What the cache asks a dataset for.

    def __len__(self) -> int:
        return self.n_samples

    def fingerprint(self) -> bytes:
        return self.source

    def total_bytes(self) -> int:
        return self.bytes_about

    def newest_ctime(self) -> int:
        return self.stages.files.newest_ctime() if isinstance(self.stages, Pictures) else 0

    @property
    def names(self) -> Names:
        return self.source, self.stages.decoded, self.stages.augmented

    @property
    def exchanged(self) -> int:
        """The name of the copies that jobs use in place of each other's; 0: there are none."""
        return self.stages.augmented if self.shares and not self.exact else 0

    def names_of_epoch(self, seed: int, epoch: int) -> tuple[int, int]:
        """See :func:`seneca.data.stages.names_of_exact`."""
        return names_of_exact(self.stages.augmented, seed, epoch)

    def shares_as(self, other: Terms | None) -> bool:
        """Whether payloads made by the other terms may be used by these. Labels do not matter for that."""
        return other is self or (
            other is not None
            and (self.name, self.names, self.shares, self.exact)
            == (
                other.name,
                other.names,
                other.shares,
                other.exact,
            )
        )


class Batch(list[int]):
    """The indices of a batch, and the inspection of the dataset that was made for its epoch.

    Attributes:
        inspection: The number of that inspection, in the loader's process.
        found: The names that it found. None: it found nothing to share, or persistent workers have another
            dataset than the loader's process and have to inspect it for themselves.
        files: The name of the files of pictures as that inspection has seen them, see
            :class:`seneca.data.file_lists.Seen`; 0: there are none.
        epoch: The seed and the number of the epoch, which name the random numbers of samples where copies are
            exact; None: they are not named.
    """

    inspection: int
    found: Names | None
    files: int
    epoch: tuple[int, int] | None = None

    @classmethod
    def of(
        cls: type[_B],
        indices: Iterable[int],
        inspection: int,
        found: Names | None,
        files: int = 0,
        epoch: tuple[int, int] | None = None,
    ) -> _B:
        """These indices, for which this inspection was made."""
        batch = cls(indices)
        batch.inspection, batch.found, batch.files, batch.epoch = inspection, found, files, epoch
        return batch


class PlannedBatch(Batch):
    """A batch, and what the sampler holds for it.

    Attributes:
        names: The names under which the sampler holds it.
        row, generation: The member's row, and which occupant of the row the member is.
        claims: What is held, in the order of the indices; None: nothing is, and all items are made.
        log: The log of the epoch's deliveries; None: there is none.
    """

    names: Names
    row: int
    generation: int
    claims: np.ndarray | None
    log: str | None = None
