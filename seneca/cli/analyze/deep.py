"""A profile of what ``seneca analyze --deep`` has measured, and what each loader would give by it.

::

    the loader alone, 1 worker, one a core --> item  --+
    files that samples opened --> storage --------------+--> Profile --> models --> samples/s
    Seneca's native path, where it runs ----------------+
    the same batches again --> step --------------------+
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from seneca._runtime.memory import free_memory
from seneca._runtime.regular_files import Piece
from seneca.cache.room import folder_in_force, free_space
from seneca.cli.analyze.stalls import parts_of_batches
from seneca.cli.analyze.trace import Deep, LoaderAlone
from seneca.cli.planning.plan import reads_ahead
from seneca.partition import TORCH, Cost, Jobs, Prediction, Profile, Reading, Size, solve
from seneca.partition.torch_model import spread_by_waits
from seneca.tuning import host
from seneca.tuning.storage import read_storage

__all__ = ["JOBS", "predictions", "profile_of_run"]

STORAGE_S, MEMORY_S = 5.0, 0.5
AGAIN, SLOW_S = 0.5, 1e-3  # of what storage takes for a sample; a wait that no page cache would cause
DELAYED = 0.05  # of a step: the wait for a core that is told
LEAST_S = 1e-9  # of a wait for storage; nothing takes no time
NO_LENGTH = 1 << 40  # the samples of a dataset that has no length: no memory holds their files
JOBS = (1, 2, 4)  # that are predicted

WITHOUT_FILES = (
    "no files of samples were seen: what a sample waits is taken for storage that serves any number"
)
WITHOUT_PAGE_CACHE = (
    "files that had just been read were waited for again: the page cache is taken to hold none of them"
)
WITHOUT_LENGTH = "the dataset has no length: no memory is taken to hold its files"


def profile_of_run(deep: Deep, name: str) -> Profile:
    """Make the profile. It reads files of the dataset for some seconds, to see what storage gives.

    Args:
        deep: What the phases measured.
        name: The dataset.

    Raises:
        OSError: A file cannot be read any more.
    """
    told, notes = deep.told, []
    if told["step_delay_s"] > DELAYED * told["step_s"]:
        notes.append(
            f"a step of the script alone: while it was measured, it waited for a core for "
            f"{told['step_delay_s'] / told['step_s']:.0%} of the time, because other programs ran"
        )
    cores = host.cores()
    items = [_item_and_wait(alone, told["batch_samples"]) for alone in deep.alone]
    item = _cost_of(items[0][0], items[-1][0])
    of_script: dict[str, Any] = {
        "item": item,
        "step_per_s": told["batch_samples"] / told["step_s"],
        "step_cpu_s": told["step_cpu_s"] / told["batch_samples"],
        "item_take_s": deep.alone[0].loop_cpu_s / told["batch_samples"],
        "workers": told["workers"],
        "batch_size": max(1, round(told["batch_samples"])),
    }
    if "profile" in told:
        native = Profile.from_json(told["profile"])
        take_s = told["take_s"] / told["batch_samples"]
        native = dataclasses.replace(native, take_s=take_s, notes=(*native.notes, *notes), **of_script)
        return _by_waits(native, deep.alone, items)
    if told["files"]:
        rates = read_storage([Piece(path) for path in told["files"]], STORAGE_S)
        storage, cold = _a_sample(rates.readings, told["files_a_sample"]), rates.cold
        if not cold:
            notes.append("the files could not be dropped from the page cache, or lie in memory")
    else:
        storage, cold = _without_files(items[0][1], told["file_bytes"]), False
        notes.append(WITHOUT_FILES)
    if told["samples"] is None:
        notes.append(WITHOUT_LENGTH)
    free = free_memory()
    nothing, size = Cost(0.0, 0.0), Size(max(1.0, told["item_bytes"]))
    found = Profile(
        host=host.fingerprint(),
        dataset=name,
        pipeline="a script",
        samples=told["samples"] or NO_LENGTH,
        cores=cores,
        cache_bytes=min(free, free_space(folder_in_force())) // 2,
        free_memory_bytes=free,
        storage=storage,
        storage_cold=cold,
        fetch=nothing,
        decode=nothing,
        augment=item,
        prepare=item,
        batch=nothing,
        memory_bytes_per_s=host.memory_bytes_per_s(cores, MEMORY_S),
        encoded=Size(max(1.0, told["file_bytes"]), told["file_bytes_std"]),
        decoded=size,
        augmented=size,
        batch_bytes=round(size.mean_bytes),
        staged=False,
        take_s=of_script["item_take_s"],  # Seneca's workers hand over as torch's do
        notes=tuple(notes),
        **of_script,
    )
    return _by_waits(found, deep.alone, items) if told["files"] else found


def _by_waits(profile: Profile, alone: list[LoaderAlone], items: list[tuple[float, float]]) -> Profile:
    """The profile, by what workers waited for files that the page cache should have had.

    If they waited, it is taken to have no memory. How much longer several workers waited than one then tells
    how they read.
    """
    waits_s = items[0][1]
    if waits_s < AGAIN * profile.storage[0].latency_s or waits_s < SLOW_S:
        return profile
    slow = dataclasses.replace(profile, free_memory_bytes=0, notes=(*profile.notes, WITHOUT_PAGE_CACHE))
    spread = spread_by_waits(slow, alone[-1].workers, items[-1][1])
    return dataclasses.replace(slow, served_spread=spread)


def _item_and_wait(alone: LoaderAlone, batch_samples: float) -> tuple[float, float]:
    """Seconds of a sample in which its worker works, and in which it waits for storage.

    What it waited for a core is left out. The model adds that by itself, and other programs took the rest.
    """
    if not len(alone.batches):
        return alone.workers * alone.batch_s / batch_samples, 0.0
    _, waits, delays = (float(part.mean()) for part in parts_of_batches(alone.batches))
    whole = alone.workers * alone.batch_s
    return max(LEAST_S, whole - waits - delays) / batch_samples, waits / batch_samples


def _cost_of(one_s: float, all_s: float) -> Cost:
    """The cost with one worker and with one a core. If more workers seem to take less, that is chance."""
    return Cost(one_s, all_s) if all_s >= one_s else Cost(*[(one_s + all_s) / 2] * 2)


def _a_sample(readings: Sequence[Reading], files: float) -> tuple[Reading, ...]:
    """The readings for samples of so many files: a sample waits for one after the other."""
    return tuple(dataclasses.replace(one, latency_s=one.latency_s * files) for one in readings)


def _without_files(wait_s: float, sample_bytes: float) -> tuple[Reading, ...]:
    one = Reading(1, max(1.0, sample_bytes) / max(wait_s, LEAST_S), wait_s)
    many = 1 << 10
    return one, Reading(many, many * one.bytes_per_s, wait_s)


def predictions(profile: Profile) -> list[tuple[int, Prediction, Prediction]]:
    """For some numbers of jobs: that number, what torch's own loader gives, and what Seneca gives."""
    found = []
    for count in JOBS:
        jobs = Jobs(
            count,
            step_per_s=profile.step_per_s,
            batch_size=profile.batch_size or 1,
            threads=profile.workers,
            reads_ahead=reads_ahead(profile),
        )
        found.append((count, solve(profile, jobs, model=TORCH), solve(profile, jobs)))
    return found
