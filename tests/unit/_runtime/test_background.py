"""Background: steps in a thread of their own, which its owner ends."""

import threading

from seneca._runtime.background import Background


def test_it_takes_steps_until_all_is_done():
    done, left = threading.Event(), [0.0, 0.001, None]

    def step():
        if len(left) == 1:
            done.set()
        return left.pop(0)

    work = Background(step, "a test")
    assert done.wait(60)
    work.end()
    assert left == []


def test_no_step_runs_once_it_was_ended():
    took = []

    def step():
        took.append(1)
        return 0.0

    work = Background(step, "a test")
    while not took:
        pass
    work.end()
    before = len(took)
    work.end()
    assert len(took) == before and "a test" not in [thread.name for thread in threading.enumerate()]


def test_ending_does_not_wait_for_a_pause():
    paused = threading.Event()

    def step():
        paused.set()
        return 3600.0

    work = Background(step, "a test")
    assert paused.wait(60)
    work.end()


def test_a_step_may_end_it():
    ended = threading.Event()

    def step():
        work.end()
        ended.set()
        return 0.0

    began = threading.Lock()
    with began:  # `work` is there before the first step searches for it
        work = Background(lambda: (began.acquire(), began.release()) and step(), "a test")
    assert ended.wait(60)
    work.end()


def test_it_goes_on_where_it_is_begun_again():
    took = threading.Event()

    def step():
        took.set()
        return 3600.0

    work = Background(step, "a test")
    work.end()
    took.clear()
    work.begin()
    assert took.wait(60)
    work.end()
