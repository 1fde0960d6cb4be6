"""Several processes of one training run, as torchrun starts them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torchvision_here  # noqa: F401  # before the frameworks import it for themselves

HERE = Path(__file__).parent
TIME_OUT_S = 300


def environment():
    path = [str(HERE.parents[1]), str(HERE.parent), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path), "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory):
    """Runs a program of this folder in two processes; answers with what each has written, by rank."""

    def run(program: str):
        folder = tmp_path_factory.mktemp("ranks")
        launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
        done = subprocess.run(
            [*launch, str(HERE / program), str(folder)],
            env=environment(),
            capture_output=True,
            text=True,
            timeout=TIME_OUT_S,
        )
        assert done.returncode == 0, done.stderr[-6000:]
        return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]

    return run


class AnotherJob:
    """A job in a process of its own, under way: it wants what is made from now on."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "another_job.py"), *arguments],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        said = self.process.stdout.readline()
        assert said == "under way\n", said

    def finish(self):
        """The samples that it was given, and how many from which form."""
        out, _ = self.process.communicate("go on\n", timeout=TIME_OUT_S)
        assert self.process.returncode == 0
        return json.loads(out)


@pytest.fixture(scope="module")
def another_job():
    """Starts one: ``another_job("points")``."""
    started = []

    def start(*arguments):
        started.append(AnotherJob(*arguments))
        return started[-1]

    yield start
    for job in started:
        job.process.kill()  # nothing, where it has ended
        job.process.communicate()
