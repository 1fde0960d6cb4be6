"""One iterator in the hands of several threads: each sample comes once, to one of them."""

import multiprocessing
import os
import signal
import threading
import time

import pytest
import torch
from engine import PATIENCE_S

import seneca
from seneca import transforms as T

SAMPLES = 300


class Rows(torch.utils.data.Dataset):
    """Item i is i; while ``gate`` is closed none is made."""

    def __init__(self, gate=None):
        self.gate = gate

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        if self.gate is not None:
            self.gate.wait()
        return index


@pytest.fixture(scope="module")
def many_pictures(tmp_path_factory):
    """300 of them."""
    return seneca.testing.make_pictures(tmp_path_factory.mktemp("many"), SAMPLES, 3, sides=(24, 32))


@pytest.fixture(params=["native", "torch's"])
def loader_of(request, many_pictures, name):
    """Makes loaders of 300 samples, each with what it is the index of."""

    def make(**options):
        if request.param == "native":
            dataset = seneca.ImageFolder(many_pictures, T.Resize((8, 8)))
            dataset.samples = [(path, index) for index, (path, _) in enumerate(dataset.samples)]
        else:
            dataset = Rows()
        options = {"batch_size": 4, "shuffle": True, "cache": name, "cache_bytes": "2MiB"} | options
        return seneca.DataLoader(dataset, **options)

    return make


def indices_of(batch):
    return (batch[1] if isinstance(batch, list | tuple) else batch).tolist()


@pytest.mark.small(2)
@pytest.mark.parametrize("options", [{}, {"num_workers": 2}, {"num_workers": 2, "device": "cpu"}])
def test_threads_that_share_an_iterator_get_each_sample_once(loader_of, options):
    loader = loader_of(**options)
    for _ in range(2):
        batches, got, failed = iter(loader), [], []

        def take(batches=batches, got=got, failed=failed):
            try:
                for batch in batches:
                    got.extend(indices_of(batch))
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=take) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []
        assert sorted(got) == list(range(SAMPLES))


@pytest.mark.small(1)
@pytest.mark.parametrize("workers", [0, 2])
def test_a_signal_handler_that_asks_for_a_batch_meanwhile_gets_an_error_and_takes_none(loader_of, workers):
    loader = loader_of(num_workers=workers)
    refused, got = [], []

    def take(*_):
        try:
            got.extend(indices_of(next(batches)))
        except RuntimeError as error:
            assert "taking a batch from this iterator already" in str(error)
            refused.append(error)
        except StopIteration:
            pass

    before = signal.signal(signal.SIGALRM, take)
    try:
        deadline = time.monotonic() + 100
        while not refused and time.monotonic() < deadline:  # until one comes in the middle
            got.clear()
            batches = iter(loader)
            signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
            for batch in batches:
                got.extend(indices_of(batch))
            signal.setitimer(signal.ITIMER_REAL, 0)
            assert sorted(got) == list(range(SAMPLES))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert refused


def test_ctrl_c_ends_the_wait_for_another_thread_s_turn(name):
    gate = threading.Event()
    batches = iter(seneca.DataLoader(Rows(gate), 4, cache=None))
    got = []
    thread = threading.Thread(target=lambda: got.append(next(batches)))
    thread.start()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            next(batches)
    finally:
        signal.signal(signal.SIGINT, before)
        gate.set()
        timer.join()
        thread.join()
    assert [*got[0].tolist(), *next(batches).tolist()] == list(range(8)), "and nothing is lost"


def test_a_forked_child_that_drops_an_iterator_ends_no_workers_of_its_parent(name):
    loader = seneca.DataLoader(
        Rows(), batch_size=4, num_workers=2, timeout=PATIENCE_S, cache=name, cache_bytes="2MiB"
    )
    iterator = iter(loader)
    first = next(iterator).tolist()
    child = os.fork()
    if child == 0:
        del iterator
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert sorted(first + [index for batch in iterator for index in batch.tolist()]) == list(range(SAMPLES))


@pytest.mark.small(1)
@pytest.mark.parametrize("native", [True, False])
def test_a_forked_child_has_persistent_workers_of_its_own(name, native, picture_folder):
    data = seneca.ImageFolder(picture_folder, T.CenterCrop(8)) if native else Rows()
    loader = seneca.DataLoader(
        data, 4, num_workers=1, persistent_workers=True, cache=name, cache_bytes="2MiB"
    )
    iterator = iter(loader)
    batches = [next(iterator)]
    child = multiprocessing.get_context("fork").Process(
        target=lambda: len(list(loader)) == len(loader) or 1 / 0
    )
    child.start()
    child.join()
    assert child.exitcode == 0
    batches += iterator
    assert len(batches) == len(loader) == len(list(loader))
