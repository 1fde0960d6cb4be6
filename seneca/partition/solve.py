"""Find the split with the best prediction: first among whole percents, then finer around the best."""

from __future__ import annotations

import functools

import numpy as np

from seneca.partition.bottleneck import BOTTLENECK
from seneca.partition.estimate import Model, Prediction, shares_of
from seneca.partition.jobs import Jobs
from seneca.partition.profile import Profile
from seneca.partition.split import Split

__all__ = ["refine", "shares_grid", "solve"]

# Relative: predictions no further apart than this are equal. It covers rounding only. The model's own error
# is larger. But a GB of memory often adds less than a percent (advice.py), and a wider tie did not choose
# better (docs/models.md).
EQUAL = 1e-6
FINEST = 1e-5


def solve(
    profile: Profile, jobs: Jobs | None = None, *, model: Model = BOTTLENECK, step: float = 0.01
) -> Prediction:
    """Find the split of a cache among encoded, decoded and augmented samples that gives most throughput.

    It tries every split on a grid of ``step``, in one call of the model. Of equally good splits it takes
    those that fill the least memory. If they leave memory over, it takes the one with most for DECODED: there
    is room then for samples that are larger than the profile says. If not, it takes the one with most for
    ENCODED. Therefore equal inputs give equal answers. The function is pure: it reads no clock, file or
    environment.

    Method: model-driven partitioning (Desai et al., FAST '26, section 5.1), a brute-force search over whole
    percents.

    Args:
        profile: Rates of this host and dataset, and the memory: ``profile.cache_bytes``.
        jobs: The jobs that share the cache; None: one job.
        model: ``BOTTLENECK`` or ``PAPER``.
        step: The grid of the shares, in (0, 1]. 0.01 tries 5,151 splits.

    Returns:
        The prediction for the best split.

    Raises:
        ValueError: ``step`` is outside (0, 1].
    """
    if not 0 < step <= 1:
        raise ValueError(f"step is above 0 and at most 1, but got {step!r}")
    jobs = jobs or Jobs()
    return model.predict(profile, _best(profile, shares_grid(step), jobs, model), jobs)


def refine(profile: Profile, jobs: Jobs | None = None, *, model: Model = BOTTLENECK) -> Prediction:
    """Find the best split to two thousandths of a percent, around that of :func:`solve`.

    The neighbours of the best split are tried at half the distance, again and again, until that is 0.002 %.
    Along any line of splits the ceiling of each resource turns at most once, and so does the least of them.
    Therefore there is no better hill elsewhere. The page cache's part is an exception, and because of it
    the grid of whole percents comes first.

    Args:
        profile, jobs, model: As in :func:`solve`.

    Returns:
        The prediction, with at least as many samples a second as that of :func:`solve`.
    """
    jobs = jobs or Jobs()
    split, distance = solve(profile, jobs, model=model).split, 0.005
    while distance >= FINEST:
        around = distance * np.arange(-2, 3)
        encoded, decoded = np.meshgrid(split.encoded + around, split.decoded + around, indexing="ij")
        shares = np.stack([encoded.ravel(), decoded.ravel(), 1 - encoded.ravel() - decoded.ravel()], axis=1)
        shares[np.abs(shares) < FINEST / 10] = 0.0
        inside = shares[np.all((shares >= 0) & (shares <= 1), axis=1)]
        centre = shares_of(split)
        split = _best(profile, np.concatenate([centre, inside]), jobs, model)
        distance /= 2
    return model.predict(profile, split, jobs)


@functools.lru_cache(maxsize=8)
def shares_grid(step: float) -> np.ndarray:
    """Every split on a grid: a read-only float64 (n, 3) of encoded, decoded, augmented."""
    parts = round(1 / step)
    encoded, decoded = np.meshgrid(np.arange(parts + 1), np.arange(parts + 1), indexing="ij")
    inside = encoded + decoded <= parts
    encoded, decoded = encoded[inside], decoded[inside]
    shares = np.stack([encoded, decoded, parts - encoded - decoded], axis=1) / parts
    shares.flags.writeable = False
    return shares


def _best(profile: Profile, shares: np.ndarray, jobs: Jobs, model: Model) -> Split:
    found = model.estimate(profile, shares, jobs)
    good = np.flatnonzero(found.samples_per_s >= found.samples_per_s.max() * (1 - EQUAL))
    memory = found.memory_bytes[good]
    good = good[memory <= memory.min() * (1 + EQUAL)]
    first, then = (1, 0) if memory.min() < profile.cache_bytes * (1 - EQUAL) else (0, 1)
    encoded, decoded, augmented = shares[good[np.lexsort((shares[good, then], shares[good, first]))[-1]]]
    return Split(float(encoded), float(decoded), float(augmented))
