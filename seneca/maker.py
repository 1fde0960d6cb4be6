"""Where a process makes the items of a shared dataset, from what others left and for what they want.

::

    batch --begin--> places: what serves each sample, where its copy goes --> items
                                     |
                  AUGMENTED: read    |  DECODED, ENCODED: the stages from there
                  storage: made, and what is worth keeping is offered
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from seneca._core import store
from seneca._pipeline import items
from seneca.audit import Header, Log, audit_folder, part_name
from seneca.cache import SampleCache
from seneca.ending import FIRST, finalize
from seneca.forms import Form
from seneca.proof import Board, Proof, compare_served, may_be_made_again
from seneca.ranks import job_key
from seneca.stages import KeptStages, Payload, Stages
from seneca.terms import PlannedBatch, Terms

__all__ = ["COUNTERS", "SPENT", "Maker"]

# For who adapts the cache, as seneca.partition.Spent has them; times are nanoseconds.
SPENT = ("reads", "prepares", "decodes", "augments", "read_ns", "prepare_ns", "decode_ns", "augment_ns")
COUNTERS = (
    *("storage", "encoded", "decoded", "augmented", "prepared", "staged", "unshared", "damaged"),
    *("read_bytes", "checked", "different"),
    *(*SPENT, "decoded_bytes"),
)
AT = {name: place for place, name in enumerate(COUNTERS)}  # in the counts
STORAGE, ENCODED, DECODED, AUGMENTED = (int(form) for form in Form)
MAX_SIDE = 2**16 - 1  # of a picture in a slot's record
LOGS_OPEN = 4  # iterators that a process serves at the same time
NO_CLAIMS = np.zeros(0, store.CLAIM)
UNDECIDED = 4  # checks of items that tell nothing, because they are random, before there are no more


class Maker:
    """Where a process makes items: what it holds in the segment while it does.

    Args:
        terms: On which it shares.
        cache: Where; None: nowhere.
        counts: To count in, as :data:`COUNTERS`.
        board: What the processes of this dataset have found of its examples.
        vouched: Whether the user has given a key.
        check_every: Of so many samples that it is served one is made again and compared; None: none is.
        changed: Tells whether the dataset has changed since it was looked at.
    """

    def __init__(
        self,
        terms: Terms,
        cache: SampleCache | None,
        counts: np.ndarray,
        *,
        board: Board,
        vouched: bool = False,
        check_every: int | None = None,
        changed: Callable[[], bool] = bool,
    ) -> None:
        self.pid = os.getpid()
        self._counts = counts
        self.terms = terms
        self._worker = store.Worker(
            None if cache is None else cache.segment,
            decoded=terms.stages.decoded,
            augmented=terms.stages.augmented,
            shares=terms.shares,
            keeps=terms.stages.decoded != 0,
        )
        self.cache = cache
        self._segment = None if cache is None else cache.segment
        self._proof = None
        if cache is not None:
            self._proof = Proof(terms, cache.segment, board, vouched=vouched, changed=changed)
        self._check_every = check_every if may_be_made_again(terms) else None
        # Not all at the same time, and also where no process serves so many.
        self._until_check = 0 if check_every is None else random.Random(os.urandom(8)).randint(1, check_every)
        self._undecided = 0  # checks of AUGMENTED in a row that could tell nothing
        self._in_use = threading.Lock()
        self.copy_bytes = 0  # the room that an item of this dataset has needed at the most
        self.keeps_decoded = True  # as long as it can be laid out
        folder = audit_folder()
        self._audit = None if folder is None else _Audit(folder, terms, cache)
        self._close = finalize(self, _close, self._worker, cache, order=FIRST)

    def close(self) -> None:
        self._close()

    @property
    def terms(self) -> Terms:
        """On which it makes; others may take their place that share as these do."""
        return self._terms

    @terms.setter
    def terms(self, terms: Terms) -> None:
        self._terms = terms
        self._stages = terms.stages
        if isinstance(terms.stages, KeptStages):
            self._stages = _Timed(terms.stages, self._counts)

    def make(self, indices: Sequence[int], look: int, *, alone: bool = False) -> list[Any]:
        """The items of a batch, in an epoch for which the dataset was looked at so.

        Args:
            indices: Of its samples.
            look: The number of that look.
            alone: Whether to take nothing that others made, and to leave nothing for them.
        """
        own = self.terms.own
        samples = list(indices) if own is None else [int(own[index]) for index in indices]
        planned = (
            indices if isinstance(indices, PlannedBatch) and self._was_planned(indices, samples) else None
        )
        with self._in_use:
            trusts = not alone and self._trusts(look)
            if planned is not None and planned.claims is None and self._stages.decoded == 0:
                made = self._make_alone(samples)  # nothing is held, and nothing could be kept
                copies = None
            else:
                made, copies = self._make_here(samples, planned, trusts)
            if self._audit is not None:
                self._audit.served(indices, copies)
        stages = self.terms.stages
        if type(stages).present is Stages.present:
            return made
        return [stages.present(sample, item) for sample, item in zip(samples, made, strict=True)]

    def _trusts(self, look: int) -> bool:
        """Whether to take and leave anything."""
        if self._proof is None or self._segment is None:
            return True  # there is nothing
        if self._segment.distrusted:
            return False
        try:
            return self._proof.holds(look)
        except BlockingIOError:
            return False  # the next batch asks again

    @property
    def distrusted(self) -> bool:
        """Whether anybody has found that what lies in the cache is not to be trusted."""
        return self._segment is not None and self._segment.distrusted

    def is_to_check(self, form: int) -> bool:
        """Whether the next sample that is served from this form is to be made again."""
        if self._check_every is None or (form == AUGMENTED and self._undecided >= UNDECIDED):
            return False
        self._until_check -= 1
        if self._until_check > 0:
            return False
        self._until_check = self._check_every
        return True

    def differs(self, sample: int, form: int, served: Any) -> bool:
        """Make a sample again that was served, and compare; where it is another, nobody shares any more.

        Args:
            sample: Which.
            form: From which it was served.
            served: The payload's bytes, or the item where the form is AUGMENTED.
        """
        self._counts[AT["checked"]] += 1
        outcome = compare_served(self.terms.stages, sample, Form(form), served)
        if form == AUGMENTED:
            self._undecided = self._undecided + 1 if outcome is None else 0
        if outcome is not False:
            return False
        assert self._segment is not None
        self._segment.distrust(sample, form)
        self._counts[AT["different"]] += 1
        if self._audit is not None:
            self._audit.differed(sample)
        return True

    def _make_here(
        self, samples: list[int], planned: PlannedBatch | None, trusts: bool
    ) -> tuple[list[Any], np.ndarray | None]:
        row, generation = store.NONE, 0
        if planned is not None:
            row, generation = planned.row, planned.generation
        if planned is not None and planned.claims is not None:
            claims = planned.claims
        else:
            claims = np.zeros(len(samples), store.CLAIM)
            claims["sample"] = samples
            claims["slot"] = store.NONE
        places = self._worker.begin(claims, row, generation)[0]
        if _hold_nothing(places):
            return self._make_alone(samples), None
        batch = _Batch(self, samples, places)
        if not trusts:
            batch.take_nothing()
        try:
            return batch.make(), None if self._audit is None else batch.copies()
        finally:
            batch.end()

    def _make_alone(self, samples: list[int]) -> list[Any]:
        """As a :class:`_Batch` of samples for which nothing is there and nothing wanted, in less time."""
        made = self._stages.make(samples)
        if self.terms.shares and self.copy_bytes == 0:
            for item in made:
                if self.lay_out(item) is not None:
                    self._worker.begin(NO_CLAIMS)  # tells it to all who reserve room
                    break
        self._counts[AT["storage"]] += len(made)
        self._counts[AT["prepared"]] += len(made)
        return made

    def lay_out(self, item: Any) -> items.Layout | None:
        """How an item will lie in a slot, learning how much room one takes; None, counted: it cannot."""
        try:
            layout = items.lay_out(item)
        except items.Unsupported:
            self._counts[AT["unshared"]] += 1
            return None
        if layout.size_bytes > self.copy_bytes:
            self.copy_bytes = -(-layout.size_bytes // store.GRANULE) * store.GRANULE  # taken all the same
            self._worker.learn(self.copy_bytes)
        return layout

    def _was_planned(self, batch: PlannedBatch, samples: list[int]) -> bool:
        """Whether what the sampler holds is of these samples, on these terms."""
        if batch.names != self.terms.names:
            return False
        return batch.claims is None or np.array_equal(batch.claims["sample"], samples)


class _Timed(KeptStages):
    """The stages of a dataset, and what each of them takes: reading by the wall, the others of the CPU."""

    def __init__(self, stages: KeptStages, counts: np.ndarray) -> None:
        self._stages, self._counts = stages, counts
        self.decoded = stages.decoded

    def read(self, index: int) -> bytes:
        began = time.perf_counter_ns()
        data = self._stages.read(index)
        self._note("reads", "read_ns", time.perf_counter_ns() - began)
        self._counts[AT["read_bytes"]] += len(data)
        return data

    def decode(self, index: int, data: bytes) -> Payload:
        began = time.thread_time_ns()
        decoded = self._stages.decode(index, data)
        self._note("decodes", "decode_ns", time.thread_time_ns() - began)
        self._counts[AT["decoded_bytes"]] += len(decoded.data)
        return decoded

    def augment(self, index: int, decoded: Payload) -> Any:
        began = time.thread_time_ns()
        item = self._stages.augment(index, decoded)
        self._note("augments", "augment_ns", time.thread_time_ns() - began)
        return item

    def augment_encoded(self, index: int, data: bytes) -> Any:
        began = time.thread_time_ns()
        item = self._stages.augment_encoded(index, data)
        self._note("prepares", "prepare_ns", time.thread_time_ns() - began)
        return item

    def _note(self, times: str, total: str, ns: int) -> None:
        self._counts[AT[times]] += 1
        self._counts[AT[total]] += ns


def _hold_nothing(places: np.ndarray) -> bool:
    """Whether all of a batch comes from storage, and goes nowhere but to the loader."""
    return not (places["source"].any() or places["keep"].any() or (places["target_slot"] != store.NONE).any())


class _Audit:
    """Writes down what a process serves, a file for each epoch that asked; see :mod:`seneca.audit`."""

    def __init__(self, folder: Path, terms: Terms, cache: SampleCache | None) -> None:
        self._folder, self._terms, self._cache = folder, terms, cache
        self._logs: dict[str | None, Log] = {}  # by who drew the batches

    def served(self, indices: Sequence[int], copies: np.ndarray | None) -> None:
        drawn_in = getattr(indices, "log", None)
        if drawn_in not in self._logs:
            if len(self._logs) == LOGS_OPEN:
                self._logs.pop(next(iter(self._logs))).close()
            self._logs[drawn_in] = self._open(drawn_in)
        if copies is None:
            copies = np.full((len(indices), 3), [store.NONE, 0, STORAGE], np.uint32)
        self._logs[drawn_in].gave(indices, copies)

    def differed(self, sample: int) -> None:
        """A sample was not what it was served as."""
        own = self._terms.own
        index = sample if own is None else int(np.flatnonzero(own == sample)[0])
        if not self._logs:
            self._logs[None] = self._open(None)
        next(reversed(self._logs.values())).differed([index])

    def _open(self, drawn_in: str | None) -> Log:
        own = self._terms.own
        job, segment = job_key(), None
        attached: list[int] = []
        if self._cache is not None:
            job = self._cache.segment.job_key
            segment, attached = self._cache.segment.attachments()
        header = Header(
            kind="served",
            job=f"{job:016x}",
            dataset=self._terms.source.hex(),
            samples=self._terms.n_samples if own is None else len(own),
            part=part_name(own),
            of=drawn_in,
            segment=segment,
            attached=attached,
        )
        return Log(self._folder, header)


def _close(worker: store.Worker, cache: SampleCache | None) -> None:
    """Holding the cache, it comes before the cache's own end."""
    worker.close()


class _Batch:
    """One batch of a maker, from what its places hold to items."""

    def __init__(self, maker: Maker, samples: list[int], places: np.ndarray) -> None:
        self._maker = maker
        self._stages = cast(KeptStages, maker._stages)  # where it keeps nothing, make() alone is asked
        self._worker = maker._worker
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
        for k in range(len(self._samples)):
            if self._sources[k] and self._maker.distrusted:
                break
            if self._sources[k] == AUGMENTED:
                try:
                    made[k] = items.read(self._worker.payload(self._source_slots[k]))
                except items.DamagedItem:
                    straight.append(k)
                    self._pass_over_cache(k)
                    continue
                self._check(k, made[k])
            elif self._sources[k] == STORAGE and not self._keeps[k]:
                straight.append(k)
            else:
                made[k] = self._make_by_stages(k)
        if any(self._sources) and self._maker.distrusted:
            self.take_nothing()  # not what it was served before either
            straight = list(range(len(self._samples)))
        if straight:
            fresh = self._stages.make([self._samples[k] for k in straight])
            for k, item in zip(straight, fresh, strict=True):
                made[k] = item
                self._stage(k, item)
        for source in self._sources:
            self._counts[COUNTERS[source]] += 1
        self._counts["prepared"] = len(made) - self._counts["augmented"]
        return made

    def take_nothing(self) -> None:
        """Make every sample from storage, and leave nothing for others."""
        self._sources = [STORAGE] * len(self._samples)
        self._keeps = [0] * len(self._samples)
        self._offers.clear()
        for slot in self._targets.values():
            self._worker.abort(slot)
        self._targets.clear()

    def _check(self, k: int, served: Any) -> None:
        """Now and then: make again what was served."""
        if self._maker.is_to_check(self._sources[k]):
            self._maker.differs(self._samples[k], self._sources[k], served)

    def copies(self) -> np.ndarray:
        """Slot, generation and form of each, as an audit wants it; before all is let go of."""
        copies = np.empty((len(self._samples), 3), np.uint32)
        for k, (source, place) in enumerate(zip(self._sources, self._places, strict=True)):
            slot = int(place["source_slot"] if source == AUGMENTED else place["target_slot"])
            copies[k] = slot, 0 if slot == store.NONE else self._worker.generation(slot), source
        return copies

    def _make_by_stages(self, k: int) -> Any:
        """From what is kept, or leaving on the way what is worth keeping."""
        sample, stages = self._samples[k], self._stages
        if self._sources[k] == DECODED:
            slot = self._source_slots[k]
            decoded = Payload(self._worker.payload(slot), *self._worker.picture_size(slot))
            self._check(k, decoded.data)
            try:
                item = stages.augment(sample, decoded)
            except items.DamagedItem:
                self._pass_over_cache(k)
                item = stages.augment_encoded(sample, stages.read(sample))
        elif self._sources[k] == ENCODED:
            data = bytes(self._worker.payload(self._source_slots[k]))
            self._check(k, data)
            try:
                item = stages.augment_encoded(sample, data)
            except Exception:
                stored = stages.read(sample)
                if stored == data:
                    raise  # it is the sample's own fault, or its transform's
                self._pass_over_cache(k)
                item = stages.augment_encoded(sample, stored)
        else:
            data = stages.read(sample)
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

    def _pass_over_cache(self, k: int) -> None:
        """What the cache has of it is damaged: it is made from storage."""
        self._sources[k] = STORAGE
        self._counts["damaged"] += 1

    def _decode_to_keep(self, k: int, data: bytes) -> Payload | None:
        """DECODED; None where it cannot be laid out, which is tried once."""
        if not self._maker.keeps_decoded:
            return None
        try:
            return self._stages.decode(self._samples[k], data)
        except items.Unsupported:
            self._maker.keeps_decoded = False
            return None

    def _offer(self, sample: int, form: int, payload: Payload) -> None:
        if max(payload.height, payload.width) > MAX_SIDE:
            return
        self._offers.append(((sample, form, len(payload.data), payload.height, payload.width), payload.data))

    def _stage(self, k: int, item: Any) -> None:
        """Write an item where room is reserved for it; or learn how much room one takes."""
        slot = self._targets.get(k)
        if slot is None and (self._maker.copy_bytes or not self._maker.terms.shares):
            return
        layout = self._maker.lay_out(item)
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
            self._maker._counts[k] += self._counts[name]
