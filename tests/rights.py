"""Tests as root: files that root may not open either, and files of another user."""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
from collections.abc import Iterator

import pytest

__all__ = ["NOBODY", "as_root", "ordinary_rights"]

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")

VERSION_3 = 0x20080522
PASSES_OVER_MODES = 0b110  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH: see capabilities(7)


@contextlib.contextmanager
def ordinary_rights() -> Iterator[None]:
    """The modes of files bind this thread, and those that it starts, also if it is root's."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = struct.pack("<Ii", VERSION_3, 0)
    before = ctypes.create_string_buffer(24)
    assert libc.capget(header, before) == 0
    effective, *rest = struct.unpack("<6I", before.raw)
    assert libc.capset(header, struct.pack("<6I", effective & ~PASSES_OVER_MODES, *rest)) == 0
    try:
        yield
    finally:
        assert libc.capset(header, before) == 0
