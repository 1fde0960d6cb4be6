"""When a split is changed while jobs run, and to what. Pure functions: the time is an argument.

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
from seneca.partition.hosts import ALONE, Hosts
from seneca.partition.jobs import Jobs
from seneca.partition.profile import Cost, Profile, Reading, Size
from seneca.partition.solve import solve
from seneca.partition.split import Split

__all__ = ["Adaptation", "Change", "Seen", "Spent", "corrected", "profile_of", "servers_of"]

PARTED = 1.25  # a rate has changed if it is so many times what it was, or the inverse
WORTH = 1.05  # a change is made if it gives so many times the samples a second expected now
CHANGE_EVERY_S = 10.0
ENOUGH = 64  # the mean of fewer measurements says nothing
HOLD_MORE = 0.1  # another share of the files that servers have is news if it differs by so much,
LACK_MORE = 0.01  # or by so much, and what they lack has parted: slow storage has to give that
LEAST_COLD = 0.05  # a smaller share of the bytes says nothing about storage
SLOW_FOR_MEMORY, SLOW_S = 4.0, 1e-3  # a read that takes so much longer than the page cache comes from storage
STAGES = ("read", "prepare", "decode", "augment", "recode", "redraw")
CPU_STAGES = STAGES[1:]


@dataclass(frozen=True)
class Spent:
    """The cost of preparing samples so far. Tuples are in the order ``read``, ``prepare``, ``decode``,
    ``augment``, ``recode``, ``redraw``.

    Args:
        times: How often each was done. ``recode`` counts RECODED payloads that were made.
        seconds: How long each took in all: ``read`` by the wall clock, the others in CPU time.
        read_bytes: Bytes of the files that were read.
        decoded_bytes: Bytes of the samples that were decoded to be kept.
        blocked_s: How long those who prepare waited for reads, by the wall clock. It is less than the time
            of the reads where files are read ahead.
        from_servers: Files that servers of other hosts had. They are no reads.
        from_servers_s: How long asking for these took in all, by the wall clock.
        to_servers: Files that were read from storage, and that servers have kept.
    """

    times: tuple[int, ...] = (0,) * len(STAGES)
    seconds: tuple[float, ...] = (0.0,) * len(STAGES)
    read_bytes: int = 0
    decoded_bytes: int = 0
    blocked_s: float = 0.0
    from_servers: int = 0
    from_servers_s: float = 0.0
    to_servers: int = 0

    def since(self, before: Spent) -> Spent:
        """The difference from ``before``."""
        return Spent(
            tuple(now - then for now, then in zip(self.times, before.times, strict=True)),
            tuple(now - then for now, then in zip(self.seconds, before.seconds, strict=True)),
            self.read_bytes - before.read_bytes,
            self.decoded_bytes - before.decoded_bytes,
            self.blocked_s - before.blocked_s,
            self.from_servers - before.from_servers,
            self.from_servers_s - before.from_servers_s,
            self.to_servers - before.to_servers,
        )

    def plus(self, more: Spent) -> Spent:
        """The sum of both."""
        return Spent(
            tuple(map(operator.add, self.times, more.times)),
            tuple(map(operator.add, self.seconds, more.seconds)),
            self.read_bytes + more.read_bytes,
            self.decoded_bytes + more.decoded_bytes,
            self.blocked_s + more.blocked_s,
            self.from_servers + more.from_servers,
            self.from_servers_s + more.from_servers_s,
            self.to_servers + more.to_servers,
        )

    @property
    def has_enough_measurements(self) -> bool:
        """Whether something was done, and everything that was done was done often enough.

        ``recode`` is not waited for: it may be seldom, and no share depends on its cost.
        """
        counts = zip(STAGES, self.times, strict=True)
        return any(self.times) and all(n == 0 or n >= ENOUGH for stage, n in counts if stage != "recode")

    def mean_s(self, stage: str) -> float | None:
        """Mean seconds of one ``stage``; None if it was not done often enough."""
        at = STAGES.index(stage)
        return self.seconds[at] / self.times[at] if self.times[at] >= ENOUGH else None


@dataclass(frozen=True)
class Seen:
    """The observations of one process in some time.

    Args:
        jobs: The jobs that share the cache.
        spent: What preparing has taken in this process.
        seconds: The length of the time.
        cold: The share of the read bytes that the kernel fetched from storage; None: it does not say.
        free_memory_bytes: Free memory, as in a profile.
    """

    jobs: Jobs
    spent: Spent
    seconds: float
    cold: float | None
    free_memory_bytes: int


@dataclass(frozen=True)
class Change:
    """A split that is better than the one in force.

    Args:
        split: The better split.
        reason: Why a better split was searched for, in words.
        gain: What the split gives, in words.
    """

    split: Split
    reason: str
    gain: str

    @property
    def why(self) -> str:
        """Reason and gain in one line."""
        return f"{self.reason}: {self.gain}"


class Adaptation:
    """The rates and jobs that the split in force is based on. Later measurements are compared with them.

    Args:
        profile: The profile as measured, with the memory of the cache; None: nothing is known yet.
        jobs: The jobs for which the split was chosen.
    """

    def __init__(self, profile: Profile | None, jobs: Jobs) -> None:
        self.profile = profile
        self._jobs = jobs
        self._why = ""
        self._split: Split | None = None
        self._changed_at = -math.inf

    @property
    def servers(self) -> Hosts:
        """The rates of other hosts' servers when they were last a reason, or no reason was needed."""
        return self._jobs.hosts

    def knows(self, profile: Profile, why: str = "") -> None:
        """Take this profile as true from now on. With ``why`` it is also a reason to search for a split at
        once."""
        self.profile, self._why = profile, why

    def follow(self, now: float, split: Split, jobs: Jobs) -> None:
        """Note the split and the jobs while another process decides.

        Then, when this process decides, it does not take them for news, and it also waits after the other's
        changes.
        """
        if split != self._split:
            self._split, self._changed_at = split, now
        self._jobs = jobs

    def failed(self, change: Change) -> None:
        """A change could not be made. Its reason stays, and is examined again when a change may be made
        again."""
        self._why, self._split = change.reason, None

    def consider(self, now: float, split: Split, seen: Seen) -> Change | None:
        """Find a better split if there is reason to search for one. The profile must be known.

        Args:
            now: The time in seconds, by a clock that does not stop.
            split: The split in force.
            seen: What was seen since the last call that was not too soon.
        """
        assert self.profile is not None
        if self._split not in (None, split):
            self._changed_at = now  # another process has changed it
        self._split = split
        profile = corrected(self.profile, seen)
        jobs = dataclasses.replace(seen.jobs, hosts=servers_of(self._jobs.hosts, profile, seen))
        reasons = [self._why] if self._why else _reasons(self.profile, profile, self._jobs, jobs)
        if not reasons or now - self._changed_at < CHANGE_EVERY_S:
            return None
        self.profile, self._jobs, self._why = profile, jobs, ""
        best = solve(profile, jobs)
        expected = bottleneck(profile, split, jobs).samples_per_s
        if best.samples_per_s < WORTH * expected:
            return None
        gain = f"{best.samples_per_s:,.0f} samples/s expected in place of {expected:,.0f}"
        self._split, self._changed_at = best.split, now
        return Change(best.split, "; ".join(reasons), gain)


def _reasons(before: Profile, now: Profile, jobs_before: Jobs, jobs: Jobs) -> list[str]:
    reasons = []
    if jobs.count != jobs_before.count:
        reasons.append(f"{jobs.count} job{'s' * (jobs.count > 1)} in place of {jobs_before.count}")
    else:
        paces = zip(sorted(jobs_before.paces), sorted(jobs.paces), strict=True)
        parted = next(((a, b) for a, b in paces if _parted(a, b)), None)
        if parted is not None:
            was, becomes = map(_number, parted)
            reasons.append(f"a job's step takes {becomes} samples/s in place of {was}")
    for stage in ("prepare", "redraw", "augment", "decode"):  # no share depends on recode
        a, b = getattr(before, stage).all_s, getattr(now, stage).all_s
        if _parted(a, b):
            reasons.append(f"to {stage} takes {_number(1e3 * b)} ms in place of {_number(1e3 * a)}")
            break  # they change together: one reason is enough
    rates = before.storage_bytes_per_s, now.storage_bytes_per_s
    if _parted(*rates):
        reasons.append(f"storage gives {_number(rates[1] / 1e6)} MB/s in place of {_number(rates[0] / 1e6)}")
    elif now.free_memory_bytes == now.cache_bytes < before.free_memory_bytes:
        reasons.append("the page cache does not help")
    files_bytes = now.samples * now.encoded.mean_bytes
    a, b = (one.hosts.served(files_bytes) for one in (jobs_before, jobs))
    if abs(a - b) > HOLD_MORE or (abs(a - b) > LACK_MORE and _parted(1 - a, 1 - b)):
        reasons.append(f"servers have {b:.0%} of the files in place of {a:.0%}")
    elif b > 0 and _parted(*(network := [one.hosts.nic_bytes_per_s for one in (jobs_before, jobs)])):
        was, becomes = (_number(one / 1e6) for one in network)
        reasons.append(f"servers give {becomes} MB/s in place of {was}")
    return reasons


def _number(value: float) -> str:
    """A number for people, with at least three digits; "any" for infinity."""
    if math.isinf(value):
        return "any"
    return f"{value:,.0f}" if value >= 99.95 else f"{value:.3g}"


def _parted(a: float, b: float) -> bool:
    return a != b and not 1 / PARTED <= (b / a if a else math.inf) <= PARTED


def corrected(profile: Profile, seen: Seen) -> Profile:
    """The profile as it would have been measured in this time. Rates that were not seen stay as they were.

    * CPU costs that were not seen are assumed to have changed as those that were seen.
    * The sizes of payloads, and the share of samples that can be RECODED, stay as they were.
    * Storage is as much slower or faster as a read from it was than the profile says for so many readers.
    * Reads may be slow although the kernel counts none of them as storage's (file systems in user space,
      for example). The page cache is then assumed to hold nothing.
    """
    ratios = {}
    for stage in CPU_STAGES:
        mean_s = seen.spent.mean_s(stage)
        if mean_s is not None and mean_s > 0 and getattr(profile, stage).all_s > 0:
            ratios[stage] = mean_s / getattr(profile, stage).all_s
    if ratios:
        of_all = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
        changed: dict[str, Any] = {}
        for stage in CPU_STAGES:
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


def servers_of(before: Hosts, profile: Profile, seen: Seen) -> Hosts:
    """The rates that other hosts' servers give this host, which is the only one in the answer.

    Other hosts need not be known: what storage and servers give is measured while all of them read. A file
    that a server has kept will come from there in the next epoch. The network gives no more than it has
    shown: what it gave in this time, or would have given to one that asks without a pause, if that is more.

    Args:
        before: What the servers gave before, which stands until enough files were needed.
        profile: The profile as it is now.
        seen: What was seen in this time.
    """
    spent = seen.spent
    files = spent.times[0] + spent.from_servers
    if files < ENOUGH:
        return before
    held = spent.from_servers + min(spent.to_servers, spent.times[0])  # another loader's may be counted too
    if held == 0:
        return ALONE
    bytes_per_s = before.nic_bytes_per_s
    if spent.from_servers > 0:
        mean_s = max(spent.from_servers_s / spent.from_servers, 1e-9)
        asking = max(1.0, seen.jobs.count * spent.from_servers_s / max(seen.seconds, 1e-9))
        bytes_per_s = asking * profile.encoded.mean_bytes / mean_s
    held_bytes = round(held / files * profile.samples * profile.encoded.mean_bytes)
    return Hosts(nic_bytes_per_s=bytes_per_s, remote_bytes=held_bytes, are_apart=True)


def _readers(seen: Seen) -> float:
    """The number of files that all jobs read at a time, if all read as this one does; at least 1."""
    return max(1.0, seen.jobs.count * seen.spent.seconds[0] / max(seen.seconds, 1e-9))


def _from_storage(fetch_s: float, seen: Seen) -> tuple[float | None, float | None]:
    """The share of the reads that came from storage, and the seconds of one such read; None: not known."""
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
    """Make a profile of a dataset that was not measured, from what was seen of it.

    Datasets that Python prepares get such a profile. The memory's bandwidth and the cost of a batch are not
    known; neither is a limit then. None of their samples can be RECODED.

    Args:
        seen: What was seen of the dataset.
        samples: The number of samples.
        cores: The cores that the process may use.
        cache_bytes: Memory for payloads.
        decoded_bytes: The size of a DECODED payload, used only if no decoding was seen; 0: not known.
        copy_bytes: The size of an AUGMENTED copy; 0: the size of a DECODED payload.

    Returns:
        The profile. None: reading, preparing or augmenting was not seen often enough, or the size of a
        DECODED payload is not known.
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
        "fetch": 0.0,  # is part of reading
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
