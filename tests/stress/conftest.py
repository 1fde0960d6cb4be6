"""Fixtures of the stress tests."""

import ctypes
import os
import secrets
import time
from pathlib import Path

import numpy as np
import pytest
import simplejpeg
import torch
from job_processes import Host
from sizes import size

PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
CHECK_EVERY_S = size(0.5, 5.0)  # which is torch's own
EXITED = os.WEXITED | os.WNOHANG | os.WNOWAIT


@pytest.fixture
def host(tmp_path):
    host = Host(tmp_path)
    yield host
    host.close()


class Children:
    """The processes that this one has begun, and those that they have left behind."""

    def find(self):
        pids = set()
        for thread in Path("/proc/self/task").iterdir():
            pids |= set(map(int, (thread / "children").read_text().split()))
        return {pid for pid in pids if os.waitid(os.P_PID, pid, EXITED) is None}

    def assert_leave(self, before):
        """The workers of what was killed leave, too."""
        deadline = time.monotonic() + 60
        while left := self.find() - before:
            assert time.monotonic() < deadline, left
            time.sleep(0.02)


@pytest.fixture
def children(monkeypatch):
    """The children of this process. At the small size torch's workers look often for their job."""
    monkeypatch.setattr(torch.utils.data._utils.worker, "MP_STATUS_CHECK_INTERVAL", CHECK_EVERY_S)
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    yield Children()
    assert libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) == 0


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
