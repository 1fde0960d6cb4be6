"""The examples in docstrings run, and print what they say; those in examples/ run, and share."""

import ast
import doctest
import importlib
import os
import re
import runpy
import shutil
import sys
import threading
from pathlib import Path

import pytest
import ready
import torch

from seneca.testing import make_sounds

ROOT = Path(__file__).parents[2]
MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted((ROOT / "seneca").rglob("*.py"))
    if ">>> " in path.read_text()
]
SCRIPTS = sorted(path.name for path in (ROOT / "examples").glob("*.py"))


@pytest.mark.small(15)
@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of(name):
    module = importlib.import_module(name)
    assert doctest.testmod(module, optionflags=doctest.ELLIPSIS).failed == 0


def run(script, *arguments):
    """What an example prints."""
    run = ready.run(ROOT / "examples" / script, *arguments, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert run.returncode == 0, run.stderr
    return run.stdout


def served(printed):
    """Of each job, samples by the form they came from."""
    return [ast.literal_eval(found) for found in re.findall(r"served (\{.*?\})", printed)]


@pytest.mark.whole_size(shown_by="test_the_example_of_two_terminals_trains")
@pytest.mark.small(1)
@pytest.mark.parametrize("script", [name for name in SCRIPTS if name != "two_jobs.py"])
def test_two_jobs_of_an_example_share(script):
    printed = run(script)
    jobs = served(printed)
    assert len(jobs) == 2 and len({sum(job.values()) for job in jobs}) == 1
    assert sum(job["augmented"] for job in jobs) > 0
    assert printed.count("; may be shared in the cache '") == 2
    if script == "spoken_digits.py":
        right = [int(found) for found in re.findall(r"(\d+)% right", printed)]
        assert len(right) == 12 and min(right[-2:]) > 90, printed  # of ten classes


def test_the_example_of_two_terminals_trains(picture_folder):
    printed = run("two_jobs.py", picture_folder)
    assert re.findall(r"epoch (\d)", printed) == ["1", "2", "3"]
    assert "\ndelivered             144\n" in printed


def test_spoken_digits_come_from_a_folder_or_an_archive(tmp_path, monkeypatch, capsys):
    make_sounds(tmp_path / "digits", count=20, classes=2, seconds=(0.2, 0.3))
    archive = shutil.make_archive(tmp_path / "digits", "tar", tmp_path, "digits")

    def start(learn, arguments, **options):
        monkeypatch.setitem(learn.__globals__, "EPOCHS", 1)
        learn(0, arguments[0], threading.Barrier(1))

    # Instead of the jobs, which the test above has seen at work.
    monkeypatch.setattr(torch.multiprocessing, "start_processes", start)
    for place, dataset in ((tmp_path / "digits", "SoundFolder"), (archive, "SoundArchive")):
        monkeypatch.setattr(sys, "argv", ["spoken_digits.py", str(place)])
        runpy.run_path(str(ROOT / "examples" / "spoken_digits.py"), run_name="__main__")
        printed = capsys.readouterr().out
        assert f"native: {dataset} and its transform run in the native core; may be shared in" in printed
        assert re.search(r"job 0, epoch 1: loss \d+\.\d\d, \d+% right", printed)
        assert sum(served(printed)[0].values()) == 20


def test_the_readme_names_every_example():
    readme = (ROOT / "README.md").read_text()
    assert [name for name in SCRIPTS if f"examples/{name}" not in readme] == []
