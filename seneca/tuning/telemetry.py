"""What this process publishes of its loaders for those who watch its cache: ``seneca top`` and others.

::

    loader --begin(), tick()--> Telemetry --at most 4 times a second--> the row of this process in the segment

Nobody waits for it, and nothing that a job is served depends on it. It is written between two batches, by the
thread that iterates. The numbers of all loaders of this process that share the cache are added up.
"""

from __future__ import annotations

import dataclasses
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from seneca._core.telemetry import CAUSES, NAME_BYTES, publish_work
from seneca._runtime.distributed import world
from seneca.cache import SampleCache
from seneca.data.traits import Traits
from seneca.forms import UNRECODED, Form
from seneca.partition import Spent
from seneca.tuning.neighbours import publish_traits

__all__ = ["EpochTimes", "Telemetry", "WorkDone", "cores_used"]

EVERY_S = 0.25
CUT = " … "  # in place of what is left out
NS = 1_000_000_000


@dataclasses.dataclass(frozen=True)
class WorkDone:
    """The work of a loader so far.

    Args:
        spent: What preparing samples has taken.
        delivered: Samples that were delivered, without the batch that the training loop is at.
        stall_s: Seconds that the training loop waited for samples; None: not known.
        peer_wait_s: Of these, the seconds in which it waited for other jobs alone.
        reads_here: Whether this process reads the loader's files. The kernel counts what this process
            reads.
        copy_bytes: The size of an AUGMENTED copy in bytes; 0: not known yet.
        served: Samples by the form that they came from, in the order of :class:`seneca.Form`.
        unrecoded: Files that could not be kept RECODED, by the causes of :data:`seneca.forms.UNRECODED`.
        counts: ``prepared``, ``staged``, ``skipped`` and ``damaged``, as in
            :meth:`seneca.DataLoader.stats`.
        items_s: Seconds that making whole items took, where Seneca does not see their stages: CPU time, and
            by the wall clock.
        place: How many samples of the epoch are delivered.
        preparers: The kernel's numbers of the threads, or processes, that prepare.
    """

    spent: Spent
    delivered: int
    stall_s: float | None
    reads_here: bool
    copy_bytes: int
    served: tuple[int, ...] = (0,) * len(Form)
    unrecoded: tuple[int, ...] = (0,) * len(UNRECODED)
    counts: dict[str, int] = dataclasses.field(default_factory=dict)
    items_s: tuple[float, float] = (0.0, 0.0)
    place: int = 0
    preparers: tuple[int, ...] = ()
    peer_wait_s: float = 0.0


NOTHING = WorkDone(Spent(), 0, None, False, 0)


NO_EPOCH: dict[str, Any] = {
    **dict.fromkeys(("epoch", "places", "threads", "batch_size", "rank", "ranks"), 0),
    "dataset": "",
}


@dataclasses.dataclass(frozen=True)
class EpochTimes:
    """How the training loop has spent the time of an epoch so far, or of one that has ended.

    Args:
        epoch: The number of the epoch.
        seconds: Its length.
        delivered: Samples that were delivered in it.
        stall_s: Seconds that the training loop waited for samples, by cause; empty: not known.
        ended: Whether the epoch has ended.
    """

    epoch: int
    seconds: float
    delivered: int
    stall_s: dict[str, float]
    ended: bool


class Telemetry:
    """What one loader reports of itself to its user, and publishes for those who watch its cache.

    Args:
        cache: The cache that it shares; None: it shares nothing, and nobody can watch.
        job: The name of the training run; None: the command line names it.

    Attributes:
        spent_ns: What those who prepare for this loader have spent in all, in nanoseconds by cause.
    """

    def __init__(self, cache: SampleCache | None, job: str | None) -> None:
        self._cache = cache
        self._process = None if cache is None else _of_cache.setdefault(cache, _Process(job))
        self._next = 0.0
        self._last = NOTHING
        self._shown = NO_EPOCH
        self._cores: dict[int, tuple[int, int]] = {}
        self._cpu_ns = self._stalled_ns = self._peers_ns = self._seen_ns = 0
        self._epoch: int | None = None
        self._began = self._until = 0.0
        self._place_before = 0
        self._ended = self._stall_is_known = False
        self._stall_ns = dict.fromkeys(CAUSES, 0)
        self.spent_ns = dict.fromkeys(CAUSES, 0)

    @property
    def done(self) -> WorkDone:
        """The work of the loader up to the last tick."""
        return self._last

    def suits(self, cache: SampleCache | None) -> bool:
        """Whether this also serves a loader of this cache."""
        return self._cache is cache

    def begin(
        self,
        work: Callable[[], WorkDone],
        traits: Traits | None,
        *,
        epoch: int,
        places: int,
        threads: int,
        batch_size: int,
    ) -> None:
        """Begin an epoch.

        Args:
            work: Returns what the loader has done.
            traits: What its dataset is made of; None: nothing of it is shared.
            epoch: The epoch's number.
            places: How many samples the epoch has; 0: it is not known.
            threads: The threads, or worker processes, that prepare.
            batch_size: Samples of a batch; 0: it is not known.
        """
        rank, ranks = world()
        self._shown = {
            "epoch": epoch,
            "places": places,
            "threads": threads,
            "batch_size": batch_size,
            "rank": rank,
            "ranks": ranks,
            "dataset": "" if traits is None else traits.title,
        }
        if self._last is NOTHING:
            self._last = work()  # what the loader did before, perhaps with another cache
        self._next = 0.0
        self.tick(work)
        if traits is not None and self._cache is not None and self._process is not None:
            with self._process.turn:
                publish_traits(traits, self._cache)
        self._epoch, self._ended = epoch, False
        self._began = self._until = time.monotonic()
        self._seen_ns = 0
        self._place_before = self._last.place
        self._stall_ns = dict.fromkeys(CAUSES, 0)
        self._cpu_ns = 0  # what the threads of the last epoch did at their end was not seen

    def tick(self, work: Callable[[], WorkDone], *, ended: bool = False) -> bool:
        """Called between two batches: publish what was done, if it is time to, or if the epoch has ended.

        Returns:
            Whether this has taken in what was done.
        """
        now = time.monotonic()
        if now < self._next and not ended:
            return False
        self._next = now + EVERY_S
        done, before = work(), self._last
        self._seen_ns += round((now - self._until) * NS)
        self._last, self._until, self._ended = done, now, ended
        spent = self._spent(before, done)
        for cause, ns in spent.items():
            self.spent_ns[cause] += ns
        stall = self._stall(before, done, spent, ended)
        for cause, ns in stall.items():
            self._stall_ns[cause] += ns
        if self._cache is not None and self._process is not None and not self._cache.segment.closed:
            with self._process.turn:
                self._process.add(before, done, spent, stall)
                self._process.publish(self._cache, {**self._shown, "place": done.place})
        return True

    def uses(self, threads: int) -> None:
        """So many threads, or worker processes, prepare from now on."""
        self._shown = {**self._shown, "threads": threads}

    def epoch_times(self) -> EpochTimes | None:
        """The times of the epoch that began last; None: none has begun."""
        if self._epoch is None:
            return None
        stall_s = {cause: ns / NS for cause, ns in self._stall_ns.items()} if self._stall_is_known else {}
        delivered = self._last.place - self._place_before
        return EpochTimes(self._epoch, self._until - self._began, delivered, stall_s, self._ended)

    def _stall(self, before: WorkDone, done: WorkDone, spent: dict[str, int], ended: bool) -> dict[str, int]:
        """Nanoseconds that the training loop waited, by what would have removed the wait."""
        self._stall_is_known = done.stall_s is not None
        if done.stall_s is None:
            return {}
        self._stalled_ns += round((done.stall_s - (before.stall_s or 0.0)) * NS)
        self._peers_ns += round((done.peer_wait_s - before.peer_wait_s) * NS)
        total = sum(spent.values())
        if total == 0 and self._stalled_ns <= NS and not ended:
            return {}  # who worked may be known with the next batch
        stalled, self._stalled_ns = self._stalled_ns, 0
        seen, self._seen_ns = self._seen_ns, 0
        for_peers = min(stalled, self._peers_ns)
        self._peers_ns = 0
        own = stalled - for_peers
        if total == 0:
            return {"peers": for_peers, "other": own}
        parts = stall_parts(spent, self._shown["threads"], max(0, seen - stalled))
        total = sum(parts.values())
        return {"peers": for_peers, **{cause: own * ns // total for cause, ns in parts.items()}}

    def _spent(self, before: WorkDone, done: WorkDone) -> dict[str, int]:
        """The time that preparing took, in nanoseconds by cause."""
        stages = done.spent.since(before.spent)
        _, prepare, decode, augment, recode, redraw = (round(s * NS) for s in stages.seconds)
        decode += prepare + recode + redraw  # each of them is decoding for the most part
        item, item_wall = (
            round((now - then) * NS) for now, then in zip(done.items_s, before.items_s, strict=True)
        )
        cpu, waited = self._cores_since(done.preparers)
        # Times of stages are counted when their batch is complete. What is under way is carried over.
        self._cpu_ns += cpu - decode - augment - item
        rest, self._cpu_ns = max(0, self._cpu_ns), min(0, self._cpu_ns)
        blocked = max(0, item_wall - item - waited)
        return {
            "storage": round(stages.blocked_s * NS) + blocked,
            "decode": decode,
            "augment": augment,
            "item": item,
            "batch": rest,
            "cores": waited,
        }

    def _cores_since(self, preparers: Sequence[int]) -> tuple[int, int]:
        """Nanoseconds that the preparers have had a core, and waited for one, since the last call."""
        cpu = waited = 0
        now = {number: cores_used(number) for number in preparers}
        for number, (ran, delayed) in now.items():
            ran_before, delayed_before = self._cores.get(number, (ran, delayed))
            cpu += max(0, ran - ran_before)
            waited += max(0, delayed - delayed_before)
        self._cores = now
        return cpu, waited


def stall_parts(spent: dict[str, int], threads: int, computing: int) -> dict[str, int]:
    """Each cause's part in the time of the training loop. All are nanoseconds of the same stretch of time.

    The parts are DS-Analyzer's (Mohan et al., VLDB '21, section 3), as ``seneca analyze`` has them:
    preparing costs what the threads need for it beyond the time that the loop computes; storage costs what
    their waiting for files adds to that; and so do the cores. What hides behind the computing costs nothing.

    Args:
        spent: What the threads did, by cause. It is more than 0.
        threads: Their number. 0: the loop itself prepares, and nothing is hidden.
        computing: How long the loop did not wait.

    Returns:
        The parts of the causes. Their sum is more than 0; it need not be the time that the loop waited.
    """
    if threads == 0:
        return spent
    preparing = sum(spent.values()) - spent["storage"] - spent["cores"]
    parts = dict.fromkeys(spent, 0)
    hidden = computing * threads
    if preparing > hidden:
        for cause in ("decode", "augment", "item", "batch"):
            parts[cause] = spent[cause] * (preparing - hidden) // preparing
    reached = max(preparing, hidden)
    parts["storage"] = max(0, preparing + spent["storage"] - reached)
    reached = max(reached, preparing + spent["storage"])
    parts["cores"] = max(0, sum(spent.values()) - reached)
    return parts if any(parts.values()) else spent


class _Process:
    """What this process has published of all its loaders that share one cache."""

    def __init__(self, job: str | None) -> None:
        self.turn = threading.Lock()
        self.name = job or _command_line()
        self.since_ms = _now_ms()
        self.counts = dict.fromkeys(
            ("delivered", "prepared", "staged", "skipped", "damaged", "read_bytes"), 0
        )
        self.served = {form.name.lower(): 0 for form in Form}
        self.unrecoded = dict.fromkeys(UNRECODED, 0)
        self.stall_ns = dict.fromkeys(CAUSES, 0)
        self.spent_ns = dict.fromkeys(CAUSES, 0)

    def add(self, before: WorkDone, done: WorkDone, spent: dict[str, int], stall: dict[str, int]) -> None:
        self.counts["delivered"] += max(0, done.delivered - before.delivered)
        self.counts["read_bytes"] += done.spent.read_bytes - before.spent.read_bytes
        for name, count in done.counts.items():
            self.counts[name] += count - before.counts.get(name, 0)
        for form, n, then in zip(Form, done.served, before.served, strict=True):
            self.served[form.name.lower()] += n - then
        for why, n, then in zip(UNRECODED, done.unrecoded, before.unrecoded, strict=True):
            self.unrecoded[why] += n - then
        for cause, ns in spent.items():
            self.spent_ns[cause] += ns
        for cause, ns in stall.items():
            self.stall_ns[cause] += ns

    def publish(self, cache: SampleCache, epoch: dict[str, Any]) -> None:
        """Publish what all loaders have done, what the one that publishes it loads, and where it is."""
        values: dict[str, Any] = {
            "name": self.name,
            "since_ms": self.since_ms,
            "published_ms": _now_ms(),
            **self.counts,
            "served": self.served,
            "unrecoded": self.unrecoded,
            "stall_ns": self.stall_ns,
            "spent_ns": self.spent_ns,
            **epoch,
        }
        publish_work(cache.segment, values)


def _command_line() -> str:
    """``sys.argv`` as a text. An embedding program may have put anything into it, or nothing."""
    program, *arguments = map(str, getattr(sys, "argv", None) or [""])
    return _fitting(" ".join([os.path.basename(program) or "python", *arguments]))


def _fitting(name: str) -> str:
    """A name without its middle, if it is too long: jobs often differ in their last arguments."""
    if len(name.encode(errors="replace")) <= NAME_BYTES:
        return name
    begin = name[: NAME_BYTES // 3].encode(errors="replace")[: NAME_BYTES // 3]
    room = NAME_BYTES - len(begin) - len(CUT.encode())
    end = name[-room:].encode(errors="replace")[-room:]
    return f"{begin.decode(errors='ignore')}{CUT}{end.decode(errors='ignore')}"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def cores_used(number: int) -> tuple[int, int]:
    """Nanoseconds that a thread, or the first thread of a process, has had a core and has waited for one.

    Zeros: it has ended, or the kernel does not say.
    """
    try:
        with open(f"/proc/{number}/schedstat", "rb") as file:
            ran, delayed, _ = file.read().split()
    except (OSError, ValueError):
        return 0, 0
    return int(ran), int(delayed)


_of_cache: weakref.WeakKeyDictionary[SampleCache, _Process] = weakref.WeakKeyDictionary()
