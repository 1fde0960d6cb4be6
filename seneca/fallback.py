"""Seneca's public names where Seneca is off: plain torch, which takes Seneca's arguments and warns once."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import torch
import torch.utils.data

from seneca._runtime.enabled import off_because
from seneca._runtime.warn import warn
from seneca.epochs.resumable import ResumableBatchSampler, ResumableLoader
from seneca.options import CHECK_EVERY, AutoWorkers, CheckEvery, Options, workers_of
from seneca.tuning.diagnosis import NOTHING_TO_SAY, Diagnosis
from seneca.workers.iterators import iterate

__all__ = ["DataLoader", "OpportunisticBatchSampler", "SharedDataset"]


class DataLoader(torch.utils.data.DataLoader, ResumableLoader):
    """``torch.utils.data.DataLoader`` that also takes Seneca's arguments.

    As in the real loader, they are checked and stored under their own names. They have no effect: nothing is
    shared, kept or substituted. The first loader of a process warns.

    Args:
        dataset, batch_size, shuffle, sampler, batch_sampler, collate_fn, pin_memory, drop_last, timeout: As
            torch's; the other arguments of torch's likewise.
        num_workers: As torch's. ``"auto"`` is a fixed number here, of the cores.
        on_error: No effect: a damaged picture raises.
        memory_format: No effect: batches are contiguous.
        device: No effect: batches stay where they are made.
        snapshot_every_n_steps: No effect, as in the real loader.
        cache, cache_bytes, split, share, key, job, check_every, keep, verify_files, remote: No effect.

    Raises:
        ValueError: torch or :class:`seneca.options.Options` refuses an argument.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int | Literal["auto"] = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: torch.Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        cache: Any = "auto",
        cache_bytes: int | str = "auto",
        split: Any = "auto",
        share: Any = "augmented",
        on_error: Any = "raise",
        memory_format: torch.memory_format = torch.contiguous_format,
        key: str | None = None,
        job: str | None = None,
        device: str | torch.device | None = None,
        check_every: CheckEvery = CHECK_EVERY,
        keep: bool | float | str | None = None,
        verify_files: Any = "epoch",
        remote: Any = None,
        snapshot_every_n_steps: int | None = 1,
    ) -> None:
        super().__init__(
            dataset,
            batch_size,
            shuffle,
            sampler,
            batch_sampler,
            workers_of(num_workers),
            collate_fn,
            pin_memory,
            drop_last,
            timeout,
            worker_init_fn,
            multiprocessing_context,
            generator,
            prefetch_factor=prefetch_factor,
            persistent_workers=persistent_workers,
            pin_memory_device=pin_memory_device,
            in_order=in_order,
        )
        self._never_begun()
        self.cache = cache
        self.cache_bytes = cache_bytes
        self.split = split
        self.share = share
        self.on_error = on_error
        self.memory_format = memory_format
        self.key = key
        self.job = job
        self.device = device
        self.check_every = check_every
        self.keep = keep
        self.verify_files = verify_files
        self.remote = remote
        self.snapshot_every_n_steps = snapshot_every_n_steps
        self.last_indices: Any = None  # there is no native path
        Options.of(self)  # refuses what the real loader refuses
        _give_notice()

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]  # torch promises its own class
        with self._settled(self._epoch_to_begin()):
            return super().__iter__()

    def _get_iterator(self) -> Any:
        return iterate(self, self._stream() if self._is_stream() else self._tracked())

    @property
    def check_worker_number_rationality(self) -> Callable[[], None]:  # type: ignore[override]
        """As in the real loader: nothing warns of ``num_workers="auto"``."""
        is_auto = isinstance(self.num_workers, AutoWorkers)
        return (lambda: None) if is_auto else super().check_worker_number_rationality

    def _users_dataset(self) -> Any:
        return self.dataset.dataset if isinstance(self.dataset, SharedDataset) else self.dataset

    def _identity(self) -> None:
        return None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_iterator": None, "_under_way": None}

    def stats(self) -> dict[str, Any]:
        """An empty dict, because torch's loader counts nothing. A script that asks for it still runs."""
        return {}

    def diagnose(self) -> Diagnosis:
        """The epoch that began last. Why the training loop waits is not known, because nothing is measured.

        Raises:
            RuntimeError: No epoch has begun.
        """
        progress = self._under_way
        if progress is None:
            raise RuntimeError(NOTHING_TO_SAY)
        return Diagnosis(progress.number, 0.0, progress.ended, progress.yielded, None, {}, (), "")

    def explain(self) -> str:
        """Why nothing is shared."""
        return f"not shared: {off_because()}"


class SharedDataset(torch.utils.data.Dataset[Any]):
    """The dataset itself, behind the name and arguments of the real class; nothing is shared.

    Args:
        dataset: Any map-style dataset.
        cache, cache_bytes, split, share, key, job, check_every, keep, verify_files, remote: No effect.
    """

    def __init__(
        self,
        dataset: Any,
        *,
        cache: str | None = "auto",
        cache_bytes: int | str = "auto",
        split: Any = "auto",
        share: Any = "augmented",
        key: str | None = None,
        job: str | None = None,
        check_every: CheckEvery = CHECK_EVERY,
        keep: bool | float | str | None = None,
        verify_files: Any = "epoch",
        remote: str | Sequence[str] | Literal[False] | None = None,
    ) -> None:
        self.dataset = dataset
        self.cache = cache
        self.cache_bytes = cache_bytes
        self.split = split
        self.share = share
        self.key = key
        self.job = job
        self.check_every = check_every
        self.keep = keep
        self.verify_files = verify_files
        self.remote = remote
        Options.of(self)  # refuses what the real class refuses
        _give_notice()

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: Any) -> Any:
        return self.dataset[index]

    def __getitems__(self, indices: Sequence[Any]) -> list[Any]:
        """The items of a batch, as the dataset makes them."""
        if getattr(self.dataset, "__getitems__", None):
            return self.dataset.__getitems__(indices)
        return [self.dataset[index] for index in indices]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in ("dataset", "state_dict", "load_state_dict"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.dataset, name)

    def __setattr__(self, name: str, value: Any) -> None:
        # As in the real class: what is no option is the dataset's, its ``transform`` for example.
        if name.startswith("_") or name in OPTIONS:
            super().__setattr__(name, value)
        else:
            setattr(self.dataset, name, value)

    def join(
        self, *, batch_size: int | None = None, batches_ahead: int = 1, threads: int | None = None
    ) -> None:
        """None, because there is no cache to join. The arguments are those of the real class."""

    def stats(self) -> dict[str, Any]:
        """An empty dict, because nothing is counted."""
        return {}

    def explain(self, support: Any = None) -> str:
        """Why nothing is shared. The argument is that of the real class."""
        return f"not shared: {off_because()}"


OPTIONS = frozenset(inspect.signature(SharedDataset).parameters)  # public attributes that are its own


class OpportunisticBatchSampler(ResumableBatchSampler):
    """``torch.utils.data.BatchSampler`` that takes the arguments of the real class.

    Args:
        sampler, batch_size, drop_last: As torch's.
        seed: No effect.
        batches_ahead: No effect.
    """


@functools.cache
def _give_notice() -> None:
    """Say once a process why nothing is shared."""
    reason = off_because() or "seneca.fallback was asked for"
    warn(f"{reason}; loading with plain torch, nothing is shared")
