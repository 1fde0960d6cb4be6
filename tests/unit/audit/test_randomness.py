"""Neighbours that come by chance."""

from __future__ import annotations

import numpy as np

from seneca.audit.randomness import Orders


def test_neighbours_by_chance_are_as_many_as_they_should_be():
    """Of permutations; the mean tells, and what a test gives for it is no rarer than it is."""
    rng = np.random.default_rng(0)
    orders = Orders(300)
    places = (np.arange(300) + 0.5) / 300
    counts, least = [], 1.0
    for turn in range(400):
        for test in orders.judge(turn, rng.permutation(300), places):
            least = min(least, test.p)
            if "pairs are neighbours" in test.what:
                counts.append(int(test.what.split()[0]))
    assert len(counts) == 399 and abs(np.mean(counts) - 2 * (1 - 1 / 300)) < 4 * np.sqrt(2 / 399)
    assert least > 1e-6
