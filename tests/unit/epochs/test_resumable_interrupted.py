"""A state that a signal handler asks for while a batch is taken is that before the batch.

Python runs a handler between two steps of the main thread. Job managers send a signal before they end a job,
and its handler saves the state. What the training loop does not have by then must come again.
"""

import signal
import sys
import time

import pytest
from resumable_jobs import Numbers
from torch.utils.data import Subset

import seneca
from seneca import transforms as T
from seneca.epochs import state as state_format
from seneca.epochs.dataset_state import Standing, pickled
from seneca.epochs.progress import EpochProgress

SIZE = 2  # samples of a batch


def loader_of(kind, pictures):
    options = {"batch_size": SIZE, "cache": None}
    dataset = Numbers(4 * 2 * SIZE)
    if kind.startswith("native"):
        dataset = Subset(seneca.ImageFolder(pictures, T.Resize((8, 8))), range(len(dataset)))
    if "own order" in kind:
        options["sampler"] = list(range(len(dataset)))
    if "workers" in kind or "threads" in kind:
        options["num_workers"] = 1
    if "device" in kind:
        options["device"] = "meta"
    return seneca.DataLoader(dataset, **options)


def delivered(state):
    return int(state_format.unpacked(state["done"]).sum())


KINDS = [
    "alone",
    "workers",
    "native",
    "native threads",
    "native device",
    "workers device",
    "native own order",
]


@pytest.mark.small(3)
@pytest.mark.parametrize("kind", KINDS)
def test_at_every_step_of_taking_a_batch_the_state_is_that_before_it(picture_folder, kind, monkeypatch):
    monkeypatch.setattr("seneca.epochs.progress.FOLD", 3)
    loader = loader_of(kind, picture_folder)
    seen, has = [], 0

    def step(frame, event, argument):
        """Called before each line, as a handler may be; but not where the iterator has the batch."""
        if event == "line" and not (frame.f_code.co_name == "__next__" and "batch" in frame.f_locals):
            sys.settrace(None)
            seen.append((has, delivered(loader.state_dict()), f"{frame.f_code.co_filename}:{frame.f_lineno}"))
            sys.settrace(step)
        return step

    batches = iter(loader)
    next(batches)
    has = SIZE
    for _ in range(7):
        sys.settrace(step)
        batch = next(batches)
        sys.settrace(None)
        has += SIZE
        assert batch is not None and delivered(loader.state_dict()) == has
    with pytest.raises(StopIteration):
        next(batches)
    assert len(seen) > 100
    assert [one for one in seen if one[0] != one[1]] == []


@pytest.mark.small(1)
@pytest.mark.parametrize("kind", KINDS)
def test_a_handler_saves_what_the_loop_does_not_have(picture_folder, kind):
    loader = loader_of(kind, picture_folder)
    has, seen = 0, []

    def save(*_):
        state = loader.state_dict()
        if "done" in state:  # else it is between two epochs
            seen.append((has, delivered(state)))

    before = signal.signal(signal.SIGALRM, save)
    signal.setitimer(signal.ITIMER_REAL, 0.002, 0.0007)
    try:
        until = time.monotonic() + 300
        while len(seen) < 100 and time.monotonic() < until:
            has = 0
            for _ in loader:
                has += SIZE  # without a call: no handler runs before this is done
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(seen) >= 100
    assert [one for one in seen if one[0] != one[1]] == []


@pytest.mark.parametrize("kind", ["alone", "native"])
def test_a_batch_that_an_interrupt_has_cut_off_comes_again(picture_folder, kind):
    loader = loader_of(kind, picture_folder)
    batches = iter(loader)
    next(batches)
    made = EpochProgress.hand_out

    def interrupted(progress):
        made(progress)
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(EpochProgress, "hand_out", interrupted)
        next(batches)
    assert delivered(loader.state_dict()) == SIZE


def test_a_datasets_state_is_that_before_the_batch_too():
    """A worker has reported its state with the batch that is not yet delivered."""
    progress = EpochProgress()
    progress.watched = True
    progress.standing = Standing(1, {0: pickled({"at": "middle", "dataset": 0})})
    progress.begin("samples", None, lambda: None)
    for number in (1, 2):
        progress.report(0, pickled({"at": "middle", "dataset": number}))
        progress.made([number], 1)
        progress.taken(progress.hand_out)
        assert progress.state()["dataset_state"]["states"][0]["dataset"] == number - 1
        assert delivered(progress.state()) == number - 1
        progress.asked = None
        assert progress.state()["dataset_state"]["states"][0]["dataset"] == number
        assert delivered(progress.state()) == number
