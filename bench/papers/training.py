"""A training job of an experiment: a loader, steps that only sleep, and a clock.

A job imports what its loader needs, says ``started``, and waits. It opens its loader, says ``ready``, and
waits. It goes through its first epochs, in which caches fill, says ``filled``, and waits. Then it runs
epochs, or for some seconds, and says what it saw. The clock is the host's monotonic one, so that times of
several jobs compare. Seneca's jobs check that no sample comes twice in an epoch.
"""

from __future__ import annotations

import importlib
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import sound_peers
from bench_jobs import cpu_s
from job_loaders import Opened, Setup, import_torchvision, open_dali, open_seneca, open_torch
from jobs import Job, Voice, started
from report import lines_of

OPENERS: dict[str, Callable[..., Opened]] = {
    "seneca": open_seneca,
    "torch": open_torch,
    "dali": open_dali,
    "sound-seneca": sound_peers.open_seneca,
    "sound-torch": sound_peers.open_torch,
    "sound-dali": sound_peers.open_dali,
}
MODULES = {
    "seneca": ("torch", "seneca.loader", "seneca.transforms"),
    "torch": ("torch.utils.data",),
    "dali": ("torch", "nvidia.dali.plugin.pytorch"),
}


class Twice(RuntimeError):
    """A job was given a sample twice in an epoch."""


@dataclass(frozen=True)
class Training:
    """One job.

    Args:
        loader: ``seneca``, ``torch`` or ``dali``; with ``sound-`` before it, one that loads sounds.
        setup: What bench/job_loaders.py opens a loader from; of sounds, bench/sound_peers.py.
        options: More arguments of ``seneca.DataLoader``.
        epochs: That count.
        seconds: That count, in place of epochs.
        warm: Epochs before, in which caches fill.
        warm_s: Seconds after them that do not count: what had piled up while the job waited is used up.
        step_s: A training step, which sleeps.
        late_s: How much later than others the job begins what counts.
        join: Files of control groups, into which the job writes itself.
        seed: Of the orders.
    """

    loader: str
    setup: Setup | sound_peers.Setup
    options: dict[str, Any] = field(default_factory=dict)
    epochs: int = 1
    seconds: float | None = None
    warm: int = 0
    warm_s: float = 0.0
    step_s: float = 0.0
    late_s: float = 0.0
    join: tuple[str, ...] = ()
    seed: int = 0

    @property
    def samples(self) -> int:
        """Of an epoch."""
        return self.setup.samples if self.setup.part is None else len(self.setup.part)

    @property
    def batches(self) -> int:
        """Of an epoch; the last may be shorter."""
        return math.ceil(self.samples / self.setup.batch)


def train(voice: Voice, number: int, training: Training) -> dict[str, Any]:
    """One job.

    Returns:
        ``epochs``: for each that counts, when it ``began`` and ``ended``, and its ``samples``. Of all that
        counts: when it ``began`` and ``ended``, ``samples``, ``cpu_s`` and ``asked_bytes``. ``stats``: what
        Seneca's loader counts itself.

    Raises:
        Twice: a sample came twice in an epoch.
    """
    import_modules(training.loader)
    voice.say("started")
    voice.wait()
    opened = opened_in_its_groups(number, training)
    voice.say("ready")
    voice.wait()
    given = stream(opened, training)
    for _ in range(training.warm):
        epoch(given)
        voice.alive()
    voice.say("filled")
    voice.wait()
    time.sleep(training.late_s)
    warm_until = time.monotonic() + training.warm_s
    while time.monotonic() < warm_until:
        next(given)
    cpu, asked, began, epochs = cpu_s(), asked_bytes(), time.monotonic(), []
    end = math.inf if training.seconds is None else began + training.seconds
    while time.monotonic() < end and (training.seconds is not None or len(epochs) < training.epochs):
        since = time.monotonic()
        epochs.append({"began": since, "samples": epoch(given, end), "ended": time.monotonic()})
        voice.alive()
    return {
        "epochs": epochs,
        "samples": sum(each["samples"] for each in epochs),
        "cpu_s": cpu_s() - cpu,
        "asked_bytes": asked_bytes() - asked,
        "began": began,
        "ended": time.monotonic(),
        "stats": opened.stats(),
    }


def import_modules(loader: str) -> None:
    """Import most of what this loader needs: opening it then takes little time."""
    for module in MODULES[loader.removeprefix("sound-")]:
        importlib.import_module(module)
    if loader == "torch":
        import_torchvision()


def asked_bytes() -> int:
    """Bytes that this process has had from read() and its kin, whether or not the page cache had them."""
    lines = dict(line.split(": ") for line in lines_of(Path("/proc/self/io")))
    return int(lines["rchar"])


def opened_in_its_groups(number: int, training: Training) -> Opened:
    """The loader of job ``number``, once its process has joined the groups that hold it back."""
    for group in training.join:
        Path(group).write_text("0")
    import torch

    torch.manual_seed(1000 * training.seed + number)
    return OPENERS[training.loader](training.setup, number, **training.options)


def stream(opened: Opened, training: Training) -> Iterator[tuple[int, bool]]:
    """Train for ever; yields how many samples each batch had, and whether it was the last of its epoch."""
    while True:
        seen = np.zeros(training.setup.samples, bool)
        for place in range(training.batches):
            images, _ = next(opened.batches)
            if opened.indices is not None:
                indices = np.asarray(opened.indices())
                if seen[indices].any():
                    raise Twice(f"a job of {training.loader} was given a sample twice in an epoch")
                seen[indices] = True
            if training.step_s:
                time.sleep(training.step_s)
            yield len(images), place == training.batches - 1


def epoch(given: Iterator[tuple[int, bool]], end: float = math.inf) -> int:
    """Go on to the end of an epoch, or until the time ``end``. Returns how many samples that were."""
    samples = 0
    for count, last in given:
        samples += count
        if last or time.monotonic() >= end:
            break
    return samples


def run_together(
    trainings: list[Training], *, python: str | None = None, mark: Callable[[], object] = lambda: None
) -> list[dict[str, Any]]:
    """Run jobs at once; what they saw, in order.

    ``mark`` is called twice: when all jobs have gone through their first epochs, and when all are done.
    """
    with started([(train, (training,)) for training in trainings], python=python) as jobs:
        all_say(jobs, "started")
        all_say(jobs, "ready")
        all_say(jobs, "filled", before_they_go=mark)
        results = [job.hear("done") for job in jobs]
        mark()
    return results


def all_say(jobs: list[Job], word: str, before_they_go: Callable[[], object] = lambda: None) -> None:
    """Let the jobs go on when all have said ``word``."""
    for job in jobs:
        job.hear(word)
    before_they_go()
    for job in jobs:
        job.go()


def per_s(results: list[dict[str, Any]]) -> float:
    """Samples a second of all jobs together, over what counts of each."""
    return sum(each["samples"] / (each["ended"] - each["began"]) for each in results)


def cpu_ms(results: list[dict[str, Any]]) -> float:
    """CPU milliseconds of a sample."""
    return 1000 * sum(each["cpu_s"] for each in results) / sum(each["samples"] for each in results)
