"""The virtual clock: when each job asks for a batch, and when that batch is prepared.

A job asks for its next batch when it has consumed the last one. Then it draws until that batch and
``ahead`` more are under way. It waits until the batch is prepared, and consumes it. The job that asks first
draws first. Samples that are prepared by then have been committed.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from papers.simulate.host import Host
from papers.simulate.jobs import Job
from papers.simulate.outcome import Outcome, Tally
from papers.simulate.scenario import Scenario

FORMS = 4
AUGMENTED = 3

Delivered = Callable[[int, int, npt.NDArray[np.uint32], float], None]
"""``delivered(job, epoch, indices, time)``: a job gets a batch. Each job gets its batches in the order of
its epoch.

``job`` is the place in the scenario's jobs. ``indices`` is a uint32 array.
"""


@dataclass(eq=False)
class Batch:
    """The samples that one draw chose."""

    indices: npt.NDArray[np.uint32]
    forms: npt.NDArray[np.uint8]  # the form from which each is served
    handle: object = None  # for the policy's own use
    besides: int = 0  # samples that the policy prepares in advance, and no job waits for

    def __post_init__(self) -> None:
        self.misses = np.flatnonzero(self.forms != AUGMENTED)
        self.done: npt.NDArray[np.float64] = np.empty(0)  # when each miss is prepared
        self.reported = 0  # how many of these the policy knows


NOT_YET = Batch(np.empty(0, np.uint32), np.empty(0, np.uint8))
"""What a policy draws for a job that must wait until another job has drawn."""


class Policy(Protocol):
    """Chooses which samples are served. ``job`` is a number. One epoch of a job runs at a time."""

    def join(self, job: int) -> None: ...

    def leave(self, job: int) -> None: ...

    def begin(self, job: int, epoch: int) -> None: ...

    def end(self, job: int) -> None:
        """End the epoch. If it was broken off, samples that are not prepared by now never will be."""

    def draw(self, job: int, wanted: int) -> Batch | None:
        """Draw the next batch of at most ``wanted`` samples.

        None: all samples of the epoch are drawn. :data:`NOT_YET`: the job asks again when another job has
        drawn, has begun an epoch or has left.
        """

    def prepared(self, job: int, batch: Batch, first: int, end: int) -> None:
        """Note that ``batch.misses[first:end]`` are prepared."""


@dataclass(eq=False)
class _Running:
    job: Job
    rng: np.random.Generator
    epoch: int = 0
    under_way: deque[Batch] = field(default_factory=deque)
    delivered: int = 0
    stalled: float = 0.0
    here: bool = False
    held_since: float | None = None  # when it asked for what the policy lets it wait for


class _Clock:
    def __init__(self, scenario: Scenario, policy: Policy) -> None:
        jobs = scenario.jobs
        streams = np.random.SeedSequence(scenario.seed).spawn(len(jobs))
        self.scenario = scenario
        self.running = [_Running(job, np.random.default_rng(s)) for job, s in zip(jobs, streams, strict=True)]
        self.policy = policy
        self.host = Host(scenario.prepared_per_time, scenario.threads)
        self.tally = Tally([job.samples for job in jobs], scenario.n_samples)
        self.preparing: deque[tuple[int, int, Batch]] = deque()  # job, epoch, batch: in order
        self.served = np.zeros(FORMS, np.int64)
        self.besides = 0
        self.moved = False  # whether a job has drawn, begun an epoch or left since this was last asked

    def settle(self, now: float) -> None:
        """Report to the policy what has been prepared by now."""
        while self.preparing:
            number, epoch, batch = self.preparing[0]
            runs = self.running[number]
            ready = int(np.searchsorted(batch.done, now, "right"))
            if runs.here and runs.epoch == epoch and ready > batch.reported:
                self.policy.prepared(number, batch, batch.reported, ready)
            batch.reported = ready
            if ready < len(batch.done):
                return
            self.preparing.popleft()

    def begin(self, number: int) -> None:
        self.policy.begin(number, self.running[number].epoch)
        self.moved = True

    def draw(self, number: int, now: float) -> None:
        runs = self.running[number]
        while len(runs.under_way) <= self.scenario.ahead:
            batch = self.policy.draw(number, self.scenario.batch)
            if batch is NOT_YET and not runs.under_way and runs.held_since is None:
                runs.held_since = now
            if batch is None or batch is NOT_YET:
                return
            self.moved = True
            runs.under_way.append(batch)
            self.served += np.bincount(batch.forms, minlength=FORMS)
            self.besides += batch.besides
            batch.done = self.host.prepare(now, len(batch.misses))
            self.host.prepare(now, batch.besides)
            if len(batch.misses):
                self.preparing.append((number, runs.epoch, batch))

    def forget(self) -> None:
        """Start counting anew."""
        self.served[:] = 0
        self.besides = 0
        self.tally.forget()

    def leave(self, number: int) -> None:
        runs = self.running[number]
        self.policy.end(number)
        self.policy.leave(number)
        runs.here = False
        self.moved = True
        runs.under_way.clear()
        self.tally.next_stretch()


def run(scenario: Scenario, policy: Policy, delivered: Delivered | None = None) -> Outcome:
    """Run the jobs of a scenario over ``policy``. ``delivered`` is called for each batch that a job gets.

    Raises:
        ValueError: Not every job completes the epochs that are not to be counted.
    """
    jobs, warm = scenario.jobs, scenario.warm
    clock = _Clock(scenario, policy)
    tally = clock.tally
    asking = [(job.start, number) for number, job in enumerate(jobs)]
    heapq.heapify(asking)
    waiting: deque[int] = deque()
    held: list[int] = []  # jobs that the policy lets wait for another job
    attached = 0
    now = 0.0

    while asking or held:
        if clock.moved:
            for number in held:
                heapq.heappush(asking, (now, number))
            held.clear()
        clock.moved = False
        if not asking:
            raise RuntimeError(f"the policy lets all jobs wait for each other: {held}")
        now, number = heapq.heappop(asking)
        runs = clock.running[number]
        job = runs.job
        clock.settle(now)
        if warm and all(other.epoch >= warm for other in clock.running):
            clock.forget()
            warm = 0
        if not runs.here:
            if attached == scenario.places:
                waiting.append(number)
                continue
            attached += 1
            tally.next_stretch()
            policy.join(number)
            runs.here = True
            clock.begin(number)
        gone = job.end is not None and now >= job.end
        if not gone:
            clock.draw(number, now)
            if not runs.under_way and runs.held_since is None:  # the epoch is over
                runs.epoch += 1
                gone = runs.epoch == job.epochs
                if not gone:
                    policy.end(number)
                    clock.begin(number)
                    clock.draw(number, now)
        if gone:
            clock.leave(number)
            attached -= 1
            if waiting:
                heapq.heappush(asking, (now, waiting.popleft()))
            continue
        if not runs.under_way:
            held.append(number)
            continue

        front = runs.under_way.popleft()
        ready = max(now, float(front.done[-1])) if len(front.done) else now
        runs.stalled += ready - (now if runs.held_since is None else runs.held_since)
        runs.held_since = None
        runs.delivered += len(front.indices)
        tally.consume(number, front.indices)
        if delivered is not None:
            delivered(number, runs.epoch, front.indices, ready)
        step = len(front.indices) / (job.speed * scenario.n_samples)
        if job.jitter:
            step *= runs.rng.gamma(job.jitter**-2, job.jitter**2)
        heapq.heappush(asking, (ready + step, number))

    if warm:
        raise ValueError(f"not every job has completed {warm} epochs, so nothing was counted")
    storage, encoded, decoded, augmented = clock.served.tolist()
    return Outcome(
        bound=tally.bound,
        served=(storage, encoded, decoded, augmented),
        besides=clock.besides,
        delivered=tuple(runs.delivered for runs in clock.running),
        epochs=tuple(runs.epoch for runs in clock.running),
        stalled=tuple(runs.stalled for runs in clock.running),
        time=now,
    )
