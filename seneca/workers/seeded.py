"""Stages that make each sample with random numbers of its own, named by seed, epoch and sample.

torch seeds each worker process, and the items of a worker draw one after the other. Therefore an item depends
on the number of workers, and on what its worker made before. With ``share="exact"`` it must not::

    (seed, epoch, sample) --> Python's, NumPy's and torch's global generators --> the dataset makes the item
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from seneca.data.stages import KeptStages, Payload, Stages, number_of
from seneca.epochs.generators import set_generators

__all__ = ["SeededStages"]


class SeededStages(KeptStages):
    """The stages of a dataset, which make samples one by one.

    The global generators stay as the last sample has left them. Whoever asks for samples puts them back.

    Args:
        stages: The dataset's own stages.

    Attributes:
        epoch: The seed and the number of the epoch, to be set before the first sample.
    """

    def __init__(self, stages: Stages) -> None:
        self._stages = stages
        self.decoded = stages.decoded
        self.epoch: tuple[int, int] | None = None

    def make(self, indices: Sequence[int]) -> list[Any]:
        made = []
        for index in indices:
            self._seed(index)
            made += self._stages.make([index])
        return made

    def present(self, index: int, augmented: Any) -> Any:
        self._seed(index, b"label")
        return self._stages.present(index, augmented)

    def read(self, index: int) -> bytes:
        return self._kept.read(index)

    def read_stored(self, index: int) -> bytes:
        return self._kept.read_stored(index)

    def came_from_storage(self, data: bytes) -> bool:
        return self._kept.came_from_storage(data)

    def decode(self, index: int, data: bytes) -> Payload:
        return self._kept.decode(index, data)

    def augment(self, index: int, decoded: Payload) -> Any:
        self._seed(index)
        return self._kept.augment(index, decoded)

    def augment_encoded(self, index: int, data: bytes) -> Any:
        self._seed(index)
        return self._kept.augment_encoded(index, data)

    @property
    def _kept(self) -> KeptStages:
        return cast(KeptStages, self._stages)

    def _seed(self, index: int, what: bytes = b"item") -> None:
        assert self.epoch is not None, "nobody has named the epoch"
        seed, number = self.epoch
        set_generators(number_of(what, *(part.to_bytes(8, "little") for part in (seed, number, index))) >> 1)
