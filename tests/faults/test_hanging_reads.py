"""Storage that does not answer, and what is no file: an error or a Ctrl-C ends it."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import simplejpeg
from hang_jobs import WHAT_IS_NO_FILE
from small_jobs import epoch_of

import seneca
from seneca import transforms as T
from seneca._runtime.regular_files import Piece, open_regular, read_regular
from seneca.tuning.storage import read_storage

HERE = Path(__file__).parent
HUNG_S = 60.0  # what is promised takes 2 s on a quiet machine; what takes this long hangs
STARTED_S = 120.0


class Forker:
    """See :mod:`forker`."""

    def __init__(self, preloaded):
        path = os.pathsep.join([str(HERE), str(HERE.parent), *sys.path])
        self._process = subprocess.Popen(
            [sys.executable, HERE / "forker.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "LD_PRELOAD": str(preloaded), "PYTHONPATH": path},
        )

    def ask(self, **question):
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self):
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


@pytest.fixture(scope="module")
def forker(tmp_path_factory):
    library = tmp_path_factory.mktemp("hang") / "hang.so"
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, "-O1", "-fPIC", "-shared", "-o", library, HERE / "hang.c", "-ldl"], check=True)
    forker = Forker(library)
    yield forker
    forker.close()


@pytest.fixture
def flat_folder(tmp_path):
    """48 pictures, the i-th of them of one grey, 4 i."""
    folder = tmp_path / "flat"
    for i in range(48):
        path = folder / "class" / f"{i:02d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(simplejpeg.encode_jpeg(np.full((40, 48, 3), 4 * i, np.uint8), 95))
    return folder


class Run:
    """A job of :mod:`hang_jobs`; it ends with the test."""

    def __init__(self, forker, folder, what, arguments, environment):
        self._forker = forker
        self.gate, self.here = folder / "gate", folder / "here"
        self.gate.touch()
        self._out, self._err = folder / "out", folder / "err"
        hang = {"HANG_FILE": "/20.jpg", "HANG_GATE": str(self.gate), "HANG_HERE": str(self.here)}
        self.pid = forker.ask(
            run=what,
            arguments=arguments,
            environment=hang | environment,
            out=str(self._out),
            err=str(self._err),
        )
        self.status = None

    @property
    def out(self):
        return self._out.read_text().splitlines() if self._out.exists() else []

    @property
    def err(self):
        return self._err.read_text() if self._err.exists() else ""

    def until(self, happened):
        deadline = time.monotonic() + STARTED_S
        while not happened():
            assert time.monotonic() < deadline and self.wait(0) is None, (self.status, self.out, self.err)
            time.sleep(0.005)

    def interrupt(self):
        os.kill(self.pid, signal.SIGINT)

    def wait(self, seconds):
        """Its exit status, None: it is still there."""
        if self.status is None:
            self.status = self._forker.ask(wait=self.pid, s=seconds)
        return self.status

    def ends(self):
        """It ends within the time that is taken for hanging; its exit status."""
        began = time.monotonic()
        status = self.wait(HUNG_S)
        assert status is not None, "it hangs"
        print(f"took {time.monotonic() - began:.2f} s")
        return status

    def close(self):
        if self.wait(0) is None:
            os.kill(self.pid, signal.SIGKILL)
            self.wait(HUNG_S)


@pytest.fixture
def run(forker, tmp_path):
    """Starts a job of :mod:`hang_jobs`: which, its environment besides, its arguments."""
    runs = []

    def start(what, environment=None, **arguments):
        folder = tmp_path / f"run{len(runs)}"
        folder.mkdir()
        arguments = {
            name: str(value) if isinstance(value, Path) else value for name, value in arguments.items()
        }
        runs.append(Run(forker, folder, what, arguments, environment or {}))
        return runs[-1]

    yield start
    for one in runs:
        one.close()


def was_interrupted(job):
    return (
        job.ends() == -signal.SIGINT and "KeyboardInterrupt" in job.err and "Exception ignored" not in job.err
    )


@pytest.mark.small(1)
@pytest.mark.parametrize("options", [{}, {"loaders": 2}, {"split": "auto"}])
def test_ctrl_c_ends_a_job_whose_threads_hang(run, flat_folder, name, options):
    """Also where two loaders do, and where the first request to storage does."""
    job = run("train", folder=flat_folder, name=name, num_workers=2, **options)
    job.until(job.here.exists)
    job.interrupt()
    assert was_interrupted(job), job.err
    assert not [entry for entry in os.listdir("/dev/shm") if name in entry]


def test_ctrl_c_ends_a_job_that_prepares_in_its_own_thread_where_the_file_system_lets_it(
    run, flat_folder, name
):
    job = run("train", {"HANG_LETS": "1"}, folder=flat_folder, name=name)
    job.until(job.here.exists)
    job.interrupt()
    assert was_interrupted(job), job.err


def test_a_signal_that_ends_nothing_loses_no_sample(run, flat_folder, name):
    """The read is begun again."""
    job = run("epoch_with_timer", {"HANG_LETS": "1"}, folder=flat_folder, name=name)
    assert job.ends() == 0, job.err
    assert job.out[-1] == "samples 48"


# With caches in a folder of their own, these two have no neighbours. Jobs log those that resemble them.
def test_a_script_that_ends_while_a_thread_hangs_ends(run, flat_folder, name, segment_folder):
    alone = {"SENECA_DIR": segment_folder}
    job = run("end", alone, folder=flat_folder, name=name, num_workers=2, prefetch_factor=12)
    job.until(lambda: "end" in job.out)
    assert (job.ends(), job.err) == (0, "")


DAEMON_RUNS = int(os.environ.get("SENECA_TEST_DAEMONS", "3"))


@pytest.mark.small(1)
@pytest.mark.parametrize("run_number", range(DAEMON_RUNS))
@pytest.mark.parametrize(
    "options",
    [{"native": True}, {"native": True, "num_workers": 2}, {"native": False}],
    ids=["native", "threads", "opaque"],
)
def test_a_script_that_ends_while_daemon_threads_iterate_ends_quietly(
    run, flat_folder, name, options, run_number, segment_folder
):
    alone = {"HANG_FILE": "no", "SENECA_DIR": segment_folder}
    job = run("end_with_daemons", alone, folder=flat_folder, name=name, **options)
    assert (job.ends(), job.err) == (0, "")


def test_a_job_that_ended_while_a_thread_hung_leaves_nothing_to_the_others(run, flat_folder, name):
    dataset = seneca.ImageFolder(flat_folder, T.RandomResizedCrop(32))
    with seneca.SampleCache.create(name, dataset, cache_bytes="2MiB", split="0-0-100") as cache:
        loader = seneca.DataLoader(dataset, 4, shuffle=True, cache=cache)
        batches = iter(loader)
        next(batches)  # so that copies are wanted here
        job = run("train", folder=flat_folder, name=name, num_workers=2)
        job.until(job.here.exists)
        assert cache.stats()["processes"] == 2
        job.interrupt()
        assert was_interrupted(job)
        assert sum(len(images) for images, _ in batches) == 44
        stats = cache.stats()
        assert (stats["processes"], stats["members"], stats["writing"]) == (1, 0, 0)
        assert cache.segment.check() is None
        assert epoch_of(loader) == (list(range(48)), [])


@pytest.mark.small(1)
@pytest.mark.parametrize("what", ["come_back", "close_and_come_back"])
def test_what_a_thread_that_hangs_may_write_to_stays_its_own_until_it_comes_back(
    run, flat_folder, name, what, tmp_path
):
    gate = tmp_path / "gate of its own"
    gate.touch()
    environment = {"HANG_ONCE": "1", "HANG_GATE": str(gate)}
    job = run(what, environment, folder=flat_folder, name=name, gate=gate)
    assert job.ends() == 0, job.err
    assert job.out == ["came back"]


@pytest.mark.small(1)
@pytest.mark.parametrize("kind", WHAT_IS_NO_FILE)
@pytest.mark.parametrize(
    "options",
    [{}, {"num_workers": 2}, {"transform": "python"}, {"transform": "python", "num_workers": 1}],
    ids=["native", "native, threads", "python", "python, workers"],
)
def test_what_is_no_file_is_an_error_that_names_it(run, flat_folder, name, kind, options):
    job = run("epoch", folder=flat_folder, name=name, kind=kind, batch_size=1, **options)
    assert job.ends() == 0, job.err
    (error,) = (line for line in job.out if line.startswith("error"))
    assert f"is {kind}" in error and "not a regular file" in error and "class/20.jpg" in error
    assert job.out[-1] == "samples 47"


@pytest.mark.small(1)
@pytest.mark.parametrize("workers", [0, 2])
def test_what_is_no_file_is_skipped_where_bad_samples_are(run, flat_folder, name, workers):
    job = run("epoch", folder=flat_folder, name=name, kind="a FIFO", on_error="skip", num_workers=workers)
    assert job.ends() == 0, job.err
    assert job.out == ["samples 47"]


@pytest.mark.parametrize("kind", WHAT_IS_NO_FILE)
def test_what_is_no_file_is_not_read_in_the_calling_process(flat_folder, kind):
    dataset = seneca.ImageFolder(flat_folder)
    path = flat_folder / "class" / "00.jpg"
    path.unlink()
    WHAT_IS_NO_FILE[kind](str(path))
    for read in (lambda: dataset[0], lambda: dataset.read(0), lambda: read_storage([Piece(str(path))], 0.1)):
        with pytest.raises(OSError, match=f"is {kind}.*not a regular file") as caught:
            read()
        assert caught.value.filename == str(path)


def test_what_is_swapped_for_a_fifo_after_it_was_looked_at_is_not_waited_for(flat_folder, monkeypatch):
    """It is asked what it is when it is open."""
    path = flat_folder / "class" / "00.jpg"
    opened = os.open

    def swap_and_open(name, flags):
        os.unlink(name)
        os.mkfifo(name)
        return opened(name, flags)

    monkeypatch.setattr(os, "open", swap_and_open)
    with pytest.raises(OSError, match="is a FIFO"):
        open_regular(path)


@pytest.mark.whole_size(shown_by="test_a_job_that_ended_while_a_thread_hung_leaves_nothing_to_the_others")
def test_a_file_that_another_process_has_a_lease_on_is_waited_for(flat_folder, monkeypatch):
    path = flat_folder / "class" / "00.jpg"
    held = os.open(path, os.O_RDWR)
    given_back = []

    def give_back(*_):
        fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        given_back.append(1)

    before = signal.signal(signal.SIGIO, give_back)
    try:
        fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        os.close(open_regular(path))
    finally:
        signal.signal(signal.SIGIO, before)
        os.close(held)
    assert given_back and read_regular(path)
