"""The border to csrc/base/sn_files.h: what storage says about many files at once."""

import os

import numpy as np

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t, uint64_t

__all__ = ["FILE_STAT", "stat_many"]

FILE_STAT = np.dtype([("size_bytes", "<u8"), ("mtime_ns", "<i8"), ("ctime_ns", "<i8"), ("mode", "<u8")])
AT_ONCE = 1 << 16  # files between two chances for Ctrl-C


cdef extern from "base/sn_files.h" nogil:
    ctypedef struct sn_file:
        uint64_t size_bytes, mode
        int64_t mtime_ns, ctime_ns

    int sn_files_stat(const char *paths, const uint64_t *offsets, size_t n, unsigned threads, sn_file *out,
                      size_t *failed)


def stat_many(const unsigned char[::1] paths, const uint64_t[::1] offsets, unsigned threads):
    """Ask for the size, the times of change and the mode of files, through links, in C threads.

    Args:
        paths: Absolute paths one after the other, with a NUL after each.
        offsets: Where each path begins, and at the end the length of ``paths``.
        threads: The number of threads, if storage is fast. Slow storage is asked by 64.

    Returns:
        An array of :data:`FILE_STAT`, one entry a path.

    Raises:
        OSError: A file cannot be asked. Its ``filename`` is the index of the path: the first that failed.
    """
    cdef size_t n = len(offsets) - 1, begin, count, failed = 0
    cdef int rc = 0
    found = np.empty(n, FILE_STAT)
    cdef const uint64_t *places = &offsets[0]
    cdef const char *text = NULL
    cdef unsigned char[::1] memory = found.view(np.uint8)
    if n == 0:
        return found
    text = <const char *>&paths[0]
    for begin in range(0, n, AT_ONCE):
        count = min(<size_t>AT_ONCE, n - begin)
        with nogil:
            rc = sn_files_stat(text, places + begin, count, threads,
                               <sn_file *>&memory[begin * sizeof(sn_file)], &failed)
        if rc < 0:
            raise OSError(-rc, os.strerror(-rc), begin + failed)
        PyErr_CheckSignals()
    return found
