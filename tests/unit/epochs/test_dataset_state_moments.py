"""A dataset's state between epochs, before the first batch, and where there is none."""

import copy
import gc
import logging
import weakref

import pytest
import torch
from sizes import size
from stateful_datasets import (
    WORKERS,
    Curriculum,
    ItsOwnIterator,
    OfIterators,
    Plain,
    Shuffled,
    flat,
    goes_on,
    loader_of,
    sent,
    share,
    taken,
)
from torch.utils.data import Dataset, IterableDataset

from seneca.errors import StateError

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*plain torch", "ignore:.*keeps a state"),
    pytest.mark.usefixtures("seed"),
]


class PlainShuffled(IterableDataset):
    """Shuffles with the random numbers of its process, and has no state."""

    def __iter__(self):
        number, of = share()
        indices = torch.arange(number, 22, of)
        return iter(indices[torch.randperm(len(indices))].tolist())


# --- between epochs, and before the first batch -------------------------------------------------


def test_a_state_before_the_first_epoch_has_the_datasets():
    data = Curriculum()
    data.made["items"] = 5
    loader = loader_of(data)
    state = loader.state_dict()
    assert state == loader.state_dict(), "asking changes nothing"
    resumed = loader_of(Curriculum())
    resumed.load_state_dict(sent(state))
    assert next(iter(resumed))[0] == (0, 0, 6)


def test_a_state_after_an_epoch_has_the_datasets_where_the_process_that_has_it_goes_on():
    for options, items in (
        ({}, 23),
        ({"num_workers": 1, "persistent_workers": True}, 23),
        ({"num_workers": 1}, 1),
    ):
        loader = loader_of(Curriculum(), **options)
        list(loader)
        state = sent(loader.state_dict())
        assert ("dataset_state" in state) == (items == 23)
        resumed = loader_of(Curriculum(), **options)
        resumed.load_state_dict(state)
        assert next(iter(resumed))[0][2] == next(iter(loader))[0][2] == items


def test_a_state_is_kept_by_an_iterator_that_nobody_has_used():
    first, second = (loader_of(ItsOwnIterator()) for _ in range(2))
    batches = iter(first)
    taken(batches, 2)
    state = sent(first.state_dict())
    second.load_state_dict(state)
    iter(second)
    assert second.state_dict() == state
    assert list(second) == list(batches)
    end = sent(first.state_dict())
    second.load_state_dict(end)
    iter(second)
    third = loader_of(ItsOwnIterator())
    third.load_state_dict(sent(second.state_dict()))
    assert list(third) == list(second) == list(first)


class RestoresTorch(Dataset):
    """A list whose state is that of torch's global generator."""

    def __len__(self):
        return 20

    def __getitem__(self, index):
        return index

    def state_dict(self):
        return {"generator": torch.get_rng_state()}

    def load_state_dict(self, state):
        torch.set_rng_state(state["generator"])


@pytest.mark.parametrize("make", [RestoresTorch, OfIterators])
def test_random_numbers_restored_between_two_epochs_count_for_all_that_the_next_one_draws(make):
    options = {"shuffle": True} if make is RestoresTorch else {}
    torch.manual_seed(2)
    loader = loader_of(make(), **options)
    whole = [list(loader) for _ in range(4)]
    torch.manual_seed(2)
    first, second = (loader_of(make(), **options) for _ in range(2))
    seen = [list(first) for _ in range(2)]
    state = sent(first.state_dict())
    torch.manual_seed(3)
    second.load_state_dict(state)
    assert seen + [list(second) for _ in range(2)] == whole


def test_the_state_after_a_break_is_that_of_the_last_batch():
    first, second = (loader_of(Shuffled()) for _ in range(2))
    seen = []
    for batch in first:
        seen += batch
        if len(seen) == 8:
            break
    gc.collect()
    second.load_state_dict(sent(first.state_dict()))
    assert sorted(seen + flat(second)) == list(range(22))


def test_a_state_does_not_change_as_the_dataset_goes_on():
    for options in ({}, {"num_workers": 1}):
        loader = loader_of(Curriculum(), **options)
        batches = iter(loader)
        next(batches)
        state = loader.state_dict()
        before = copy.deepcopy(state)
        list(batches)
        assert state == before


def test_what_is_copied_ahead_is_not_in_the_state():
    """With a device the batch behind the one that is in use is made already."""
    for options in ({}, {"num_workers": 2}):
        loader = loader_of(Shuffled(), device="cpu", **options)
        ahead = iter(loader)
        inner, hand_out = ahead._batches, loader._under_way.hand_out
        first = next(inner)
        hand_out()
        expected = next(inner)
        resumed = loader_of(Shuffled(), **options)
        resumed.load_state_dict(sent(loader.state_dict()))
        rest = list(resumed)
        assert rest[0] == expected
        assert sorted(first + flat(rest)) == list(range(22))


def test_a_loader_holds_no_iterator_whose_state_nobody_asks_for():
    loader = loader_of(Plain())
    batches = iter(loader)
    next(batches)
    fetcher = weakref.ref(batches._dataset_fetcher)
    ended = []

    class Ends(Plain):
        def __iter__(self):
            try:
                yield from super().__iter__()
            finally:
                ended.append(True)

    del batches
    assert fetcher() is None
    batches = iter(loader := loader_of(Ends()))
    next(batches)
    del batches
    assert ended == [True], "a break ends the dataset's iterator, as with torch"


# --- streams without a state --------------------------------------------------------------------


@size(pytest.mark.parametrize("options", [{}], ids=["alone"]), WORKERS)
def test_a_deterministic_stream_without_a_state_is_read_again_and_passed_over(options, caplog):
    with caplog.at_level(logging.WARNING, "seneca"):
        goes_on(lambda: loader_of(Plain(), **options))
    assert "reading 2 batches again to pass over them" in caplog.text


def test_a_stream_that_shuffles_by_its_workers_seeds_is_passed_over_in_the_same_order():
    for step in size((0, 3), range(5)):
        first, second = (loader_of(PlainShuffled(), num_workers=2) for _ in range(2))
        batches = iter(first)
        taken(batches, step)
        second.load_state_dict(sent(first.state_dict()))
        assert list(second) == list(batches)


@pytest.mark.small(1)
@pytest.mark.parametrize("options", [{"num_workers": 2}, {"batch_size": 2}])
def test_batches_that_are_cut_otherwise_are_not_passed_over(options):
    loader = loader_of(Plain())
    taken(iter(loader), 2)
    state = loader.state_dict()
    with pytest.raises(
        StateError, match=r"batches of 4 samples from 1 process, but this loader has .*give it the same"
    ):
        loader_of(Plain(), **options).load_state_dict(state)
    one_worker = loader_of(Plain(), num_workers=1)
    one_worker.load_state_dict(state)
    assert flat(one_worker) == list(range(8, 22))


def test_a_state_of_before_that_says_nothing_of_the_dataset_still_loads():
    """Saved by Seneca before it asked datasets."""
    state = {
        "seneca_state": 1, "n_samples": None, "dataset": None, "epoch": 0, "generators": [],
        "order": "stream", "sampler": "BatchSampler", "done": 2,
    }  # fmt: skip
    for data in (Plain(), ItsOwnIterator()):
        whole = list(loader_of(copy.deepcopy(data)))
        loader = loader_of(data)
        loader.load_state_dict(state)
        assert list(loader) == whole[2:]


def test_a_stream_in_small_batches_leaves_nothing_behind_in_the_loaders_process():
    loader = loader_of(Plain(), num_workers=2, batch_size=1)
    batches = iter(loader)
    taken(batches, 10)
    assert len(batches._drawn) <= 2 * 2
