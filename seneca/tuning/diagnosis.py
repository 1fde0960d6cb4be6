"""Why a training loop waits for samples, and what would remove the wait.

::

    times of an epoch ----------> what share of it was waited, and for what
    profile, jobs and split ----> the model of the split, asked what more of each resource would give

The model is asked for ratios alone: how much faster samples would come than they do now. The rate itself was
measured.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from seneca._runtime.segment_folder import larger
from seneca.partition import BOTTLENECK, Jobs, Profile, Split, solve

if TYPE_CHECKING:  # it needs the native core, without which a diagnosis can be made
    from seneca.tuning.telemetry import EpochTimes

__all__ = ["NOTHING_TO_SAY", "WITHOUT_MODEL", "Diagnosis", "ModelInputs", "Remedy", "diagnose", "logger"]

logger = logging.getLogger("seneca.epochs")  # the name that users filter by

NOTHING_TO_SAY = "there is nothing to say yet: call diagnose() in an epoch, or after one"
NO_MATTER = 0.03  # a smaller share of an epoch is no wait worth a remedy
LEAST_GAIN = 0.02  # share of the epoch; a remedy that removes less is not reported
NEXT_TO_ALL = 0.01  # what is left of the wait if "all of it" is removed
GIB = 1 << 30
FEW = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")

DOING = {
    "storage": "storage",
    "decode": "decoding",
    "augment": "augmenting",
    "item": "the dataset's own code",
    "batch": "making batches",
    "cores": "a free core",
    "peers": "other jobs of the same seed",
    "other": "other things",
}

WITHOUT_MODEL = {
    "storage": "more workers (num_workers) read more at a time; a larger cache (cache_bytes) reads less",
    "decode": "more workers (num_workers) help while cores are free; with a larger cache less is decoded",
    "augment": "more workers (num_workers) help while cores are free",
    "item": "more workers (num_workers) help while cores are free; a profiler shows what __getitem__ does",
    "batch": "more workers (num_workers) help while cores are free; a profiler shows what collate_fn does",
    "peers": "jobs with share='exact' prepare for each other: start them together, with as many workers each",
    "cores": "other processes take the cores: give this one more, or start fewer workers and threads in all",
    "other": "",
}


class ModelInputs(NamedTuple):
    """Facts about a host and a cache: the numbers that the model takes.

    Attributes:
        profile: The rates of the host with the dataset.
        jobs: The jobs that share the cache.
        split: The split of the cache.
        folder: Where the cache is stored.
        most_bytes: The most that ``folder`` has room for; None: it is not known.
    """

    profile: Profile
    jobs: Jobs
    split: Split
    folder: str = ""
    most_bytes: int | None = None


@dataclass(frozen=True)
class Remedy:
    """One change that would remove some of the wait.

    Args:
        what: The change, as a text.
        removes: The share of the epoch that it removes, from 0 to 1.
    """

    what: str
    removes: float


@dataclass(frozen=True)
class Diagnosis:
    """Why the training loop waited in one epoch. ``str()`` of it is the answer as one line.

    Args:
        epoch: The number of the epoch.
        seconds: How long it took; so far, if ``ended`` is False.
        ended: Whether it has ended.
        delivered: Samples that it delivered.
        waited: The share of the epoch that the training loop waited for samples, from 0 to 1; None: not
            known.
        causes: The part of ``waited`` that each cause has, the largest first: what those who prepare did in
            the same time. ``storage``, ``decode``, ``augment``, ``item`` (the dataset's own code), ``batch``,
            ``cores`` (they waited for a core), ``peers`` (other jobs made the copies), ``other``.
        remedies: What would remove the wait, by the model of ``seneca plan``; the most useful first.
        advice: What helps in general, where the model cannot be asked, or does not know the largest cause;
            empty: it can, or nothing is wrong.
    """

    epoch: int
    seconds: float
    ended: bool
    delivered: int
    waited: float | None
    causes: dict[str, float]
    remedies: tuple[Remedy, ...]
    advice: str

    def __str__(self) -> str:
        so_far = "" if self.ended else " so far"
        if self.waited is None:
            return f"epoch {self.epoch}: it is not known how long the training loop waits"
        of = f"epoch {self.epoch}{so_far} waited {self.waited:.0%} of {self.seconds:.1f} s"
        if self.waited < NO_MATTER:
            return f"{of}: the training step is the limit"
        parts = [
            f"{share:.0%} for {DOING[cause]}" for cause, share in self.causes.items() if share >= LEAST_GAIN
        ]
        why = ", ".join(parts) or f"for {DOING[next(iter(self.causes), 'other')]}"
        if self.remedies:
            then = "; ".join(
                f"{one.what} would remove "
                + ("all of it" if one.removes >= self.waited - NEXT_TO_ALL else f"{one.removes:.0%}")
                for one in self.remedies
            )
        else:
            then = self.advice or "by the model, no resource alone would remove it"
        return f"{of}: {why}. {then[0].upper()}{then[1:]}."

    def scalars(self, prefix: str = "seneca/") -> dict[str, float]:
        """``waited``, and each cause as ``waited_for/storage``: shares from 0 to 1, as loggers take them.

        Args:
            prefix: What all names begin with.

        Returns:
            The shares; none if it is not known how long the training loop waits.
        """
        if self.waited is None:
            return {}
        causes = {f"{prefix}waited_for/{cause}": share for cause, share in self.causes.items()}
        return {f"{prefix}waited": self.waited, **causes}


def diagnose(times: EpochTimes, known: ModelInputs | None) -> Diagnosis:
    """Say why the training loop waited, and what would remove the wait.

    Method: while the loop waits, samples come as fast as they can be prepared. The model of ``seneca plan``
    (docs/models.md) says how many times as fast, f, they could be prepared with a change. An epoch of T
    seconds of which W were waited would then take T / f, or T - W if the training step is the limit. The
    change removes the difference.

    Args:
        times: The times of the epoch.
        known: What the model takes; None: it cannot be asked.
    """
    of = times.epoch, times.seconds, times.ended, times.delivered
    if not times.stall_s or times.seconds <= 0:
        return Diagnosis(*of, None, {}, (), "")
    total = sum(times.stall_s.values())
    waited = min(1.0, total / times.seconds)  # the wait for the first batch began before the epoch
    causes = {
        cause: waited * seconds / total
        for cause, seconds in sorted(times.stall_s.items(), key=lambda item: -item[1])
        if seconds > 0
    }
    remedies: tuple[Remedy, ...] = ()
    own = waited - causes.get("peers", 0.0)  # no resource of this job removes the rest
    if own >= NO_MATTER and known is not None:
        remedies = tuple(sorted(_remedies(own, known), key=lambda one: -one.removes))
    most = next(iter(causes), "other")
    is_asked = known is not None and most != "peers"
    advice = "" if is_asked or waited < NO_MATTER else WITHOUT_MODEL[most]
    return Diagnosis(*of, waited, causes, remedies, advice)


def _remedies(waited: float, known: ModelInputs) -> Iterator[Remedy]:
    profile, split = known.profile, known.split
    jobs = dataclasses.replace(known.jobs, step_per_s=None)  # as fast as samples can be prepared
    now = BOTTLENECK.predict(profile, split, jobs).samples_per_s

    def left(rate: float) -> float:
        """The wait that would be left, as a share of the epoch as it was."""
        return max(0.0, now / rate - (1 - waited))

    def of_more(
        values: Sequence[int], rate: Callable[[int], float], text: Callable[[int], str]
    ) -> Iterator[Remedy]:
        """The least of rising values with which next to nothing more is gained by the last."""
        if not values:
            return
        best = left(rate(values[-1]))
        if waited - best < LEAST_GAIN:
            return
        value = next(value for value in values if left(rate(value)) <= best + NEXT_TO_ALL)
        yield Remedy(text(value), waited - left(rate(value)))

    threads = jobs.threads or profile.cores
    yield from of_more(
        range(threads + 1, 2 * max(threads, profile.cores) + 1),
        lambda n: BOTTLENECK.predict(profile, split, dataclasses.replace(jobs, threads=n)).samples_per_s,
        lambda n: f"{_few(n - threads)} more thread{'s' * (n - threads > 1)} (num_workers={n})",
    )
    useful = round(profile.samples * (profile.encoded.mean_bytes + profile.decoded.mean_bytes))
    sizes = [size for size in _steps(profile.cache_bytes) if size < useful]
    if useful > profile.cache_bytes:
        sizes.append(useful)
    yield from of_more(
        sizes,
        lambda size: solve(profile.with_memory(size), jobs).samples_per_s,
        lambda size: f"{(size - profile.cache_bytes) / GIB:.3g} GiB more of cache ({_how(size, known)})",
    )
    yield from of_more(
        range(profile.cores + 1, 4 * profile.cores + 1),
        lambda n: (
            BOTTLENECK.predict(
                dataclasses.replace(profile, cores=n),
                split,
                dataclasses.replace(jobs, threads=max(threads, n)),
            ).samples_per_s
        ),
        lambda n: f"{_few(n - profile.cores)} more core{'s' * (n - profile.cores > 1)}",
    )
    storage = profile.storage_bytes_per_s
    yield from of_more(
        [2, 4, 8, 16],
        lambda n: BOTTLENECK.predict(profile.with_storage(n * storage), split, jobs).samples_per_s,
        lambda n: f"storage {n} times as fast ({n * storage / 1e6:,.0f} MB/s)",
    )


def _how(size: int, known: ModelInputs) -> str:
    """How a cache gets so large."""
    if known.most_bytes is None or size <= known.most_bytes:
        return "cache_bytes"
    return f"{known.folder} has no room for it: {larger(known.folder)}"


def _steps(least: int) -> Iterator[int]:
    """Sizes of a cache above ``least``, each a quarter larger, up to 1,000 times as large."""
    size = float(least)
    for _ in range(31):
        size *= 1.25
        yield round(size)


def _few(n: int) -> str:
    return FEW[n] if n < len(FEW) else f"{n:,}"
