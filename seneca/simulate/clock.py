"""The virtual clock: who asks for a batch when, and when what was drawn for it is prepared.

A job asks for its next batch when it has consumed the last. Then it draws until that batch and
``ahead`` more are under way, waits until the batch is prepared, and consumes it. Who asks first draws first;
what is prepared by then has been committed.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from seneca.simulate.host import Host
from seneca.simulate.jobs import Job
from seneca.simulate.outcome import Outcome, Tally

FORMS = 4
AUGMENTED = 3

Delivered = Callable[[int, int, npt.NDArray[np.uint32], float], None]
"""``delivered(job, epoch, indices, time)``: job ``job`` is given a batch, each job its own in order."""


@dataclass(eq=False)
class Batch:
    """What one draw chose."""

    indices: npt.NDArray[np.uint32]
    forms: npt.NDArray[np.uint8]  # what each is served from
    handle: object = None  # the policy's own
    besides: int = 0  # samples that the policy prepares in advance, which nobody waits for

    def __post_init__(self) -> None:
        self.misses = np.flatnonzero(self.forms != AUGMENTED)
        self.done: npt.NDArray[np.float64] = np.empty(0)  # when each miss is prepared
        self.told = 0  # how many of these the policy knows of


class Policy(Protocol):
    """Chooses what is served. ``job`` is a number; one epoch of a job runs at a time."""

    def join(self, job: int) -> None: ...

    def leave(self, job: int) -> None: ...

    def begin(self, job: int, epoch: int) -> None: ...

    def end(self, job: int) -> None:
        """The epoch is over; where it was broken off, what is not prepared will never be."""

    def draw(self, job: int, wanted: int) -> Batch | None:
        """The next batch of at most ``wanted``; None: the epoch is drawn through."""

    def prepared(self, job: int, batch: Batch, first: int, end: int) -> None:
        """The misses ``first`` to ``end`` of a batch are prepared, as these lie in ``batch.misses``."""


@dataclass(eq=False)
class _Running:
    job: Job
    rng: np.random.Generator
    epoch: int = 0
    under_way: deque[Batch] = field(default_factory=deque)
    delivered: int = 0
    stalled: float = 0.0
    here: bool = False


class _Clock:
    def __init__(self, jobs: Sequence[Job], policy: Policy, host: Host, tally: Tally, seed: int) -> None:
        streams = np.random.SeedSequence(seed).spawn(len(jobs))
        self.running = [_Running(job, np.random.default_rng(s)) for job, s in zip(jobs, streams, strict=True)]
        self.policy = policy
        self.host = host
        self.tally = tally
        self.preparing: deque[tuple[int, int, Batch]] = deque()  # job, its epoch; done in this order
        self.served = np.zeros(FORMS, np.int64)
        self.preparations = 0

    def settle(self, now: float) -> None:
        """Tell the policy what has been prepared by now."""
        while self.preparing:
            number, epoch, batch = self.preparing[0]
            runs = self.running[number]
            ready = int(np.searchsorted(batch.done, now, "right"))
            if runs.here and runs.epoch == epoch and ready > batch.told:
                self.policy.prepared(number, batch, batch.told, ready)
            batch.told = ready
            if ready < len(batch.done):
                return
            self.preparing.popleft()

    def draw(self, number: int, now: float, size: int, ahead: int) -> None:
        runs = self.running[number]
        while len(runs.under_way) <= ahead:
            batch = self.policy.draw(number, size)
            if batch is None:
                return
            runs.under_way.append(batch)
            self.served += np.bincount(batch.forms, minlength=FORMS)
            self.preparations += len(batch.misses) + batch.besides
            batch.done = self.host.prepare(now, len(batch.misses))
            self.host.prepare(now, batch.besides)
            if len(batch.misses):
                self.preparing.append((number, runs.epoch, batch))

    def forget(self) -> None:
        """Count from now on."""
        self.served[:] = 0
        self.preparations = 0
        self.tally.forget()

    def leave(self, number: int) -> None:
        runs = self.running[number]
        self.policy.end(number)
        self.policy.leave(number)
        runs.here = False
        runs.under_way.clear()
        self.tally.next_stretch()


def run(
    jobs: Sequence[Job],
    n_samples: int,
    policy: Policy,
    *,
    batch: int = 64,
    ahead: int = 2,
    preparing: float = 0.5,
    threads: int = 8,
    at_once: int | None = None,
    count_from: float = 0.0,
    seed: int = 0,
    delivered: Delivered | None = None,
) -> Outcome:
    """Run ``jobs`` over ``policy``. :func:`seneca.simulate.simulate` says what the arguments are."""
    at_once = at_once or len(jobs)
    fastest = sorted((job.speed for job in jobs), reverse=True)[:at_once]
    host = Host(preparing * sum(fastest) * n_samples, threads)
    tally = Tally([job.samples for job in jobs], n_samples)
    clock = _Clock(jobs, policy, host, tally, seed)
    asking = [(job.start, number) for number, job in enumerate(jobs)]
    heapq.heapify(asking)
    waiting: deque[int] = deque()
    attached = 0
    now = 0.0

    while asking:
        now, number = heapq.heappop(asking)
        runs = clock.running[number]
        job = runs.job
        clock.settle(now)
        if count_from and now >= count_from:
            clock.forget()
            count_from = 0
        if not runs.here:
            if attached == at_once:
                waiting.append(number)
                continue
            attached += 1
            tally.next_stretch()
            policy.join(number)
            runs.here = True
            policy.begin(number, 0)
        gone = job.end is not None and now >= job.end
        if not gone:
            clock.draw(number, now, batch, ahead)
            if not runs.under_way:  # the epoch is over
                runs.epoch += 1
                gone = runs.epoch == job.epochs
                if not gone:
                    policy.end(number)
                    policy.begin(number, runs.epoch)
                    clock.draw(number, now, batch, ahead)
        if gone:
            clock.leave(number)
            attached -= 1
            if waiting:
                heapq.heappush(asking, (now, waiting.popleft()))
            continue

        front = runs.under_way.popleft()
        ready = max(now, float(front.done[-1])) if len(front.done) else now
        runs.stalled += ready - now
        runs.delivered += len(front.indices)
        tally.consume(number, front.indices)
        if delivered is not None:
            delivered(number, runs.epoch, front.indices, ready)
        step = len(front.indices) / (job.speed * n_samples)
        if job.jitter:
            step *= runs.rng.gamma(job.jitter**-2, job.jitter**2)
        heapq.heappush(asking, (ready + step, number))

    return Outcome(
        preparations=clock.preparations,
        bound=tally.bound,
        served=(int(clock.served[0]), int(clock.served[1]), int(clock.served[2]), int(clock.served[3])),
        delivered=tuple(runs.delivered for runs in clock.running),
        epochs=tuple(runs.epoch for runs in clock.running),
        stalled=tuple(runs.stalled for runs in clock.running),
        time=now,
    )
