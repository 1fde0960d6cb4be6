"""Writes down what an epoch delivers, and what a process serves, if ``SENECA_AUDIT`` names a folder."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from seneca._core.segment import NONE
from seneca.audit.log import Header, Log, audit_folder, next_turn, part_name
from seneca.cache import SampleCache
from seneca.epochs.plan import EpochPlan
from seneca.epochs.progress import EpochProgress

__all__ = ["DeliveryRecorder", "ServiceRecorder", "record_deliveries", "record_service"]

LOGS_OPEN = 4  # the most epochs that a process serves at the same time
FROM_STORAGE = [NONE, 0, 0]  # slot, generation and form of a sample of which there is no copy


class DeliveryRecorder:
    """Writes down what one epoch delivers.

    Args:
        log: The log of the epoch.
        own: The sample of each index; None: the sample is the index. Only used with ``n_samples``.
        n_samples: The number of samples, if batches are recorded as samples and draws note the copy that
            serves each; None: batches are recorded as indices.

    Attributes:
        copies: Slot, generation and form that serve each sample, uint32 ``(n_samples, 3)``, which the draws
            write; None: without ``n_samples``.
        out_of_turn: How many samples of the epoch came at another place than the order of a job alone gives
            them. What draws the epoch sets this before its end.
    """

    def __init__(self, log: Log, own: np.ndarray | None = None, n_samples: int | None = None) -> None:
        self._log = log
        self.copies: np.ndarray | None = None
        self.out_of_turn = 0
        self._index_of: np.ndarray | None = None
        if n_samples is None:
            return
        self.copies = np.zeros((n_samples, 3), np.uint32)
        self._index_of = np.arange(n_samples, dtype=np.uint32)
        if own is not None:
            self._index_of[own] = np.arange(len(own))

    @property
    def id(self) -> str | None:
        """The name of the log; None: it could not be written in full."""
        return self._log.id

    def batch(
        self, used: Any, given: Any = None, *, failed: bool = False, copies: np.ndarray | None = None
    ) -> None:
        """Write that a batch was delivered, or an error in its place.

        Args:
            used: The samples that will not come again.
            given: The samples that the user got, in their order; None: none. The others were skipped.
            failed: Whether the user got an error instead.
            copies: What serves ``given``, a row for each; None: what ``self.copies`` has of them.
        """
        if failed:
            self._log.failed(self._indices(used))
            return
        skipped = used if given is None else () if given is used else np.setdiff1d(used, given)
        if len(skipped):
            self._log.skipped(self._indices(skipped))
        if given is not None:
            if copies is None and self.copies is not None:
                copies = self.copies[given]
            self._log.gave(self._indices(given), copies)

    def differed(self, samples: Any) -> None:
        """Write that samples were served, made again, and found to differ."""
        self._log.differed(self._indices(samples))

    def end(self) -> None:
        """Write that the epoch is over. This is not called for an epoch that is left half-way."""
        self._log.done(self.out_of_turn)

    def _indices(self, samples: Any) -> Any:
        return samples if self._index_of is None else self._index_of[samples]


def record_deliveries(
    loader: Any,
    plan: EpochPlan,
    progress: EpochProgress,
    *,
    samples: int | None,
    job: int,
    dataset: bytes,
    own: np.ndarray | None,
    cache: SampleCache | None = None,
    n_samples: int | None = None,
    exact: int = 0,
) -> DeliveryRecorder | None:
    """Begin to write down what an epoch delivers; None: no audit is wanted, or the dataset has no length.

    Args:
        loader: The loader or batch sampler whose epoch it is.
        plan: The plan of the epoch.
        progress: The progress of the epoch.
        samples: The length of the dataset; None: it has no length.
        job: The key of the training run.
        dataset: The fingerprint of the samples; empty: nothing is shared.
        own: The sample of each index; None: the sample is the index.
        cache: The cache of the copies that the epoch delivers; None: there is none, or worker processes
            write which copies these are.
        n_samples: See :class:`DeliveryRecorder`.
        exact: Names what the samples of the epoch are, if the seed alone decides that; 0: it does not.

    Raises:
        OSError: The first log of this process cannot be made.
    """
    folder = audit_folder()
    if folder is None or samples is None:
        return None
    number, turn = next_turn(loader)
    is_whole = plan.shard is not None or plan.count == samples  # else only the user knows which samples
    segment, attached = (None, []) if cache is None else cache.segment.attachments()
    header = Header(
        kind="delivered",
        job=f"{job:016x}",
        dataset=dataset.hex(),
        samples=samples,
        part=part_name(own),
        loader=number,
        turn=turn,
        epoch=plan.number,
        count=plan.delivers if is_whole else None,
        batch_size=plan.batch_size or 1 if is_whole else None,
        drop_last=plan.drop_last,
        shuffled=plan.shuffled,
        rank=plan.rank,
        ranks=plan.ranks,
        padded=plan.shard is not None and not plan.shard.drop_last,
        in_order=getattr(loader, "in_order", True),
        exact=_name_of_order(plan, exact) if exact and plan.fixed else "",
        resumed=progress.written_before(),
        segment=segment,
        attached=attached,
    )
    return DeliveryRecorder(Log(folder, header), own, n_samples)


def _name_of_order(plan: EpochPlan, samples: int) -> str:
    """A name of the order of a plan, and of what its samples are."""
    digest = hashlib.blake2b(repr((samples, plan.count)).encode(), digest_size=8)
    if plan.indices is not None:
        digest.update(plan.indices.tobytes())
    return digest.hexdigest()


class ServiceRecorder:
    """Writes down what one process serves, in one file for each epoch that asks it.

    Args:
        folder: The folder to write to.
        job: The key of the training run.
        dataset: The fingerprint of the samples.
        n_samples: The number of samples of the dataset.
        own: The sample of each index; None: the sample is the index.
        cache: The cache of the copies; None: nothing is shared.
    """

    def __init__(
        self,
        folder: Path,
        *,
        job: int,
        dataset: bytes,
        n_samples: int,
        own: np.ndarray | None,
        cache: SampleCache | None,
    ) -> None:
        self._folder = folder
        self._job, self._dataset, self._own, self._cache = job, dataset, own, cache
        self._n_indices = n_samples if own is None else len(own)
        self._logs: dict[str | None, Log] = {}  # by the log of the epoch that asked

    def served(self, indices: Sequence[int], copies: np.ndarray | None) -> None:
        """Write that a batch was served. For ``copies`` see :meth:`Log.gave`; None: all from storage."""
        asked_by = getattr(indices, "log", None)
        if asked_by not in self._logs:
            if len(self._logs) == LOGS_OPEN:
                self._logs.pop(next(iter(self._logs))).close()
            self._logs[asked_by] = self._open(asked_by)
        if copies is None:
            copies = np.full((len(indices), 3), FROM_STORAGE, np.uint32)
        self._logs[asked_by].gave(indices, copies)

    def differed(self, sample: int) -> None:
        """Write that a sample was served, made again, and found to differ."""
        index = sample if self._own is None else int(np.flatnonzero(self._own == sample)[0])
        if not self._logs:
            self._logs[None] = self._open(None)
        next(reversed(self._logs.values())).differed([index])

    def _open(self, asked_by: str | None) -> Log:
        segment, attached = (None, []) if self._cache is None else self._cache.segment.attachments()
        header = Header(
            kind="served",
            job=f"{self._job:016x}",
            dataset=self._dataset.hex(),
            samples=self._n_indices,
            part=part_name(self._own),
            of=asked_by,
            segment=segment,
            attached=attached,
        )
        return Log(self._folder, header)


def record_service(
    *, job: int, dataset: bytes, n_samples: int, own: np.ndarray | None, cache: SampleCache | None
) -> ServiceRecorder | None:
    """Begin to write down what this process serves; None: no audit is wanted.

    For the arguments see :class:`ServiceRecorder`.
    """
    folder = audit_folder()
    if folder is None:
        return None
    return ServiceRecorder(folder, job=job, dataset=dataset, n_samples=n_samples, own=own, cache=cache)
