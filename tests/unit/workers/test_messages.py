"""The queues of torch's worker processes."""

import contextlib
import multiprocessing
import os
import queue
import signal
import socket
import time

import pytest
import torch

import seneca
from seneca.workers.messages import Indices, Results


class Numbers(torch.utils.data.Dataset):
    def __init__(self, bytes_each=0):
        self.bytes_each = bytes_each

    def __len__(self):
        return 100

    def __getitem__(self, index):
        return index, bytes(self.bytes_each)


def loader(**options):
    return seneca.DataLoader(Numbers(**options), 4, num_workers=2, cache=None)


@pytest.mark.parametrize("make", [lambda: Indices(Results()), Results], ids=["Indices", "Results"])
def test_a_queue_that_has_nothing_is_empty(make):
    began, queued = time.monotonic(), make()
    with pytest.raises(queue.Empty):
        queued.get(timeout=0.05)
    assert time.monotonic() - began >= 0.05


def test_the_loaders_process_wakes_its_own_thread():
    results = Results()
    results.put((None, None))
    assert results.get(timeout=60) == (None, None)


@pytest.mark.small(1)
@pytest.mark.parametrize("bytes_each", [0, 1 << 20])
def test_a_killed_worker_breaks_off_no_other_workers_batches(bytes_each):
    """A queue of multiprocessing has one lock for all: who is killed holding it stops them all."""
    batches = iter(loader(bytes_each=bytes_each))
    next(batches)
    results, dead = batches._worker_result_queue, batches._workers[0]
    with pytest.raises(RuntimeError, match="SIGKILL"):  # of torch's handler, wherever this process is
        os.kill(dead.pid, signal.SIGKILL)
        time.sleep(60)
    # The last that the other one makes ahead may have come before the first of all.
    came = {number: sent[1] for number, sent in batches._task_info.items() if len(sent) == 2}
    while 3 not in came:
        try:
            number, data = results.get(timeout=60)
            came[number] = data
        except EOFError:  # the dead one's
            continue
    assert came[3][0].tolist() == [12, 13, 14, 15]


def test_batches_larger_than_a_socket_come_in_their_order():
    batches = list(loader(bytes_each=1 << 20))
    assert [batch[0].tolist() for batch in batches] == [[k, k + 1, k + 2, k + 3] for k in range(0, 100, 4)]
    assert {len(one) for batch in batches for one in batch[1]} == {1 << 20}


def sockets():
    """The descriptors of this process that are sockets."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the folder that is listed
            if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                found.append(int(name))
    return found


def count_sockets(results, counted):
    counted.value = len(sockets())


@pytest.mark.whole_size(shown_by="test_a_worker_keeps_no_end_of_the_other_workers_channels")
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_worker_that_is_spawned_gets_the_ends_of_one_channel(method):
    context, results = multiprocessing.get_context(method), Results()
    results.add_worker()
    counted = context.Value("i", -1)
    process = context.Process(target=count_sockets, args=(results, counted))
    process.start()
    process.join(120)
    assert counted.value == 2


class Loses(Numbers):
    """Ends, with its third item, all connections of the loader over which this process sends."""

    def __init__(self):
        self.others = sockets()  # those of the tests' own servers

    def __getitem__(self, index):
        if index == 2:
            for number in set(sockets()) - set(self.others):
                with socket.socket(fileno=os.dup(number)) as one:
                    one.shutdown(socket.SHUT_WR)
        return index


def test_a_worker_that_lives_and_can_send_nothing_is_an_error(monkeypatch):
    """The loader would wait forever: no worker has died, and none sends anything."""
    monkeypatch.setattr("seneca.workers.iterators.BROKE_OFF_S", 0.1)
    monkeypatch.setattr("torch.utils.data._utils.MP_STATUS_CHECK_INTERVAL", 0.5)
    batches = iter(seneca.DataLoader(Loses(), 1, num_workers=1, cache=None))
    assert [next(batches).item(), next(batches).item()] == [0, 1]
    with pytest.raises(RuntimeError, match=r"worker \(pid\(s\) \d+\) lives, but can send nothing"):
        next(batches)


def begin_a_message(indices, begun):
    """Be killed while a message to the worker is being sent."""
    indices._channel.writer.send(b"12345")
    begun.set()
    time.sleep(60)


def get_indices(indices, ended):
    try:
        indices.get(timeout=60)
    except EOFError:
        ended.value = 1


def test_a_worker_sees_that_the_loaders_process_is_killed_while_it_sends():
    context, indices = multiprocessing.get_context("fork"), Indices(Results())
    ended, begun = context.Value("i", 0), context.Event()
    loader = context.Process(target=begin_a_message, args=(indices, begun))
    loader.start()
    worker = context.Process(target=get_indices, args=(indices, ended))
    worker.start()
    assert begun.wait(60)
    indices._channel.close()
    os.kill(loader.pid, signal.SIGKILL)
    loader.join(60)
    worker.join(60)
    if worker.is_alive():
        worker.kill()
    assert ended.value == 1


class SaysWhatIsOpen(Numbers):
    def __getitem__(self, index):
        return len(sockets())


def test_a_worker_keeps_no_end_of_the_other_workers_channels():
    """The end of a killed worker's channel would not be seen while another worker has a copy of it."""
    loader = seneca.DataLoader(SaysWhatIsOpen(), 1, num_workers=3, cache=None)
    of_workers = [int(next(batch)) for batch in [iter(loader)] for _ in range(3)]
    assert of_workers[2] - of_workers[0] == 4, (
        "the last has the channels of the others' indices, two ends each"
    )
