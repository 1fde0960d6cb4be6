"""Fixtures that several of the unit tests need."""

import pytest


@pytest.fixture
def alone(monkeypatch):
    """Nothing says that this process is one of several."""
    for variable in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID"):
        monkeypatch.delenv(variable, raising=False)
