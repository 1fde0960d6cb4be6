"""States of all ranks of a job, put together and dealt to as many or to others."""

from itertools import chain

import numpy as np
import pytest
import torch
from resumable_jobs import TRAIN, Numbers, batches_of, ids_of, numbers, ranks, sent, stock
from torch.utils.data import (
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    WeightedRandomSampler,
)

import seneca
from seneca import transforms as T
from seneca.epochs import state as state_format
from seneca.errors import StateError


@pytest.fixture(params=["native", "shared", "torch"])
def rank_loader(request, picture_folder, name):
    """``(make, count)`` of a rank's loader, given its sampler."""
    if request.param == "native":
        dataset = seneca.ImageFolder(picture_folder, TRAIN)
        dataset.samples = dataset.samples[:22]

        def make(sampler, **options):
            return seneca.DataLoader(
                dataset, sampler=sampler, **{"batch_size": 4, "cache": name, "cache_bytes": "2MiB", **options}
            )

        return make
    cache = {} if request.param == "torch" else {"cache": name, "job": "ranks"}
    return lambda sampler, **options: numbers(
        shuffle=None, sampler=sampler, **{"cache": None, **cache, **options}
    )


def rank_batches(loader, count=None):
    return ids_of(batches_of(loader, count))


@pytest.mark.small(1)
@pytest.mark.parametrize("shuffle", [True, False])
def test_each_rank_goes_on_at_every_step_with_its_own_state(rank_loader, shuffle):
    for step in range(1, 4):
        for first, second in zip(
            ranks(rank_loader, 2, shuffle=shuffle),
            ranks(rank_loader, 2, epoch=0, shuffle=shuffle),
            strict=True,
        ):
            whole = rank_batches(first)
            first.load_state_dict({})
            seen = rank_batches(first, step)
            assert seen == whole[:step]
            second.load_state_dict(sent(first.state_dict()))
            assert rank_batches(second) == whole[step:], "of the epoch that was set, which here nobody sets"


@pytest.mark.small(1)
@pytest.mark.parametrize("drop", [True, False])
@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 2), (2, 1), (1, 2), (4, 2)])
def test_the_states_of_all_ranks_go_on_in_another_number_of_them(rank_loader, before, after, drop):
    for step in (1, 2):
        first = ranks(rank_loader, before, drop=drop, batch_size=2)
        seen = [index for loader in first for batch in rank_batches(loader, step) for index in batch]
        states = [sent(loader.state_dict()) for loader in first]
        second = ranks(rank_loader, after, drop=drop, batch_size=3)
        for loader in second:
            loader.load_state_dict(states if drop else seneca.merge_states(states[::-1]))
        rest = [rank_batches(loader) for loader in second]
        assert len({sum(map(len, batches)) for batches in rest}) == 1, "each has as many"
        delivered = [index for batches in rest for batch in batches for index in batch]
        left = 22 - len(seen)
        assert set(seen).isdisjoint(delivered)
        assert len(set(delivered)) == (left - left % after if drop else left)
        assert len(delivered) - len(set(delivered)) == (0 if drop else -left % after)


@pytest.mark.small(1)
def test_what_was_dealt_anew_goes_on_and_is_dealt_again(rank_loader):
    states, seen = [], []
    for of in (2, 3, 3, 2, 1):
        loaders = ranks(rank_loader, of, batch_size=2)
        for loader in loaders:
            loader.load_state_dict(states or {})
        seen += [index for loader in loaders for batch in rank_batches(loader, 1) for index in batch]
        states = [sent(loader.state_dict()) for loader in loaders]
    assert len(seen) == 22 and len(set(seen)) == 22


@pytest.mark.small(1)
def test_ranks_and_a_single_process_take_over_from_each_other(rank_loader, name):
    dataset = Numbers()
    for sampler in (RandomSampler, SequentialSampler):
        first = ranks(rank_loader, 2)
        seen = [index for loader in first for batch in rank_batches(loader, 2) for index in batch]
        single = rank_loader(sampler=sampler(first[0].dataset))
        single.load_state_dict([loader.state_dict() for loader in first])
        seen += rank_batches(single, 1)[0]
        merged = seneca.merge_states([sent(single.state_dict())])
        for loader in (third := ranks(rank_loader, 2, shuffle=sampler is RandomSampler)):
            loader.load_state_dict(merged)
        rest = [index for loader in third for batch in rank_batches(loader) for index in batch]
        assert sorted({*seen, *rest}) == list(range(22)) and set(seen).isdisjoint(rest)
    assert len(dataset) == 22


@pytest.mark.small(1)
def test_one_ranks_state_alone_is_refused_where_ranks_differ(rank_loader):
    first = ranks(rank_loader, 2)
    states = [(rank_batches(loader, 1), loader.state_dict())[1] for loader in first]
    of_three = ranks(rank_loader, 3)[0]
    with pytest.raises(
        StateError, match=r"is of rank 1 of 2, and this is rank 0 of 3: .* list of .* all 2 ranks"
    ):
        of_three.load_state_dict(states[1])
    out_of_turn = states[0] | {"done": b"\x05"}
    with pytest.raises(StateError, match="rank 0 of 2, and this is rank 1 of 2"):
        ranks(rank_loader, 2)[1].load_state_dict(out_of_turn)
    with pytest.raises(StateError, match="divided among 2 ranks, and the states of ranks 1 are missing"):
        of_three.load_state_dict(states[:1])
    with pytest.raises(StateError, match=r"not of one step of one run: their epoch is [03] and 7"):
        of_three.load_state_dict([states[0], states[1] | {"epoch": 7}])
    with pytest.raises(StateError, match="states of ranks are a list"):
        of_three.load_state_dict([3])
    rank_batches(first[0])
    with pytest.raises(StateError, match="not of one step"):
        of_three.load_state_dict([first[0].state_dict(), states[1]])
    ahead = ranks(rank_loader, 2)[1]
    rank_batches(ahead, 2)
    for loader, at in zip(
        ranks(rank_loader, 2), (4, 8), strict=True
    ):  # as many as before: each takes its own
        loader.load_state_dict([ahead.state_dict(), states[0]])
        assert [*chain(*rank_batches(loader))] == [*loader.sampler][at:]


@pytest.mark.small(1)
@pytest.mark.parametrize(("workers", "begun"), [(0, False), (0, True), (1, True)])
@pytest.mark.parametrize("before", [2, 1])
def test_what_is_dealt_anew_can_be_saved_before_its_first_batch(rank_loader, before, workers, begun):
    first = ranks(rank_loader, before, batch_size=2)
    seen = [index for loader in first for batch in rank_batches(loader, 1) for index in batch]
    states = [sent(loader.state_dict()) for loader in first]
    second = ranks(rank_loader, 3, num_workers=workers)
    for loader in second:
        loader.load_state_dict(seneca.merge_states(states))
    walks = [iter(loader) for loader in second] if begun else []
    states = [sent(loader.state_dict()) for loader in second]
    del walks
    for after in (3, 2, 1):
        for saved in (states, seneca.merge_states(states[::-1]), states[1]):
            third = ranks(rank_loader, after)
            for loader in third:
                loader.load_state_dict(saved)
            rest = [index for loader in third for batch in rank_batches(loader) for index in batch]
            assert sorted({*seen, *rest}) == list(range(22)) and set(seen).isdisjoint(rest)
            assert len(rest) == -(-(22 - len(seen)) // after) * after


@pytest.mark.small(1)
@pytest.mark.parametrize("options", [{"share": "decoded"}, {"share": "none"}, {"cache": None}])
def test_one_ranks_state_does_for_all_where_each_has_delivered_so_many_in_order(rank_loader, options):
    """Lightning saves what rank 0 says, and gives it to every rank."""
    for step in (1, 2, 3):
        first = ranks(rank_loader, 2, **options)
        seen = [rank_batches(loader, step) for loader in first]
        state = sent(first[0].state_dict())
        for before, loader in zip(seen, ranks(rank_loader, 2), strict=True):
            loader.load_state_dict(state)
            whole = [*loader.sampler]
            assert [*chain(*before), *chain(*rank_batches(loader))] == whole
    for loader in ranks(rank_loader, 3):
        loader.load_state_dict(state)
        assert rank_batches(loader) == [], "it was the last batch"
        assert len([*chain(*rank_batches(loader))]) == 8


def test_one_ranks_state_does_for_all_in_an_order_that_is_not_random_or_of_equal_copies(picture_folder, name):
    same = seneca.ImageFolder(picture_folder, T.Compose([T.Resize(9), T.CenterCrop(8)]))
    options = {"cache": name, "cache_bytes": "2MiB", "job": "ranks"}
    kinds = [
        lambda sampler: numbers(shuffle=None, sampler=sampler, **options),
        lambda sampler: seneca.DataLoader(same, 4, sampler=sampler, **options | {"cache": name + "-same"}),
    ]
    for make, dataset, shuffle in zip(kinds, (Numbers(), same), (False, True), strict=True):
        loaders = [make(DistributedSampler(dataset, 2, rank, shuffle=shuffle)) for rank in (0, 0, 1)]
        rank_batches(loaders[0], 2)
        state = sent(loaders[0].state_dict())
        for loader in loaders[1:]:
            loader.load_state_dict(state)
            assert [*chain(*rank_batches(loader))] == [*loader.sampler][8:]


def refuses_alone(make, state, numbers_of_ranks=(2, 3), **options):
    for of in numbers_of_ranks:
        with pytest.raises(StateError, match=r'is of rank 0 of 2, .* list of .* share="decoded"'):
            ranks(make, of, **options)[1].load_state_dict(state)


@pytest.mark.small(1)
@pytest.mark.parametrize("rank_loader", ["native", "shared"], indirect=True)
@pytest.mark.parametrize("drop_last", [False, True])
def test_one_ranks_state_says_nothing_of_others_whose_samples_may_have_come_out_of_turn(
    rank_loader, drop_last
):
    """Its own have not: of the others' that is known only at the epoch's end."""
    last = 2 if drop_last else 3
    for step in range(1, last + 1):
        first = ranks(rank_loader, 2, drop_last=drop_last)
        assert len(rank_batches(first[0], step)) == step
        state = sent(first[0].state_dict())
        assert isinstance(state["done"], int)
        if step < last:
            refuses_alone(rank_loader, state)
            continue
        refuses_alone(rank_loader, state, (3,) if drop_last else (), drop_last=True)
        for loader in ranks(rank_loader, 2, drop_last=drop_last):
            loader.load_state_dict(state)
            assert rank_batches(loader) == [], "it was the last batch"
            assert len(rank_batches(loader)) == last


@pytest.mark.small(1)
def test_one_ranks_state_says_nothing_of_others_where_it_is_older_than_the_note(rank_loader):
    first = ranks(rank_loader, 2, share="none")[0]
    rank_batches(first, 1)
    state = first.state_dict()
    assert state.pop("in_turn")
    refuses_alone(rank_loader, state)


@pytest.mark.small(1)
@pytest.mark.parametrize("rank_loader", ["native", "shared"], indirect=True)
def test_what_went_on_without_sharing_may_have_begun_out_of_turn(rank_loader):
    state = {}
    for options in ({}, {"share": "none"}):
        loader = ranks(rank_loader, 2, **options)[0]
        loader.load_state_dict(state)
        rank_batches(loader, 1)
        state = sent(loader.state_dict())
    assert state["done"] == 8
    refuses_alone(rank_loader, state)


@pytest.mark.whole_size(
    shown_by="test_one_ranks_state_says_nothing_of_others_whose_samples_may_have_come_out_of_turn"
)
def test_one_ranks_state_says_nothing_of_workers_that_may_overtake_each_other():
    def make(sampler, **options):
        return numbers(shuffle=None, sampler=sampler, cache=None, **options)

    for in_order in (True, False):
        first = ranks(make, 2, in_order=in_order, num_workers=1)[0]
        rank_batches(first, 1)
        state = sent(first.state_dict())
        assert state["done"] == 4
        if in_order:
            ranks(make, 2)[1].load_state_dict(state)
        else:
            refuses_alone(make, state)


@pytest.mark.small(1)
@pytest.mark.filterwarnings("ignore:.*skipped a sample")
@pytest.mark.parametrize("bad", [0, 18])
def test_one_ranks_state_says_nothing_of_the_bad_samples_of_others(picture_folder, bad):
    """With 18 bad ones of 24 its first two batches go through all that it has, and two are yet to come."""
    dataset = seneca.ImageFolder(picture_folder, TRAIN)
    for index in range(8, 8 + 2 * bad, 2):
        with open(dataset.samples[index][0], "wb") as file:
            file.write(b"damaged")

    def make(sampler, **options):
        sampler = DistributedSampler(dataset, sampler.num_replicas, sampler.rank, shuffle=False)
        return seneca.DataLoader(dataset, 6, sampler=sampler, cache=None, on_error="skip")

    for step in range(1, 5):
        first = ranks(make, 2)[0]
        batches_of(first, step)
        state = sent(first.state_dict())
        assert state["done"] == (6 * step if not bad else 24 if step > 1 else state["done"])
        if step < 4:
            refuses_alone(make, state)
        else:
            for of in (2, 3):
                ranks(make, of)[1].load_state_dict(state)


def test_what_torch_has_yielded_of_a_portion_is_not_repeated_where_bad_samples_are_skipped(picture_folder):
    dataset = seneca.ImageFolder(picture_folder, TRAIN)
    sampler = DistributedSampler(dataset, 2, 0)
    by_torch = seneca.DataLoader(dataset, 5, sampler=sampler, cache=None, worker_init_fn=print)
    assert len(next(iter(by_torch))[1]) == 5
    loader = seneca.DataLoader(dataset, 5, sampler=sampler, cache=None, on_error="skip")
    loader.load_state_dict(sent(by_torch.state_dict()))
    assert [*chain(*rank_batches(loader))] == [*sampler][5:]
    assert loader.stats()["repeated"] == 0


def test_what_was_only_drawn_ends_no_portion(name):
    shared = seneca.SharedDataset(Numbers(), cache=name, cache_bytes="1MiB", job="ranks")

    def make(sampler):
        sampler = DistributedSampler(shared, sampler.num_replicas, sampler.rank)
        return seneca.OpportunisticBatchSampler(sampler, 4)

    batches = ranks(make, 2)[0]
    assert len(list(batches)) == 3
    drawn = iter(batches)
    assert len([next(drawn) for _ in range(3)]) == 3
    refuses_alone(make, batches.state_dict(yielded=2))
    ranks(make, 3)[1].load_state_dict(batches.state_dict(yielded=3))


def test_processes_to_which_batches_are_dealt_from_outside_go_on_alike(name, monkeypatch):
    """As accelerate deals them: each process has the same order, and alone the same again."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    (_, first), (_, second) = stock(name), stock(name)
    drawn = iter(first)
    seen = next(drawn) + next(drawn)
    second.load_state_dict(sent(first.state_dict()))
    rest = list(drawn)
    assert list(second) == rest
    monkeypatch.delenv("WORLD_SIZE")
    _, alone = stock(name)
    alone.load_state_dict(first.state_dict(yielded=2))
    assert list(alone) == rest
    drawn = iter(alone)
    seen = next(drawn)
    monkeypatch.setenv("WORLD_SIZE", "2")
    for _, other in (both := [stock(name), stock(name)]):
        other.load_state_dict(sent(alone.state_dict()))
    rest = [list(other) for _, other in both]
    assert rest[0] == rest[1] and sorted([*seen, *chain(*rest[0])]) == list(range(22))


def test_a_list_of_one_state_is_that_state_and_of_two_runs_no_state_at_all():
    loader = numbers(cache=None)
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    resumed = numbers(cache=None)
    resumed.load_state_dict([state])
    assert list(resumed) == list(batches)
    with pytest.raises(StateError, match="two of the states are of one rank"):
        resumed.load_state_dict([state, state])


def test_states_of_another_order_cannot_be_put_together():
    loader = numbers(cache=None, shuffle=None, sampler=WeightedRandomSampler(torch.ones(22), 25))
    batches_of(loader, 1)
    with pytest.raises(StateError, match="only the run's own WeightedRandomSampler can say"):
        seneca.merge_states([loader.state_dict()])
    between = numbers(cache=None).state_dict()
    assert seneca.merge_states([between, between]) == between


@pytest.mark.parametrize("generator", [True, False])
@pytest.mark.parametrize(
    ("source", "draws", "message"),
    [
        (22, {"replacement": True}, "22 times out of 22 samples with replacement"),
        (22, {"num_samples": 55}, "55 times out of 22 samples"),
        (22, {"num_samples": 11}, "11 times out of 22 samples"),
        (20, {}, "20 times out of 20 samples"),
    ],
)
def test_what_is_no_permutation_cannot_be_put_together(source, draws, message, generator):
    given = {"generator": torch.Generator().manual_seed(3)} if generator else {}
    sampler = RandomSampler(range(source), **draws, **given)
    loader = numbers(cache=None, shuffle=None, sampler=sampler)
    batches = iter(loader)
    next(batches)
    state = sent(loader.state_dict())
    with pytest.raises(StateError, match=f"own RandomSampler, which draws {message}, can say"):
        seneca.merge_states([state])
    rest = list(batches)
    loader.load_state_dict([state])
    assert list(loader) == rest, "it goes on itself"


@pytest.mark.parametrize("generator", [True, False])
def test_a_permutation_is_put_together_whether_its_state_says_so_or_is_older(generator):
    given = {"generator": torch.Generator().manual_seed(3)} if generator else {}
    loader = numbers(cache=None, shuffle=None, sampler=RandomSampler(range(22), **given))
    seen = next(iter(loader))
    state = sent(loader.state_dict())
    older = {name: value for name, value in state.items() if name != "draws"}
    assert len(older) == len(state) - 1
    for one in (state, older):
        merged = seneca.merge_states([one])
        assert np.flatnonzero(state_format.flags(merged["done"], 22)).tolist() == sorted(seen)


def test_what_a_stream_has_delivered_cannot_be_put_together():
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(range(20))

    loader = seneca.DataLoader(Stream(), 4, cache=None)
    assert next(iter(loader)).tolist() == [0, 1, 2, 3]
    state = loader.state_dict()
    with pytest.raises(StateError, match=r"IterableDataset, of a dataset without a length: .* as many ranks"):
        seneca.merge_states([state, state])
    loader.load_state_dict([state])
    assert next(batch.tolist() for batch in loader) == [4, 5, 6, 7]


@pytest.mark.filterwarnings("ignore:.*skipped a sample")
def test_ranks_that_skip_stay_even_when_they_go_on(picture_folder, name):
    dataset = seneca.ImageFolder(picture_folder, TRAIN)
    for index in (3, 5, 11, 40):
        with open(dataset.samples[index][0], "wb") as file:
            file.write(b"damaged")

    def make(rank):
        sampler = DistributedSampler(dataset, 2, rank, shuffle=False)
        return seneca.DataLoader(dataset, 5, sampler=sampler, cache=None, on_error="skip")

    for step in (1, 3, 4):
        sizes = []
        for rank in range(2):
            first, second = make(rank), make(rank)
            before = batches_of(first, step)
            second.load_state_dict(sent(first.state_dict()))
            sizes.append([len(ids) for ids in ids_of(before + batches_of(second))])
        assert sizes == [[5, 5, 5, 5, 4]] * 2
