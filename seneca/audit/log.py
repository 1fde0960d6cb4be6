"""The format of audit logs: what each member delivered, for ``seneca verify``.

With ``SENECA_AUDIT=DIR``, each member (an iterator's epoch) writes one file in that folder. It only appends
to the file::

    magic | HEAD, who and what as JSON | GAVE, a batch | GAVE | FAIL, one that failed | ... | DONE

SKIP holds samples that cannot be prepared. DIFF holds samples that a job was served, made again, and found to
differ. DONE holds one number: how many samples of the epoch came out of turn, because of what other jobs had
or needed.

A frame is a tag, the number of records, and the records. Each frame is appended as a whole. Therefore a
killed process leaves at most half a frame, at the end.

The frame of a batch holds one :data:`RECORD` for each sample: its index, the form that it was served from,
and its copy. A copy is named by a slot of the segment and the slot's generation. A sample that no other job
can get has no copy. With form AUGMENTED, another job made the copy; with any other form, it was made here.
With form :data:`FORM_FROM_HOST` it was written here, as another host has made it.

One process may deliver what another makes. If torch's workers make items, the loader's process writes what it
delivered, with form :data:`FORM_UNKNOWN`. Each worker writes what it served, in files of kind ``served``;
these name the copies. In torch's own loader, a batch that is drawn counts as delivered.
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

from seneca._runtime.regular_files import above_standard
from seneca._runtime.warn import warn

__all__ = [
    "FORM_FROM_HOST",
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

VERSION = 4  # 1 had no DIFF; in 2 DONE did not count samples out of turn; 3 had no ``exact``
MAGIC = b"SENECA-AUDIT %3d\n"
MAGIC_BYTES = len(MAGIC % VERSION)
SUFFIX = ".audit"
REMEDY = "; move it away to have the others checked"
APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
FRAME = struct.Struct("<4sI")  # tag, number of records (of bytes for HEAD)
HEAD, GAVE, FAILED, SKIPPED, DIFFERED, DONE = b"HEAD", b"GAVE", b"FAIL", b"SKIP", b"DIFF", b"DONE"

RECORD = np.dtype([("index", "<u4"), ("slot", "<u4"), ("generation", "<u4"), ("form", "u1")])
"""A sample as it was delivered: 13 bytes, packed."""
INDEX = np.dtype("<u4")
SIZES = {
    **{HEAD: 1, GAVE: RECORD.itemsize},
    **{tag: INDEX.itemsize for tag in (FAILED, SKIPPED, DIFFERED, DONE)},
}

NO_SLOT = 2**32 - 1  # the native core's NONE: the sample is no copy that others may get
FORM_FROM_HOST = 254
FORM_UNKNOWN = 255  # a worker's file has the form

_numbers = itertools.count()
_turns: weakref.WeakKeyDictionary[Any, tuple[int, int]] = weakref.WeakKeyDictionary()


class BadLog(ValueError):
    """A file is no audit log, or one that this version does not read; the message names the file."""


@dataclass(frozen=True)
class Header:
    """The first part of a file: whose deliveries it holds, and what they should be.

    A log of kind ``served`` has none of the values from ``loader`` to ``resumed``.

    Attributes:
        kind: ``delivered``, or ``served`` in the log of a worker process, whose batches another process
            delivers.
        job: The key of the training run, in hexadecimal digits.
        dataset: The fingerprint of the samples, in hexadecimal digits; empty: it is not known.
        samples: The length of the loader's dataset. All indices are below it.
        part: What :func:`part_name` returns. If ``dataset`` and ``part`` are equal, equal indices are the
            same sample.
        loader: The number of the loader. Each process of the job counts its loaders.
        turn: The number of the loader's epoch in this process. Each process counts.
        epoch: The number that the loader gives the epoch.
        count: How many samples this member should deliver; None: the user's order decides.
        batch_size: Samples of a batch; None: the user's batches decide.
        drop_last: Whether a batch that cannot be filled is left out.
        shuffled: Whether the order should be random.
        rank, ranks: The rank of this process, and the number of ranks that divide the epoch.
        padded: Whether ranks repeat samples so that all have equally many; else they leave some out.
        in_order: Whether batches come in the order in which they were drawn.
        exact: A name of the order and of what the samples are, if the seed alone decides both
            (``share="exact"``). Whole epochs of one name deliver the same. Empty: nothing is promised.
        resumed: What all ranks delivered of this epoch before: a dict for each log. ``log`` names the log;
            None: none was written. ``batches`` is the number of its batches, failed ones included.
        of: In a log of kind ``served``: the log of the epoch that drew the batches; None: nobody drew them.
        segment, attached: What ``Segment.attachments()`` returns. ``segment`` is None if nothing is shared.
        log: The name of this log.
        pid, began: The process, and when the log was begun, in seconds since 1970.
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
    exact: str = ""
    resumed: Sequence[dict[str, Any]] = ()
    of: str | None = None
    segment: int | None = None
    attached: Sequence[int] = ()
    log: str = field(default_factory=lambda: secrets.token_hex(8))
    pid: int = field(default_factory=os.getpid)
    began: float = field(default_factory=time.time)


def audit_folder() -> Path | None:
    """The folder to write logs to; None: no audit is wanted."""
    folder = os.environ.get("SENECA_AUDIT")
    return Path(folder) if folder else None


def _is_strict() -> bool:
    """Whether a job is to end if it cannot write all of its logs."""
    return os.environ.get("SENECA_AUDIT_STRICT", "0") not in ("", "0")


def part_name(own: np.ndarray | None) -> str:
    """A digest of which samples a loader goes over; empty: all of the dataset's.

    Args:
        own: The sample of each of its indices; None: the sample is the index.
    """
    return "" if own is None else hashlib.blake2b(own.astype("<u4").tobytes(), digest_size=8).hexdigest()


def next_turn(loader: Any) -> tuple[int, int]:
    """The number of this loader in its process, and the number of its epoch that begins now."""
    number, turn = _turns.get(loader) or (next(_numbers), 0)
    _turns[loader] = number, turn + 1
    return number, turn


class _Audit:
    """How the audit of this process stands.

    Attributes:
        has_begun: Whether a log was made.
        has_ended: Whether a log could not be written.
    """

    has_begun = has_ended = False


class Log:
    """A file that one member appends to.

    Args:
        folder: The folder to write to. It is made if it is missing. Only this user may read the log.
        header: The header of the log.

    Raises:
        OSError: The first log of this process cannot be made; the message says what to do. Training has not
            begun. All that fails later ends the audit of this process, with one warning, and no job. With
            ``SENECA_AUDIT_STRICT=1`` it is an error, too, here and in all other methods but ``close``.
    """

    def __init__(self, folder: Path, header: Header) -> None:
        self._name = header.log
        self._path = folder / f"{header.job}-{header.pid}-{header.log}{SUFFIX}"
        self._fd = -1
        self._failed = _Audit.has_ended
        self._error: OSError | None = None  # of a strict audit
        if self._failed:
            return
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._fd = above_standard(os.open(self._path, APPEND, 0o600))
        except OSError as error:
            if _is_strict() or not _Audit.has_begun:
                raise self._explained(error) from None
            self._end_audit(error)
            return
        _Audit.has_begun = True
        text = json.dumps(dataclasses.asdict(header)).encode()
        self._append(MAGIC % VERSION + FRAME.pack(HEAD, len(text)) + text)

    @property
    def id(self) -> str | None:
        """The log's name, which the header of a resumed epoch lists; None: not all of it could be written."""
        return None if self._failed else self._name

    def gave(self, indices: Any, copies: np.ndarray | None = None) -> None:
        """Write a batch, in its order.

        Args:
            indices: The indices of its samples.
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
        """Write a batch for which the user got an error."""
        self._append_indices(FAILED, indices)

    def skipped(self, indices: Any) -> None:
        """Write samples that cannot be prepared, and whose places other samples take."""
        self._append_indices(SKIPPED, indices)

    def differed(self, indices: Any) -> None:
        """Write samples that were served, made again, and found to differ."""
        self._append_indices(DIFFERED, indices)

    def done(self, out_of_turn: int = 0) -> None:
        """Write that the epoch is over, and close. For an epoch that is left half-way call only ``close``."""
        self._append_indices(DONE, [out_of_turn])
        self.close()

    def close(self) -> None:
        """Close the file as it is."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _append_indices(self, tag: bytes, indices: Any) -> None:
        indices = np.asarray(indices, INDEX)
        self._append(FRAME.pack(tag, len(indices)) + indices.tobytes())

    def _append(self, data: bytes) -> None:
        if self._error is not None:
            raise self._error
        if self._fd < 0:
            return
        try:
            while data:
                data = data[os.write(self._fd, data) :]
        except OSError as error:
            self._end_audit(error)

    def _end_audit(self, error: OSError) -> None:
        """Write no more in this process. What is written stays readable, as that of a killed process."""
        explained = self._explained(error)
        self.close()
        self._failed = True
        if _is_strict():
            self._error = explained
            raise explained from None
        if not _Audit.has_ended:
            _Audit.has_ended = True
            warn(
                f"{explained}. This process writes no more audit logs, and seneca verify misses what it does"
            )

    def _explained(self, error: OSError) -> OSError:
        folder = self._path.parent
        remedy = "name a folder that can be written and has room, or unset it"
        what = f"SENECA_AUDIT={folder}: {error.strerror}; {remedy}"
        return type(error)(error.errno, what, str(self._path if self._fd >= 0 else folder))

    def __del__(self) -> None:
        self.close()


@dataclass(frozen=True)
class Content:
    """The content of a file.

    Attributes:
        records: The :data:`RECORD` of each sample, of all batches in their order.
        sizes: The number of samples of each batch.
        failures: The indices of each batch that was an error.
        skipped, skipped_sizes: Indices that cannot be prepared, and how many of them each frame holds.
        differed: Indices that differed when they were made again.
        out_of_turn: How many samples of the epoch came out of turn; None: the log does not say that the epoch
            was over.
        torn_bytes: The bytes of an incomplete frame at the end.
        tags: The tags of all frames, in their order.
    """

    records: np.ndarray
    sizes: np.ndarray
    failures: list[np.ndarray]
    skipped: np.ndarray
    skipped_sizes: np.ndarray
    differed: np.ndarray
    out_of_turn: int | None
    torn_bytes: int
    tags: list[bytes]

    def first(self, batches: int) -> Content:
        """The content as it was after so many batches, failed ones included."""
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
    def done(self) -> bool:
        """Whether the epoch was over."""
        return self.out_of_turn is not None

    @property
    def batches(self) -> int:
        """The number of batches, failed ones included."""
        return len(self.sizes) + len(self.failures)


def read_header(path: Path) -> Header | None:
    """Read the header of a log; None: its writer was killed before it had written all of it.

    Raises:
        BadLog: The file is no log, is damaged, or is of another version.
    """
    with open(path, "rb") as file:
        magic = file.read(MAGIC_BYTES)
        _check_magic(path, magic)
        frame = file.read(FRAME.size)
        if len(magic) < MAGIC_BYTES or len(frame) < FRAME.size:
            return None
        tag, size = FRAME.unpack(frame)
        if tag != HEAD:
            raise BadLog(f"{path} is damaged: it does not begin with its header{REMEDY}")
        text = file.read(size)
    if len(text) < size:
        return None
    try:
        return Header(**json.loads(text))
    except (ValueError, TypeError) as error:
        raise BadLog(f"{path} is damaged: its header cannot be read ({error}){REMEDY}") from None


def read(path: Path) -> Content:
    """Read all of a log.

    Raises:
        BadLog: The file is no log, is of another version, or is damaged elsewhere than at its end.
    """
    data = memoryview(path.read_bytes())
    _check_magic(path, bytes(data[:MAGIC_BYTES]))
    parts: dict[bytes, list[memoryview]] = {tag: [] for tag in SIZES}
    tags = []
    at = MAGIC_BYTES
    while at + FRAME.size <= len(data):
        tag, count = FRAME.unpack_from(data, at)
        if tag not in SIZES:
            raise BadLog(f"{path} is damaged: there is no record at byte {at}{REMEDY}")
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
        out_of_turn=int(np.frombuffer(parts[DONE][0], INDEX)[0]) if parts[DONE] else None,
        torn_bytes=max(0, len(data) - at) if len(data) >= MAGIC_BYTES else len(data),
        tags=tags,
    )


def _check_magic(path: Path, found: bytes) -> None:
    ours = MAGIC % VERSION
    if found == ours[: len(found)]:
        return
    if found[: MAGIC.index(b"%")] == MAGIC[: MAGIC.index(b"%")] and len(found) == len(ours):
        version = found[MAGIC.index(b"%") :].decode(errors="replace").strip()
        raise BadLog(f"{path} is of version {version}, and this Seneca reads version {VERSION}{REMEDY}")
    raise BadLog(f"{path} is no audit log of Seneca's{REMEDY}")
