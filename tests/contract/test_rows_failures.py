"""Section 5: errors in samples and workers, workers and parents that die, Ctrl-C."""

import contextlib
import functools
import multiprocessing
import os
import re
import secrets
import signal
import threading
from pathlib import Path

import pytest
import ready
import toys
from subjects import PATIENCE_S, SAMPLES, await_true, gone, labels, outcomes
from toys import Failing, Made, Numbers, Waiting, keep

import seneca
from seneca import transforms as T
from seneca.errors import DecodeError
from seneca.testing import make_pictures

WORKERS = pytest.mark.parametrize("workers", [0, 2])


def text_of(error):
    assert isinstance(error, Exception), f"no exception, but {error}"
    return str(error)


@pytest.mark.stock
def test_an_exception_in_this_process_comes_as_it_is(load):
    loader = load(Failing(SAMPLES, toys.raise_value_error), batch_size=6)
    with pytest.raises(ValueError) as raised:
        next(iter(loader))
    assert type(raised.value) is ValueError and str(raised.value) == "this sample is bad"
    assert raised.traceback[-1].name == "raise_value_error"
    with pytest.raises(toys.TwoArguments, match=r"^bad sample 5$"):
        list(load(Failing(SAMPLES, toys.raise_two_arguments)))


@pytest.mark.stock
def test_an_exception_in_a_worker_keeps_its_type_and_says_where_it_was(load):
    error = outcomes(iter(load(Failing(SAMPLES, toys.raise_value_error), batch_size=4, num_workers=2)))[1]
    assert type(error) is ValueError
    assert text_of(error).startswith(
        "Caught ValueError in DataLoader worker process 1.\nOriginal Traceback (most recent call last):\n"
    )
    assert "in raise_value_error" in str(error) and str(error).rstrip().endswith(
        "ValueError: this sample is bad"
    )


def test_a_key_error_of_a_worker_can_be_read(load):
    error = outcomes(iter(load(Failing(SAMPLES, toys.raise_key_error), batch_size=6, num_workers=1)))[0]
    assert type(error) is KeyError
    assert "\nOriginal Traceback" in repr(error) and "KeyError: 'no such key'" in str(error)


def test_an_exception_that_cannot_be_made_from_its_text_becomes_a_runtime_error(load):
    seen = outcomes(iter(load(Failing(SAMPLES, toys.raise_two_arguments), batch_size=6, num_workers=1)))
    assert type(seen[0]) is RuntimeError and seen[1] == [*range(6, 12)]
    assert "Caught TwoArguments in DataLoader worker process 0." in str(seen[0])
    assert "bad sample 5" in str(seen[0])


@WORKERS
@pytest.mark.stock
@pytest.mark.meant("threads")
def test_an_exception_in_collate_fn_is_as_one_in_a_sample(load, dataset, workers):
    error, *rest = outcomes(
        iter(load(dataset, batch_size=6, num_workers=workers, collate_fn=toys.fail_to_collate)), 2
    )
    assert type(error) is type(*rest) is ValueError
    assert "this batch is bad" in str(error)
    in_a_worker = bool(workers) and not load.has_threads(dataset)
    assert str(error).startswith("Caught ValueError in DataLoader worker process 0.") == in_a_worker


@WORKERS
@pytest.mark.meant("threads")
def test_a_damaged_picture_s_error_names_the_file(load, workers, tmp_path):
    dataset = seneca.ImageFolder(make_pictures(tmp_path, 4, 4, sides=(32, 64)), T.Resize((8, 12)))
    bad, _ = dataset.samples[2]
    os.truncate(bad, 100)
    error = outcomes(iter(load(dataset, batch_size=4, num_workers=workers)))[0]
    assert type(error) is DecodeError and bad in str(error)
    in_a_worker = bool(workers) and load.is_torch
    assert str(error).startswith("Caught DecodeError in DataLoader worker process 0.") == in_a_worker


@pytest.mark.parametrize("sample", [toys.raise_local, toys.unpicklable])
@pytest.mark.meant("hang")
def test_what_a_worker_cannot_pickle_is_an_error(load, sample):
    """A timeout stands for the hang: torch's loader would wait for ever."""
    loader = load(Failing(12, sample), batch_size=4, num_workers=1, collate_fn=keep, timeout=PATIENCE_S)
    batches = iter(loader)
    assert len(next(batches)) == 4
    if load.is_torch:
        batches._timeout = 0.5
    (error,) = outcomes(batches, 1)
    if load.is_torch:
        assert text_of(error) == "DataLoader timed out after 0.5 seconds"
    else:
        assert "in DataLoader worker process 0" in text_of(error)
        assert ("of a class that nobody can import" if sample is toys.raise_local else "pickle") in str(error)
        assert [len(batch) for batch in batches] == [4], "and the next batch follows"


@pytest.mark.parametrize("end", [toys.die, toys.leave, toys.crash])
@pytest.mark.meant("reason")
def test_a_worker_that_dies_is_an_error_that_names_it(load, end, tmp_path, capfd):
    loader = load(
        Failing(SAMPLES, end),
        batch_size=2,
        num_workers=2,
        worker_init_fn=functools.partial(toys.note_pid, tmp_path),
    )
    batches, seen = None, []
    try:
        batches = iter(loader)
        while len(seen) < 6 and not isinstance(error := outcomes(batches, 1)[0], Exception):
            seen.append(error)
    except RuntimeError as early:  # the worker can end while the others still get what to make
        error = early
        error.__traceback__ = error.__cause__ = error.__context__ = None  # they hold the iterator
    workers = {int(path.name) for path in tmp_path.iterdir()}
    assert seen == [[0, 1], [2, 3], [6, 7], [8, 9], [10, 11]][: len(seen)]
    if load.is_torch and isinstance(error, (OSError, EOFError)):
        return  # what the worker had begun to send has broken off, and that is all that torch says
    assert type(error) is RuntimeError
    # Where jobs share, both workers may have made the sample, as an example.
    died = re.search(
        r"DataLoader worker \(pid(?:\(s\))? (\d+)(?:, \d+)?\) (?:exited unexpectedly|is killed)", str(error)
    )
    assert died and int(died[1]) in workers
    how = {"die": "was ended by SIGKILL", "leave": "exited with status 3", "crash": "was ended by SIGSEGV"}
    assert (how[end.__name__] in str(error)) is not load.is_torch
    del batches
    await_true(lambda: all(map(gone, workers)), "the other worker has left, too")


@pytest.mark.meant("reason")
def test_a_worker_that_dies_while_the_training_loop_computes_is_an_error_that_says_why(load, tmp_path):
    """torch's handler of SIGCHLD raises it there, in code that is neither torch's nor Seneca's."""
    loader = load(
        Numbers(SAMPLES), num_workers=2, worker_init_fn=functools.partial(toys.note_pid, tmp_path), timeout=5
    )
    batches = iter(loader)
    next(batches)
    worker = next(int(path.name) for path in tmp_path.iterdir())
    with pytest.raises(RuntimeError, match=rf"^DataLoader worker \(pid {worker}\) is killed by") as died:
        os.kill(worker, signal.SIGKILL)
        await_true(lambda: False, "the signal of the worker's end")
    said = f"(pid {worker}) was ended by SIGKILL" in str(died.value)
    assert said is not load.is_torch
    del batches  # the error holds this frame; left to the garbage collector, torch waits five seconds


def test_a_batch_that_takes_longer_than_the_timeout_is_an_error(load):
    event = multiprocessing.get_context("fork").Event()
    loader = load(Waiting(4, event), batch_size=2, num_workers=1, timeout=0.5, multiprocessing_context="fork")
    batches = iter(loader)
    error = outcomes(batches, 1)[0]
    event.set()  # so that the worker can leave
    assert type(error) is RuntimeError and str(error) == "DataLoader timed out after 0.5 seconds"


def test_a_timeout_that_is_not_reached_changes_nothing(load, dataset):
    loader = load(dataset, batch_size=6, num_workers=2, timeout=PATIENCE_S)
    assert [labels(batch) for batch in loader] == [[*range(6)], [*range(6, 12)]]


def test_what_default_collate_cannot_batch_is_a_type_error(load):
    for workers in (0, 1):
        error = outcomes(iter(load(Made(2, str.__class__), num_workers=workers)), 1)[0]
        assert type(error) is TypeError and "batch must contain tensors, numpy arrays, numbers" in str(error)


@pytest.mark.stock
def test_an_index_that_is_not_there_is_the_dataset_s_error(load):
    for workers in (0, 1):
        seen = outcomes(iter(load(Numbers(4), sampler=[3, 4, 0], num_workers=workers)))
        assert (seen[0], type(seen[1]), seen[2]) == ([3], IndexError, [0])


# -- parents


def train(load, connection):
    """Load in a process of its own, slowly, and send the workers' pids."""
    batches = iter(load(Made(10**6, toys.slow), num_workers=2, prefetch_factor=100, collate_fn=keep))
    next(batches), next(batches)  # one of each worker, so that both are past their beginning
    connection.send([child.pid for child in multiprocessing.active_children()])
    signal.pause()


@pytest.mark.stock
def test_workers_leave_when_their_parent_is_killed(load):
    here, there = multiprocessing.Pipe()
    parent = multiprocessing.get_context("fork").Process(target=train, args=(load, there))
    parent.start()
    workers = []
    try:
        assert here.poll(PATIENCE_S)
        workers = here.recv()
        assert len(workers) == 2 and not any(map(gone, workers))
        parent.kill()
        await_true(lambda: all(map(gone, workers)), "the orphans have left")
    finally:
        for pid in (parent.pid, *workers):
            if not gone(pid):
                os.kill(pid, signal.SIGKILL)
        parent.join()


JOBS = {
    "torch, numbers": ["torch", "numbers"],
    "seneca, numbers": ["seneca", "numbers"],
    "seneca, pictures": ["seneca", "pictures"],
}


@pytest.fixture(scope="module")
def jobs(pictures):
    """Jobs that train, each in a process group, as a terminal has it; begun together, to save time."""
    cache = "contract-" + secrets.token_hex(6)
    running, timers = {}, []
    for name, (which, where) in JOBS.items():
        options = [] if which == "torch" else [f"cache={cache}-{where}", "cache_bytes=16MiB"]
        job = running[name] = ready.Script(
            Path(__file__).with_name("job.py"),
            *(which, where.replace("pictures", str(pictures)), *options),
            start_new_session=True,
        )
        timers.append(threading.Timer(3 * PATIENCE_S, os.killpg, (job.pid, signal.SIGKILL)))
        timers[-1].start()
    yield running
    for timer, job in zip(timers, running.values(), strict=True):
        timer.cancel()
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
            job.communicate()
    for left in Path("/dev/shm").glob(f"*{cache}*"):
        left.unlink()


def is_empty(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.small(1)
@pytest.mark.parametrize("name", JOBS)
def test_ctrl_c_ends_a_job_with_one_keyboard_interrupt(jobs, name):
    job = jobs[name]
    assert job.stdout.readline() == "ready\n"
    os.killpg(job.pid, signal.SIGINT)
    _, errors = job.communicate(timeout=PATIENCE_S)
    assert job.returncode == -signal.SIGINT
    assert [line for line in errors.splitlines() if "KeyboardInterrupt" in line] == ["KeyboardInterrupt"], (
        errors
    )
    # A worker of torch's that sends a batch just then adds an error of its own.
    assert errors.rstrip().endswith("KeyboardInterrupt") or name.startswith("torch"), errors
    await_true(functools.partial(is_empty, job.pid), "nobody of its group is left")


def test_a_keyboard_interrupt_in_a_sample_here_comes_through(load):
    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        next(iter(load(Failing(SAMPLES, interrupted), batch_size=6)))


@pytest.mark.small(1)
@pytest.mark.meant("threads")
def test_held_batches_of_the_native_path_take_no_descriptors(load, pictures):
    """Torch's tensors of a worker each hold one, until the process has no more."""
    loader = load(seneca.ImageFolder(pictures, T.Resize((8, 12))), num_workers=2)
    before = _shared_memory_open_here()
    held = list(loader)
    taken = len(_shared_memory_open_here() - before)
    assert len(held) == SAMPLES
    assert taken >= 2 * SAMPLES if load.is_torch else taken == load.shares  # one for the cache


def _shared_memory_open_here() -> set[tuple[str, str]]:
    """Descriptors of shared memory, and what each is of: others come and go with what earlier tests left."""
    found = set()
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the listing's own
            target = os.readlink(f"/proc/self/fd/{number}")
            if target.startswith(("/dev/shm/", "/memfd:")):
                found.add((number, target))
    return found
