"""How far an epoch has come: a batch that nobody was given is not delivered."""

import threading

import numpy as np
import pytest

from seneca.epochs.progress import FOLD, EpochProgress


def begun(resumed=None, **options):
    """The progress of an epoch over eight places, in batches of two."""
    progress = EpochProgress(resumed, **options)
    progress.begin("places", [], lambda: "ab")
    return progress


def places(done):
    return np.flatnonzero(done).tolist()


def test_what_is_made_is_delivered_at_once_unless_somebody_watches():
    progress = begun()
    progress.made([3, 1])
    assert places(progress.done()) == [1, 3]
    progress.watched = True
    progress.made([0, 2])
    assert places(progress.done()) == [1, 3]
    progress.hand_out()
    assert places(progress.done()) == [0, 1, 2, 3] and progress.yielded == 4
    progress.hand_out()  # nothing is made: nothing changes
    assert progress.yielded == 4


def test_batches_that_were_handed_out_can_be_taken_back():
    progress = begun(remember=2)
    for first in range(0, 8, 2):
        progress.made([first, first + 1])
    assert places(progress.done(3)) == [*range(6)] and places(progress.done(4)) == [*range(8)]
    with pytest.raises(ValueError, match="5 batches are said to be delivered of 4"):
        progress.done(5)


def test_of_many_batches_the_last_can_be_taken_back_and_no_more():
    progress = begun(remember=3)
    count = 2 * FOLD + 3
    for place in range(count):
        progress.made([place])
    assert places(progress.done()) == [*range(count)]
    assert places(progress.done(count - 3)) == [*range(count - 3)]
    with pytest.raises(ValueError, match="can be taken back"):
        progress.done(FOLD)


def test_a_resumed_epoch_goes_on_behind_what_was_delivered():
    first = begun()
    first.made([0, 5])
    again = begun(first.state())
    assert places(again.before) == [0, 5]
    again.made([2, 3])
    assert places(again.done()) == [0, 2, 3, 5]
    assert first.state()["dataset"] == "ab" and first.state()["order"] == "places"


def test_a_value_of_the_order_is_that_of_the_resumed_state():
    progress = begun()
    assert progress.name("seed", lambda: 7) == 7
    assert begun(progress.state()).name("seed", lambda: 8) == 7


def test_a_sample_is_known_by_its_place():
    progress = EpochProgress()
    progress.begin("places", [], lambda: None, sample_of=np.array([4, 2, 0]))
    progress.made([0, 4])
    assert progress.done().tolist() == [True, False, True]


def test_a_batch_that_a_thread_is_just_given_is_delivered_for_all_but_that_thread():
    """A signal handler may ask for the state and end the process, before the training loop has the batch."""
    progress, found = begun(), []

    def take():
        progress.made([6, 7])
        found.append(places(progress.done(progress._counted())))
        thread = threading.Thread(target=lambda: found.append(places(progress.done(progress._counted()))))
        thread.start()
        thread.join()

    progress.taken(take)
    assert found == [[], [6, 7]]


def test_an_error_in_place_of_a_batch_leaves_the_thread_asking_for_none():
    progress = begun()

    def fails():
        progress.made([0])
        raise KeyError

    with pytest.raises(KeyError):
        progress.taken(fails)
    assert progress.asked is None and places(progress.done()) == [0]


def test_it_has_ended_once_the_end_is_handed_out():
    progress = begun()
    progress.watched = True
    progress.made([0])
    progress.end()
    progress.hand_out()
    assert not progress.ended
    progress.hand_out()
    assert progress.ended and progress.yielded == 1
