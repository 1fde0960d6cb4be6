"""The worth of more memory, cores or storage. The model is solved again to find it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from seneca.partition.bottleneck import BOTTLENECK, GRANULE_BYTES
from seneca.partition.estimate import Model, Prediction
from seneca.partition.jobs import Jobs
from seneca.partition.profile import Profile
from seneca.partition.solve import solve
from seneca.partition.split import Split

__all__ = ["Worth", "cores_that_help", "curve", "least_memory", "worth"]

ENOUGH = 1e-3  # relative: a rate this close to the best counts as the best
MOST_CORES = 1024
MEMORY_STEP = 1 << 20  # the precision of least_memory(), in bytes
GB, STORAGE_STEP_BYTES_PER_S = 10**9, 100e6


@dataclass(frozen=True)
class Worth:
    """The samples a second, of all jobs together, that more of one resource adds at the best split.

    Args:
        gb_memory: For one GB (1e9 bytes) more of cache.
        core: For one core more.
        storage_100mb_per_s: For 100 MB/s more from storage.
    """

    gb_memory: float
    core: float
    storage_100mb_per_s: float


def worth(profile: Profile, jobs: Jobs, *, model: Model = BOTTLENECK) -> Worth:
    """The marginal worth of memory, cores and storage. The model is solved again with more of each."""
    now = solve(profile, jobs, model=model).samples_per_s

    def gain(changed: Profile) -> float:
        more = solve(changed, jobs, model=model).samples_per_s - now
        return more if more > now * 1e-9 else 0.0  # a smaller gain is rounding

    return Worth(
        gb_memory=gain(profile.with_memory(profile.cache_bytes + GB)),
        core=gain(dataclasses.replace(profile, cores=profile.cores + 1)),
        storage_100mb_per_s=gain(
            profile.with_storage(profile.storage_bytes_per_s + STORAGE_STEP_BYTES_PER_S)
        ),
    )


def least_memory(profile: Profile, jobs: Jobs, *, model: Model = BOTTLENECK) -> int | None:
    """The least cache with which jobs no longer wait for storage.

    Jobs wait for storage if the best split gives them less than all files in memory would. In that
    comparison files take no memory, and only cores and steps limit the rate. The answer is precise to one
    MiB. A rate within a thousandth of the comparison counts as reaching it.

    Returns:
        Bytes; None if the jobs do not wait with the memory that there is.
    """
    in_memory = profile.with_storage(1e18)
    wanted = model.predict(in_memory, Split(1.0, 0.0, 0.0), jobs).samples_per_s * (1 - ENOUGH)

    def waits(cache_bytes: int) -> bool:
        return solve(profile.with_memory(cache_bytes), jobs, model=model).samples_per_s < wanted

    if not waits(profile.cache_bytes):
        return None
    # Room for all files and for the samples under way should be enough. A model may need more.
    stage_bytes = 2 * jobs.in_flight * (profile.augmented.mean_bytes + GRANULE_BYTES)
    enough = int(profile.samples * (profile.encoded.mean_bytes + GRANULE_BYTES) + stage_bytes) + MEMORY_STEP
    too_little = profile.cache_bytes
    while waits(enough):
        too_little, enough = enough, 2 * enough
    while enough - too_little > MEMORY_STEP:
        middle = (enough + too_little) // 2
        too_little, enough = (middle, enough) if waits(middle) else (too_little, middle)
    return enough


def cores_that_help(profile: Profile, jobs: Jobs, *, model: Model = BOTTLENECK) -> int:
    """The number of cores beyond which one more adds nothing; at least the profile's number."""

    def reaches(cores: int) -> float:
        return solve(dataclasses.replace(profile, cores=cores), jobs, model=model).samples_per_s

    best = reaches(MOST_CORES) * (1 - ENOUGH)
    too_few, enough = profile.cores - 1, MOST_CORES
    while enough - too_few > 1:
        middle = (enough + too_few) // 2
        too_few, enough = (too_few, middle) if reaches(middle) >= best else (middle, enough)
    return enough


def curve(
    values: Sequence[Any], given: Callable[[Any], tuple[Profile, Jobs]], *, model: Model = BOTTLENECK
) -> list[tuple[Any, Prediction]]:
    """The best split for each value of one quantity. ``given`` makes profile and jobs of a value."""
    return [(value, solve(*given(value), model=model)) for value in values]
