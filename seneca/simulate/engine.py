"""The loader's own core as a policy: members that draw from a real segment, in one process.

Each job has a handle of its own on the segment (as processes have: locks and proof of life go by the
handle), and each of its epochs a member, as an iterator has. What the pool would do is left out: nothing
is read, decoded or written. A copy takes one granule.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import posix_ipc

from seneca._core import store
from seneca.simulate.clock import AUGMENTED, Batch, Delivered, run
from seneca.simulate.jobs import Job
from seneca.simulate.outcome import Outcome

SIDE = 16  # of a copy's pixels: less than a granule
KEPT_BYTES = 1000  # of a payload that is kept: likewise
ENCODED = 1
PIPELINE = 2


class Engine:
    """The real draw, for :func:`seneca.simulate.run`. A context manager: leaving removes the segment.

    Args:
        jobs: Who they are.
        n_samples: Of the dataset.
        stage: Augmented copies that there is room for.
        kept: Encoded payloads that there is room for, besides.
        batch, ahead: As :func:`simulate`'s.
        seed: Of the orders.
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        n_samples: int,
        *,
        stage: int,
        kept: int,
        batch: int,
        ahead: int,
        seed: int = 0,
    ) -> None:
        self._jobs = jobs
        self._n_samples = n_samples
        self._in_flight = batch * (ahead + 1)
        self._kept = kept
        self._bytes = (stage + kept) * store.GRANULE
        share = round(10000 * kept / (stage + kept))
        self._split = (0, share, 0, 10000 - share)
        self._seeds = np.random.SeedSequence(seed).generate_state(len(jobs), np.uint64)
        self.name = f"/seneca-{os.geteuid()}-simulated-{secrets.token_hex(6)}"
        self._handles: dict[int, store.Segment] = {}
        self._members: dict[int, store.Member] = {}
        self._unsettled: dict[int, list[npt.NDArray[np.void]]] = {}
        self._offers: dict[int, list[tuple[int, int, int, int, int]]] = {}
        self._anchor = self._attach(0)  # keeps the segment while nobody is there

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        for member in self._members.values():
            member.close()
        for handle in [*self._handles.values(), self._anchor]:
            handle.close()
        with contextlib.suppress(posix_ipc.ExistentialError):
            posix_ipc.unlink_shared_memory(self.name)

    def _attach(self, job_key: int) -> store.Segment:
        while True:
            fd = posix_ipc.SharedMemory(self.name, posix_ipc.O_CREAT, mode=0o600).fd
            try:
                return store.Segment(
                    fd,
                    self.name,
                    b"a virtual clock.",
                    self._n_samples,
                    self._bytes,
                    keep=False,
                    job_key=job_key,
                    split=self._split,
                )
            except (store.Unlinked, BlockingIOError):
                continue  # a loader of this user's swept it away before it had a row

    def check(self) -> str | None:
        """Hold what the engine derived against a rebuild; None, or the difference. For tests."""
        return self._anchor.check()

    def join(self, job: int) -> None:
        self._handles[job] = self._attach(job + 1)

    def leave(self, job: int) -> None:
        self._handles.pop(job).close()

    def begin(self, job: int, epoch: int) -> None:
        who = self._jobs[job]
        self._unsettled[job] = []
        self._offers[job] = []
        self._members[job] = store.Member(
            self._handles[job],
            n_samples=self._n_samples,
            samples=who.samples,
            places=self._n_samples if who.samples is None else len(who.samples),
            seed=int(self._seeds[job]) if who.seed is None else who.seed,
            epoch=epoch,
            fixed=False,
            decoded=1,
            augmented=PIPELINE,
            height=SIDE,
            width=SIDE,
            in_flight=self._in_flight,
            shares=True,
            keeps=self._kept > 0,
            substitutes=True,
        )

    def end(self, job: int) -> None:
        member = self._members.pop(job)
        if self._offers[job]:
            self._keep(job, member, member.draw(0, self._offers[job])[1])
        member.close()  # what it still reserves was never written, and is freed

    def draw(self, job: int, wanted: int) -> Batch | None:
        member = self._members[job]
        for items in self._unsettled[job]:
            member.done(items)
        self._unsettled[job].clear()
        if member.left == 0:
            return None
        items, slots, private = member.draw(wanted, self._offers[job])
        if private:
            raise RuntimeError("a draw did not get the lock, in a simulation of one process")
        self._keep(job, member, slots)
        batch = Batch(items["sample"], items["source"], items)
        staged = items[batch.forms == AUGMENTED]
        if len(staged):
            self._unsettled[job].append(staged)
        return batch

    def prepared(self, job: int, batch: Batch, first: int, end: int) -> None:
        member = self._members[job]
        items: npt.NDArray[np.void] = batch.handle  # type: ignore[assignment]
        settled = items[batch.misses[first:end]]
        for slot in settled["target_slot"].tolist():
            if slot != store.NONE:
                member.commit(slot)
        self._unsettled[job].append(settled)
        if self._kept:
            worth = settled["sample"][settled["keep"] == ENCODED].tolist()
            self._offers[job] += [(sample, ENCODED, KEPT_BYTES, 0, 0) for sample in worth]

    def _keep(self, job: int, member: store.Member, answers: list[tuple[int, int] | None]) -> None:
        self._offers[job].clear()
        for answer in answers:
            if answer is not None:
                member.commit(answer[0])
                member.offer_done(*answer)


def simulate(
    jobs: Sequence[Job],
    n_samples: int,
    *,
    stage: int,
    kept: int = 0,
    batch: int = 64,
    ahead: int = 2,
    preparing: float = 0.5,
    threads: int = 8,
    at_once: int | None = None,
    count_from: float = 0.0,
    seed: int = 0,
    delivered: Delivered | None = None,
) -> Outcome:
    """Run jobs over the real engine, under a virtual clock.

    Preparing takes time: the host prepares ``preparing`` times as many samples a unit of time as the
    jobs would consume together if they never waited (of ``at_once`` jobs the fastest count), in the order in
    which they were drawn, on ``threads`` threads; a batch is ready when its last sample is. At 0.5 jobs
    that do not share wait half of their time. Equal arguments give equal outcomes.

    Args:
        jobs: Who they are; in one process here, but each with a handle of its own.
        n_samples: Of the dataset.
        stage: Augmented copies that there is room for; twice what all have in flight is given in any case
            as far as ``stage + kept`` goes.
        kept: Encoded payloads that there is room for, besides.
        batch: Samples in a batch.
        ahead: Batches under way beyond the one that is asked for.
        preparing: What the host prepares, as a share of what the jobs want to consume.
        threads: Of the host, for all jobs.
        at_once: Jobs that run at a time; who comes when all places are taken waits. None: all.
        count_from: What was drawn before this time is not counted, as with a warm cache.
        seed: Of orders and jitter.
        delivered: Called with ``(job, epoch, indices, time)`` for each batch that a job is given, in
            the order of its epoch; ``job`` is the place in ``jobs``, ``indices`` a uint32 array.

    Returns:
        The counts, and sharing efficiency.
    """
    with Engine(jobs, n_samples, stage=stage, kept=kept, batch=batch, ahead=ahead, seed=seed) as engine:
        return run(
            jobs,
            n_samples,
            engine,
            batch=batch,
            ahead=ahead,
            preparing=preparing,
            threads=threads,
            at_once=at_once,
            count_from=count_from,
            seed=seed,
            delivered=delivered,
        )
