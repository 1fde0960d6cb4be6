"""Makes items in a worker: reads payloads from the cache, and stores copies that other jobs need."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from seneca._core.member import CLAIM
from seneca._core.segment import NONE
from seneca._core.worker import Worker
from seneca._runtime.distributed import job_key
from seneca._runtime.finalizers import FIRST, PATIENCE_S, finalize
from seneca.audit.record import record_service
from seneca.cache import SampleCache
from seneca.data.stages import KeptStages, Pictures, Stages
from seneca.data.suspects import Suspects
from seneca.forms import Form
from seneca.workers.batch import BatchContext, Making
from seneca.workers.proof import (
    Evidence,
    Marks,
    Proof,
    ProofState,
    ProofTable,
    drawing,
    example_of,
    may_be_made_again,
    stays_the_same,
    unstable_text,
)
from seneca.workers.remote import RemoteStages, WorkersRemote
from seneca.workers.stages import AT, SeededStages, TimedItems, TimedStages, is_quicker_made
from seneca.workers.terms import PlannedBatch, Terms

__all__ = ["Preparer"]


class Preparer:
    """Makes items in this process, and holds their slots in the segment meanwhile.

    Args:
        terms: The terms by which this process shares.
        cache: The cache; None: nothing is shared.
        counts: The counters, in the order of :data:`COUNTERS`.
        table: What the processes of this dataset have found of its examples.
        marks: What the processes of this job have made themselves.
        vouched: Whether the user has given a key.
        check_every: One of so many served samples is made again and compared; None: none is.
        first: Whether a sample is taken from the cache only after this job has made it itself.
        changed: Says whether the dataset has changed since it was inspected.
        changed_elsewhere: Says whether another process may have changed it since.
        remote: The memory of other hosts, which is asked for files; None: there is none.
    """

    def __init__(
        self,
        terms: Terms,
        cache: SampleCache | None,
        counts: np.ndarray,
        *,
        table: ProofTable,
        marks: Marks,
        vouched: bool = False,
        check_every: int | None = None,
        first: bool = False,
        changed: Callable[[], bool] = bool,
        changed_elsewhere: Callable[[], bool] = bool,
        remote: WorkersRemote | None = None,
    ) -> None:
        self.pid = os.getpid()
        self._inspection: int | None = None  # the last for which a batch was made
        self._counts = counts
        self._remote = remote
        self.cache = cache
        self._segment = None if cache is None else cache.segment
        self._worker = Worker(
            self._segment,
            decoded=terms.stages.decoded,
            augmented=terms.stages.augmented,
            shares=terms.shares,
            keeps=terms.stages.decoded != 0,
            exact=terms.exact,
        )
        self._context = BatchContext(
            *(self._worker, self._segment, counts),
            make_room=_nothing if cache is None else cache.make_room,
            shares=terms.shares,
            exact=terms.exact,
            suspects=Suspects(marks.compared),
            changed_elsewhere=changed_elsewhere,
        )
        self._proof_table = table
        self._proof: Proof | None = None
        self._evidence: Evidence | None = None
        self.terms = terms
        if cache is not None:
            evidence = Evidence(
                *(terms, cache.segment, table, marks),
                check_every=check_every,
                first=first,
                differed=self._note_difference,
                has_changed=self._has_changed,
                changes=lambda: not vouched and changed(),
            )
            self._proof = Proof(*(terms, cache.segment, table, evidence), vouched=vouched, changed=changed)
            if may_be_made_again(terms):
                self._evidence = self._context.evidence = evidence
        self._in_use = threading.Lock()
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
        for one in (self._proof, self._evidence):
            if one is not None:
                one.terms = terms
        stages: Stages
        if isinstance(terms.stages, Pictures) and self._remote is not None:
            are_older = self._context.suspects.are_others_older
            stages = RemoteStages(terms.stages, self._counts, self._remote, terms.source, are_older)
        elif isinstance(terms.stages, KeptStages):
            stages = TimedStages(terms.stages, self._counts)
        else:
            stages = TimedItems(terms.stages, self._counts)
        self._seeded = None
        if terms.exact:
            stages = self._seeded = SeededStages(stages)
        self._context.stages, self._context.untimed = stages, terms.stages

    def make(self, indices: Sequence[int], inspection: int, *, alone: bool = False) -> list[Any]:
        """Make the items of a batch.

        Args:
            indices: The indices of its samples.
            inspection: The number of the inspection of the dataset that was made for the batch's epoch.
            alone: Whether to take nothing that others made, and to leave nothing for them.

        Raises:
            ValueError: Copies are to be exact, and the items cannot be; or nobody has named the epoch.
        """
        with drawing() if self.terms.exact else contextlib.nullcontext():
            return self._make_items(indices, inspection, alone)

    def _make_items(self, indices: Sequence[int], inspection: int, alone: bool) -> list[Any]:
        own = self.terms.own
        samples = list(indices) if own is None else [int(own[index]) for index in indices]
        planned = (
            indices if isinstance(indices, PlannedBatch) and self._was_planned(indices, samples) else None
        )
        with (
            self._in_use,
            contextlib.nullcontext() if self._remote is None else self._remote.batch(inspection),
        ):
            if self._seeded is not None:
                self._begin_exact(indices, samples)
            self._begin_inspection(inspection)
            self._context.make_room(len(samples) * self._context.copy_bytes)
            alone = alone or is_quicker_made(self.terms, self._counts)
            trusts = not alone and self._trusts(inspection)
            evidence = self._evidence if trusts else None
            began = time.perf_counter_ns()
            if evidence is not None:
                evidence.begin_batch()
            if planned is not None and planned.claims is None and self._context.stages.decoded == 0:
                made = self._context.make_alone(samples, evidence)  # nothing is held or could be kept
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
                "share='exact' needs the seed and the number of the epoch, which nobody has set here: load "
                "with seneca.DataLoader and a batch_size, or give torch's a "
                "batch_sampler=seneca.OpportunisticBatchSampler"
            )
        if epoch != self._seeded.epoch:
            self._seeded.epoch = epoch
            if self._evidence is not None:
                self._evidence.name_epoch(epoch)
            self._worker.name_copies(self.terms.names_of_epoch(*epoch)[1])
        names = self.terms.names
        if samples and self._proof_table.read(names) is ProofState.UNKNOWN:
            make = functools.partial(example_of, self.terms.stages, samples[0], Form.AUGMENTED)
            if stays_the_same(make, make(), attempts=2) is False:
                self._proof_table.write(names, ProofState.UNPROVABLE, unstable_text(samples[0]))
        if self._proof_table.read(names) is ProofState.UNPROVABLE:
            raise ValueError(
                f"share='exact' is not possible here, because {self._proof_table.text}, though Python's, "
                "NumPy's and torch's generators are set alike; draw its numbers from these, or give another "
                "share"
            )

    def _begin_inspection(self, inspection: int) -> None:
        """With the first batch of an epoch: find out of which samples the cache may hold what was before."""
        if inspection == self._inspection:
            return
        self._inspection = inspection
        if self._segment is not None and isinstance(self.terms.stages, Pictures):
            suspects = self._context.suspects
            suspects.begin(self.terms.stages.files, self._segment)
            self._worker.name_files(suspects.files_name)

    def is_outdated(self, inspection: int) -> bool:
        """Whether another cache is to be joined for the epoch of this inspection.

        It is if this one was given up in an earlier epoch, because it is of an earlier time than the files.
        """
        if self._segment is None or inspection == self._inspection or not self._segment.distrusted:
            return False
        why = self._segment.why_distrusted()
        return why is not None and why[3] == Form.STORAGE

    def _has_changed(self, sample: int) -> bool:
        """Whether a sample's file has changed since the cache was made, also in this epoch."""
        stages, has_changed = self.terms.stages, self._context.suspects.has_changed(sample)
        if has_changed or self._segment is None or not isinstance(stages, Pictures):
            return has_changed
        with contextlib.suppress(OSError):  # it has gone: whoever asks for it gets that error
            return 0 < self._segment.newest_ctime < stages.files.ctime(sample)
        return False

    def _trusts(self, inspection: int) -> bool:
        """Whether to take payloads from the cache, and leave any there."""
        if self._proof is None or self._segment is None:
            return True  # there is no cache
        if self._segment.distrusted:
            return False
        try:
            return self._proof.holds(inspection)
        except BlockingIOError:
            return False  # the next batch asks again

    @property
    def distrusted(self) -> bool:
        """Whether any job has found that payloads of the cache cannot be trusted."""
        return self._context.distrusted

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
            return self._context.make_alone(samples, self._evidence if trusts else None), None
        batch = Making(self._context, samples, places, (row, generation))
        if not trusts:
            batch.take_nothing()
        elif self._evidence is not None and self._evidence.first:
            batch.take_only_what_was_made()
        try:
            return batch.make(), None if self._recorder is None else batch.copies()
        finally:
            batch.end()

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


def _nothing(needed: int) -> None:
    """Without a cache there is no room to make."""
