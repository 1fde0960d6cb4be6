"""A job that is killed or stopped gives its cores to the others, which go on meanwhile."""

import math
import os
import signal

import pytest
import ready
from sizes import size

from seneca._runtime.cgroups import cores_allowed
from seneca.testing import make_pictures
from seneca.tuning.core_table import core_table_path

CORES = math.ceil(cores_allowed().number)

# Each job finds its share anew so often. Until both have what they should, they use all cores.
SAMPLE_EVERY_S = size(0.25, 2.0)

# Both jobs are alike, and so are their shares. The pictures are large: to prepare them takes nearly all time.
TRAINS = """if True:
    import sys, time
    import seneca
    from seneca import transforms as T
    from seneca.tuning import cores
    cores.SAMPLE_EVERY_S = float(sys.argv[2])
    data = seneca.ImageFolder(sys.argv[1], T.Compose([T.RandomResizedCrop(160), T.ToTensor()]))
    loader = seneca.DataLoader(data, 4, shuffle=True, num_workers="auto", cache=None, persistent_workers=True)
    until, said = time.monotonic() + 300, None
    while time.monotonic() < until:
        for batch in loader:
            if (threads := loader.stats()["workers"]) != said:
                said = threads
                print(said, flush=True)
    sys.exit("it has trained for so long that the other test has failed")
"""


def has_threads(job, number):
    """Wait until so many threads of a job prepare."""
    while (line := job.stdout.readline()) != f"{number}\n":
        assert line, f"the job has ended: {job.communicate()}"


@pytest.mark.skipif(CORES < 2, reason="one core is not divided")
@pytest.mark.small(1)
@pytest.mark.parametrize("name", [pytest.param("SIGKILL"), pytest.param("SIGSTOP")])
def test_the_others_have_its_cores(tmp_path, segment_folder, name):
    pictures = make_pictures(tmp_path / "pictures", count=200, classes=2, sides=(400, 500))
    job = ready.Script("-c", TRAINS, pictures, str(SAMPLE_EVERY_S))
    jobs = [job]
    try:
        has_threads(job, CORES)
        jobs.append(other := ready.Script("-c", TRAINS, pictures, str(SAMPLE_EVERY_S)))
        has_threads(other, CORES // 2)
        has_threads(job, CORES // 2)
        assert other.poll() is None, f"the job has ended: {other.communicate()}"
        other.send_signal(getattr(signal, name))
        has_threads(job, CORES)
        other.kill()
        other.wait()
        job.send_signal(signal.SIGINT)
        job.wait()
        assert not os.path.exists(core_table_path()), "the last that leaves removes the table"
    finally:
        for each in jobs:
            each.kill()
            each.wait()
