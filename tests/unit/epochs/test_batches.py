"""The batches of one epoch: drawn when they are asked for, and delivered when they are made."""

from types import SimpleNamespace

import pytest

from seneca.epochs.batches import EpochBatches, StreamBatches, TrackedBatches
from seneca.epochs.progress import EpochProgress

PLAN = SimpleNamespace(seed=5, number=2)


def epoch(*batches, **options):
    """An epoch of these batches, whose places are their indices."""
    progress = EpochProgress()

    def begin():
        progress.begin("places", [], lambda: None)
        return PLAN, iter([(batch, batch) for batch in batches])

    return EpochBatches(begin, progress, **options)


def delivered(batches):
    return batches.progress.done().nonzero()[0].tolist()


def test_an_epoch_begins_with_its_first_batch():
    batches = epoch([3, 1])
    assert not batches.progress.begun and batches.named == (0, 0)
    assert next(batches) == [3, 1]
    assert batches.progress.begun and batches.named == (5, 2)


def test_a_batch_that_is_drawn_is_delivered_when_it_is_made():
    batches = epoch([3, 1], [0])
    next(batches)
    drawn = batches.drawn
    next(batches)
    assert delivered(batches) == []
    batches.made(drawn)
    assert delivered(batches) == [1, 3]


def test_where_nobody_reports_later_a_batch_is_delivered_when_it_is_drawn():
    batches = epoch([3, 1], [0], drawn_is_delivered=True)
    assert list(batches) == [[3, 1], [0]]
    assert delivered(batches) == [0, 1, 3] and batches.progress.ended


def test_a_mark_says_with_the_batch_which_epoch_it_is_of():
    batches = epoch([3, 1], (0,))
    batches.mark = lambda indices, named: [*indices, named]
    assert list(batches) == [[3, 1, (5, 2)], (0,)]  # what is no list stays


def test_what_is_delivered_is_written_down_with_whether_it_failed():
    written = []
    recorder = SimpleNamespace(id="log", batch=lambda *batch, failed: written.append((*batch, failed)))
    batches = epoch([3, 1], ["no index", 2, -1], record=lambda plan: recorder)
    for failed in (False, True):
        next(batches)
        batches.made(batches.drawn, failed=failed)
    assert written == [([3, 1], [3, 1], False), ([2], [2], True)]


def stream(before=0, count=5):
    """An epoch of a stream of which ``before`` batches were delivered, and a function that reads the next."""
    first = EpochProgress()
    first.begin("stream", [], lambda: None)
    for place in range(before):
        first.made((place,))
    numbers = iter(range(count))
    progress = EpochProgress(first.state() if before else None)
    batches = StreamBatches(iter(int, 1), progress, lambda progress: None, (1, 2))
    next(batches)
    return batches, lambda: next(numbers)


def test_a_resumed_stream_passes_over_what_was_delivered(caplog):
    batches, read = stream(before=2)
    assert [batches.pass_on(read) for _ in range(3)] == [2, 3, 4]
    assert "reading 2 batches again" in caplog.text
    with pytest.raises(StopIteration):
        batches.pass_on(read)
    assert batches.progress.ended and delivered(batches) == [*range(5)]


def test_a_batch_of_a_stream_that_fails_is_no_more_to_come_and_its_error_is_raised():
    batches, _ = stream()

    def fails():
        raise KeyError

    with pytest.raises(KeyError):
        batches.pass_on(fails)
    assert delivered(batches) == [0]


def test_a_tracked_sampler_has_the_length_of_its_own_and_does_not_hold_the_loader():
    class Loader:
        pass

    loader, begun = Loader(), []
    tracked = TrackedBatches([[0], [1]], lambda loader: begun.append(loader) or iter(()), loader)
    assert len(tracked) == 2
    iter(tracked)
    assert begun.pop() is loader
    del loader
    with pytest.raises(AssertionError, match="only the loader"):
        iter(tracked)
