"""The benchmarks' C programs, compiled in a third of the time: how fast they are is not what is tested."""

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def quickly_compiled() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SENECA_CFLAGS", os.environ.get("SENECA_CFLAGS", "") + " -O0")
        yield
