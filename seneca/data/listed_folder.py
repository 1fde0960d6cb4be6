"""Lists the files of class folders once for all processes of a user, into a table that they map.

::

    table_of() --the file of an earlier listing, if its folders are as they were------------> mapped
         |
         +--no, or there is none--> list; other processes of the user wait --file--> mapped
                                      |
                                      +--few files, or nowhere to keep the file----> in memory

A folder's times change when an entry is added to it, removed or renamed. Therefore a listing is that of the
folders now if all of them have the same times. It is not believed, and all is listed again,

* if a folder had changed within two seconds before it was listed: some file systems count whole seconds;
* if the times of folders say nothing, as on file systems in front of object stores;
* if a folder gave no answer, or a link in it leads nowhere.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from seneca._runtime.mounts import mount_of
from seneca._runtime.private_files import NotPrivate, open_private, private_folder
from seneca._runtime.user_cache import user_cache
from seneca._runtime.warn import warn
from seneca.data.path_table import PathTable
from seneca.data.sources.kept_arrays import LOCAL, Draft, Kept, can_be_mapped, opened

__all__ = ["table_of"]

FOLDER = np.dtype([("mtime_ns", "<i8"), ("ctime_ns", "<i8"), ("inode", "<u8"), ("device", "<u8")])
"""What distinguishes a folder from itself after a change of its entries, and from another in its place."""

WORTH_A_FILE = 1 << 20  # bytes of text; shorter ones are listed as fast as their file is read
RACY_NS = 2 * 10**9  # the coarsest times that a file system keeps
WAIT_S = 0.05  # between two questions whether another process has finished
GIVE_UP_S = 30.0  # that a process waits for another which writes nothing
TRUSTED = LOCAL | {"nfs", "nfs4", "lustre", "gpfs", "ceph", "beegfs", "wekafs"}
ENDING = ".paths"
SLASH = os.fsencode(os.sep)
OPENS_FOLDERS = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_DIRECTORY", 0)


def table_of(root: str, classes: Sequence[str], extensions: tuple[str, ...]) -> PathTable:
    """The files below folders with these endings, each with the number of its class as its label.

    The order is torchvision's: by class, then by folder, then by name. Links are followed.

    Args:
        root: The folder in which those of the classes are.
        classes: The names of these folders, in order.
        extensions: Endings in lower case.
    """
    base = os.fsencode(os.path.join("" if os.path.isabs(root) else os.getcwd(), root, ""))
    name = hashlib.blake2b(repr((base, extensions)).encode(), digest_size=16).hexdigest()
    with _Place(user_cache() / "listings" / f"{name}{ENDING}", base, list(classes)) as place:
        table = place.kept()
        while table is None:
            try:
                table = place.take(*_list(base, classes, extensions, place.write))
            except _Meanwhile as found:
                table = found.table
    return table


class _Meanwhile(Exception):
    """Another process has listed the folders. ``table``: its list; None: it cannot be used here."""

    def __init__(self, table: PathTable | None) -> None:
        self.table = table


class _Place:
    """Where a listing goes: into memory at first, and into a file if it gets long.

    The process that holds the lock of the draft lists. The others wait for it. If it dies, the kernel frees
    the lock, and the next one overwrites the draft. The draft gets the file's name when it is complete.

    A process that has waited takes a list that was begun after it began itself, even if the times of folders
    say nothing: its own would be no newer. Else it lists from the beginning, and those that still wait take
    that. Therefore two lists are enough, however many processes begin together.
    """

    def __init__(self, path: Path, base: bytes, classes: list[str]) -> None:
        self._path, self._base, self._classes = path, base, classes
        self._of = [os.fsdecode(base)]
        self._name = path.with_suffix(".draft")
        self._memory: list[bytes] = []
        self._bytes = 0
        self._fd = -1
        self._draft: Draft | None = None
        self._began_ns = time.time_ns()
        self._stays_in_memory = not can_be_mapped(path.parent)

    def __enter__(self) -> _Place:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._let_go()

    def kept(self) -> PathTable | None:
        """The table of an earlier listing, if it is that of the folders now."""
        if self._stays_in_memory:
            return None
        kept = opened(self._path)
        if kept is None or kept.about["of"] != self._of or kept.about["classes"] != self._classes:
            return None
        if kept.about["began_ns"] > self._began_ns or _is_of_now(kept, self._base):
            return PathTable.mapped(kept, self._base)
        return None

    def write(self, text: bytes) -> None:
        """Add to the text.

        Raises:
            _Meanwhile: Another process has listed the folders. What was written is forgotten.
        """
        self._memory.append(text)
        self._bytes += len(text)
        if self._bytes < WORTH_A_FILE or self._stays_in_memory:
            return
        try:
            if self._draft is None:
                if self._fd < 0 and not self._take_turn():
                    return
                os.ftruncate(self._fd, 0)
                self._draft = Draft(self._fd)
            self._draft.write(b"".join(self._memory))
            self._memory, self._bytes = [], 0
        except OSError as error:
            if isinstance(error, NotPrivate):
                warn(
                    f"the list of files is not kept, because others could change it: {error}, "
                    "as XDG_CACHE_HOME"
                )
            self._give_up()

    def take(self, about: dict[str, Any], arrays: dict[str, np.ndarray]) -> PathTable:
        """The table of the whole text, with these arrays."""
        about |= {"of": self._of, "classes": self._classes}
        if self._draft is not None:
            with contextlib.suppress(OSError):
                self._draft.write(b"".join(self._memory))
                self._memory = []
                return self._finished(self._draft, about, arrays)
            self._give_up()
        text, names = b"".join(self._memory), bytes.fromhex(about["names"])
        return PathTable(text, arrays["offsets"], arrays["labels"], base=self._base, names=names)

    def _finished(self, draft: Draft, about: dict[str, Any], arrays: dict[str, np.ndarray]) -> PathTable:
        # Where the times of folders say nothing, each process lists, and all map the first one's table.
        kept = None if about["trusted"] else opened(self._path)
        same = ("names", "classes")
        if kept is None or any(kept.about[name] != about[name] for name in same):
            digest = draft.finish(about, arrays)
            os.replace(self._name, self._path)
            kept = opened(self._path, digest=digest)
        if kept is None:
            raise FileNotFoundError(self._path)  # it was removed at once
        return PathTable.mapped(kept, self._base)

    def _take_turn(self) -> bool:
        """Take the lock of the draft; False: its holder seems to be stopped, and this goes on in memory."""
        private_folder(self._path.parent)
        has_waited = self._wait()
        if self._fd < 0:
            self._stays_in_memory = True
            return False
        table = self.kept()  # of the one that had the lock before
        if has_waited or table is not None:
            self._memory, self._bytes = [], 0
            raise _Meanwhile(table)
        return True

    def _wait(self) -> bool:
        """Take the lock, or wait until it can be had, or its holder writes nothing. Whether it has waited."""
        import fcntl  # here, because Windows has none

        give_up_at, before = time.monotonic() + GIVE_UP_S, -1
        while True:
            fd = open_private(self._name, os.O_RDWR | os.O_CREAT)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                with contextlib.suppress(FileNotFoundError):
                    if os.path.samestat(os.fstat(fd), os.lstat(self._name)):
                        self._fd, fd = fd, -1
                        return before >= 0
            except BlockingIOError:
                size = os.fstat(fd).st_size
                if size != before:
                    give_up_at, before = time.monotonic() + GIVE_UP_S, size
                elif time.monotonic() > give_up_at:
                    return True
                time.sleep(WAIT_S)
            finally:
                if fd >= 0:
                    os.close(fd)

    def _give_up(self) -> None:
        """Go on in memory, with what the draft has."""
        if self._draft is not None:
            self._memory, self._draft = [self._draft.text(), *self._memory], None
        self._stays_in_memory = True
        self._let_go()

    def _let_go(self) -> None:
        """Free the lock. A draft that did not become the file is removed before."""
        if self._fd >= 0:
            with contextlib.suppress(OSError):
                if os.path.samestat(os.fstat(self._fd), os.lstat(self._name)):
                    os.unlink(self._name)
            os.close(self._fd)
            self._fd = -1


def _is_of_now(kept: Kept, base: bytes) -> bool:
    """Whether a listing of these classes is that of their folders as they are now."""
    about, states = kept.about, kept.arrays["states"]
    if not about["trusted"]:
        return False
    newest = max(states["mtime_ns"].max(initial=0), states["ctime_ns"].max(initial=0))
    if newest > about["began_ns"] - RACY_NS:
        return False
    folders = kept.arrays["folders"].tobytes().split(b"\0")[:-1]
    return all(
        _state_of(base + folder) == tuple(state)
        for folder, state in zip(folders, states.tolist(), strict=True)
    )


def _state_of(folder: bytes) -> tuple[int, int, int, int] | None:
    """What :data:`FOLDER` has; None: there is no answer."""
    try:
        # Opened, because a network file system then asks its server, as it does when a folder is listed.
        fd = os.open(folder, OPENS_FOLDERS)
        try:
            status = os.fstat(fd)
        finally:
            os.close(fd)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_dev


class _Folder(NamedTuple):
    path: bytes  # below the base
    state: tuple[int, int, int, int] | None
    names: list[bytes]  # of its files with the endings, sorted


def _list(
    base: bytes, classes: Sequence[str], extensions: tuple[str, ...], write: Callable[[bytes], None]
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """List the folders of all classes.

    Args:
        base, classes, extensions: As above.
        write: Takes the text, piece by piece.

    Returns:
        What a file says of the listing, and its arrays.
    """
    began_ns, names_digest = time.time_ns(), hashlib.blake2b(digest_size=16)
    folders, states, lengths, counts = [], [], [], []
    devices: dict[int, bytes] = {}  # and a folder on each
    trusted = True
    for name in classes:
        count = 0
        for folder, state, names in _below(base, os.fsencode(name), extensions):
            trusted &= state is not None
            if state is not None:
                folders.append(folder + b"\0")
                states.append(state)
                devices.setdefault(state[-1], base + folder)
            if not names:
                continue
            count += len(names)
            inside = folder + SLASH
            names_digest.update(inside + (b"\0" + inside).join(names) + b"\0")
            inside = base + inside
            write(inside + (b"\0" + inside).join(names) + b"\0")
            lengths.append(np.fromiter(map(len, names), np.uint32, len(names)) + np.uint32(len(inside) + 1))
        counts.append(count)
    offsets = np.zeros(sum(counts) + 1, np.uint64)
    np.cumsum(np.concatenate(lengths) if lengths else (), out=offsets[1:])
    about = {
        "names": names_digest.hexdigest(),
        "began_ns": began_ns,
        "trusted": trusted and all(map(_dates_changes, devices.values())),
    }
    return about, {
        "offsets": offsets,
        "labels": np.repeat(np.arange(len(counts)), counts),
        "folders": np.frombuffer(b"".join(folders), np.uint8),
        "states": np.array(states, FOLDER),
    }


def _below(base: bytes, top: bytes, extensions: tuple[str, ...]) -> Iterator[_Folder]:
    """A folder and all folders below it, sorted by their paths. One that cannot be listed has no files."""
    found: list[_Folder] = []
    waiting = [top]
    while waiting:
        folder = waiting.pop()
        inside, names, folders = folder + SLASH, [], []
        state = _state_of(base + folder)  # before its entries are read: a change after that is seen
        try:
            with os.scandir(base + folder) as entries:
                for entry in entries:
                    if _is_folder(entry):
                        folders.append(inside + entry.name)
                    else:
                        names.append(entry.name)
                        if entry.is_symlink() and _leads_nowhere(entry):
                            state = None
        except OSError:
            names, folders = [], []
        waiting += folders
        found.append(_Folder(folder, state, _chosen(names, extensions)))
    yield from sorted(found, key=lambda one: os.fsdecode(one.path))


def _is_folder(entry: os.DirEntry[bytes]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that cannot be followed: os.walk counts it as a file
        return False


def _leads_nowhere(link: os.DirEntry[bytes]) -> bool:
    """Whether a link leads to no file now. If it leads to a folder later, no folder's times say so."""
    try:
        return not link.is_file()
    except OSError:
        return True


def _chosen(names: list[bytes], extensions: tuple[str, ...]) -> list[bytes]:
    """The names with these endings, sorted as texts."""
    if b"".join(names).isascii():
        endings = tuple(map(os.fsencode, extensions))
        return sorted(name for name in names if name.lower().endswith(endings))
    # Texts are not sorted as bytes are where a byte is no UTF-8, and more letters have a lower case.
    texts = ((os.fsdecode(name), name) for name in names)
    return [
        name for _, name in sorted((text, name) for text, name in texts if text.lower().endswith(extensions))
    ]


def _dates_changes(folder: bytes) -> bool:
    """Whether the times of folders on its file system are those of the last change of their entries."""
    mount = mount_of(os.fsdecode(folder))
    return mount is not None and mount.kind in TRUSTED
