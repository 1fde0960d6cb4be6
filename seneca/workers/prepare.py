"""Makes the items of a shared dataset in one process, from payloads in the cache and for what others want.

::

    batch --begin--> places: what serves each sample, where its copy goes --> items
                                     |
                  AUGMENTED: read    |  DECODED, ENCODED: the stages from there on
                  storage: all stages, and what is worth keeping is offered
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from seneca._core.member import CLAIM
from seneca._core.segment import GRANULE, NONE
from seneca._core.worker import Worker
from seneca._runtime.distributed import job_key
from seneca._runtime.finalizers import FIRST, PATIENCE_S, finalize
from seneca.audit.record import record_service
from seneca.cache import SampleCache
from seneca.data import serialize as items
from seneca.data.private import Private, times_asked
from seneca.data.stages import KeptStages, Payload, Pictures, Stages
from seneca.forms import Form
from seneca.workers.patience import Patience
from seneca.workers.proof import (
    Board,
    Evidence,
    Marks,
    Proof,
    Verdict,
    digest_of_payload,
    drawing,
    example_of,
    may_be_made_again,
    stays_the_same,
    unstable_text,
)
from seneca.workers.remote import RemoteStages, WorkersRemote
from seneca.workers.seeded import SeededStages
from seneca.workers.terms import PlannedBatch, Terms
from seneca.workers.timed import AT, COUNTERS, TimedItems, TimedStages

__all__ = ["Preparer"]

STORAGE, ENCODED, DECODED, AUGMENTED = (int(form) for form in Form)
MAX_SIDE = 2**16 - 1  # the longest side of a picture that a slot's record can hold
NO_CLAIMS = np.zeros(0, CLAIM)
PAUSE_S = 0.001  # between two looks for a copy that another job is writing


class Preparer:
    """Makes items in this process, and holds their slots in the segment meanwhile.

    Args:
        terms: The terms by which this process shares.
        cache: The cache; None: nothing is shared.
        counts: The counters, in the order of :data:`COUNTERS`.
        board: What the processes of this dataset have found of its examples.
        marks: What the processes of this job have made themselves.
        vouched: Whether the user has given a key.
        check_every: One of so many served samples is made again and compared; None: none is.
        first: Whether a sample is taken from the cache only after this job has made it itself.
        changed: Tells whether the dataset has changed since it was looked at.
        changed_elsewhere: Tells whether another process may have changed it since.
        remote: The memory of other hosts, which is asked for files; None: there is none.
    """

    def __init__(
        self,
        terms: Terms,
        cache: SampleCache | None,
        counts: np.ndarray,
        *,
        board: Board,
        marks: Marks,
        vouched: bool = False,
        check_every: int | None = None,
        first: bool = False,
        changed: Callable[[], bool] = bool,
        changed_elsewhere: Callable[[], bool] = bool,
        remote: WorkersRemote | None = None,
    ) -> None:
        self.pid = os.getpid()
        self.changed_elsewhere = changed_elsewhere
        self._counts = counts
        self._remote = remote
        self._proof: Proof | None = None
        self.evidence: Evidence | None = None
        self.terms = terms
        self._worker = Worker(
            None if cache is None else cache.segment,
            decoded=terms.stages.decoded,
            augmented=terms.stages.augmented,
            shares=terms.shares,
            keeps=terms.stages.decoded != 0,
            exact=terms.exact,
        )
        self._board = board
        self.patience = Patience()
        self.cache = cache
        self._segment = None if cache is None else cache.segment
        if cache is not None:
            evidence = Evidence(
                *(terms, cache.segment, board, marks),
                check_every=check_every,
                first=first,
                again=self._again if terms.exact else None,
                differed=self._note_difference,
            )
            self._proof = Proof(*(terms, cache.segment, board, evidence), vouched=vouched, changed=changed)
            self.evidence = evidence if may_be_made_again(terms) else None
        self._in_use = threading.Lock()
        self.copy_bytes = 0  # the most room that an item of this dataset has needed
        self.keeps_decoded = True  # until a DECODED payload cannot be laid out
        self._recorder = record_service(
            job=job_key() if cache is None else cache.segment.job_key,
            dataset=terms.source,
            n_samples=terms.n_samples,
            own=terms.own,
            cache=cache,
        )
        self._close = finalize(self, _close, self._worker, cache, self._in_use, order=FIRST)

    def close(self) -> None:
        self._close()

    @property
    def terms(self) -> Terms:
        """The terms by which items are made. Other terms may replace them if these share the same."""
        return self._terms

    @terms.setter
    def terms(self, terms: Terms) -> None:
        self._terms = terms
        for one in (self._proof, self.evidence):
            if one is not None:
                one.terms = terms
        self._stages: Stages
        if isinstance(terms.stages, Pictures) and self._remote is not None:
            self._stages = RemoteStages(terms.stages, self._counts, self._remote, terms.source)
        elif isinstance(terms.stages, KeptStages):
            self._stages = TimedStages(terms.stages, self._counts)
        else:
            self._stages = TimedItems(terms.stages, self._counts)
        self._seeded = None
        if terms.exact:
            self._stages = self._seeded = SeededStages(self._stages)
            self._again = SeededStages(terms.stages)  # for checks, which are not timed

    def make(self, indices: Sequence[int], look: int, *, alone: bool = False) -> list[Any]:
        """Make the items of a batch.

        Args:
            indices: The indices of its samples.
            look: The number of the look at the dataset that was made for the batch's epoch.
            alone: Whether to take nothing that others made, and to leave nothing for them.

        Raises:
            ValueError: Copies are to be exact, and the items cannot be; or nobody has named the epoch.
        """
        with contextlib.ExitStack() as stack:
            if self.terms.exact:
                stack.enter_context(drawing())
            return self._make_items(indices, look, alone)

    def _make_items(self, indices: Sequence[int], look: int, alone: bool) -> list[Any]:
        own = self.terms.own
        samples = list(indices) if own is None else [int(own[index]) for index in indices]
        planned = (
            indices if isinstance(indices, PlannedBatch) and self._was_planned(indices, samples) else None
        )
        with self._in_use, contextlib.nullcontext() if self._remote is None else self._remote.batch(look):
            if self._seeded is not None:
                self._begin_exact(indices, samples)
            trusts = not alone and self._trusts(look)
            evidence = self.evidence if trusts else None
            began = time.perf_counter_ns()
            if evidence is not None:
                evidence.begin_batch()
            if planned is not None and planned.claims is None and self._stages.decoded == 0:
                made = self._make_alone(samples, evidence)  # nothing is held, and nothing could be kept
                copies = None
            else:
                made, copies = self._make_here(samples, planned, trusts)
            if evidence is not None:
                evidence.end_batch(time.perf_counter_ns() - began, len(samples))
            if self._recorder is not None:
                self._recorder.served(indices, copies)
        stages: Stages = self.terms.stages
        if type(stages).present is Stages.present:
            return made
        stages = self._seeded or stages
        return [stages.present(sample, item) for sample, item in zip(samples, made, strict=True)]

    def _begin_exact(self, indices: Sequence[int], samples: list[int]) -> None:
        """Name the random numbers of a batch, and make sure that nothing else decides what its items are."""
        assert self._seeded is not None
        epoch = getattr(indices, "epoch", None)
        if epoch is None:
            raise ValueError(
                "share='exact' needs the seed and the number of the epoch, which nobody has told here: load "
                "with seneca.DataLoader and a batch_size, or give torch's a "
                "batch_sampler=seneca.OpportunisticBatchSampler"
            )
        if epoch != self._seeded.epoch:
            self._seeded.epoch = self._again.epoch = epoch
            self._worker.name_copies(self.terms.names_of_epoch(*epoch)[1])
        names = self.terms.names
        if samples and self._board.read(names) is Verdict.UNKNOWN:
            make = functools.partial(example_of, self.terms.stages, samples[0], Form.AUGMENTED)
            if stays_the_same(make, make(), attempts=2) is False:
                self._board.write(names, Verdict.UNPROVABLE, unstable_text(samples[0]))
        if self._board.read(names) is Verdict.UNPROVABLE:
            raise ValueError(
                f"share='exact' is not possible here, because {self._board.text}, though Python's, NumPy's "
                "and torch's generators are set alike; draw its numbers from these, or give another share"
            )

    def _trusts(self, look: int) -> bool:
        """Whether to take payloads from the cache, and leave any there."""
        if self._proof is None or self._segment is None:
            return True  # there is no cache
        if self._segment.distrusted:
            return False
        try:
            return self._proof.holds(look)
        except BlockingIOError:
            return False  # the next batch asks again

    @property
    def distrusted(self) -> bool:
        """Whether any job has found that payloads of the cache cannot be trusted."""
        return self._segment is not None and self._segment.distrusted

    def _note_difference(self, sample: int) -> None:
        self._counts[AT["different"]] += 1
        if self._recorder is not None:
            self._recorder.differed(sample)

    def _make_here(
        self, samples: list[int], planned: PlannedBatch | None, trusts: bool
    ) -> tuple[list[Any], np.ndarray | None]:
        row, generation = NONE, 0
        if planned is not None:
            row, generation = planned.row, planned.generation
        if planned is not None and planned.claims is not None:
            claims = planned.claims
        else:
            claims = np.zeros(len(samples), CLAIM)
            claims["sample"] = samples
            claims["slot"] = NONE
        places = self._worker.begin(claims, row, generation)[0]
        if _hold_nothing(places):
            return self._make_alone(samples, self.evidence if trusts else None), None
        batch = _Batch(self, samples, places, (row, generation))
        if not trusts:
            batch.take_nothing()
        elif self.evidence is not None and self.evidence.first:
            batch.take_only_what_was_made()
        try:
            return batch.make(), None if self._recorder is None else batch.copies()
        finally:
            batch.end()

    def _make_alone(self, samples: list[int], evidence: Evidence | None) -> list[Any]:
        """As a :class:`_Batch` without payloads to take or slots to fill, in less time."""
        made = self._stages.make(samples)
        learns = self.terms.shares and self.copy_bytes == 0
        for k, (sample, item) in enumerate(zip(samples, made, strict=True)):
            if type(item) is Private:
                made[k] = item.item
                continue
            began = time.perf_counter_ns()
            wants = evidence is not None and evidence.wants_made(sample, AUGMENTED)
            layout = self.lay_out(item) if wants or learns else None
            if layout is not None and learns:
                learns = False
                self._worker.begin(NO_CLAIMS)  # tells the size to all members that reserve room
            if evidence is not None and wants and layout is not None:
                evidence.made(sample, AUGMENTED, layout.digest(), began)
            if evidence is not None and evidence.first:
                evidence.make_sure(sample)
        self._counts[AT["storage"]] += len(made)
        self._counts[AT["prepared"]] += len(made)
        return made

    def lay_out(self, item: Any) -> items.Layout | None:
        """How an item will lie in a slot, and learn from it how much room items take.

        Returns:
            The layout; None: the item cannot be laid out, which is counted.
        """
        try:
            layout = items.lay_out(item)
        except items.Unsupported:
            self._counts[AT["unshared"]] += 1
            return None
        if layout.size_bytes > self.copy_bytes:
            self.copy_bytes = -(-layout.size_bytes // GRANULE) * GRANULE  # slots are made of whole granules
            self._worker.learn(self.copy_bytes)
        return layout

    def _was_planned(self, batch: PlannedBatch, samples: list[int]) -> bool:
        """Whether the sampler holds claims for these samples, by these terms."""
        if batch.names != self.terms.names:
            return False
        return batch.claims is None or np.array_equal(batch.claims["sample"], samples)


def _hold_nothing(places: np.ndarray) -> bool:
    """Whether all samples of a batch come from storage, and nothing of them goes to the cache."""
    is_used = any(places[name].any() for name in ("source", "keep", "awaited"))
    return not is_used and not (places["target_slot"] != NONE).any()


def _close(worker: Worker, cache: SampleCache | None, in_use: threading.Lock) -> None:
    """Close the worker before the cache, which this reference keeps.

    At the end of the process a daemon thread may be in the middle of a batch and stay there. Then the worker
    stays open, and its process's death frees what it holds.
    """
    if in_use.acquire(timeout=PATIENCE_S):
        try:
            worker.close()
        finally:
            in_use.release()


class _Batch:
    """One batch of a :class:`Preparer`: turns its places into items.

    Args:
        maker: The preparer.
        samples: Its samples.
        places: What serves each, and where its copy goes.
        member: Row and generation of the member that drew it; a row of NONE: nobody did.
    """

    def __init__(
        self, maker: Preparer, samples: list[int], places: np.ndarray, member: tuple[int, int]
    ) -> None:
        self._maker = maker
        self._member = member
        self._stages = cast(KeptStages, maker._stages)  # stages that keep nothing are asked for make() alone
        self._worker = maker._worker
        self._counts = dict.fromkeys(COUNTERS, 0)
        self._samples = samples
        self._places = places
        self._sources = places["source"].tolist()
        self._source_slots = places["source_slot"].tolist()
        self._keeps = places["keep"].tolist()
        # Slots that are reserved and not yet written, by place.
        self._targets = {k: slot for k, slot in enumerate(places["target_slot"].tolist()) if slot != NONE}
        self._offers: list[tuple[tuple[int, int, int, int, int], Any]] = []
        self._evidence = maker.evidence

    def make(self) -> list[Any]:
        """Make the item of every sample. Those that others are making come last."""
        made: list[Any] = [None] * len(self._samples)
        awaited = self._places["awaited"]
        if not awaited.any():
            self._make_some(range(len(made)), made)
        else:
            began, own = time.monotonic(), np.flatnonzero(awaited == 0).tolist()
            self._make_some(own, made)
            self._make_awaited(made, (time.monotonic() - began) / max(1, len(own)))
        if self._evidence is not None:
            self._counts["checked"] += self._evidence.compare_served()
            if any(self._sources) and self._maker.distrusted:
                self.take_nothing()
                self._make_some(range(len(made)), made)
        for source in self._sources:
            self._counts[COUNTERS[source]] += 1
        self._counts["prepared"] = len(made) - self._counts["augmented"]
        return made

    def _make_awaited(self, made: list[Any], item_s: float) -> None:
        """Take the copies that others are making, as they come; make what nobody makes soon enough."""
        worker, places, patience = self._worker, self._places, self._maker.patience
        patience.begin(item_s)
        worker.look_again(places, *self._member, takes_over=True)
        waiting = [k for k, item in enumerate(made) if item is None]
        while waiting:
            for k in waiting:
                if places["awaited"][k] and (written := worker.is_written(int(places["source_slot"][k]))):
                    places["awaited"][k] = 0
                    patience.came(int(places["peer"][k]))
                elif places["awaited"][k] and written is None:
                    self._make_apart(k)  # its maker could not make it
            ready = [k for k in waiting if not places["awaited"][k]]
            if not ready and patience.is_over(places["peer"][waiting].tolist()):
                ready = waiting[-1:]  # who makes these comes to it last
                self._make_apart(ready[0])
            elif ready:
                patience.begin(item_s)
            else:
                time.sleep(PAUSE_S)
            for k in ready:
                self._place_settled(k)
            self._make_some(ready, made)
            waiting = [k for k in waiting if k not in ready]

    def _make_apart(self, k: int) -> None:
        """Make a sample from storage and for nobody else. What it holds of another's copy stays held."""
        self._places["awaited"][k] = 0
        self._places["source"][k] = STORAGE

    def _place_settled(self, k: int) -> None:
        place = self._places[k]
        self._sources[k], self._keeps[k] = int(place["source"]), int(place["keep"])
        self._source_slots[k] = int(place["source_slot"])
        if place["target_slot"] != NONE:
            self._targets[k] = int(place["target_slot"])

    def _make_some(self, ks: Sequence[int], made: list[Any]) -> None:
        straight = []
        for k in ks:
            if self._sources[k] and self._maker.distrusted:
                break
            if self._sources[k] == AUGMENTED:
                try:
                    payload = self._worker.payload(self._source_slots[k])
                    if self._is_to_take(k, payload):
                        made[k] = items.read(payload)
                        continue
                except items.DamagedItem:
                    self._pass_over_cache(k)
                self._sources[k] = STORAGE
                straight.append(k)
            elif self._sources[k] == STORAGE and not self._keeps[k] and not self._wants_decoded(k):
                straight.append(k)
            else:
                made[k] = self._make_by_stages(k)
        if any(self._sources) and self._maker.distrusted:
            self.take_nothing()  # what was served earlier in this batch is dropped too
            straight = list(range(len(self._samples)))
        # Of exact copies each is left as soon as it is made: others may be waiting for it.
        size = 1 if self._maker.terms.exact else max(1, len(straight))
        for at in range(0, len(straight), size):
            some = straight[at : at + size]
            fresh = self._stages.make([self._samples[k] for k in some])
            for k, item in zip(some, fresh, strict=True):
                made[k] = self._took_item(k, item)

    def _took_item(self, k: int, item: Any) -> Any:
        """An item that was made here: stage it, unless its dataset has asked not to share it."""
        if type(item) is Private:
            return item.item
        self._stage(k, item)
        return item

    def take_only_what_was_made(self) -> None:
        """Make every sample from storage that this job has not yet made itself, and found equal."""
        assert self._evidence is not None
        forms = np.where(self._places["awaited"] != 0, AUGMENTED, self._places["source"]).tolist()
        for k, (sample, form) in enumerate(zip(self._samples, forms, strict=True)):
            if form != STORAGE and not self._evidence.may_take(sample, form):
                self._make_apart(k)
                self._sources[k] = STORAGE

    def take_nothing(self) -> None:
        """Make every sample from storage, and leave nothing for others."""
        self._sources = [STORAGE] * len(self._samples)
        self._keeps = [0] * len(self._samples)
        self._places["awaited"] = 0
        self._places["source"] = STORAGE
        self._offers.clear()
        for slot in self._targets.values():
            self._worker.abort(slot)
        self._targets.clear()

    def _is_to_take(self, k: int, payload: Any) -> bool:
        """Whether to be served this payload. Makes the sample again, if it is one of those to check."""
        sample, form, evidence = self._samples[k], self._sources[k], self._evidence
        if evidence is None:
            return True
        if evidence.first and not evidence.vouches(sample, form, payload):
            return False
        if evidence.is_to_check(sample, form):
            self._counts["checked"] += 1
            evidence.check(sample, form, payload)
        return True

    def copies(self) -> np.ndarray:
        """Slot, generation and form of each sample, for an audit. Call this before :meth:`end`."""
        copies = np.empty((len(self._samples), 3), np.uint32)
        for k, (source, place) in enumerate(zip(self._sources, self._places, strict=True)):
            slot = int(place["source_slot"] if source == AUGMENTED else place["target_slot"])
            copies[k] = slot, 0 if slot == NONE else self._worker.generation(slot), source
        return copies

    def _make_by_stages(self, k: int) -> Any:
        """Make an item from a kept payload, or from storage, and then offer what is worth keeping."""
        before = times_asked()
        item = self._made_by_stages(k)
        if times_asked() == before:
            self._stage(k, item)
        else:
            self._offers = [offer for offer in self._offers if offer[0][0] != self._samples[k]]
        return item

    def _made_by_stages(self, k: int) -> Any:
        sample, stages = self._samples[k], self._stages
        if self._sources[k] == DECODED:
            slot = self._source_slots[k]
            decoded = Payload(self._worker.payload(slot), *self._worker.picture_size(slot))
            if self._is_to_take(k, decoded.data):
                try:
                    return stages.augment(sample, decoded)
                except items.DamagedItem:
                    self._pass_over_cache(k)
        elif self._sources[k] == ENCODED:
            data = bytes(self._worker.payload(self._source_slots[k]))
            if self._is_to_take(k, data):
                try:
                    return stages.augment_encoded(sample, data)
                except Exception:
                    stored = stages.read_stored(sample)
                    if stored == data:
                        raise  # the fault is in the file or the transform, not in the cache
                    self._pass_over_cache(k)
                    return stages.augment_encoded(sample, stored)
        self._sources[k] = STORAGE
        return stages.from_file(sample, functools.partial(self._make_of_file, k))

    def _make_of_file(self, k: int, data: bytes) -> Any:
        sample, stages = self._samples[k], self._stages
        self._compare(sample, ENCODED, data)
        keeps, decoded = self._keeps[k], None
        if keeps == DECODED or self._wants_decoded(k):
            decoded = self._decode_to_keep(k, data)
        if decoded is None:
            item = stages.augment_encoded(sample, data)
        else:
            self._compare(sample, DECODED, decoded.data)
            item = stages.augment(sample, decoded)
        if keeps == DECODED and decoded is not None:
            self._offer(sample, DECODED, decoded)
        elif keeps:
            self._offer(sample, ENCODED, Payload(data, 0, 0))
        return item

    def _wants_decoded(self, k: int) -> bool:
        """Whether to compare a sample that is made from storage in the form DECODED too."""
        evidence = self._evidence
        return evidence is not None and evidence.wants_made(self._samples[k], DECODED)

    def _compare(self, sample: int, form: int, payload: Any) -> None:
        """Compare a payload that was made here, if there is time for that."""
        evidence = self._evidence
        began = time.perf_counter_ns()
        if evidence is not None and evidence.wants_made(sample, form):
            evidence.made(sample, form, digest_of_payload(form, payload), began)

    def _pass_over_cache(self, k: int) -> None:
        """Note that the payload of a place is damaged, and that the item is made from storage."""
        self._sources[k] = STORAGE
        self._counts["damaged"] += 1

    def _decode_to_keep(self, k: int, data: bytes) -> Payload | None:
        """The DECODED payload; None: it cannot be laid out, which is not tried again."""
        if not self._maker.keeps_decoded:
            return None
        try:
            return self._stages.decode(self._samples[k], data)
        except items.Unsupported:
            self._maker.keeps_decoded = False
            return None

    def _offer(self, sample: int, form: int, payload: Payload) -> None:
        if max(payload.height, payload.width) > MAX_SIDE or self._maker.changed_elsewhere():
            return
        self._offers.append(((sample, form, len(payload.data), payload.height, payload.width), payload.data))

    def _stage(self, k: int, item: Any) -> None:
        """Compare an item that was made here, and write it into the slot reserved for it.

        Without a slot, learn how much room an item takes.
        """
        evidence, sample, slot = self._evidence, self._samples[k], self._targets.get(k)
        began = time.perf_counter_ns()
        wants = evidence is not None and evidence.wants_made(sample, AUGMENTED)
        learns = self._maker.copy_bytes == 0 and self._maker.terms.shares
        layout = self._maker.lay_out(item) if wants or learns or slot is not None else None
        if evidence is not None and wants and layout is not None:
            evidence.made(sample, AUGMENTED, layout.digest(), began)
        if evidence is not None and evidence.first and self._sources[k] == STORAGE:
            evidence.make_sure(sample)
        if layout is None or slot is None or self._maker.distrusted:
            return
        room = self._worker.payload(slot)
        if layout.size_bytes <= len(room):
            layout.write(room)
            if self._maker.changed_elsewhere():
                return  # the item may be of the changed dataset; end() gives up the slot
            self._worker.commit(slot)
            del self._targets[k]
            self._counts["staged"] += 1

    def end(self) -> None:
        """Let go of all slots, whatever happened, and write the offered payloads that are accepted."""
        for slot in self._targets.values():
            self._worker.abort(slot)
        self._worker.done(self._places)
        # At once, because others lack the room that is held in vain.
        answers = self._worker.begin(NO_CLAIMS, offers=[offer for offer, _ in self._offers])[1]
        for answer, (_, data) in zip(answers, self._offers, strict=True):
            if answer is not None:
                slot, entry = answer
                self._worker.payload(slot)[:] = data
                self._worker.commit(slot)
                self._worker.offer_done(slot, entry)
        for k, name in enumerate(COUNTERS):
            self._maker._counts[k] += self._counts[name]
