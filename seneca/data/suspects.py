"""The samples of which a cache may hold what their files were before: they have changed since it was made.

Size and time of a file can be set back after a change, as ``cp -p`` and ``rsync -t`` do. Nobody can set its
ctime. But ``chmod``, a new link and a backup move that too. Therefore a sample whose file has a newer ctime
than the cache knows of is only suspected, and what is kept of it is compared with the file once::

    ctime not newer ------------------------------> UNCHANGED  served
    ctime newer ----> SUSPECT ---- the same ------> COMPARED   served
                         |
                         +-------- another -------> the cache is of an earlier time, and is given up

All times compared are of the storage's clock. No clock of this host matters.
"""

from __future__ import annotations

import numpy as np

from seneca._core.segment import Segment
from seneca.data.files import PictureFiles

__all__ = ["COMPARED", "SUSPECT", "UNCHANGED", "Suspects"]

UNCHANGED, SUSPECT, COMPARED = range(3)  # as enum sn_change_of_file (csrc/pool/sn_batch.h)
SPREAD = 0x9E3779B97F4A7C15  # odd: a multiple of it has all bits of a number in its upper ones


class Suspects:
    """The suspects of one process.

    Args:
        compared: What was compared, in memory that processes of the job may share: uint32, one for each
            sample, 0 at first.

    Attributes:
        changes: For each sample UNCHANGED, SUSPECT or COMPARED, uint8; None: no file has changed. The native
            core writes COMPARED too. A file that changed while this process knew it, and before the segment
            was made, is COMPARED: the segment has nothing older, but servers of other hosts may.
        files_name: Names the files as they were when :meth:`begin` was called last: see :class:`Seen`.
    """

    def __init__(self, compared: np.ndarray) -> None:
        self.changes: np.ndarray | None = None
        self.files_name = 0
        self._compared = compared
        self._samples = np.zeros(0, np.int64)  # those that have changed, sorted
        self._seals = np.zeros(0, np.uint32)  # each names a change of a file, and the segment
        self._is_newer = np.zeros(0, bool)  # than the segment

    def begin(self, files: PictureFiles, segment: Segment) -> np.ndarray | None:
        """Find the suspects, as the last :meth:`PictureFiles.stat` has them. Returns :attr:`changes`.

        What was compared for an earlier call stays compared until the file changes again.
        """
        self._note_compared()
        self.changes = None
        self.files_name = files.seen().name
        reference = segment.newest_ctime
        newer = files.changed_since(min(reference, files.first_newest_ctime())) if reference else None
        if newer is None:
            return None
        self._samples, ctimes = newer
        self._seals = _seals(ctimes, segment)
        self.changes = np.zeros(len(files), np.uint8)
        self._is_newer = ctimes > reference
        known = ~self._is_newer | (self._compared[self._samples] == self._seals)
        self.changes[self._samples] = np.where(known, COMPARED, SUSPECT)
        return self.changes

    def has_changed(self, sample: int) -> bool:
        """Whether a sample's file has changed since the segment was made. It may have been compared."""
        return self.are_others_older(sample) and bool(self._is_newer[self._at(sample)])

    def are_others_older(self, sample: int) -> bool:
        """Whether servers of other hosts may have of a sample what its file was before."""
        return self.changes is not None and bool(self.changes[sample])

    def has(self, sample: int) -> bool:
        """Whether what is kept of a sample is still to be compared with its file."""
        if self.changes is None or self.changes[sample] != SUSPECT:
            return False
        return bool(self._compared[sample] != self._seals[self._at(sample)])  # another process may have

    def clear(self, sample: int) -> None:
        """Note that what is kept of a sample is what its file comes to now."""
        assert self.changes is not None
        self.changes[sample] = COMPARED
        self._compared[sample] = self._seals[self._at(sample)]

    def _at(self, sample: int) -> int:
        return int(np.searchsorted(self._samples, sample))

    def _note_compared(self) -> None:
        """Keep what the native core has compared."""
        if self.changes is not None:
            done = self.changes[self._samples] == COMPARED
            self._compared[self._samples[done]] = self._seals[done]


def _seals(ctimes: np.ndarray, segment: Segment) -> np.ndarray:
    """Names of these changes, beside this segment, uint32; never 0."""
    number, _ = segment.attachments()
    mixed = (ctimes.view(np.uint64) ^ np.uint64(number * SPREAD % 2**64)) * np.uint64(SPREAD)
    return (mixed >> np.uint64(32)).astype(np.uint32) | np.uint32(1)
