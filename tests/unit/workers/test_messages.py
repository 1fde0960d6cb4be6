"""The queues of torch's worker processes."""

import os
import queue
import signal
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


@pytest.mark.parametrize("kind", [Indices, Results])
def test_a_queue_that_has_nothing_is_empty(kind):
    began, queued = time.monotonic(), kind()
    with pytest.raises(queue.Empty):
        queued.get(timeout=0.05)
    assert time.monotonic() - began >= 0.05


def test_the_loaders_process_wakes_its_own_thread():
    results = Results()
    results.put((None, None))
    assert results.get(timeout=60) == (None, None)


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
