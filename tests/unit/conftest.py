"""Fixtures that several of the unit tests need."""

import gc
import os
import secrets

import pytest


@pytest.fixture
def name():
    """A cache of this test's own; nothing of it may be left."""
    name = "unit-" + secrets.token_hex(6)
    yield name
    if [entry for entry in os.listdir("/dev/shm") if name in entry]:
        gc.collect()  # what an error's traceback held
    assert not [entry for entry in os.listdir("/dev/shm") if name in entry]


@pytest.fixture
def alone(monkeypatch):
    """Nothing says that this process is one of several."""
    for variable in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID"):
        monkeypatch.delenv(variable, raising=False)
