"""What each member delivered, written down for ``seneca verify``: with ``SENECA_AUDIT=DIR``.

One file a member (an iterator's epoch) in that folder, which is only ever appended to::

    magic | HEAD, who and what as JSON | GAVE, a batch | GAVE | FAIL, one that failed | ... | DONE

SKIP holds samples that cannot be prepared; DIFF those that a job was served, made again, and found to be
others.

A frame is a tag, how many records follow, and these; each is appended as it is, so a process that is
killed leaves at most half a frame at the end. Frames of a batch hold a :data:`RECORD` a sample: its
index, the form that it was served from, and the copy that it is. A copy is a slot of a segment and the
slot's generation; samples that no other job can have have none. Form AUGMENTED is a copy that another
job made; any other was made here.

Who delivers and who makes may be two. Where torch's workers make items, the loader's process writes what
it delivered, with form :data:`FORM_UNKNOWN`, and each worker what it served, in files of kind ``served``: the
copies are in these. In a loader of torch's own, drawn counts as delivered.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import os
import secrets
import struct
import time
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

__all__ = [
    "FORM_UNKNOWN",
    "NO_SLOT",
    "RECORD",
    "SUFFIX",
    "BadLog",
    "Content",
    "Header",
    "Log",
    "audit_folder",
    "next_turn",
    "part_name",
    "read",
    "read_header",
]

VERSION = 2  # 1 had no samples that differed
MAGIC = b"SENECA-AUDIT %3d\n"
MAGIC_BYTES = len(MAGIC % VERSION)
SUFFIX = ".audit"
APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
FRAME = struct.Struct("<4sI")  # tag, number of records; of bytes for HEAD
HEAD, GAVE, FAILED, SKIPPED, DIFFERED, DONE = b"HEAD", b"GAVE", b"FAIL", b"SKIP", b"DIFF", b"DONE"

RECORD = np.dtype([("index", "<u4"), ("slot", "<u4"), ("generation", "<u4"), ("form", "u1")])
"""A sample, as it was delivered: packed, 13 bytes."""
INDEX = np.dtype("<u4")
SIZES = {
    **{HEAD: 1, GAVE: RECORD.itemsize, DONE: 0},
    **{tag: INDEX.itemsize for tag in (FAILED, SKIPPED, DIFFERED)},
}

NO_SLOT = 2**32 - 1  # as the native core's NONE: the sample is no copy that others may have
FORM_UNKNOWN = 255  # a worker's file tells

_numbers = itertools.count()
_turns: weakref.WeakKeyDictionary[Any, tuple[int, int]] = weakref.WeakKeyDictionary()


class BadLog(ValueError):
    """A file is no audit log, or one that this version does not read; the message names it."""


@dataclass(frozen=True)
class Header:
    """Whose deliveries a file holds, and what they should be.

    Attributes:
        kind: ``delivered``, or ``served``: by a worker process, whose batches another delivers.
        job: The training run, in hexadecimal digits.
        dataset: What its samples are, likewise; empty where that is not known.
        samples: Of the loader's dataset: indices are below.
        part: As :func:`part_name`: where it is the same too, so is the sample of an index.
        loader: Which of the job's loaders, counted in each of its processes.
        turn: Which of this loader's epochs, counted likewise.
        epoch: As the loader numbers it.
        count: How many this member would deliver; None: the order is the user's, and so is the number.
        batch_size: None: batches are the user's.
        drop_last: Whether a batch that cannot be filled is left out.
        shuffled: Whether the order is to be random.
        rank, ranks: Of the processes of a job that share out an epoch.
        padded: Whether ranks repeat samples so that all get equally many; else they leave some out.
        in_order: Whether batches come in the order in which they were drawn.
        resumed: All that went before this in the same epoch, of all ranks: each log (``log``; None where none
            was written) and how many of its batches (``batches``), those counted that failed.
        of: In ``served``, which has none of the above from ``loader`` on: the log of who drew the batches;
            None: nobody did.
        segment, attached: As ``Segment.attachments()``; None: nothing is shared.
        log: Names this file.
        pid, began: For people: the process, and seconds since 1970.
    """

    kind: Literal["delivered", "served"]
    job: str
    dataset: str
    samples: int
    part: str = ""
    loader: int = 0
    turn: int = 0
    epoch: int = 0
    count: int | None = None
    batch_size: int | None = None
    drop_last: bool = False
    shuffled: bool = False
    rank: int = 0
    ranks: int = 1
    padded: bool = False
    in_order: bool = True
    resumed: Sequence[dict[str, Any]] = ()
    of: str | None = None
    segment: int | None = None
    attached: Sequence[int] = ()
    log: str = field(default_factory=lambda: secrets.token_hex(8))
    pid: int = field(default_factory=os.getpid)
    began: float = field(default_factory=time.time)


def audit_folder() -> Path | None:
    """Where to write; None: nobody wants it."""
    folder = os.environ.get("SENECA_AUDIT")
    return Path(folder) if folder else None


def part_name(own: np.ndarray | None) -> str:
    """Names which samples a loader goes over.

    Args:
        own: The sample of each of its indices; None: it is the index.
    """
    return "" if own is None else hashlib.blake2b(own.astype("<u4").tobytes(), digest_size=8).hexdigest()


def next_turn(loader: Any) -> tuple[int, int]:
    """Which of this process's loaders it is, and which of its epochs begins now."""
    number, turn = _turns.get(loader) or (next(_numbers), 0)
    _turns[loader] = number, turn + 1
    return number, turn


class Log:
    """A file that one member appends to.

    Attributes:
        id: Names it; the header of an epoch that goes on tells it.

    Args:
        folder: Made where it is missing.
        header: Whose it is.

    Raises:
        OSError: The folder or the file cannot be made or written; the message says which, and what to do.
    """

    def __init__(self, folder: Path, header: Header) -> None:
        self.id = header.log
        self._path = folder / f"{header.job}-{header.pid}-{header.log}{SUFFIX}"
        self._fd = -1
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(self._path, APPEND, 0o644)
        except OSError as error:
            raise self._explained(error) from None
        text = json.dumps(dataclasses.asdict(header)).encode()
        self._append(MAGIC % VERSION + FRAME.pack(HEAD, len(text)) + text)

    def gave(self, indices: Any, copies: np.ndarray | None = None) -> None:
        """A batch, in its order.

        Args:
            indices: Of its samples.
            copies: uint32 ``(len(indices), 3)``: slot, generation and form of each; None: not known here.
        """
        records = np.empty(len(indices), RECORD)
        records["index"] = indices
        if copies is None:
            records["slot"], records["generation"], records["form"] = NO_SLOT, 0, FORM_UNKNOWN
        else:
            records["slot"], records["generation"], records["form"] = copies.T
        self._append(FRAME.pack(GAVE, len(records)) + records.tobytes())

    def failed(self, indices: Any) -> None:
        """A batch that was an error in its place, which the user has been given."""
        self._append_indices(FAILED, indices)

    def skipped(self, indices: Any) -> None:
        """Samples that cannot be prepared, whose places others take."""
        self._append_indices(SKIPPED, indices)

    def differed(self, indices: Any) -> None:
        """Samples that were served, made again, and found to be others."""
        self._append_indices(DIFFERED, indices)

    def done(self) -> None:
        """The epoch is over; nothing follows. One that is left half-way is only closed."""
        self._append(FRAME.pack(DONE, 0))
        self.close()

    def close(self) -> None:
        """As far as it came."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _append_indices(self, tag: bytes, indices: Any) -> None:
        indices = np.asarray(indices, INDEX)
        self._append(FRAME.pack(tag, len(indices)) + indices.tobytes())

    def _append(self, data: bytes) -> None:
        if self._fd < 0:
            return
        try:
            while data:
                data = data[os.write(self._fd, data) :]
        except OSError as error:
            raise self._explained(error) from None

    def _explained(self, error: OSError) -> OSError:
        folder = self._path.parent
        remedy = "name a folder that can be written and has room, or unset it"
        what = f"SENECA_AUDIT={folder}: {error.strerror}; {remedy}"
        return type(error)(error.errno, what, str(self._path if self._fd >= 0 else folder))

    def __del__(self) -> None:
        self.close()


@dataclass(frozen=True)
class Content:
    """What a file holds.

    Attributes:
        records: :data:`RECORD`, of all batches in their order.
        sizes: Of each batch.
        failures: Indices of each batch that was an error.
        skipped, skipped_sizes: Indices that cannot be prepared; and how many at a time.
        differed: Indices that were served as something else than they are.
        done: Whether the epoch was over.
        torn_bytes: At the end, of a frame that is not whole.
        tags: Of all frames, in their order.
    """

    records: np.ndarray
    sizes: np.ndarray
    failures: list[np.ndarray]
    skipped: np.ndarray
    skipped_sizes: np.ndarray
    differed: np.ndarray
    done: bool
    torn_bytes: int
    tags: list[bytes]

    def first(self, batches: int) -> Content:
        """As it was when the member was through with so many batches, those counted that failed."""
        gave, failed, skipped = 0, 0, 0
        for tag in self.tags:
            if gave + failed == batches:
                break
            gave += tag == GAVE
            failed += tag == FAILED
            skipped += tag == SKIPPED
        sizes, each = self.sizes[:gave], self.skipped_sizes[:skipped]
        return dataclasses.replace(
            self,
            records=self.records[: int(sizes.sum())],
            sizes=sizes,
            failures=self.failures[:failed],
            skipped=self.skipped[: int(each.sum())],
            skipped_sizes=each,
        )

    @property
    def batches(self) -> int:
        """How many the member is through with, those counted that failed."""
        return len(self.sizes) + len(self.failures)


def read_header(path: Path) -> Header | None:
    """Of a log; None: its writer was killed before it was there.

    Raises:
        BadLog: It is no log, or one of another version.
    """
    with open(path, "rb") as file:
        magic = file.read(MAGIC_BYTES)
        _check_magic(path, magic)
        frame = file.read(FRAME.size)
        if len(magic) < MAGIC_BYTES or len(frame) < FRAME.size:
            return None
        tag, size = FRAME.unpack(frame)
        if tag != HEAD:
            raise BadLog(f"{path} is damaged: it does not begin with its header")
        text = file.read(size)
    if len(text) < size:
        return None
    try:
        return Header(**json.loads(text))
    except (ValueError, TypeError) as error:
        raise BadLog(f"{path} is damaged: its header cannot be read ({error})") from None


def read(path: Path) -> Content:
    """All of a log.

    Raises:
        BadLog: It is damaged elsewhere than at its end.
    """
    data = memoryview(path.read_bytes())
    _check_magic(path, bytes(data[:MAGIC_BYTES]))
    parts: dict[bytes, list[memoryview]] = {tag: [] for tag in SIZES}
    tags = []
    at = MAGIC_BYTES
    while at + FRAME.size <= len(data):
        tag, count = FRAME.unpack_from(data, at)
        if tag not in SIZES:
            raise BadLog(f"{path} is damaged: there is no record at byte {at}")
        end = at + FRAME.size + count * SIZES[tag]
        if end > len(data):
            break
        parts[tag].append(data[at + FRAME.size : end])
        tags.append(tag)
        at = end
    return Content(
        records=np.frombuffer(b"".join(parts[GAVE]), RECORD),
        sizes=np.array([len(part) // RECORD.itemsize for part in parts[GAVE]], np.int64),
        failures=[np.frombuffer(part, INDEX) for part in parts[FAILED]],
        skipped=np.frombuffer(b"".join(parts[SKIPPED]), INDEX),
        skipped_sizes=np.array([len(part) // INDEX.itemsize for part in parts[SKIPPED]], np.int64),
        differed=np.frombuffer(b"".join(parts[DIFFERED]), INDEX),
        done=bool(parts[DONE]),
        torn_bytes=max(0, len(data) - at) if len(data) >= MAGIC_BYTES else len(data),
        tags=tags,
    )


def _check_magic(path: Path, found: bytes) -> None:
    ours = MAGIC % VERSION
    if found == ours[: len(found)]:
        return
    if found[: MAGIC.index(b"%")] == MAGIC[: MAGIC.index(b"%")] and len(found) == len(ours):
        version = found[MAGIC.index(b"%") :].decode(errors="replace").strip()
        raise BadLog(f"{path} is of version {version}, and this Seneca reads version {VERSION}")
    raise BadLog(f"{path} is no audit log of Seneca's")
