"""What is done when an object is collected or its process ends, once and in order."""

import subprocess
import sys
import textwrap

import pytest

from seneca._runtime import finalizers
from seneca._runtime.finalizers import FIRST, LAST, PATIENCE_S, finalize


class Thing:
    pass


def test_it_is_called_once_when_the_thing_is_gone():
    called = []
    thing = Thing()
    finalizer = finalize(thing, called.append, 1, order=FIRST)
    del thing
    assert called == [1]
    finalizer()
    assert called == [1]


def test_it_can_be_called_at_once():
    called = []
    thing = Thing()
    finalize(thing, called.append, 1, order=LAST)()
    del thing
    assert called == [1]


ENDS = """
import multiprocessing, sys
import pytest

from seneca._runtime import finalizers
from seneca._runtime.finalizers import FIRST, LAST, PATIENCE_S, finalize

class Thing:
    pass

def end():
    for order, name in ((LAST, "cache"), (FIRST, "reader"), (FIRST, "second reader")):
        kept.append(Thing())
        finalize(kept[-1], lambda name: print(name, flush=True), name, order=order)

kept = []
if sys.argv[1] == "worker":
    process = multiprocessing.get_context("fork").Process(target=end)
    process.start()
    process.join()
else:
    end()
"""


def test_at_the_end_of_any_process_readers_end_before_the_cache(tmp_path):
    (tmp_path / "ends.py").write_text(textwrap.dedent(ENDS))
    for which in ("worker", "main"):
        run = subprocess.run([sys.executable, tmp_path / "ends.py", which], capture_output=True, text=True)
        assert run.stdout.split("\n") == ["second reader", "reader", "cache", ""], (which, run.stderr)


DAEMONS = """
import sys, threading, time, weakref
from seneca._runtime.finalizers import FIRST, finalize, shielded

class Thing:
    pass

def work():
    with shielded:
        begun.set()
        with shielded:  # a loader's epoch joins a cache
            time.sleep(0.3)
        print("completed", flush=True)
    print("went on", flush=True)

def come_late():
    begun.wait()
    while not closed.is_set():
        time.sleep(0.01)
    with shielded:
        print("came in", flush=True)

def close():
    print("closed", flush=True)
    closed.set()
    time.sleep(0.1)

begun, closed, thing = threading.Event(), threading.Event(), Thing()
finalize(thing, close, order=FIRST)
for function in (work, come_late):
    threading.Thread(target=function, daemon=True).start()
begun.wait()
"""


def test_the_end_waits_for_what_a_daemon_thread_has_begun_and_lets_it_begin_no_more(tmp_path):
    (tmp_path / "daemons.py").write_text(DAEMONS)
    run = subprocess.run([sys.executable, tmp_path / "daemons.py"], capture_output=True, text=True)
    assert (run.stdout.split("\n"), run.stderr) == (["completed", "closed", ""], "")


def test_the_end_does_not_wait_for_ever(tmp_path):
    (tmp_path / "daemons.py").write_text(DAEMONS.replace("time.sleep(0.3)", "time.sleep(1000)"))
    run = subprocess.run([sys.executable, tmp_path / "daemons.py"], capture_output=True, text=True)
    assert (run.stdout.split("\n"), run.stderr) == (["closed", ""], "")


class Clock:
    now = 0.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


def test_the_two_ends_of_a_process_wait_no_longer_than_one(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(finalizers, "time", clock)
    shield = finalizers._Shield()
    shield._inside[-1] = 1  # a thread that hangs
    shield.end()  # as atexit calls it
    shield.end()  # as multiprocessing does
    assert clock.now == pytest.approx(PATIENCE_S, abs=0.01)


FORKS = """
import os
from seneca._runtime.finalizers import shielded

with shielded:
    child = os.fork()
    if child == 0:
        assert not shielded._inside
if child:
    os.waitpid(child, 0)  # the two would write at once
assert not shielded._inside
print("out", flush=True)
"""


def test_a_process_that_is_forked_within_is_outside(tmp_path):
    (tmp_path / "forks.py").write_text(FORKS)
    run = subprocess.run([sys.executable, tmp_path / "forks.py"], capture_output=True, text=True)
    assert (run.stdout, run.stderr) == ("out\nout\n", "")


FORKS_IN_DAEMON = """
import multiprocessing, threading
from seneca._runtime.finalizers import FIRST, finalize, shielded

class Thing:
    pass

def close():
    with shielded:
        print("closed", flush=True)

def child():
    kept.append(Thing())
    finalize(kept[-1], close, order=FIRST)

def fork():
    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join(30)
    print(process.exitcode, flush=True)
    process.kill()

kept = []
thread = threading.Thread(target=fork, daemon=True)
thread.start()
thread.join()
"""


def test_a_process_that_a_daemon_thread_forks_ends(tmp_path):
    (tmp_path / "forks.py").write_text(FORKS_IN_DAEMON)
    run = subprocess.run([sys.executable, tmp_path / "forks.py"], capture_output=True, text=True)
    assert (run.stdout, run.stderr) == ("closed\n0\n", "")
