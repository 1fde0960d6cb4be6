"""The loader's own core as a policy: members that draw from a real segment, in one process.

Each job has its own handle on the segment, because locks and proof of life belong to a handle. Each epoch
of a job has a member, as an iterator has. The work of the pool is left out: nothing is read, decoded or
written. A copy takes one granule.
"""

from __future__ import annotations

import contextlib
import os
import secrets

import numpy as np
import numpy.typing as npt

from papers.simulate.clock import AUGMENTED, Batch, Delivered, run
from papers.simulate.outcome import Outcome
from papers.simulate.scenario import Scenario
from seneca._core.codes import Unlinked
from seneca._core.member import Member
from seneca._core.segment import GRANULE, NONE, Segment
from seneca._runtime.regular_files import above_standard
from seneca._runtime.segment_folder import fault_of, segment_folder
from seneca.errors import SegmentFolderError

SIDE = 16  # height and width of a copy, which needs less than a granule
KEPT_BYTES = 1000  # size of a kept payload, less than a granule
ENCODED = 1
PIPELINE = 2


class Engine:
    """The real draw, for :func:`simulate.run`. It is a context manager: leaving it removes the
    segment.

    Args:
        scenario: The jobs and their dataset.
        stage: The number of AUGMENTED copies that have room. The stage gets at least twice what all jobs
            have in flight, as far as ``stage + kept`` goes. With 0 nothing is staged, and the jobs share
            only what is kept.
        kept: The number of ENCODED payloads that have room, besides.

    Raises:
        ValueError: ``stage`` or ``kept`` is below 0.
        SegmentFolderError: ``SENECA_DIR`` names a folder in which no segment can lie.
    """

    def __init__(self, scenario: Scenario, *, stage: int, kept: int = 0) -> None:
        if stage < 0 or kept < 0:
            raise ValueError(f"stage and kept are at least 0, but got {stage} and {kept}")
        self._jobs = jobs = scenario.jobs
        self._n_samples = scenario.n_samples
        self._in_flight = scenario.batch * (scenario.ahead + 1)
        self._stage, self._kept = stage, kept
        room = max(1, stage + kept)  # a segment cannot be empty
        self._bytes = room * GRANULE
        share = round(10000 * kept / room)
        self._split = (0, share, 0, 10000 - share, 0)
        self._seeds = np.random.SeedSequence(scenario.seed).generate_state(len(jobs), np.uint64)
        folder = segment_folder()
        if (fault := fault_of(folder)) is not None:
            raise SegmentFolderError(str(fault))
        self.path = os.path.join(folder, f"seneca-{os.geteuid()}-simulated-{secrets.token_hex(6)}")
        self._handles: dict[int, Segment] = {}
        self._members: dict[int, Member] = {}
        self._unsettled: dict[int, list[npt.NDArray[np.void]]] = {}
        self._offers: dict[int, list[tuple[int, int, int, int, int]]] = {}
        self._anchor = self._attach(0)  # keeps the segment while no job is attached

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        for member in self._members.values():
            member.close()
        for handle in [*self._handles.values(), self._anchor]:
            handle.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)

    def _attach(self, job_key: int) -> Segment:
        while True:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            fd = above_standard(os.open(self.path, flags, 0o600))
            try:
                return Segment(
                    fd,
                    self.path,
                    b"a virtual clock.",
                    self._n_samples,
                    self._bytes,
                    keep=0,
                    job_key=job_key,
                    split=self._split,
                )
            except (Unlinked, BlockingIOError):
                continue  # a loader of this user swept the segment before it had a row

    def check(self) -> str | None:
        """Compare the engine's derived records with a rebuild. Returns None or the difference. For tests."""
        return self._anchor.check()

    def join(self, job: int) -> None:
        self._handles[job] = self._attach(job + 1)

    def leave(self, job: int) -> None:
        self._handles.pop(job).close()

    def begin(self, job: int, epoch: int) -> None:
        who = self._jobs[job]
        self._unsettled[job] = []
        self._offers[job] = []
        self._members[job] = Member(
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
            shares=self._stage > 0 and not who.fixed_order,
            keeps=self._kept > 0,
            substitutes=not who.fixed_order,
        )

    def end(self, job: int) -> None:
        member = self._members.pop(job)
        if self._offers[job]:
            self._keep(job, member, member.draw(0, self._offers[job])[1])
        member.close()  # slots that it still reserves were never written, and are freed

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
            if slot != NONE:
                member.commit(slot)
        self._unsettled[job].append(settled)
        if self._kept:
            worth = settled["sample"][settled["keep"] == ENCODED].tolist()
            self._offers[job] += [(sample, ENCODED, KEPT_BYTES, 0, 0) for sample in worth]

    def _keep(self, job: int, member: Member, answers: list[tuple[int, int] | None]) -> None:
        self._offers[job].clear()
        for answer in answers:
            if answer is not None:
                member.commit(answer[0])
                member.offer_done(*answer)


def simulate(scenario: Scenario, *, stage: int, kept: int = 0, delivered: Delivered | None = None) -> Outcome:
    """Run a scenario over the real engine, under a virtual clock.

    Args:
        scenario: The jobs, their dataset and host.
        stage, kept: Room for AUGMENTED copies and for ENCODED payloads, as in :class:`Engine`.
        delivered: Called with ``(job, epoch, indices, time)`` for each batch that a job gets.

    Returns:
        The counts, and the sharing efficiency.
    """
    with Engine(scenario, stage=stage, kept=kept) as engine:
        return run(scenario, engine, delivered)
