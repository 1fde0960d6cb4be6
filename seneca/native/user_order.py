"""Batches that a sampler of the user's gives: in any order, as often as it likes, without end.

::

    sampler --ask(), when torch would--> UserOrder --draw, a few ahead--> native core --> training loop

The sampler is asked at the moments at which torch's iterator asks it. Each draw of a sample has random
numbers of its own.
"""

from __future__ import annotations

import collections
import functools
import operator
import time
from typing import Any, NamedTuple

import numpy as np

from seneca._core.pool import Stream
from seneca.audit.record import DeliveryRecorder
from seneca.epochs.progress import EpochProgress
from seneca.native.prefetch import Prefetcher, Ready, UnderWay
from seneca.native.session import Inputs

__all__ = ["UserOrder", "UserOrderPrefetcher"]

PLACES_OF_A_BATCH = 24  # bits, where a place of the epoch is a whole batch


class UserBatch(NamedTuple):
    """A batch as the sampler gave it.

    Attributes:
        places: Its places in the epoch.
        sampler_now: The state of its sampler after it, if that keeps one.
        samples: The sample of each index, uint32.
        turns: For each, what distinguishes this draw of the sample from others, uint64.
        error: Why there are no samples: what the sampler gave are no indices of the dataset.
    """

    places: Any
    sampler_now: Any
    samples: np.ndarray
    turns: np.ndarray
    error: Exception | None = None


class UserBatchUnderWay(UnderWay):
    """Such a batch, while it is prepared. ``copies`` are those that serve its samples, for an audit."""

    given: UserBatch
    copies: np.ndarray | None = None


class UserOrder:
    """One epoch of a sampler of the user's, or of a batch sampler.

    Args, Attributes: As :class:`seneca.native.planned_order.PlannedOrder`.
    """

    def __init__(self, loader: Any, inputs: Inputs, progress: EpochProgress, seed: int) -> None:
        self._inputs, self._progress = inputs, progress
        self._count = len(loader.dataset)
        self._is_single = loader.batch_sampler is None
        self.plan, self._batches = loader._begin_batches(progress, inputs.support.identity)
        self.seed = progress.name("seed", lambda: seed)
        self.recorder: DeliveryRecorder | None = None
        self._asked: collections.deque[UserBatch] = collections.deque()
        self._ended = False
        self.batch_size = self.plan.batch_size or 1

    def begin(self, recorder: DeliveryRecorder | None) -> None:
        """Set the recorder of deliveries. The order is already fixed: it was planned with the sampler."""
        self._progress.recorder = self.recorder = recorder

    def draws(self, augmented: int) -> dict[str, Any]:
        """As :meth:`PlannedOrder.draws`: the member has no order, and is given the samples.

        It stages copies for others only if its own order is uniformly random, because others come to the
        copies in the order in which these are made.
        """
        options, pipeline = self._inputs.options, self._inputs.support.pipeline
        assert pipeline is not None
        shares = options.share == "augmented" and not pipeline.deterministic
        no_samples = np.empty(0, np.uint32)
        stages = shares and self.plan.shuffled
        return {"samples": no_samples, "places": 0, "fixed": True, "shares": shares, "substitutes": stages}

    def prefetcher(self, stream: Stream, **options: Any) -> UserOrderPrefetcher:
        """The prefetcher that keeps the batches of ``stream`` under way."""
        return UserOrderPrefetcher(stream, self, **options)

    def ask(self, batches: int) -> None:
        """Ask the sampler for so many more batches, as torch does now."""
        for _ in range(batches):
            if self._ended:
                return
            try:
                one, places = next(self._batches)
            except StopIteration:
                self._ended = True
                return
            draws = self._progress.draws
            sampler_now = None if draws is None else draws.now()
            self._asked.append(self._named(one, places, sampler_now))
            self.batch_size = max(self.batch_size, len(self._asked[-1].samples))

    def next(self) -> UserBatch | None:
        """The next batch that the sampler has given; None: it has ended, or was not asked for more."""
        return self._asked.popleft() if self._asked else None

    def _named(self, one: Any, places: Any, sampler_now: Any) -> UserBatch:
        own = self._inputs.support.own
        try:
            indices = self._indices([one] if self._is_single else list(one))
        except (TypeError, IndexError) as error:
            return UserBatch(places, sampler_now, np.empty(0, np.uint32), np.empty(0, np.uint64), error)
        samples = indices.astype(np.uint32) if own is None else own[indices]
        turns: np.ndarray = np.asarray(places, np.uint64) + np.uint64(1)
        if self.plan.order == "batches":
            turns = (turns << np.uint64(PLACES_OF_A_BATCH)) + np.arange(len(samples), dtype=np.uint64)
        return UserBatch(places, sampler_now, samples, turns)

    def _indices(self, given: list[Any]) -> np.ndarray:
        """The indices that these stand for, int64: a negative one counts from the end, as in a list."""
        for index in given:
            if not hasattr(index, "__index__"):
                raise TypeError(
                    f"the sampler gave {index!r} as an index of {self._count} pictures: give a whole number"
                )
        indices = np.fromiter(map(operator.index, given), np.int64, len(given))
        beyond = (indices < -self._count) | (indices >= self._count)
        if beyond.any():
            raise IndexError(
                f"the sampler gave the index {indices[beyond][0]}, but the dataset has {self._count} pictures"
            )
        return np.where(indices < 0, indices + self._count, indices)

    def place(self, prefetcher: UserOrderPrefetcher) -> int:
        """The place of the batch that is complete and not yet reported, or of its first sample."""
        places = prefetcher.ended[-1][0].given.places
        return int(places[0]) if len(places) else 0

    def report(self, prefetcher: UserOrderPrefetcher, ready: Ready | None, failed: bool) -> None:
        """Report all batches that have ended, up to ``ready``; see :meth:`PlannedOrder.report`."""
        ended, prefetcher.ended = prefetcher.ended, []
        for one, good in ended:
            given, write = one.given, None
            if self.recorder is not None:
                copies = None if one.copies is None else one.copies[good]
                has_failed = failed and one is ended[-1][0]
                write = functools.partial(
                    self.recorder.batch, given.samples, given.samples[good], failed=has_failed, copies=copies
                )
            self._progress.made(given.places, len(good), write, given.sampler_now)


class UserOrderPrefetcher(Prefetcher):
    """Keeps batches of a sampler of the user's under way.

    A bad sample that is skipped is left out: its batch is shorter. What would take its place only the sampler
    knows.

    Args:
        stream: As :class:`Prefetcher`'s.
        source: Where batches come from.
        options: As :class:`Prefetcher`'s: ``ahead`` and what follows.

    Attributes:
        ended: The batches that were completed since the iterator last emptied this list, each with the
            positions of its good samples.
    """

    def __init__(self, stream: Stream, source: UserOrder, **options: Any) -> None:
        super().__init__(stream, batches=0, batch_size=1, drop_last=False, **options)
        self._source = source
        self.ended: list[tuple[UserBatchUnderWay, np.ndarray]] = []

    def __next__(self) -> Ready:
        while True:
            self._draw()
            if not self._under_way:
                self._stream.flush()
                raise StopIteration
            first = self._under_way[0]
            assert isinstance(first, UserBatchUnderWay)
            began = time.perf_counter()
            try:
                indices = self._complete(first)
            finally:
                self._counts.stall_s += time.perf_counter() - began
            self._under_way.popleft()
            self.ended.append((first, np.setdiff1d(np.arange(first.size), list(first.failed))))
            if first.given.error is not None:
                raise first.given.error
            if first.failures and not self._skip:
                raise first.failures[0]
            if len(indices) == 0 < first.size:
                self._source.ask(1)  # the iterator has asked for one batch, and this one does not count
                continue
            self._counts.delivered += len(indices)
            return Ready(indices, first.buffer)

    def _draw(self) -> None:
        while len(self._under_way) <= self._ahead and (given := self._source.next()) is not None:
            size = len(given.samples)
            buffer = self._buffers(size or 1)
            batch = None
            if size:
                pictures, *others = buffer.arrays
                batch = self._stream.draw_given(pictures, given.samples, given.turns, *others)
            under_way = UserBatchUnderWay(batch, buffer, size)
            under_way.given = given
            if self._source.recorder is not None and batch is not None:
                under_way.copies = batch.copies()  # before the next draw lets go of them
            self._under_way.append(under_way)
