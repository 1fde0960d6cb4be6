"""The segments of this host as somebody sees them who does not use them: found, looked at, removed.

Whoever looks is no participant. A segment is opened for reading, nothing is mapped or locked, and nobody
notices (``csrc/shm/sn_look.h``). What another user owns, or another version of Seneca made, is listed and not
opened further.
"""

from __future__ import annotations

import enum
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seneca._core.look import anyone_alive, discard, left_behind, look
from seneca._core.segment import KEEP_FOREVER
from seneca._runtime.regular_files import kind_of
from seneca.cache import SHM_FOLDER, object_name_of, split_text, user_name
from seneca.errors import SegmentError

__all__ = ["JobSeen", "Segment", "State", "View", "find", "remove", "segments"]

ANY_PACE = 2**32 - 1  # a training step that takes whatever it is given
NAME = re.compile(r"seneca-(\d+)-(.+)", re.ASCII)


class State(str, enum.Enum):
    """Who uses a segment."""

    IN_USE = "in use"
    KEPT = "kept"  # nobody uses it, and it is to be kept, for some time or until it is removed
    DEAD = "dead"  # nobody uses it, and it is not kept any longer; the next job that starts removes it
    GIVEN_UP = "given up"  # its users go on without it, and new jobs make another
    UNKNOWN = "unknown"  # it cannot be read, see ``why``


@dataclass(frozen=True)
class JobSeen:
    """One job that uses a segment.

    Attributes:
        key: Names the training run.
        pids: Its living processes that are attached, workers included.
        iterators: How many iterators of the job draw.
        pace: Samples/s that its training step takes; None: not told.
    """

    key: str
    pids: tuple[int, ...]
    iterators: int
    pace: int | None


@dataclass(frozen=True)
class View:
    """What a segment holds, as of one moment.

    Attributes:
        fingerprint: Names the dataset, in hexadecimal.
        samples: The number of samples in the dataset.
        keep_s: For how many seconds the segment outlives its last user; None: until it is removed.
        left_at: When its last user left, in seconds since 1970; None: it is in use, or its users were killed.
        payload_bytes, free_bytes: All memory for payloads, and what of it is free.
        bytes, budget_bytes, payloads: By form (``encoded``, ``decoded``, ``augmented``): the memory of the
            payloads, what they may take, and how many there are.
        split: The shares of the forms in percent.
        split_changes: The last times that Seneca chose the split, a dict each of ``split``, ``why`` and
            ``when`` (seconds since 1970).
        jobs: The jobs that use it.
        torn: Whether the numbers changed while they were read. They may then not fit each other.
    """

    fingerprint: str
    samples: int
    keep_s: int | None
    left_at: int | None
    payload_bytes: int
    free_bytes: int
    bytes: dict[str, int]
    budget_bytes: dict[str, int]
    payloads: dict[str, int]
    split: str
    split_changes: list[dict[str, Any]]
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


def segments(folder: Path = Path(SHM_FOLDER)) -> list[Segment]:
    """All segments in a folder, the largest first.

    Raises:
        OSError: The folder cannot be listed.
    """
    found = [
        _seen(path, *match.groups()) for path in folder.iterdir() if (match := NAME.fullmatch(path.name))
    ]
    return sorted(filter(None, found), key=lambda one: (-one.memory_bytes, one.name))


def find(name: str, folder: Path = Path(SHM_FOLDER)) -> Segment:
    """This user's segment of this name.

    Raises:
        FileNotFoundError: There is none.
        ValueError: No cache can have this name.
    """
    found = _seen(folder / object_name_of(name).lstrip("/"), str(os.geteuid()), name)
    if found is None:
        raise FileNotFoundError(f"there is no cache {name!r}; `seneca ls` lists those that are there")
    return found


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
    """
    if in_use:
        segment.path.unlink(missing_ok=True)
        return True
    try:
        fd = os.open(segment.path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return True
    except OSError as error:
        raise SegmentError(f"{segment.path}: {error.strerror}") from None
    return discard(fd, f"/{segment.path.name}")


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
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        return unreadable(error.strerror or str(error))
    try:
        state = State.IN_USE if anyone_alive(fd) else State.DEAD if left_behind(fd) else None
        seen = look(fd)
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
        samples=seen["samples"],
        keep_s=None if seen["keep"] == KEEP_FOREVER else seen["keep"],
        left_at=seen["left_at"] or None,
        payload_bytes=seen["payload_bytes"],
        free_bytes=seen["free_bytes"],
        bytes=seen["bytes"],
        budget_bytes=seen["budget_bytes"],
        payloads=seen["payloads"],
        split=split_text(seen["split"]),
        split_changes=[
            {"split": split_text(split), "why": why, "when": when} for when, split, why in seen["changes"]
        ],
        jobs=list(_jobs_of(seen["rows"])),
        torn=seen["torn"],
    )


def _jobs_of(rows: list[tuple[int, int, bool, bool, int]]) -> Iterator[JobSeen]:
    living = [row for row in rows if row[3]]
    for key in dict.fromkeys(row[0] for row in living):
        own = [row for row in living if row[0] == key]
        paces = [pace for *_, pace in own if pace]
        yield JobSeen(
            key=f"{key:016x}",
            pids=tuple(sorted({pid for _, pid, is_iterator, *_ in own if not is_iterator})),
            iterators=sum(is_iterator for _, _, is_iterator, *_ in own),
            pace=max(paces) if paces and max(paces) < ANY_PACE else None,
        )
