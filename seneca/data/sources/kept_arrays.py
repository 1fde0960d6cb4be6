"""Arrays in a file of this user's, written once and mapped by all of his processes.

::

    56 bytes   magic, digest of all that follows, sizes of the parts
    text       written piece by piece, before anybody knows how long it gets
    arrays     each at a multiple of 64
    about      JSON: what the writer says, and where each array is

A file is complete when it gets its name, and nobody writes to it after that. What is damaged or cut short, or
could have been made by another user, is no such file.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import secrets
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xxhash

from seneca._runtime.mounts import mount_of
from seneca._runtime.private_files import open_private, private_folder
from seneca._runtime.regular_files import standard_streams_taken

__all__ = ["Draft", "Kept", "about_of", "can_be_mapped", "keep", "opened"]

MAGIC = b"seneca arrays 1\n"
HEAD = struct.Struct("<16s16sQQQ")  # magic, digest, bytes of the text, where "about" begins, and its length
SIZES = struct.Struct("<QQQ")
ALIGNED = 64
AT_ONCE = 1 << 20  # bytes that are read together

# File systems of this host's own disks and memory. On others a file may be removed by another host while it
# is mapped here, and a process that reads such a page gets a bus error.
LOCAL = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "f2fs", "bcachefs"})


class Kept(NamedTuple):
    """What such a file has. The arrays, and the text, are views of the mapped file.

    Attributes:
        path: The file.
        digest: Distinguishes its content from any other.
        about: What its writer says.
        text: The text.
        arrays: The arrays by name. They cannot be changed.
    """

    path: str
    digest: bytes
    about: dict[str, Any]
    text: memoryview
    arrays: dict[str, np.ndarray]


def can_be_mapped(folder: Path) -> bool:
    """Whether files in a folder stay readable while a process of this host has them mapped."""
    mount = mount_of(str(folder))
    return mount is not None and mount.kind in LOCAL


class Draft:
    """A file that is being written. Other processes see it when :meth:`finish` gives it its name.

    Args:
        fd: An empty file, open for writing, which stays the caller's.
    """

    def __init__(self, fd: int) -> None:
        self._fd, self._at, self._hash = fd, HEAD.size, xxhash.xxh3_128()
        self._text_bytes = 0
        os.lseek(fd, HEAD.size, os.SEEK_SET)

    def write(self, data: bytes | memoryview) -> None:
        """Add to the text.

        Raises:
            OSError: There is no room, for example.
        """
        self._add(data)
        self._text_bytes += len(data)

    def text(self) -> bytes:
        """The text so far, read from the file."""
        with open(self._fd, "rb", closefd=False) as file:
            file.seek(HEAD.size)
            return file.read(self._text_bytes)

    def finish(self, about: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> bytes:
        """Add the arrays and what is said of them. After that the file is complete. Returns its digest."""
        text_bytes, places = self._text_bytes, {}
        for name, array in arrays.items():
            self._add(bytes(-self._at % ALIGNED))
            places[name] = array.dtype.descr if array.dtype.names else array.dtype.str, len(array), self._at
            if len(array):
                self._add(np.ascontiguousarray(array).view(np.uint8).data)
        said = json.dumps({"about": about, "arrays": places}).encode()
        sizes = text_bytes, self._at, len(said)
        self._add(said)
        self._hash.update(SIZES.pack(*sizes))
        digest = self._hash.digest()
        os.pwrite(self._fd, HEAD.pack(MAGIC, digest, *sizes), 0)
        return digest

    def _add(self, data: bytes | memoryview) -> None:
        self._hash.update(data)
        rest = memoryview(data)
        while len(rest):
            written = os.write(self._fd, rest)
            self._at, rest = self._at + written, rest[written:]


def keep(path: Path, about: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> bytes:
    """Write such a file, without a text, into a private folder. What had its name is replaced.

    Returns:
        Its digest.

    Raises:
        OSError: It cannot be written.
    """
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    fd = open_private(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    try:
        digest = Draft(fd).finish(about, arrays)
        os.replace(draft, path)
    except BaseException:
        os.unlink(draft)
        raise
    finally:
        os.close(fd)
    return digest


def about_of(path: str | os.PathLike[str]) -> dict[str, Any] | None:
    """What the writer of such a file says; None: it is no such file of this user's. Nothing else is read."""
    try:
        fd = open_private(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        magic, _, _, begins, length = HEAD.unpack(os.pread(fd, HEAD.size, 0))
        return json.loads(os.pread(fd, length, begins))["about"] if magic == MAGIC else None
    except (OSError, ValueError, KeyError, TypeError, OverflowError, struct.error):
        return None
    finally:
        os.close(fd)


def opened(path: str | os.PathLike[str], *, digest: bytes | None = None) -> Kept | None:
    """Map such a file; None: there is none, or it is not whole, or not this user's alone.

    Where it cannot be mapped safely, it is read.

    Args:
        path: The file.
        digest: What its content is to be. None: any, and all of it is read to see whether it is whole.
    """
    try:
        fd = open_private(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        private_folder(Path(path).parent)
        return _mapped(os.fspath(path), fd, digest)
    except (OSError, ValueError, KeyError, TypeError, OverflowError, struct.error):
        return None  # damaged
    finally:
        os.close(fd)


def _mapped(path: str, fd: int, digest: bytes | None) -> Kept | None:
    magic, its, text_bytes, begins, length = HEAD.unpack(os.pread(fd, HEAD.size, 0))
    size = os.fstat(fd).st_size
    if magic != MAGIC or size != begins + length or HEAD.size + text_bytes > begins:
        return None
    if its != (_digest_of(fd, size, SIZES.pack(text_bytes, begins, length)) if digest is None else digest):
        return None
    said = json.loads(os.pread(fd, length, begins))
    if can_be_mapped(Path(path).parent):
        with standard_streams_taken():  # the mapping keeps a descriptor of its own
            memory = memoryview(mmap.mmap(fd, size, prot=mmap.PROT_READ))
    else:
        with open(fd, "rb", closefd=False) as file:
            memory = memoryview(file.read())
    arrays = {}
    for name, (kind, count, at) in said["arrays"].items():
        dtype = np.dtype(kind if isinstance(kind, str) else [tuple(field) for field in kind])
        arrays[name] = np.frombuffer(memory, dtype, count, at) if count else np.zeros(0, dtype)
    with contextlib.suppress(OSError):
        os.utime(fd)  # somebody uses it
    return Kept(path, its, said["about"], memory[HEAD.size : HEAD.size + text_bytes], arrays)


def _digest_of(fd: int, size: int, sizes: bytes) -> bytes:
    """The digest of a file's content, read and not mapped: pages that are mapped count as this process's."""
    found, at, buffer = xxhash.xxh3_128(), HEAD.size, bytearray(AT_ONCE)
    while at < size and (got := os.preadv(fd, [buffer], at)):
        found.update(memoryview(buffer)[:got])
        at += got
    found.update(sizes)
    return found.digest()
