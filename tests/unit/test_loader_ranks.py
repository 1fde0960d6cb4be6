"""Ranks of one job: what of an epoch is whose, and what a job is served once."""

import gc
import itertools
import os
import pickle
import warnings

import numpy as np
import pytest
import simplejpeg
import torch
from torch.utils.data import DataLoader, Dataset, DistributedSampler, Subset

import seneca
from seneca import loader as loader_module
from seneca import transforms as T
from seneca._runtime import distributed as ranks
from seneca.epochs.plan import shard_of
from seneca.workers.terms import PlannedBatch

pytestmark = pytest.mark.usefixtures("alone")

MEETING = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
# No two copies are alike by chance, as crops of small pictures are.
TRAIN = T.Compose([T.RandomResizedCrop(16), T.ColorJitter(0.4, 0.4, 0.4), T.RandomHorizontalFlip()])


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """48 small ones of noise, not to be written to."""
    folder = tmp_path_factory.mktemp("pictures")
    rng = np.random.default_rng(7)
    for i in range(48):
        path = folder / f"class{i % 4}" / f"{i:02d}.jpg"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(simplejpeg.encode_jpeg(rng.integers(0, 256, (24 + i % 9, 32, 3), np.uint8), 80))
    return folder


class Drawn(Dataset):
    """Each item with a random number, which distinguishes one copy from another."""

    def __init__(self, count=23):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return index, float(torch.rand(()))


def opaque(_):
    return Drawn()


def native(folder):
    return seneca.ImageFolder(folder, TRAIN)


def part(folder):
    """As a training set that was split off."""
    return Subset(native(folder), [*range(40, 3, -1)])


def dealt(dataset, rank, size, *, seed=5, drop=False, shuffle=True, **options):
    """A rank's loader."""
    sampler = DistributedSampler(dataset, size, rank, shuffle, seed=seed, drop_last=drop)
    return loader_of(dataset, sampler=sampler, **options)


def loader_of(dataset, **options):
    options = {"batch_size": 4, "cache_bytes": "2MiB", "split": "20-20-60"} | options
    if isinstance(dataset, Drawn):
        options["collate_fn"] = list
    return seneca.DataLoader(dataset, **options)


def batches_of(loader):
    """Yields the indices of each batch, and what distinguishes its copies from others."""
    own = getattr(loader.dataset, "indices", None)
    index_of = None if own is None else {sample: index for index, sample in enumerate(own)}
    for batch in loader:
        if isinstance(loader.dataset, Drawn):
            indices, copies = zip(*batch, strict=True)
        else:
            indices = loader.last_indices.tolist()
            copies = [image.numpy().tobytes() for image in batch[0]]
        yield [i if index_of is None else index_of[i] for i in indices], list(copies)


def indices_of(loader):
    return [indices for indices, _ in batches_of(loader)]


def flat(batches):
    return [item for batch in batches for item in batch]


def torch_s(loader):
    """What torch's own loader would load with this sampler."""
    whole, options = range(len(loader.dataset)), {"drop_last": loader.drop_last, "collate_fn": list}
    return list(DataLoader(whole, loader.batch_size, sampler=loader.sampler, **options))


@pytest.mark.small(2)
@pytest.mark.parametrize("make", [opaque, native, part])
@pytest.mark.parametrize("options", [{"cache": None}, {"share": "none"}, {}, {"drop_last": True}])
@pytest.mark.parametrize("shuffle", [False, True])
def test_a_rank_that_is_alone_has_torch_s_order_and_follows_its_epochs(
    pictures, name, make, options, shuffle
):
    loader = dealt(make(pictures), 1, 3, shuffle=shuffle, **{"cache": name} | options)
    first = indices_of(loader)
    assert first == torch_s(loader) == indices_of(loader), "without set_epoch as before"
    loader.sampler.set_epoch(1)
    assert indices_of(loader) == torch_s(loader)
    assert (indices_of(loader) != first) == shuffle


@pytest.mark.small(1)
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("make", [opaque, native])
def test_workers_that_stay_follow_the_epoch(pictures, name, make, workers):
    loader = dealt(make(pictures), 0, 2, cache=name, num_workers=workers, persistent_workers=True)
    orders = []
    for epoch in (0, 4, 4):
        loader.sampler.set_epoch(epoch)
        orders.append(indices_of(loader))
        assert orders[-1] == torch_s(loader)
    assert orders[0] != orders[1] == orders[2]
    loader._iterator = None


def many(_):
    return Drawn(151)


@pytest.mark.small(1)
@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("make", [many, native, part])
def test_beside_another_job_ranks_have_their_portions_and_share(pictures, name, make, drop):
    """Two ranks and another job, a batch of each in turn: three loaders of one process."""
    dataset = make(pictures)
    both = [dealt(dataset, rank, 2, cache=name, job="ranks", drop=drop) for rank in range(2)]
    other = dealt(dataset, 0, 1, cache=name, job="other", batch_size=8)
    copies = {"ranks": [], "other": []}
    for epoch in range(3):
        given = [[], [], []]
        for loader in (*both, other):
            loader.sampler.set_epoch(epoch)
        walks = [batches_of(loader) for loader in (*both, other)]
        for turn in itertools.zip_longest(*walks):
            for k, (indices, marks) in enumerate(pair or ([], []) for pair in turn):
                given[k] += indices
                copies["ranks" if k < 2 else "other"] += marks
        for rank in range(2):
            assert sorted(given[rank]) == sorted(shard_of(both[rank].sampler, len(dataset)).indices())
        assert sorted(given[2]) == list(range(len(dataset)))
    for of_job in copies.values():
        assert len(set(of_job)) == len(of_job), "no copy reaches a job twice"
    assert len(set(copies["ranks"]) & set(copies["other"])) > len(dataset)
    stats = [loader.stats() for loader in (*both, other)]
    assert sum(s["prepared"] for s in stats) < 0.7 * sum(s["delivered"] for s in stats)
    assert stats[0]["cache"]["jobs"] == 2


@pytest.mark.small(1)
@pytest.mark.parametrize("make", [many, native, part])
@pytest.mark.parametrize("size", [None, 1, 3])
def test_jobs_of_one_seed_have_one_order_only_where_they_do_not_share(pictures, name, make, size):
    """Else one that is an epoch behind prepares for the other what that had, in the order that it had."""

    def job(number, **options):
        options |= {"cache": name, "job": f"job {number}"}
        if size is None:
            return loader_of(
                make(pictures), shuffle=True, generator=torch.Generator().manual_seed(3), **options
            )
        return dealt(make(pictures), 0, size, **options)

    apart, first, second = job(0, share="decoded"), job(1), job(2)
    assert indices_of(apart)  # and is there to the end
    alone = flat(indices_of(first))
    state, beside = second.state_dict(), flat(indices_of(second))
    assert sorted(beside) == sorted(alone)
    pairs = [{frozenset(pair) for pair in itertools.pairwise(order)} for order in (alone, beside)]
    assert len(pairs[0] & pairs[1]) < 12, "2 are to be expected"
    del first
    gc.collect()
    second.load_state_dict(state)
    assert flat(indices_of(second)) == alone


def test_what_one_rank_has_read_serves_all_ranks_and_epochs(pictures, name):
    dataset = native(pictures)
    both = [dealt(dataset, rank, 2, cache=name, job="one", split="100-0-0") for rank in range(2)]
    for epoch in range(3):
        for loader in both:
            loader.sampler.set_epoch(epoch)
            indices_of(loader)
    stats = [loader.stats() for loader in both]
    assert sum(s["read_bytes"] for s in stats) == dataset.total_bytes()
    assert sum(s["served"]["encoded"] for s in stats) == 2 * 48


def test_ranks_of_one_job_make_nothing_for_each_other(name):
    """Whole epochs in each, as with shuffle=True: a copy would reach the job twice."""
    first, second = (dealt(Drawn(), 0, 1, seed=k, cache=name, job="one") for k in range(2))
    for _ in zip(batches_of(first), batches_of(second), strict=True):
        pass
    assert first.stats()["staged"] == second.stats()["staged"] == 0
    assert first.stats()["cache"]["jobs"] == 1


def test_a_planned_batch_sampler_deals_out_as_well(name):
    shared = [seneca.SharedDataset(Drawn(), cache=name, cache_bytes="2MiB", job="mine") for _ in range(2)]
    given = []
    for rank in range(2):
        sampler = DistributedSampler(shared[rank], 2, rank)
        batches = seneca.OpportunisticBatchSampler(sampler, 4)
        batches.set_epoch(2)
        loader = DataLoader(shared[rank], batch_sampler=batches, collate_fn=list)
        assert all(isinstance(batch, PlannedBatch) for batch in batches)
        given.append([index for index, _ in flat(loader)])
        assert sampler.epoch == 2 and given[-1] == list(sampler)
    assert len(given[0]) == len(given[1]) == 12 and set(flat(given)) == set(range(23))


def test_a_loader_whose_ranks_come_out_as_nothing_is_empty(pictures, name):
    few = Subset(native(pictures), [4, 2])
    loader = dealt(few, 1, 3, drop=True, cache=name)
    assert indices_of(loader) == [] and len(loader) == 0
    assert indices_of(dealt(few, 2, 3, cache=name)) == torch_s(dealt(few, 2, 3, cache=name))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.filterwarnings("ignore:seneca. skipped")
def test_ranks_that_skip_have_as_many_batches_and_say_what_they_repeat(picture_folder, drop_last, workers):
    """24 samples each; bad are two of rank 0 in its middle, and of rank 1 all but the first two."""
    dataset = native(picture_folder)
    for index in (20, 22, *range(5, 48, 2)):
        os.truncate(dataset.samples[index][0], 100)
    for rank, bad in ((0, 2), (1, 22)):
        options = {"batch_size": 5, "drop_last": drop_last, "num_workers": workers, "cache": None}
        loader = dealt(dataset, rank, 2, shuffle=False, on_error="skip", **options)
        batches, marks = zip(*batches_of(loader), strict=True)
        assert [len(batch) for batch in batches] == [5, 5, 5, 5] + ([] if drop_last else [4])
        good = set(range(rank, 48, 2)) - {20, 22, *range(5, 48, 2)}
        assert set(flat(batches)) <= good and len(set(flat(batches))) == min(len(good), len(flat(batches)))
        by_index = dict(zip(flat(batches), flat(marks), strict=True))
        assert [by_index[i] for i in flat(batches)] == flat(marks), "what is repeated is what it says it is"
        stats = loader.stats()
        repeated = max(0, len(flat(batches)) - len(good))
        assert (stats["skipped"], stats["repeated"]) == (bad, repeated)
        assert stats["delivered"] == len(flat(batches))


@pytest.mark.filterwarnings("ignore:seneca. skipped")
def test_a_rank_whose_first_samples_are_bad_repeats_one_that_comes_later(picture_folder):
    dataset = Subset(native(picture_folder), range(8))
    for index in range(6):
        os.truncate(dataset.dataset.samples[index][0], 100)
    loader = dealt(dataset, 0, 2, batch_size=2, shuffle=False, on_error="skip", cache=None, num_workers=1)
    assert indices_of(loader) == [[6, 6], [6, 6]] and loader.stats()["repeated"] == 3


def test_a_rank_without_any_good_sample_raises_what_is_wrong(picture_folder):
    dataset = Subset(native(picture_folder), range(8))
    for index in range(0, 8, 2):
        os.truncate(dataset.dataset.samples[index][0], 100)
    loader = dealt(dataset, 0, 2, batch_size=2, shuffle=False, on_error="skip", cache=None)
    walk = iter(loader)
    with pytest.warns(UserWarning, match="skipped"), pytest.raises(seneca.errors.DecodeError, match=r"\.jpg"):
        next(walk)
    assert list(walk) == []  # what was examined in its place is not delivered either


def test_one_process_that_skips_repeats_nothing(picture_folder):
    dataset = Subset(native(picture_folder), range(8))
    os.truncate(dataset.dataset.samples[3][0], 100)
    loader = seneca.DataLoader(dataset, 8, on_error="skip", cache=None)
    with pytest.warns(UserWarning, match="skipped"):
        assert indices_of(loader) == [[0, 1, 2, 4, 5, 6, 7]]
    assert loader.stats()["repeated"] == 0


@pytest.mark.filterwarnings("ignore:seneca. each of the 2 processes")
def test_every_rank_that_only_shuffles_has_all_samples_and_one_says_so(name, monkeypatch):
    for variable, value in MEETING.items():
        monkeypatch.setenv(variable, value)
    torch.manual_seed(1)
    alone = indices_of(seneca.DataLoader(Drawn(), 4, shuffle=True, collate_fn=list, cache=None))
    loader_module._warn_of_undivided_ranks.cache_clear()
    loader = seneca.DataLoader(
        Drawn(), 4, shuffle=True, collate_fn=list, cache=name, cache_bytes="2MiB", share="none"
    )
    torch.manual_seed(1)
    with pytest.warns(UserWarning, match="each of the 2 processes .*DistributedSampler"):
        assert indices_of(loader) == alone
    silent = [
        (seneca.DataLoader(Drawn(), 4, shuffle=True, cache=None), {}),
        (seneca.DataLoader(Drawn(), 4, cache=None), {}),
        (dealt(Drawn(), 0, 2, cache=None), {}),
        (seneca.DataLoader(Subset(Drawn(), range(5)), 4, shuffle=True, cache=None), {}),
        (seneca.DataLoader(Drawn(), 4, shuffle=True, cache=None), {"RANK": "1"}),
    ]
    for k, (other, environment) in enumerate(silent):
        if k > 0:
            loader_module._warn_of_undivided_ranks.cache_clear()
        for variable, value in environment.items():
            monkeypatch.setenv(variable, value)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            list(other)


@pytest.mark.filterwarnings("ignore:seneca. each of the 2 processes")
def test_orders_of_ranks_that_only_shuffle_are_their_own(name, monkeypatch):
    """Not one permutation that somebody else would deal out: nobody does."""
    for variable, value in MEETING.items():
        monkeypatch.setenv(variable, value)
    orders = []
    for rank in range(2):
        torch.manual_seed(rank)
        loader = seneca.DataLoader(Drawn(), 4, shuffle=True, collate_fn=list, cache=name, cache_bytes="2MiB")
        orders.append(flat(indices_of(loader)))
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(23)) and orders[0] != orders[1]


def test_a_job_that_is_named_beside_a_cache_made_by_hand_joins_it_for_itself(pictures, name):
    dataset = native(pictures)
    with seneca.SampleCache.create(name, dataset, cache_bytes="2MiB") as by_hand:
        assert by_hand.job == ranks.job_key()
        own = dealt(dataset, 0, 2, cache=by_hand)
        named = dealt(dataset, 1, 2, cache=by_hand, job="mine")
        assert len(flat(indices_of(own))) == len(flat(indices_of(named))) == 24
        assert own._session.cache is by_hand
        assert named._session.cache is not by_hand and named._session.cache.job == ranks.job_key("mine")
        assert own.stats()["cache"]["jobs"] == 2
        del named
        gc.collect()


def test_a_loader_keeps_its_job_in_a_pickle(name):
    loader = pickle.loads(
        pickle.dumps(seneca.DataLoader(Drawn(), cache=name, job="mine", cache_bytes="2MiB"))
    )
    assert loader.job == "mine"
    shared = pickle.loads(
        pickle.dumps(seneca.SharedDataset(Drawn(), cache=name, job="mine", cache_bytes="2MiB"))
    )
    assert shared.job == "mine" and shared._job_key == ranks.job_key("mine")


def test_an_order_of_many_samples_is_not_made_one_by_one():
    """What a rank of 14 million samples begins with is arrays."""
    shard = shard_of(DistributedSampler(np.empty(100_001, np.uint8), 4, 3, seed=2), 100_001)
    indices = shard.indices()
    assert isinstance(indices, np.ndarray) and indices.dtype == np.int64 and len(indices) == 25_001
