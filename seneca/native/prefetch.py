"""Batches ahead of the training loop: drawn, submitted and completed, in order.

A stream of the native core makes the batches. They leave as complete arrays, each sample in its place. This
module knows neither torch nor labels.
"""

from __future__ import annotations

import collections
import operator
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from seneca._core.pool import Batch, Stream
from seneca._core.undecoded import abandon, distrust, encoded, finish, finish_sound, undecoded
from seneca._runtime.warn import warn
from seneca.errors import DecodeError
from seneca.forms import UNRECODED, Form
from seneca.transforms._apply import Opened

__all__ = ["Counts", "Prefetcher", "Ready", "UnderWay"]

LONGEST_WAIT_MS = 100  # the longest wait in the native core, for which a Ctrl-C has to wait


@dataclass
class Counts:
    """Counters of the native iterators of a loader."""

    served: dict[str, int] = field(default_factory=lambda: {form.name.lower(): 0 for form in Form})
    prepared: int = 0
    staged: int = 0
    delivered: int = 0
    skipped: int = 0
    repeated: int = 0
    early: int = 0
    damaged: int = 0
    checked: int = 0
    different: int = 0
    in_vain: int = 0
    copies_from_servers: int = 0
    read_bytes: int = 0
    stall_s: float = 0.0
    peer_wait_s: float = 0.0
    longest_peer_wait_s: float = 0.0
    # What the native threads did, for the split's controller: see seneca.partition.Spent.
    times: tuple[int, ...] = (0,) * 6
    spent_s: tuple[float, ...] = (0.0,) * 6
    unrecoded: tuple[int, ...] = (0,) * len(UNRECODED)
    blocked_s: float = 0.0
    decoded_bytes: int = 0
    from_servers: int = 0
    from_servers_s: float = 0.0

    def of_unrecoded(self) -> dict[str, int]:
        """How many files could not be kept RECODED, by the cause."""
        return dict(zip(UNRECODED, self.unrecoded, strict=True))

    def add(self, done: dict[str, Any]) -> None:
        """Count what a finished batch took."""
        for form in Form:
            self.served[form.name.lower()] += done["served"][form]
        self.prepared += done["prepared"]
        self.staged += done["staged"]
        self.checked += done["checked"]
        self.different += done["different"]
        self.damaged += done["damaged"]
        self.in_vain += done["in_vain"]
        self.copies_from_servers += done["copies_from_servers"]
        self.peer_wait_s += done["peer_wait_s"]
        self.longest_peer_wait_s = max(self.longest_peer_wait_s, done["peer_wait_s"])
        self.read_bytes += done["read_bytes"]
        self.decoded_bytes += done["decoded_bytes"]
        self.times = tuple(map(operator.add, self.times, done["times"]))
        self.spent_s = tuple(map(operator.add, self.spent_s, done["spent_s"]))
        self.unrecoded = tuple(map(operator.add, self.unrecoded, done["unrecoded"]))
        self.blocked_s += done["blocked_s"]
        self.from_servers += done["from_servers"]
        self.from_servers_s += done["from_servers_s"]


class Ready(NamedTuple):
    """A batch that is complete: ``out[:len(indices)]`` holds the samples ``indices``."""

    indices: np.ndarray
    out: Any


class UnderWay:
    """A batch that is being prepared, or is complete."""

    def __init__(self, batch: Batch | None, buffer: Any, size: int) -> None:
        self.batch = batch  # None: the epoch has no more samples, so all of this batch are repeated ones
        self.buffer = buffer
        self.size = size
        self.indices: np.ndarray | None = None  # its good samples, once it is complete
        self.failed: dict[int, Exception] = {}  # errors by position, while it is completed
        self.failures: list[Exception] = []


class Prefetcher:
    """Keeps ``ahead`` batches under way and hands them out in order.

    Args:
        stream: Draws and prepares batches. Its maker closes it.
        batches: How many batches the epoch has.
        batch_size: Samples of each batch, except perhaps the last.
        ahead: Batches under way beyond the one that is waited for.
        buffers: Makes memory for ``n`` samples: an object with ``arrays`` to write into.
        decode: Decodes a file that the native core leaves to Pillow, to uint8 (height, width, 3); of a pair
            to that and its mask; of a sound to an ``Opened``. It gets the file's index and its bytes; None
            instead: it has to read the file.
        path_of: Names a sample in errors. It also gets whether the error is of a pair's mask.
        skip: Whether another sample takes the place of a bad one, instead of an error.
        drop_last: Whether a batch that cannot be filled is left out.
        evenly: With ``skip``: how many samples to deliver however many are bad. If the epoch has no more,
            good ones are delivered again, because all ranks need equally many batches. None: no sample is
            delivered again.
        counts: The counters.
        begun: Batches that are complete already, the epoch's first.

    Attributes:
        gone: Samples that will not come again, delivered or bad, since the iterator last emptied this list.
        different: Served samples that differed when made again, since the iterator last emptied this list.
    """

    def __init__(
        self,
        stream: Stream,
        *,
        batches: int,
        batch_size: int,
        ahead: int,
        buffers: Callable[[int], Any],
        decode: Callable[[int, bytes | None], Any],
        path_of: Callable[[int, bool], str],
        skip: bool,
        drop_last: bool,
        evenly: int | None = None,
        counts: Counts,
        begun: Sequence[UnderWay] = (),
    ) -> None:
        self._stream = stream
        self._left = batches - len(begun)
        self._batch_size = batch_size
        self._ahead = ahead
        self._buffers = buffers
        self._decode = decode
        self._path_of = path_of
        self._skip = skip
        self._drop_last = drop_last
        self._to_fill = evenly if skip else None  # samples of ``evenly`` that are not under way yet
        self._good: tuple[int, _Spare] | None = None  # a delivered sample, which may be repeated
        self._counts = counts
        self.gone: list[np.ndarray] = []
        self.different: list[int] = []
        self._under_way: collections.deque[UnderWay] = collections.deque(begun)
        if self._to_fill is not None:
            self._to_fill -= sum(one.size for one in begun)

    def __iter__(self) -> Iterator[Ready]:
        return self

    @property
    def out_of_turn(self) -> int:
        """How many samples were drawn out of turn, see :meth:`DeliveryRecorder.end`."""
        return self._stream.member.out_of_turn

    @property
    def threads(self) -> tuple[int, ...]:
        """The kernel's numbers of the threads that prepare."""
        return self._stream.thread_numbers() or (threading.get_native_id(),)  # without any, who asks does it

    def limit(self, threads: int) -> None:
        """From now on so many threads prepare."""
        self._stream.limit(threads)

    def __next__(self) -> Ready:
        while True:
            self._draw()
            if not self._under_way:
                self._stream.flush()
                raise StopIteration
            first = self._under_way[0]
            began = time.perf_counter()
            try:
                indices = self._complete(first)
                if self._skip and len(indices) < first.size:
                    indices = self._refill(first)
            finally:
                self._counts.stall_s += time.perf_counter() - began
            self._under_way.popleft()  # not earlier, because a Ctrl-C in the wait must not lose the batch
            nothing_good = self._to_fill is not None and len(indices) == 0
            if first.failures and (nothing_good or not self._skip):
                assert first.batch is not None  # something has failed
                self.gone.append(first.batch.indices)
                raise first.failures[0]
            if len(indices) == 0 or (self._drop_last and len(indices) < self._batch_size):
                continue
            if self._to_fill is not None:
                self._good = int(indices[0]), _copy_of_first(first.buffer)
            self._counts.delivered += len(indices)
            self.gone.append(indices)
            return Ready(indices, first.buffer)

    def _draw(self) -> None:
        """Draw until the next batch and ``ahead`` more are under way, or the epoch has no more.

        While other jobs of the same order are to come near, nothing is drawn ahead.
        """
        while self._left and len(self._under_way) <= self._ahead and self._may_draw():
            samples = self._stream.member.left if self._to_fill is None else self._to_fill
            if samples == 0:
                break
            size = min(self._batch_size, samples)
            buffer = self._buffers(size)
            self._under_way.append(UnderWay(self._stream.draw(*buffer.arrays), buffer, size))
            self._left -= 1
            if self._to_fill is not None:
                self._to_fill -= size

    def _may_draw(self) -> bool:
        """Whether to draw. If nothing is under way, wait until it is."""
        if self._stream.may_draw(0):
            return True
        if self._under_way:
            return False
        began = time.perf_counter()
        try:
            while not self._stream.may_draw(LONGEST_WAIT_MS):
                pass  # between two waits the interpreter delivers signals
        finally:
            self._counts.stall_s += time.perf_counter() - began
        return True

    def _complete(self, entry: UnderWay) -> np.ndarray:
        """Wait for a batch, once, and return its good samples. They move to the front if some are bad."""
        if entry.indices is not None:
            return entry.indices
        batch = entry.batch
        if batch is None:
            entry.indices = np.empty(0, np.uint32)
            return entry.indices
        while not batch.wait(LONGEST_WAIT_MS):
            pass  # between two waits the interpreter delivers signals
        failures = entry.failed  # includes those of an earlier call that a Ctrl-C has ended
        for position in undecoded(batch):
            try:
                decoded = self._decoded(batch, position)
                if isinstance(decoded, Opened):
                    finish_sound(batch, position, *decoded)
                else:
                    finish(batch, position, decoded)
            except Exception as error:  # the place is given up: asked again, the batch comes without it
                abandon(batch, position)
                failures[position] = error
        failures.update(batch.failures())
        for position, failure in failures.items():
            path = self._path_of(int(batch.indices[position]), batch.is_of_mask(position))
            if isinstance(failure, DecodeError):
                failure.path = failure.path or path
            elif isinstance(failure, OSError):
                failure.filename = failure.filename or path
        self.different += batch.different()
        self._counts.add(batch.done())
        entry.failures = [failures[position] for position in sorted(failures)]
        good = np.setdiff1d(np.arange(len(batch)), list(failures))
        if failures:
            _move(entry.buffer, slice(len(good)), entry.buffer, good)
            if self._skip:
                self._note_skipped(entry.failures)
                self.gone.append(batch.indices[sorted(failures)])
        entry.indices = batch.indices[good]
        return entry.indices

    def _decoded(self, batch: Batch, position: int) -> Any:
        """Decode a file that is left to Pillow, from its bytes if they are at hand, else from storage."""
        index = int(batch.indices[position])
        data = encoded(batch, position)
        try:
            return self._decode(index, data)
        except DecodeError:
            if data is None or not distrust(batch, position):
                raise
        return self._decode(index, None)  # the cached payload is damaged, not the file

    def _note_skipped(self, failures: list[Exception]) -> None:
        if self._counts.skipped == 0:
            warn(f"skipped a sample that cannot be read: {failures[0]}")
        self._counts.skipped += len(failures)

    def _refill(self, entry: UnderWay) -> np.ndarray:
        """Give the places of bad samples to the next samples of the epoch.

        If there are no more to draw, the last samples under way move up. Then only the epoch's last batch is
        short. For ranks, good samples are repeated instead, and no batch is short.
        """
        indices = self._complete(entry)
        wanted = entry.size
        while len(indices) < wanted:
            if self._stream.member.left:
                spare = _Spare.like(entry.buffer, wanted - len(indices))
                batch = self._stream.draw(*spare.arrays)
                assert batch is not None
                donor = UnderWay(batch, spare, len(batch))
            elif self._to_fill is not None:
                indices = self._repeat(entry, indices)
                break
            elif len(self._under_way) > 1:
                donor = self._under_way[-1]
            else:
                break
            given = self._complete(donor)
            count = min(len(given), wanted - len(indices))
            rest = len(given) - count
            free = slice(len(indices), len(indices) + count)
            _move(entry.buffer, free, donor.buffer, slice(rest, len(given)))
            indices = np.concatenate([indices, given[rest:]])
            donor.indices = given[:rest]
            if rest == 0 and donor is self._under_way[-1]:
                self._under_way.pop()
        entry.indices = indices
        return indices

    def _repeat(self, entry: UnderWay, indices: np.ndarray) -> np.ndarray:
        """Fill a batch by repeating its good samples ``indices``, or else a good sample of another batch.

        Returns:
            The batch's samples; empty: there is no good sample.
        """
        bad = entry.size - len(indices)
        if len(indices) == 0:
            good = self._any_good()
            if good is None:
                return indices
            indices = np.array([good[0]], np.uint32)
            _move(entry.buffer, slice(1), good[1], slice(1))
        again = np.arange(len(indices), entry.size) % len(indices)
        _move(entry.buffer, slice(len(indices), entry.size), entry.buffer, again)
        self._counts.repeated += bad
        return np.concatenate([indices, indices[again]])

    def _any_good(self) -> tuple[int, Any] | None:
        """A sample that was delivered, or will be; None: there is none."""
        if self._good is not None:
            return self._good
        for other in self._under_way:
            indices = self._complete(other)
            if len(indices):
                return int(indices[0]), other.buffer
        return None


class _Spare(NamedTuple):
    """Memory for samples that move on into a batch."""

    arrays: tuple[np.ndarray, ...]

    @classmethod
    def like(cls, buffer: Any, samples: int) -> _Spare:
        """Memory for so many samples of the kind that ``buffer`` has."""
        return cls(tuple(np.empty((samples, *array.shape[1:]), array.dtype) for array in buffer.arrays))


def _copy_of_first(buffer: Any) -> _Spare:
    """The first sample of a batch, for when its memory has gone on."""
    return _Spare(tuple(array[:1].copy() for array in buffer.arrays))


def _move(to: Any, places: slice, source: Any, from_places: Any) -> None:
    """Copy samples from one batch's memory to another's, with all that belongs to them."""
    for mine, theirs in zip(to.arrays, source.arrays, strict=True):
        mine[places] = theirs[from_places]
