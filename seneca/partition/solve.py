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
    """Find the split of a cache among the forms of a sample that gives most throughput.

    It tries the splits on a grid of ``step``, in one call of the model. Of equally good splits it takes
    those that fill the least memory. If they leave memory over, it takes the one with most for DECODED, then
    for RECODED: there is room then for samples that are larger than the profile says. If not, it takes the
    one with most for ENCODED, then for RECODED. Therefore equal inputs give equal answers. The function is
    pure: it reads no clock, file or environment.

    Method: model-driven partitioning (Desai et al., FAST '26, section 5.1), a brute-force search over whole
    percents. Without RECODED, every split is tried. With it, these are tried: every split without RECODED,
    and every split without AUGMENTED. Splits with both are left out, because none of them is better, except
    by rounding:

    * The stage takes what it needs before the forms that are kept, whatever its share. In the model, a stage
      beyond this need saves nothing.
    * Therefore, ENCODED could have the rest of AUGMENTED's share. A file that is kept is never dearer than
      the same file from storage.
    * Kept forms divide what the stage leaves. With a share for AUGMENTED, the grid divides it in other
      parts than hundredths, and these may fit somewhat better. :func:`refine` finds such parts by itself.

    Args:
        profile: Rates of this host and dataset, and the memory: ``profile.cache_bytes``.
        jobs: The jobs that share the cache; None: one job.
        model: ``BOTTLENECK`` or ``PAPER``.
        step: The grid of the shares, in (0, 1]. 0.01 tries 5,151 splits, or 10,201 if samples can be RECODED.

    Returns:
        The prediction for the best split.

    Raises:
        ValueError: ``step`` is outside (0, 1].
    """
    if not 0 < step <= 1:
        raise ValueError(f"step is above 0 and at most 1, but got {step!r}")
    jobs = jobs or Jobs()
    shares = shares_grid(step, recoded=_tries_recoded(profile, model))
    return model.predict(profile, _best(profile, shares, jobs, model)[0], jobs)


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
    found = solve(profile, jobs, model=model)
    split, highest, distance = found.split, found.samples_per_s, 0.005
    while distance >= FINEST:
        around = distance * np.arange(-2, 3)
        axes = [split.encoded + around, np.zeros(1), split.decoded + around]
        if _tries_recoded(profile, model):
            axes[1] = split.recoded + around
        encoded, recoded, decoded = (axis.ravel() for axis in np.meshgrid(*axes, indexing="ij"))
        shares = np.stack([encoded, recoded, decoded, 1 - encoded - recoded - decoded], axis=1)
        shares[np.abs(shares) < FINEST / 10] = 0.0
        inside = shares[np.all((shares >= 0) & (shares <= 1), axis=1)]
        centre = shares_of(split)
        split, highest = _best(profile, np.concatenate([centre, inside]), jobs, model, highest)
        distance /= 2
    return model.predict(profile, split, jobs)


@functools.lru_cache(maxsize=8)
def shares_grid(step: float, *, recoded: bool = False) -> np.ndarray:
    """Splits on a grid: a read-only float64 (n, 4) of encoded, recoded, decoded, augmented.

    Without ``recoded`` it is every split with no share for RECODED. With it, every split with no share for
    AUGMENTED comes in addition.
    """
    parts = round(1 / step)
    first, second = np.meshgrid(np.arange(parts + 1), np.arange(parts + 1), indexing="ij")
    inside = first + second <= parts
    first, second = first[inside], second[inside]
    third, nothing = parts - first - second, np.zeros_like(first)
    shares = np.stack([first, nothing, second, third], axis=1)
    if recoded:
        without_copies = np.stack([first, second, third, nothing], axis=1)
        shares = np.concatenate([shares, without_copies[second > 0]])
    shares = shares / parts
    shares.flags.writeable = False
    return shares


def _tries_recoded(profile: Profile, model: Model) -> bool:
    return model.has_recoded and profile.recodable > 0


def _best(
    profile: Profile, shares: np.ndarray, jobs: Jobs, model: Model, highest: float = 0.0
) -> tuple[Split, float]:
    """The best of these splits, and the highest rate so far. Rates next to that are equal to it."""
    found = model.estimate(profile, shares, jobs)
    highest = max(highest, float(found.samples_per_s.max()))
    good = np.flatnonzero(found.samples_per_s >= highest * (1 - EQUAL))
    memory = found.memory_bytes[good]
    good = good[memory <= memory.min() * (1 + EQUAL)]
    # The columns by which ties are decided; lexsort() takes the last one first.
    order = (0, 1, 2) if memory.min() < profile.cache_bytes * (1 - EQUAL) else (2, 1, 0)
    encoded, recoded, decoded, augmented = shares[good[np.lexsort(shares[good][:, order].T)[-1]]]
    return Split(float(encoded), float(decoded), float(augmented), float(recoded)), highest
