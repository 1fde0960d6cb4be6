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

from seneca.audit.check import Report, Violation
from seneca.cli import demo
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
    """The names that the jobs of a demo have published."""
    try:
        view = find(f"demo-{process.pid}").view
    except FileNotFoundError:
        return []
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
    verified = summary["verified"]
    assert verified["holds"] and (verified["checked"]["1"], verified["samples"]) == (4, 192)
    assert 0 < summary["prepared"] <= summary["alone"] == 192
    assert summary["failed"] == [] and summary["per_s"] > 0
    assert [len(losses) for losses in summary["losses"]] == [2, 2]
    assert "independent jobs would have prepared 192" in out
    assert "1 each sample exactly once an epoch           yes, by 4 epochs" in out
    assert list((tmp_path / "scratch").glob("seneca-*")) == []
    assert left_in_shared_memory(process.pid) == []


@pytest.mark.whole_size(shown_by="test_two_jobs_share_and_each_gets_every_picture_once")
def test_ctrl_c_ends_all_jobs_with_one_line(picture_folder, tmp_path):
    process = start_demo("--data", picture_folder, "--epochs", "1000000", scratch=tmp_path / "scratch")
    deadline = time.monotonic() + PATIENCE_S
    while (names := names_of_jobs(process)) != ["job 0", "job 1"]:  # as `seneca top` shows them
        assert process.poll() is None and time.monotonic() < deadline, names
        time.sleep(0.05)
    children = [
        int(path.parent.name)
        for path in Path("/proc").glob("[0-9]*/stat")
        if path.read_text().rpartition(")")[2].split()[1] == str(process.pid)
    ]
    assert len(children) == 2
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
    deadline = time.monotonic() + PATIENCE_S
    while names_of_jobs(process) != ["job 0"]:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
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


@pytest.mark.whole_size(shown_by="test_two_jobs_share_and_each_gets_every_picture_once")
def test_a_job_that_dies_is_reported_and_the_others_go_on(picture_folder, tmp_path, monkeypatch, capfd):
    real = demo._command

    def command(options, data, number):
        dies = {1: "import os; os.kill(os.getpid(), 9)", 2: "raise SystemExit('out of luck')"}
        return python(dies[number]) if number in dies else real(options, data, number)

    monkeypatch.setattr(demo, "_command", command)
    summary_file = tmp_path / "summary.json"
    assert demo.run(demo.Options(data=picture_folder, jobs=3, epochs=2, batch=16, json=summary_file)) == 1
    out = capfd.readouterr().out
    assert "job 1 was killed by SIGKILL" in out and "job 2 ended with status 1: out of luck" in out
    summary = json.loads(summary_file.read_text())
    assert summary["verified"]["holds"] and summary["verified"]["checked"]["1"] == 2
    assert len(summary["failed"]) == 2
    assert left_in_shared_memory(os.getpid()) == []


def test_where_no_job_gets_a_sample_it_is_said_once_with_status_2(picture_folder, monkeypatch, capfd):
    no_room = "NoSpaceError: /dev/shm has 1.0 MiB free"
    monkeypatch.setattr(demo, "_command", lambda *_: python(f"raise SystemExit({no_room!r})"))
    assert demo.run(demo.Options(data=picture_folder, jobs=2)) == 2
    out, err = capfd.readouterr()
    assert err == f"seneca demo: no job got a sample: job 0 ended with status 1: {no_room}\n"
    assert "NoSpaceError" not in out and "prepared" not in out


def test_a_job_that_will_not_end_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "PATIENCE_S", 0.2)
    deaf = (
        "import signal, time; signal.signal(15, signal.SIG_IGN); print('ready', flush=True); time.sleep(600)"
    )
    with pytest.raises(KeyError), demo._started([python(deaf)], tmp_path) as (job,):
        raise KeyError
    assert job.returncode == -signal.SIGKILL


def test_a_broken_invariant_is_status_1(monkeypatch, capfd):
    outcomes = [
        {"began": 1.0, "ended": 4.0, "losses": [2.0, 1.0]},
        {"began": 2.0, "ended": 5.0, "losses": [3.0]},
    ]
    served = {"storage": 21, "encoded": 0, "recoded": 0, "decoded": 0, "augmented": 19}
    good = Report(jobs=2, samples=40, epochs=4, served=served)
    options = demo.Options(epochs=2)
    summary = demo.summarise(options, 10, outcomes, good)
    assert (summary["per_s"], summary["prepared"], summary["alone"]) == (10.0, 21, 40)
    monkeypatch.setattr(demo, "_train", lambda *_: (summary, good))
    assert demo.run(options) == 0
    out, _ = capfd.readouterr()
    assert "21; independent jobs would have prepared 40" in out and "2.00 to 1.00, 3.00 to 3.00" in out
    bad = Report(violations=[Violation(1, "missing", "0", 0, 0, [3], "sample 3 is missing")])
    monkeypatch.setattr(demo, "_train", lambda *_: (demo.summarise(options, 10, outcomes, bad), bad))
    assert demo.run(options) == 1
    assert "sample 3 is missing" in capfd.readouterr().out
