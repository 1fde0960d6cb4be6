"""The cache that the jobs of a host share: one segment of shared memory a dataset.

Finds it, makes it, joins it, leaves it; the last to leave removes it. What is in it and who may
read what is decided in the native core.
"""

from __future__ import annotations

import os
import re
import secrets
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, Literal, Protocol

import posix_ipc

from seneca import errors
from seneca._core import store
from seneca.options import parse_bytes, parse_split
from seneca.partition import Split, default_split

__all__ = ["SampleCache"]

SHM_FOLDER = "/dev/shm"
TELL_AFTER_S = 2.0  # what takes longer than this is told to the user
GIVE_UP_AFTER_S = 120.0  # another process creates the segment, or holds its lock stopped

# At the most, what is worth holding of a sample: its file, its pixels (an ImageNet JPEG's are
# about 5 times its bytes, a heavily compressed one's some 15 times), and a page of rounding each.
USEFUL_BYTES_PER_ENCODED = 16
USEFUL_BYTES_PER_SAMPLE = 64 * 1024


class Dataset(Protocol):
    """What a cache has to know of a dataset."""

    def __len__(self) -> int: ...

    def fingerprint(self) -> bytes: ...

    def total_bytes(self) -> int: ...


class SampleCache:
    """A process's membership in a shared cache. Make one with :meth:`create`, :meth:`attach` or :meth:`join`.

    A loader makes its own where ``cache`` is ``"auto"`` or a name; making one by hand gives
    control of its life and size. It is left when it is closed, collected, or the process ends,
    however it ends.

    Attributes:
        name: What other jobs say to meet here.
        created: Whether this process made it.

    Example:
        >>> import tempfile, seneca
        >>> from seneca.pictures import make_pictures
        >>> folder = tempfile.TemporaryDirectory()
        >>> _ = make_pictures(folder.name, count=4, classes=2)
        >>> dataset = seneca.ImageFolder(folder.name)
        >>> with seneca.SampleCache.create("readme", dataset, cache_bytes="4MiB") as cache:
        ...     cache.stats()["free_bytes"]
        4194304
        >>> folder.cleanup()
    """

    def __init__(self, segment: store.Segment, name: str) -> None:
        self.name = name
        self.created: bool = segment.created
        self._segment = segment
        self._owner = os.getpid()
        # Runs when this is collected and at the end of the process, last made first left.
        self._leave = weakref.finalize(self, _leave, segment, name, os.getpid())

    @classmethod
    def create(
        cls,
        name: str,
        dataset: Dataset,
        *,
        cache_bytes: int | str = "auto",
        split: str | Split = "auto",
        keep: bool = False,
    ) -> SampleCache:
        """Make a cache that nobody has made yet.

        Args:
            name: What other jobs say to meet here.
            dataset: Whose samples it will hold.
            cache_bytes: Memory for payloads, or ``"auto"``: half of what is free.
            split: Shares of the forms, or ``"auto"``.
            keep: Whether it outlives the last who leaves, until :meth:`remove`.

        Raises:
            FileExistsError: There is one of this name, in use or kept.
            NoSpaceError: Shared memory has no room for it; the message says how much there is.
        """
        cache = cls.join(name, dataset, cache_bytes=cache_bytes, split=split, keep=keep)
        if not cache.created:
            cache.close()
            raise FileExistsError(f"there is a cache {name!r} already; SampleCache.attach joins it")
        return cache

    @classmethod
    def attach(cls, name: str, dataset: Dataset | None = None) -> SampleCache:
        """Join a cache that another process made.

        Args:
            name: As its maker wrote it.
            dataset: To be sure that it holds this one's samples; ``None`` takes whatever is there.

        Raises:
            FileNotFoundError: There is none.
            SegmentMismatchError: It holds another dataset.
        """
        return cls(_open(name, dataset, None, None, False), name)

    @classmethod
    def join(
        cls,
        name: str,
        dataset: Dataset,
        *,
        cache_bytes: int | str = "auto",
        split: str | Split = "auto",
        keep: bool = False,
    ) -> SampleCache:
        """Join the cache of this name, or make it: what a loader does. Arguments as :meth:`create`'s.

        Who comes second takes size and split as they are.
        """
        return cls(_open(name, dataset, cache_bytes, parse_split(split), keep), name)

    @staticmethod
    def remove(name: str) -> None:
        """Take the name away. Who uses the cache goes on with it; newcomers make another.

        Raises:
            FileNotFoundError: There is none.
        """
        try:
            posix_ipc.unlink_shared_memory(_object_name(name))
        except posix_ipc.ExistentialError:
            raise FileNotFoundError(f"there is no cache {name!r}") from None

    def stats(self) -> dict[str, Any]:
        """What the cache holds now.

        Returns:
            ``payload_bytes`` and ``free_bytes``; ``bytes``, ``budget_bytes`` and ``payloads`` by
            form; ``writing``, payloads under way; ``members`` (iterators that draw),
            ``processes`` and ``jobs`` that are attached.

        Raises:
            BlockingIOError: Its lock was not to be had in 100 ms.
        """
        return self._segment.stats()

    def close(self) -> None:
        """Leave; the last to leave removes the segment unless it is to be kept.

        Raises:
            SegmentError: Iterators of this process still draw from it.
        """
        if self._leave.alive:
            _leave(self._segment, self.name, os.getpid())
            self._leave.detach()

    @property
    def owned_here(self) -> bool:
        """Whether this process joined; a forked child has to join for itself."""
        return self._owner == os.getpid()

    @property
    def segment(self) -> store.Segment:
        """The native handle, for the loader."""
        return self._segment

    def __enter__(self) -> SampleCache:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"SampleCache({self.name!r}, {'closed' if self._segment.closed else 'open'})"


# One handle a process and name: its loaders share row, mapping and descriptor.
_joined: weakref.WeakValueDictionary[tuple[int, str], SampleCache] = weakref.WeakValueDictionary()
_joining = threading.Lock()
_job_keys: dict[int, int] = {}


def shared_cache(name: str, dataset: Dataset, cache_bytes: int | str, split: str | Split) -> SampleCache:
    """This process's cache of that name for a loader; ``"auto"`` names it after the dataset."""
    if name == "auto":
        name = dataset.fingerprint().hex()[:16]
    key = (os.getpid(), name)  # a forked child joins for itself
    with _joining:
        cache = _joined.get(key)
        if cache is None or cache.segment.closed or not cache.segment.linked:
            cache = SampleCache.join(name, dataset, cache_bytes=cache_bytes, split=split)
            _joined[key] = cache
    return cache


def job_key() -> int:
    """64 random bits that name this training run: the process's own, not its parent's."""
    return _job_keys.setdefault(os.getpid(), secrets.randbits(64) | 1)


def _object_name(name: str) -> str:
    """The shared memory object's name; it holds the user's id, so users do not meet."""
    if not re.fullmatch(r"[\w.-]{1,200}", name, re.ASCII):
        raise ValueError(f"a cache's name has letters, digits, '_', '-' and '.', but got {name!r}")
    return f"/seneca-{os.geteuid()}-{name}"


def _unlink(object_name: str) -> Callable[[], None]:
    def unlink() -> None:
        try:
            posix_ipc.unlink_shared_memory(object_name)
        except posix_ipc.ExistentialError:
            return  # somebody removed it by hand: the same end

    return unlink


def _leave(segment: store.Segment, name: str, owner: int) -> None:
    """Leave from the process that joined; a forked child only lets go of its copy."""
    if os.getpid() != owner:
        segment.close(lambda: None)
    elif not segment.close(_unlink(_object_name(name))):
        _sweep_one(_object_name(name))  # who held the lock may have gone meanwhile, and we be the last


def _open(
    name: str,
    dataset: Dataset | None,
    cache_bytes: int | str | None,
    split: Split | Literal["auto"] | None,
    keep: bool,
) -> store.Segment:
    """Join the segment or, where ``cache_bytes`` is given, make it. Opens the name again while it
    leads to what its users have left."""
    object_name = _object_name(name)
    makes = cache_bytes is not None
    shares = _shares(default_split() if split in ("auto", None) else split)  # type: ignore[arg-type]
    began = time.monotonic()
    told = False
    _sweep(object_name)
    while True:
        try:
            shm = posix_ipc.SharedMemory(object_name, posix_ipc.O_CREAT if makes else 0, mode=0o600)
        except posix_ipc.ExistentialError:
            raise FileNotFoundError(f"there is no cache {name!r}; SampleCache.create makes one") from None
        except posix_ipc.PermissionsError:
            raise errors.SegmentOwnerError(
                f"{SHM_FOLDER}{object_name} belongs to another user; remove it or choose another name"
            ) from None
        # Decided anew each time: a stale segment that went meanwhile has freed its memory.
        payload_bytes = _payload_bytes(dataset, cache_bytes, is_new=shm.size == 0) if makes else 0
        try:
            return store.Segment(
                shm.fd,
                None if dataset is None else dataset.fingerprint(),
                0 if dataset is None else len(dataset),
                payload_bytes,
                keep=keep,
                job_key=job_key(),
                split=shares,
                unlink=_unlink(object_name),
                progress=_Progress(name),
            )
        except store.Unlinked:
            if not makes:
                raise FileNotFoundError(f"the cache {name!r} has no living user any more") from None
        except BlockingIOError:
            waited = time.monotonic() - began
            if waited > GIVE_UP_AFTER_S:
                raise errors.SegmentError(
                    f"the cache {name!r} was locked by another process for {waited:.0f} s; "
                    f"is it stopped? Remove {SHM_FOLDER}{object_name} or choose another name"
                ) from None
            if waited > TELL_AFTER_S and not told:
                print(f"seneca: waiting for another process to make the cache {name!r}", file=sys.stderr)
                told = True
        except errors.SegmentError as error:
            raise type(error)(f"the cache {name!r} ({SHM_FOLDER}{object_name}): {error}") from None
        except OSError as error:
            raise _explained(error, name, dataset, payload_bytes) from None


def _shares(split: Split) -> tuple[int, int, int, int]:
    return (0, round(split.encoded * 10000), round(split.decoded * 10000), round(split.augmented * 10000))


def _payload_bytes(dataset: Dataset | None, cache_bytes: int | str | None, *, is_new: bool) -> int:
    """How much to reserve if it has to be made; NoSpaceError where the host has not got it."""
    assert dataset is not None and cache_bytes is not None
    status = os.statvfs(SHM_FOLDER)
    free = status.f_bavail * status.f_frsize
    if cache_bytes == "auto":
        available = min(free, _free_memory())
        useful = USEFUL_BYTES_PER_ENCODED * dataset.total_bytes() + USEFUL_BYTES_PER_SAMPLE * len(dataset)
        return max(store.GRANULE, min(available // 2, useful) // store.GRANULE * store.GRANULE)
    wanted = -(-parse_bytes(cache_bytes) // store.GRANULE) * store.GRANULE
    needed = store.segment_bytes(len(dataset), wanted)
    if is_new and needed > free:
        raise _no_space(needed, free)
    return wanted


def _no_space(needed: int, free: int) -> errors.NoSpaceError:
    return errors.NoSpaceError(
        f"{SHM_FOLDER} has {free / 2**20:,.0f} MiB free and the cache needs {needed / 2**20:,.0f} MiB "
        "(payloads and their records). Give a smaller cache_bytes, or make it larger: "
        f"mount -o remount,size=... {SHM_FOLDER}; in Docker --shm-size=..."
    )


def _explained(error: OSError, name: str, dataset: Dataset | None, payload_bytes: int) -> OSError:
    import errno

    if error.errno == errno.ENOSPC and dataset is not None:
        status = os.statvfs(SHM_FOLDER)
        return _no_space(store.segment_bytes(len(dataset), payload_bytes), status.f_bavail * status.f_frsize)
    if error.errno == errno.EINVAL and dataset is not None:
        return errors.SegmentError(f"no cache can be made for a dataset of {len(dataset)} samples")
    return errors.SegmentError(f"the cache {name!r} could not be used: {error.strerror or error}")


def _free_memory() -> int:
    """What the kernel and the control group still allow, in bytes."""
    with open("/proc/meminfo") as file:
        fields = dict(line.split(":", 1) for line in file)
    free = int(fields["MemAvailable"].split()[0]) * 1024
    for limit, usage in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        try:
            with open(limit) as at_most, open(usage) as used:
                text = at_most.read().strip()
                if text != "max":
                    free = min(free, int(text) - int(used.read()))
        except OSError:
            continue  # the other version of control groups, or none
    return max(0, free)


def _sweep(except_name: str) -> None:
    """Remove this user's segments that no living process uses."""
    prefix = f"/seneca-{os.geteuid()}-"
    for entry in os.listdir(SHM_FOLDER):
        object_name = "/" + entry
        if object_name.startswith(prefix) and object_name != except_name:
            _sweep_one(object_name)


def _sweep_one(object_name: str) -> None:
    try:
        fd = posix_ipc.SharedMemory(object_name).fd
    except (posix_ipc.ExistentialError, posix_ipc.PermissionsError, OSError):
        return  # gone meanwhile, or not what its name says
    store.sweep(fd, _unlink(object_name))


class _Progress:
    """Tells how far reserving memory has come, if it takes long."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.next = time.monotonic() + TELL_AFTER_S

    def __call__(self, done: int, total: int) -> None:
        if time.monotonic() >= self.next:
            self.next = time.monotonic() + TELL_AFTER_S
            print(
                f"seneca: reserving the cache {self.name!r}: {done / 2**30:.1f} of {total / 2**30:.1f} GiB",
                file=sys.stderr,
            )
