"""The segments of this host as somebody sees them who does not use them: found, inspected, shrunk, removed.

Whoever calls this is no participant. A segment is opened for reading, nothing is mapped or locked, and nobody
notices (``csrc/shm/sn_snapshot.h``). What another user owns, or another version of Seneca made, is listed and
not opened further.
"""

from __future__ import annotations

import enum
import errno
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seneca._core.codes import Unlinked
from seneca._core.segment import GRANULE, KEEP_FOREVER
from seneca._core.snapshot import anyone_alive, discard, left_behind, snapshot
from seneca._core.snapshot import shrink as shrink_once
from seneca._runtime.regular_files import above_standard, kind_of
from seneca.cache import folder_in_force, path_of, split_text, user_name
from seneca.cache.objects import opened
from seneca.errors import NoSpaceError, SegmentError, SegmentOwnerError
from seneca.forms import KEPT_FORMS

__all__ = [
    "DatasetSeen",
    "JobSeen",
    "Segment",
    "State",
    "View",
    "find",
    "remove",
    "segments",
    "shrink",
    "worth",
]

SHRINK_FOR_S = 10.0  # the longest that shrinking waits for payloads that are in use
RETRY_EVERY_S = 0.05
ANY_PACE = 2**32 - 1  # a training step that takes whatever it is given
JOIN_HALF_LIFE_S = 1800.0  # as in csrc/store/sn_join.h
UNKNOWN_COST_S = 1e-3  # of a sample, where it is not known
NAME = re.compile(r"seneca-(\d+)-(.+)", re.ASCII)


class State(str, enum.Enum):
    """Whether a segment is in use, kept, left by dead jobs, or given up."""

    IN_USE = "in use"
    KEPT = "kept"  # nobody uses it, and it is to be kept, for some time or until it is removed
    DEAD = "dead"  # nobody uses it, and it is not kept any longer; the next job that starts removes it
    GIVEN_UP = "given up"  # its users go on without it, and new jobs make another
    UNKNOWN = "unknown"  # it cannot be read, see ``why``


@dataclass(frozen=True)
class Work:
    """What one process publishes of its loaders that use a segment, all numbers since ``since_ms``.

    Attributes:
        pid: The process.
        name: The job: its ``job=``, or its command line.
        dataset: The name of its dataset; "": not known.
        since_ms, published_ms: When the process began to publish, and when it published this, in milliseconds
            since 1970.
        delivered: Samples, without the batch that the training loop is at. Where torch's workers prepare:
            samples that they have made.
        served: Samples by the form that they came from.
        unrecoded: Files that might have been kept RECODED and were not, by the cause: the names of
            :data:`seneca.forms.UNRECODED`.
        prepared, staged: Augmented copies that it made; of these, for other jobs too.
        skipped, damaged: Samples that could not be prepared; samples whose payload in the cache was damaged.
        read_bytes: Bytes read from storage, if Seneca reads.
        stall_ns: Nanoseconds that the training loop waited for samples, by cause: ``storage``, ``decode``,
            ``augment``, ``item`` (user's code that makes a whole item), ``batch`` (all other computing),
            ``cores`` (too few were free), ``peers`` (other jobs make exact copies), ``other``. What hides
            behind the training step is no cause. See :func:`seneca.tuning.telemetry.stall_parts`.
        spent_ns: Nanoseconds of those who prepare, by the same names. ``storage`` and ``cores`` are
            wall-clock time, the others CPU time.
        epoch, place, places: The number of the last epoch, how many of its samples are delivered, and how
            many it has; 0: not known.
        threads: The threads, or worker processes, that prepare.
        batch_size: Samples of a batch; 0: not known.
        rank, ranks: The rank of the process in its job, and how many ranks the job has.
    """

    pid: int
    name: str
    dataset: str
    since_ms: int
    published_ms: int
    delivered: int
    served: dict[str, int]
    unrecoded: dict[str, int]
    prepared: int
    staged: int
    skipped: int
    damaged: int
    read_bytes: int
    stall_ns: dict[str, int]
    spent_ns: dict[str, int]
    epoch: int
    place: int
    places: int
    threads: int
    batch_size: int
    rank: int
    ranks: int


@dataclass(frozen=True)
class DatasetSeen:
    """What one process publishes of the dataset that it shares.

    Attributes:
        pid: The process.
        like: Names what datasets have in common that should perhaps be one; see
            :class:`seneca.data.traits.Traits`.
        source: Names its samples in storage.
        kind: Names the payloads that are shared: equal datasets have equal ones.
        traits: Digests of what the dataset is made of, by the digest of the name of each.
        apart: For people: which jobs do not share with it, and why; "": none is known.
    """

    pid: int
    like: int
    source: int
    kind: int
    traits: dict[int, int]
    apart: str


@dataclass(frozen=True)
class JobSeen:
    """One job that uses a segment.

    Attributes:
        key: Names the training run.
        pids: Its living processes that are attached, workers included.
        iterators: How many iterators of the job draw.
        pace: Samples/s that its training step takes; None: not published.
        work: What its processes publish, by rank. A process that has not begun an epoch publishes nothing.
        datasets: What its processes publish of their datasets.
        compared: How many samples both it and another job have made, which were equal, by form. Forms that
            only Seneca's own code makes are not compared in this way.
    """

    key: str
    pids: tuple[int, ...]
    iterators: int
    pace: int | None
    work: tuple[Work, ...]
    datasets: tuple[DatasetSeen, ...]
    compared: dict[str, int]

    @property
    def apart(self) -> str:
        """For people: which jobs do not share with it, and why; "": none is known."""
        return "; ".join(dict.fromkeys(one.apart for one in self.datasets if one.apart))


@dataclass(frozen=True)
class View:
    """The content of a segment at one moment.

    Attributes:
        fingerprint: Names the dataset, in hexadecimal.
        dataset: The name of the dataset for people, see :func:`seneca.data.traits.title`; "": not known.
        samples: The number of samples in the dataset.
        keep_s: For how many seconds the segment outlives its last user; None: until it is removed.
        left_at: When its last user left, in seconds since 1970; None: it is in use, or its users were killed.
        payload_bytes, free_bytes: All memory for payloads, and what of it is free.
        reserved_bytes: What of ``payload_bytes`` is reserved so far, in the background.
        bytes, budget_bytes, payloads: By form (``encoded``, ``decoded``, ``augmented``): the memory of the
            payloads, what they may take, and how many there are.
        split: The shares of the forms in percent.
        split_changes: The last times that Seneca chose the split, a dict each of ``split``, ``why`` and
            ``when`` (seconds since 1970).
        joins, joined_at: How often jobs have joined it, as it counted at ``joined_at`` (seconds since 1970):
            a join counts for half after half an hour. All processes of a job count once.
        cost_s: Seconds that it takes to read and decode one sample again; 0: not known.
        jobs: The jobs that use it.
        torn: Whether the numbers changed while they were read. They may then not fit each other.
    """

    fingerprint: str
    dataset: str
    samples: int
    keep_s: int | None
    left_at: int | None
    payload_bytes: int
    reserved_bytes: int
    free_bytes: int
    bytes: dict[str, int]
    budget_bytes: dict[str, int]
    payloads: dict[str, int]
    split: str
    split_changes: list[dict[str, Any]]
    joins: float
    joined_at: int
    cost_s: float
    jobs: list[JobSeen]
    torn: bool


@dataclass(frozen=True)
class Segment:
    """One segment.

    Attributes:
        name: The name that jobs give as ``cache=``, or that ``"auto"`` stands for.
        path: The file.
        owner: The user who owns it.
        state: Who uses it.
        memory_bytes: The memory that it takes.
        why: Why it cannot be read; None: it was read.
        view: What it holds; None: it cannot be read.
    """

    name: str
    path: Path
    owner: str
    state: State
    memory_bytes: int
    why: str | None
    view: View | None


def segments(folder: Path | None = None) -> list[Segment]:
    """All segments in a folder, the largest first. None: where this process's own jobs would make them.

    Raises:
        SegmentFolderError: ``SENECA_DIR`` names a folder that cannot hold segments.
        OSError: The folder cannot be listed.
    """
    paths = (Path(folder_in_force()) if folder is None else folder).iterdir()
    found = [_seen(path, *match.groups()) for path in paths if (match := NAME.fullmatch(path.name))]
    return sorted(filter(None, found), key=lambda one: (-one.memory_bytes, one.name))


def find(name: str, folder: Path | None = None) -> Segment:
    """This user's segment of this name, in a folder as for :func:`segments`.

    Raises:
        SegmentFolderError: ``SENECA_DIR`` names a folder that cannot hold segments.
        SegmentOwnerError: There is none, and another user has one of this name.
        FileNotFoundError: There is none.
        ValueError: No cache can have this name.
    """
    path = Path(path_of(name, folder_in_force() if folder is None else str(folder)))
    found = _seen(path, str(os.geteuid()), name)
    if found is not None:
        return found
    for other in path.parent.glob(f"seneca-*-{name}"):
        match = NAME.fullmatch(other.name)
        if match is not None and match[2] == name and (theirs := _seen(other, *match.groups())) is not None:
            raise SegmentOwnerError(
                f"the cache {name!r} belongs to another user, {theirs.owner}, and is not opened; "
                "give one of your own: `seneca ls` shows whose each is"
            )
    raise FileNotFoundError(f"there is no cache {name!r}; `seneca ls` lists those that are there")


def worth(segment: Segment, now: float) -> float:
    """The worth of an unused segment's memory: seconds of work that it may save, a byte.

    Method: the cost of making all that it holds again, times how often and how lately it was used, as of
    ``now`` (in seconds since 1970), divided by its memory: LRFU (Lee et al., 2001) with a cost, as DLCache
    has it.
    """
    view = segment.view
    if view is None or segment.memory_bytes == 0:
        return 0.0
    joins = view.joins * 2 ** (-max(0.0, now - view.joined_at) / JOIN_HALF_LIFE_S)
    kept = sum(view.payloads[form.name.lower()] for form in KEPT_FORMS)
    return joins * (view.cost_s or UNKNOWN_COST_S) * kept / segment.memory_bytes


def remove(segment: Segment, *, in_use: bool = False) -> bool:
    """Remove a segment of this user that no living process uses.

    Args:
        segment: The segment.
        in_use: Whether to remove the name also if processes use the segment, or if it cannot be read. These
            processes keep its memory until they end. Jobs that start later make another.

    Returns:
        Whether it is removed, or was gone already. If not, a living process uses it.

    Raises:
        SegmentError: It cannot be read, or another user owns it.
        OSError: This user may not remove it.
    """
    if in_use:
        segment.path.unlink(missing_ok=True)
        return True
    try:
        fd = _open(segment.path)
    except FileNotFoundError:
        return True
    if not os.access(segment.path.parent, os.W_OK | os.X_OK, effective_ids=True):
        os.close(fd)
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(segment.path))
    return discard(fd, str(segment.path))


def shrink(segment: Segment, payload_bytes: int, *, patience_s: float = SHRINK_FOR_S) -> int:
    """Leave less memory to the payloads of a segment, for good, while its jobs go on.

    Payloads in the memory that it gives back are dropped, and made again when it is needed. Payloads in use
    are waited for.

    Args:
        segment: The segment.
        payload_bytes: The memory for payloads, in bytes; rounded up to whole pages.
        patience_s: For how many seconds to wait for payloads in use, and for the lock.

    Returns:
        How many payloads are in use still, because a job holds its batches for longer than that. Another call
        gives their memory back.

    Raises:
        FileNotFoundError: Nobody used it, and it is gone.
        NoSpaceError: Its jobs need more for the copies that they exchange. Nothing is changed.
        SegmentError: It cannot be read, another user owns it, or its lock could not be had.
    """
    granules = min(-(-payload_bytes // GRANULE), 2**32 - 1)
    until = time.monotonic() + patience_s
    while True:
        try:
            _, least, left = shrink_once(_open(segment.path), str(segment.path), granules)
        except BlockingIOError:
            if time.monotonic() >= until:
                raise SegmentError(
                    f"{segment.path}: another process holds its lock; continue or end the one that is stopped"
                ) from None
        except Unlinked:
            raise FileNotFoundError(f"{segment.path}: nobody used it, and it is gone") from None
        else:
            if least > granules:
                raise NoSpaceError(
                    f"its jobs need {least * GRANULE:,} bytes for the copies that they exchange; leave more"
                )
            if left == 0 or time.monotonic() >= until:
                return left
        time.sleep(RETRY_EVERY_S)


def _open(path: Path) -> int:
    try:
        return opened(str(path))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise SegmentError(f"{path}: {error.strerror}") from None


def _seen(path: Path, uid: str, name: str) -> Segment | None:
    """The segment of this file; None: it is gone."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    owner, memory_bytes = user_name(status.st_uid), status.st_blocks * 512

    def unreadable(why: str, state: State = State.UNKNOWN) -> Segment:
        return Segment(name, path, owner, state, memory_bytes, why, None)

    if (kind := kind_of(status.st_mode)) is not None:
        return unreadable(f"it is {kind} and not a regular file")
    if status.st_uid != os.geteuid() or status.st_uid != int(uid):
        return unreadable("another user's")
    try:
        fd = above_standard(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK))
    except FileNotFoundError:
        return None
    except OSError as error:
        return unreadable(error.strerror or str(error))
    try:
        state = State.IN_USE if anyone_alive(fd) else State.DEAD if left_behind(fd) else None
        seen = snapshot(fd)
    except SegmentError as error:
        return unreadable(str(error), state or State.UNKNOWN)
    finally:
        os.close(fd)
    if state is State.IN_USE and seen["given_up"]:
        state = State.GIVEN_UP
    return Segment(name, path, owner, state or State.KEPT, seen["memory_bytes"], None, _view_of(seen))


def _view_of(seen: dict[str, Any]) -> View:
    return View(
        fingerprint=seen["fingerprint"],
        dataset=seen["dataset"],
        samples=seen["samples"],
        keep_s=None if seen["keep"] == KEEP_FOREVER else seen["keep"],
        left_at=seen["left_at"] or None,
        payload_bytes=seen["payload_bytes"],
        reserved_bytes=seen["reserved_bytes"],
        free_bytes=seen["free_bytes"],
        bytes=seen["bytes"],
        budget_bytes=seen["budget_bytes"],
        payloads=seen["payloads"],
        split=split_text(seen["split"]),
        split_changes=[
            {"split": split_text(split), "why": why, "when": when} for when, split, why in seen["changes"]
        ],
        joins=seen["joins"],
        joined_at=seen["joined_at"],
        cost_s=seen["cost_s"],
        jobs=list(_jobs_of(seen["rows"], seen["compared"])),
        torn=seen["torn"],
    )


def _jobs_of(rows: list[tuple[Any, ...]], compared: dict[int, dict[str, int]]) -> Iterator[JobSeen]:
    living = [row for row in rows if row[3]]
    for key in dict.fromkeys(row[0] for row in living):
        own = [row for row in living if row[0] == key]
        paces = [pace for *_, pace, _, _ in own if pace]
        work = [Work(pid=row[1], **row[5]) for row in own if row[5] is not None]
        yield JobSeen(
            key=f"{key:016x}",
            pids=tuple(sorted({pid for _, pid, is_iterator, *_ in own if not is_iterator})),
            iterators=sum(is_iterator for _, _, is_iterator, *_ in own),
            pace=max(paces) if paces and max(paces) < ANY_PACE else None,
            work=tuple(sorted(work, key=lambda one: (one.rank, one.pid))),
            datasets=tuple(DatasetSeen(pid=row[1], **row[6]) for row in own if row[6] is not None),
            compared=compared.get(key, {}),
        )
