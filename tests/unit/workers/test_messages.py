"""The queues of torch's worker processes."""

import pytest
import torch

import seneca
from seneca.workers import messages


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 100

    def __getitem__(self, index):
        return index


def test_a_loader_ends_though_an_exception_has_left_a_queue_locked(monkeypatch):
    """As torch's signal handler does, if it raises right after put() has taken the lock."""
    monkeypatch.setattr(messages, "LOCKED_S", 0.1)
    batches = iter(seneca.DataLoader(Numbers(), 4, num_workers=2, cache=None))
    next(batches)
    batches._index_queues[1]._notempty.acquire()
    workers = batches._workers
    batches._shutdown_workers()
    assert not any(worker.is_alive() for worker in workers)


@pytest.mark.parametrize("is_locked", [False, True])
def test_a_mended_queue_takes_what_is_put(monkeypatch, is_locked):
    monkeypatch.setattr(messages, "LOCKED_S", 0.1)
    queue = messages.MessageQueue(ctx=torch.multiprocessing.get_context("spawn"))
    if is_locked:
        queue._notempty.acquire()
    queue.mend()
    queue.put("an item")
    assert queue.get(timeout=60) == "an item"
