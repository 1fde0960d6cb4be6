"""The cache that the jobs of a host share: one segment of shared memory a dataset.

Finds it, makes it, joins it, leaves it; the last to leave removes it. What is in it and who may
read what is decided in the native core.
"""

from __future__ import annotations

import errno
import os
import pwd
import re
import stat
import sys
import threading
import time
import weakref
from typing import Any, Literal, Protocol

import posix_ipc

from seneca import errors
from seneca._core import store
from seneca.ending import LAST, finalize
from seneca.memory import free_memory, most_memory
from seneca.options import parse_bytes, parse_split
from seneca.partition import Split, default_split
from seneca.ranks import job_key
from seneca.regular import kind_of

__all__ = ["SampleCache"]

SHM_FOLDER = "/dev/shm"
TELL_AFTER_S = 2.0  # what takes longer than this is told to the user
GIVE_UP_AFTER_S = 3.0  # without any progress of who holds the lock

# What posix_ipc raises, besides OSError, for an object that may not be opened, and for a directory.
REFUSALS = (posix_ipc.PermissionsError, ValueError)

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
        job: The key of the training run that this process is of, where it joined.

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

    def __init__(self, segment: store.Segment, name: str, job: int) -> None:
        self.name = name
        self.job = job
        self.created: bool = segment.created
        self._segment = segment
        self._owner = os.getpid()
        # Runs when this is collected and at the end of the process, last made first left.
        self._leave = finalize(self, _leave, segment, name, self._owner, order=LAST)

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
            split: Shares of the forms, or ``"auto"``: chosen by what is measured here, and changed where
                jobs or rates do.
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
        job = job_key()
        return cls(_open(name, dataset, None, None, False, job), name, job)

    @classmethod
    def join(
        cls,
        name: str,
        dataset: Dataset,
        *,
        cache_bytes: int | str = "auto",
        split: str | Split = "auto",
        keep: bool = False,
        job: str | None = None,
    ) -> SampleCache:
        """Join the cache of this name, or make it: what a loader does. Arguments as :meth:`create`'s.

        Who comes second takes size and split as they are. ``job`` is :class:`seneca.DataLoader`'s.
        """
        key = job_key(job)
        return cls(_open(name, dataset, cache_bytes, parse_split(split), keep, key), name, key)

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
            ``processes`` and ``jobs`` that are attached; ``split``, the shares of the forms in percent,
            and ``split_changes``, the last times that Seneca chose them: a dict each of ``split``, ``why``
            and ``when`` (seconds since 1970).

        Raises:
            BlockingIOError: Its lock was not to be had in 100 ms.
        """
        found = self._segment.stats()
        found["split"] = _text_of(found["split"])
        found["split_changes"] = [
            {"split": _text_of(split), "why": why, "when": when} for when, split, why in found.pop("changes")
        ]
        return found

    def close(self) -> None:
        """Leave; the last to leave removes the segment unless it is to be kept.

        Raises:
            SegmentError: Iterators of this process still draw from it.
        """
        if self._leave.alive:
            _leave(self._segment, self.name, self._owner)
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


# One handle a process, name and job: its loaders share row, mapping and descriptor.
_joined: weakref.WeakValueDictionary[tuple[int, str, int], SampleCache] = weakref.WeakValueDictionary()
_joining = threading.Lock()


def cache_name(name: str, fingerprint: bytes) -> str:
    """What ``"auto"`` stands for with a dataset of this fingerprint; any other name is itself."""
    return fingerprint.hex()[:16] if name == "auto" else name


def shared_cache(
    name: str, dataset: Dataset, cache_bytes: int | str, split: str | Split, job: str | None
) -> SampleCache:
    """This process's cache of that name for a loader of ``job``; ``"auto"`` names it after the dataset."""
    name = cache_name(name, dataset.fingerprint())
    key = (os.getpid(), name, job_key(job))  # a forked child joins for itself
    with _joining:
        cache = _joined.get(key)
        # What nobody trusts any more is left; who comes back to it begins anew.
        if cache is None or cache.segment.closed or not cache.segment.linked or cache.segment.distrusted:
            cache = SampleCache.join(name, dataset, cache_bytes=cache_bytes, split=split, job=job)
            _joined[key] = cache
        elif cache.segment.fingerprint != dataset.fingerprint():
            raise errors.SegmentMismatchError(
                f"the cache {name!r} holds another dataset, or this one before its files changed; "
                "give each dataset a name of its own"
            )
    return cache


def _object_name(name: str) -> str:
    """The shared memory object's name; it holds the user's id, so users do not meet."""
    if not re.fullmatch(r"[\w.-]{1,200}", name, re.ASCII):
        raise ValueError(f"a cache's name has letters, digits, '_', '-' and '.', but got {name!r}")
    return f"/seneca-{os.geteuid()}-{name}"


def _leave(segment: store.Segment, name: str, owner: int) -> None:
    had_the_lock = segment.close()
    if os.getpid() == owner and not had_the_lock:
        _sweep(_object_name(name))  # who held it may have gone meanwhile, and this be the last


def _open(
    name: str,
    dataset: Dataset | None,
    cache_bytes: int | str | None,
    split: Split | Literal["auto"] | None,
    keep: bool,
    job: int,
) -> store.Segment:
    """Join the segment or, where ``cache_bytes`` is given, make it."""
    object_name = _object_name(name)
    _sweep_others(object_name)
    # All that takes time comes before the object is open: a fork meanwhile would inherit it.
    fingerprint = None if dataset is None else dataset.fingerprint()
    samples = 0 if dataset is None else len(dataset)
    payload_bytes = 0 if cache_bytes is None or dataset is None else _payload_bytes(dataset, cache_bytes)
    shares = shares_of(split if isinstance(split, Split) else default_split())
    patience = _Patience(name)

    def watch(done: int, total: int) -> None:
        _check_room(samples, payload_bytes, done)
        patience.tell_progress(done, total)

    while True:
        try:
            shm = posix_ipc.SharedMemory(object_name, posix_ipc.O_CREAT if payload_bytes else 0, mode=0o600)
        except posix_ipc.ExistentialError:
            raise FileNotFoundError(f"there is no cache {name!r}; SampleCache.create makes one") from None
        except (*REFUSALS, OSError) as error:
            raise _refused(object_name) or errors.SegmentError(
                f"the cache {name!r} ({SHM_FOLDER}{object_name}) could not be opened: {error}"
            ) from None
        so_far = os.fstat(shm.fd).st_blocks
        try:
            return store.Segment(
                shm.fd,
                object_name,
                fingerprint,
                samples,
                payload_bytes,
                keep=keep,
                job_key=job,
                split=shares,
                adapts=not isinstance(split, Split),
                progress=watch,
            )
        except store.Unlinked:
            continue  # its users are dead or gone, or it was being removed: open the name again
        except BlockingIOError:
            patience.wait(so_far)
        except errors.NoSpaceError:
            raise  # of what it is has been said
        except errors.SegmentOwnerError as error:
            raise _refused(object_name) or error from None
        except errors.SegmentError as error:
            raise type(error)(f"the cache {name!r} ({SHM_FOLDER}{object_name}): {error}") from None
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise _no_space(samples, payload_bytes, 0) from None
            raise errors.SegmentError(f"the cache {name!r} could not be used: {error.strerror}") from None


def shares_of(split: Split) -> tuple[int, int, int, int]:
    """As a segment has it, by form."""
    return (0, round(split.encoded * 10000), round(split.decoded * 10000), round(split.augmented * 10000))


def split_of(shares: tuple[int, ...]) -> Split:
    """The split of what a segment has; whatever lies there, the shares sum to 1."""
    total = sum(shares[1:])
    if total == 0:
        return Split(0.0, 0.0, 1.0)
    return Split(shares[1] / total, shares[2] / total, shares[3] / total)


def _text_of(shares: tuple[int, ...]) -> str:
    return str(split_of(shares))


def _payload_bytes(dataset: Dataset, cache_bytes: int | str) -> int:
    """How much space for payloads to reserve if the cache has to be made."""
    if cache_bytes != "auto":
        return -(-parse_bytes(cache_bytes) // store.GRANULE) * store.GRANULE
    half = min(_free_space(), free_memory()) // 2
    records = store.segment_bytes(len(dataset), half) - half if len(dataset) and half else 0
    useful = USEFUL_BYTES_PER_ENCODED * dataset.total_bytes() + USEFUL_BYTES_PER_SAMPLE * len(dataset)
    return max(1, min(half - records, useful) // store.GRANULE) * store.GRANULE


def auto_bytes(dataset: Dataset) -> int:
    """What ``cache_bytes="auto"`` would reserve for payloads of this dataset now."""
    return _payload_bytes(dataset, "auto")


def _free_space() -> int:
    status = os.statvfs(SHM_FOLDER)
    return status.f_bavail * status.f_frsize


def _check_room(samples: int, payload_bytes: int, reserved: int) -> None:
    """Ask whether the rest of a cache that is being made can be had; NoSpaceError: it cannot.

    The file system's limit is kept by the kernel, which answers ENOSPC. The one on memory is kept by killing,
    and without a word: so it is asked again after each piece, because other jobs take memory meanwhile.
    """
    needed = store.segment_bytes(samples, payload_bytes) - reserved
    if needed > _free_space():
        raise _no_space(samples, payload_bytes, reserved)
    limit = most_memory()
    if needed > limit.most:
        raise errors.NoSpaceError(
            f"{_needs(samples, payload_bytes, reserved)}, but {limit.name} still allows "
            f"{max(0, limit.most) / 2**20:,.1f} MiB: beyond that the kernel would kill this job. Give a "
            "smaller cache_bytes, or the job more memory (in Docker --memory=..., in SLURM --mem=...)"
        )


def _no_space(samples: int, payload_bytes: int, reserved: int) -> errors.NoSpaceError:
    return errors.NoSpaceError(
        f"{_needs(samples, payload_bytes, reserved)}, but {SHM_FOLDER} has "
        f"{_free_space() / 2**20:,.1f} MiB free. Give a smaller cache_bytes, or make it larger: "
        f"mount -o remount,size=... {SHM_FOLDER}; in Docker --shm-size=..."
    )


def _needs(samples: int, payload_bytes: int, reserved: int) -> str:
    needed = store.segment_bytes(samples, payload_bytes)
    rest = f", of which {reserved / 2**20:,.1f} MiB are reserved already" if reserved else ""
    return (
        f"a cache with cache_bytes={payload_bytes / 2**20:,.1f} MiB needs {needed / 2**20:,.1f} MiB "
        f"(payloads and their records){rest}"
    )


def _refused(object_name: str) -> errors.SegmentOwnerError | None:
    """Why the object of this name, as it lies there now, is not used; None: nothing is wrong with it."""
    path = SHM_FOLDER + object_name
    try:
        status = os.lstat(path)
    except OSError:
        return None  # gone meanwhile
    kind, mine, mode = kind_of(status.st_mode), status.st_uid == os.geteuid(), stat.S_IMODE(status.st_mode)
    faults = []
    if kind is not None:
        faults.append(f"is {kind} and not a regular file")
    if not mine:
        faults.append(f"belongs to another user, {_user(status.st_uid)}")
    elif kind is None and mode & 0o077:
        faults.append(f"may be opened by other users: its mode is {mode:04o} and not 0600")
    elif kind is None and mode != 0o600:
        faults.append(f"may not be opened by its owner: its mode is {mode:04o} and not 0600")
    if not faults:
        return None
    remedy = "remove it" if mine else "have its owner remove it"
    return errors.SegmentOwnerError(
        f"{path} {' and '.join(faults)}; {remedy}, or choose another name for the cache"
    )


def _user(uid: int) -> str:
    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"


def _sweep_others(object_name: str) -> None:
    """Remove this user's other segments that no living process uses."""
    prefix = f"/seneca-{os.geteuid()}-"
    for entry in os.listdir(SHM_FOLDER):
        if ("/" + entry).startswith(prefix) and "/" + entry != object_name:
            _sweep("/" + entry)


def _sweep(object_name: str) -> None:
    try:
        fd = posix_ipc.SharedMemory(object_name).fd
    except (posix_ipc.ExistentialError, *REFUSALS, OSError):
        return  # gone meanwhile, or not what its name says
    store.sweep(fd, object_name)


class _Patience:
    """Waits for a segment that another process creates or holds, and tells the user why.

    A creation may take long and is seen to go on by the memory that it has reserved; who holds
    the lock of a segment that is there should not take long, and if it does, it is stopped.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._tell_at = time.monotonic() + TELL_AFTER_S
        self._give_up_at = time.monotonic() + GIVE_UP_AFTER_S
        self._blocks = -1

    def tell_progress(self, done: int, total: int) -> None:
        """Of a creation by this process."""
        self._tell(f"reserving the cache {self._name!r}: {done / 2**30:.1f} of {total / 2**30:.1f} GiB")

    def wait(self, blocks: int) -> None:
        """Return to try again; SegmentError when nothing has happened for too long."""
        if blocks != self._blocks:
            self._blocks = blocks
            self._give_up_at = time.monotonic() + GIVE_UP_AFTER_S
        elif time.monotonic() >= self._give_up_at:
            raise errors.SegmentError(
                f"the cache {self._name!r} is locked by another process, which seems to be stopped; "
                f"continue or end it, or remove {SHM_FOLDER}{_object_name(self._name)}"
            )
        self._tell(f"waiting for another process to make the cache {self._name!r}")

    def _tell(self, text: str) -> None:
        if time.monotonic() >= self._tell_at:
            self._tell_at = time.monotonic() + TELL_AFTER_S
            print(f"seneca: {text}", file=sys.stderr)
