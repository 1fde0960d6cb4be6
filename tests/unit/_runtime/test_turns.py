"""Threads that share an iterator take turns."""

import threading

import pytest

from seneca._runtime.turns import InTurn, turn
from seneca.epochs.progress import EpochProgress


class Slow:
    """Hands out numbers; not safe for threads by itself."""

    def __init__(self, count):
        self.at, self.count = 0, count

    def __iter__(self):
        return self

    def __next__(self):
        at = self.at
        threading.Event().wait(0.0005)
        if at == self.count:
            raise StopIteration
        self.at = at + 1
        return at


class SlowInTurn(InTurn, Slow):
    _progress = EpochProgress()


def test_each_of_several_threads_gets_what_no_other_has():
    numbers, taken = SlowInTurn(60), []
    threads = [threading.Thread(target=lambda: taken.extend(numbers)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == [*range(60)]


def test_who_takes_a_batch_already_cannot_take_another():
    class Asking(Slow):
        def __next__(self):
            return next(self)

    class AskingInTurn(InTurn, Asking):
        _progress = EpochProgress()

    with pytest.raises(RuntimeError, match="this thread is taking a batch from this iterator already"):
        next(AskingInTurn(3))


def test_a_turn_is_given_back_after_an_error():
    numbers = SlowInTurn(0)
    for _ in range(2):
        with pytest.raises(StopIteration):
            next(numbers)
    assert turn(numbers._turn) is numbers._turn
