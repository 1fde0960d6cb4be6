"""The files that are mapped into this process, as the kernel lists them."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

__all__ = ["Mapping", "file_mappings"]

# A line for each mapping. One of no file has no inode.
_OF_A_FILE = re.compile(rb"^([0-9a-f]+)-([0-9a-f]+) (\S+) ([0-9a-f]+) \S+ ([1-9][0-9]*) +(.+)$", re.MULTILINE)


class Mapping(NamedTuple):
    """Addresses at which a piece of a file is mapped.

    Args:
        begin, end: The addresses.
        at: Where the piece begins in the file, in bytes.
        private: Whether what is written there stays in this process.
        writable: Whether it may be written.
        inode: Of the file.
        path: Of the file, with " (deleted)" if it has lost this name.
    """

    begin: int
    end: int
    at: int
    private: bool
    writable: bool
    inode: int
    path: str

    def follows(self, other: Mapping) -> bool:
        """Whether it begins where another ends, in memory and in the same file."""
        ends_at = other.at + other.end - other.begin
        return (self.begin, self.at, self.inode, self.path) == (other.end, ends_at, other.inode, other.path)


def file_mappings() -> list[Mapping]:
    """All mappings of files, by address.

    Raises:
        OSError: The kernel does not list them, because there is no /proc.
    """
    with open("/proc/self/maps", "rb") as lines:
        found = _OF_A_FILE.findall(lines.read())
    return [
        Mapping(
            begin=int(begin, 16),
            end=int(end, 16),
            at=int(at, 16),
            private=rights[3:] == b"p",
            writable=rights[1:2] == b"w",
            inode=int(inode),
            path=os.fsdecode(path.replace(b"\\012", b"\n")),
        )
        for begin, end, rights, at, inode, path in found
    ]
