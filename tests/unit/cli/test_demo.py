"""The demo: jobs share, and nothing is left behind however it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from seneca.cli import demo
from seneca.cli.verdict import Verdict
from seneca.cli.view import JobState
from seneca.segments import find

PATIENCE_S = 300  # what takes so long has hung, however loaded the machine is


def left_in_shared_memory(pid: int) -> list[Path]:
    return list(Path("/dev/shm").glob(f"seneca-*-demo-{pid}"))


# --- processes


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


# --- the demo


started: list[subprocess.Popen[str]] = []


@pytest.fixture(autouse=True)
def demos_end() -> Iterator[None]:
    """A demo does not outlive a test that fails, and its jobs do not outlive it."""
    yield
    while started:
        with started.pop() as process:
            process.kill()


def start_demo(*arguments: str | Path, scratch: Path) -> subprocess.Popen[str]:
    scratch.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "seneca.cli", "demo", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(scratch), "PYTHONUNBUFFERED": "1"},
    )
    started.append(process)
    return process


def names_of_jobs(process: subprocess.Popen[str]) -> list[str]:
    """The names that the jobs of a demo have told."""
    view = find(f"demo-{process.pid}").view
    return sorted(each.name for job in view.jobs for each in job.work) if view is not None else []


def test_two_jobs_share_and_each_gets_every_picture_once(picture_folder, tmp_path):
    process = start_demo(
        *("--data", picture_folder, "--jobs", "2", "--epochs", "2", "--batch", "10"),
        *("--json", tmp_path / "summary.json"),
        scratch=tmp_path / "scratch",
    )
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, err) == (0, ""), out + err
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["exactly_once"] and (summary["epochs_checked"], summary["ids_checked"]) == (4, 192)
    assert 0 < summary["prepared"] <= summary["alone"] == 192
    assert summary["failed"] == [] and summary["per_s"] > 0
    assert "job 1: epoch 2 of 2 done" in out and "each picture once a job's epoch yes" in out
    assert list((tmp_path / "scratch").glob("seneca-*")) == []
    assert left_in_shared_memory(process.pid) == []


@pytest.mark.whole_size(shown_by="test_two_jobs_share_and_each_gets_every_picture_once")
def test_ctrl_c_ends_all_jobs_with_one_line(picture_folder, tmp_path):
    process = start_demo("--data", picture_folder, "--epochs", "1000000", scratch=tmp_path / "scratch")
    assert process.stdout is not None
    while "job" not in (line := process.stdout.readline()):  # both have begun: they begin together
        assert line, process.communicate()
    children = [
        int(path.parent.name)
        for path in Path("/proc").glob("[0-9]*/stat")
        if path.read_text().rpartition(")")[2].split()[1] == str(process.pid)
    ]
    assert len(children) == 2
    deadline = time.monotonic() + PATIENCE_S
    while (names := names_of_jobs(process)) != ["job 0", "job 1"]:  # as `seneca top` shows them
        assert process.poll() is None and time.monotonic() < deadline, names
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, err) == (130, "seneca demo: interrupted; all jobs have ended\n")
    assert not [pid for pid in children if Path(f"/proc/{pid}").exists()]
    assert list((tmp_path / "scratch").glob("seneca-*")) == []
    assert left_in_shared_memory(process.pid) == []


def test_a_job_ends_by_itself_when_the_demo_is_killed(picture_folder, tmp_path):
    process = start_demo(
        *("--data", picture_folder, "--jobs", "1", "--epochs", "1000000"), scratch=tmp_path / "scratch"
    )
    assert process.stdout is not None
    while "job" not in (line := process.stdout.readline()):
        assert line, process.communicate()
    children = [
        path.parent
        for path in Path("/proc").glob("[0-9]*/stat")
        if path.read_text().rpartition(")")[2].split()[1] == str(process.pid)
    ]
    assert len(children) == 1
    process.kill()
    process.communicate()
    deadline = time.monotonic() + PATIENCE_S
    while any(child.exists() for child in children):
        assert time.monotonic() < deadline, "the job goes on"
        time.sleep(0.05)


def test_a_job_that_dies_is_reported_and_the_others_go_on(picture_folder, tmp_path, monkeypatch, capfd):
    real = demo._command

    def command(options, data, scratch, number):
        dies = {1: "import os; os.kill(os.getpid(), 9)", 2: "raise SystemExit('out of luck')"}
        return python(dies[number]) if number in dies else real(options, data, scratch, number)

    monkeypatch.setattr(demo, "_command", command)
    summary_file = tmp_path / "summary.json"
    assert demo.run(demo.Options(data=picture_folder, jobs=3, epochs=2, batch=16, json=summary_file)) == 1
    out = capfd.readouterr().out
    assert "job 1 was killed by SIGKILL" in out and "job 2 ended with status 1: out of luck" in out
    summary = json.loads(summary_file.read_text())
    assert summary["exactly_once"] and summary["epochs_checked"] == 2
    assert len(summary["failed"]) == 2
    assert left_in_shared_memory(os.getpid()) == []


def test_where_no_job_gets_a_sample_it_is_said_once_with_status_2(picture_folder, monkeypatch, capfd):
    no_room = "NoSpaceError: /dev/shm has 1.0 MiB free"
    monkeypatch.setattr(demo, "_command", lambda *_: python(f"raise SystemExit({no_room!r})"))
    assert demo.run(demo.Options(data=picture_folder, jobs=2)) == 2
    out, err = capfd.readouterr()
    assert err == f"seneca demo: no job got a sample: job 0 ended with status 1: {no_room}\n"
    assert "NoSpaceError" not in out and "prepared" not in out


def test_a_bad_verdict_is_status_1(monkeypatch, capfd):
    states = [JobState(0, 1, 10, delivered=10, began=0.0, ended=1.0)]
    bad = demo.summarise(demo.Options(), 10, states, Verdict(epochs=1, ids=10, missing=1, repeated=1))
    monkeypatch.setattr(demo, "_train", lambda *_: bad)
    assert demo.run(demo.Options()) == 1
    good = demo.summarise(demo.Options(), 10, states, Verdict(epochs=1, ids=10))
    monkeypatch.setattr(demo, "_train", lambda *_: good)
    assert demo.run(demo.Options()) == 0
