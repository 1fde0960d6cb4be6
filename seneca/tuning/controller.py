"""How a cache's split is chosen, and changed while jobs run: what one process sees, says and does.

::

    first member:   kept or quick measurement --> solve --> the split, with its reason, in the segment
    every process:  its pace --> its row           rows --> jobs
                    times of its samples ---------------> Adaptation --> another split
                                    only where this process is the lowest row of those at work

There is no thread. The work is done between two batches of the loader, at most every two seconds. Mostly it
reads some rows. If there is a reason, it also solves, which takes some milliseconds, and waits up to 100 ms
for the cache's lock.

A process that chooses the first split, or takes over, needs a profile. If none was kept and the pictures
run natively, it measures some files, once, for some tenths of a second. The row of a killed process is
reaped by others, and the next process takes over.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import logging
import math
import time
import weakref
from collections.abc import Callable

from seneca._core.codes import Unlinked
from seneca._runtime.memory import free_memory
from seneca.cache import SampleCache, shares_of, split_of
from seneca.cache.room import free_space
from seneca.data.files import PictureFiles
from seneca.partition import Adaptation, Jobs, Profile, Seen, Spent, Split, default_split, profile_of, solve
from seneca.partition.jobs import MOST_JOBS
from seneca.transforms._pipeline import Pipeline
from seneca.tuning import host
from seneca.tuning import profile as measure
from seneca.tuning.diagnosis import ModelInputs
from seneca.tuning.quick import quick
from seneca.tuning.storage import from_storage
from seneca.tuning.telemetry import WorkDone

__all__ = ["SplitController", "profile_for", "profile_kept"]

STEP_EVERY_S = 2.0
LONGEST_S = 60.0  # the longest time of which rates are means, while a rarely used stage is awaited
GONE_S = 60.0  # a process that has published nothing for so long is not at work
SILENT_S = 10.0  # a loader of this process that has made no step for so long is not at work
LEAST_WORK = 0.05  # share of the time; a training step that takes less has no pace
ANY_PACE = 2**32 - 1  # the pace of a step that is not known, or takes no time

logger = logging.getLogger("seneca.adapt")  # the name that users filter by


Known = Callable[[int], tuple[Profile | None, str]]
"""Takes the bytes of a cache. Returns a profile and where it comes from; or None and the reason."""


def profile_for(files: PictureFiles, pipeline: Pipeline, max_pixels: int | None) -> Known:
    """For pictures of the native grade: what ``seneca.profile`` has kept, else a quick measurement."""

    def find(cache_bytes: int) -> tuple[Profile | None, str]:
        try:
            kept = measure.recall(files.fingerprint().hex(), pipeline)
            if kept is not None:
                return _with_memory(kept, cache_bytes), "what seneca.profile measured"
            found = quick(files, pipeline, max_pixels, cache_bytes)
            return found, f"a quick measurement of {found.measured_samples} files ({found.took_s:.2g} s)"
        except Exception as error:
            # If the error matters, the loader will meet it too and raise it.
            return None, f"{type(error).__name__}: {error}"

    return find


def profile_kept(source: bytes, pipeline: Pipeline | None) -> Known:
    """For samples that workers prepare: a kept profile, or None. The user's code is not run to measure it."""

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
    # The cache exists already. Its memory is no part of what is free now.
    free = cache_bytes + free_memory()
    return dataclasses.replace(profile, cache_bytes=cache_bytes, free_memory_bytes=free)


@dataclasses.dataclass(frozen=True)
class _Interval:
    """The work of some time."""

    seconds: float = 0.0
    spent: Spent = dataclasses.field(default_factory=Spent)
    fetched: int = 0  # bytes that the kernel fetched from storage for this process
    delivered: int = 0
    stall_s: float | None = 0.0

    def plus(self, seconds: float, before: WorkDone, now: WorkDone, fetched: int) -> _Interval:
        """Add ``seconds`` in which the work went on from ``before`` to ``now``."""
        stall_s = None
        if not (self.stall_s is None or before.stall_s is None or now.stall_s is None):
            stall_s = self.stall_s + now.stall_s - before.stall_s
        return _Interval(
            self.seconds + seconds,
            self.spent.plus(now.spent.since(before.spent)),
            self.fetched + fetched,
            self.delivered + now.delivered - before.delivered,
            stall_s,
        )

    @property
    def pace(self) -> int:
        """Samples a second that the training step takes while it does not wait."""
        if self.stall_s is None:
            return ANY_PACE
        worked = self.seconds - self.stall_s
        if worked <= LEAST_WORK * self.seconds:
            return ANY_PACE  # the step takes whatever it is given
        return min(ANY_PACE - 1, round(self.delivered / worked))


class SplitController:
    """One loader's part in its cache's split.

    Args:
        cache: The loader's cache.
        known: Returns what is known of the loader's dataset and transform. It is called if this controller
            must choose.
        jobs: One job like this loader: its batch size, batches ahead and threads.
        samples: The number of samples in the dataset.
    """

    def __init__(self, cache: SampleCache, known: Known, jobs: Jobs, samples: int) -> None:
        self._cache = cache
        self._known = known
        self._found: tuple[Profile | None, str] | None = None  # the answer of ``known``, once it was called
        self._job = jobs
        self._samples = samples
        self._adaptation = Adaptation(None, jobs)
        self._last: tuple[float, WorkDone, int] | None = None  # the last step in this epoch
        self._recent = _Interval()  # the last minute, or less if that has enough measurements
        self._ever = _Interval()
        self._stepped_at = -math.inf
        self._pace = ANY_PACE
        self._number = next(_numbers)
        self._peers = _of_cache.setdefault(cache, weakref.WeakSet())
        segment = cache.segment
        self._adapts = segment.adapts
        if not self._adapts:
            return  # the user gave the split, and nobody changes it
        self._peers.add(self)
        now = time.monotonic()
        self._publish(now)
        changes, shares = segment.split()
        if changes == 0:
            self._choose()
        else:
            self._adaptation.follow(now, split_of(shares), self._jobs(now))

    def suits(self, cache: SampleCache) -> bool:
        """Whether this controller also serves a loader of this cache."""
        return self._cache is cache

    def begin(self, progress: Callable[[], WorkDone], jobs: Jobs) -> None:
        """Begin an epoch. The time since the last step (a validation, for example) does not count as
        training."""
        if self._adapts:
            self._job = jobs
            self._last = time.monotonic(), progress(), from_storage()

    def tick(self, progress: Callable[[], WorkDone], *, ended: bool = False) -> None:
        """Called between two batches: take in what has changed, every two seconds and at the end of an
        epoch."""
        now = time.monotonic()
        due = now >= self._stepped_at + STEP_EVERY_S
        if not self._adapts or not (due or ended) or self._cache.segment.closed:
            return
        done, fetched = progress(), from_storage()
        if self._last is not None and now - self._last[0] <= GONE_S:  # else the loader was not at work
            began, before, fetched_before = self._last
            more = now - began, before, done, fetched - fetched_before
            self._recent, self._ever = self._recent.plus(*more), self._ever.plus(*more)
            if self._recent.delivered:  # else this interval has just begun, and says nothing of the step
                self._pace = self._recent.pace
        self._last = None if ended else (now, done, fetched)
        if due:
            self._stepped_at = now
            self._step(now, done)
            if self._recent.spent.has_enough_measurements or self._recent.seconds > LONGEST_S:
                self._recent = _Interval()

    def _step(self, now: float, done: WorkDone) -> None:
        """Compare the jobs with the split, and change the split if this controller decides."""
        self._publish(now)
        segment, recent = self._cache.segment, self._recent
        if segment.split()[0] == 0:
            self._choose()  # the lock could not be had the first time
        changes, shares = segment.split()
        jobs = self._jobs(now)
        if not self._decides(now):
            self._adaptation.follow(now, split_of(shares), jobs)
            return
        read_bytes = recent.spent.read_bytes
        cold = recent.fetched / read_bytes if done.reads_here and read_bytes else None
        seen = Seen(jobs, recent.spent, recent.seconds, cold, segment.reserved_bytes + free_memory())
        if self._adaptation.profile is None and not self._learn(seen, done.copy_bytes):
            return
        change = self._adaptation.consider(now, split_of(shares), seen)
        if change is not None and not self._change(change.split, changes, change.why):
            self._adaptation.failed(change)

    def model_inputs(self, *, may_measure: bool) -> ModelInputs | None:
        """The profile of the host, the jobs at work and the split; None: there is no profile.

        Args:
            may_measure: Whether files may be read to measure a profile, for some tenths of a second.
        """
        profile = self._adaptation.profile
        if profile is None and (may_measure or self._found is not None):
            profile = self._find()[0]
        if profile is None or self._cache.segment.closed:
            return None
        jobs = dataclasses.replace(self._jobs(time.monotonic()), hosts=self._adaptation.servers)
        segment, folder, most = self._cache.segment, self._cache.folder, None
        with contextlib.suppress(OSError):  # the folder was removed
            most = segment.reserved_bytes + free_space(folder)
        return ModelInputs(profile, jobs, split_of(segment.split()[1]), folder, most)

    def _find(self) -> tuple[Profile | None, str]:
        """The profile that is known before any work was seen."""
        if self._found is None:
            self._found = self._known(self._cache.segment.payload_bytes)
        return self._found

    def _choose(self) -> None:
        """Choose the first split."""
        profile, why = self._find()
        if profile is None:
            self._change(default_split(), 0, f"by default: {why}")
            return
        self._adaptation.knows(profile)
        best = solve(profile, self._job)
        rate = f"{best.samples_per_s:,.0f} samples/s expected of one job, limited by {best.limited_by}"
        self._change(best.split, 0, f"by {why}: {rate}")

    def _learn(self, seen: Seen, copy_bytes: int) -> bool:
        """Get a profile, because this controller now decides. Whether there is one."""
        profile, _ = self._find()
        if profile is not None:
            self._adaptation.knows(profile)  # the split was chosen by a profile like this one
            return True
        profile = profile_of(
            dataclasses.replace(seen, spent=self._ever.spent, seconds=self._ever.seconds),
            samples=self._samples,
            cores=host.cores(),
            cache_bytes=self._cache.segment.payload_bytes,
            decoded_bytes=self._decoded_bytes(),
            copy_bytes=copy_bytes,
        )
        if profile is not None:
            self._adaptation.knows(profile, "its rates are known now")
        return profile is not None

    def _decoded_bytes(self) -> float:
        """The mean size of the cache's DECODED payloads; 0: decoding was seen, or the size is not known."""
        if self._ever.spent.times[2]:
            return 0.0  # the size was seen
        try:
            stats = self._cache.segment.stats()
        except (BlockingIOError, Unlinked):
            return 0.0
        return stats["bytes"]["decoded"] / max(1, stats["payloads"]["decoded"])

    def _change(self, split: Split, after: int, why: str) -> bool:
        """Change the split. Whether that could be done."""
        try:
            if not self._cache.segment.change_split(shares_of(split), after, why):
                return False  # another process was faster
        except (BlockingIOError, Unlinked):
            return False  # a stopped process holds the lock, or the segment was given up
        logger.info("cache %r: split %s %s", self._cache.name, split, why)
        return True

    def _peers_at_work(self, now: float) -> list[SplitController]:
        """This controller and those of this process's other loaders at work, in the order of their making."""
        at_work = [
            peer
            for peer in self._peers
            if peer is self or (peer._last is not None and now - peer._last[0] <= SILENT_S)
        ]
        return sorted(at_work, key=lambda peer: peer._number)

    def _publish(self, now: float) -> None:
        """Publish the pace of all loaders of this process at work together, in its one row."""
        paces = [peer._pace for peer in self._peers_at_work(now)]
        self._cache.segment.publish_pace(int(now) + 1, min(ANY_PACE, sum(paces)))

    def _at_work(self, now: float) -> list[tuple[bool, int, int, int]]:
        return [row for row in self._cache.segment.published_paces() if now + 1 - row[2] <= GONE_S]

    def _decides(self, now: float) -> bool:
        """Whether this is the lowest row at work. If that process dies, it is reaped, and the next row
        decides."""
        at_work = self._at_work(now)
        return bool(at_work) and at_work[0][0] and self._peers_at_work(now)[0] is self

    def _jobs(self, now: float) -> Jobs:
        """The jobs at work. The paces of one job's processes are added up."""
        paces: dict[int, float] = {}
        for _, job, _, pace in self._at_work(now):
            paces[job] = paces.get(job, 0.0) + (math.inf if pace == ANY_PACE else max(1, pace))
        each = tuple(paces.values())[:MOST_JOBS] or (math.inf,)
        return dataclasses.replace(self._job, count=len(each), step_per_s=each)


_numbers = itertools.count()
_of_cache: weakref.WeakKeyDictionary[SampleCache, weakref.WeakSet[SplitController]] = (
    weakref.WeakKeyDictionary()
)
