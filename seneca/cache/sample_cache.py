"""A process's membership in a cache: found, made, joined, left.

The last process to leave a segment removes it. The native core decides what is stored in it and who may
read what.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import secrets
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any, Literal

from seneca import errors
from seneca._core.codes import Unlinked
from seneca._core.segment import KEEP_FOREVER, KEPT, Segment, segment_bytes
from seneca._runtime.background import Background
from seneca._runtime.distributed import job_key
from seneca._runtime.finalizers import LAST, finalize, shielded
from seneca._runtime.segment_folder import segment_folder
from seneca._runtime.warn import warn
from seneca.cache.growth import FIRST_BYTES, FIRST_ON_DEMAND, Growth
from seneca.cache.objects import (
    checked,
    folder_in_force,
    opened,
    path_of,
    refused,
    sweep_others,
    sweep_unused,
)
from seneca.cache.room import Dataset, check_room, make_room, no_space, payload_bytes_for, why_small
from seneca.forms import Form
from seneca.options import parse_keep, parse_split
from seneca.partition import Split, default_split
from seneca.views import Stats

__all__ = [
    "MISTAKES",
    "SampleCache",
    "cache_name",
    "distrust_text",
    "seed_beside_others",
    "shared_cache",
    "shares_of",
    "split_of",
    "split_text",
]

REPORT_AFTER_S = 2.0  # a wait that is longer than this is reported to the user
GIVE_UP_AFTER_S = 3.0  # without any progress of the process that holds the lock

# What the user has to mend if it comes before the first epoch. A job that runs goes on without the cache.
MISTAKES = (errors.SegmentMismatchError, errors.SegmentFolderError)

# The core says what is wrong. What to do about it depends on how one came to the segment: here by a name.
REMEDIES: dict[type[errors.SegmentError], str] = {
    errors.NotASegmentError: "choose another cache name, or remove the file if nothing else uses it",
    errors.SegmentVersionError: "run all jobs of the host with one version, or choose another cache name",
    errors.SegmentCorruptError: "end the jobs that use it, and the next job makes another",
    errors.SegmentMismatchError: "give each dataset a cache name of its own",
    errors.TooManyMembersError: "use fewer workers, or give some jobs another cache name",
    errors.TooManyJobsError: "give further jobs another cache name",
}


class SampleCache:
    """A process's membership in a shared cache. Make one with :meth:`create`, :meth:`attach` or :meth:`join`.

    A loader makes its own if its ``cache`` is ``"auto"`` or a name. A membership made by hand gives
    control of the cache's life and size. The process leaves the cache when this object is closed or
    collected, and when the process ends, however it ends.

    Attributes:
        name: The name by which other jobs find the cache.
        created: Whether this process made the cache.
        job: The key of the training run as which this process joined.
        folder: Where its segment is: ``/dev/shm``, or what ``SENECA_DIR`` named when this process joined.
        path: The file of its segment.

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

    def __init__(
        self, segment: Segment, name: str, job: int, folder: str, *, on_demand: bool = False
    ) -> None:
        self.name = name
        self.job = job
        self.folder = folder
        self.path = path_of(name, folder)
        self.created: bool = segment.created
        self._segment = segment
        self._owner = os.getpid()
        self._users: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._growth: Background | None = None
        growth = Growth(segment, name, folder)
        self._on_demand = growth if on_demand else None
        if not on_demand and segment.reserved_bytes < segment.payload_bytes:
            self._growth = Background(growth.step, "seneca-growth")
        # Runs when this is collected, and at the end of the process: the last made is left first.
        self._leave = finalize(self, _leave, segment, self._growth, self.path, self._owner, True, order=LAST)

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
            NoSpaceError: Shared memory, or the folder, has no room for it; the message says how much is free.
            SegmentFolderError: ``SENECA_DIR`` names a folder that cannot hold a cache.
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
        job, folder = job_key(), folder_in_force()
        return cls(_open(name, folder, dataset, job=job), name, job, folder)

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
        """Join the cache of this name, or make it.

        If the cache exists, its size and split stay as they are. It is kept for the longest time that any job
        has asked for.

        Args:
            name, dataset, cache_bytes, split, keep: As in :meth:`create`.
            job: As in :class:`seneca.DataLoader`.
        """
        return _joined_in(
            folder_in_force(), name, dataset, cache_bytes=cache_bytes, split=split, keep=keep, job=job
        )

    @staticmethod
    def remove(name: str) -> None:
        """Remove the name. Processes that use the cache keep it; later ones make another.

        Raises:
            FileNotFoundError: There is no cache of this name.
        """
        try:
            os.unlink(path_of(name, folder_in_force()))
        except FileNotFoundError:
            raise FileNotFoundError(f"there is no cache {name!r}") from None

    def stats(self) -> dict[str, Any]:
        """The present content of the cache.

        Returns:
            A dict:

            * ``payload_bytes``, ``free_bytes``: all memory for payloads, and what of it is free.
            * ``reserved_bytes``: what of it is reserved so far. A large cache is reserved in the background.
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
        return Stats(found)

    def close(self) -> None:
        """Leave the cache. The last process to leave removes the segment, unless it is to be kept.

        Raises:
            SegmentError: Iterators of this process still draw from it.
        """
        if self._leave.alive:
            try:
                _leave(self._segment, self._growth, self.path, self._owner)
            except errors.SegmentError:
                if self._growth is not None:
                    self._growth.begin()  # it is not left
                raise
            self._leave.detach()

    @property
    def owned_here(self) -> bool:
        """Whether this process is the one that joined. A forked child has to join for itself."""
        return self._owner == os.getpid()

    @property
    def segment(self) -> Segment:
        """The native handle, for the loader."""
        return self._segment

    def make_room(self, needed: int) -> None:
        """Reserve more memory, if this cache gets it on demand and has not enough for so many bytes."""
        if self._on_demand is not None:
            self._on_demand.make_room(needed)

    def __enter__(self) -> SampleCache:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"SampleCache({self.name!r}, {'closed' if self._segment.closed else 'open'})"


# One handle for each process, file and job: its loaders share row, mapping and descriptor.
_joined: weakref.WeakValueDictionary[tuple[int, str, int], SampleCache] = weakref.WeakValueDictionary()
_joining = threading.Lock()


def cache_name(name: str, fingerprint: bytes) -> str:
    """The name of a cache. ``"auto"`` becomes a name made from the fingerprint; others stay as they are."""
    return fingerprint.hex()[:16] if name == "auto" else name


def shared_cache(
    name: str,
    dataset: Dataset,
    *,
    cache_bytes: int | str,
    split: str | Split,
    keep: bool | float | str,
    job: str | None,
    folder: str | None = None,
    on_demand: bool = False,
) -> SampleCache:
    """The cache of that name, joined by this process for ``job``. ``"auto"`` names it after the dataset.

    It is in ``folder``; None: in the one that the environment names. With ``on_demand`` it gets memory as
    it fills, by :meth:`SampleCache.make_room`.
    """
    name = cache_name(name, dataset.fingerprint())
    folder = checked(segment_folder() if folder is None else folder)
    key = (os.getpid(), path_of(name, folder), job_key(job))  # a forked child joins for itself
    with shielded, _joining:  # in a process that ends, nobody would leave the cache
        cache = _joined.get(key)
        # A distrusted cache is left, and a new one is begun.
        if cache is None or cache.segment.closed or not cache.segment.linked or cache.segment.distrusted:
            cache = _joined_in(
                folder,
                name,
                dataset,
                cache_bytes=cache_bytes,
                split=split,
                keep=keep,
                job=job,
                on_demand=on_demand,
            )
            _joined[key] = cache
        elif cache.segment.fingerprint != dataset.fingerprint():
            raise errors.SegmentMismatchError(
                f"the cache {name!r} holds another dataset, or this one before its files changed; "
                "give each dataset a name of its own, and whole items another one than native pictures"
            )
    return cache


def note_user(cache: SampleCache, user: Any, augmented: int) -> None:
    """Note that ``user``, which stands for a loader of this process, shares copies of this name; 0: none."""
    cache._users[user] = augmented


def same_job_text(cache: SampleCache | None, user: Any) -> str:
    """Describe loaders here that could use the same copies, and do not; "": there are none."""
    mine = 0 if cache is None else cache._users.get(user, 0)
    if cache is None or mine == 0:
        return ""
    others = sum(augmented == mine for augmented in list(cache._users.values())) - 1
    if others == 0:
        return ""
    loaders = "1 other loader" if others == 1 else f"{others} other loaders"
    return (
        f"; a process is one job, and {loaders} of it could use the same AUGMENTED copies, which only jobs "
        "exchange; give each loader a job= of its own"
    )


def distrust_text(name: str, job: int, pid: int, sample: int, form: int, *, own_job: bool) -> str:
    """A text that says that a cache is no longer shared, why, and what to do."""
    who = "this job" if own_job else f"the job {job:016x}"
    return (
        f"the jobs of the cache {name!r} no longer share: what {who} (process {pid}) makes of sample "
        f"{sample} differs from what the cache had of it ({Form(form).name}), each time that it is made. "
        "Each job goes on with what it makes itself. Find out in what the jobs' code, files or settings "
        "differ, and give each a cache= name of its own"
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


def _joined_in(
    folder: str,
    name: str,
    dataset: Dataset,
    *,
    cache_bytes: int | str,
    split: str | Split,
    keep: bool | float | str,
    job: str | None,
    on_demand: bool = False,
) -> SampleCache:
    key = job_key(job)
    segment = _open(
        name,
        folder,
        dataset,
        cache_bytes=cache_bytes,
        split=parse_split(split),
        keep=parse_keep(keep),
        job=key,
        first_bytes=FIRST_ON_DEMAND if on_demand else FIRST_BYTES,
    )
    return SampleCache(segment, name, key, folder, on_demand=on_demand)


def _leave(segment: Segment, growth: Background | None, path: str, owner: int, at_end: bool = False) -> None:
    if growth is not None and os.getpid() == owner:
        growth.end()
    had_the_lock = segment.close(at_end)
    if os.getpid() == owner and not had_the_lock:
        # The lock's holder may have left since, and this process be the last.
        sweep_unused(path)


def _open(
    name: str,
    folder: str,
    dataset: Dataset | None = None,
    *,
    cache_bytes: int | str | None = None,
    split: Split | Literal["auto"] | None = None,
    keep: float = 0.0,
    job: int,
    first_bytes: int = FIRST_BYTES,
) -> Segment:
    """Join the segment. If there is none and ``cache_bytes`` is given, make it."""
    path = path_of(name, folder)
    with _named(name, path):
        sweep_others(path)
    # Everything slow is done before the object is open, because a fork meanwhile would inherit it.
    fingerprint = None if dataset is None else dataset.fingerprint()
    samples = 0 if dataset is None else len(dataset)
    newest_ctime = getattr(dataset, "newest_ctime", int)()  # 0 for a dataset that has no files
    payload_bytes, small = 0, None
    with _named(name, path):
        if cache_bytes is not None and dataset is not None:
            payload_bytes = payload_bytes_for(dataset, cache_bytes, path)
        if payload_bytes:
            make_room(path, segment_bytes(samples, payload_bytes))
        if cache_bytes == "auto" and dataset is not None:
            small = why_small(dataset, payload_bytes, path)
    shares = shares_of(split if isinstance(split, Split) else default_split())
    patience = _Patience(name, path, samples)

    def watch(done: int, total: int) -> None:
        check_room(path, samples, payload_bytes, done)
        patience.report_progress(done, total)

    while True:
        try:
            fd = opened(path, creates=payload_bytes > 0)
        except FileNotFoundError:
            raise FileNotFoundError(f"there is no cache {name!r}; SampleCache.create makes one") from None
        except OSError as error:
            raise refused(path) or errors.SegmentError(
                f"the cache {name!r} ({path}) could not be opened: {error.strerror}"
            ) from None
        with _named(name, path):
            so_far = _blocks_of(fd)
        try:
            segment = Segment(
                fd,
                path,
                fingerprint,
                samples,
                payload_bytes,
                keep=KEEP_FOREVER if keep == math.inf else math.ceil(keep),
                job_key=job,
                split=shares,
                adapts=not isinstance(split, Split),
                first_bytes=first_bytes,
                newest_ctime=newest_ctime,
                progress=watch,
            )
            if segment.created and small is not None:
                warn(small)
            return segment
        except Unlinked:
            continue  # its users are dead or gone, or it was being removed: the name is opened again
        except BlockingIOError:
            patience.wait(so_far)
        except errors.NoSpaceError:
            raise  # its message is complete
        except errors.SegmentOwnerError as error:
            raise refused(path) or error from None
        except errors.SegmentError as error:
            remedy = f"; {REMEDIES[type(error)]}" if type(error) in REMEDIES else ""
            raise type(error)(f"the cache {name!r} ({path}): {error}{remedy}") from None
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise no_space(folder, samples, payload_bytes) from None
            if error.errno == errno.EOPNOTSUPP:
                raise errors.SegmentFolderError(
                    f"{folder}: its file system cannot reserve room (fallocate), and jobs could die of a bus "
                    "error; let SENECA_DIR name a folder on tmpfs, ext4 or xfs, or unset it for /dev/shm"
                ) from None
            raise _unusable(name, path, error) from None
        except MemoryError as error:
            raise errors.SegmentError(f"the cache {name!r} ({path}): {error}") from None


def _unusable(name: str, path: str, error: OSError) -> errors.SegmentError:
    return errors.SegmentError(
        f"the cache {name!r} ({path}) could not be used: {error.strerror}; choose another folder with "
        "SENECA_DIR, or give cache=None"
    )


@contextlib.contextmanager
def _named(name: str, path: str) -> Iterator[None]:
    """Let an error of the operating system name the cache: a job that runs goes on without it."""
    try:
        yield
    except errors.SegmentError:
        raise  # its message is complete
    except OSError as error:
        raise _unusable(name, path, error) from None


def _blocks_of(fd: int) -> int:
    """How much of a cache's file has memory. If that is not known, the file is closed."""
    try:
        return os.fstat(fd).st_blocks
    except OSError:
        os.close(fd)
        raise


def shares_of(split: Split) -> tuple[int, ...]:
    """A split as a segment stores it: the share of each form, in 1/10000, at the form's number."""
    shares = [0] * len(Form)
    for name, form in KEPT.items():
        shares[form] = round(getattr(split, name) * 10000)
    return tuple(shares)


def split_of(shares: tuple[int, ...]) -> Split:
    """The split that a segment stores. Its shares sum to 1, whatever the segment holds."""
    total = sum(shares[1:])
    if total == 0:
        return Split(0.0, 0.0, 1.0)
    return Split(**{name: shares[form] / total for name, form in KEPT.items()})


def split_text(shares: tuple[int, ...]) -> str:
    return str(split_of(shares))


class _Patience:
    """Waits for a segment that another process creates or holds, and reports to the user why.

    A creation may take long. The memory that it has reserved shows that it goes on. A process holds the lock
    of a finished segment only briefly; if it holds it long, the process is stopped.
    """

    def __init__(self, name: str, path: str, samples: int) -> None:
        self._name, self._path, self._samples = name, path, samples
        self._report_at = time.monotonic() + REPORT_AFTER_S
        self._give_up_at = time.monotonic() + GIVE_UP_AFTER_S
        self._blocks = -1

    def report_progress(self, done: int, total: int) -> None:
        """Report how far the creation of a segment by this process is."""
        so_far = f"{done / 2**30:.1f} of {total / 2**30:.1f} GiB"
        self._report(
            f"reserving shared memory for the cache {self._name!r} of {self._samples:,} samples: {so_far}"
        )

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
                f"continue or end it, or remove {self._path}"
            )
        self._report(f"waiting for another process to make the cache {self._name!r}")

    def _report(self, text: str) -> None:
        if time.monotonic() >= self._report_at:
            self._report_at = time.monotonic() + REPORT_AFTER_S
            print(f"seneca: {text}", file=sys.stderr)
