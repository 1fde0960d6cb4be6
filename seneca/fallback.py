"""Seneca's public names where Seneca is off: plain torch, which takes Seneca's arguments and warns once."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import torch

from seneca import faces
from seneca._runtime.enabled import off_because
from seneca._runtime.warn import warn
from seneca.epochs.resumable import ResumableBatchSampler
from seneca.tuning.diagnosis import NOTHING_TO_SAY, Diagnosis
from seneca.workers.iterators import iterate

__all__ = ["DataLoader", "OpportunisticBatchSampler", "SharedDataset"]

_T_co = TypeVar("_T_co", covariant=True)


class DataLoader(faces.DataLoader[_T_co]):
    """``torch.utils.data.DataLoader`` that also takes Seneca's options.

    As in the real loader, they are checked and stored under their own names. They have no effect: nothing is
    shared, kept, skipped or substituted, and batches are contiguous and stay where they are made.
    ``num_workers="auto"`` is a fixed number, of the cores. The first loader of a process warns.
    """

    last_indices: Any = None  # there is no native path

    def _set_up(self) -> None:
        _ = self._options  # refuses what the real loader refuses
        _give_notice()

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]  # torch promises its own class
        with self._settled(self._epoch_to_begin()):
            return super().__iter__()

    def _get_iterator(self) -> Any:
        return iterate(self, self._stream() if self._is_stream() else self._tracked())

    def _identity(self) -> None:
        return None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_iterator": None, "_under_way": None}

    def stats(self) -> dict[str, Any]:
        """An empty dict, because torch's loader counts nothing. A script that asks for it still runs."""
        return {}

    @property
    def normalizer(self) -> torch.nn.Module:
        """A module that returns what it gets, because torch's batches are complete."""
        return torch.nn.Identity()

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


class SharedDataset(faces.SharedDataset):
    """The dataset itself, behind the name and arguments of the real class; nothing is shared."""

    def _set_up(self) -> None:
        _ = self._options  # refuses what the real class refuses
        _give_notice()

    def __getitem__(self, index: Any) -> Any:
        return self.dataset[index]

    def __getitems__(self, indices: Sequence[Any]) -> list[Any]:
        """The items of a batch, as the dataset makes them."""
        if getattr(self.dataset, "__getitems__", None):
            return self.dataset.__getitems__(indices)
        return [self.dataset[index] for index in indices]

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
