"""The random generators that items are made with: set to fixed states for a while, and then put back."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import get_worker_info

__all__ = ["drawing", "fixed_generators", "set_generators"]


def _states() -> tuple[Any, ...]:
    return random.getstate(), np.random.get_state(legacy=True), torch.get_rng_state()


def _restore(states: tuple[Any, ...]) -> None:
    python, numpy, torchs = states
    random.setstate(python)
    np.random.set_state(numpy)
    torch.set_rng_state(torchs)


def _equal(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    (_, keys, *place), (_, others, *other_place) = one[1], other[1]
    same = one[0] == other[0] and place == other_place and np.array_equal(keys, others)
    return same and torch.equal(one[2], other[2])


@contextlib.contextmanager
def drawing() -> Iterator[Callable[[], bool]]:
    """Put Python's, NumPy's and torch's global generators, and a worker's seed, back after the block.

    Yields:
        A function that says whether any of them has been drawn from so far.
    """
    before = _states()
    info: Any = get_worker_info()
    own_seed = None if info is None else info.seed
    try:
        yield lambda: not _equal(before, _states())
    finally:
        _restore(before)
        if info is not None:
            object.__setattr__(info, "seed", own_seed)  # info refuses a plain assignment


def set_generators(seed: int) -> None:
    """Set Python's, NumPy's and torch's global generators, and the seed that a worker sees.

    torch's generators of other devices are left alone, because nothing may be started on a device here.
    """
    info: Any = get_worker_info()
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.default_generator.manual_seed(seed)
    if info is not None:
        object.__setattr__(info, "seed", seed)


@contextlib.contextmanager
def fixed_generators(seed: int) -> Iterator[Callable[[], bool]]:
    """Set all that :func:`set_generators` sets, and put it back after the block.

    Yields:
        A function that says whether any generator has been drawn from so far.
    """
    with drawing():
        set_generators(seed)
        begun = _states()
        yield lambda: not _equal(begun, _states())
