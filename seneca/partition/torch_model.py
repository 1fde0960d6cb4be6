"""The model of torch's own loader: nothing is kept, nothing is shared, and processes prepare samples.

::

    item: CPU of a sample, by a worker --+
    storage, page cache ------------------+--> what runs out first: storage, cores, workers or the step
    jobs, each with workers of its own ---+

Each job prepares every sample that it takes, in each epoch again. Only the page cache keeps files. It has all
of the free memory. The rest is as in :mod:`seneca.partition.bottleneck`.

Workers wait for each other: at the storage, and for cores if they are more than these. Therefore together
they give less than so many times what one gives. This is a closed queueing network: each worker makes a
sample on a core, then reads a file, which takes the storage a time that depends on its size. :func:`_closed`
solves it by mean value analysis (Reiser and Lavenberg, J. ACM 27(2), 1980), with Reiser's approximation for
times that are not exponential (IEEE Trans. Comm. 27(8), 1979).
"""

from __future__ import annotations

import math

import numpy as np

from seneca.partition.bottleneck import Work, estimate_by, page_cache_hits, predict_by
from seneca.partition.estimate import Estimates, Model, Prediction
from seneca.partition.jobs import Jobs
from seneca.partition.profile import Cost, Profile, ProfileError
from seneca.partition.split import Split

__all__ = ["TORCH", "spread_by_waits", "torch_loader"]

RESOURCES = ("storage", "cpu", "workers")
USED_UP = 0.95  # of what storage gives
MOST_SPREAD = 4.0
BISECTIONS = 20


def torch_loader(profile: Profile, split: Split, jobs: Jobs) -> Prediction:
    """Predict the throughput of torch's own loader, by the resource that runs out first.

    It is a pure function, for the steady state: the second epoch and later ones.

    Args:
        profile: Rates of the host with the dataset. It has the costs of an ``item``.
        split: It changes nothing, because torch's loader has no cache.
        jobs: The jobs that run at the same time. ``threads`` are the workers of each. With 0 workers, a step
            waits while its batch is made.

    Raises:
        ProfileError: The profile does not say what an item costs.

    Example:
        >>> from seneca.partition import Profile
        >>> profile = Profile.load("run.json")  # doctest: +SKIP
        >>> torch_loader(profile, default_split(), Jobs(threads=8)).limited_by  # doctest: +SKIP
        'storage'
    """
    changed = _jobs(profile, jobs)
    return predict_by(_work(profile, 1, changed), split, changed)


def _estimate(profile: Profile, shares: np.ndarray, jobs: Jobs) -> Estimates:
    changed = _jobs(profile, jobs)
    return estimate_by(_work(profile, len(shares), changed), changed)


TORCH = Model("torch", torch_loader, _estimate, has_recoded=False)


def _jobs(profile: Profile, jobs: Jobs) -> Jobs:
    """The jobs, with loops that also take batches. Without workers they make the samples themselves."""
    if jobs.threads != 0:
        return jobs.longer(profile.item_take_s)
    busy = min(jobs.count, profile.cores)
    made_s = _with(_cost(profile), busy, profile) + _from_disk(profile) * profile.storage[0].latency_s
    return jobs.longer(made_s)


def _from_disk(profile: Profile) -> float:
    files = np.array([profile.samples * profile.encoded.mean_bytes])
    return 1.0 - float(page_cache_hits(float(profile.free_memory_bytes), files)[0])


def _work(profile: Profile, splits: int, jobs: Jobs) -> Work:
    item = _cost(profile)
    workers = jobs.count * (profile.cores if jobs.threads is None else max(1, jobs.threads))
    from_disk = _from_disk(profile)
    file_bytes = from_disk * profile.encoded.mean_bytes
    made_s = _with(item, min(workers, profile.cores), profile)
    apart_s, served_s = _reading(profile, jobs.hosts.count)
    spread = _spread_of_sizes(profile) if profile.served_spread is None else profile.served_spread
    a_worker_s = workers / _closed(
        workers, made_s, profile.cores, apart_s=apart_s, served_s=served_s, spread=spread
    )
    take_s = profile.item_take_s if jobs.threads != 0 else 0.0
    # Without workers the steps are slower instead, see _jobs().
    loads = (file_bytes, item.all_s + profile.step_cpu_s + take_s, a_worker_s if jobs.threads != 0 else 0.0)
    nothing = np.zeros(splits)
    return Work(
        per_preparation=np.repeat(np.array(loads)[:, None], splits, axis=1),
        per_delivery=np.zeros((len(loads), splits)),
        capacity=np.array(
            [[profile.storage_at(workers) / jobs.hosts.count], [float(profile.cores)], [float(workers)]]
        ),
        saves=nothing,
        mix={"storage": nothing + 1.0, "encoded": nothing, "recoded": nothing, "decoded": nothing},
        page_cache=nothing + (1.0 - from_disk),
        filled_bytes={"augmented": nothing},
        resources=RESOURCES,
    )


def _reading(profile: Profile, hosts: int = 1) -> tuple[float, float]:
    """The seconds of a sample that pass at storage for all workers beside each other, and in turns."""
    from_disk = _from_disk(profile)
    served_s = from_disk * profile.encoded.mean_bytes * hosts / profile.storage_bytes_per_s
    return max(0.0, from_disk * profile.storage[0].latency_s - served_s), served_s


def _spread_of_sizes(profile: Profile) -> float:
    return (profile.encoded.std_bytes / profile.encoded.mean_bytes) ** 2


def spread_by_waits(profile: Profile, workers: int, waits_s: float) -> float | None:
    """How much the times differ in which storage serves, by what workers were seen to wait for it.

    Files that are read as wholes differ as their sizes do. A script may read a file in several requests: a
    small one then waits for the large ones of other workers.

    Args:
        profile: The rest of the measurement.
        workers: Their number, at most one a core.
        waits_s: What a sample waited for storage.

    Returns:
        The squared coefficient of variation, at most ``MOST_SPREAD``. None: the waits do not say, because
        one worker waits for no other, or because storage is used up and they would be as long anyway.
    """
    made_s = _with(_cost(profile), workers, profile)
    apart_s, served_s = _reading(profile)

    def rate(spread: float) -> float:
        return _closed(workers, made_s, profile.cores, apart_s=apart_s, served_s=served_s, spread=spread)

    if workers < 2 or served_s == 0 or rate(_spread_of_sizes(profile)) > USED_UP / served_s:
        return None
    wanted = workers / (made_s + waits_s)
    low, high = 0.0, MOST_SPREAD
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if rate(middle) > wanted else (low, middle)
    return high


def _closed(
    workers: int, made_s: float, cores: int, *, apart_s: float, served_s: float, spread: float
) -> float:
    """The samples a second of workers that share cores and a storage.

    Args:
        workers: Their number.
        made_s: What a core takes for a sample.
        cores: Their number. If more workers want one, they take turns.
        apart_s: What passes for a sample besides, for all workers at once.
        served_s: What the storage takes for a sample. It serves one after the other.
        spread: The squared coefficient of variation of that time: 0 if all are equal, 1 if exponential.
    """
    most = min(cores / made_s, 1 / served_s if served_s else math.inf)
    at_cores = np.zeros(workers + 1)  # the probabilities that so many workers are there
    at_cores[0] = 1.0
    number_there = np.arange(1, workers + 1)
    turns = made_s / np.minimum(number_there, cores)
    queue = used = rate = 0.0
    for number in range(1, workers + 1):
        made = float((number_there * turns * at_cores[:-1]).sum())
        served = served_s * (1 + queue + used * (spread - 1) / 2)
        rate = number / (made + apart_s + served)
        if rate >= most:  # the approximation may give more than there is
            return most
        at_cores[1:] = rate * turns * at_cores[:-1]
        at_cores[0] = max(0.0, 1.0 - float(at_cores[1:].sum()))
        queue, used = rate * served, rate * served_s
    return rate


def _cost(profile: Profile) -> Cost:
    if profile.item is None:
        raise ProfileError(
            "the profile does not say what torch's own loader takes for a sample: "
            "`seneca analyze --deep --json FILE -- python train.py` makes one that does"
        )
    return profile.item


def _with(cost: Cost, busy: int, profile: Profile) -> float:
    """The seconds of a sample while so many cores are busy."""
    share = (busy - 1) / (profile.cores - 1) if profile.cores > 1 else 1.0
    return cost.one_s + share * (cost.all_s - cost.one_s)
