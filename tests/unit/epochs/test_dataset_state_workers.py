"""Each worker is asked for its dataset's state, and given it back."""

import threading
import time
import types

import pytest
import ready
import torch
from sizes import size
from stateful_datasets import (
    WORKERS,
    Curriculum,
    ItsOwnIterator,
    Shuffled,
    flat,
    goes_on,
    loader_of,
    sent,
    share,
    taken,
)
from torch.utils.data import IterableDataset, get_worker_info

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*plain torch", "ignore:.*keeps a state"),
    pytest.mark.usefixtures("seed"),
]


# --- workers ------------------------------------------------------------------------------------


class SeededWhenMade(Shuffled):
    """Its seed is given as it is made: that of another run is another."""

    def __init__(self, seed):
        super().__init__()
        self.seed = int(seed.integers(2**31))


def test_a_worker_that_has_yielded_nothing_yet_begins_as_it_began(seed):
    """Its seed is not in the script, and no batch of its has reported it."""
    for step in size((2,), range(4)):
        first, second = (loader_of(SeededWhenMade(seed), num_workers=3) for _ in range(2))
        batches = iter(first)
        seen = taken(batches, step)
        second.load_state_dict(sent(first.state_dict()))
        rest = list(second)
        assert rest == list(batches)
        assert sorted(flat(seen + rest)) == list(range(22))


class DrawnInIter(IterableDataset):
    """Its own iterator, which draws its first sample and has a state only once ``__iter__`` was called."""

    def __iter__(self):
        self.next = int(torch.randint(10**6, ()))
        self.end = self.next + len(range(share()[0], 22, share()[1]))
        return self

    def __next__(self):
        if self.next == self.end:
            raise StopIteration
        self.next += 1
        return self.next - 1

    def state_dict(self):
        return {"next": self.next, "end": self.end}

    def load_state_dict(self, state):
        self.next, self.end = state["next"], state["end"]


class SlowToBegin(DrawnInIter):
    def __iter__(self):
        time.sleep(3)
        return super().__iter__()


def test_a_dataset_that_takes_longer_to_begin_than_the_timeout_is_an_error():
    """torch's loader raises it with the first batch. Here each worker reports its state before that."""
    with pytest.raises(RuntimeError, match=r"^DataLoader timed out after 0\.5 seconds$"):
        iter(loader_of(SlowToBegin(), num_workers=1, timeout=0.5))


class IterKeepsState(IterableDataset):
    """Has no state. Its iterators draw their first sample as they are made."""

    def __iter__(self):
        return iter(DrawnInIter())


@pytest.mark.small(1)
@pytest.mark.parametrize("epochs", [1, 2])
@pytest.mark.parametrize("make", [DrawnInIter, IterKeepsState])
@WORKERS
def test_a_state_has_what_iter_drew_in_a_process_that_has_yielded_nothing_yet(make, options, epochs):
    for step in range(size(1, 4)):
        torch.manual_seed(0)
        first, second = (loader_of(make(), **options) for _ in range(2))
        for _ in range(epochs - 1):
            list(first)
        batches = iter(first)
        seen = taken(batches, step)
        state = sent(first.state_dict())
        torch.manual_seed(1)
        second.load_state_dict(state)
        rest = list(second)
        assert rest == list(batches)
        assert len(flat(seen + rest)) == 22


@pytest.mark.whole_size(shown_by="test_a_state_has_what_iter_drew_in_a_process_that_has_yielded_nothing_yet")
@WORKERS
def test_a_dataset_that_has_no_state_before_iter_has_none_before_the_first_epoch(options):
    first, second = (loader_of(DrawnInIter(), **options) for _ in range(2))
    state = sent(first.state_dict())
    assert "dataset_state" not in state
    second.load_state_dict(state)
    assert len(flat(second)) == len(flat(first)) == 22


def test_a_run_that_was_resumed_is_saved_before_every_worker_has_yielded_again():
    loader = loader_of(Shuffled(60), num_workers=4, persistent_workers=True, batch_size=3)
    batches = iter(loader)
    taken(batches, 7)
    for _ in range(size(2, 3)):
        state = sent(loader.state_dict())
        loader = loader_of(Shuffled(60), num_workers=4, persistent_workers=True, batch_size=3)
        loader.load_state_dict(state)
        again = iter(loader)
        assert taken(again, 2) == taken(batches, 2)
    assert list(again) == list(batches)


class Uneven(Shuffled):
    """Of worker 0 nothing, of worker 1 much, of worker 2 little."""

    def __iter__(self):
        count = self.count
        self.count = (0, 45, 20)[share()[0]]
        yield from super().__iter__()
        self.count = count


@pytest.mark.small(1)
@pytest.mark.parametrize("stays", [False, True])
def test_workers_that_have_ended_stay_at_their_end(stays):
    """Uneven forgets its place at its end: asked for more, it would begin anew."""
    goes_on(lambda: loader_of(Uneven(), num_workers=3, persistent_workers=stays, batch_size=3), epochs=1)


@pytest.mark.parametrize("drop_last", [False, True])
def test_what_was_read_for_the_last_batch_is_at_its_end(drop_last):
    goes_on(lambda: loader_of(Shuffled(), batch_size=5, drop_last=drop_last))


def test_persistent_workers_make_way_for_those_that_restore():
    loader = loader_of(ItsOwnIterator(), num_workers=2, persistent_workers=True)
    batches = iter(loader)
    taken(batches, 3)
    state = loader.state_dict()
    rest = list(batches)
    after = list(loader)
    loader.load_state_dict(state)
    assert list(loader) == rest
    assert list(loader) == after


def test_workers_that_are_left_in_the_midst_of_an_epoch_are_distinguished_from_the_next():
    """What they made ahead for the epoch that was left, they made before the next began."""
    loader = loader_of(ItsOwnIterator(200), num_workers=2, persistent_workers=True)
    taken(iter(loader), 3)
    batches = iter(loader)
    state = loader.state_dict()
    first = next(batches)
    later = loader.state_dict()
    rest = list(batches)
    for saved, expected in ((state, [first, *rest]), (later, rest)):
        resumed = loader_of(ItsOwnIterator(200), num_workers=2, persistent_workers=True)
        resumed.load_state_dict(sent(saved))
        assert list(resumed) == expected


def test_workers_that_answer_out_of_turn_still_yield_each_sample_once():
    options = {"num_workers": 3, "in_order": False, "batch_size": 2}
    first, second = (loader_of(Shuffled(40), **options) for _ in range(2))
    batches = iter(first)
    seen = taken(batches, 7)
    second.load_state_dict(sent(first.state_dict()))
    assert sorted(flat(seen + list(second))) == list(range(40))


def test_states_come_through_the_thread_that_pins_memory(monkeypatch):
    """As beside a GPU, with nothing pinned."""
    there = {
        "is_available": lambda: True,
        "current_accelerator": lambda: types.SimpleNamespace(type="cuda"),
        "current_device_index": lambda: 0,
        "set_device_index": lambda index: None,
    }
    for name, function in there.items():
        monkeypatch.setattr(torch.accelerator, name, function)
    monkeypatch.setattr(torch.utils.data._utils.pin_memory, "pin_memory", lambda data, device: data)
    for data in size((Curriculum,), (Shuffled, Curriculum)):
        goes_on(lambda data=data: loader_of(data(), num_workers=2, pin_memory=True), epochs=1)
    assert iter(loader_of(Shuffled(), num_workers=1, pin_memory=True))._pin_memory_thread.is_alive()


def unpicklable(batch):
    return threading.Lock() if 5 in batch else batch


def failing(batch):
    if 5 in batch:
        raise ValueError("bad")
    return batch


@pytest.mark.small(1)
@pytest.mark.parametrize("collate", [failing, unpicklable])
def test_a_batch_that_has_failed_is_used_up_and_its_samples_do_not_come_again(collate):
    def make():
        return loader_of(ItsOwnIterator(), num_workers=2, collate_fn=collate)

    def rest(batches):
        seen, errors = [], 0
        while True:
            try:
                seen.append(next(batches))
            except StopIteration:
                return seen, errors
            except (ValueError, TypeError):
                errors += 1

    loader = make()
    batches = iter(loader)
    whole, errors = rest(batches)
    assert errors == 1
    for step in range(0, len(whole) + 1, size(3, 1)):
        loader = make()
        batches = iter(loader)
        for _ in range(step):
            try:
                next(batches)
            except (ValueError, TypeError):
                errors += 1
        resumed = make()
        resumed.load_state_dict(sent(loader.state_dict()))
        assert rest(iter(resumed)) == rest(batches)


def knows_the_dataset(worker):
    info = get_worker_info()
    info.dataset.known = (type(info.dataset), info.id == worker)


class Known(Shuffled):
    def __iter__(self):
        assert self.known == (Known, True)
        return super().__iter__()


def test_workers_know_the_users_dataset():
    assert sorted(flat(loader_of(Known(), num_workers=2, worker_init_fn=knows_the_dataset))) == list(
        range(22)
    )
    assert isinstance(iter(loader_of(Shuffled()))._dataset, Shuffled)
    assert isinstance(iter(loader_of(Curriculum(), num_workers=1))._dataset, Curriculum)


def broken(worker):
    raise ValueError("no such worker")


def test_a_worker_init_fn_that_fails_is_reported_in_the_batchs_place():
    batches = iter(loader_of(Shuffled(), num_workers=2, worker_init_fn=broken))
    with pytest.raises(ValueError, match="no such worker"):
        next(batches)


CLEARED = """
import seneca
from seneca.workers import iterators
batches = iter(seneca.DataLoader([1, 2, 3], num_workers=2, collate_fn=list, cache=None))
next(batches)
for name in [name for name in vars(iterators) if not name.startswith("__")]:
    setattr(iterators, name, None)  # as the interpreter does when it ends
del batches
"""


def test_an_iterator_ends_its_workers_without_a_word_when_its_module_is_cleared():
    done = ready.run("-c", CLEARED)
    assert (done.returncode, done.stderr) == (0, "")
