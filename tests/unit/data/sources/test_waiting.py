"""Waits: they end with the answer, when they are late, or when another thread gives them up."""

import asyncio
import threading

import pytest

from seneca.data.sources.waiting import GivenUp, Waiting


def test_an_error_comes_as_it_was_raised():
    async def late():
        raise TimeoutError(110, "late", "a file")

    with pytest.raises(TimeoutError) as error:
        Waiting().run(late())
    assert error.value.filename == "a file"


def test_a_wait_is_given_up_by_another_thread():
    waiting, begun = Waiting(), threading.Event()

    async def never():
        begun.set()
        await asyncio.sleep(1e6)

    giver = threading.Thread(target=lambda: (begun.wait(), waiting.give_up()))
    giver.start()
    with pytest.raises(GivenUp):
        waiting.run(never(), 1e6)
    giver.join()
    for wait in (lambda: waiting.pause(1e6), lambda: waiting.run(never(), 1e6)):
        with pytest.raises(GivenUp):
            wait()


def test_a_wait_that_is_late_is_an_error():
    with pytest.raises(asyncio.TimeoutError):
        Waiting().run(asyncio.sleep(1e6), 0.01)
