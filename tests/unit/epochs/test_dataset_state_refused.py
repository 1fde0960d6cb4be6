"""Which states of datasets are refused, in which words, and which survive being saved as others save."""

import gc
import json
import multiprocessing
import threading
import warnings

import numpy as np
import pytest
import torch
from sizes import size
from stateful_datasets import (
    Curriculum,
    ItsOwnIterator,
    OfIterators,
    Plain,
    Shuffled,
    flat,
    goes_on,
    loader_of,
    sent,
    taken,
)
from torch.utils.data import (
    Dataset,
    DistributedSampler,
    IterDataPipe,
)

import seneca
from seneca.errors import StateError

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*plain torch", "ignore:.*keeps a state"),
    pytest.mark.usefixtures("seed"),
]


# --- what is said and refused -------------------------------------------------------------------


def test_another_number_of_workers_is_refused_with_both_named():
    for before, after in size(((0, 1), (1, 0)), ((0, 2), (2, 0), (2, 3))):
        loader = loader_of(Shuffled(), num_workers=before)
        taken(iter(loader), 2)
        state = loader.state_dict()
        resumed = loader_of(Shuffled(), num_workers=after)
        with pytest.raises(
            StateError, match=f"num_workers={before}, but this loader has num_workers={after}"
        ):
            resumed.load_state_dict(state)
        assert len(flat(resumed)) == 22


def test_another_batch_size_cuts_the_rest_otherwise():
    first, second = loader_of(Shuffled()), loader_of(Shuffled(), batch_size=7)
    batches = iter(first)
    taken(batches, 2)
    second.load_state_dict(sent(first.state_dict()))
    rest = list(second)
    assert [len(batch) for batch in rest] == [7, 7]
    assert flat(rest) == flat(batches)


@pytest.mark.small(1)
@pytest.mark.parametrize("workers", [0, 1])
def test_a_dataset_that_takes_no_state_is_named(workers):
    loader = loader_of(Shuffled(), num_workers=workers)
    taken(iter(loader), 2)
    resumed = loader_of(Plain(), num_workers=workers)
    resumed.load_state_dict(loader.state_dict())
    with pytest.raises(StateError, match="a state of the dataset, but Plain has no load_state_dict"):
        list(resumed)


class Locked(Shuffled):
    def state_dict(self):
        return {"lock": threading.Lock()}


class Failing(Shuffled):
    def state_dict(self):
        raise KeyError("seed")


@pytest.mark.small(1)
@pytest.mark.parametrize("workers", [0, 2])
def test_a_state_that_cannot_be_pickled_is_named_where_it_is_asked_for(workers):
    loader = loader_of(Locked(), num_workers=workers)
    batches = iter(loader)
    taken(batches, 2)
    with pytest.raises(
        StateError, match=r"Locked.state_dict\(\) returned cannot be pickled: .*lock.*plain values"
    ):
        loader.state_dict()
    assert len(list(batches)) > 3, "who does not save it may load as with torch"


def test_an_error_of_state_dict_is_raised_where_it_is_asked_for():
    loader = loader_of(Failing())
    batches = iter(loader)
    next(batches)
    with pytest.raises(KeyError, match="seed"):
        loader.state_dict()
    assert len(flat(batches)) == 18
    loader = loader_of(Failing(), num_workers=1)
    batches = iter(loader)
    next(batches)
    with pytest.raises(StateError, match=r"Failing raised KeyError\('seed'\) when it was asked"):
        loader.state_dict()
    assert len(flat(batches)) == 18


class Peculiar(Dataset):
    """Answers no question that torch does not ask."""

    def __init__(self):
        self.__dict__["fields"] = {}

    def __getattr__(self, name):
        return self.__dict__["fields"][name]

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return index

    def __getitems__(self, indices):
        return indices


def test_a_dataset_is_not_asked_for_attributes_to_find_out_whether_it_has_a_state():
    loader = loader_of(Peculiar(), cache=None)
    assert list(loader) == [[0, 1]]
    assert "dataset_state" not in loader.state_dict()


def test_a_batch_sampler_refuses_the_state_of_a_dataset():
    loader = loader_of(Curriculum())
    taken(iter(loader), 2)
    batches = seneca.OpportunisticBatchSampler(torch.utils.data.SequentialSampler(range(22)), 4)
    with pytest.raises(StateError, match="a batch sampler cannot give back"):
        batches.load_state_dict(loader.state_dict())


def test_a_state_that_cannot_be_given_back_is_refused_by_every_batch():
    loader = loader_of(Curriculum())
    taken(iter(loader), 2)
    resumed = loader_of(Plain22())
    resumed.load_state_dict(loader.state_dict())
    batches = iter(resumed)
    for _ in range(2):
        with pytest.raises(StateError, match="a state of the dataset, but Plain22 has no load_state_dict"):
            next(batches)


class Plain22(Dataset):
    def __len__(self):
        return 22

    def __getitem__(self, index):
        return index


def test_ranks_whose_datasets_stand_alike_are_put_together_and_others_refused():
    def rank(number, of, data):
        return loader_of(data, sampler=DistributedSampler(range(22), of, number, shuffle=False))

    class Named(Curriculum):
        name = "a"

        def state_dict(self):
            return {"name": self.name}

        def load_state_dict(self, state):
            self.name = state["name"]

    loaders = [rank(number, 2, Named()) for number in range(2)]
    for loader in loaders:
        taken(iter(loader), 1)
    states = [loader.state_dict() for loader in loaders]
    data = Named()
    data.name = "b"
    three = rank(0, 3, data)
    three.load_state_dict(states)
    next(iter(three))
    assert data.name == "a"
    loaders[1].dataset.name = "c"
    states = [loader.state_dict() for loader in loaders]
    again = rank(1, 2, data)
    again.load_state_dict(states)
    next(iter(again))
    assert data.name == "c", "as many ranks have each their own"
    with pytest.raises(StateError, match="give each rank the state that it saved"):
        three.load_state_dict(states)


# --- as others save and load --------------------------------------------------------------------


@pytest.mark.small(1)
@pytest.mark.parametrize("workers", [0, 2])
def test_a_state_of_plain_values_survives_safe_loading_and_json(workers, tmp_path):
    for data in (Shuffled, ItsOwnIterator, Curriculum):
        first = loader_of(data(), num_workers=workers)
        batches = iter(first)
        taken(batches, 3)
        state = first.state_dict()
        rest = list(batches)
        torch.save(state, tmp_path / "state.pt")
        for loaded in (torch.load(tmp_path / "state.pt", weights_only=True), json.loads(json.dumps(state))):
            second = loader_of(data(), num_workers=workers)
            second.load_state_dict(loaded)
            assert list(second) == rest


def test_tensors_and_arrays_in_a_state_come_back_as_they_were():
    class Buffered(Shuffled):
        def state_dict(self):
            return {**super().state_dict(), "tensor": torch.arange(3), "array": np.arange(4)}

        def load_state_dict(self, state):
            super().load_state_dict(state)
            assert torch.equal(state["tensor"], torch.arange(3)) and (state["array"] == np.arange(4)).all()

    goes_on(lambda: loader_of(Buffered(), num_workers=size(1, 2)), epochs=size(1, 2))


class Pipe(IterDataPipe):
    def __iter__(self):
        yield from range(22)


def test_data_pipes_are_torchs_still():
    for workers in (0, 1):
        loader = loader_of(Pipe(), num_workers=workers)
        batches = iter(loader)
        taken(batches, 2)
        state = sent(loader.state_dict())
        rest = list(batches)
        assert flat(rest) == list(range(8, 22))
        resumed = loader_of(Pipe(), num_workers=workers)
        resumed.load_state_dict(state)
        assert list(resumed) == rest


def test_random_numbers_that_a_dataset_restores_stay_restored():
    """As of a dataset that saves torch's generator with its place."""
    torch.manual_seed(3)
    loader = loader_of(OfIterators())
    batches = iter(loader)
    taken(batches, 2)
    state = sent(loader.state_dict())
    rest, after = list(batches), torch.rand(3)
    torch.manual_seed(4)
    resumed = loader_of(OfIterators())
    resumed.load_state_dict(state)
    assert list(resumed) == rest
    assert torch.equal(torch.rand(3), after)


def test_nothing_of_all_that_is_left_behind():
    gc.collect()
    assert not multiprocessing.active_children()


def test_a_stream_with_a_state_warns_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loader = loader_of(Shuffled(), num_workers=1)
        batches = iter(loader)
        next(batches)
        resumed = loader_of(Shuffled(), num_workers=1)
        resumed.load_state_dict(loader.state_dict())
        assert len(list(resumed)) == 5
