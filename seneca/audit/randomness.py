"""Tests whether orders are random. A random order fails a test of probability p once in 1 / p times."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

__all__ = ["LEAST_SAMPLES", "Orders", "Test"]

LEAST_SAMPLES = 200  # samples: shorter orders cannot be judged
PULL = 12  # one sample out of turn may add PULL / n to the correlation of two orders of n samples


class Test(NamedTuple):
    """The result of one test.

    Attributes:
        p: How probable it is that a random order resembles this one.
        what: What is wrong with the order if it is not random.
    """

    p: float
    what: str


class Orders:
    """Judges the epochs of one loader, one after the other.

    Args:
        samples: The length of its dataset.

    Attributes:
        uncompared: Epochs that were not compared by place with the epoch before.
    """

    def __init__(self, samples: int) -> None:
        self._samples = samples
        self._before: _Order | None = None
        self._sum = np.zeros(0)  # sums of the scores by sample, over epochs wholly in turn
        self._epochs = 0
        self.uncompared = 0

    def judge(
        self, turn: int, indices: np.ndarray, places: np.ndarray, out_of_turn: int = 0
    ) -> Iterator[Test]:
        """Test one epoch by itself, and beside the epoch before.

        Jobs of equal pace that begin apart and share each copy get much the same samples at the beginning of
        consecutive epochs. More of these samples are then neighbours again. See "What sharing costs in
        randomness" in csrc/README.md. Therefore two epochs are compared with an allowance for samples that
        came out of turn.

        Args:
            turn: The number of the epoch in the loader's process.
            indices: The indices of its samples, as delivered, one rank after the other.
            places: When in the epoch each sample came, from 0 to 1.
            out_of_turn: How many samples came out of turn: as copies that another job made, early because
                another job needs them, or late because another job was preparing them.
        """
        known = indices < self._samples
        indices, places = indices[known], places[known]
        n = len(indices)
        yield Test(_p_correlation(_correlation(indices, places), n), "a sample's place goes with its index")
        yield Test(_p_table(indices, places, self._samples), "places are not uniform")
        neighbours = _correlation(indices[:-1], indices[1:]) + 1 / n
        yield Test(_p_correlation(neighbours, n), "samples come next to those of like index")
        now = _Order(self._samples, turn, indices, places, out_of_turn)
        before, self._before = self._before, now
        if before is not None and before.turn == turn - 1:
            pull = PULL * (out_of_turn + before.out_of_turn) / n
            if pull < 1:
                r = max(0.0, abs(float(now.scores @ before.scores)) / n - pull)
                yield Test(_p_correlation(r, n), "the order goes with that of the epoch before")
            else:
                self.uncompared += 1
            yield now.neighbours_of(before)
        if not out_of_turn:
            self._sum = self._sum + now.scores if self._epochs else now.scores
            self._epochs += 1

    def judge_all(self) -> Iterator[Test]:
        """Test all epochs together: whether some samples come early in most of them (Kendall's concordance).

        Epochs with samples out of turn are left out.
        """
        if self._epochs > 2:
            pairs = self._epochs * (self._epochs - 1) / 2
            correlations = (float(self._sum @ self._sum) / self._samples - self._epochs) / 2
            z = correlations / math.sqrt(pairs / (self._samples - 1))
            yield Test(_p_normal(z), f"some samples come early in most of {self._epochs} epochs")


class _Order:
    """A summary of one epoch, for the comparison with the next."""

    def __init__(
        self, samples: int, turn: int, indices: np.ndarray, places: np.ndarray, out_of_turn: int
    ) -> None:
        self.turn, self.out_of_turn = turn, out_of_turn
        self.scores = np.zeros(samples)  # places of mean 0 and variance 1
        self.scores[indices] = (places - places.mean()) / places.std()
        same_rank = places[1:] > places[:-1]
        ranks = np.concatenate([[0], np.cumsum(~same_rank)])
        self._at = np.full(samples, -1)  # with a gap between ranks, whose samples are no neighbours
        self._at[indices] = np.arange(len(indices)) + ranks
        self._pairs = np.stack([indices[:-1], indices[1:]])[:, same_rank]

    def neighbours_of(self, before: _Order) -> Test:
        """Test whether too many samples are neighbours in this epoch and in the one before.

        In two random orders of n samples, the number of common neighbours is nearly Poisson's, with the mean
        2 (1 - 1 / n). Its tail is lighter. Each sample out of turn has two neighbours in
        an epoch; these are allowed.
        """
        at = before._at[self._pairs]
        neighbours = int((np.abs(at[0] - at[1])[(at >= 0).all(0)] == 1).sum())
        n = len(self.scores)
        mean = self._pairs.shape[1] * before._pairs.shape[1] * 2 / (n * (n - 1))
        beyond = neighbours - 2 * (self.out_of_turn + before.out_of_turn)
        return Test(_p_poisson(beyond, mean), f"{neighbours:,} pairs are neighbours as in the epoch before")


def _correlation(a: np.ndarray, b: np.ndarray) -> float:
    a, b = a - a.mean(), b - b.mean()
    return float(a @ b) / math.sqrt(float(a @ a) * float(b @ b))


def _p_correlation(r: float, n: int) -> float:
    """The probability of a correlation r of two orders. If one is random, r has the variance 1 / (n - 1)."""
    return _p_normal(r * math.sqrt(n - 1))


def _p_normal(z: float) -> float:
    return math.erfc(abs(z) / math.sqrt(2))


def _p_poisson(count: int, mean: float) -> float:
    """The most that the probability of so many or more can be (Chernoff's bound)."""
    return 1.0 if count <= mean else math.exp(count - mean - count * math.log(count / mean))


def _p_table(indices: np.ndarray, places: np.ndarray, samples: int) -> float:
    """The probability of a table of index by place, by chi-square. A field expects at least ten samples."""
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
