"""A job that is killed or stopped gives its cores to the others, which go on meanwhile."""

import math
import os
import signal
import time

import pytest
import ready

import seneca
from seneca import transforms as T
from seneca._runtime.cgroups import cores_allowed
from seneca._runtime.core_board import board_path
from seneca.testing import make_pictures

LONG_S = 300
CORES = math.ceil(cores_allowed().number)

TRAINS = """if True:
    import sys, seneca
    from seneca import transforms as T
    data = seneca.ImageFolder(sys.argv[1], T.Compose([T.RandomResizedCrop(160), T.ToTensor()]))
    loader = seneca.DataLoader(data, 4, shuffle=True, num_workers="auto", cache=None, persistent_workers=True)
    print("here", flush=True)
    while True:
        for batch in loader:
            pass
"""


def trains_until(loader, workers):
    """Train until so many threads prepare."""
    until = time.monotonic() + LONG_S
    while True:
        for _ in loader:
            if loader.stats()["workers"] == workers:
                return
            assert time.monotonic() < until, f"still {loader.stats()['workers']} workers"


@pytest.mark.skipif(CORES < 2, reason="one core is not divided")
@pytest.mark.small(1)
@pytest.mark.parametrize("name", [pytest.param("SIGKILL"), pytest.param("SIGSTOP")])
def test_the_others_have_its_cores(tmp_path, segment_folder, name):
    """The pictures are large, so that preparing takes nearly all of the time."""
    pictures = make_pictures(tmp_path / "pictures", count=200, classes=2, sides=(400, 500))
    data = seneca.ImageFolder(pictures, T.Compose([T.RandomResizedCrop(160), T.ToTensor()]))
    loader = seneca.DataLoader(data, 4, shuffle=True, num_workers="auto", cache=None, persistent_workers=True)
    trains_until(loader, CORES)
    other = ready.Script("-c", TRAINS, pictures)
    try:
        assert other.stdout.readline() == "here\n"
        trains_until(loader, CORES // 2)
        other.send_signal(getattr(signal, name))
        trains_until(loader, CORES)
    finally:
        other.kill()
        other.wait()
    del loader
    assert not os.path.exists(board_path())
