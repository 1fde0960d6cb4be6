"""When a split is changed while jobs run, and to what. Pure: the time is an argument.

::

    profile, as measured  --+
    Seen: jobs, times -------+--> what the profile would say now --> solve --> Change, or None
    split, time ------------+          parted by 25 %, or other jobs?   worth 5 %?
"""

from __future__ import annotations

import dataclasses
import math
import operator
from dataclasses import dataclass
from typing import Any

from seneca.partition.bottleneck import bottleneck
from seneca.partition.jobs import Jobs
from seneca.partition.profile import Cost, Profile, Reading, Size
from seneca.partition.solve import solve
from seneca.partition.split import Split

__all__ = ["Adaptation", "Change", "Seen", "Spent", "corrected", "profile_of"]

PARTED = 1.25  # a rate that is so many times another is another rate
WORTH = 1.05  # of the samples a second that are expected now, for a change to be made
CHANGE_EVERY_S = 10.0
ENOUGH = 64  # times that something was done, for its mean to tell anything
LEAST_COLD = 0.05  # of the bytes: less tells nothing of storage
SLOW_FOR_MEMORY, SLOW_S = 4.0, 1e-3  # what takes so much longer than the page cache is storage
STAGES = ("read", "prepare", "decode", "augment")


@dataclass(frozen=True)
class Spent:
    """What the preparing of samples has taken: sums, each of ``read``, ``prepare``, ``decode``, ``augment``.

    Args:
        times: How often it was done.
        seconds: ``read`` by the wall, the others of the CPU.
        read_bytes: Of files.
        decoded_bytes: Of what was decoded to be kept.
    """

    times: tuple[int, ...] = (0, 0, 0, 0)
    seconds: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0)
    read_bytes: int = 0
    decoded_bytes: int = 0

    def since(self, before: Spent) -> Spent:
        """What has come to it."""
        return Spent(
            tuple(now - then for now, then in zip(self.times, before.times, strict=True)),
            tuple(now - then for now, then in zip(self.seconds, before.seconds, strict=True)),
            self.read_bytes - before.read_bytes,
            self.decoded_bytes - before.decoded_bytes,
        )

    def plus(self, more: Spent) -> Spent:
        """Both together."""
        return Spent(
            tuple(map(operator.add, self.times, more.times)),
            tuple(map(operator.add, self.seconds, more.seconds)),
            self.read_bytes + more.read_bytes,
            self.decoded_bytes + more.decoded_bytes,
        )

    @property
    def tells_enough(self) -> bool:
        """Whether all that was done was done often enough, and something was."""
        return any(self.times) and all(times == 0 or times >= ENOUGH for times in self.times)

    def mean_s(self, stage: str) -> float | None:
        """Seconds of one; None where it was not done often enough."""
        at = STAGES.index(stage)
        return self.seconds[at] / self.times[at] if self.times[at] >= ENOUGH else None


@dataclass(frozen=True)
class Seen:
    """What one process sees of a while.

    Args:
        jobs: That share the cache.
        spent: By this one.
        seconds: Of the while.
        cold: Of the bytes that were read, the share that the kernel fetched; None: it does not tell.
        free_memory_bytes: As a profile's.
    """

    jobs: Jobs
    spent: Spent
    seconds: float
    cold: float | None
    free_memory_bytes: int


@dataclass(frozen=True)
class Change:
    """A split that is better than the one there is.

    Args:
        split: It.
        reason: To look for one, in words.
        gain: What it gives, likewise.
    """

    split: Split
    reason: str
    gain: str

    @property
    def why(self) -> str:
        """Both, in a line."""
        return f"{self.reason}: {self.gain}"


class Adaptation:
    """What is taken to be true, against which it is held what is seen.

    Args:
        profile: As measured, with the memory of the cache; None: nothing is known yet.
        jobs: For which the split was chosen.
    """

    def __init__(self, profile: Profile | None, jobs: Jobs) -> None:
        self.profile = profile
        self._jobs = jobs
        self._why = ""
        self._split: Split | None = None
        self._changed_at = -math.inf

    def knows(self, profile: Profile, why: str = "") -> None:
        """From now on this is taken to be true; ``why``: and is a reason to look for a split at once."""
        self.profile, self._why = profile, why

    def follow(self, now: float, split: Split, jobs: Jobs) -> None:
        """Another decides: what it knows of the jobs is old news, and its changes keep their distance too."""
        if split != self._split:
            self._split, self._changed_at = split, now
        self._jobs = jobs

    def failed(self, change: Change) -> None:
        """It could not be made: its reason stands, and is looked into when a change may be made again."""
        self._why, self._split = change.reason, None

    def consider(self, now: float, split: Split, seen: Seen) -> Change | None:
        """A better split, where there is reason to look for one; the profile is known.

        Args:
            now: In seconds, on a clock that does not stop.
            split: In force.
            seen: Since the last call that was not too soon.
        """
        assert self.profile is not None
        if self._split not in (None, split):
            self._changed_at = now  # somebody has
        self._split = split
        profile = corrected(self.profile, seen)
        reasons = [self._why] if self._why else _reasons(self.profile, profile, self._jobs, seen)
        if not reasons or now - self._changed_at < CHANGE_EVERY_S:
            return None
        self.profile, self._jobs, self._why = profile, seen.jobs, ""
        best = solve(profile, seen.jobs)
        expected = bottleneck(profile, split, seen.jobs).samples_per_s
        if best.samples_per_s < WORTH * expected:
            return None
        gain = f"{best.samples_per_s:,.0f} samples/s expected in place of {expected:,.0f}"
        self._split, self._changed_at = best.split, now
        return Change(best.split, "; ".join(reasons), gain)


def _reasons(before: Profile, now: Profile, jobs_before: Jobs, seen: Seen) -> list[str]:
    reasons = []
    if seen.jobs.count != jobs_before.count:
        reasons.append(f"{seen.jobs.count} job{'s' * (seen.jobs.count > 1)} in place of {jobs_before.count}")
    else:
        paces = zip(sorted(jobs_before.paces), sorted(seen.jobs.paces), strict=True)
        parted = next(((a, b) for a, b in paces if _parted(a, b)), None)
        if parted is not None:
            was, becomes = map(_number, parted)
            reasons.append(f"a job's step takes {becomes} samples/s in place of {was}")
    for stage in ("prepare", "augment", "decode"):
        a, b = getattr(before, stage).all_s, getattr(now, stage).all_s
        if _parted(a, b):
            reasons.append(f"to {stage} takes {_number(1e3 * b)} ms in place of {_number(1e3 * a)}")
            break  # they part together: one says it
    rates = before.storage_bytes_per_s, now.storage_bytes_per_s
    if _parted(*rates):
        reasons.append(f"storage gives {_number(rates[1] / 1e6)} MB/s in place of {_number(rates[0] / 1e6)}")
    elif now.free_memory_bytes == now.cache_bytes < before.free_memory_bytes:
        reasons.append("the page cache does not help")
    return reasons


def _number(value: float) -> str:
    """In words to people: three digits or more, and no limit is any number."""
    if math.isinf(value):
        return "any"
    return f"{value:,.0f}" if value >= 99.95 else f"{value:.3g}"


def _parted(a: float, b: float) -> bool:
    return a != b and not 1 / PARTED <= (b / a if a else math.inf) <= PARTED


def corrected(profile: Profile, seen: Seen) -> Profile:
    """The profile as it would have been measured in this while; what nothing was seen of is as it was.

    * Costs of the CPU that were not seen part from the profile as those that were.
    * Storage is as much slower or faster as a read from it was than the profile says for so many readers.
    * Where reads are slow and the kernel counts none of them as storage's (file systems in user space,
      sources of another kind), the page cache is taken to hold nothing.
    """
    ratios = {}
    for stage in ("prepare", "decode", "augment"):
        mean_s = seen.spent.mean_s(stage)
        if mean_s is not None and mean_s > 0 and getattr(profile, stage).all_s > 0:
            ratios[stage] = mean_s / getattr(profile, stage).all_s
    if ratios:
        of_all = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
        changed: dict[str, Any] = {}
        for stage in ("prepare", "decode", "augment"):
            cost, ratio = getattr(profile, stage), ratios.get(stage, of_all)
            changed[stage] = Cost(cost.one_s * ratio, cost.all_s * ratio)
        profile = dataclasses.replace(profile, **changed)
    free = max(profile.cache_bytes, seen.free_memory_bytes)
    cold, from_storage_s = _from_storage(profile.fetch.one_s, seen)
    if from_storage_s is None:
        return dataclasses.replace(profile, free_memory_bytes=free)
    if cold is None:
        free = profile.cache_bytes
    readers = _readers(seen)
    expected_s = profile.encoded.mean_bytes * readers / profile.storage_at(readers)
    ratio = expected_s / from_storage_s
    profile = dataclasses.replace(profile, free_memory_bytes=free)
    return profile.with_storage(profile.storage_bytes_per_s * ratio)


def _readers(seen: Seen) -> float:
    """Files that all jobs read at a time, if they read as this one does; 1 at least."""
    return max(1.0, seen.jobs.count * seen.spent.seconds[0] / max(seen.seconds, 1e-9))


def _from_storage(fetch_s: float, seen: Seen) -> tuple[float | None, float | None]:
    """The share of the reads that came from storage, and seconds of one that did; None: not known."""
    mean_s = seen.spent.mean_s("read")
    if mean_s is None:
        return None, None
    if seen.cold is not None and seen.cold >= LEAST_COLD:
        cold = min(1.0, seen.cold)
        return cold, max((mean_s - (1 - cold) * fetch_s) / cold, 1e-6)
    slow = mean_s > SLOW_FOR_MEMORY * fetch_s + SLOW_S
    return None, mean_s if slow else None


def profile_of(
    seen: Seen, *, samples: int, cores: int, cache_bytes: int, decoded_bytes: float, copy_bytes: float
) -> Profile | None:
    """What can be said of a dataset that nobody has measured, by what was seen of it.

    The way of datasets that are prepared in Python. Of the memory's bandwidth and of what a batch costs
    nothing is known: neither is a limit then.

    Args:
        seen: Of it.
        samples: Of the dataset.
        cores: That the process may use.
        cache_bytes: Memory for payloads.
        decoded_bytes: Of one DECODED payload, or 0: as it was seen.
        copy_bytes: Of one AUGMENTED copy, or 0: as much.

    Returns:
        The profile; None while reading, preparing and augmenting were not each seen often enough.
    """
    spent = seen.spent
    read_s, prepare_s, augment_s = (spent.mean_s(stage) for stage in ("read", "prepare", "augment"))
    decode_s = spent.mean_s("decode")
    if prepare_s is None and decode_s is not None and augment_s is not None:
        prepare_s = decode_s + augment_s
    decoded_bytes = spent.decoded_bytes / spent.times[2] if spent.times[2] else decoded_bytes
    if read_s is None or prepare_s is None or augment_s is None or not (decoded_bytes and spent.read_bytes):
        return None
    mean_bytes, readers = spent.read_bytes / spent.times[0], _readers(seen)
    whole = max(1, round(readers))
    cost: dict[str, float] = {
        "fetch": 0.0,  # part of the reading
        "decode": max(0.0, prepare_s - augment_s) if decode_s is None else decode_s,
        "augment": augment_s,
        "prepare": max(prepare_s, 1e-9),
        "batch": 1e-9,
    }
    costs: dict[str, Any] = {name: Cost(seconds, seconds) for name, seconds in cost.items()}
    return Profile(
        host="",
        dataset="",
        pipeline="",
        samples=samples,
        cores=cores,
        cache_bytes=cache_bytes,
        free_memory_bytes=cache_bytes if read_s > SLOW_S else max(cache_bytes, seen.free_memory_bytes),
        storage=(Reading(whole, whole * mean_bytes / max(read_s, 1e-9), read_s),),
        storage_cold=False,
        memory_bytes_per_s=1e15,
        encoded=Size(mean_bytes),
        decoded=Size(decoded_bytes),
        augmented=Size(copy_bytes or decoded_bytes),
        batch_bytes=1,
        measured_samples=spent.times[0],
        took_s=seen.seconds,
        notes=("seen while samples were prepared",),
        **costs,
    )
