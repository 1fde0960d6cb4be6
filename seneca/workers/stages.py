"""Wrappers of a dataset's stages in worker processes: own random numbers for each sample, and clocks.

torch seeds each worker process, and the items of a worker draw one after the other. Therefore an item depends
on the number of workers, and on what its worker made before. With ``share="exact"`` it must not::

    (seed, epoch, sample) --> Python's, NumPy's and torch's global generators --> the dataset makes the item

The counters are those of all that worker processes do.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from seneca.data.stages import KeptStages, Payload, Stages, number_of
from seneca.epochs.generators import set_generators
from seneca.forms import Form

if TYPE_CHECKING:
    from seneca.workers.terms import Terms

__all__ = [
    "AT",
    "COUNTERS",
    "SPENT",
    "TIMES",
    "SeededStages",
    "TimedItems",
    "TimedStages",
    "is_quicker_made",
]

# For the split's controller, in the order of seneca.partition.Spent. Times are nanoseconds.
SPENT = ("reads", "prepares", "decodes", "augments", "read_ns", "prepare_ns", "decode_ns", "augment_ns")
# What users are not shown.
TIMES = (
    *(*SPENT, "decoded_bytes", "from_servers", "from_servers_ns"),
    *("item_cpu_ns", "item_ns", "stage_ns", "take_ns"),  # to make items, to stage copies, to take them
)
COUNTERS = (
    *(form.name.lower() for form in Form),
    *("prepared", "staged", "unshared", "damaged"),
    *("read_bytes", "checked", "different"),
    *TIMES,
)
AT = {name: place for place, name in enumerate(COUNTERS)}  # the place of each counter in the counts


ENOUGH = 1000  # items of a kind, before it is said how long they take: fewer vary too much


def is_quicker_made(terms: Terms, counts: np.ndarray) -> bool:
    """Whether a whole item takes less time to make than a copy of it takes to stage and to take.

    If it does, two jobs that share items are slower than two that do not. Making counts by wall-clock time,
    because it may wait for storage; copies count by CPU time.

    Args:
        terms: By which items are made.
        counts: The counters of one process, or the sums of several.
    """
    if terms.always or terms.stages.decoded:
        return False
    made, staged, taken = (int(counts[AT[name]]) for name in ("prepared", "staged", "augmented"))
    if min(made, staged, taken) < ENOUGH:
        return False
    make, stage, take = (int(counts[AT[name]]) for name in ("item_ns", "stage_ns", "take_ns"))
    return make / made < stage / staged + take / taken


class TimedStages(KeptStages):
    """The stages of a dataset, timed: reading by wall-clock time, the others by CPU time of the thread."""

    def __init__(self, stages: KeptStages, counts: np.ndarray) -> None:
        self._stages, self._counts = stages, counts
        self.decoded = stages.decoded

    def read(self, index: int) -> bytes:
        began = time.perf_counter_ns()
        data = self._stages.read(index)
        self.note("reads", "read_ns", time.perf_counter_ns() - began)
        self._counts[AT["read_bytes"]] += len(data)
        return data

    def decode(self, index: int, data: bytes) -> Payload:
        began = time.thread_time_ns()
        decoded = self._stages.decode(index, data)
        self.note("decodes", "decode_ns", time.thread_time_ns() - began)
        self._counts[AT["decoded_bytes"]] += len(decoded.data)
        return decoded

    def augment(self, index: int, decoded: Payload) -> Any:
        began = time.thread_time_ns()
        item = self._stages.augment(index, decoded)
        self.note("augments", "augment_ns", time.thread_time_ns() - began)
        return item

    def augment_encoded(self, index: int, data: bytes) -> Any:
        began = time.thread_time_ns()
        item = self._stages.augment_encoded(index, data)
        self.note("prepares", "prepare_ns", time.thread_time_ns() - began)
        return item

    def present(self, index: int, augmented: Any) -> Any:
        return self._stages.present(index, augmented)

    def note(self, times: str, total: str, ns: int) -> None:
        """Count something that took so long."""
        self._counts[AT[times]] += 1
        self._counts[AT[total]] += ns


class TimedItems(Stages):
    """Stages of which only whole items are seen, timed: by CPU time of the thread and by wall-clock time."""

    def __init__(self, stages: Stages, counts: np.ndarray) -> None:
        self._stages, self._counts = stages, counts
        self.decoded = stages.decoded

    def make(self, indices: Sequence[int]) -> list[Any]:
        began, cpu = time.perf_counter_ns(), time.thread_time_ns()
        try:
            return self._stages.make(indices)
        finally:
            self._counts[AT["item_cpu_ns"]] += time.thread_time_ns() - cpu
            self._counts[AT["item_ns"]] += time.perf_counter_ns() - began

    def present(self, index: int, augmented: Any) -> Any:
        return self._stages.present(index, augmented)


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
