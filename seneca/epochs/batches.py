"""The batches of one epoch, as torch's loaders ask for them, each with its places."""

from __future__ import annotations

import functools
import logging
import numbers
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from seneca.epochs.plan import EpochPlan
from seneca.epochs.progress import EpochProgress

__all__ = ["Batches", "Drawn", "EpochBatches", "Mark", "StreamBatches", "TrackedBatches"]

logger = logging.getLogger(__name__)

Batches = Iterator[tuple[Any, Any]]  # each with its places
Mark = Callable[[list[int], tuple[int, int]], list[int]]  # of indices, and of seed and number of the epoch


class Drawn(NamedTuple):
    """A batch that was drawn.

    Attributes:
        places: The places of its samples; None: nothing was drawn.
        indices: Its samples, if an audit wants them.
        sampler_now: The state of its sampler after the draw, if it keeps one, see
            :mod:`seneca.epochs.sampler_state`.
    """

    places: Any = None
    indices: list[int] | None = None
    sampler_now: dict[str, Any] | None = None


class EpochBatches:
    """The batches of one epoch. As torch's iterator, it draws nothing before the first batch is asked for.

    Args:
        begin: Begins the epoch, and returns its plan and its batches with their places.
        progress: The progress of the epoch.
        drawn_is_delivered: Whether a batch counts as delivered when it is drawn, because its delivery is
            not reported later.
        record: Begins to write down what an epoch of this plan delivers.

    Attributes:
        drawn: The batch that was drawn last.
        mark: Replaces the list of a batch's indices by one that also says for which inspection it is, and the
            seed and the number of the epoch; None: lists stay as they are.
        named: The seed and the number of the epoch, once it has begun.
    """

    is_stream = False

    def __init__(
        self,
        begin: Callable[[], tuple[EpochPlan | None, Batches]],
        progress: EpochProgress,
        drawn_is_delivered: bool = False,
        record: Callable[[EpochPlan], Any] | None = None,
    ) -> None:
        self._begin: Callable[[], tuple[EpochPlan | None, Batches]] | None = begin
        self._batches: Batches = iter(())
        self._drawn_is_delivered = drawn_is_delivered
        self._record = record
        self.progress = progress
        self.drawn = Drawn()
        self.mark: Mark | None = None
        self.named = (0, 0)

    def __iter__(self) -> EpochBatches:
        return self

    def __next__(self) -> Any:
        self.begin()
        progress = self.progress
        try:
            batch, places = next(self._batches)
        except StopIteration:
            if self._drawn_is_delivered:
                progress.end()
            raise
        if self.mark is not None and type(batch) is list:
            batch = self.mark(batch, self.named)
        indices = sampler_now = None
        if progress.draws is not None:
            sampler_now = progress.draws.now()
        if progress.recorder is not None:
            indices = _indices(batch)
            if hasattr(batch, "log"):  # so that workers write down what they serve in this epoch
                batch.log = progress.recorder.id
        self.drawn = Drawn(places, indices, sampler_now)
        if self._drawn_is_delivered:
            self.made(self.drawn)
        return batch

    def made(self, drawn: Drawn, *, failed: bool = False) -> None:
        """Note that a batch that was drawn is made, or has failed."""
        recorder, write = self.progress.recorder, None
        if recorder is not None:
            write = functools.partial(recorder.batch, drawn.indices, drawn.indices, failed=failed)
        self.progress.made(drawn.places, write=write, sampler_now=drawn.sampler_now)

    def begin(self) -> None:
        """Begin the epoch, as asking for the first batch does. From now on other jobs make copies for it."""
        if self._begin is None:
            return
        begin, record = self._begin, self._record
        # From here on this does not refer to the loader, which may hold the iterator that holds this. Without
        # a cycle, torch ends worker processes as soon as nobody holds their loader.
        self._begin = self._record = None
        plan, self._batches = begin()
        if plan is not None:
            self.named = plan.seed, plan.number
        if record is not None and plan is not None:
            self.progress.recorder = record(plan)


def _indices(batch: Any) -> list[int]:
    """The indices in a batch. A user's sampler may also yield things that are no indices."""
    batch = batch if isinstance(batch, (list, tuple)) else [batch]
    return [int(index) for index in batch if isinstance(index, numbers.Integral) and int(index) >= 0]


class StreamBatches(EpochBatches):
    """One epoch of an ``IterableDataset``, whose batches can only be counted.

    A resumed epoch passes over the batches that were delivered before, unless the states of the dataset or of
    its iterators were restored.

    Args:
        index_sampler: torch's sampler for such a dataset, which never ends.
        progress: The progress of the epoch.
        begin: Called before the first batch.
        cut: How many processes make batches, and how many samples a batch has. With other numbers the
            batches would differ.
    """

    is_stream = True

    def __init__(
        self,
        index_sampler: Any,
        progress: EpochProgress,
        begin: Callable[[EpochProgress], None],
        cut: tuple[int, int],
    ) -> None:
        super().__init__(functools.partial(self._endless, index_sampler, progress, begin), progress)
        progress.note(cut=cut)
        self._place = 0 if progress.restores is None else len(progress.before)

    @staticmethod
    def _endless(
        index_sampler: Any, progress: EpochProgress, begin: Callable[[EpochProgress], None]
    ) -> tuple[None, Batches]:
        begin(progress)
        progress.begin("stream", index_sampler, lambda: None)
        return None, ((index, None) for index in index_sampler)

    def pass_on(self, next_batch: Callable[[], Any]) -> Any:
        """The next batch that was not delivered before."""
        if self._place < len(self.progress.before):
            logger.warning(
                "reading %s batches again to pass over them, because the loader's state has none of the "
                "dataset's; give the IterableDataset or its iterators state_dict and load_state_dict",
                f"{len(self.progress.before):,}",
            )
        while True:
            place, self._place = self._place, self._place + 1
            passed_over = place < len(self.progress.before)
            try:
                batch = next_batch()
            except StopIteration:
                self.progress.end()
                raise
            except Exception:
                if passed_over:
                    continue  # it failed before as well
                self.progress.made((place,))
                raise
            if not passed_over:
                self.progress.made((place,))
                return batch


class TrackedBatches:
    """A batch sampler that lets a loader know how far each epoch has come.

    Args:
        batch_sampler: Any batch sampler. This object has a length if the batch sampler has one.
        begin: Makes the batches of an epoch of the loader.
        loader: The loader. It is not held, because torch's iterators hold this object and the loader may hold
            them.
    """

    def __init__(self, batch_sampler: Any, begin: Callable[[Any], EpochBatches], loader: Any) -> None:
        self._batch_sampler = batch_sampler
        self._begin = begin
        self._loader = weakref.ref(loader)

    def __iter__(self) -> EpochBatches:
        loader = self._loader()
        assert loader is not None, "only the loader makes and resets its iterators"
        return self._begin(loader)

    def __len__(self) -> int:
        return len(self._batch_sampler)
