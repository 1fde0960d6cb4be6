"""Rates of a loader and its training step, why the step waits, and what would change it. Pure.

::

    steps, batches ──> Rates: of a step: waiting, computing; of a batch: CPU, blocked, delayed
                         ├──> Stalls: what part of the wait storage, preparing and too few cores have
                         └──> Remedies: what more workers, faster storage and more cores would remove

Method, after DS-Analyzer (Mohan et al., VLDB '21, section 3): with W workers and k cores, a batch comes each

    max((cpu + blocked) / W, (cpu + cpu of the step) / k)

seconds. The stall is what a step takes longer than the computing alone. Of it, *prep* is what preparing alone
would cost if all files were in memory. *fetch* is what reading adds. *cores* is what the lack of cores adds.
Where workers are measured, not modelled, the parts are scaled to the wait that was measured. Without workers
nothing overlaps, and each part is what was measured.

By the mean, batches may come in time, and yet the loop waits. A quarter of the steps wait no longer than the
*handover*: the loop takes a batch that is ready, and no faster worker would shorten that. The rest of the
wait is for batches that take longer than the mean. It is divided as the time of a batch is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from seneca.cli.analyze.trace import Epochs

__all__ = [
    "NO_MATTER",
    "Rates",
    "Remedy",
    "Stalls",
    "late_ranks",
    "parts_of_batches",
    "rates_of",
    "remedies",
    "stalls",
    "waited_amid",
]

NO_MATTER = 0.05  # a smaller share of the time is no wait worth a remedy
MUCH_HANDOVER = 0.1  # a smaller share is not named, because only another loader would shorten it
LEAST_GAIN = 0.02  # a remedy that removes less is not reported
LATE = 0.1  # of a step: the delay at which a rank is late
USED_UP = 0.1  # of a batch's own time: the wait for cores that means something
MOST_WORKERS = 64

CAUSES = {
    "storage": "fetch",
    "decode": "prep",
    "augment": "prep",
    "item": "prep",
    "batch": "prep",
    "peers": "prep",
    "cores": "cores",
}


@dataclass(frozen=True)
class Remedy:
    """One change.

    Args:
        what: As a text.
        removes: The share of the time that it would remove, from 0 to 1.
    """

    what: str
    removes: float


@dataclass(frozen=True)
class Rates:
    """Means over the steps of a loader's epochs. The first step of each epoch is apart: workers start there.

    Args:
        steps: Their number.
        samples: Of a step.
        seconds: From the first batch of each epoch to its end, of all epochs together.
        first_s: Waiting for the first batch of an epoch.
        wait_s: Waiting for a batch. With a GPU, what the GPU had nothing to do.
        short_wait_s: A quarter of the steps wait no longer than this.
        compute_s: The rest of a step.
        compute_cpu_s: CPU that the process of the training loop takes in the rest of a step.
        cpu_s: CPU of a batch.
        blocked_s: What a batch waits for storage, a network or locks.
        delay_s: What a batch waits for a core.
        read_bytes: What storage gives for a batch.
        workers: 0: the training loop makes the batches.
        cores: That the script may use.
        causes: The parts of the wait, from 0 to 1, if the loader reports them itself.
        remedies: What would help, if the loader reports it itself.
    """

    steps: int
    samples: float
    seconds: float
    first_s: float
    wait_s: float
    short_wait_s: float
    compute_s: float
    compute_cpu_s: float
    cpu_s: float
    blocked_s: float
    delay_s: float
    read_bytes: float
    workers: int
    cores: float
    causes: dict[str, float] | None = None
    remedies: tuple[Remedy, ...] = ()

    @property
    def step_s(self) -> float:
        """Seconds of a step."""
        return self.wait_s + self.compute_s

    @property
    def samples_per_s(self) -> float:
        """Samples that the step gets in a second."""
        return self.samples / self.step_s if self.step_s else 0.0


@dataclass(frozen=True)
class Stalls:
    """Shares of the time, from 0 to 1; together 1.

    Args:
        compute: The training step.
        fetch: Waiting for what storage has not given yet.
        prep: Waiting for samples that are decoded, augmented and put into batches.
        cores: Waiting because too few cores are free.
        handover: Taking batches that are ready.
    """

    compute: float
    fetch: float
    prep: float
    cores: float
    handover: float = 0.0

    @property
    def waited(self) -> float:
        """The share of the time that the step waits."""
        return self.fetch + self.prep + self.cores + self.handover

    @property
    def bottleneck(self) -> str:
        """The limit of the loop: ``compute``, or the cause for which it waits most."""
        waits = {"fetch": self.fetch, "prep": self.prep, "cores": self.cores}
        if self.handover >= MUCH_HANDOVER:
            waits["handover"] = self.handover
        if sum(waits.values()) < NO_MATTER:
            return "compute"
        return max(waits, key=waits.__getitem__)


def rates_of(epochs: Epochs, cores: float, stolen: float = 0.0) -> Rates | None:
    """The rates of a loader; None: no epoch had a second batch, and so it made too few steps.

    Args:
        epochs: What the loader did.
        cores: The number of cores that the script may use.
        stolen: The share of CPU time that a hypervisor took. Workers had to wait so long for a core.
    """
    whole = [steps for steps in epochs.steps if (steps["samples"][1:] != 0).any()]  # 0: it found the end
    if not whole:
        return None
    steps = sum(len(one) - 1 for one in whole)
    seconds = sum(
        float(one[-1]["begin"] + one[-1]["wall"] - one[0]["begin"] - one[0]["wall"]) for one in whole
    )
    waits = np.concatenate([one["wall"][1:] for one in epochs.idle or whole])
    waited = float(waits.sum())
    computing_cpu = np.concatenate([one["cpu"][1:] - one["others"][:-1] for one in whole])
    computing_cpu = computing_cpu[~np.isnan(computing_cpu)]  # those of quick steps that were measured
    made = epochs.batches
    parts = _of_batches(made, stolen)
    workers = int(epochs.about["num_workers"] or 0)
    causes = epochs.causes
    return Rates(
        steps=steps,
        samples=float(made["samples"].mean()) if len(made) else float(epochs.about["batch_size"] or 1),
        seconds=seconds,
        first_s=float(np.mean([one[0]["wall"] for one in epochs.steps])),
        wait_s=waited / steps,
        short_wait_s=float(np.quantile(waits, 0.25)) if len(waits) else 0.0,
        compute_s=max(0.0, seconds - waited) / steps,
        compute_cpu_s=max(0.0, float(computing_cpu.mean())) if len(computing_cpu) else 0.0,
        cpu_s=parts[0],
        blocked_s=parts[1],
        delay_s=parts[2],
        read_bytes=parts[3],
        workers=workers,
        cores=cores,
        causes=None if causes is None else _grouped(causes),
        remedies=tuple(Remedy(what, removes) for what, removes in epochs.remedies),
    )


def waited_amid(one: Epochs, other: Epochs) -> float:
    """Seconds that the steps of one loader waited for batches of another loader of the same process.

    A step may take a batch of each. Of a loader that gets its batches from the other, nothing counts: its own
    wait is that of the other already.
    """
    if not one.steps or not other.steps:
        return 0.0
    own, asked = np.concatenate(one.steps), np.concatenate(other.steps)
    if _within(own, asked).any():
        return 0.0
    asked = asked[~_within(asked, own)]
    if other.idle:
        idle = np.concatenate(other.idle)
        asked = idle[np.isin(idle["begin"], asked["begin"])]
    seconds = 0.0
    for epoch in one.steps:
        came, end = (record["begin"] + record["wall"] for record in (epoch[0], epoch[-1]))
        seconds += float(asked["wall"][(asked["begin"] >= came) & (asked["begin"] < end)].sum())
    return seconds


def _within(inner: np.ndarray, outer: np.ndarray) -> np.ndarray:
    """A mask of the steps of a loader that began while the loop waited for another."""
    outer = np.sort(outer, order="begin")
    before = np.searchsorted(outer["begin"], inner["begin"], "right") - 1
    around = outer[np.maximum(before, 0)]
    return (before >= 0) & (inner["begin"] < around["begin"] + around["wall"])


def _of_batches(made: np.ndarray, stolen: float) -> tuple[float, float, float, float]:
    """Means of a batch: CPU, blocked, waiting for a core, bytes read.

    The time that a hypervisor took is waiting for a core.
    """
    if not len(made):
        return 0.0, 0.0, 0.0, 0.0
    cpu, blocked, delay = (float(part.mean()) for part in parts_of_batches(made))
    taken = min(blocked, cpu * stolen / (1.0 - stolen)) if stolen < 1.0 else blocked
    return cpu, blocked - taken, delay + taken, float(made["read"].mean())


def parts_of_batches(made: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Seconds of each batch: CPU, blocked, waiting for a core. Together they are its time.

    While other threads of a worker work, its own thread waits for them. That is no waiting for storage: it
    counts as CPU.
    """
    still = np.maximum(0.0, made["wall"] - made["cpu"] - made["delay"])
    others = np.minimum(still, np.maximum(0.0, made["others"]))
    return made["cpu"] + others, still - others, made["delay"]


def _grouped(causes: dict[str, float]) -> dict[str, float]:
    parts = {"fetch": 0.0, "prep": 0.0, "cores": 0.0}
    for cause, seconds in causes.items():
        if cause in CAUSES:
            parts[CAUSES[cause]] += seconds
    total = sum(parts.values())
    return {name: seconds / total for name, seconds in parts.items()} if total else {}


def stalls(rates: Rates) -> Stalls:
    """Why the step waits, by the method of this module."""
    step_s = rates.step_s or 1.0  # a loop that takes no time does not wait
    handover_s = 0.0
    parts = rates.causes or _modelled(rates)
    if not any(parts.values()):
        parts = _of_a_batch(rates)
        if any(parts.values()):
            handover_s = min(rates.wait_s, rates.short_wait_s)
        else:  # no batch was seen as it was made
            parts["prep"] = 1.0
    scale = (rates.wait_s - handover_s) / step_s / sum(parts.values())
    return Stalls(
        compute=1.0 - rates.wait_s / step_s,
        **{name: scale * part for name, part in parts.items()},
        handover=handover_s / step_s,
    )


def _of_a_batch(rates: Rates) -> dict[str, float]:
    return {"fetch": rates.blocked_s, "prep": rates.cpu_s, "cores": rates.delay_s}


def _modelled(rates: Rates) -> dict[str, float]:
    if rates.workers == 0:
        return _of_a_batch(rates)
    compute = rates.compute_s
    prepared = rates.cpu_s / rates.workers
    fetched = (rates.cpu_s + rates.blocked_s) / rates.workers
    made = max(
        (rates.cpu_s + rates.blocked_s + rates.delay_s) / rates.workers,
        (rates.cpu_s + rates.compute_cpu_s) / rates.cores,
    )
    return {
        "prep": max(0.0, prepared - compute),
        "fetch": max(0.0, fetched - max(compute, prepared)),
        "cores": max(0.0, made - max(compute, fetched)),
    }


def remedies(rates: Rates) -> list[Remedy]:
    """Changes that would remove some of the wait, the most useful first. Empty: none is known.

    More workers, and files in memory, leave the wait for cores as it is. If workers wait for cores and there
    are as many workers as cores, the cores are used up: the script has had all that it can get of them. There
    are never to be more workers than keep the cores busy, and no more at all if cores are what lacks most.
    """
    why = stalls(rates)
    if why.bottleneck == "compute":
        return []
    if rates.cpu_s + rates.blocked_s == 0:
        return list(rates.remedies)
    now, cpu = rates.step_s, rates.cpu_s + rates.compute_cpu_s
    used_up = rates.workers >= rates.cores and rates.delay_s > USED_UP * (rates.cpu_s + rates.blocked_s)
    cores = min(rates.cores, cpu / now) if used_up else rates.cores

    def step_s(workers: int, batch_s: float, cores: float) -> float:
        made = batch_s / workers if workers else batch_s + rates.compute_s
        return max(rates.compute_s, made, cpu / cores)

    working = rates.cpu_s + rates.delay_s
    as_it_is = step_s(rates.workers, working + rates.blocked_s, cores)

    def removes(workers: int, batch_s: float, cores: float) -> float:
        return max(0.0, as_it_is - step_s(workers, batch_s, cores)) / max(as_it_is, now)

    most = rates.workers if why.bottleneck == "cores" else _most_workers(rates)
    gains = {
        workers: removes(workers, working + rates.blocked_s, cores)
        for workers in range(rates.workers + 1, most + 1)
    }
    best = max(gains.values(), default=0.0)
    fewest = min((workers for workers, gain in gains.items() if gain >= best - 0.005), default=0)
    found = [
        Remedy(f"{fewest} worker{'s' * (fewest > 1)} instead of {rates.workers}", best and gains[fewest]),
        Remedy("reading from memory instead of storage", removes(rates.workers, working, cores)),
        Remedy("twice as many cores", removes(rates.workers, rates.cpu_s + rates.blocked_s, 2 * cores)),
    ]
    # The wait may be longer by the model than it was measured. No more can be removed than there is.
    helpful = [
        Remedy(one.what, min(one.removes, why.waited - why.handover))
        for one in found
        if one.removes >= LEAST_GAIN
    ]
    return sorted(helpful, key=lambda one: -one.removes)


def _most_workers(rates: Rates) -> int:
    """As many workers as keep the cores busy: one a core, and more if they wait for storage meanwhile."""
    if rates.cpu_s * MOST_WORKERS <= rates.cores * (rates.cpu_s + rates.blocked_s):
        return MOST_WORKERS
    return min(MOST_WORKERS, math.ceil(rates.cores * (1.0 + rates.blocked_s / rates.cpu_s)))


def late_ranks(ranks: dict[int, Epochs]) -> dict[int, float]:
    """The share of the steps in which each rank got its batch last, and late by a tenth of a step or more.

    Ranks compare the same step of the same epoch. A rank is late if its batch came so much later than those
    of half of the ranks.
    """
    late = dict.fromkeys(sorted(ranks), 0)
    steps = 0
    for epoch in range(min(len(one.steps) for one in ranks.values())):
        of_ranks = [ranks[rank].steps[epoch] for rank in late]
        count = min(len(one) for one in of_ranks)
        if count < 2:
            continue
        came = np.stack([one["begin"][:count] + one["wall"][:count] for one in of_ranks])
        pace = float(np.diff(came, axis=1).mean())
        behind = came - np.sort(came, axis=0)[(len(late) - 1) // 2]
        last = behind.argmax(axis=0)
        for rank, index in zip(late, range(len(late)), strict=True):
            late[rank] += int(((last == index) & (behind[index] > LATE * pace)).sum())
        steps += count
    return {rank: count / steps for rank, count in late.items()} if steps else {}
