"""The cache that the jobs of a host share: one segment of shared memory for each dataset.

This module finds, makes, joins, leaves and sweeps segments. The last process to leave a segment removes it.
The native core decides what lies in it and who may read what.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import pwd
import re
import secrets
import stat
import sys
import threading
import time
import weakref
from typing import Any, Literal, Protocol

import posix_ipc

from seneca import errors
from seneca._core.codes import Unlinked
from seneca._core.look import discard, look
from seneca._core.segment import GRANULE, KEEP_FOREVER, Segment, segment_bytes, sweep
from seneca._runtime.distributed import job_key
from seneca._runtime.finalizers import LAST, finalize, park_if_ending, wait_at_end
from seneca._runtime.memory import free_memory, most_memory
from seneca._runtime.regular_files import kind_of
from seneca.forms import Form
from seneca.options import parse_bytes, parse_keep, parse_split
from seneca.partition import Split, default_split

__all__ = ["SampleCache"]

SHM_FOLDER = "/dev/shm"
TELL_AFTER_S = 2.0  # the user is told of a wait that is longer than this
GIVE_UP_AFTER_S = 3.0  # without any progress of the process that holds the lock

# What posix_ipc raises, besides OSError, for an object that may not be opened, and for a directory.
REFUSALS = (posix_ipc.PermissionsError, ValueError)

# The most that is worth holding of a sample: its file, its pixels, and a page of rounding for each. The
# pixels of an ImageNet JPEG are about 5 times its bytes, those of a heavily compressed one some 15 times.
USEFUL_BYTES_PER_ENCODED = 16
USEFUL_BYTES_PER_SAMPLE = 64 * 1024


class Dataset(Protocol):
    """What a cache needs to know about a dataset."""

    def __len__(self) -> int: ...

    def fingerprint(self) -> bytes: ...

    def total_bytes(self) -> int: ...


class SampleCache:
    """A process's membership in a shared cache. Make one with :meth:`create`, :meth:`attach` or :meth:`join`.

    A loader makes its own if its ``cache`` is ``"auto"`` or a name. A membership made by hand gives
    control of the cache's life and size. The process leaves the cache when this object is closed or
    collected, and when the process ends, however it ends.

    Attributes:
        name: The name by which other jobs find the cache.
        created: Whether this process made the cache.
        job: The key of the training run as which this process joined.

    Example:
        >>> import tempfile, seneca
        >>> from seneca.testing import make_pictures
        >>> folder = tempfile.TemporaryDirectory()
        >>> _ = make_pictures(folder.name, count=4, classes=2)
        >>> dataset = seneca.ImageFolder(folder.name)
        >>> with seneca.SampleCache.create("readme", dataset, cache_bytes="4MiB") as cache:
        ...     cache.stats()["free_bytes"]
        4194304
        >>> folder.cleanup()
    """

    def __init__(self, segment: Segment, name: str, job: int) -> None:
        self.name = name
        self.job = job
        self.created: bool = segment.created
        self._segment = segment
        self._owner = os.getpid()
        # Runs when this is collected, and at the end of the process: the last made is left first.
        self._leave = finalize(self, _leave, segment, name, self._owner, True, order=LAST)

    @classmethod
    def create(
        cls,
        name: str,
        dataset: Dataset,
        *,
        cache_bytes: int | str = "auto",
        split: str | Split = "auto",
        keep: bool | float | str = False,
    ) -> SampleCache:
        """Make a cache that does not exist yet.

        Args:
            name: The name by which other jobs find it.
            dataset: The dataset whose samples it will hold.
            cache_bytes: Memory for payloads. ``"auto"``: half of the free memory, at most what the dataset
                can use.
            split: Shares of the forms. ``"auto"``: Seneca chooses them by what it measures here, and changes
                them when jobs or rates change.
            keep: How long the cache stays when the last process has left: seconds, or a time such as
                ``"10min"``. True: until :meth:`remove`.

        Raises:
            FileExistsError: A cache of this name exists, in use or kept.
            NoSpaceError: Shared memory has no room for it; the message says how much is free.
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
            name: The name that its maker gave.
            dataset: The dataset whose samples it must hold; ``None``: any.

        Raises:
            FileNotFoundError: There is no cache of this name.
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
        keep: bool | float | str = False,
        job: str | None = None,
    ) -> SampleCache:
        """Join the cache of this name, or make it. A loader does this.

        If the cache exists, its size and split stay as they are. It is kept for the longest time that any job
        has asked for.

        Args:
            name, dataset, cache_bytes, split, keep: As in :meth:`create`.
            job: As in :class:`seneca.DataLoader`.
        """
        key = job_key(job)
        return cls(_open(name, dataset, cache_bytes, parse_split(split), parse_keep(keep), key), name, key)

    @staticmethod
    def remove(name: str) -> None:
        """Remove the name. Processes that use the cache keep it; later ones make another.

        Raises:
            FileNotFoundError: There is no cache of this name.
        """
        try:
            posix_ipc.unlink_shared_memory(object_name_of(name))
        except posix_ipc.ExistentialError:
            raise FileNotFoundError(f"there is no cache {name!r}") from None

    def stats(self) -> dict[str, Any]:
        """What the cache holds now.

        Returns:
            A dict:

            * ``payload_bytes``, ``free_bytes``: all memory for payloads, and what of it is free.
            * ``bytes``, ``budget_bytes``, ``payloads``: each by form.
            * ``writing``: payloads that are being written.
            * ``members``: iterators that draw.
            * ``processes``, ``jobs``: those that are attached.
            * ``split``: the shares of the forms in percent.
            * ``split_changes``: the last times that Seneca chose the split, a dict each of ``split``, ``why``
              and ``when`` (seconds since 1970).

        Raises:
            BlockingIOError: The cache's lock could not be had within 100 ms.
        """
        found = self._segment.stats()
        found["split"] = split_text(found["split"])
        found["split_changes"] = [
            {"split": split_text(split), "why": why, "when": when}
            for when, split, why in found.pop("changes")
        ]
        return found

    def close(self) -> None:
        """Leave the cache. The last process to leave removes the segment, unless it is to be kept.

        Raises:
            SegmentError: Iterators of this process still draw from it.
        """
        if self._leave.alive:
            _leave(self._segment, self.name, self._owner)
            self._leave.detach()

    @property
    def owned_here(self) -> bool:
        """Whether this process is the one that joined. A forked child has to join for itself."""
        return self._owner == os.getpid()

    @property
    def segment(self) -> Segment:
        """The native handle, for the loader."""
        return self._segment

    def __enter__(self) -> SampleCache:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"SampleCache({self.name!r}, {'closed' if self._segment.closed else 'open'})"


# One handle for each process, name and job: its loaders share row, mapping and descriptor.
_joined: weakref.WeakValueDictionary[tuple[int, str, int], SampleCache] = weakref.WeakValueDictionary()
_joining = threading.Lock()
wait_at_end(_joining)  # a daemon thread may be joining when the process ends


def cache_name(name: str, fingerprint: bytes) -> str:
    """The name of a cache. ``"auto"`` becomes a name made from the fingerprint; others stay as they are."""
    return fingerprint.hex()[:16] if name == "auto" else name


def shared_cache(
    name: str,
    dataset: Dataset,
    cache_bytes: int | str,
    split: str | Split,
    keep: bool | float | str,
    job: str | None,
) -> SampleCache:
    """The cache of that name, joined by this process for ``job``. ``"auto"`` names it after the dataset."""
    name = cache_name(name, dataset.fingerprint())
    key = (os.getpid(), name, job_key(job))  # a forked child joins for itself
    park_if_ending()  # in a process that ends, nobody would leave the cache
    with _joining:
        cache = _joined.get(key)
        # A distrusted cache is left, and a new one is begun.
        if cache is None or cache.segment.closed or not cache.segment.linked or cache.segment.distrusted:
            cache = SampleCache.join(name, dataset, cache_bytes=cache_bytes, split=split, keep=keep, job=job)
            _joined[key] = cache
        elif cache.segment.fingerprint != dataset.fingerprint():
            raise errors.SegmentMismatchError(
                f"the cache {name!r} holds another dataset, or this one before its files changed; "
                "give each dataset a name of its own"
            )
    return cache


def distrust_text(name: str, job: int, pid: int, sample: int, form: int, *, own_job: bool) -> str:
    """A text that says that a cache is no longer shared, why, and what to do."""
    who = "this job" if own_job else f"the job {job:016x}"
    return (
        f"the jobs of the cache {name!r} no longer share: {who} (process {pid}) was served sample {sample} "
        f"as {Form(form).name}, made it again, and it was another. Each job goes on with what it makes "
        "itself. Find out in what the jobs' code, files or settings differ, and give each a cache= name of "
        "its own"
    )


def seed_beside_others(cache: SampleCache | None, augmented: int) -> int:
    """The seed of this job's own order, if other jobs share when the epoch begins; else 0.

    Jobs with equal seeds have equal orders, and torch's default gives them equal seeds. A job that is an
    epoch behind would then prepare samples in the order that the other job had in the epoch before. Samples
    would get the same neighbours again.

    Args:
        cache: Where the epoch exchanges samples with others; None: nowhere.
        augmented: Names the pipeline whose copies it exchanges.
    """
    if cache is None or not cache.segment.others_exchange(augmented):
        return 0
    return 1 + secrets.randbelow(2**64 - 1)


def object_name_of(name: str) -> str:
    """The name of the shared memory object. It contains the user's id, because users do not share."""
    if not re.fullmatch(r"[\w.-]{1,200}", name, re.ASCII):
        raise ValueError(f"a cache's name has letters, digits, '_', '-' and '.', but got {name!r}")
    return f"/seneca-{os.geteuid()}-{name}"


def _leave(segment: Segment, name: str, owner: int, at_end: bool = False) -> None:
    had_the_lock = segment.close(at_end)
    if os.getpid() == owner and not had_the_lock:
        _sweep(object_name_of(name))  # the lock's holder may have left since, and this process be the last


def _open(
    name: str,
    dataset: Dataset | None,
    cache_bytes: int | str | None,
    split: Split | Literal["auto"] | None,
    keep: float,
    job: int,
) -> Segment:
    """Join the segment. If there is none and ``cache_bytes`` is given, make it."""
    object_name = object_name_of(name)
    _sweep_others(object_name)
    # Everything slow is done before the object is open, because a fork meanwhile would inherit it.
    fingerprint = None if dataset is None else dataset.fingerprint()
    samples = 0 if dataset is None else len(dataset)
    payload_bytes = 0 if cache_bytes is None or dataset is None else _payload_bytes(dataset, cache_bytes)
    if payload_bytes:
        _make_room(object_name, segment_bytes(samples, payload_bytes))
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
            return Segment(
                shm.fd,
                object_name,
                fingerprint,
                samples,
                payload_bytes,
                keep=KEEP_FOREVER if keep == math.inf else math.ceil(keep),
                job_key=job,
                split=shares,
                adapts=not isinstance(split, Split),
                progress=watch,
            )
        except Unlinked:
            continue  # its users are dead or gone, or it was being removed: the name is opened again
        except BlockingIOError:
            patience.wait(so_far)
        except errors.NoSpaceError:
            raise  # its message is complete
        except errors.SegmentOwnerError as error:
            raise _refused(object_name) or error from None
        except errors.SegmentError as error:
            raise type(error)(f"the cache {name!r} ({SHM_FOLDER}{object_name}): {error}") from None
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise _no_space(samples, payload_bytes, 0) from None
            raise errors.SegmentError(f"the cache {name!r} could not be used: {error.strerror}") from None


def shares_of(split: Split) -> tuple[int, int, int, int]:
    """A split as a segment stores it: the share of each form, in 1/10000."""
    return (0, round(split.encoded * 10000), round(split.decoded * 10000), round(split.augmented * 10000))


def split_of(shares: tuple[int, ...]) -> Split:
    """The split that a segment stores. Its shares sum to 1, whatever the segment holds."""
    total = sum(shares[1:])
    if total == 0:
        return Split(0.0, 0.0, 1.0)
    return Split(shares[1] / total, shares[2] / total, shares[3] / total)


def split_text(shares: tuple[int, ...]) -> str:
    return str(split_of(shares))


def _payload_bytes(dataset: Dataset, cache_bytes: int | str) -> int:
    """How many bytes to reserve for payloads if the cache has to be made."""
    if cache_bytes != "auto":
        return -(-parse_bytes(cache_bytes) // GRANULE) * GRANULE
    half = min(_free_space(), free_memory()) // 2
    records = segment_bytes(len(dataset), half) - half if len(dataset) and half else 0
    useful = USEFUL_BYTES_PER_ENCODED * dataset.total_bytes() + USEFUL_BYTES_PER_SAMPLE * len(dataset)
    return max(1, min(half - records, useful) // GRANULE) * GRANULE


def auto_bytes(dataset: Dataset) -> int:
    """How many bytes ``cache_bytes="auto"`` would reserve for payloads of this dataset now."""
    return _payload_bytes(dataset, "auto")


def _free_space() -> int:
    status = os.statvfs(SHM_FOLDER)
    return status.f_bavail * status.f_frsize


def _check_room(samples: int, payload_bytes: int, reserved: int) -> None:
    """Check that there is room for the rest of a cache that is being made.

    At the file system's limit the kernel answers ENOSPC. At the limit on memory it kills the process without
    a word. Therefore this is checked again after each piece: other jobs take memory meanwhile.

    Raises:
        NoSpaceError: There is not enough room.
    """
    needed = segment_bytes(samples, payload_bytes) - reserved
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
    needed = segment_bytes(samples, payload_bytes)
    rest = f", of which {reserved / 2**20:,.1f} MiB are reserved already" if reserved else ""
    return (
        f"a cache with cache_bytes={payload_bytes / 2**20:,.1f} MiB needs {needed / 2**20:,.1f} MiB "
        f"(payloads and their records){rest}"
    )


def _refused(object_name: str) -> errors.SegmentOwnerError | None:
    """Why the object of this name cannot be used as it is now; None: nothing is wrong with it."""
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
        faults.append(f"belongs to another user, {user_name(status.st_uid)}")
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


def user_name(uid: int) -> str:
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


def _make_room(object_name: str, needed: int) -> None:
    """If a segment is to be made and there is no room for it, remove those that are only kept for some time.

    Only this user's segments that nobody uses are removed, the one that was left first before the others.
    """
    if os.path.lexists(SHM_FOLDER + object_name):
        return  # it is joined
    idle = []
    for entry in os.scandir(SHM_FOLDER):
        if entry.name.startswith(f"seneca-{os.geteuid()}-"):
            with contextlib.suppress(FileNotFoundError):
                idle.append((entry.stat(follow_symlinks=False).st_mtime, entry.name))
    for _, name in sorted(idle):
        if needed <= min(_free_space(), most_memory().most):
            return
        _give_up("/" + name)


def _give_up(object_name: str) -> None:
    """Remove a segment that is kept for some time, if no living process uses it."""
    try:
        fd = posix_ipc.SharedMemory(object_name).fd
    except (posix_ipc.ExistentialError, *REFUSALS, OSError):
        return  # gone meanwhile, or no segment in spite of its name
    try:
        kept_s = look(fd)["keep"]
    except errors.SegmentError:
        kept_s = 0
    if 0 < kept_s < KEEP_FOREVER:
        with contextlib.suppress(errors.SegmentError):  # another process has just removed it
            discard(fd, object_name)
    else:
        os.close(fd)


def _sweep(object_name: str) -> None:
    try:
        fd = posix_ipc.SharedMemory(object_name).fd
    except (posix_ipc.ExistentialError, *REFUSALS, OSError):
        return  # gone meanwhile, or no segment in spite of its name
    sweep(fd, object_name)


class _Patience:
    """Waits for a segment that another process creates or holds, and tells the user why.

    A creation may take long. The memory that it has reserved shows that it goes on. A process holds the lock
    of a finished segment only briefly; if it holds it long, the process is stopped.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._tell_at = time.monotonic() + TELL_AFTER_S
        self._give_up_at = time.monotonic() + GIVE_UP_AFTER_S
        self._blocks = -1

    def tell_progress(self, done: int, total: int) -> None:
        """Tell how far the creation of a segment by this process is."""
        self._tell(f"reserving the cache {self._name!r}: {done / 2**30:.1f} of {total / 2**30:.1f} GiB")

    def wait(self, blocks: int) -> None:
        """Return if it is worth trying again.

        Raises:
            SegmentError: The other process has made no progress for too long.
        """
        if blocks != self._blocks:
            self._blocks = blocks
            self._give_up_at = time.monotonic() + GIVE_UP_AFTER_S
        elif time.monotonic() >= self._give_up_at:
            raise errors.SegmentError(
                f"the cache {self._name!r} is locked by another process, which seems to be stopped; "
                f"continue or end it, or remove {SHM_FOLDER}{object_name_of(self._name)}"
            )
        self._tell(f"waiting for another process to make the cache {self._name!r}")

    def _tell(self, text: str) -> None:
        if time.monotonic() >= self._tell_at:
            self._tell_at = time.monotonic() + TELL_AFTER_S
            print(f"seneca: {text}", file=sys.stderr)
