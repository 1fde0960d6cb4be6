"""What more of something would be worth: questions put to a model by solving again."""

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

ENOUGH = 1e-3  # relative: no further from the best than this is as good
MOST_CORES = 1024
MEMORY_STEP = 1 << 20  # least_memory() answers to this many bytes
GB, STORAGE_STEP_BYTES_PER_S = 10**9, 100e6


@dataclass(frozen=True)
class Worth:
    """Samples a second, of all jobs together, that more of one thing adds at the best split.

    Args:
        gb_memory: A GB (1e9 bytes) more of cache.
        core: A core more.
        storage_100mb_per_s: 100 MB/s more from storage.
    """

    gb_memory: float
    core: float
    storage_100mb_per_s: float


def worth(profile: Profile, jobs: Jobs, *, model: Model = BOTTLENECK) -> Worth:
    """The marginal worth of memory, cores and storage; each is solved for with that much more."""
    now = solve(profile, jobs, model=model).samples_per_s

    def gain(changed: Profile) -> float:
        more = solve(changed, jobs, model=model).samples_per_s - now
        return more if more > now * 1e-9 else 0.0  # the rest is rounding

    return Worth(
        gb_memory=gain(profile.with_memory(profile.cache_bytes + GB)),
        core=gain(dataclasses.replace(profile, cores=profile.cores + 1)),
        storage_100mb_per_s=gain(
            profile.with_storage(profile.storage_bytes_per_s + STORAGE_STEP_BYTES_PER_S)
        ),
    )


def least_memory(profile: Profile, jobs: Jobs, *, model: Model = BOTTLENECK) -> int | None:
    """The least cache with which jobs no longer wait for storage.

    They wait where the best split gives them less than they would have if every file lay in memory
    for nothing and was prepared from there: as fast as cores and steps allow, storage apart. The answer
    is to a MiB and a thousandth of that.

    Returns:
        Bytes, or None where they do not wait with the memory that there is.
    """
    in_memory = profile.with_storage(1e18)
    wanted = model.predict(in_memory, Split(1.0, 0.0, 0.0), jobs).samples_per_s * (1 - ENOUGH)

    def waits(cache_bytes: int) -> bool:
        return solve(profile.with_memory(cache_bytes), jobs, model=model).samples_per_s < wanted

    if not waits(profile.cache_bytes):
        return None
    # Room for all files, and for what is under way, is enough; the models may count differently.
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
    """The number of cores beyond which another adds nothing; the profile's where it is none now."""

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
    """The best split for each of some values of one quantity; ``given`` makes profile and jobs of a value."""
    return [(value, solve(*given(value), model=model)) for value in values]
