"""The files that are mapped into this process, as the kernel lists them."""

from __future__ import annotations

import os
from typing import NamedTuple

__all__ = ["Mapping", "file_mappings"]


class Mapping(NamedTuple):
    """Addresses at which a piece of a file lies.

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
    found = []
    with open("/proc/self/maps", "rb") as lines:
        for line in lines:
            addresses, rights, at, _, inode, *rest = line.rstrip(b"\n").split(None, 5)
            if inode != b"0" and rest:
                begin, _, end = addresses.partition(b"-")
                found.append(
                    Mapping(
                        begin=int(begin, 16),
                        end=int(end, 16),
                        at=int(at, 16),
                        private=rights[3:4] == b"p",
                        writable=rights[1:2] == b"w",
                        inode=int(inode),
                        path=os.fsdecode(rest[0].replace(b"\\012", b"\n")),
                    )
                )
    return found
