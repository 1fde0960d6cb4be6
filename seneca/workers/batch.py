"""Makes the items of one batch, from what serves each of its samples.

::

    begin --> places: what serves each sample, where its copy goes --> items
                    |
                    |  AUGMENTED: read
                    |  DECODED, ENCODED: the stages from there on
                    |  storage: all stages, and what is worth keeping is offered
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from seneca._core.member import CLAIM
from seneca._core.segment import GRANULE, NONE, Segment
from seneca._core.worker import Worker
from seneca.data import serialize as items
from seneca.data.private import Private, times_asked
from seneca.data.stages import KeptStages, Payload, Stages
from seneca.data.suspects import Suspects
from seneca.forms import Form
from seneca.workers.copy_wait import CopyWait
from seneca.workers.proof import Evidence, compare_served, digest_of_payload
from seneca.workers.stages import AT, COUNTERS

__all__ = ["NO_CLAIMS", "BatchContext", "Making"]

STORAGE, ENCODED, DECODED, AUGMENTED = map(int, (Form.STORAGE, Form.ENCODED, Form.DECODED, Form.AUGMENTED))
NAMES = {int(form): form.name.lower() for form in Form}
MAX_SIDE = 2**16 - 1  # the longest side of a picture that a slot's record can hold
NO_CLAIMS = np.zeros(0, CLAIM)
PAUSE_S = 0.001  # between two checks for a copy that another job is writing


class BatchContext:
    """The state that all batches of one process share.

    Args:
        worker: ValueKind the slots of this process.
        segment: The segment of the cache; None: there is none.
        counts: The counters, in the order of :data:`COUNTERS`.
        make_room: See :meth:`seneca.SampleCache.make_room`.
        shares: Whether items are shared, and not only what they are made of.
        exact: Whether copies are exact.
        suspects: The samples whose files may have changed since the cache was made.
        changed_elsewhere: Returns whether another process may have changed the dataset since then.

    Attributes:
        stages: What makes the items.
        untimed: The same for comparisons, which are not counted.
        evidence: Compares what is made; None: nothing is compared.
        copy_wait: How long to wait for the copies of others.
        copy_bytes: The most room that an item of this dataset has needed.
        keeps_decoded: Whether DECODED payloads can be laid out, as far as is known.
    """

    stages: Stages
    untimed: Stages

    def __init__(
        self,
        worker: Worker,
        segment: Segment | None,
        counts: np.ndarray,
        *,
        make_room: Callable[[int], None],
        shares: bool,
        exact: bool,
        suspects: Suspects,
        changed_elsewhere: Callable[[], bool],
    ) -> None:
        self.worker, self.counts, self._segment = worker, counts, segment
        self.make_room = make_room
        self.shares, self.exact, self.suspects = shares, exact, suspects
        self.changed_elsewhere = changed_elsewhere
        self.evidence: Evidence | None = None
        self.copy_wait = CopyWait()
        self.copy_bytes = 0
        self.keeps_decoded = True

    @property
    def distrusted(self) -> bool:
        """Whether any job has found that payloads of the cache cannot be trusted."""
        return self._segment is not None and self._segment.distrusted

    def give_up(self, sample: int) -> None:
        """The cache holds a sample as it was before its file changed: all jobs of it begin another."""
        if self._segment is not None:
            self._segment.distrust(sample, STORAGE)

    def make_alone(self, samples: list[int], evidence: Evidence | None) -> list[Any]:
        """As a :class:`Making` without payloads to take or slots to fill, in less time."""
        made = self.stages.make(samples)
        self.counts[AT["storage"]] += len(made)
        self.counts[AT["prepared"]] += len(made)
        learns = self.shares and self.copy_bytes == 0
        compares = evidence is not None and evidence.wants_some_made(AUGMENTED)
        if not learns and not compares and Private not in map(type, made):
            return made
        for k, (sample, item) in enumerate(zip(samples, made, strict=True)):
            if type(item) is Private:
                made[k] = item.item
                continue
            began = time.perf_counter_ns()
            wants = evidence is not None and evidence.wants_made(sample, AUGMENTED)
            layout = self.lay_out(item) if wants or learns else None
            if layout is not None and learns:
                learns = False
                self.worker.begin(NO_CLAIMS)  # publishes the size to all members that reserve room
            if evidence is not None and wants and layout is not None:
                evidence.made(sample, AUGMENTED, layout.digest(), began)
            if evidence is not None and evidence.first:
                evidence.make_sure(sample)
        return made

    def lay_out(self, item: Any) -> items.Layout | None:
        """The layout of an item in a slot; learn from it how much room items take.

        Returns:
            The layout; None: the item cannot be laid out, which is counted.
        """
        try:
            layout = items.lay_out(item)
        except items.Unsupported:
            self.counts[AT["unshared"]] += 1
            return None
        if layout.size_bytes > self.copy_bytes:
            self.copy_bytes = -(-layout.size_bytes // GRANULE) * GRANULE  # slots are made of whole granules
            self.worker.learn(self.copy_bytes)
        return layout


class Making:
    """Turns the places of one batch into items.

    Args:
        context: What it has in common with other batches.
        samples: Its samples.
        places: What serves each, and where its copy goes.
        member: Row and generation of the member that drew it; a row of NONE: nobody did.
    """

    def __init__(
        self, context: BatchContext, samples: list[int], places: np.ndarray, member: tuple[int, int]
    ) -> None:
        self._context = context
        self._member = member
        self._stages = cast(KeptStages, context.stages)  # stages that keep nothing are asked for make() alone
        self._worker = context.worker
        self._counts = dict.fromkeys(COUNTERS, 0)
        self._samples = samples
        self._places = places
        self._sources = places["source"].tolist()
        self._source_slots = places["source_slot"].tolist()
        self._keeps = places["keep"].tolist()
        # Slots that are reserved and not yet written, by place.
        self._targets = {k: slot for k, slot in enumerate(places["target_slot"].tolist()) if slot != NONE}
        self._offers: list[tuple[tuple[int, int, int, int, int], Any]] = []
        self._evidence = context.evidence

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
            if any(self._sources) and self._context.distrusted:
                self.take_nothing()
                self._make_some(range(len(made)), made)
        for source in self._sources:
            self._counts[NAMES[source]] += 1
        self._counts["prepared"] = len(made) - self._counts["augmented"]
        return made

    def _make_awaited(self, made: list[Any], item_s: float) -> None:
        """Take the copies that others are making, as they come; make what nobody makes soon enough."""
        worker, places, copy_wait = self._worker, self._places, self._context.copy_wait
        waiting = np.flatnonzero(places["awaited"]).tolist()  # an item that is made may be None
        copy_wait.begin(item_s)
        worker.check_awaited(places, *self._member, takes_over=True)
        while waiting:
            for k in waiting:
                if places["awaited"][k] and (written := worker.is_written(int(places["source_slot"][k]))):
                    places["awaited"][k] = 0
                    copy_wait.came(int(places["peer"][k]))
                elif places["awaited"][k] and written is None:
                    self._make_apart(k)  # its maker could not make it
            ready = [k for k in waiting if not places["awaited"][k]]
            if not ready and copy_wait.is_over(places["peer"][waiting].tolist()):
                ready = waiting[-1:]  # who makes these comes to it last
                self._make_apart(ready[0])
            elif ready:
                copy_wait.begin(item_s)
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
            if self._sources[k] and self._context.distrusted:
                break
            if self._sources[k] == AUGMENTED:
                try:
                    payload = self._worker.payload(self._source_slots[k])
                    if self._is_to_take(k, payload):
                        began = time.thread_time_ns()
                        made[k] = items.read(payload)
                        self._counts["take_ns"] += time.thread_time_ns() - began
                        continue
                except items.DamagedItem:
                    self._pass_over_cache(k)
                self._sources[k] = STORAGE
                straight.append(k)
            elif self._sources[k] == STORAGE and not self._keeps[k] and not self._wants_decoded(k):
                straight.append(k)
            else:
                made[k] = self._make_by_stages(k)
        if any(self._sources) and self._context.distrusted:
            self.take_nothing()  # what was served earlier in this batch is dropped too
            straight = list(range(len(self._samples)))
        # Of exact copies each is left as soon as it is made: others may be waiting for it.
        size = 1 if self._context.exact else max(1, len(straight))
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
        if self._context.suspects.has(sample) and not self._is_as_its_file(k, payload):
            return False
        if evidence is None:
            return True
        if evidence.first and not evidence.vouches(sample, form, payload):
            return False
        if evidence.is_to_check(sample, form):
            self._counts["checked"] += 1
            evidence.check(sample, form, payload)
        return True

    def _is_as_its_file(self, k: int, payload: Any) -> bool:
        """Whether a payload is what a sample's file comes to now, which has changed since the cache was made.

        A copy is if its writer had seen the change before.
        """
        context, sample, form = self._context, self._samples[k], self._sources[k]
        if form == AUGMENTED:
            return self._worker.files_name(self._source_slots[k]) == context.suspects.files_name
        self._counts["checked"] += 1
        same = compare_served(context.untimed, sample, form, digest_of_payload(form, payload))
        if same:
            context.suspects.clear(sample)
        elif same is False:
            context.give_up(sample)
        return bool(same)

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
        if not self._context.keeps_decoded:
            return None
        try:
            return self._stages.decode(self._samples[k], data)
        except items.Unsupported:
            self._context.keeps_decoded = False
            return None

    def _offer(self, sample: int, form: int, payload: Payload) -> None:
        if max(payload.height, payload.width) > MAX_SIDE or self._context.changed_elsewhere():
            return
        self._offers.append(((sample, form, len(payload.data), payload.height, payload.width), payload.data))

    def _stage(self, k: int, item: Any) -> None:
        """Compare an item that was made here, and write it into the slot reserved for it.

        Without a slot, learn how much room an item takes.
        """
        evidence, sample, slot = self._evidence, self._samples[k], self._targets.get(k)
        began, cpu = time.perf_counter_ns(), time.thread_time_ns()
        wants = evidence is not None and evidence.wants_made(sample, AUGMENTED)
        learns = self._context.copy_bytes == 0 and self._context.shares
        layout = self._context.lay_out(item) if wants or learns or slot is not None else None
        laid_out = time.thread_time_ns()
        if evidence is not None and wants and layout is not None:
            evidence.made(sample, AUGMENTED, layout.digest(), began)
        if evidence is not None and evidence.first and self._sources[k] == STORAGE:
            evidence.make_sure(sample)
        if layout is None or slot is None or self._context.distrusted:
            return
        writes = time.thread_time_ns()
        room = self._worker.payload(slot)
        if layout.size_bytes <= len(room):
            layout.write(room)
            if self._context.changed_elsewhere():
                return  # the item may be of the changed dataset; end() gives up the slot
            self._worker.commit(slot)
            del self._targets[k]
            self._counts["staged"] += 1
            self._counts["stage_ns"] += laid_out - cpu + time.thread_time_ns() - writes

    def end(self) -> None:
        """Let go of all slots, whatever happened, and write the offered payloads that are accepted."""
        for slot in self._targets.values():
            self._worker.abort(slot)
        self._worker.done(self._places)
        self._context.make_room(sum(len(data) for _, data in self._offers))
        # At once, because others lack the room that is held in vain.
        answers = self._worker.begin(NO_CLAIMS, offers=[offer for offer, _ in self._offers])[1]
        for answer, (_, data) in zip(answers, self._offers, strict=True):
            if answer is not None:
                slot, entry = answer
                self._worker.payload(slot)[:] = data
                self._worker.commit(slot)
                self._worker.offer_done(slot, entry)
        for k, name in enumerate(COUNTERS):
            self._context.counts[k] += self._counts[name]
