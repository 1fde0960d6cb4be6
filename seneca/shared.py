"""Sharing for torch's own DataLoader: a dataset whose items other jobs may have made, and a batch
sampler that plans for it.

::

    OpportunisticBatchSampler (the loader's process)        SharedDataset (worker processes)
        draws a batch  ------ PlannedBatch: indices, claims ------>  takes over what was drawn
                                                                     makes the rest, stages copies

A list of indices that nobody planned is served as well: what others made is then looked up.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch.utils.data import BatchSampler, Dataset, RandomSampler, SequentialSampler, get_worker_info

from seneca._core import store
from seneca._pipeline import items
from seneca.cache import SampleCache, belong_to_job, cache_name, job_key, shared_cache
from seneca.ending import FIRST, finalize
from seneca.errors import NoSpaceError, SegmentError, SegmentMismatchError
from seneca.forms import Form
from seneca.grades import Grade, grade_of
from seneca.notices import warn
from seneca.options import Options
from seneca.partition import Split
from seneca.stages import Payload, Stages

__all__ = ["COUNTERS", "OpportunisticBatchSampler", "PlannedBatch", "SharedDataset"]

# Public attributes that are this one's; all others are the dataset's.
OWN = frozenset({"dataset", "cache", "cache_bytes", "split", "share", "key", "terms", "copy_bytes"})
BATCHES_AHEAD = 8  # that a stock DataLoader may have under way, where nothing is said

COUNTERS = ("storage", "encoded", "decoded", "augmented", "prepared", "staged", "unshared", "read_bytes")
COUNT_ROWS = 257  # one for each worker process, the last for all beyond, the first for the loader's own
STORAGE, ENCODED, DECODED, AUGMENTED = (int(form) for form in Form)
MAX_SIDE = 2**16 - 1  # of a picture in a slot's record
NO_CLAIMS = np.zeros(0, store.CLAIM)


@dataclass(frozen=True)
class Terms:
    """On what terms processes of a job share: the same in all of them."""

    name: str  # of the cache, or "auto"
    source: bytes
    n_samples: int
    bytes_about: int
    cache_bytes: int | str
    split: Any
    shares: bool
    stages: Stages
    own: np.ndarray | None

    # As the cache asks a dataset.

    def __len__(self) -> int:
        return self.n_samples

    def fingerprint(self) -> bytes:
        return self.source

    def total_bytes(self) -> int:
        return self.bytes_about

    def equals(self, other: Terms | None) -> bool:
        """Whether all that was found is as it was."""
        if other is None or (self.own is None) != (other.own is None):
            return False
        same = self.own is None or other.own is None or np.array_equal(self.own, other.own)
        return same and self._key == other._key

    @property
    def _key(self) -> tuple[Any, ...]:
        stages = self.stages
        return self.name, self.source, self.n_samples, stages.decoded, stages.augmented, self.shares


class PlannedBatch(list[int]):
    """The indices of a batch, and what the sampler holds for them.

    Attributes:
        source: Names the samples, as the sampler found them.
        augmented: Names what the claimed copies hold.
        row: The member's, and ``generation`` whose it is.
        claims: In the order of the indices.
    """

    source: bytes
    augmented: int
    row: int
    generation: int
    claims: np.ndarray


class SharedDataset(Dataset[Any]):
    """A map-style dataset whose items the jobs of this host make together.

    Goes into any ``torch.utils.data.DataLoader``, with torch's worker processes and the user's
    ``collate_fn``. With an :class:`OpportunisticBatchSampler` it shares as much as can be; with
    any other sampler, what another job happens to have made is looked up. Equal datasets in
    several jobs meet by themselves, wherever they can be told from others; :meth:`explain` says
    what was found.

    Args:
        dataset: Any map-style dataset; ``torch.utils.data.Subset`` shares with what it is of.
        cache: As :class:`seneca.DataLoader`'s, a :class:`seneca.SampleCache` excepted; so are the next three.
        cache_bytes: Likewise.
        split: Likewise.
        share: Likewise.
        key: Stands for what a fingerprint cannot be made of: jobs that say the same share,
            and that their items are interchangeable is then the user's word.

    Raises:
        TypeError: An ``IterableDataset``, which has no indices, or what is shared already.

    Example:
        >>> import torch, seneca
        >>> data = torch.utils.data.TensorDataset(torch.arange(6))
        >>> shared = seneca.SharedDataset(data, cache_bytes="4MiB")
        >>> sampler = torch.utils.data.RandomSampler(shared)
        >>> batches = seneca.OpportunisticBatchSampler(sampler, batch_size=4, drop_last=False)
        >>> loader = torch.utils.data.DataLoader(shared, batch_sampler=batches)
        >>> sorted(int(value) for batch, in loader for value in batch)
        [0, 1, 2, 3, 4, 5]
    """

    def __init__(
        self,
        dataset: Any,
        *,
        cache: str | None = "auto",
        cache_bytes: int | str = "auto",
        split: Any = "auto",
        share: Any = "augmented",
        key: str | None = None,
    ) -> None:
        if isinstance(dataset, SharedDataset):
            raise TypeError("a SharedDataset goes into a DataLoader as it is; or share its .dataset anew")
        if isinstance(dataset, torch.utils.data.IterableDataset):
            raise TypeError(f"a map-style dataset can be shared, but got {type(dataset).__name__}")
        self._options = Options(cache, cache_bytes, split, share, key=key)
        if cache is not None and not isinstance(cache, str):
            raise TypeError(f'cache is "auto", a name or None, but got {cache!r}')
        self.dataset = dataset
        self.cache = cache
        self.cache_bytes = cache_bytes
        self.split = split
        self.share = share
        self.key = key
        self._job = job_key()
        self.terms: Terms | None = None
        self.copy_bytes = 0  # that an item takes, as far as is known; tells the next epoch
        self._cache: SampleCache | None = None  # held between epochs, so that what is kept stays
        self._looked = False
        self._planned = b""  # the source of the last planned batch
        self._base: Any = dataset
        self._state: list[Any] = []  # the values of its attributes when it was looked at
        self._warned = False
        self._bench: _Bench | None = None
        # A row for each worker, so that none overwrites what another counts. Seen by all processes.
        self._counts = torch.zeros(COUNT_ROWS, len(COUNTERS), dtype=torch.int64).share_memory_()

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: Any) -> Any:
        if not self._looked:
            self.look()
        # What a dataset makes by batches may not be what it makes one by one: then only batches are shared.
        made = None if getattr(self._base, "__getitems__", None) else self._made_here([index])
        return self.dataset[index] if made is None else made[0]

    def __getitems__(self, indices: Sequence[Any]) -> list[Any]:
        """The items of a batch, in its order; errors are the dataset's own."""
        made = self._made_here(indices)
        if made is not None:
            return made
        if getattr(self.dataset, "__getitems__", None):
            return self.dataset.__getitems__(list(indices) if isinstance(indices, PlannedBatch) else indices)
        return [self.dataset[index] for index in indices]

    def _made_here(self, indices: Sequence[Any]) -> list[Any] | None:
        """The items of a batch; None where they are not shared, or an index is none of a sample."""
        if self._looked and (self._state_changed() or self._is_behind(indices)):
            self._look_again(indices)
        bench = self._bench_here()
        if bench is None or not isinstance(indices, (list, tuple)):
            return None
        count = len(self.dataset)
        if not all(type(index) is int and 0 <= index < count for index in indices):
            return None
        made = bench.make(indices)
        if self._state_changed():
            # By itself: what it makes hangs on what it made before, and is no other job's.
            self.terms = None
            self._warn(
                f"{type(self.dataset).__name__} changes as its items are made, so they are no longer shared; "
                "if they are the same all the same, say so by key="
            )
        return made

    def __getattr__(self, name: str) -> Any:
        # Attributes of the dataset (classes, targets, ...) are found here too. Not private names, and
        # not a state of its own, for which others would take this.
        if name.startswith("_") or name in ("dataset", "state_dict", "load_state_dict"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.dataset, name)

    def __setattr__(self, name: str, value: Any) -> None:
        # And are set there: timm makes a loader of a dataset and then gives it its `transform`.
        if name.startswith("_") or name in OWN:
            super().__setattr__(name, value)
        else:
            setattr(self.dataset, name, value)
            self.terms, self._looked = None, False  # also where a key says that items are the same

    def explain(self, grade: Grade | None = None) -> str:
        """In plain words: what of this dataset is shared, with whom, and why not more. See :meth:`look`."""
        grade = self.look(grade)
        terms = self.terms
        if terms is None:
            why = "; ".join(grade.why)
            if self.cache is None:
                why = "cache=None"
            elif grade.stages is not None:
                why = f"whole items are all that could be, but share={self.share!r}"
            return f"not shared: {why}"
        forms = "ENCODED, DECODED" if grade.stages is not None and grade.stages.decoded else ""
        if terms.shares:
            forms = f"{forms}, AUGMENTED" if forms else "AUGMENTED"
        name = cache_name(terms.name, terms.source)
        return f"{grade.name}: {'; '.join(grade.why)}; shared in the cache {name!r}: {forms}"

    def stats(self) -> dict[str, Any]:
        """What this job's processes did with it so far.

        Returns:
            ``served``, items by the form they came from; ``prepared``, augmented copies made
            here; ``staged``, those of them made for other jobs too; ``unshared``, items that
            cannot be laid out in shared memory; ``delivered``; ``read_bytes``, of ENCODED.
        """
        counts = dict(zip(COUNTERS, self._counts.sum(0).tolist(), strict=True))
        served = {form.name.lower(): counts.pop(form.name.lower()) for form in Form}
        return {"served": served, **counts, "delivered": sum(served.values())}

    def look(self, grade: Grade | None = None) -> Grade:
        """Look at the dataset as it is now: what is planned and made from now on is of that.

        Args:
            grade: What was found, where somebody has looked just now.
        """
        grade = grade or grade_of(self.dataset, key=self.key, shares=self.cache is not None)
        if get_worker_info() is None:
            self._job = job_key()  # this process's, wherever it was made
        self._base = grade.base
        self._state = list(getattr(self._base, "__dict__", {}).values())
        stages = grade.stages
        self._looked = True
        before, self.terms = self.terms, None
        shares = self.share == "augmented" and stages is not None and not stages.same
        if stages is not None and self.cache is not None and (shares or stages.decoded):
            self.terms = Terms(
                name=self.cache,
                source=stages.source,
                n_samples=len(grade.base),
                bytes_about=grade.total_bytes,
                cache_bytes=self.cache_bytes,
                split=self._options.split_wanted
                if stages.decoded or self.split != "auto"
                else Split(0, 0, 1),
                shares=shares,
                stages=stages,
                own=grade.own,
            )
            if self.terms.equals(before):
                self.terms = before  # what was made for it goes on
            else:
                self.copy_bytes = 0
        return grade

    def _look_again(self, indices: Sequence[Any]) -> None:
        """Somebody has set another transform, or files have changed, say."""
        sources = {self.terms.source if self.terms is not None else b"", getattr(indices, "source", b"")}
        self.look()
        if get_worker_info() is not None and self.terms is not None and self.terms.source not in sources:
            self.terms = None  # a worker_init_fn has made of it a dataset of this worker's own

    def _state_changed(self) -> bool:
        """Whether an attribute of the dataset is another object than when it was looked at."""
        if self.key is not None or self.terms is None:
            return False
        now = getattr(self._base, "__dict__", {}).values()
        return len(now) != len(self._state) or any(a is not b for a, b in zip(now, self._state, strict=True))

    def _is_behind(self, indices: Sequence[Any]) -> bool:
        """Whether the sampler has seen other files than this process, a worker that stays; once for each."""
        if self.terms is None or not isinstance(indices, PlannedBatch):
            return False
        before, self._planned = self._planned, indices.source
        return indices.source not in (before, self.terms.source)

    def _warn(self, text: str) -> None:
        """Once a process."""
        if not self._warned:
            self._warned = True
            warn(text)

    def join(self) -> SampleCache | None:
        """This process's cache on the terms of the last look; None: nothing is shared.

        It is held until this is collected, also while no worker process is there.

        Raises:
            NoSpaceError, SegmentMismatchError: As :meth:`seneca.SampleCache.join`'s.
        """
        if not self._looked:
            self.look()
        terms = self.terms
        if terms is None:
            return None
        if get_worker_info() is not None:
            belong_to_job(self._job)
        try:
            self._cache = shared_cache(terms.name, terms, terms.cache_bytes, terms.split)
            return self._cache
        except (NoSpaceError, SegmentMismatchError):
            raise
        except SegmentError as error:
            self._warn(f"going on without the shared cache: {error}")
            return None

    def _bench_here(self) -> _Bench | None:
        """This process's, for the terms of now; a forked child makes its own."""
        if not self._looked:
            self.look()
        if self.terms is None:
            return None
        bench = self._bench
        if bench is None or bench.pid != os.getpid() or bench.terms is not self.terms:
            if bench is not None and bench.pid == os.getpid():
                bench.close()
            cache = self.join()
            worker = get_worker_info()
            row = 0 if worker is None else min(worker.id + 1, COUNT_ROWS - 1)
            bench = self._bench = _Bench(self.terms, cache, self._counts[row].numpy())
        return bench

    def __fingerprint__(self) -> Any:
        """What items hang on, for datasets that are made of this one."""
        return self.dataset if self.key is None else (self.key, len(self))

    def __getstate__(self) -> dict[str, Any]:
        job = self._job if get_worker_info() is not None else job_key()
        return {**vars(self), "_job": job, "_bench": None, "_cache": None, "_state": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if not self._counts.is_shared():  # pickled for another job, not for a worker
            self._counts = torch.zeros_like(self._counts).share_memory_()
        self._state = list(getattr(self._base, "__dict__", {}).values())


class _Bench:
    """Where a process makes items: what it holds in the segment while it does."""

    def __init__(self, terms: Terms, cache: SampleCache | None, counts: np.ndarray) -> None:
        self.terms = terms
        self.pid = os.getpid()
        self._stages = terms.stages
        self._counts = counts
        self._worker = store.Worker(
            None if cache is None else cache.segment,
            decoded=terms.stages.decoded,
            augmented=terms.stages.augmented,
            shares=terms.shares,
            keeps=terms.stages.decoded != 0,
        )
        self._in_use = threading.Lock()
        self.copy_bytes = 0  # the room that an item of this dataset has needed at the most
        self.keeps_decoded = True  # as long as it can be laid out
        self._close = finalize(self, _close, self._worker, cache, order=FIRST)

    def close(self) -> None:
        self._close()

    def make(self, indices: Sequence[int]) -> list[Any]:
        """The items of a batch."""
        own = self.terms.own
        samples = list(indices) if own is None else [int(own[index]) for index in indices]
        row, generation = store.NONE, 0
        if isinstance(indices, PlannedBatch) and self._was_planned(indices, samples):
            claims, row, generation = indices.claims, indices.row, indices.generation
        else:
            claims = np.zeros(len(samples), store.CLAIM)
            claims["sample"] = samples
            claims["slot"] = store.NONE
        with self._in_use:
            places = self._worker.begin(claims, row, generation)[0]
            if _hold_nothing(places):
                made = self._make_alone(samples)
            else:
                batch = _Batch(self, samples, places)
                try:
                    made = batch.make()
                finally:
                    batch.end()
        if type(self._stages).present is Stages.present:
            return made
        return [self._stages.present(sample, item) for sample, item in zip(samples, made, strict=True)]

    def _make_alone(self, samples: list[int]) -> list[Any]:
        """As a :class:`_Batch` of samples for which nothing is there and nothing wanted, in less time."""
        made = self._stages.make(samples)
        if self.terms.shares and self.copy_bytes == 0:
            for item in made:
                if self.lay_out(item) is not None:
                    self._worker.begin(NO_CLAIMS)  # tells it to all who reserve room
                    break
        self._counts[COUNTERS.index("storage")] += len(made)
        self._counts[COUNTERS.index("prepared")] += len(made)
        return made

    def lay_out(self, item: Any) -> items.Layout | None:
        """How an item will lie in a slot, learning how much room one takes; None, counted: it cannot."""
        try:
            layout = items.lay_out(item)
        except items.Unsupported:
            self._counts[COUNTERS.index("unshared")] += 1
            return None
        if layout.size_bytes > self.copy_bytes:
            self.copy_bytes = -(-layout.size_bytes // store.GRANULE) * store.GRANULE  # taken all the same
            self._worker.learn(self.copy_bytes)
        return layout

    def _was_planned(self, batch: PlannedBatch, samples: list[int]) -> bool:
        """Whether what the sampler holds is of these samples, on these terms."""
        named = self._stages.source, self._stages.augmented
        return (batch.source, batch.augmented) == named and np.array_equal(batch.claims["sample"], samples)


def _hold_nothing(places: np.ndarray) -> bool:
    """Whether all of a batch comes from storage, and goes nowhere but to the loader."""
    return not (places["source"].any() or places["keep"].any() or (places["target_slot"] != store.NONE).any())


def _close(drawing: store.Worker | store.Member, cache: SampleCache | None) -> None:
    """Holding the cache, it comes before the cache's own end."""
    drawing.close()


class _Batch:
    """One batch on a bench, from what its places hold to items."""

    def __init__(self, bench: _Bench, samples: list[int], places: np.ndarray) -> None:
        self._bench = bench
        self._stages = bench._stages
        self._worker = bench._worker
        self._counts = dict.fromkeys(COUNTERS, 0)
        self._samples = samples
        self._places = places
        self._sources = places["source"].tolist()
        self._source_slots = places["source_slot"].tolist()
        self._keeps = places["keep"].tolist()
        # Room that is reserved and not yet written, by place.
        self._targets = {
            k: slot for k, slot in enumerate(places["target_slot"].tolist()) if slot != store.NONE
        }
        self._offers: list[tuple[tuple[int, int, int, int, int], Any]] = []

    def make(self) -> list[Any]:
        """AUGMENTED of every sample."""
        made: list[Any] = [None] * len(self._samples)
        straight = []
        for k, source in enumerate(self._sources):
            if source == AUGMENTED:
                try:
                    made[k] = items.read(self._worker.payload(self._source_slots[k]))
                except items.DamagedItem:
                    straight.append(k)
                    self._sources[k] = STORAGE
            elif source == STORAGE and not self._keeps[k]:
                straight.append(k)
            else:
                made[k] = self._make_by_stages(k)
        if straight:
            fresh = self._stages.make([self._samples[k] for k in straight])
            for k, item in zip(straight, fresh, strict=True):
                made[k] = item
                self._stage(k, item)
        for source in self._sources:
            self._counts[COUNTERS[source]] += 1
        self._counts["prepared"] = len(made) - self._counts["augmented"]
        return made

    def _make_by_stages(self, k: int) -> Any:
        """From what is kept, or leaving on the way what is worth keeping."""
        sample, stages = self._samples[k], self._stages
        if self._sources[k] == DECODED:
            slot = self._source_slots[k]
            decoded = Payload(self._worker.payload(slot), *self._worker.picture_size(slot))
            item = stages.augment(sample, decoded)
        else:
            if self._sources[k] == ENCODED:
                data = bytes(self._worker.payload(self._source_slots[k]))
            else:
                data = stages.read(sample)
                self._counts["read_bytes"] += len(data)
            kept = self._decode_to_keep(k, data) if self._keeps[k] == DECODED else None
            if kept is not None:
                self._offer(sample, DECODED, kept)
                item = stages.augment(sample, kept)
            else:
                if self._keeps[k]:
                    self._offer(sample, ENCODED, Payload(data, 0, 0))
                item = stages.augment_encoded(sample, data)
        self._stage(k, item)
        return item

    def _decode_to_keep(self, k: int, data: bytes) -> Payload | None:
        """DECODED; None where it cannot be laid out, which is tried once."""
        if not self._bench.keeps_decoded:
            return None
        try:
            return self._stages.decode(self._samples[k], data)
        except items.Unsupported:
            self._bench.keeps_decoded = False
            return None

    def _offer(self, sample: int, form: int, payload: Payload) -> None:
        if max(payload.height, payload.width) > MAX_SIDE:
            return
        self._offers.append(((sample, form, len(payload.data), payload.height, payload.width), payload.data))

    def _stage(self, k: int, item: Any) -> None:
        """Write an item where room is reserved for it; or learn how much room one takes."""
        slot = self._targets.get(k)
        if slot is None and (self._bench.copy_bytes or not self._bench.terms.shares):
            return
        layout = self._bench.lay_out(item)
        if layout is None or slot is None:
            return
        room = self._worker.payload(slot)
        if layout.size_bytes <= len(room):
            layout.write(room)
            self._worker.commit(slot)
            del self._targets[k]
            self._counts["staged"] += 1

    def end(self) -> None:
        """Let go of everything, whatever happened; what was offered and is wanted is written."""
        for slot in self._targets.values():
            self._worker.abort(slot)
        self._worker.done(self._places)
        # At once: what is held in vain is room that others lack.
        answers = self._worker.begin(NO_CLAIMS, offers=[offer for offer, _ in self._offers])[1]
        for answer, (_, data) in zip(answers, self._offers, strict=True):
            if answer is not None:
                slot, entry = answer
                self._worker.payload(slot)[:] = data
                self._worker.commit(slot)
                self._worker.offer_done(slot, entry)
        for k, name in enumerate(COUNTERS):
            self._bench._counts[k] += self._counts[name]


class OpportunisticBatchSampler(BatchSampler):
    """Batches of a :class:`SharedDataset`, each sample once an epoch, what others have made first.

    Takes the place of ``torch.utils.data.BatchSampler`` and has its signature. The order is
    Seneca's where ``sampler`` is a ``RandomSampler`` of the whole shared dataset without
    replacement: as random, and another with every epoch. It is the sampler's own where that is any other.
    Where several processes train together (``WORLD_SIZE``), each sees the same permutation of (seed,
    epoch), for what shards it from outside.

    Args:
        sampler: Of a :class:`SharedDataset`.
        batch_size: Samples of a batch.
        drop_last: Whether the last batch, where it is shorter, is left out.
        seed: Of the order; None draws one from the sampler's generator, or else torch's, for every epoch.
        batches_ahead: Batches that will be under way, at most: ``num_workers * prefetch_factor + 1``.

    Raises:
        ValueError: As ``BatchSampler``'s.

    Example: see :class:`SharedDataset`.
    """

    def __init__(
        self,
        sampler: Any,
        batch_size: int,
        drop_last: bool = False,
        *,
        seed: int | None = None,
        batches_ahead: int = BATCHES_AHEAD,
    ) -> None:
        super().__init__(sampler, batch_size, drop_last)
        self.seed = seed
        self.batches_ahead = batches_ahead
        self.epoch = 0
        self.looked = False  # whether somebody has looked at the dataset for the epoch that is to begin

    def set_epoch(self, epoch: int) -> None:
        """Name the next epoch, as ``DistributedSampler`` does; the sampler's own is set too."""
        self.epoch = epoch
        if hasattr(self.sampler, "set_epoch"):
            self.sampler.set_epoch(epoch)

    def __iter__(self) -> Iterator[list[int]]:
        sampler: Any = self.sampler
        shared = getattr(sampler, "data_source", getattr(sampler, "dataset", None))
        if not isinstance(shared, SharedDataset):
            return super().__iter__()
        if not self.looked:
            shared.look()  # before workers begin, so that they need not
        self.looked = True
        shuffles = isinstance(sampler, RandomSampler)
        whole = type(sampler) is SequentialSampler or (
            shuffles and not sampler.replacement and len(sampler) == len(shared)
        )
        return _Batches(lambda: self._begin(shared, whole, shuffles))

    def _begin(self, shared: SharedDataset, whole: bool, shuffles: bool) -> Iterator[list[int]]:
        # The sampler alone is told the epoch where accelerate deals out the batches of a resumed run.
        epoch = max(self.epoch, getattr(self.sampler, "epoch", 0))
        self.epoch = epoch + 1
        self.looked = False
        shared.join()  # for the workers: what they leave there stays when they end with the epoch
        one_of_many = _is_one_of_many()
        if whole and shuffles and one_of_many:
            generator = torch.Generator().manual_seed((self.seed or 0) + epoch)
            order = torch.randperm(len(shared), generator=generator).tolist()
            return iter(BatchSampler(order, self.batch_size, self.drop_last))
        if whole and not one_of_many and shared.terms is not None and shared.terms.shares:
            return _Plan(self, shared, epoch, shuffles)
        return super().__iter__()  # nothing will take another's place


def _is_one_of_many() -> bool:
    """Whether other processes train the same model."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_world_size() > 1
    return os.environ.get("WORLD_SIZE", "1") not in ("", "1")


class _Batches:
    """One epoch of a batch sampler. As torch's, it draws nothing before it is asked for the first batch."""

    def __init__(self, begin: Callable[[], Iterator[list[int]]]) -> None:
        self._begin = begin
        self._batches: Iterator[list[int]] | None = None

    def __iter__(self) -> _Batches:
        return self

    def __next__(self) -> list[int]:
        self.begin()
        assert self._batches is not None
        return next(self._batches)

    def begin(self) -> None:
        """Join the epoch, as the first batch does: from now on other jobs make copies for it."""
        if self._batches is None:
            self._batches = self._begin()


class _Plan:
    """The batches of one epoch, drawn by a member that workers prepare for."""

    def __init__(
        self, sampler: OpportunisticBatchSampler, shared: SharedDataset, epoch: int, shuffles: bool
    ) -> None:
        seed = sampler.seed or 0
        if shuffles and sampler.seed is None:
            generator = cast(RandomSampler, sampler.sampler).generator
            seed = int(torch.empty((), dtype=torch.int64).random_(generator=generator).item())
        self._shared = shared
        self._batch_size = sampler.batch_size
        self.terms = terms = cast(Terms, shared.terms)
        cache = shared.join()
        self._places = len(shared)
        if sampler.drop_last:
            self._places -= self._places % sampler.batch_size
        self._index_of = None
        if terms.own is not None:
            self._index_of = np.zeros(terms.n_samples, np.int64)
            self._index_of[terms.own] = np.arange(len(terms.own))
        self._member = store.Member(
            None if cache is None else cache.segment,
            n_samples=terms.n_samples,
            samples=terms.own,
            places=self._places,
            seed=seed,
            epoch=epoch,
            fixed=not shuffles,
            decoded=terms.stages.decoded,
            augmented=terms.stages.augmented,
            height=0,
            width=0,
            copy_bytes=shared.copy_bytes,
            in_flight=sampler.batch_size * sampler.batches_ahead,
            shares=True,
            keeps=False,
            substitutes=shuffles,
            hands_over=True,
        )
        # Open until the loader has let go of this: what it holds is claimed by and by.
        self._close = finalize(self, _close, self._member, cache, order=FIRST)

    def __iter__(self) -> _Plan:
        return self

    def __next__(self) -> list[int]:
        places = self._member.draw(self._batch_size)[0]
        if len(places) == 0:
            raise StopIteration
        self._shared.copy_bytes = self._member.copy_bytes
        samples = places["sample"]
        batch = PlannedBatch((samples if self._index_of is None else self._index_of[samples]).tolist())
        batch.source, batch.augmented = self.terms.source, self.terms.stages.augmented
        batch.row, batch.generation, batch.claims = self._member.claims(places)
        return batch
