"""A cache that somebody uses gets its memory piece by piece.

::

    made with the first piece --Growth.step()--> one piece more --> ... --> all that was asked for
                                      |
                                      +--> no memory: it stays at what it has

This goes on in the background, if it is known how much memory the cache can use. Else a cache that is more
than half full gets as much again (``Growth.make_room()``), from a process that makes samples.

What makes this safe is in csrc/store/sn_backing.h.
"""

from __future__ import annotations

from seneca import errors
from seneca._core.codes import Unlinked
from seneca._core.segment import GRANULE, Segment
from seneca._runtime.warn import warn
from seneca.cache.room import free_space, limit_of

__all__ = ["FIRST_BYTES", "FIRST_ON_DEMAND", "Growth"]

# Payload space gets memory a piece at a time: the first as a cache is made, the others in the background.
FIRST_BYTES = 512 << 20
FIRST_ON_DEMAND = 16 << 20
PIECE_BYTES = 64 << 20
SPARE_BYTES = 512 << 20  # a cache for which there is not enough memory leaves so much of it to others
CHECK_EVERY_S = 0.2  # whether the process that reserves memory goes on


class Growth:
    """Gives the rest of a cache's payload space memory, a piece at a time.

    Every process that is attached takes part in this, and one of them does it. If it is killed or stopped,
    the others see that the count stands still, and one of them goes on. Two that reserve at once do no harm.
    """

    def __init__(self, segment: Segment, name: str, folder: str) -> None:
        self._segment, self._name, self._folder = segment, name, folder
        self._works, self._seen = segment.created, -1

    def step(self) -> float | None:
        """Reserve a piece, or check whether another process does. Returns as a step of Background does."""
        try:
            reserved, wanted = self._segment.reserved_bytes, self._segment.payload_bytes
            lacks = wanted - reserved
            if lacks <= 0:
                return None
            if not self._works and reserved != self._seen:
                self._seen = reserved
                return CHECK_EVERY_S
            if not self._has_grown(PIECE_BYTES, lacks):
                return None
            return 0.0 if self._works else CHECK_EVERY_S
        except BlockingIOError:
            return CHECK_EVERY_S
        except (errors.SegmentError, Unlinked):
            return None  # it was closed or given up

    def make_room(self, needed: int) -> None:
        """Reserve more, if there is no room for so many bytes or half of what is reserved is used."""
        try:
            reserved = self._segment.reserved_bytes
            lacks = self._segment.payload_bytes - reserved
            if lacks > 0 and self._segment.unused_bytes < max(needed, reserved // 2):
                self._has_grown(max(needed, reserved, FIRST_ON_DEMAND), lacks)
        except (BlockingIOError, errors.SegmentError, Unlinked):
            return  # the next batch asks again, if the cache is still there

    def _has_grown(self, size: int, lacks: int) -> bool:
        """Reserve so many of the bytes that it lacks. False: there is no memory, and it stays as it is."""
        if (full := _what_is_full(self._folder, size, lacks)) is None:
            try:
                self._works = self._segment.grow(-(-size // GRANULE))
                return True
            except OSError as error:
                full = f"{self._folder}: {error.strerror}"
        reserved, wanted = self._segment.reserved_bytes, self._segment.payload_bytes
        if self._segment.stop_growing():
            warn(
                f"the cache {self._name!r} stays at {reserved / 2**30:.1f} of "
                f"{wanted / 2**30:.1f} GiB: {full}. The jobs go on with that"
            )
        return False


def _what_is_full(folder: str, size: int, lacks: int) -> str | None:
    """Why a cache does not get so many of the bytes that it lacks, as a text; None: it gets them."""
    try:
        free, limit = free_space(folder), limit_of(folder)
    except FileNotFoundError:
        return f"{folder} was removed"
    except OSError as error:
        return f"{folder}: {error.strerror}"
    enough = min(lacks, size + SPARE_BYTES)
    if enough > free:
        return f"{folder} has {free / 2**20:,.1f} MiB left"
    if limit is not None and enough > limit.most:
        return f"{limit.name} still allows {max(0, limit.most) / 2**20:,.1f} MiB"
    return None
