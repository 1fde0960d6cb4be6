"""Whether orders are random: tests that an order which is fails once in 1 / p times."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

__all__ = ["TELLS_FROM", "Orders", "Test"]

TELLS_FROM = 200  # samples, below which an order is not to be judged


class Test(NamedTuple):
    """What an order would be guilty of, and how probable it is that a random one looks like it."""

    p: float
    what: str


class Orders:
    """Judges the epochs of one loader, one after the other.

    Args:
        samples: Of its dataset.
    """

    def __init__(self, samples: int) -> None:
        self._samples = samples
        self._before: tuple[int, np.ndarray] | None = None  # turn, and what follows
        self._sum = np.zeros(0)  # places by sample, of mean 0 and variance 1 in each epoch
        self._epochs = 0

    def judge(
        self, turn: int, indices: np.ndarray, places: np.ndarray, *, own: bool = True
    ) -> Iterator[Test]:
        """One epoch by itself and, where both are the loader's own order, beside the one before.

        Jobs of equal pace that begin apart and share each copy find in the first part of an epoch what
        they found there in the one before (ARCHITECTURE, "What sharing costs in randomness").

        Args:
            turn: Which of the loader's.
            indices: Of its samples, as delivered; of several ranks one after the other.
            places: When in the epoch each came, from 0 to 1.
            own: Whether no sample was served out of turn, as a copy that another job made.
        """
        known = indices < self._samples
        indices, places = indices[known], places[known]
        n = len(indices)
        yield Test(_p_correlation(_correlation(indices, places), n), "a sample's place goes with its index")
        yield Test(_p_table(indices, places, self._samples), "places are not uniform")
        neighbours = _correlation(indices[:-1], indices[1:]) + 1 / n
        yield Test(_p_correlation(neighbours, n), "samples come next to those of like index")
        if not own:
            self._before = None
            return
        now = np.zeros(self._samples)
        now[indices] = (places - places.mean()) / places.std()
        if self._before is not None and self._before[0] == turn - 1:
            r = float(now @ self._before[1]) / n
            yield Test(_p_correlation(r, n), "the order goes with that of the epoch before")
        self._before = turn, now
        self._sum = self._sum + now if self._epochs else now
        self._epochs += 1

    def judge_all(self) -> Iterator[Test]:
        """All epochs together: whether some samples come early in most (Kendall's concordance)."""
        if self._epochs > 2:
            pairs = self._epochs * (self._epochs - 1) / 2
            correlations = (float(self._sum @ self._sum) / self._samples - self._epochs) / 2
            z = correlations / math.sqrt(pairs / (self._samples - 1))
            yield Test(_p_normal(z), f"some samples come early in most of {self._epochs} epochs")


def _correlation(a: np.ndarray, b: np.ndarray) -> float:
    a, b = a - a.mean(), b - b.mean()
    return float(a @ b) / math.sqrt(float(a @ a) * float(b @ b))


def _p_correlation(r: float, n: int) -> float:
    """Of two orders of which one is random: their correlation has the variance 1 / (n - 1)."""
    return _p_normal(r * math.sqrt(n - 1))


def _p_normal(z: float) -> float:
    return math.erfc(abs(z) / math.sqrt(2))


def _p_table(indices: np.ndarray, places: np.ndarray, samples: int) -> float:
    """Chi-square of a table of index by place, ten samples a field at the least."""
    k = min(16, math.isqrt(len(indices) // 10))
    rows = indices.astype(np.int64) * k // samples
    columns = (places * k).astype(np.int64)
    table = np.bincount(rows * k + columns, minlength=k * k).reshape(k, k)
    awaited = np.outer(table.sum(1), table.sum(0)) / len(indices)
    square = float(((table - awaited) ** 2 / awaited.clip(1e-9)).sum())
    freedom = (k - 1) ** 2
    spread = 2 / (9 * freedom)  # Wilson and Hilferty: the cube root is nearly normal
    z = ((square / freedom) ** (1 / 3) - (1 - spread)) / math.sqrt(spread)
    return math.erfc(z / math.sqrt(2)) / 2
