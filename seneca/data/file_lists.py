"""Where the bytes of pictures are: in files or pairs of them, in pieces of containers, in objects of buckets.

Each list has paths, and what was found about these files: sizes, times, a fingerprint.
"""

from __future__ import annotations

import errno
import hashlib
import math
import os
import stat
from collections.abc import Callable, Sequence
from operator import eq
from typing import Any, NamedTuple, overload

import numpy as np

from seneca._runtime.cgroups import cpu_quota
from seneca._runtime.enabled import off_because
from seneca._runtime.regular_files import Piece, open_regular
from seneca.data.pairs import PairPiece, pair_of
from seneca.data.path_table import Paths
from seneca.data.sources import Listing
from seneca.data.sources.buckets import ObjectPiece, Objects, digest_of_etags
from seneca.data.sources.shared import shared_text

try:
    from seneca._core.files import FILE_STAT, stat_many
except ImportError:
    if off_because() is None:
        raise  # on Linux a core that does not load is a broken build; Python would only hide it
    stat_many = None  # type: ignore[assignment]
    FILE_STAT = np.dtype([("size_bytes", "<u8"), ("mtime_ns", "<i8"), ("ctime_ns", "<i8"), ("mode", "<u8")])

__all__ = ["AnyPiece", "BucketFiles", "ContainerFiles", "PairFiles", "PathFiles", "Seen"]

AnyPiece = Piece | ObjectPiece | PairPiece
"""The bytes of one sample: in a file, in an object, or in the two files of a pair."""

SAMPLED = 16  # files of which both ends are read
SAMPLED_BYTES = 4096  # at each end of these files
MOST_THREADS = 16  # that ask for the sizes and times of files; they share the kernel's locks of folders
STATES = ("size_bytes", "mtime_ns", "ctime_ns")
AT_ONCE = 1 << 18  # files that are asked for before their sizes and times are put with the others


class Seen(NamedTuple):
    """The findings of :meth:`PathFiles.stat` about the files of a dataset.

    Attributes:
        fingerprint: See :meth:`seneca.data.files.PictureFiles.fingerprint`.
        total_bytes: The size of all pictures together.
        ctimes: When each file, or each container, was last changed: its bytes, or what else its inode says.
            int64, in ns of the storage's clock. Empty: pictures are in buckets, where none changes.
        newest: The newest of these; 0: there are none.
        name: 32 bits that name the sizes and times of all files, these times too; 0: there are no files.
        largest: The size of the largest picture, with its mask if it has one; 0: it is not known.
    """

    fingerprint: bytes
    total_bytes: int
    ctimes: np.ndarray
    newest: int
    name: int
    largest: int = 0


class PathFiles:
    """The paths of a list of pictures, and what was found about the files. They stay while labels change.

    Args:
        root: The folder.
        paths: The path of every picture. A relative path is relative to ``here``.
    """

    def __init__(self, root: str, paths: Sequence[str]) -> None:
        self.root, self.paths, self.here = root, paths, os.getcwd()
        self._found: Seen | None = None
        self.first_newest: int | None = None  # of the first stat()
        self._stated = b""
        self._ends = b""
        self._names: bytes | None = None
        self._table: tuple[bytes | memoryview, np.ndarray] | None = None
        self._are_absolute = False

    def __getstate__(self) -> dict[str, Any]:
        """Without the table, which only the process that reads natively needs."""
        return {**vars(self), "_table": None}

    def are(self, root: str, paths: Sequence[str]) -> bool:
        if self.root != root or self.here != os.getcwd() or len(self.paths) != len(paths):
            return False
        return self.paths is paths or all(map(eq, self.paths, paths))

    def stat(self) -> None:
        sizes, mtimes, ctimes = self._stated_in_parts()
        # Nobody can set a ctime. Where size and mtime were set back, the ends are read again, because a job
        # that begins now reads them as they are now. A ctime is no part of the fingerprint, because a copy of
        # the files has others. changed_since() compares each file.
        stated = _digest(sizes, mtimes, ctimes)
        if stated != self._stated:
            self._ends = self._both_ends_of_some()
            self._stated = stated
        # The first 16 bytes fix the number of files. What follows has a fixed width.
        parts = _digest(self.names(), sizes, mtimes, self._ends)
        self.take(_seen(parts, self._sizes_of_samples(sizes), ctimes, stated))

    def stated_now(self) -> np.ndarray:
        """The size and the times of every file, as :data:`FILE_STAT`."""
        return self._stated_between(0, len(self._files()))

    def _stated_between(self, first: int, last: int) -> np.ndarray:
        """The same of some files, which follow each other."""
        files = self._files()
        if stat_many is None:
            found = np.empty(last - first, FILE_STAT)
            for i, path in enumerate(files[first:last]):
                status = os.stat(path)
                found[i] = status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_mode
            return found
        text, offsets = self.table()
        try:
            return stat_many(text, offsets[first : last + 1], _threads())
        except OSError as error:
            assert isinstance(error.filename, int)
            raise OSError(error.errno, error.strerror, files[first + error.filename]) from None

    def _stated_in_parts(self) -> list[np.ndarray]:
        """The sizes, the mtimes and the ctimes of all files; the modes of a few million take memory too."""
        n = len(self._files())
        found = np.empty(n, np.uint64), np.empty(n, np.int64), np.empty(n, np.int64)
        for first in range(0, n, AT_ONCE):
            now = self._stated_between(first, min(first + AT_ONCE, n))
            for column, name in zip(found, STATES, strict=True):
                column[first : first + len(now)] = now[name]
        return list(found)

    def _files(self) -> Sequence[str]:
        """The files that storage is asked for."""
        return self.paths

    def files_of(self, index: int) -> Sequence[str]:
        """Those of them in which a sample is."""
        return [self.paths[index]]

    def describe(self) -> str:
        return f"{len(self.paths)} files (path below the folder, size, time of change; both ends of some)"

    def read(self, index: int) -> bytes:
        return Piece(self.paths[index]).read()

    def lengths(self) -> np.ndarray | None:
        return None

    def pieces(self) -> Sequence[AnyPiece]:
        return Pieces(len(self.paths), lambda index: Piece(self.paths[index]))

    def objects(self) -> Objects | None:
        return None

    def places(self) -> tuple[Any, ...]:
        return self.table()

    def found(self) -> Seen:
        if self._found is None:
            self.stat()
            assert self._found is not None
        return self._found

    def take(self, seen: Seen) -> None:
        self._found = seen
        if self.first_newest is None:
            self.first_newest = seen.newest

    def changed_since(self, ctime_ns: int) -> tuple[np.ndarray, np.ndarray] | None:
        seen = self.found()
        if seen.newest <= ctime_ns:
            return None
        ctimes = self._of_samples(seen.ctimes)
        samples = np.flatnonzero(ctimes > ctime_ns)
        return (samples, ctimes[samples]) if len(samples) else None

    def ctimes_of(self, samples: np.ndarray, *, now: bool) -> np.ndarray:
        if not now:
            return self._of_samples(self.found().ctimes)[samples]
        files = [path for sample in samples.tolist() for path in self.files_of(sample)]
        joined = os.fsencode("\0".join([*(os.path.join(self.here, path) for path in files), ""]))
        found = stat_many(joined, _beginnings(joined), _threads())["ctime_ns"]
        return found.reshape(len(samples), -1).max(axis=1)

    def _of_samples(self, ctimes: np.ndarray) -> np.ndarray:
        """The newest ctime of the files of each sample."""
        return ctimes

    def _sizes_of_samples(self, sizes: np.ndarray) -> np.ndarray:
        """The size of the files of each sample."""
        return sizes

    def _both_ends_of_some(self) -> bytes:
        """A digest of both ends of some files. The names choose the files; therefore all jobs choose the
        same."""
        digest = hashlib.blake2b(digest_size=16)
        chosen = np.random.default_rng(int.from_bytes(self.names(), "little"))
        files = self._files()
        for i in chosen.integers(0, max(1, len(files)), min(SAMPLED, len(files))).tolist():
            digest.update(_ends_of(files[i]))
        return digest.digest()

    def names(self) -> bytes:
        if self._names is None:
            self._names = self._named()
        return self._names

    def _named(self) -> bytes:
        if isinstance(self.paths, Paths) and (known := self.paths.names_below(self.root)) is not None:
            return known
        # No path holds a NUL. Therefore it is certain where one begins.
        before = b"\0" + os.fsencode(os.path.join(self.root, ""))
        below = (b"\0" + self._joined()).replace(before, b"\0")
        return hashlib.blake2b(memoryview(below)[1:], digest_size=16).digest()

    def _joined(self) -> bytes:
        """The paths as they were given, with a NUL after each."""
        if self._table is not None and self._are_absolute:
            return bytes(self._table[0])
        joined = os.fsencode("\0".join([*self.paths, ""]))
        if joined.count(b"\0") != len(self.paths):
            raise ValueError(f"a path of a picture below {self.root!r} holds a NUL character; rename it")
        return joined

    def table(self) -> tuple[bytes | memoryview, np.ndarray]:
        if self._table is None and isinstance(self.paths, Paths):
            self._table = self.paths.text_in(self.here)
        if self._table is None:
            joined = self._joined()
            offsets = _beginnings(joined)
            beginnings = np.frombuffer(joined, np.uint8)[offsets[:-1]]
            self._are_absolute = bool((beginnings == ord("/")).all())
            if not self._are_absolute:
                # Ask for the current folder once. os.path.abspath would ask a million times.
                absolute = [os.path.join(self.here, path) for path in self.paths]
                joined = os.fsencode("\0".join([*absolute, ""]))
                offsets = _beginnings(joined)
            self._table = shared_text(joined, offsets)
        return self._table


class Pieces(Sequence[AnyPiece]):
    """The bytes of every sample. ``piece_of`` says where one is, when it is asked for."""

    def __init__(self, count: int, piece_of: Callable[[int], AnyPiece]) -> None:
        self._places, self._piece_of = range(count), piece_of

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> AnyPiece: ...
    @overload
    def __getitem__(self, index: slice) -> list[AnyPiece]: ...
    def __getitem__(self, index: Any) -> Any:
        places = self._places[index]
        return list(map(self._piece_of, places)) if isinstance(index, slice) else self._piece_of(places)


class PairFiles(PathFiles):
    """The same of pairs: of each sample the path of the picture, and then that of the mask."""

    def describe(self) -> str:
        return f"{len(self.paths) // 2} pairs of {super().describe()}"

    def _named(self) -> bytes:
        # The same files as a list of pictures are a different dataset, with different payloads.
        return hashlib.blake2b(super()._named(), digest_size=16, person=b"pairs").digest()

    def _of_samples(self, ctimes: np.ndarray) -> np.ndarray:
        return ctimes.reshape(-1, 2).max(axis=1)

    def _sizes_of_samples(self, sizes: np.ndarray) -> np.ndarray:
        return sizes.reshape(-1, 2).sum(axis=1)

    def files_of(self, index: int) -> Sequence[str]:
        return self.paths[2 * index : 2 * index + 2]

    def read(self, index: int) -> bytes:
        return self._pair(index).read()

    def pieces(self) -> Sequence[AnyPiece]:
        return Pieces(len(self.paths) // 2, self._pair)

    def _pair(self, index: int) -> PairPiece:
        return pair_of(*self.files_of(index))


class ContainerFiles(PathFiles):
    """The same of pictures in containers.

    Args:
        root: The folder of the containers.
        listing: The containers, and where in them the pictures are. The path of a picture is that of its
            container, followed by its name in it.
    """

    def __init__(self, root: str, listing: Listing) -> None:
        super().__init__(root, listing.containers)
        self._listing = listing
        self._ctimes = listing.ctimes  # for which the containers list what the listing says

    def stat(self) -> None:
        now, listed = self.stated_now(), self._listing.stated
        changed = (now["size_bytes"] != listed["size_bytes"]) | (now["mtime_ns"] != listed["mtime_ns"])
        ctimes = np.ascontiguousarray(now["ctime_ns"])
        moved = ctimes != (self._ctimes if len(self._ctimes) else ctimes)
        # Written anew in place, with its size and time set back, a container may have its pictures elsewhere.
        # If each is still in its place, it may have other bytes there: changed_since() finds that.
        for container in np.flatnonzero(changed | moved).tolist():
            if changed[container] or not self._listing.holds(container):
                raise _stale(self._listing.containers[container])
        self._ctimes = ctimes
        if self._found is None or moved.any():
            pieces = self._listing.pieces
            parts = _digest(self.names(), listed, self._both_ends_of_some(), pieces)
            stated = _digest(listed, ctimes)
            self.take(_seen(parts, pieces["length"], ctimes, stated))

    def _of_samples(self, ctimes: np.ndarray) -> np.ndarray:
        return ctimes[self._listing.pieces["container"]]

    def files_of(self, index: int) -> Sequence[str]:
        return [self._listing.containers[int(self._listing.pieces["container"][index])]]

    def describe(self) -> str:
        n = len(self._listing.containers)
        return (
            f"{len(self._listing.names)} samples in {n} files (their names and places; "
            "size, time of change and both ends of these files)"
        )

    def _named(self) -> bytes:
        text, lengths = self._listing.all_names().parts()
        # Each part has 16 bytes. Therefore it is certain where one begins.
        parts = super()._named(), _digest(text), _digest(lengths), _digest(self._listing.pieces["container"])
        return _digest(*parts)

    def _piece(self, index: int) -> Piece:
        offset, length, container = self._listing.pieces[index].tolist()
        return Piece(self._listing.containers[container], offset, length)

    def read(self, index: int) -> bytes:
        piece, stated = self._piece(index), self._listing.stated[self._listing.pieces[index]["container"]]
        file = open_regular(piece.path)
        try:
            data = piece.read_from(file)
            status = os.fstat(file)  # after: what was read is of this state or an earlier one
        finally:
            os.close(file)
        if (status.st_size, status.st_mtime_ns) != tuple(stated.tolist()):
            raise _stale(piece.path)
        return data

    def lengths(self) -> np.ndarray | None:
        return self._listing.pieces["length"]

    def pieces(self) -> Sequence[AnyPiece]:
        return Pieces(len(self._listing.names), self._piece)

    def places(self) -> tuple[Any, ...]:
        return *self.table(), self._listing.pieces, self._listing.stated


class BucketFiles(ContainerFiles):
    """The same of pictures in buckets or on a web server. A dataset is what was listed, as it was then.

    A later :meth:`stat` asks for nothing: each piece that is fetched is checked, and what is kept is of the
    objects that the fingerprint names.
    """

    def stat(self) -> None:
        if self._found is None:
            listing = self._listing
            sizes = listing.stated["size_bytes"]
            parts = _digest(self.names(), sizes, digest_of_etags(listing.etags), listing.pieces)
            lengths = listing.pieces["length"]
            total = int(lengths.sum(dtype=np.uint64))
            self.take(Seen(parts, total, np.zeros(0, np.int64), 0, 0, int(lengths.max(initial=0))))

    def describe(self) -> str:
        n = len(self._listing.containers)
        return (
            f"{len(self._listing.names)} samples in {n} objects (their names and places; "
            "size and etag of these objects)"
        )

    def objects(self) -> Objects:
        return Objects(self._listing)

    def read(self, index: int) -> bytes:
        offset, length, container = self._listing.pieces[index].tolist()
        return self.objects().read(container, offset, length)

    def pieces(self) -> Sequence[AnyPiece]:
        objects = self.objects()

        def piece_of(index: int) -> ObjectPiece:
            offset, length, container = self._listing.pieces[index].tolist()
            return ObjectPiece(objects, self._listing.path(index), container, offset, length)

        return Pieces(len(self._listing.names), piece_of)

    def places(self) -> tuple[Any, ...]:
        no_paths = b"", np.zeros(1, np.uint64)  # no file is opened
        return *no_paths, self._listing.pieces, self._listing.stated, True


def _seen(fingerprint: bytes, sizes: np.ndarray, ctimes: np.ndarray, stated: bytes) -> Seen:
    """The result of ``stat``. ``sizes``: of each sample. ``stated``: a digest of all sizes and times."""
    name = int.from_bytes(stated[:4], "little") or 1
    total, largest = int(sizes.sum(dtype=np.uint64)), int(sizes.max(initial=0))
    return Seen(fingerprint, total, ctimes, int(ctimes.max(initial=0)), name, largest)


def _stale(path: str) -> OSError:
    return OSError(errno.ESTALE, "has changed since it was opened; open it again with seneca.open()", path)


def _digest(*parts: bytes | memoryview | np.ndarray) -> bytes:
    """16 bytes of these bytes, one part after the other."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(np.ascontiguousarray(part).data if isinstance(part, np.ndarray) else part)
    return digest.digest()


def _beginnings(joined: bytes) -> np.ndarray:
    """Where each path begins, and at the end the length of ``joined``, uint64."""
    ends = np.flatnonzero(np.frombuffer(joined, np.uint8) == 0)
    return np.concatenate([[0], ends + 1]).astype(np.uint64)


def _threads() -> int:
    """The number of threads that ask for files which memory knows: one for each core of this process."""
    allowed, quota = len(os.sched_getaffinity(0)), cpu_quota()
    cores = allowed if quota is None else min(allowed, math.ceil(quota))
    return max(1, min(cores, MOST_THREADS))


def _ends_of(path: str) -> bytes:
    """The first and last bytes of a file; nothing if it is not a regular file, because reading could
    block."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            return b""
        last = max(0, status.st_size - SAMPLED_BYTES)
        return os.pread(fd, SAMPLED_BYTES, 0) + os.pread(fd, SAMPLED_BYTES, last)
    finally:
        os.close(fd)
