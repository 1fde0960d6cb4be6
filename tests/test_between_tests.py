"""A test leaves nothing to the next: no processes, no signals of theirs, no levels of loggers."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from between_tests import end_children

HERE = Path(__file__).parent

# The first test keeps an iterator, one of whose workers dies when the test is over.
TESTS = """
import logging, os, signal, time
from torch.utils.data import DataLoader

kept = []

def dies_later(worker):
    if worker == 1:
        signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        signal.signal(signal.SIGUSR2, lambda *_: signal.setitimer(signal.ITIMER_REAL, 0.3))

def test_that_leaves_a_worker():
    kept.append(iter(DataLoader(range(10**6), num_workers=2, worker_init_fn=dies_later)))
    next(kept[0]), next(kept[0])  # one of each worker: both have begun
    signal.signal(signal.SIGUSR1, lambda *_: None)
    logging.getLogger("seneca.epochs").setLevel(logging.INFO)
    os.kill(kept[0]._workers[1].pid, signal.SIGUSR2)

def test_that_comes_next():
    until = time.monotonic() + 60
    while kept[0]._workers[1].is_alive():
        assert time.monotonic() < until
        time.sleep(0.01)
    assert signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL
    assert logging.getLogger("seneca.epochs").level == logging.NOTSET
"""


INTERRUPTED = """
import resource, signal, subprocess, sys
import pytest

@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT])
def test_that_is_interrupted(number):
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    code = "import signal; print('ready', flush=True); signal.pause()"
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as job:
        job.stdout.readline()
        job.send_signal(number)
        try:
            assert job.wait(20) == -number
        finally:
            job.kill()
"""


def test_jobs_hear_a_ctrl_c_where_the_tests_run_in_the_background(tmp_path):
    (tmp_path / "test_one.py").write_text(INTERRUPTED)
    (tmp_path / "conftest.py").write_text("from between_tests import pytest_runtest_call\n")
    run = subprocess.run(
        [
            "/bin/sh",
            "-c",
            'trap "" INT QUIT; exec "$0" -m pytest -q -p no:cacheprovider --rootdir . .',
            sys.executable,
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path]), "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
    )
    assert "2 passed" in run.stdout, run.stdout


@pytest.mark.whole_size(shown_by="test_processes_that_do_not_end_are_killed_and_named")
@pytest.mark.small(1)
@pytest.mark.parametrize("guarded", [True, False])
def test_a_worker_that_dies_after_its_test_strikes_no_other(tmp_path, guarded):
    (tmp_path / "test_two.py").write_text(TESTS)
    if guarded:
        (tmp_path / "conftest.py").write_text(
            "import between_tests\n"
            "from between_tests import pytest_runtest_call, pytest_runtest_teardown\n"
            "between_tests.GRACE_S = 1.0\n"
        )
    pytest_here = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", tmp_path]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])}
    environment.pop("PYTEST_ADDOPTS", None)
    run = subprocess.run(pytest_here, cwd=tmp_path, env=environment, capture_output=True, text=True)
    if guarded:
        # The other worker is waited for in vain, since its iterator is kept; the test that kept it is named.
        assert "ERROR at teardown of test_that_leaves_a_worker" in run.stdout, run.stdout
        assert "processes were left behind, and have been killed: [" in run.stdout, run.stdout
        assert "2 passed, 1 error" in run.stdout, run.stdout
    else:
        assert "is killed by signal: Killed" in run.stdout or run.returncode == 3, run.stdout


def test_processes_that_do_not_end_are_killed_and_named():
    context = multiprocessing.get_context("fork")
    spared, left = (context.Process(target=time.sleep, args=(60,)) for _ in range(2))
    spared.start()
    left.start()
    try:
        assert end_children({spared.pid}, grace_s=0.1) == [f"{left.name} (pid {left.pid})"]
        assert left.exitcode == -signal.SIGKILL and spared.is_alive()
    finally:
        spared.kill()
        spared.join()
    assert end_children(set()) == []
