"""Items of any dataset, shared between this process and another job."""

import os
import pickle

import numpy as np
import pytest
import torch
from engine import NONE
from PIL import Image
from shared_items import BATCH, Drawn, Job, Sounds, assert_each_once, flat, inside, load
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SequentialSampler, Subset

import seneca
from seneca.identity import fingerprint
from seneca.workers.dataset import SharedDataset
from seneca.workers.sampler import OpportunisticBatchSampler
from seneca.workers.terms import PlannedBatch


def mark_one(item):
    return *item, "one"


def mark_two(item):
    return *item, "two"


def stock(shared, *, sampler=None, **options):
    """Torch's own loader, with a sampler that plans or with one of torch's."""
    if sampler is None:
        sampler = OpportunisticBatchSampler(RandomSampler(shared), BATCH)
    return DataLoader(shared, batch_sampler=sampler, collate_fn=list, **options)


# What one job makes, another is served


@pytest.mark.small(1)
@pytest.mark.parametrize("dataset", [Drawn(), Sounds()], ids=["opaque", "staged"])
@pytest.mark.parametrize("workers", [0, 1])
def test_what_one_job_makes_another_is_served_once(dataset, workers, name):
    loader = load(dataset, name, num_workers=workers)
    with Job(dataset, name) as other:
        ours, theirs = [], []
        for _ in range(2):
            other.begin()
            batches = iter(loader)
            ours.append(next(batches))  # how much room an item takes is not known before
            ours += batches
            theirs += other.take(None)
        ours = flat(ours)
        stats, other_stats = loader.stats(), other.stats()
        for items in (ours, theirs):
            assert_each_once(items[:24], 24)
            assert_each_once(items[24:], 24)
            assert len(set(items)) == 48, "no copy comes twice"
        assert len(set(ours) & set(theirs)) == other_stats["served"]["augmented"] == stats["staged"] >= 24
        assert stats["prepared"] == 48 and other_stats["prepared"] == 48 - stats["staged"]
        assert stats["delivered"] == other_stats["delivered"] == 48
        assert inside(name)["writing"] == 0 and inside(name)["payloads"]["augmented"] == 0


@pytest.mark.whole_size(shown_by="test_what_one_job_makes_another_is_served_once")
def test_subsets_share_what_they_have_in_common(name):
    parent = Drawn(24)
    loader = load(Subset(parent, range(16)), name)
    with Job(Subset(Subset(parent, range(4, 24)), range(20)), name) as other:
        other.begin()
        ours, theirs = flat(loader), other.take(None)
        assert_each_once(ours, 16)
        assert sorted(item[0] for item in theirs) == list(range(4, 24))
        common = set(ours) & set(theirs)
        assert common and {item[0] for item in common} <= set(range(4, 16))


@pytest.mark.small(1)
@pytest.mark.parametrize(("share", "served"), [("augmented", True), ("decoded", False), ("none", False)])
def test_share_says_what_is_shared(share, served, name):
    loader = load(Sounds(), name, share=share, split="0-50-50")
    with Job(Sounds(), name, share=share) as other:
        other.begin()
        ours, theirs = flat(loader), other.take(None)
        assert_each_once(theirs, 24)
        assert bool(set(ours) & set(theirs)) is served
        assert other.stats()["served"]["decoded" if not served else "augmented"] > 0


def test_jobs_with_other_transforms_share_no_items(name):
    loader = load(Drawn(24, mark_one), name)
    with Job(Drawn(24, mark_two), name) as other:
        other.begin()
        ours, theirs = flat(loader), other.take(None)
        assert {item[2] for item in ours} == {"one"} and {item[2] for item in theirs} == {"two"}
        assert inside(name)["jobs"] >= 2, "one cache, all the same"


def test_what_is_kept_serves_the_next_epoch_and_other_jobs(name):
    loader = load(Sounds(), name, split="0-100-0", share="decoded")
    list(loader)
    assert loader.stats()["read_bytes"] == 24 * 9
    assert inside(name)["payloads"] == {"encoded": 0, "recoded": 0, "decoded": 24, "augmented": 0}
    list(loader)
    with Job(Sounds(), name, share="decoded") as other:
        other.begin()
        assert_each_once(other.take(None), 24)
        for stats, storage in ((loader.stats(), 24), (other.stats(), 0)):
            assert stats["served"] == {
                "storage": storage,
                "encoded": 0,
                "recoded": 0,
                "decoded": 24,
                "augmented": 0,
            }
        assert other.stats()["read_bytes"] == 0
    encoded = load(Sounds(), name + "e", split="100-0-0")
    for _ in range(2):
        assert_each_once(flat(encoded), 24)
    assert encoded.stats()["served"]["encoded"] == 24


# Never another's bytes


@pytest.mark.small(1)
@pytest.mark.parametrize(
    "options",
    [{}, {"num_workers": 1}, {"num_workers": 1, "persistent_workers": True}],
    ids=["here", "workers", "persistent"],
)
def test_a_transform_that_is_changed_between_epochs_is_followed(options, name):
    """The other job goes on making copies of the first kind, in the cache that both have."""
    dataset = Drawn(24, mark_one)
    loader = load(dataset, name, **options)
    with Job(Drawn(24, mark_one), name) as other:
        for mark in (mark_one, mark_two, mark_one):
            dataset.transform = mark
            other.begin()
            batches = iter(loader)
            theirs = other.take(3)
            ours = flat(batches)
            theirs += other.take(None)
            assert_each_once(ours, 24)
            has_now = mark_one if "persistent_workers" in options else mark  # as torch's workers that stay
            assert {item[2] for item in ours} == {has_now.__name__.removeprefix("mark_")}
            assert {item[2] for item in theirs} == {"one"}
            if has_now is mark_two:
                assert not set(ours) & set(theirs)
            else:
                assert set(ours) & set(theirs)


@pytest.mark.whole_size(shown_by="test_a_transform_that_is_changed_between_epochs_is_followed")
@pytest.mark.parametrize("plans", [True, False], ids=["planned", "torch's sampler"])
@pytest.mark.parametrize("explained", [True, False])
def test_a_transform_that_is_changed_is_followed_in_torchs_loader(plans, explained, name):
    dataset = Drawn(24, mark_one)
    shared = SharedDataset(dataset, cache=name, cache_bytes="1MiB")
    loader = stock(shared, sampler=None if plans else BatchSampler(SequentialSampler(shared), BATCH, False))
    with Job(Drawn(24, mark_one), name) as other:
        for mark in (mark_one, mark_two):
            if explained:
                assert "AUGMENTED" in shared.explain()
            dataset.transform = mark
            other.begin()
            other.take(1)
            ours = flat(loader)
            theirs = other.take(None)
            assert_each_once(ours, 24)
            assert {item[2] for item in ours} == {mark.__name__.removeprefix("mark_")}
            assert {item[2] for item in theirs} == {"one"}


def levels(item):
    return int(np.asarray(item).mean())


@pytest.fixture
def flat_pictures(tmp_path):
    """Eight pictures of one level each."""
    (tmp_path / "flat" / "only").mkdir(parents=True)
    for i in range(8):
        paint(tmp_path / "flat" / "only" / f"{i}.png", 10 * i)
    return tmp_path / "flat"


def paint(path, level):
    Image.new("RGB", (20, 20), (level,) * 3).save(path, compress_level=0)  # of one size, whatever the level


@pytest.mark.small(1)
@pytest.mark.parametrize("how", ["seneca", "persistent", "stock", "stock persistent"])
@pytest.mark.parametrize("split", ["100-0-0", "0-100-0"])
def test_a_file_that_is_changed_between_epochs_is_read_again(flat_pictures, how, split, name):
    """Another job keeps the old cache alive, and what it has kept of the file."""
    dataset = seneca.ImageFolder(flat_pictures, levels)
    options = {"num_workers": 1, "persistent_workers": True} if "persistent" in how else {}
    shared = SharedDataset(dataset, cache_bytes="1MiB", split=split)
    loader = stock(shared, **options) if "stock" in how else load(dataset, "auto", split=split, **options)
    with Job(dataset, "auto", split=split) as other:
        other.begin()
        assert sorted(level for level, _ in flat(loader)) == [0, 10, 20, 30, 40, 50, 60, 70]
        other.take(1)
        path = dataset.samples[3][0]
        size, time = os.stat(path).st_size, os.stat(path).st_mtime_ns
        paint(path, 200)
        os.utime(path, ns=(time, time + 1))
        assert os.stat(path).st_size == size
        assert sorted(level for level, _ in flat(loader)) == [0, 10, 20, 40, 50, 60, 70, 200]
        stats = shared.stats() if "stock" in how else loader.stats()
        assert stats["delivered"] == 16


def test_a_planned_batch_of_other_terms_is_looked_up(name):
    shared = SharedDataset(Drawn(200), cache=name, cache_bytes="1MiB")
    with Job(Drawn(200), name) as other:
        other.begin()
        theirs = other.take(1)
        batches = iter(OpportunisticBatchSampler(RandomSampler(shared), BATCH))  # holds what it has planned
        planned = list(enumerate([next(batches) for _ in range(3)]))
        assert all((batch.claims["slot"] != NONE).any() for _, batch in planned)
        for k, batch in planned:
            assert isinstance(batch, PlannedBatch) and len(batch.claims) == BATCH
            if k == 0:
                batch.names = (*batch.names[:2], batch.names[2] + 2)
            elif k == 1:
                batch[:] = [(index + 1) % 200 for index in batch]  # not those that were planned
            items = shared.__getitems__(batch)
            assert [item[0] for item in items] == batch
        assert_each_once(theirs + other.take(None), 200)  # nothing was staged under another's name
    assert shared.stats()["delivered"] == 3 * BATCH


def test_indices_of_another_subset_than_the_workers_own_are_served_by_the_workers_own(name):
    """Persistent workers have the Subset as it was; what is planned here is of what it is now."""
    subset = Subset(Drawn(24), list(range(12)))
    shared = SharedDataset(subset, cache=name, cache_bytes="1MiB")
    loader = stock(shared, num_workers=1, persistent_workers=True)
    with Job(Drawn(24), name) as other:
        for offset in (0, 12):
            subset.indices = list(range(offset, offset + 12))
            other.begin()
            theirs = other.take(1)
            assert sorted(item[0] for item in flat(loader)) == list(range(12)), "as torch's worker would"
            theirs += other.take(None)
            assert_each_once(theirs, 24)


# As a dataset


def test_any_index_that_the_dataset_takes_is_taken(name):
    shared = SharedDataset(Drawn(24), cache=name, cache_bytes="1MiB")
    assert len(shared) == 24 and shared[3][0] == 3
    # Beside the samples' own indices, the dataset is asked itself, with the index as it is.
    assert [item[0] for item in shared.__getitems__([-1, 0, -24])] == [-1, 0, -24]
    words = SharedDataset({"a": 1, "b": 2}, cache=name + "w", cache_bytes="1MiB")
    assert words["b"] == 2 and words.__getitems__(["a", "b"]) == [1, 2]
    rows = SharedDataset(torch.arange(9).reshape(3, 3), cache=name + "r", cache_bytes="1MiB")
    assert rows[np.int64(1)].tolist() == rows[1].tolist() == [3, 4, 5]
    assert rows[torch.tensor(2)].tolist() == [6, 7, 8] and rows[True].shape == (1, 3, 3)
    with pytest.raises(KeyError):
        words["c"]


def test_a_subset_takes_its_own_indices(name):
    shared = SharedDataset(Subset(Drawn(24), [5, 7, 9]), cache=name, cache_bytes="1MiB")
    assert [item[0] for item in shared.__getitems__([0, 2, -1])] == [5, 9, 9]
    with pytest.raises(IndexError):
        shared[3]


def test_it_passes_for_the_dataset(name):
    dataset = Drawn(24, mark_one)
    dataset.classes = ["a", "b"]
    shared = SharedDataset(dataset, cache=name)
    assert shared.classes == ["a", "b"] and shared.transform is mark_one
    assert not hasattr(shared, "state_dict") and not hasattr(shared, "_private")
    again = pickle.loads(pickle.dumps(shared))
    assert len(again) == 24 and again.dataset.classes == ["a", "b"]
    with pytest.raises(AttributeError, match="Drawn"):
        _ = shared.targets


def test_a_dataset_that_is_made_of_shared_ones_stays_the_same_while_they_are_used(name):
    for key in (None, "drawn"):
        shared = SharedDataset(Drawn(24), cache=name, cache_bytes="1MiB", key=key)
        outer = torch.utils.data.ConcatDataset([shared])
        before = fingerprint(outer)
        assert len(list(DataLoader(outer))) == 24 and shared.stats()["delivered"] == 24
        assert fingerprint(outer) == before
    assert fingerprint(SharedDataset(Drawn(24))) != fingerprint(SharedDataset(Drawn(23)))


def test_what_has_no_indices_is_refused():
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(())

    with pytest.raises(TypeError, match="a map-style dataset can be shared, but got Stream"):
        SharedDataset(Stream())
    with pytest.raises(TypeError, match="goes into a DataLoader as it is"):
        SharedDataset(SharedDataset([1, 2]))
    with pytest.raises(TypeError, match="cache is"):
        SharedDataset([1], cache=Drawn(1))
    with pytest.raises(ValueError, match="share is"):
        SharedDataset([1], share="all")
    with pytest.raises(ValueError, match="key is"):
        SharedDataset([1], key="")
