"""Fixtures of the tests of epochs."""

import os
import secrets

import numpy as np
import pytest
import torch


@pytest.fixture
def seed():
    """Of torch's random numbers: SENECA_TEST_SEED, or a fresh one that a failure prints."""
    seed = int(os.environ.get("SENECA_TEST_SEED") or secrets.randbits(32))
    print(f"SENECA_TEST_SEED={seed}")
    torch.manual_seed(seed)
    return np.random.default_rng(seed)
