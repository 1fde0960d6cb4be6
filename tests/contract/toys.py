"""Datasets and functions that workers run. All can be imported, so that they pickle."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import namedtuple
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info

Point = namedtuple("Point", "value index")


class Numbers(Dataset):
    """Sample ``i`` is ``(tensor([i]), i)``."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if not 0 <= index < self.count:
            raise IndexError(index)
        return torch.tensor([float(index)]), index


class Made(Dataset):
    """Sample ``i`` is whatever a function makes of ``i``, in the worker."""

    def __init__(self, count: int, make: Callable[[Any], Any]) -> None:
        self.count = count
        self.make = make

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: Any) -> Any:
        return self.make(index)


class Failing(Numbers):
    """As :class:`Numbers`, but what a function makes of index 5 comes first: an error, or a death."""

    def __init__(self, count: int, fail: Callable[[], Any]) -> None:
        super().__init__(count)
        self.fail = fail

    def __getitem__(self, index: int) -> Any:
        if index == 5 and (instead := self.fail()) is not None:
            return instead
        return super().__getitem__(index)


class Count(IterableDataset):
    """``(tensor([i]), i)`` for i below ``count``, dealt out to the workers in turn unless ``whole``."""

    def __init__(self, count: int, *, begin: int = 0, whole: bool = False) -> None:
        self.count = count
        self.begin = begin
        self.whole = whole

    def __iter__(self) -> Iterator[tuple[torch.Tensor, int]]:
        info = get_worker_info()
        first, step = (0, 1) if info is None or self.whole else (info.id, info.num_workers)
        for index in range(self.begin + first, self.begin + self.count, step):
            yield torch.tensor([float(index)]), index


class SizedCount(Count):
    """As :class:`Count`, with a length that it claims."""

    def __init__(self, count: int, length: int, **options: Any) -> None:
        super().__init__(count, **options)
        self.length = length

    def __len__(self) -> int:
        return self.length


class Locked(Numbers):
    """As :class:`Numbers`, with something that nobody can distinguish from another's."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.lock = threading.Lock()


class Batched(Numbers):
    """As :class:`Numbers`, with a ``__getitems__`` that adds 100 to the label."""

    def __getitems__(self, indices: list[int]) -> list[tuple[torch.Tensor, int]]:
        return [(torch.tensor([float(index)]), index + 100) for index in indices]


class Unsized(Dataset):
    """As :class:`Numbers`, but nobody knows how many there are."""

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.tensor([float(index)]), index


class RefusesLength(Unsized):
    """As :class:`Unsized`, and says so."""

    def __len__(self) -> int:
        raise NotImplementedError("it has no length")


class Keyed(Dataset):
    """Its keys are whatever the sampler says."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, key: Any) -> str:
        return f"item {key}"


class Waiting(Numbers):
    """As :class:`Numbers`, but sample 0 waits for an event."""

    def __init__(self, count: int, event: Any) -> None:
        super().__init__(count)
        self.event = event

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if index == 0:
            assert self.event.wait(60)
        return super().__getitem__(index)


class Recording:
    """A sampler that remembers what has been taken from it."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.taken: list[int] = []

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[int]:
        for index in range(self.count):
            self.taken.append(index)
            yield index


class TwoArguments(Exception):
    """Cannot be made again from its text alone."""

    def __init__(self, text: str, number: int) -> None:
        super().__init__(f"{text} {number}")


def pid_and_index(index: int) -> tuple[int, int]:
    return os.getpid(), index


def nested(index: int) -> dict[str, Any]:
    """Every kind that ``default_collate`` knows."""
    return {
        "point": Point(index + 0.5, index),
        "text": str(index),
        "array": np.full(2, index, np.uint8),
        "pair": (torch.tensor(index), index > 1),
    }


def what_a_worker_knows(index: int) -> dict[str, Any]:
    info = get_worker_info()
    return {
        "id": info.id,
        "num_workers": info.num_workers,
        "seed": info.seed,
        "dataset": type(info.dataset).__name__,
        "rng": info.rng,
        "worker_method": info.worker_method,
        "threads": torch.get_num_threads(),
        "torch_seed": torch.initial_seed(),
        "random": random.random(),
        "numpy": np.random.rand(),
        "torch": torch.rand(()).item(),
    }


def raise_value_error() -> None:
    raise ValueError("this sample is bad")


def raise_key_error() -> None:
    raise KeyError("no such key")


def raise_two_arguments() -> None:
    raise TwoArguments("bad sample", 5)


def raise_local() -> None:
    class Local(Exception):
        """Not to be pickled: pickle finds a class by its name in a module."""

    raise Local("of a class that nobody can import")


def unpicklable() -> Any:
    return lambda: "cannot be pickled"


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def leave() -> None:
    os._exit(3)


def note_pid(folder: Path, number: int) -> None:
    """A ``worker_init_fn``: a file named after this process says that it has begun."""
    (folder / str(os.getpid())).touch()


def crash() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def slow(index: int) -> int:
    time.sleep(0.02)
    return index


def keep(samples: list[Any]) -> list[Any]:
    """A collate function that leaves the samples as they are."""
    return samples


def fail_to_collate(samples: list[Any]) -> None:
    raise ValueError("this batch is bad")
