"""The meaning of csrc's codes in Python: exceptions, and reasons in words."""

import os

from libc.errno cimport ENOMEM, ENOSPC

from seneca import errors

__all__ = ["Unlinked", "picture_error", "segment_error", "why_private"]

_NO_ROOM = (
    "no room is left for the records of one more of its users; free some of /dev/shm, or of SENECA_DIR where that is "
    "set, or make it larger: mount -o remount,size=... /dev/shm; in Docker --shm-size=..."
)
_NO_ADDRESSES = (
    "the kernel gives this process no address space for it; raise the process's limit on virtual memory "
    "(ulimit -v), or make the cache with a smaller cache_bytes"
)
_SEGMENT_ERRORS = {
    SN_E_MAGIC: (errors.NotASegmentError, "it was not made by Seneca"),
    SN_E_VERSION: (errors.SegmentVersionError, "another version of Seneca made it"),
    SN_E_CORRUPT: (errors.SegmentCorruptError, "its header contradicts itself"),
    SN_E_ROWS_FULL: (errors.TooManyMembersError, "every row of the segment has a living owner"),
    SN_E_JOBS_FULL: (errors.TooManyJobsError, "64 jobs are attached already"),
    SN_E_MISMATCH: (errors.SegmentMismatchError, "it holds another dataset"),
    SN_E_OWNER: (errors.SegmentOwnerError, "it belongs to another user, or others may open it"),
    SN_E_FORKED: (errors.SegmentError, "this handle belongs to the parent process; attach again"),
    SN_E_CLOSED: (errors.SegmentError, "it was closed; attach again"),
    SN_E_RECORDS: (errors.SegmentError, _NO_ROOM),
    SN_E_MAPPING: (errors.SegmentError, _NO_ADDRESSES),
}
_PICTURE_ERRORS = {
    SN_E_FOR_PILLOW: errors.LeftToPillowError,
    SN_E_DECODE: errors.DecodeError,
    SN_E_TOO_LARGE: errors.PictureTooLargeError,
    SN_E_PLAN: errors.PlanError,
}


class Unlinked(Exception):
    """The object behind the descriptor is not, or no longer, what the name stands for."""


def segment_error(rc):
    """The exception that says what the code ``rc`` of csrc/shm, csrc/store or csrc/member means."""
    if rc in (SN_MISS, SN_E_GONE, SN_E_ABANDONED):
        return Unlinked()
    if rc == SN_BUSY:
        return BlockingIOError("another process holds the lock")
    if rc in _SEGMENT_ERRORS:
        kind, message = _SEGMENT_ERRORS[rc]
        return kind(message)
    if rc == -ENOMEM:
        return MemoryError("no memory for what this process notes of a cache")
    return OSError(-rc, os.strerror(-rc))


def picture_error(rc, message):
    """The exception that says what the code ``rc`` of csrc/codec or csrc/pool means."""
    if rc in _PICTURE_ERRORS:
        return _PICTURE_ERRORS[rc](message)
    if rc == -ENOMEM:
        return MemoryError(message)
    return OSError(-rc, message or os.strerror(-rc))


def why_private(rc):
    """Why a member was given no row, in words."""
    if rc == SN_BUSY:
        return "another process held the cache's lock for too long; it is stopped, or the host is overloaded"
    if rc == -ENOSPC or rc == -ENOMEM:  # of sn_row_claim(): the row's own memory
        return _NO_ROOM
    if rc == SN_E_ROWS_FULL:
        return ("all rows of the cache are taken; use fewer loaders and workers, or put some jobs under another "
                "cache name")
    if rc == SN_E_ABANDONED:
        return ("the cache was given up, because three processes died while they repaired it; jobs that start now "
                "make another")
    return str(segment_error(rc))


cdef int check(int rc) except -1:
    if rc < 0:
        raise segment_error(rc)
    return rc
