"""Items of any dataset, shared between this process and another job; and samplers that plan for them."""

import gc
import os
import pickle
import secrets
import signal

import numpy as np
import pytest
import torch
from engine import NONE, Process
from PIL import Image
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler, SequentialSampler, Subset

import seneca
from seneca.identity import fingerprint
from seneca.samplers import OpportunisticBatchSampler
from seneca.shared import SharedDataset
from seneca.terms import PlannedBatch

BATCH = 4


@pytest.fixture
def name():
    """A cache of this test's own."""
    name = "unit-" + secrets.token_hex(6)
    yield name
    gc.collect()
    for entry in os.listdir("/dev/shm"):
        if name in entry:
            os.unlink("/dev/shm/" + entry)  # of jobs that the test has killed


class Drawn(Dataset):
    """Each item with a random number, which tells one copy from another."""

    def __init__(self, count=24, transform=None):
        self.count = count
        self.transform = transform

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        item = index, float(torch.rand(()))
        return item if self.transform is None else self.transform(item)


class Sounds:
    """Staged; what is random is a number beside the sound."""

    def __init__(self, count=24):
        self.count = count

    def __len__(self):
        return self.count

    def read(self, index):
        return bytes([index] * 9)

    def decode(self, data):
        return np.frombuffer(data, np.uint8).astype(np.float32)

    def augment(self, array, rng):
        return int(array[0]), float(rng.random())


def mark_one(item):
    return *item, "one"


def mark_two(item):
    return *item, "two"


def load(dataset, name, **options):
    """A loader whose batches are lists of items."""
    defaults = {
        "batch_size": BATCH,
        "shuffle": True,
        "collate_fn": list,
        "cache": name,
        "cache_bytes": "1MiB",
    }
    return seneca.DataLoader(dataset, **(defaults | options))


def stock(shared, *, sampler=None, **options):
    """Torch's own loader, with a sampler that plans or with one of torch's."""
    if sampler is None:
        sampler = OpportunisticBatchSampler(RandomSampler(shared), BATCH)
    return DataLoader(shared, batch_sampler=sampler, collate_fn=list, **options)


def flat(batches):
    return [item for batch in batches for item in batch]


def assert_each_once(items, count):
    assert sorted(item[0] for item in items) == list(range(count))


class Job(Process):
    """Another job, which iterates a loader as it is told."""

    def __init__(self, dataset, name, **options):
        super().__init__(_run, dataset, name, options)

    def begin(self):
        """Begin an epoch: from now on it wants every sample."""
        self.send("begin")
        self.receive()

    def take(self, batches):
        """Items of so many batches, or of all that are left (None)."""
        self.send(batches)
        return flat(self.receive())

    def stats(self):
        self.send("stats")
        return self.receive()


def _run(pipe, dataset, name, options):
    torch.set_num_threads(1)
    torch.manual_seed(os.getpid())
    loader = load(dataset, name, **options)
    batches = iter(())
    while True:
        told = pipe.receive(None)
        if told == "begin":
            batches = iter(loader)
            getattr(batches._sampler_iter, "begin", int)()  # as asking for the first batch does
            pipe.send(None)
        elif told == "stats":
            pipe.send(loader.stats())
        else:
            pipe.send([batch for _, batch in zip(range(told or 10**9), batches, strict=False)])


def inside(name):
    """What the segment holds, after it was held against what a rebuild would make of it."""
    with seneca.SampleCache.attach(name) as cache:
        assert cache.segment.check() is None
        return cache.stats()


# What one job makes, another is served


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
    assert inside(name)["payloads"] == {"encoded": 0, "decoded": 24, "augmented": 0}
    list(loader)
    with Job(Sounds(), name, share="decoded") as other:
        other.begin()
        assert_each_once(other.take(None), 24)
        for stats, storage in ((loader.stats(), 24), (other.stats(), 0)):
            assert stats["served"] == {"storage": storage, "encoded": 0, "decoded": 24, "augmented": 0}
        assert other.stats()["read_bytes"] == 0
    encoded = load(Sounds(), name + "e", split="100-0-0")
    for _ in range(2):
        assert_each_once(flat(encoded), 24)
    assert encoded.stats()["served"]["encoded"] == 24


# Never another's bytes


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


# Items that are not as others


class Odd(Drawn):
    """Every other item holds what no buffer can; or all of them do."""

    def __init__(self, of_all=False):
        super().__init__(24)
        self.of_all = of_all

    def __getitem__(self, index):
        return (index, object()) if index % 2 or self.of_all else (index, 0.0)


# In the first batch it is not yet known what room one takes, nor tried again once one has been laid out.
@pytest.mark.parametrize(("of_all", "unshared"), [(False, 10), (True, 24)])
def test_items_that_cannot_be_laid_out_are_delivered_and_counted(of_all, unshared, name):
    loader = load(Odd(of_all), name, shuffle=False)
    with Job(Odd(of_all), name, collate_fn=len_only) as other:
        other.begin()
        items = flat(loader)
        assert [item[0] for item in items] == list(range(24))
        assert all(type(item[1]) is (object if item[0] % 2 or of_all else float) for item in items)
        assert loader.stats()["unshared"] == unshared
        assert loader.stats()["staged"] == 0 if of_all else loader.stats()["staged"] > 0
        assert inside(name)["writing"] == 0


def len_only(items):
    return [len(items)]


class Undecided(Sounds):
    """What is decoded is shared by no buffer."""

    def decode(self, data):
        return [object(), super().decode(data)]

    def augment(self, array, rng):
        return super().augment(array[1], rng)


@pytest.mark.parametrize(("split", "encoded"), [("0-50-50", 0), ("50-50-0", 24)])
def test_what_is_decoded_and_cannot_be_laid_out_is_not_kept(split, encoded, name):
    loader = load(Undecided(), name, split=split)
    for _ in range(2):
        assert_each_once(flat(loader), 24)
    assert inside(name)["payloads"]["encoded"] == loader.stats()["served"]["encoded"] == encoded
    assert inside(name)["payloads"]["decoded"] == inside(name)["writing"] == 0
    assert loader.stats()["served"]["decoded"] == 0


class Silent(Sounds):
    def read(self, index):
        return b""

    def decode(self, data):
        return np.zeros(3)


@pytest.mark.parametrize("split", ["100-0-0", "0-100-0", "0-0-100"])
def test_samples_without_bytes_are_samples(split, name):
    loader = load(Silent(), name, split=split)
    for _ in range(3):
        assert len(flat(loader)) == 24
    assert inside(name)["writing"] == 0


def test_pictures_of_more_pixels_than_a_record_can_say_are_delivered(tmp_path, name):
    (tmp_path / "long" / "only").mkdir(parents=True)
    for i in range(3):
        Image.new("RGB", (70_000, 1 + i)).save(tmp_path / "long" / "only" / f"{i}.png")
    loader = load(seneca.ImageFolder(tmp_path / "long", size_of), name, split="0-100-0", cache_bytes="4MiB")
    for _ in range(2):
        assert sorted(size for size, _ in flat(loader)) == [(70_000, 1), (70_000, 2), (70_000, 3)]
    assert inside(name)["writing"] == 0


def size_of(image):
    return image.size


class Growing(Drawn):
    """The later an item, the larger."""

    def __getitem__(self, index):
        return index, torch.full((1 + 700 * index,), index)


def test_items_larger_than_the_room_for_one_are_delivered_and_the_next_have_room(name):
    loader = load(Growing(), name, batch_size=2, cache_bytes="4MiB")
    with Job(Growing(), name, collate_fn=digest, cache_bytes="4MiB") as other:
        other.begin()
        items = flat(loader)
        assert all(
            bool((tensor == index).all()) and len(tensor) == 1 + 700 * index for index, tensor in items
        )
        assert 0 < loader.stats()["staged"] < 24, "some came before their size was known"
        theirs = other.take(None)
        assert_each_once(items, 24)
        assert_each_once(theirs, 24)
        assert all(length == 1 + 700 * index and total == index * length for index, length, total in theirs)
        assert other.stats()["served"]["augmented"] == loader.stats()["staged"]
        assert inside(name)["writing"] == 0


def digest(items):
    return [(index, len(tensor), int(tensor.sum())) for index, tensor in items]


def test_items_larger_than_the_whole_stage_are_delivered(name):
    loader = load(Growing(), name, cache_bytes="16KiB")
    with Job(Growing(), name, collate_fn=digest) as other:
        other.begin()
        assert_each_once(flat(loader), 24)
        assert_each_once(other.take(None), 24)


# Failures


class Fails(Drawn):
    """Two that fail at other samples are taken for the same."""

    def __init__(self, at, how):
        super().__init__(24)
        self.at = at
        self.how = how

    def __fingerprint__(self):
        return "fails"

    def __getitem__(self, index):
        if index == self.at:
            self.how()
        return super().__getitem__(index)


def lose():
    raise LookupError("a row is lost")


@pytest.mark.parametrize("workers", [0, 1])
def test_an_exception_of_a_sample_is_the_users_and_gives_its_room_back(workers, name):
    loader = load(Fails(9, lose), name, shuffle=False, num_workers=workers)
    with Job(Fails(100, lose), name) as other:
        other.begin()
        with pytest.raises(LookupError, match="a row is lost"):
            list(loader)
        gc.collect()
        assert inside(name)["writing"] == 0
    batches = iter(load(Fails(9, lose), name, shuffle=False, num_workers=workers))
    assert [item[0] for item in next(batches)] == [0, 1, 2, 3]


def test_after_an_exception_iterating_goes_on_with_the_next_batch(name):
    with Job(Fails(9, lose), name) as other:
        other.begin()
        batches = iter(load(Fails(9, lose), name, shuffle=False))
        got = []
        for _ in range(6):
            try:
                got += next(batches)
            except LookupError:
                assert inside(name)["writing"] == 0
        assert [item[0] for item in got] == [i for i in range(24) if i not in (8, 9, 10, 11)]
        assert inside(name)["writing"] == 0


class FailsLate(Sounds):
    """In one of the stages, once what came before has been offered to be kept."""

    def __init__(self, stage):
        super().__init__(24)
        self.stage = stage

    def decode(self, data):
        if self.stage == "decode" and data[0] == 9:
            lose()
        return super().decode(data)

    def augment(self, array, rng):
        if self.stage == "augment" and array[0] == 9:
            lose()
        return super().augment(array, rng)

    def label(self, index):
        if self.stage == "label" and index == 9:
            lose()
        return index


@pytest.mark.parametrize("stage", ["decode", "augment", "label"])
def test_an_exception_in_any_stage_leaves_nothing_half_written(stage, name):
    with Job(FailsLate(stage), name, split="30-30-40") as other:
        other.begin()
        batches = iter(load(FailsLate(stage), name, shuffle=False))
        for k in range(6):
            if k == 2:
                with pytest.raises(LookupError, match="a row is lost"):
                    next(batches)
            else:
                next(batches)
            assert inside(name)["writing"] == 0


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_that_is_killed_in_mid_batch_leaves_nothing_held(name):
    with Job(Fails(100, die), name) as other:
        other.begin()
        loader = load(Fails(9, die), name, shuffle=False, num_workers=1)
        with pytest.raises(RuntimeError, match=r"was ended by SIGKILL"):
            list(loader)
        gc.collect()
        left = inside(name)
        assert left["writing"] == 0 and left["members"] == 1
        assert_each_once(other.take(None), 24)
        assert inside(name)["payloads"]["augmented"] == 0


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


# As a batch sampler


def planned(shared, sampler=None, batch_size=BATCH, drop_last=False, **options):
    return OpportunisticBatchSampler(sampler or RandomSampler(shared), batch_size, drop_last, **options)


def test_it_has_what_others_build_a_loader_from(name):
    shared = SharedDataset(Drawn(22), cache=name)
    sampler = RandomSampler(shared)
    batches = planned(shared, sampler, drop_last=True)
    assert (batches.sampler, batches.batch_size, batches.drop_last) == (sampler, BATCH, True)
    assert isinstance(batches, BatchSampler) and len(batches) == 5 and len(planned(shared)) == 6
    with pytest.raises(ValueError):
        planned(shared, batch_size=0)


@pytest.mark.parametrize("drop_last", [False, True])
def test_each_index_comes_once_in_batches(drop_last, name):
    shared = SharedDataset(Drawn(22), cache=name)
    batches = list(planned(shared, drop_last=drop_last))
    assert [len(batch) for batch in batches] == [4] * 5 + [2] * (not drop_last)
    indices = flat(batches)
    assert len(set(indices)) == len(indices) and set(indices) <= set(range(22))


def test_seed_and_epoch_name_the_order(name):
    shared = SharedDataset(Drawn(24), cache=name)
    one, same, other = (planned(shared, seed=seed) for seed in (1, 1, 2))
    orders = [flat(one), flat(one)]
    assert flat(same) == orders[0] != orders[1] and flat(other) != orders[0]
    same.set_epoch(1)
    assert flat(same) == orders[1]
    by_generator = [
        flat(planned(shared, RandomSampler(shared, generator=torch.Generator().manual_seed(seed))))
        for seed in (1, 1, 2)
    ]
    assert by_generator[0] == by_generator[1] != by_generator[2]


def test_orders_that_are_not_its_own_are_kept(name):
    shared = SharedDataset(Drawn(24), cache=name)
    assert flat(planned(shared, SequentialSampler(shared))) == list(range(24))
    backwards = list(range(23, -1, -1))
    assert flat(planned(shared, backwards)) == backwards
    some = torch.utils.data.SubsetRandomSampler([3, 4, 5])
    assert sorted(flat(planned(shared, some))) == [3, 4, 5]
    with_replacement = RandomSampler(shared, replacement=True, num_samples=9)
    assert len(flat(planned(shared, with_replacement))) == 9
    assert sorted(flat(planned(Drawn(5), RandomSampler(Drawn(5))))) == list(range(5))


def test_processes_that_train_together_see_one_permutation(name, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    shared = SharedDataset(Drawn(24), cache=name)
    one, other = planned(shared, seed=3), planned(shared, seed=3)
    torch.manual_seed(1)
    first = flat(one)
    torch.manual_seed(2)
    assert flat(other) == first and sorted(first) == list(range(24))
    assert flat(one) != first, "the next epoch"
    assert not any(isinstance(batch, PlannedBatch) for batch in other)
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert all(isinstance(batch, PlannedBatch) for batch in other)


def test_set_epoch_reaches_the_sampler(name):
    class Counted(SequentialSampler):
        def set_epoch(self, epoch):
            self.epoch = epoch

    sampler = Counted(SharedDataset(Drawn(24), cache=name))
    planned(sampler.data_source, sampler).set_epoch(5)
    assert sampler.epoch == 5


def test_a_plan_that_is_given_up_lets_go(name):
    shared = SharedDataset(Drawn(24), cache=name, cache_bytes="1MiB")
    with Job(Drawn(24), name) as other:
        other.begin()
        next(iter(DataLoader(shared)))  # learns how much room an item takes
        batches = iter(planned(shared))
        batch = next(batches)
        assert (batch.claims["slot"] != NONE).any() and inside(name)["writing"] > 0
        del batches
        gc.collect()
        assert inside(name)["writing"] == 0
        assert [item[0] for item in shared.__getitems__(batch)] == batch, "what no longer stands is made here"


def test_alone_a_few_batches_are_drawn_at_once_and_made_without_the_lock(name, monkeypatch):
    shared = SharedDataset(Drawn(24), cache=name, cache_bytes="1MiB")
    batches = iter(planned(shared))
    shared.__getitems__(next(batches))  # learns how much room an item takes
    worker = shared._maker._worker
    monkeypatch.setattr(shared._maker, "_worker", None)
    rest = list(batches)
    assert [len(batch) for batch in rest] == [BATCH] * 5 and all(batch.claims is None for batch in rest)
    assert [item[0] for batch in rest for item in shared.__getitems__(batch)] == flat(rest)
    monkeypatch.setattr(shared._maker, "_worker", worker)


def test_with_another_job_batches_are_drawn_one_by_one(name):
    shared = SharedDataset(Drawn(24), cache=name, cache_bytes="1MiB")
    batches = iter(planned(shared))
    next(batches)
    assert len(batches._batches._drawn) == 3
    with Job(Drawn(24), name) as other:
        other.begin()
        for _ in range(4):
            next(batches)
        assert len(batches._batches._drawn) == 0
