"""Batches ahead of the training loop: drawn, submitted, completed, in order.

Data enters as a stream of the native core; batches leave as arrays that are complete, each sample
in its place. Knows neither torch nor labels.
"""

from __future__ import annotations

import collections
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from seneca._core.pool import Batch, Stream
from seneca.errors import DecodeError
from seneca.forms import Form

__all__ = ["Counts", "Prefetcher", "Ready"]

LOOK_UP_MS = 100  # how long a wait in the native core may keep a Ctrl-C waiting


@dataclass
class Counts:
    """What an iterator, or all of a loader's, did so far."""

    served: dict[str, int] = field(default_factory=lambda: {form.name.lower(): 0 for form in Form})
    prepared: int = 0
    staged: int = 0
    delivered: int = 0
    skipped: int = 0
    read_bytes: int = 0
    stall_s: float = 0.0

    def add(self, done: dict[str, Any]) -> None:
        """Count what a finished batch took."""
        for name, count in zip(self.served, done["served"], strict=True):
            self.served[name] += count
        self.prepared += done["prepared"]
        self.staged += done["staged"]
        self.read_bytes += done["read_bytes"]


class Ready(NamedTuple):
    """A batch that is complete: ``out[:len(indices)]`` holds the samples ``indices``."""

    indices: np.ndarray
    out: Any


class Prefetcher:
    """Keeps ``ahead`` batches under way and hands them out in order.

    Args:
        stream: What draws and prepares; closed by whoever made it.
        batches: How many batches the epoch has.
        batch_size: Samples of each but perhaps the last.
        ahead: Batches drawn beyond the one that is waited for.
        room: Makes somewhere to put ``n`` samples: an object with an ``array`` to write into.
        decode: Decodes a file that is no JPEG, by index, to uint8 (height, width, 3).
        path_of: Names a sample in errors.
        skip: Whether a bad sample gives its place to another instead of raising.
        counts: Where to count.
    """

    def __init__(
        self,
        stream: Stream,
        *,
        batches: int,
        batch_size: int,
        ahead: int,
        room: Callable[[int], Any],
        decode: Callable[[int], np.ndarray],
        path_of: Callable[[int], str],
        skip: bool,
        counts: Counts,
    ) -> None:
        self._stream = stream
        self._left = batches
        self._batch_size = batch_size
        self._ahead = ahead
        self._room = room
        self._decode = decode
        self._path_of = path_of
        self._skip = skip
        self._counts = counts
        self._under_way: collections.deque[tuple[Batch, Any]] = collections.deque()

    def __iter__(self) -> Iterator[Ready]:
        return self

    def __next__(self) -> Ready:
        self._draw(self._ahead + 1)
        if not self._under_way:
            self._stream.flush()
            raise StopIteration
        batch, room = self._under_way[0]
        began = time.perf_counter()
        try:
            failures = self._complete(batch)
        finally:
            self._counts.stall_s += time.perf_counter() - began
        self._under_way.popleft()  # not before: a Ctrl-C in the wait must not lose the batch
        indices = batch.indices
        self._counts.add(batch.done())
        if failures:
            if not self._skip:
                raise failures[0][1]
            indices = self._replace(indices, room, failures)
        self._draw(self._ahead)  # the next ones are prepared while this one is trained on
        self._counts.delivered += len(indices)
        return Ready(indices, room)

    def _draw(self, until: int) -> None:
        """Have ``until`` batches under way, as far as the epoch goes."""
        while self._left and len(self._under_way) < until:
            batch = self._stream.draw(self._batch_size)
            if batch is None:
                self._left = 0
                return
            room = self._room(len(batch))
            batch.submit(room.array)
            self._under_way.append((batch, room))
            self._left -= 1

    def _complete(self, batch: Batch) -> list[tuple[int, Exception]]:
        """Wait for a batch; what could not be prepared, with positions and the files named."""
        while not batch.wait(LOOK_UP_MS):
            pass  # between two waits the interpreter delivers signals
        failures: list[tuple[int, Exception]] = []
        for position in batch.unfinished():
            try:
                batch.finish(position, self._decode(int(batch.indices[position])))
            except (DecodeError, OSError) as error:
                batch.abandon(position)
                failures.append((position, error))
        failed = {position for position, _ in failures}
        failures += [(position, error) for position, error in batch.failures() if position not in failed]
        for position, failure in failures:
            path = self._path_of(int(batch.indices[position]))
            if isinstance(failure, DecodeError):
                failure.path = failure.path or path
            elif isinstance(failure, OSError):
                failure.filename = failure.filename or path
        return sorted(failures, key=lambda failure: failure[0])

    def _replace(self, indices: np.ndarray, room: Any, failures: list[tuple[int, Exception]]) -> np.ndarray:
        """Give the places of bad samples to the next ones of the epoch; fewer where it has no more."""
        missing = [position for position, _ in failures]
        if self._counts.skipped == 0:
            warnings.warn(f"seneca: skipped a sample that cannot be read: {failures[0][1]}", stacklevel=4)
        while missing:
            self._counts.skipped += len(failures)
            batch = self._stream.draw(len(missing))
            if batch is None:
                break
            spare = np.empty((len(batch), *room.array.shape[1:]), room.array.dtype)
            batch.submit(spare)
            failures = self._complete(batch)
            bad = {position for position, _ in failures}
            for position, index in enumerate(batch.indices):
                if position not in bad:
                    place = missing.pop()
                    room.array[place] = spare[position]
                    indices[place] = index
            self._counts.add(batch.done())
            if not bad:
                failures = []
        else:
            return indices
        # The epoch has no more samples: close the gaps.
        self._left = 0
        kept = np.setdiff1d(np.arange(len(indices)), missing)
        room.array[: len(kept)] = room.array[kept]
        return indices[kept]
