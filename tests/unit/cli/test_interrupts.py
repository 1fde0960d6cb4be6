"""Ctrl-C and SIGTERM as the end of a wait."""

import os
import signal

import pytest
from engine import Process

from seneca.cli.interrupts import Interrupts

LONG_S = 3600.0


def test_a_wait_is_over_after_its_time():
    with Interrupts() as interrupts:
        assert not interrupts.wait(0.01) and not interrupts.wait(-1)
        assert not interrupts.asked


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_wait_and_raises_nothing(number):
    def work(pipe):
        with Interrupts() as interrupts:
            pipe.send("waiting")
            pipe.send(interrupts.wait(LONG_S))
            pipe.send(interrupts.wait(LONG_S))

    with Process(work) as waiting:
        waiting.receive()
        os.kill(waiting.pid, number)
        assert waiting.receive() is True
        assert waiting.receive() is True, "it stays so"
        assert waiting.join() == 0


def test_a_signal_between_two_waits_is_not_lost():
    with Interrupts() as interrupts:
        for _ in range(3):
            signal.raise_signal(signal.SIGINT)
        assert interrupts.asked and interrupts.wait(LONG_S)


def test_afterwards_signals_do_what_they_did_and_no_file_is_left_open():
    before, files = signal.getsignal(signal.SIGINT), sorted(os.listdir("/proc/self/fd"))
    with Interrupts():
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before
    assert sorted(os.listdir("/proc/self/fd")) == files
