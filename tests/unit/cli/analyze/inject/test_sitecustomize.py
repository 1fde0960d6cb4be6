"""Python finds the hooks as it starts, and the environment's own ``sitecustomize`` runs too."""

import os
import subprocess
import sys
from pathlib import Path

import seneca.cli.analyze.inject


def run(tmp_path, code, *paths):
    folder = os.path.dirname(seneca.cli.analyze.inject.__file__)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([folder, *map(str, paths)]),
        "SENECA_ANALYZE_TRACE": str(tmp_path),
    }
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)


def test_the_own_one_runs_and_keeps_its_name(tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own/sitecustomize.py").write_text("mine = 7\nprint('own', __name__)\n")
    ran = run(tmp_path, "import sitecustomize; print(sitecustomize.mine)", tmp_path / "own")
    assert (ran.stdout, ran.stderr) == ("own sitecustomize\n7\n", "")


def test_without_one_nothing_is_said_and_the_place_is_given_back(tmp_path):
    ran = run(tmp_path, "import sys; print(any('inject' in path for path in sys.path))")
    assert (ran.stdout, ran.stderr) == ("False\n", "")
    (trace,) = tmp_path.glob("*.jsonl")
    assert '"what": "python"' in Path(trace).read_text()
