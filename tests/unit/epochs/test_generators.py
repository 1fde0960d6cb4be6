"""Generators of random numbers are held still while a sample is made for a comparison."""

import random

import numpy as np
import pytest
import torch

from seneca.epochs.generators import drawing, fixed_generators

DRAWS = {"python": random.random, "numpy": np.random.random, "torch": lambda: torch.rand(()).item()}


def drawn():
    return [draw() for draw in DRAWS.values()]


@pytest.mark.parametrize("draw", DRAWS)
def test_a_draw_is_noticed_and_undone(draw):
    with drawing() as drew:
        assert not drew()
        first = DRAWS[draw]()
        assert drew()
    assert DRAWS[draw]() == first


def test_a_seed_makes_the_same_numbers_and_leaves_nothing():
    with drawing() as drew:
        with fixed_generators(2**40 + 3):
            first = drawn()
        assert not drew()
        with pytest.raises(ValueError), fixed_generators(2**40 + 3):
            assert drawn() == first
            raise ValueError
        assert not drew()
