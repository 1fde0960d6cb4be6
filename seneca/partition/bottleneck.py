"""The default model: the work of each resource for a sample, and which resource runs out first.

::

    split x memory --> samples kept in each form --> what a preparation costs --+
    jobs, stage    --> preparations a delivered sample  ------------------------+--> samples/s
    paces of the steps ---------------------------------------------------------+

Everything is linear in two rates: R, samples delivered to all jobs together, and P, samples prepared. The
load of resource k is a_k P + b_k R, and its capacity is C_k. A job that gets all it asks for runs at the
pace of its step. The other jobs run at one common rate, the highest that no resource forbids.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from seneca.partition.estimate import Estimates, Model, Prediction, shares_of
from seneca.partition.hosts import REMOTE_CPU_S_PER_BYTE
from seneca.partition.jobs import Jobs
from seneca.partition.profile import Profile
from seneca.partition.split import Split

__all__ = ["BOTTLENECK", "RESOURCES", "Work", "bottleneck", "estimate_by", "page_cache_hits", "predict_by"]

RESOURCES = ("storage", "cpu", "threads", "memory bandwidth", "network")
"""If two run out at once, the first counts. ``"step"`` is the limit if the jobs could not take more."""

GRANULE_BYTES = 4096  # a payload's space is rounded up to multiples of this

# The share of the possible saving that sharing reaches, by the stage's room for copies. The room is a
# multiple of the samples under way. The engine's stage has room for twice these. Measured with three equal
# jobs: 0.99 of the bound with that room, and 0.74 with a quarter of it.
STAGE_ROOM = (0.0, 0.5, 2.0)
STAGE_SAVES = (0.0, 0.82, 0.995)


def bottleneck(profile: Profile, split: Split, jobs: Jobs) -> Prediction:
    """Predict the throughput of a split by the resource that runs out first.

    The function is pure: it reads no clock, file or environment. It predicts the steady state, in which the
    samples that are to be kept are kept.

    * A sample is kept in one form. DECODED fills first. RECODED takes the rest of the samples that can have
      it, and ENCODED takes what is left. Which samples are DECODED does not depend on whether they could be
      RECODED.
    * The stage gets its share of the split. If two jobs or more share AUGMENTED copies, it gets at least
      twice what all jobs have under way.
    * A preparation starts from the form that is kept. Its AUGMENTED copy serves every job once and is then
      gone. Therefore kept samples save reading and decoding, but never the augmenting of an epoch. To make
      a RECODED payload costs nothing here, because that is done once.
    * Every sample that the fastest job takes must be prepared. The other jobs find it staged.
    * The page cache has the memory that the cache leaves free, and drops any of its files to make room. With
      random orders it serves less than its share of the files.
    * With several hosts, storage divides what it gives among them. A file that the servers of the hosts have
      room for comes from one of them instead, and by the network unless it is the host's own. The prediction
      is for one host.

    Args:
        profile: Rates of the host with the dataset, and the memory for payloads.
        split: Shares of that memory.
        jobs: The jobs that run at the same time.

    Returns:
        The prediction. ``ceilings`` has what each of ``RESOURCES``, and the steps, would allow.
    """
    return predict_by(_work(profile, shares_of(split), jobs), split, jobs.longer(profile.take_s))


def predict_by(work: Work, split: Split, jobs: Jobs) -> Prediction:
    """The prediction for the loads of one split."""
    rate, rates = _common_rate(work, jobs)
    per_job = tuple(min(pace, float(rate[0])) for pace in jobs.paces)
    total = sum(per_job)
    slowest = int(np.argmin(rates[:, 0]))
    return Prediction(
        split=split,
        samples_per_s=total,
        per_job=per_job,
        limited_by="step" if rate[0] >= max(jobs.paces) else work.resources[slowest],
        ceilings={
            **{name: _ceiling(work, k, float(rates[k, 0]), jobs) for k, name in enumerate(work.resources)},
            "step": sum(jobs.paces),
        },
        filled_bytes={form: float(filled[0]) for form, filled in work.filled_bytes.items()},
        mix={form: float(share[0]) for form, share in work.mix.items()},
        prepared=_prepared(per_job, float(work.saves[0])) / total,
        page_cache=float(work.page_cache[0]),
    )


def estimate_by(work: Work, jobs: Jobs) -> Estimates:
    """The estimates for the loads of many splits."""
    rate, _ = _common_rate(work, jobs)
    total = np.zeros_like(rate)
    for pace in jobs.paces:
        total += np.minimum(pace, rate)
    return Estimates(total, work.memory_bytes)


def _estimate(profile: Profile, shares: np.ndarray, jobs: Jobs) -> Estimates:
    return estimate_by(_work(profile, shares, jobs), jobs.longer(profile.take_s))


BOTTLENECK = Model("bottleneck", bottleneck, _estimate)


@dataclass(frozen=True)
class Work:
    """The loads of n splits. Their first axis is that of ``resources``."""

    per_preparation: np.ndarray  # a_k: (resources, n)
    per_delivery: np.ndarray  # b_k: (resources, n)
    capacity: np.ndarray  # C_k: (resources, 1)
    saves: np.ndarray  # the share of R - (the fastest job's rate) that need not be prepared
    mix: dict[str, np.ndarray]
    page_cache: np.ndarray
    filled_bytes: dict[str, np.ndarray]
    resources: tuple[str, ...] = RESOURCES

    @property
    def memory_bytes(self) -> np.ndarray:
        return sum(self.filled_bytes.values(), np.zeros(()))


def _work(profile: Profile, shares: np.ndarray, jobs: Jobs) -> Work:
    x_encoded, x_recoded, x_decoded, x_augmented = shares.T
    memory, samples = float(profile.cache_bytes), profile.samples
    encoded_bytes = profile.encoded.mean_bytes + GRANULE_BYTES / 2
    recoded_bytes = profile.recoded.mean_bytes + GRANULE_BYTES / 2
    decoded_bytes = profile.decoded.mean_bytes + GRANULE_BYTES / 2
    copy_bytes = GRANULE_BYTES * math.ceil(profile.augmented.mean_bytes / GRANULE_BYTES)

    uses_copies = jobs.share == "exact" or (jobs.share == "augmented" and not profile.deterministic)
    sharing = jobs.count > 1 and uses_copies
    in_flight = min(jobs.in_flight, jobs.count * samples)  # a job has no more under way than an epoch has
    need = min(2 * in_flight * copy_bytes, memory) if sharing else 0.0
    stage = np.maximum(x_augmented * memory, need)
    saves = np.interp(stage / (in_flight * copy_bytes), STAGE_ROOM, STAGE_SAVES) * sharing

    kept = x_encoded + x_recoded + x_decoded
    kept_memory = np.divide(memory - stage, kept, out=np.zeros_like(kept), where=kept > 0)
    decoded = np.minimum(1.0, x_decoded * kept_memory / decoded_bytes / samples) * profile.staged
    could_be = profile.recodable * (1.0 - decoded)
    recoded = np.minimum(could_be, x_recoded * kept_memory / recoded_bytes / samples) * profile.staged
    rest = 1.0 - decoded - recoded
    encoded = np.minimum(rest, x_encoded * kept_memory / encoded_bytes / samples) * profile.staged
    storage = np.maximum(0.0, rest - encoded)

    # A loader asks the servers before storage, and so before the page cache.
    hosts, file_bytes = jobs.hosts, profile.encoded.mean_bytes
    from_servers = storage * (hosts.served(samples * file_bytes) * profile.staged)
    not_served = storage - from_servers
    spare = max(0.0, profile.free_memory_bytes - memory)
    page_cache = page_cache_hits(spare, not_served * samples * file_bytes)
    from_disk = not_served * (1.0 - page_cache)

    threads = jobs.count * (profile.cores if jobs.threads is None else max(1, jobs.threads))
    ahead = jobs.reads_ahead if jobs.threads != 0 else 0  # without threads, the training loop reads
    readers = threads + jobs.count * ahead
    cpu, threads_busy = (
        decoded * augment + recoded * redraw + (encoded + storage) * prepare + not_served * fetch
        for augment, redraw, prepare, fetch in (
            (profile.augment.all_s, profile.redraw.all_s, profile.prepare.all_s, profile.fetch.all_s),
            (profile.augment.one_s, profile.redraw.one_s, profile.prepare.one_s, profile.fetch.one_s),
        )
    )
    served_s = from_servers * file_bytes * REMOTE_CPU_S_PER_BYTE
    # These bytes go through memory in any case: a file, in either form, as much of a picture as the copy
    # has, and the batch. A copy that is not staged stays in the cores' caches.
    staged_bytes = profile.augmented.mean_bytes if sharing else 0.0
    moved = (
        decoded * profile.augmented.mean_bytes
        + recoded * profile.recoded.mean_bytes
        + (encoded + 3 * storage) * profile.encoded.mean_bytes  # from storage: read, written, read again
        + staged_bytes
    )
    ones = np.ones_like(stage)
    return Work(
        per_preparation=np.stack(
            [
                from_disk * file_bytes,
                cpu + served_s,
                threads_busy + (0.0 if ahead else from_disk * profile.storage[0].latency_s),
                moved,
                from_servers * hosts.elsewhere * file_bytes,
            ]
        ),
        per_delivery=np.stack(
            [
                0.0 * ones,
                (profile.batch.all_s + profile.step_cpu_s + profile.take_s) * ones,
                profile.batch.one_s * ones,
                (staged_bytes + profile.batch_bytes) * ones,
                0.0 * ones,
            ]
        ),
        capacity=np.array(
            [
                [profile.storage_at(readers) / hosts.count],
                [profile.cores],
                [threads],
                [profile.memory_bytes_per_s],
                [hosts.nic_bytes_per_s],
            ]
        ),
        saves=saves,
        mix={"storage": storage, "encoded": encoded, "recoded": recoded, "decoded": decoded},
        page_cache=page_cache,
        filled_bytes={
            "augmented": stage,
            "decoded": decoded * samples * decoded_bytes,
            "encoded": encoded * samples * encoded_bytes,
            "recoded": recoded * samples * recoded_bytes,
        },
    )


# For each rate a (see below) at which a file that is held is dropped: the misses, and the room they mean.
_DROPS = np.geomspace(1e6, 1e-6, 2000)
_MISSES = 1.0 - (np.expm1(-_DROPS) / _DROPS) ** 2
_ROOMS = _MISSES / _DROPS


def page_cache_hits(room_bytes: float, files_bytes: np.ndarray) -> np.ndarray:
    """Hits of the page cache with so much room, if each file is read once an epoch in random order.

    There is room for a share c of the files. Each miss m drops a random file that is held. A file that is
    held is therefore dropped at the rate a = m / c an epoch. It is read again after a time u + v: u is what
    is left of its epoch, v the part of the next epoch before it, and both are uniform and independent. The
    file is still held with probability E[exp(-a (u + v))] = ((1 - exp(-a)) / a)^2, which is 1 - m. This gives
    m and c = m / a for each a.

    Linux is not a cache that drops the least recently used: Mohan et al. (VLDB 2021) saw 53 %
    misses with room for 65 % of the files, and 85 % with 35 %. This gives 53.6 and 86.2, and the least
    recently used 71.7 and 93.0.
    """
    room = np.divide(room_bytes, files_bytes, out=np.ones_like(files_bytes), where=files_bytes > 0)
    return 1.0 - np.interp(room, _ROOMS, _MISSES) * (room < 1.0)


def _common_rate(work: Work, jobs: Jobs) -> tuple[np.ndarray, np.ndarray]:
    """The highest rate that jobs without an own pace reach: of all resources together, and of each.

    Between two paces the load is linear in the rate. Therefore each resource's rate is searched for from one
    pace to the next.
    """
    a, b, capacity = work.per_preparation, work.per_delivery, work.capacity
    rates = np.full(a.shape, np.inf)
    found = np.zeros(a.shape, dtype=bool)
    reached, load = 0.0, np.zeros(a.shape)
    for pace in sorted(set(jobs.paces)):
        faster = sum(other > reached for other in jobs.paces)
        slope = a * (faster - work.saves * (faster - 1)) + b * faster
        with np.errstate(divide="ignore", invalid="ignore"):
            crossing = np.where(slope > 0, reached + (capacity - load) / slope, np.inf)
        here = ~found & (crossing <= pace)
        rates[here], found = crossing[here], found | here
        load, reached = load + slope * (pace - reached) if math.isfinite(pace) else load, pace
    return np.minimum(rates.min(axis=0), max(jobs.paces)), rates


def _ceiling(work: Work, resource: int, rate: float, jobs: Jobs) -> float:
    """The rate that a resource allows all jobs together. Beyond their paces, all jobs are made faster by one
    factor."""
    if math.isfinite(rate):
        return sum(min(pace, rate) for pace in jobs.paces)
    total = sum(jobs.paces)
    if not math.isfinite(total):
        return math.inf  # nothing of it is used
    used = float(
        work.per_preparation[resource, 0] * _prepared(jobs.paces, float(work.saves[0]))
        + work.per_delivery[resource, 0] * total
    )
    return total * float(work.capacity[resource, 0]) / used if used > 0 else math.inf


def _prepared(rates: tuple[float, ...], saves: float) -> float:
    """The samples that are prepared in a second for jobs of these rates."""
    return sum(rates) - saves * (sum(rates) - max(rates))
