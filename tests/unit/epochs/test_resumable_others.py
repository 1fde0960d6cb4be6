"""A loader goes on inside torch's own, and beside another job."""

import gc
import pickle
from itertools import chain

import numpy as np
import pytest
import torch
from resumable_jobs import (
    PICTURES,
    TRAIN,
    Numbers,
    assert_equal,
    batches_of,
    flat,
    numbers,
    pictures,
    sent,
    stock,
)
from torch.utils.data import (
    DistributedSampler,
    RandomSampler,
)

import seneca
from seneca.epochs import state as state_format


@pytest.mark.small(1)
@pytest.mark.parametrize("cache", [True, False])
@pytest.mark.parametrize("shuffle", [True, False])
def test_a_batch_sampler_goes_on_in_torchs_loader(name, cache, shuffle):
    name = name if cache else None
    for step in range(7):
        loader, batches = stock(name, shuffle=shuffle)
        taken = iter(loader)
        seen = [next(taken) for _ in range(step)] if step < 6 else list(taken)
        state = sent(batches.state_dict())
        rest = list(taken)
        resumed, of_resumed = stock(name, shuffle=shuffle)
        of_resumed.load_state_dict(state)
        if 0 < step < 6:
            assert list(resumed) == rest
            of_resumed.load_state_dict(state)
            other, of_other = stock(name, shuffle=shuffle, batch_size=5)
            of_other.load_state_dict(state)
            assert sorted(chain(*seen, *other)) == list(range(22))
        assert sorted(chain(*resumed)) == (list(range(22)) if step in (0, 6) else sorted(chain(*rest)))
        assert len(pickle.dumps(state)) < 1024


def test_batches_that_torch_has_drawn_ahead_are_taken_back(name):
    loader, batches = stock(name, workers=2)
    taken = iter(loader)
    seen = next(taken) + next(taken)
    assert state_format.unpacked(batches.state_dict()["done"]).sum() == 22, "all are drawn"
    state = batches.state_dict(yielded=2)
    resumed, of_resumed = stock(name, workers=2)
    of_resumed.load_state_dict(sent(state))
    taken = iter(resumed)
    seen += next(taken)
    last, of_last = stock(name)
    of_last.load_state_dict(sent(of_resumed.state_dict(yielded=1)))
    assert sorted([*seen, *chain(*last)]) == list(range(22))
    with pytest.raises(ValueError, match="9 batches are said to be delivered of 6"):
        batches.state_dict(yielded=9)


def test_only_so_many_batches_can_be_taken_back(name, monkeypatch):
    monkeypatch.setattr("seneca.epochs.resumable.REMEMBERED", 3)
    loader, batches = stock(name, dataset=Numbers(300), batch_size=2, batches_ahead=5)
    list(loader)
    assert state_format.unpacked(batches.state_dict(yielded=145)["done"]).sum() == 290
    with pytest.raises(ValueError, match=r"0 batches .* of 150 .* the last"):
        batches.state_dict(yielded=0)


def test_torchs_batch_sampler_over_a_plain_dataset_goes_on_in_its_place():
    def make():
        return seneca.OpportunisticBatchSampler(RandomSampler(range(22)), 4)

    first, second = make(), make()
    drawn = iter(first)
    seen = next(drawn) + next(drawn)
    second.load_state_dict(first.state_dict())
    assert list(second) == list(drawn)
    assert len(seen) == 8


# --- beside another job -------------------------------------------------------------------------


@pytest.mark.small(1)
@pytest.mark.parametrize("native", [True, False])
def test_beside_another_job_the_rest_is_what_the_run_would_have_delivered(picture_folder, name, native):
    """The job is cut off at every step, and goes on as another process would, beside the one that stayed."""
    count = PICTURES if native else 60

    def make(job, **options):
        terms = {"cache": name, "job": job, "split": "20-20-60", **options}
        return pictures(picture_folder, **terms) if native else numbers(Numbers(count), **terms)

    def take(loader, batches, others):
        ids = []
        for _, batch in zip(range(batches), batches_in := iter(loader), strict=False):
            ids += loader.last_indices.tolist() if native else batch
            next(others, None)
        del batches_in
        return ids

    substituted = 0
    for step in range(1, 5):
        cut, stays = make("a"), make("b", batch_size=13)
        others = iter(stays)
        next(others)  # is ahead, and takes other samples first
        seen = take(cut, step, others)
        state = sent(cut.state_dict())
        assert state["order"] == "seneca" and len(pickle.dumps(state)) < count / 8 + 1024
        assert np.flatnonzero(state_format.unpacked(state["done"])).tolist() == sorted(seen)
        resumed = make("c", batch_size=7, num_workers=1 if native else 0)
        resumed.load_state_dict(state)
        rest = take(resumed, 99, others)
        assert sorted(seen + rest) == list(range(count))
        substituted += cut.stats()["served"]["augmented"] + resumed.stats()["served"]["augmented"]
    assert substituted, "or nothing was put to the test"


@pytest.mark.small(1)
@pytest.mark.parametrize("ranks", [None, 1, 3])
@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("stays", [True, False])
def test_what_drop_last_drops_hangs_on_no_neighbour(picture_folder, name, native, ranks, stays):
    """Beside others the order is the job's own, and yet at every step the same samples are left."""

    def make(job):
        dataset = seneca.ImageFolder(picture_folder, TRAIN) if native else Numbers(PICTURES)
        terms = {"cache": name, "cache_bytes": "2MiB", "job": job, "collate_fn": None if native else list}
        if ranks:
            terms["sampler"] = DistributedSampler(dataset, ranks, 0)
        else:
            terms |= {"shuffle": True, "generator": torch.Generator().manual_seed(3)}
        return seneca.DataLoader(dataset, 7, drop_last=True, **terms)

    alone = flat(batches_of(make("alone")))
    neighbour = make("other")
    assert batches_of(neighbour)
    run = make("job")
    taken, states = [], [sent(run.state_dict())]
    for batch in run:
        taken += [run.last_indices.tolist() if native else batch]
        states.append(sent(run.state_dict()))
    assert sorted(chain(*taken)) == sorted(alone) and [*chain(*taken)] != alone
    if not stays:
        del neighbour
        gc.collect()
    for step, state in enumerate(states[:-1]):
        resumed = make("job again")
        resumed.load_state_dict([state] if ranks is None else state)
        assert sorted(flat(batches_of(resumed))) == sorted(chain(*taken[step:])), step


def test_share_none_is_the_same_to_the_bit_whatever_the_neighbours_and_the_workers(picture_folder, name):
    torch.manual_seed(4)
    alone = batches_of(pictures(picture_folder, cache=None))
    neighbour = iter(pictures(picture_folder, cache=name, job="other", batch_size=7))
    for workers in (0, 2):
        torch.manual_seed(4)
        loader = pictures(picture_folder, cache=name, share="none", num_workers=workers)
        batches = []
        for images, _ in loader:
            next(neighbour, None)
            batches.append((loader.last_indices.tolist(), images.clone()))
            if len(batches) == 2:
                state = loader.state_dict()
        assert_equal(batches, alone)
        resumed = pictures(picture_folder, cache=name, share="none", num_workers=2 - workers)
        resumed.load_state_dict(state)
        assert_equal(batches_of(resumed), alone[2:])
