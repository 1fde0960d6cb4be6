"""What the jobs of a host do at present, from two or more snapshots of what they have published so far.

::

    segments() --RateMeter.update(), again and again--> CacheRates, each with its JobRates --> top, report

Pure: the caller takes the snapshots, and says when. A rate is of the time between two updates of a
process, and not of that between two snapshots. Therefore it is exact also where a batch takes longer.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from seneca.forms import Form
from seneca.segments import JobSeen, Segment, Work

__all__ = ["FORMS", "CacheRates", "Done", "JobRates", "RateMeter", "between"]

FORMS = tuple(form.name.lower() for form in Form)
NS_PER_MS = 1_000_000
IDLE_MS = 5000  # a process that publishes nothing for longer is idle, unless its batches take that long
BATCHES_OF_SILENCE = 3
FORGET_MS = 600_000  # a process that was missed for less time goes on where it was


@dataclass(frozen=True)
class Done:
    """The work of processes in some time.

    Attributes:
        ns: The time, in nanoseconds. That of several processes is added up.
        delivered, prepared, staged, skipped, damaged: Samples, as :class:`seneca.segments.Work` has them.
        read_bytes: Bytes read from storage.
        served: Samples by the form that they came from.
        stall_ns: Nanoseconds that training loops waited, by cause.
    """

    ns: int = 0
    delivered: int = 0
    prepared: int = 0
    staged: int = 0
    skipped: int = 0
    damaged: int = 0
    read_bytes: int = 0
    served: dict[str, int] = field(default_factory=dict)
    stall_ns: dict[str, int] = field(default_factory=dict)

    def __add__(self, other: Done) -> Done:
        return Done(
            self.ns + other.ns,
            self.delivered + other.delivered,
            self.prepared + other.prepared,
            self.staged + other.staged,
            self.skipped + other.skipped,
            self.damaged + other.damaged,
            self.read_bytes + other.read_bytes,
            {name: self.served.get(name, 0) + other.served.get(name, 0) for name in other.served}
            or self.served,
            {name: self.stall_ns.get(name, 0) + other.stall_ns.get(name, 0) for name in other.stall_ns}
            or self.stall_ns,
        )

    @property
    def stalled(self) -> float:
        """The share of the time that training loops waited, between 0 and 1."""
        return min(1.0, sum(self.stall_ns.values()) / self.ns) if self.ns else 0.0

    @property
    def stalled_by(self) -> dict[str, float]:
        """The same by cause, the largest first. Causes of which there was nothing are left out."""
        total = sum(self.stall_ns.values())
        shares = {cause: self.stalled * ns / total for cause, ns in self.stall_ns.items() if ns > 0}
        return dict(sorted(shares.items(), key=lambda item: -item[1]))

    @property
    def served_shares(self) -> dict[str, float]:
        """The shares of the forms that samples came from. Forms of which there was nothing are left out."""
        total = sum(self.served.values())
        return {form: self.served[form] / total for form in FORMS if self.served.get(form, 0) > 0}


def between(before: Work | None, now: Work) -> Done:
    """What a process did between two updates; ``before`` None: since it began to publish.

    A counter that has fallen counts nothing.
    """
    if before is None:
        return Done(
            (now.published_ms - now.since_ms) * NS_PER_MS,
            now.delivered,
            now.prepared,
            now.staged,
            now.skipped,
            now.damaged,
            now.read_bytes,
            dict(now.served),
            dict(now.stall_ns),
        )
    return Done(
        max(0, now.published_ms - before.published_ms) * NS_PER_MS,
        max(0, now.delivered - before.delivered),
        max(0, now.prepared - before.prepared),
        max(0, now.staged - before.staged),
        max(0, now.skipped - before.skipped),
        max(0, now.damaged - before.damaged),
        max(0, now.read_bytes - before.read_bytes),
        {form: max(0, n - before.served.get(form, 0)) for form, n in now.served.items()},
        {cause: max(0, ns - before.stall_ns.get(cause, 0)) for cause, ns in now.stall_ns.items()},
    )


@dataclass(frozen=True)
class JobRates:
    """The present rates of one job, all its processes together.

    Attributes:
        cache: The name of the cache that it uses. A job that uses two has a :class:`JobRates` for each.
        key: Names the training run.
        name: The name that its processes publish; None: none of them has begun an epoch.
        pids: Its processes, workers included.
        publishing: How many processes publish.
        silent_s: Seconds since the last of them published something; None: none has.
        idle: Whether all of them have been silent for longer than their batches take, and for 5 s.
        samples_per_s: Samples that it gets each second, 0.0 if it is idle; None: not known yet.
        done: What it did in the time that the rates are of, by processes that are not idle; None: not known.
        epoch: The number of its last epoch.
        place, places: How many samples of the epoch are delivered to all ranks, and how many it has; 0: not
            known.
        threads: The threads, or worker processes, that prepare.
        batch_size: Samples of a batch of one process; 0: not known.
        total: All that its living processes have done since they began to publish.
        watched: All that it was seen to do since the watch began, also by processes that have ended.
        compared: How many samples both it and another job have made, which were equal, by form.
        apart: For people: which jobs do not share with it, and why; "": none is known.
    """

    cache: str
    key: str
    name: str | None
    pids: tuple[int, ...]
    publishing: int
    silent_s: float | None
    idle: bool
    samples_per_s: float | None
    done: Done | None
    epoch: int
    place: int
    places: int
    threads: int
    batch_size: int
    total: Done
    watched: Done
    compared: dict[str, int]
    apart: str


@dataclass(frozen=True)
class CacheRates:
    """One segment, and what its jobs do.

    Attributes:
        segment: The segment.
        jobs: The jobs that use it, by name; none where it cannot be read.
        total: All that their living processes have done since they began to publish.
    """

    segment: Segment
    jobs: tuple[JobRates, ...]
    total: Done

    @property
    def deliveries_per_preparation(self) -> float | None:
        """How many samples were delivered for each that was prepared; None: none was prepared."""
        return self.total.delivered / self.total.prepared if self.total.prepared else None


class RateMeter:
    """Makes rates of snapshots of a host's segments, one after the other.

    Args:
        window_s: Rates are of so many seconds, or of the time between two updates where that is longer.
    """

    def __init__(self, window_s: float = 1.0) -> None:
        self._window_ms = window_s * 1000
        self._began_ms: int | None = None
        self._rows: dict[tuple[str, str, int, int], list[Work]] = {}
        self._watched: dict[tuple[str, str], Done] = {}

    def update(self, found: Iterable[Segment], at_ms: int) -> list[CacheRates]:
        """Take in what :func:`seneca.segments.segments` has found.

        Args:
            found: The segments.
            at_ms: When they were read, in milliseconds since 1970.
        """
        before, self._rows = self._rows, {}
        rates = [self._cache(segment, before, at_ms) for segment in found]
        for row, last in before.items():
            if row not in self._rows and at_ms - last[-1].published_ms < FORGET_MS:
                self._rows[row] = last
        if self._began_ms is None:
            self._began_ms = at_ms
        return rates

    def _cache(
        self, segment: Segment, before: dict[tuple[str, str, int, int], list[Work]], at_ms: int
    ) -> CacheRates:
        jobs = [] if segment.view is None else segment.view.jobs
        rates = [self._job(segment, job, before, at_ms) for job in jobs]
        rates.sort(key=lambda one: (one.name is None, one.name, one.pids))
        return CacheRates(segment, tuple(rates), sum((one.total for one in rates), Done()))

    def _job(
        self,
        segment: Segment,
        job: JobSeen,
        before: dict[tuple[str, str, int, int], list[Work]],
        at_ms: int,
    ) -> JobRates:
        path, watched = str(segment.path), Done()
        updates: list[list[Work]] = []
        for work in job.work:
            row = (path, job.key, work.pid, work.since_ms)
            if row in self._rows:  # two in one process, from the same millisecond: one after the other
                row = (*row[:3], -work.since_ms)
            last = before.get(row, [])
            self._rows[row] = self._kept(last, work)
            updates.append(self._rows[row])
            watched += self._seen_now(last, work)
        watched = self._watched[path, job.key] = self._watched.get((path, job.key), Done()) + watched
        active = [kept for kept in updates if not _is_idle(kept, at_ms)]
        rates = [between(kept[0], kept[-1]) for kept in active if len(kept) > 1]
        done = sum(rates, Done()) if rates else None
        idle = bool(updates) and not active
        published_ms = max((kept[-1].published_ms for kept in updates), default=None)
        return JobRates(
            cache=segment.name,
            key=job.key,
            name=job.work[0].name if job.work else None,
            pids=job.pids,
            publishing=len(updates),
            silent_s=None if published_ms is None else max(0, at_ms - published_ms) / 1000,
            idle=idle,
            samples_per_s=0.0 if idle else sum(map(_per_s, rates)) if rates else None,
            done=done,
            **_progress(job.work),
            threads=sum(work.threads for work in job.work),
            batch_size=max((work.batch_size for work in job.work), default=0),
            total=sum((between(None, work) for work in job.work), Done()),
            watched=watched,
            compared=job.compared,
            apart=job.apart,
        )

    def _kept(self, last: list[Work], work: Work) -> list[Work]:
        """The updates of a row that rates are of: from the beginning of the window until now."""
        if last and work.published_ms == last[-1].published_ms:
            return last
        if last and (work.published_ms < last[-1].published_ms or work.delivered < last[-1].delivered):
            return [work]  # the clock was set back, or another process is in the row
        updates = [*last, work]
        since_ms = work.published_ms - self._window_ms
        begins = bisect.bisect_right(updates, since_ms, key=lambda one: one.published_ms)
        return updates[max(0, begins - 1) :]

    def _seen_now(self, last: Sequence[Work], work: Work) -> Done:
        """What a process did since the last snapshot; all that it published, if it began after the watch."""
        if last:
            return between(last[-1], work)
        new = self._began_ms is not None and work.since_ms >= self._began_ms
        return between(None, work) if new else Done()


def _per_s(done: Done) -> float:
    return done.delivered * 1e9 / done.ns if done.ns else 0.0


def _is_idle(updates: Sequence[Work], at_ms: int) -> bool:
    pause_ms = updates[-1].published_ms - updates[-2].published_ms if len(updates) > 1 else 0
    return at_ms - updates[-1].published_ms > max(IDLE_MS, BATCHES_OF_SILENCE * pause_ms)


def _progress(work: Sequence[Work]) -> dict[str, int]:
    """The epoch of a job and how far it is. A rank that is an epoch ahead has completed this one."""
    begun = [one for one in work if one.places] or list(work)
    if not begun:
        return {"epoch": 0, "place": 0, "places": 0}
    epoch = min(one.epoch for one in begun)
    place = sum(one.place if one.epoch == epoch else one.places for one in begun)
    return {"epoch": epoch, "place": place, "places": sum(one.places for one in begun)}
