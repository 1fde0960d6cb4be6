"""The course of jobs over time, in as many points as a page can show, however long they were watched.

::

    CacheRates --Recording.add(), a snapshot--> points of the same time each --page()--> one HTML page

When there are twice as many points as a page shows, two become one. A point is therefore a mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from seneca.cli.caches.segments import dataset_text
from seneca.cli.watch.rates import FORMS, CacheRates, Done, JobRates
from seneca.segments import State

__all__ = ["CAUSES", "HELD_FORMS", "MOST_POINTS", "CacheTrack", "JobTrack", "Recording"]

CAUSES = ("storage", "decode", "augment", "item", "batch", "cores", "peers", "other")
HELD_FORMS = FORMS[1:]  # all but storage
MOST_POINTS = 600

Point = tuple[float, ...] | None  # None: nothing was seen


@dataclass
class Track:
    """Something that is followed: a point for each of the recording's times."""

    points: list[Point]
    heard: list[tuple[float, ...]] = field(default_factory=list)

    def complete(self) -> None:
        """Make a point of what was heard since the last one."""
        self.points.append(_mean(self.heard))
        self.heard = []

    def halve(self) -> None:
        """Make one point of every two."""
        pairs = zip(self.points[::2], self.points[1::2], strict=True)
        self.points = [_mean([point for point in pair if point is not None]) for pair in pairs]

    def values(self, index: int) -> list[float | None]:
        """One number of each point."""
        return [None if point is None else point[index] for point in self.points]


@dataclass
class JobTrack(Track):
    """A job: ``(samples/s, of these by FORMS, share of time stalled by CAUSES)`` at each point.

    Attributes:
        last: As it was seen last.
        first_s, last_s: When it was seen, first and last, in seconds since the recording began.
    """

    last: JobRates = field(kw_only=True)
    first_s: float = 0.0
    last_s: float = 0.0


@dataclass
class CacheTrack(Track):
    """A cache: ``(memory held in bytes by form, memory for payloads)`` at each point.

    Attributes:
        name: The cache's name.
        dataset: The dataset that it is of, in words.
    """

    name: str = field(kw_only=True)
    dataset: str = field(kw_only=True)


def _mean(points: Sequence[tuple[float, ...]]) -> Point:
    if not points:
        return None
    return tuple(sum(values) / len(points) for values in zip(*points, strict=True))


class Recording:
    """The rates and memory that were seen since it began.

    Attributes:
        times: The time of each point, in seconds since the first snapshot.
        jobs, caches: What was followed, in the order in which it came.
    """

    def __init__(self, most_points: int = MOST_POINTS) -> None:
        self.times: list[float] = []
        self.jobs: dict[tuple[str, str], JobTrack] = {}
        self.caches: dict[str, CacheTrack] = {}
        self._most = most_points
        self._stride = 1  # snapshots a point
        self._heard_at: list[float] = []

    def add(self, seen: Sequence[CacheRates], at_s: float) -> None:
        """Take in a snapshot, ``at_s`` seconds after the first. Those before the first job are left out."""
        if not self.jobs and not any(cache.jobs for cache in seen):
            return
        for cache in seen:
            self._hear_cache(cache)
            for job in cache.jobs:
                self._hear_job(str(cache.segment.path), job, at_s)
        self._heard_at.append(at_s)
        if len(self._heard_at) == self._stride:
            self._complete()

    def finish(self) -> None:
        """Make a point of the last snapshots too."""
        if self._heard_at:
            self._complete()

    @property
    def working(self) -> bool:
        """Whether a job has got samples."""
        return any(track.last.watched.delivered for track in self.jobs.values())

    @property
    def total(self) -> Done:
        """The work of all jobs that were watched."""
        return sum((track.last.watched for track in self.jobs.values()), Done())

    @property
    def seconds(self) -> float:
        """From when the first job was seen until when the last was."""
        tracks = self.jobs.values()
        return max(t.last_s for t in tracks) - min(t.first_s for t in tracks) if tracks else 0.0

    def _hear_cache(self, cache: CacheRates) -> None:
        view = cache.segment.view
        if view is None or cache.segment.state is State.DEAD:
            return
        path = str(cache.segment.path)
        if path not in self.caches:
            if not cache.jobs:
                return  # one that was not used meanwhile is of no interest
            self.caches[path] = CacheTrack(
                [None] * len(self.times), name=cache.segment.name, dataset=dataset_text(view)
            )
        self.caches[path].dataset = dataset_text(view)  # a job names it once it has begun
        held = [float(view.bytes.get(form, 0)) for form in HELD_FORMS]
        self.caches[path].heard.append((*held, float(view.payload_bytes)))

    def _hear_job(self, path: str, job: JobRates, at_s: float) -> None:
        track = self.jobs.get((path, job.key))
        if track is None:
            track = JobTrack([None] * len(self.times), last=job, first_s=at_s)
            self.jobs[path, job.key] = track
        if job.name is None:
            job = _with_name_of(track.last, job)
        track.last, track.last_s = job, at_s
        if job.idle:
            track.heard.append((0.0,) * (1 + len(FORMS) + len(CAUSES)))
        elif job.done is not None and job.samples_per_s is not None:
            shares, stalled = job.done.served_shares, job.done.stalled_by
            track.heard.append(
                (
                    job.samples_per_s,
                    *(job.samples_per_s * shares.get(form, 0.0) for form in FORMS),
                    *(stalled.get(cause, 0.0) for cause in CAUSES),
                )
            )

    def _complete(self) -> None:
        tracks: list[Track] = [*self.jobs.values(), *self.caches.values()]
        self.times.append(sum(self._heard_at) / len(self._heard_at))
        self._heard_at = []
        for track in tracks:
            track.complete()
        if len(self.times) < 2 * self._most:
            return
        self._stride *= 2
        self.times = [(a + b) / 2 for a, b in zip(self.times[::2], self.times[1::2], strict=True)]
        for track in tracks:
            track.halve()


def _with_name_of(last: JobRates, now: JobRates) -> JobRates:
    """A job whose processes could not be asked this time is the one that it was."""
    return now if last.name is None else last
