"""Whether a job got each of its samples exactly once an epoch, by the ids that it wrote down.

A job appends pairs of ``uint32``, epoch and sample, to its own file as batches reach it. The process that
started it reads the file afterwards. A job that is killed leaves at most half a pair at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

__all__ = ["Verdict", "exactly_once", "judge", "read_ids", "write_ids"]


@dataclass(frozen=True)
class Verdict:
    """The errors in the ids of some epochs. Two verdicts can be added.

    Attributes:
        epochs: Epochs that were checked.
        ids: Ids that were checked.
        missing: Samples that an epoch lacked.
        repeated: Deliveries of a sample in an epoch after the first.
        foreign: Ids that are not in the dataset.

    Example:
        >>> Verdict(epochs=1, ids=10) + Verdict(epochs=1, ids=9, missing=1)
        Verdict(epochs=2, ids=19, missing=1, repeated=0, foreign=0)
    """

    epochs: int = 0
    ids: int = 0
    missing: int = 0
    repeated: int = 0
    foreign: int = 0

    @property
    def good(self) -> bool:
        """Whether at least one epoch was checked, and nothing was wrong."""
        return self.epochs > 0 and not (self.missing or self.repeated or self.foreign)

    def __add__(self, other: Verdict) -> Verdict:
        return Verdict(
            self.epochs + other.epochs,
            self.ids + other.ids,
            self.missing + other.missing,
            self.repeated + other.repeated,
            self.foreign + other.foreign,
        )


def exactly_once(ids: np.ndarray, samples: int) -> Verdict:
    """Check the ids of one completed epoch over a dataset of ``samples``.

    Example:
        >>> exactly_once(np.array([2, 0, 0, 7]), samples=3)
        Verdict(epochs=1, ids=4, missing=1, repeated=1, foreign=1)
    """
    known = ids[ids < samples]
    counts = np.bincount(known, minlength=samples)
    return Verdict(
        epochs=1,
        ids=len(ids),
        missing=int((counts == 0).sum()),
        repeated=int(np.maximum(counts - 1, 0).sum()),
        foreign=len(ids) - len(known),
    )


def write_ids(file: BinaryIO, epoch: int, ids: np.ndarray) -> None:
    """Append the ids of one batch to a job's file."""
    pairs = np.empty((len(ids), 2), dtype="<u4")
    pairs[:, 0] = epoch
    pairs[:, 1] = ids
    file.write(pairs.tobytes())


def read_ids(path: Path) -> dict[int, np.ndarray]:
    """The ids of each epoch in a job's file, in the order of delivery. Without a file there are no epochs."""
    if not path.exists():
        return {}
    content = path.read_bytes()
    pairs = np.frombuffer(content[: len(content) // 8 * 8], dtype="<u4").reshape(-1, 2)
    return {int(epoch): pairs[pairs[:, 0] == epoch, 1] for epoch in np.unique(pairs[:, 0])}


def judge(path: Path, samples: int, epochs: int) -> Verdict:
    """Check the first ``epochs`` epochs of a job's file. An epoch that is not there lacks all samples."""
    by_epoch = read_ids(path)
    nothing = np.empty(0, dtype=np.uint32)
    return sum(
        (exactly_once(by_epoch.get(epoch, nothing), samples) for epoch in range(epochs)), start=Verdict()
    )
