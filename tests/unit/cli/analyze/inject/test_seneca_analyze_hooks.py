"""The hooks in torch's loader: what they write, and that they change nothing."""

import json
import os
import time
import types

import numpy as np
import pytest
from sizes import size
from traced import run_traced

from seneca.cli.analyze.inject import seneca_analyze_hooks as hooks
from seneca.cli.analyze.stalls import CAUSES
from seneca.cli.analyze.trace import RECORDS, read_trace

EPOCHS = size(1, 2)  # a spawned worker imports torch in each


def run(tmp_path, code, status=0):
    """The trace of a script."""
    ran = run_traced(tmp_path, code)
    assert (ran.returncode, ran.stderr) == (status, "")
    return read_trace(tmp_path / "trace")


LOADER = """
    import os, sys, time
    from torch.utils.data import DataLoader, Dataset, IterableDataset

    class Rows(Dataset):
        def __len__(self):
            return 24
        def __getitem__(self, index):
            time.sleep(0.003)  # of batches that are quicker than 10 ms only some are measured
            return index

    class Stream(IterableDataset):
        def __iter__(self):
            for index in range(24):
                time.sleep(0.003)
                yield index
"""


@pytest.mark.small(2)
@pytest.mark.parametrize(
    ("workers", "how"), [(0, ""), (2, ""), (size(1, 2), ", multiprocessing_context='spawn'")]
)
@pytest.mark.parametrize("dataset", ["Rows", "Stream"])
def test_each_step_and_each_batch_is_noted(tmp_path, dataset, workers, how):
    script = (
        LOADER
        + f"""
    if __name__ == "__main__":
        loader = DataLoader({dataset}(), 4, num_workers={workers}{how})
        for epoch in range({EPOCHS}):
            list(loader)
    """
    )
    (one,) = run(tmp_path, script).epochs
    batches = 6 * workers if dataset == "Stream" and workers else 6  # each worker has the whole stream
    ends = [[-1] * batches + [0]] * EPOCHS  # the last finds the end
    assert [epoch["samples"].tolist() for epoch in one.steps] == ends
    full = one.batches[one.batches["samples"] == 4]
    assert len(full) >= EPOCHS * batches and (full["wall"] > 0).all()
    assert one.about["dataset"] == dataset
    assert one.about["batch_size"] == 4


@pytest.mark.whole_size(shown_by="test_each_step_and_each_batch_is_noted")
def test_what_persistent_workers_do_in_later_epochs_is_noted(tmp_path):
    script = (
        LOADER
        + """
    loader = DataLoader(Rows(), 4, num_workers=1, persistent_workers=True)
    for epoch in range(3):
        list(loader)
    """
    )
    (one,) = run(tmp_path, script).epochs
    assert [len(epoch) for epoch in one.steps] == [7] * 3
    assert len(one.batches) == 18


def test_the_rank_in_the_group_is_noted(tmp_path):
    script = (
        LOADER
        + """
    import torch
    list(DataLoader(Rows(), 4))
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    list(DataLoader(Rows(), 6))
    torch.distributed.destroy_process_group()
    """
    )
    before, within = run(tmp_path, script).epochs
    assert (before.rank, before.together) == (None, False)
    assert (within.rank, within.together) == (0, True)


def test_what_a_killed_script_did_is_noted(tmp_path):
    script = (
        LOADER
        + """
    batches = iter(DataLoader(Rows(), 4))
    next(batches), next(batches)
    os.kill(os.getpid(), 9)
    """
    )
    (one,) = run(tmp_path, script, status=-9).epochs
    assert [len(epoch) for epoch in one.steps] == [2]


def test_waiting_and_working_are_distinguished(tmp_path):
    script = (
        LOADER
        + """
    class Sleeps(Rows):
        def __getitem__(self, index):
            time.sleep(0.05)
            return index
    class Works(Rows):
        def __getitem__(self, index):
            until = time.thread_time() + 0.05
            while time.thread_time() < until:
                pass
            return index
    for dataset in (Sleeps(), Works()):
        next(iter(DataLoader(dataset, 4)))
    """
    )
    sleeps, works = (one.batches[0] for one in run(tmp_path, script).epochs)
    assert sleeps["wall"] - sleeps["cpu"] - sleeps["delay"] > sleeps["cpu"]
    assert works["cpu"] > works["wall"] - works["cpu"] - works["delay"]


def test_senecas_native_path_writes_its_causes(tmp_path):
    script = """
    import seneca
    from seneca import transforms as T
    from seneca.testing import make_pictures
    make_pictures("pictures", count=64, classes=2)
    data = seneca.ImageFolder("pictures", T.RandomResizedCrop(32))
    for images, labels in seneca.DataLoader(data, 8, cache=None):
        pass
    """
    (one,) = run(tmp_path, script).epochs
    assert one.about["kind"] == "seneca.native.iterator.NativeIterator"
    assert [len(epoch) for epoch in one.steps] == [9]
    assert one.causes is not None and set(one.causes) <= {*CAUSES, "other"}


@pytest.mark.parametrize("apart", [0.1, 10.0])
def test_of_quick_events_those_that_are_measured_are_chosen_by_chance(apart, monkeypatch):
    """Quick and slow ones alternate. As many of either are measured, and as many in a second as wanted."""
    monkeypatch.setattr(hooks, "APART_S", apart)
    monkeypatch.setattr(hooks.time, "monotonic", lambda: 0.0)
    sparse = hooks.Sparse()
    now, measured = 0.0, {0.5: 0, 1.5: 0}
    for number in range(20_000):
        seconds = (0.5, 1.5)[number % 2]
        measured[seconds] += sparse.due(now)
        now += seconds
    wanted = min(1.0, 1.0 / apart) * 10_000
    assert measured == {0.5: pytest.approx(wanted, rel=0.15), 1.5: pytest.approx(wanted, rel=0.15)}


@pytest.mark.whole_size(shown_by="test_each_step_and_each_batch_is_noted")
def test_of_quick_steps_and_batches_some_are_measured_and_all_steps_are_noted(tmp_path):
    script = (
        LOADER
        + """
    class Many(Rows):
        def __len__(self):
            return 20_000
    for batch in DataLoader(Many(), 1):
        pass
    """
    )
    (one,) = run(tmp_path, script).epochs
    assert len(one.steps[0]) == 20_001
    of_steps = ~np.isnan(one.steps[0]["others"])
    assert np.array_equal(of_steps[:-1], ~np.isnan(one.steps[0]["cpu"][1:]))  # each has both its clocks
    assert 10 < of_steps.sum() < 10_000 and 10 < len(one.batches) < 10_000


def test_datasets_that_look_alike_have_numbers(tmp_path):
    """A dataset that is made anew for each epoch keeps its number, because the one before is gone."""
    script = (
        LOADER
        + """
    validation = Rows()
    for epoch in range(3):
        train = Rows()
        for dataset in (validation, train):
            for batch in DataLoader(dataset, 4):
                pass
    """
    )
    first, second = run(tmp_path, script).epochs
    assert (first.about["dataset_number"], second.about["dataset_number"]) == (0, 1)
    assert len(first.steps) == len(second.steps) == 3


def test_what_has_no_weak_reference_is_one_dataset():
    numbers = hooks.Datasets()
    assert [numbers.number(dataset) for dataset in ([1, 2], [3, 4])] == [0, 0]


@pytest.mark.parametrize("name", ["_MapDatasetFetcher", "_BaseDataLoaderIter"])
def test_another_torch_is_reported_and_works(tmp_path, name, monkeypatch):
    module = types.SimpleNamespace(_utils=types.SimpleNamespace(fetch=types.SimpleNamespace()))
    made = hooks.Hooks(hooks.Trace(str(tmp_path)))
    monkeypatch.setattr(hooks.atexit, "register", lambda function: None)
    made.install(module)
    (event,) = map(json.loads, next(tmp_path.glob("*.jsonl")).read_text().splitlines())
    assert any(name in missing for missing in event["missing"])


def test_a_trace_ends_where_it_is_full(tmp_path, monkeypatch):
    monkeypatch.setattr(hooks, "MOST_BYTES", hooks.PIECE)
    trace = hooks.Trace(str(tmp_path))
    room = hooks.PIECE // hooks.RECORD.size
    for number in range(room + 100):
        trace.record(hooks.STEP, 1, number, 0.0, 0.0, 0.0, 0.0, 0, 0.0)
    records = np.fromfile(next(tmp_path.glob("*.records")), RECORDS, count=room)
    assert (records["samples"] == np.arange(room)).all()
    assert read_trace(tmp_path).full


def test_a_forked_child_writes_files_of_its_own(tmp_path):
    trace = hooks.Trace(str(tmp_path))
    trace.record(hooks.STEP, 1, 10, 0.0, 0.0, 0.0, 0.0, 0, 0.0)
    child = os.fork()
    if child == 0:
        trace.record(hooks.STEP, 1, 11, 0.0, 0.0, 0.0, 0.0, 0, 0.0)
        os._exit(0)
    os.waitpid(child, 0)
    samples = {
        int(path.stem): np.fromfile(path, RECORDS, count=1)["samples"][0]
        for path in tmp_path.glob("*.records")
    }
    assert samples == {os.getpid(): 10, child: 11}


def test_a_thread_that_left_its_core_reads_its_files_again():
    thread = hooks.Thread()
    thread.read()
    with open("/proc/thread-self/io") as file:
        was = file.read()
    time.sleep(0.01)
    thread._delay, thread._bytes = -1.0, -1
    now, cpu, delay, _, read = thread.read()
    assert delay >= 0.0 and f"\nread_bytes: {read}\n" in was
    assert thread._off == now - cpu


def test_a_forked_child_has_its_own_files_of_the_kernel(tmp_path):
    made = hooks.Hooks(hooks.Trace(str(tmp_path)))
    made.thread.read()
    child = os.fork()
    if child == 0:
        made.thread.read()
        path = os.readlink(f"/proc/self/fd/{made.thread._scheduled}")
        os._exit(0 if path.startswith(f"/proc/{os.getpid()}/") else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_the_steps_of_two_loaders_that_take_turns_are_distinguished(tmp_path):
    script = (
        LOADER
        + """
    for _ in range(2):
        for one, other in zip(DataLoader(Rows(), 4), DataLoader(Rows(), 3)):
            pass
    """
    )
    fours, threes = run(tmp_path, script).epochs
    assert [epoch["samples"].tolist() for epoch in fours.steps] == [[-1] * 6 + [0]] * 2
    assert [epoch["samples"].tolist() for epoch in threes.steps] == [[-1] * 6] * 2


class Gpu:
    """A clock that a test moves, in place of ``torch.cuda``."""

    now = 0.0

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing

        def record(self):
            self.at = Gpu.now

        def query(self):
            return Gpu.now >= self.at + 1.0  # the GPU is a second behind

        def synchronize(self):
            pass

        def elapsed_time(self, other):
            return (other.at - self.at) * 1e3


def test_the_gpu_is_asked_later_how_long_it_was_idle(tmp_path):
    Gpu.now = 0.0
    clock = hooks.GpuClock(hooks.Trace(str(tmp_path)), Gpu)

    def wait(begin, seconds):
        first = clock.mark()
        Gpu.now += seconds
        clock.waited(1, begin, first, clock.mark())

    wait(10.0, 0.25)
    assert not list(tmp_path.glob("*.records"))  # the GPU has not come so far
    Gpu.now += 2.0
    wait(20.0, 0.5)
    records = np.fromfile(next(tmp_path.glob("*.records")), RECORDS, count=2)
    assert records["kind"].tolist() == [hooks.IDLE, 0]
    assert (records["begin"][0], records["wall"][0]) == (10.0, 0.25)
