"""The command line: what it refuses, what the demo tells, and that it leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import seneca
from seneca.cli import demo, main
from seneca.cli.app import app
from seneca.cli.processes import Processes, ending
from seneca.cli.verdict import Verdict, exactly_once, judge, read_ids, write_ids
from seneca.cli.view import JobState, View, summary_lines

PATIENCE_S = 300  # what takes so long has hung, however loaded the machine is


def left_in_shared_memory(pid: int) -> list[Path]:
    return list(Path("/dev/shm").glob(f"seneca-*-demo-{pid}"))


# --- the verdict


@pytest.mark.parametrize(
    ("ids", "verdict"),
    [
        ([2, 0, 1], Verdict(epochs=1, ids=3)),
        ([2, 0], Verdict(epochs=1, ids=2, missing=1)),
        ([2, 0, 1, 0, 0], Verdict(epochs=1, ids=5, repeated=2)),
        ([0, 0, 2], Verdict(epochs=1, ids=3, missing=1, repeated=1)),
        ([0, 1, 2, 3], Verdict(epochs=1, ids=4, foreign=1)),
        ([], Verdict(epochs=1, missing=3)),
    ],
)
def test_an_epoch_is_judged_by_its_ids(ids, verdict):
    found = exactly_once(np.array(ids, dtype=np.uint32), samples=3)
    assert found == verdict
    assert found.good == (sorted(ids) == [0, 1, 2])


def test_nothing_checked_is_not_good():
    assert not Verdict().good


def test_ids_are_read_back_by_epoch_and_in_order(tmp_path):
    with open(tmp_path / "ids", "wb") as file:
        write_ids(file, 0, np.array([3, 1], dtype=np.uint32))
        write_ids(file, 0, np.array([2], dtype=np.uint32))
        write_ids(file, 1, np.array([7], dtype=np.uint32))
    assert {epoch: ids.tolist() for epoch, ids in read_ids(tmp_path / "ids").items()} == {
        0: [3, 1, 2],
        1: [7],
    }


def test_half_a_pair_of_a_killed_job_is_left_out(tmp_path):
    with open(tmp_path / "ids", "wb") as file:
        write_ids(file, 0, np.array([0, 1], dtype=np.uint32))
        file.write(b"\0\0\0")
    assert judge(tmp_path / "ids", samples=2, epochs=1).good
    assert read_ids(tmp_path / "never written") == {}


def test_each_epoch_has_to_be_whole_by_itself(tmp_path):
    with open(tmp_path / "ids", "wb") as file:
        write_ids(file, 0, np.array([0, 0], dtype=np.uint32))
        write_ids(file, 1, np.array([1, 1], dtype=np.uint32))
    found = judge(tmp_path / "ids", samples=2, epochs=3)
    assert found == Verdict(epochs=3, ids=4, missing=4, repeated=2)


# --- processes


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def events_of(processes: Processes, count: int) -> list[tuple[int, str]]:
    """All events until ``count`` processes have ended."""
    events = []
    while sum(what == "ended" for _, what in events) < count:
        event = processes.next(timeout_s=PATIENCE_S)
        assert event is not None
        events.append((event.process, event.what["event"]))
    return events


def test_what_is_no_event_is_passed_over(tmp_path):
    with Processes([python("""print('hello'); print('3'); print('{"event": "ready"}')""")], tmp_path) as one:
        assert events_of(one, 1) == [(0, "ready"), (0, "ended")]
        assert one.status(0) == 0


def test_how_a_process_died_is_told(tmp_path):
    commands = [python("raise ValueError('no luck')"), python("import os; os.kill(os.getpid(), 9)")]
    with Processes(commands, tmp_path) as two:
        events_of(two, 2)
        told = [ending(two.status(number), two.last_words(number)) for number in range(2)]
    assert told == ["ended with status 1: ValueError: no luck", "was killed by SIGKILL"]


def test_a_process_gets_what_it_is_told_and_a_dead_one_does_not_mind(tmp_path):
    code = """import json; print(json.dumps({"event": input()}), flush=True)"""
    with Processes([python(code), python("")], tmp_path) as two:
        while (event := two.next(timeout_s=PATIENCE_S)) is None or event.process != 1:
            pass
        two.tell(1, "hello")
        two.tell(0, "go")
        assert events_of(two, 1) == [(0, "go"), (0, "ended")]


def test_no_process_outlives_the_block_even_one_that_will_not_end(tmp_path, monkeypatch):
    monkeypatch.setattr("seneca.cli.processes.PATIENCE_S", 0.2)
    code = """if True:
        import json, os, signal, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print(json.dumps({"event": "ready", "pid": os.getpid()}), flush=True)
        time.sleep(600)"""
    with pytest.raises(KeyError), Processes([python(code)], tmp_path) as one:
        event = one.next(timeout_s=PATIENCE_S)
        raise KeyError
    with pytest.raises(ProcessLookupError):
        os.kill(event.what["pid"], 0)


# --- what is shown


def test_the_summary_says_what_independent_jobs_would_have_prepared():
    states = [
        JobState(0, 2, 10, delivered=20, prepared=12, began=1.0, ended=4.0),
        JobState(1, 2, 10, delivered=20, prepared=9, began=2.0, ended=5.0),
    ]
    summary = demo.summarise(demo.Options(), 10, states, Verdict(epochs=4, ids=40))
    assert (summary["per_s"], summary["prepared"], summary["alone"]) == (10.0, 21, 40)
    text = "\n".join(summary_lines(summary))
    assert "21; independent jobs would have prepared 40" in text
    assert "yes, by 40 ids in 4 epochs" in text


def test_the_summary_of_a_bad_verdict_says_what_was_wrong():
    states = [JobState(0, 3, 10, failure="was killed by SIGKILL")]
    summary = demo.summarise(
        demo.Options(jobs=1), 10, states, Verdict(epochs=1, ids=10, missing=2, repeated=2)
    )
    text = "\n".join(summary_lines(summary))
    assert "NO, by 10 ids in 1 epoch: 2 missing, 2 repeated, 0 not of the dataset" in text
    assert "job 0 was killed by SIGKILL" in text
    nothing = demo.summarise(demo.Options(jobs=1), 10, states, Verdict())
    assert "unknown: no job finished an epoch" in summary_lines(nothing)[-1]


def test_a_terminal_gets_a_table_with_a_row_a_job():
    console = Console(force_terminal=True, width=100, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    states = [JobState(number, 2, 100) for number in range(2)]
    view = View(console, states)
    with view.shown():
        states[0].hear({"event": "progress", "epoch": 1, "delivered": 50, "per_s": 1234.5, "loss": 0.5})
        view.changed(states[0], "progress")
        states[1].hear({"event": "done", "stats": {"served": {"storage": 1, "augmented": 3}, "prepared": 1}})
        view.changed(states[1], "done")
    text = console.export_text()
    assert "1 of 2" in text and "25%" in text and "1,234" in text and "0.50" in text
    assert "storage 25%, augmented 75%" in text


# --- the command line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "/nowhere"], "no such folder: /nowhere"),
        (["--jobs", "0"], "--jobs must be at least 1, not 0"),
        (["--epochs", "0"], "--epochs must be at least 1, not 0"),
        (["--batch", "-3"], "--batch must be at least 1, not -3"),
        (["--workers", "-1"], "--workers must be at least 0, not -1"),
        (["--json", "/nowhere/summary.json"], "--json cannot be written there: /nowhere/summary.json"),
    ],
)
def test_a_bad_option_is_one_line_and_status_2(arguments, message):
    result = CliRunner().invoke(app, ["demo", *arguments])
    assert (result.exit_code, result.stderr, result.stdout) == (2, f"seneca demo: {message}\n", "")


def test_a_folder_without_pictures_is_one_line_and_status_2(tmp_path, capfd):
    assert demo.run(demo.Options(data=tmp_path)) == 2
    assert capfd.readouterr().err.startswith("seneca demo: no pictures to train on: ")


def test_where_seneca_is_off_the_demo_says_so(monkeypatch):
    monkeypatch.setenv("SENECA_DISABLE", "1")
    result = CliRunner().invoke(app, ["demo"])
    assert result.exit_code == 2
    assert result.stderr == "seneca demo: nothing is shared here: SENECA_DISABLE is set\n"


def test_the_version():
    assert CliRunner().invoke(app, ["--version"]).stdout == f"seneca {seneca.__version__}\n"


@pytest.mark.parametrize("name", ["typer", "rich"])
def test_without_the_extra_it_says_what_to_install(name, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    assert capsys.readouterr().err == f"seneca: this command needs {name}; pip install 'seneca-loader[cli]'\n"


def test_the_command_line_starts_without_torch():
    code = "import sys, seneca.cli.app, seneca.cli.demo; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# --- the demo


def start_demo(*arguments: str | Path, scratch: Path) -> subprocess.Popen[str]:
    scratch.mkdir()
    return subprocess.Popen(
        [sys.executable, "-m", "seneca.cli", "demo", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(scratch), "PYTHONUNBUFFERED": "1"},
    )


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


def test_a_bad_verdict_is_status_1(monkeypatch, capfd):
    states = [JobState(0, 1, 10, delivered=10, began=0.0, ended=1.0)]
    bad = demo.summarise(demo.Options(), 10, states, Verdict(epochs=1, ids=10, missing=1, repeated=1))
    monkeypatch.setattr(demo, "_train", lambda *_: bad)
    assert demo.run(demo.Options()) == 1
    good = demo.summarise(demo.Options(), 10, states, Verdict(epochs=1, ids=10))
    monkeypatch.setattr(demo, "_train", lambda *_: good)
    assert demo.run(demo.Options()) == 0
