"""Fixtures of the stress tests."""

import os
import secrets

import numpy as np
import pytest
import simplejpeg
from job_processes import Host


@pytest.fixture
def host(tmp_path):
    host = Host(tmp_path)
    yield host
    host.close()


@pytest.fixture
def seed(request):
    """Of a random test: SENECA_TEST_SEED, or a fresh one that a failure prints."""
    seed = int(os.environ.get("SENECA_TEST_SEED") or secrets.randbits(32))
    print(f"SENECA_TEST_SEED={seed}")
    return seed


@pytest.fixture(scope="session")
def small_pictures(tmp_path_factory):
    """300 small JPEGs in three classes: noise, so that no two are alike."""
    folder = tmp_path_factory.mktemp("small")
    rng = np.random.default_rng(7)
    for i in range(300):
        pixels = rng.integers(0, 256, (int(rng.integers(24, 64)), int(rng.integers(24, 64)), 3), np.uint8)
        path = folder / f"class{i % 3}" / f"{i}.jpg"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(simplejpeg.encode_jpeg(pixels, 80))
    return folder
