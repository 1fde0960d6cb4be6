"""The demo's processes: their events, how they ended, and that none outlives it."""

from __future__ import annotations

import os
import sys

import pytest

from seneca.cli.processes import Processes, ending

PATIENCE_S = 300  # what takes so long has hung, however loaded the machine is


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
