"""How a cache's split is chosen, and changed while jobs run: what one process sees, says, and does.

::

    first member:   kept profile, or a quick look --> solve --> the split, with its reason, in the segment
    every process:  its pace --> its row           rows --> jobs
                    times of its samples ---------------> Adaptation --> another split
                                    only where this process is the lowest row of those at work

Nothing here is a thread: it is done between two batches, at most every two seconds, and takes as long as
one solve at the most, some milliseconds. Whoever is killed leaves a row that others reap, and the next row
takes over.
"""

from __future__ import annotations

import dataclasses
import logging
import math
import time
from collections.abc import Callable

from seneca import measure
from seneca._core import store
from seneca._pipeline.plan import Pipeline
from seneca.cache import SampleCache, shares_of, split_of
from seneca.measure import host
from seneca.measure.quick import quick
from seneca.measure.storage import from_storage
from seneca.memory import free_memory
from seneca.partition import Adaptation, Jobs, Profile, Seen, Spent, Split, default_split, profile_of, solve
from seneca.partition.jobs import MOST_JOBS
from seneca.sources.files import PictureFiles

__all__ = ["Adapter", "Progress", "profile_for", "profile_kept"]

LOOK_EVERY_S = 2.0
LONGEST_S = 60.0  # that rates are means of, where what is seldom done is waited for
GONE_S = 60.0  # who has said nothing for so long is not at work
LEAST_WORK = 0.05  # of the time, for a training step to have a pace
ANY_PACE = 2**32 - 1  # of a step that is not known, or takes no time

logger = logging.getLogger("seneca.adapt")


@dataclasses.dataclass(frozen=True)
class Progress:
    """What a loader has done so far.

    Args:
        spent: In preparing samples.
        delivered: Samples.
        stall_s: Seconds that its training loop waited for them; None: not known.
        reads_here: Whether its files are read in this process, of which the kernel counts what it reads.
        copy_bytes: Of an AUGMENTED copy; 0: not known yet.
    """

    spent: Spent
    delivered: int
    stall_s: float | None
    reads_here: bool
    copy_bytes: int


Known = Callable[[int], tuple[Profile | None, str]]
"""From the bytes of a cache a profile, and where it comes from; or None, and why."""


def profile_for(files: PictureFiles, pipeline: Pipeline, max_pixels: int) -> Known:
    """What is known of pictures that run natively: as ``seneca profile`` found it, else by a quick look."""

    def find(cache_bytes: int) -> tuple[Profile | None, str]:
        try:
            kept = measure.recall(files.fingerprint().hex(), pipeline)
            if kept is not None:
                return _with_memory(kept, cache_bytes), "what seneca.profile measured"
            found = quick(files, pipeline, max_pixels, cache_bytes)
            return found, f"a quick look at {found.measured_samples} files ({found.took_s:.2g} s)"
        except Exception as error:
            # Whatever is wrong here the loader itself will say, where it matters.
            return None, f"{type(error).__name__}: {error}"

    return find


def profile_kept(source: bytes, pipeline: Pipeline | None) -> Known:
    """What is known of what workers prepare: a profile that was kept, or nothing; their code is not run."""

    def find(cache_bytes: int) -> tuple[Profile | None, str]:
        try:
            kept = None if pipeline is None else measure.recall(source.hex(), pipeline)
        except OSError as error:
            return None, f"{type(error).__name__}: {error}"
        if kept is not None:
            return _with_memory(kept, cache_bytes), "what seneca.profile measured"
        return None, "its samples are prepared in Python, which is measured as it runs"

    return find


def _with_memory(profile: Profile, cache_bytes: int) -> Profile:
    # The cache is there already, and is no part of what is free now.
    free = cache_bytes + free_memory()
    return dataclasses.replace(profile, cache_bytes=cache_bytes, free_memory_bytes=free)


class Adapter:
    """One loader's part in its cache's split.

    Args:
        cache: Whose.
        known: Of its dataset and transform.
        jobs: One like this loader: batch, batches ahead, threads.
        samples: Of the dataset.
    """

    def __init__(self, cache: SampleCache, known: Known, jobs: Jobs, samples: int) -> None:
        self._cache = cache
        self._job = jobs
        self._samples = samples
        self._adaptation: Adaptation | None = None
        self._since: tuple[float, Progress, int] | None = None  # where what is seen now began
        self._looked_at = -math.inf
        self._pace = ANY_PACE
        segment = cache.segment
        self._adapts = segment.adapts
        if not self._adapts:
            return  # the user's own split, and nobody changes it
        self._tell(time.monotonic())
        profile, why = known(segment.payload_bytes)
        first = segment.split()[0] == 0
        if first:
            self._choose(profile, why)
        if profile is not None:
            self._adaptation = Adaptation(profile, self._job if first else self._jobs(time.monotonic()))

    def suits(self, cache: SampleCache) -> bool:
        """Whether it goes on for a loader of this cache."""
        return self._cache is cache

    def tick(self, progress: Callable[[], Progress]) -> None:
        """Between two batches: look at what has changed, every two seconds."""
        now = time.monotonic()
        if not self._adapts or now < self._looked_at + LOOK_EVERY_S or self._cache.segment.closed:
            return
        done, fetched = progress(), from_storage()
        since, looked_at, self._looked_at = self._since, self._looked_at, now
        if since is None or now - looked_at > GONE_S:  # it was not at work
            self._since = now, done, fetched
            self._tell(now)
            return
        seconds, spent = now - since[0], done.spent.since(since[1].spent)
        self._pace = _pace(done, since[1], seconds)
        self._tell(now)
        jobs = self._jobs(now)
        if self._decides(now):
            cold = (fetched - since[2]) / spent.read_bytes if done.reads_here and spent.read_bytes else None
            memory = self._cache.segment.payload_bytes
            self._consider(now, Seen(jobs, spent, seconds, cold, memory + free_memory()), done.copy_bytes)
        elif self._adaptation is not None:
            self._adaptation.follow(jobs)
        if self._adaptation is not None and (spent.tells_enough or seconds > LONGEST_S):
            self._since = now, done, fetched

    def _choose(self, profile: Profile | None, why: str) -> None:
        """The first member's choice."""
        if profile is None:
            self._change(default_split(), 0, f"by default: {why}")
            return
        best = solve(profile, self._job)
        rate = f"{best.samples_per_s:,.0f} samples/s expected of one job, limited by {best.limited_by}"
        self._change(best.split, 0, f"by {why}: {rate}")

    def _consider(self, now: float, seen: Seen, copy_bytes: int) -> None:
        segment = self._cache.segment
        changes, shares = segment.split()
        if self._adaptation is None:
            profile = profile_of(
                seen,
                samples=self._samples,
                cores=host.cores(),
                cache_bytes=segment.payload_bytes,
                decoded_bytes=self._decoded_bytes(),
                copy_bytes=copy_bytes,
            )
            if profile is None:
                return
            self._adaptation = Adaptation(profile, seen.jobs, "its rates are known now")
        change = self._adaptation.consider(now, split_of(shares), seen)
        if change is not None:
            self._change(change.split, changes, change.why)

    def _decoded_bytes(self) -> float:
        """Of a DECODED payload, as those that are there have on average."""
        try:
            stats = self._cache.segment.stats()
        except (BlockingIOError, store.Unlinked):
            return 0.0
        return stats["bytes"]["decoded"] / max(1, stats["payloads"]["decoded"])

    def _change(self, split: Split, after: int, why: str) -> None:
        try:
            if not self._cache.segment.change_split(shares_of(split), after, why):
                return  # another was faster
        except (BlockingIOError, store.Unlinked):
            return  # its lock is with a process that is stopped, or it was given up
        logger.info("cache %r: encoded-decoded-augmented %s %s", self._cache.name, split, why)

    def _tell(self, now: float) -> None:
        self._cache.segment.tell(int(now) + 1, self._pace)

    def _at_work(self, now: float) -> list[tuple[bool, int, int, int]]:
        return [row for row in self._cache.segment.told() if now + 1 - row[2] <= GONE_S]

    def _decides(self, now: float) -> bool:
        """Whether this is the lowest row of those at work: who dies is reaped, and the next is the lowest."""
        at_work = self._at_work(now)
        return bool(at_work) and at_work[0][0]

    def _jobs(self, now: float) -> Jobs:
        """Those at work; the processes of one job take what they take together."""
        paces: dict[int, float] = {}
        for _, job, _, pace in self._at_work(now):
            paces[job] = paces.get(job, 0.0) + (math.inf if pace == ANY_PACE else max(1, pace))
        each = tuple(paces.values())[:MOST_JOBS] or (math.inf,)
        return dataclasses.replace(self._job, count=len(each), step_per_s=each)


def _pace(done: Progress, before: Progress, seconds: float) -> int:
    """Samples a second that the training step takes when it need not wait."""
    if done.stall_s is None or before.stall_s is None:
        return ANY_PACE
    worked = seconds - (done.stall_s - before.stall_s)
    if worked < LEAST_WORK * seconds:
        return ANY_PACE  # it takes what it is given
    return min(ANY_PACE - 1, round((done.delivered - before.delivered) / worked))
