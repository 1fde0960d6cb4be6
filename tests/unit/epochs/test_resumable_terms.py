"""An epoch goes on under other terms: other pieces, back ends, subsets, or in plain torch."""

import secrets
from itertools import chain

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from resumable_jobs import PICTURES, TRAIN, Numbers, batches_of, flat, ids_of, numbers, pictures, sent
from sizes import size
from torch.utils.data import ConcatDataset, RandomSampler, Subset, SubsetRandomSampler

import seneca
from seneca import fallback
from seneca.epochs import state as state_format
from seneca.errors import StateError

# --- the same epoch under other terms -----------------------------------------------------------


@settings(
    max_examples=size(10, 25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_an_epoch_that_is_cut_into_pieces_delivers_each_sample_once(picture_folder, data):
    """Each piece has a batch size, a number of threads and terms of sharing of its own."""
    native = data.draw(st.booleans(), label="native")
    shuffle = data.draw(st.booleans(), label="shuffle")
    count, delivered, state = PICTURES if native else 22, [], {}
    name = "unit-" + secrets.token_hex(6)
    while True:
        options = {
            "shuffle": shuffle,
            "batch_size": data.draw(st.integers(1, 25), label="batch_size"),
            "cache": data.draw(st.sampled_from([name, None]), label="cache"),
            "drop_last": data.draw(st.booleans(), label="drop_last"),
            "share": data.draw(st.sampled_from(["augmented", "none"]), label="share"),
        }
        if native:
            options["num_workers"] = data.draw(st.integers(0, 2), label="threads")
            loader = pictures(picture_folder, **options)
        else:
            loader = numbers(**options)
        loader.load_state_dict(state)
        take = data.draw(st.none() | st.integers(1, 4), label="batches")
        batches = batches_of(loader, take)
        assert {len(ids) for ids in ids_of(batches)[: None if options["drop_last"] else -1]} <= {
            options["batch_size"]
        }
        delivered += flat(batches)
        state = sent(loader.state_dict())
        if "order" not in state:
            break
    assert len(set(delivered)) == len(delivered)
    assert len(delivered) > count - options["batch_size"] if options["drop_last"] else len(delivered) == count


def test_with_drop_last_the_rest_is_as_many_whole_batches_as_it_fills():
    loader = numbers(cache=None, batch_size=5, drop_last=True)
    seen = flat(batches_of(loader, 2))
    smaller = numbers(cache=None, batch_size=4, drop_last=True)
    smaller.load_state_dict(loader.state_dict())
    rest = batches_of(smaller)
    assert [len(ids) for ids in ids_of(rest)] == [4, 4, 4], (
        "22 - 10; two of them the first would have dropped"
    )
    assert len(set(seen + flat(rest))) == 22


@pytest.mark.small(1)
@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("then", [{}, {"share": "none"}, {"cache": None}])
def test_who_shared_and_shares_no_more_and_the_other_way_round(picture_folder, name, native, then):
    for before, after in (
        ({"cache": name}, {"cache": name, **then}),
        ({"cache": name, **then}, {"cache": name}),
    ):
        first, second = (
            pictures(picture_folder, **options) if native else numbers(**options)
            for options in (before, after)
        )
        seen = flat(batches_of(first, 3))
        second.load_state_dict(first.state_dict())
        rest = flat(batches_of(second))
        assert sorted(seen + rest) == list(range(PICTURES if native else 22))
        assert sorted(flat(batches_of(second))) == sorted(seen + rest)


@pytest.mark.small(1)
@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("then", [{}, {"share": "none"}, {"cache": None}])
def test_the_rest_has_one_order_however_often_it_is_resumed(picture_folder, name, native, then):
    def go_on(state):
        options = {"cache": name, **then}
        loader = pictures(picture_folder, **options) if native else numbers(**options)
        loader.load_state_dict(state)
        return loader

    first = pictures(picture_folder, cache=name) if native else numbers(cache=name)
    assert batches_of(first, 1)
    rest = flat(batches_of(go_on(first.state_dict())))
    again = go_on(first.state_dict())
    taken = flat(batches_of(again, 2))
    assert taken + flat(batches_of(go_on(again.state_dict()))) == rest


def test_from_threads_to_torchs_workers_and_back(picture_folder, name):
    native = pictures(picture_folder, cache=name)
    seen = flat(batches_of(native, 2))
    of_torch = pictures(
        picture_folder,
        cache=name,
        collate_fn=lambda items: torch.utils.data.default_collate(items),
        worker_init_fn=print,
    )
    assert "loaded by torch's workers" in of_torch.explain()
    of_torch.load_state_dict(native.state_dict())
    next(iter(of_torch))
    state = of_torch.state_dict()
    by_both = np.flatnonzero(state_format.unpacked(state["done"])).tolist()
    assert len(by_both) == 30 and {*seen} < {*by_both}
    native.load_state_dict(state)
    assert sorted(by_both + flat(batches_of(native))) == list(range(PICTURES))


def test_a_subset_goes_on_as_the_subset_that_it_is(picture_folder, name):
    dataset = seneca.ImageFolder(picture_folder, TRAIN)
    indices = np.random.default_rng(1).permutation(PICTURES)[:30].tolist()
    for cache in (name, None):
        first, second, other = (
            seneca.DataLoader(
                torch.utils.data.Subset(dataset, chosen), 8, shuffle=True, cache=cache, cache_bytes="2MiB"
            )
            for chosen in (indices, indices, indices[1:] + indices[:1])
        )
        seen = flat(batches_of(first, 2))
        state = sent(first.state_dict())
        second.load_state_dict(state)
        assert sorted(seen + flat(batches_of(second))) == sorted(indices)
        with pytest.raises(StateError, match="its samples have changed"):
            other.load_state_dict(state)


def of_subset(kind, indices, loader_class=seneca.DataLoader, **options):
    data = Numbers(40) if kind != "opaque" else Opaque(40)
    sampler = None
    if kind == "sampler":
        sampler = SubsetRandomSampler(indices)
    elif kind == "concatenated":
        data = ConcatDataset([Subset(data, indices[:5]), Subset(data, indices[5:])])
    elif kind == "nested":
        data = Subset(Subset(data, range(40)), indices)
    elif kind == "nested within":
        data = Subset(Subset(data, indices), range(20))
    else:
        data = Subset(data, torch.tensor(indices) if kind == "tensor" else indices)
    return loader_class(data, 4, sampler=sampler, **options)


class Opaque(Numbers):
    """It holds what cannot be fingerprinted."""

    def __init__(self, count):
        super().__init__(count)
        self.made_by = (k for k in ())


@pytest.mark.parametrize("loader_class", [seneca.DataLoader, fallback.DataLoader])
@pytest.mark.parametrize(
    "kind", ["plain", "opaque", "tensor", "nested", "nested within", "concatenated", "sampler"]
)
def test_a_state_is_refused_where_a_subset_has_other_indices(kind, loader_class):
    """Without a cache, and for an opaque dataset, no fingerprint of the samples says it."""
    own, other = list(range(0, 40, 2)), list(range(1, 40, 2))
    first = of_subset(kind, own, loader_class, cache=None)
    next(iter(first))
    state = sent(first.state_dict())
    of_subset(kind, own, loader_class, cache=None).load_state_dict(state)
    refusing = of_subset(kind, other, loader_class, cache=None)
    with pytest.raises(StateError, match="with other indices"):
        refusing.load_state_dict(state)
    refusing.load_state_dict({**state, "subset": None})
    refusing.load_state_dict({name: state[name] for name in state if name != "subset"})  # of an older version
    if kind != "sampler":
        loader_class(range(20), 4, cache=None).load_state_dict(state)  # not known to be another


# --- where Seneca is off ------------------------------------------------------------------------


@pytest.mark.small(1)
@pytest.mark.filterwarnings("ignore:.*plain torch")
@pytest.mark.parametrize("workers", [0, 2])
def test_plain_torch_goes_on_too_and_takes_what_seneca_has_saved(name, workers):
    def off(**options):
        return fallback.DataLoader(
            Numbers(), 4, shuffle=True, collate_fn=list, num_workers=workers, **options
        )

    first, second = off(), off()
    taken = iter(first)
    seen = next(taken)
    second.load_state_dict(sent(first.state_dict()))
    assert list(second) == list(taken)
    assert len(list(chain(*second))) == 22
    shared = numbers(cache=name)
    seen = flat(batches_of(shared, 2))
    second.load_state_dict(shared.state_dict())
    assert sorted([*seen, *chain(*second)]) == list(range(22))
    batches = fallback.OpportunisticBatchSampler(RandomSampler(range(22)), 4, seed=3)
    drawn = iter(batches)
    seen = next(drawn)
    resumed = fallback.OpportunisticBatchSampler(RandomSampler(range(22)), 4)
    resumed.load_state_dict(batches.state_dict())
    assert sorted([*seen, *chain(*resumed)]) == list(range(22))
