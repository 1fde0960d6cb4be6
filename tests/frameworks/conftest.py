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


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory):
    """Runs a program of this folder in two processes; answers with what each has written, by rank."""

    def run(program: str):
        folder = tmp_path_factory.mktemp("ranks")
        path = [str(HERE.parents[1]), str(HERE.parent), os.environ.get("PYTHONPATH", "")]
        launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
        done = subprocess.run(
            [*launch, str(HERE / program), str(folder)],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(path),
                "OMP_NUM_THREADS": "1",
                "CUDA_VISIBLE_DEVICES": "",
            },
            capture_output=True,
            text=True,
            timeout=TIME_OUT_S,
        )
        assert done.returncode == 0, done.stderr[-6000:]
        return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]

    return run
