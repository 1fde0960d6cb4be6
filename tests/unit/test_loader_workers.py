"""What a loader's processes know of each other: datasets that change, forks, pickles, warnings, deaths."""

import copy
import gc
import multiprocessing
import os
import pickle
import threading
import warnings
from collections import namedtuple

import pytest
import torch
from sizes import size
from torch.utils.data import DataLoader, Dataset, RandomSampler, get_worker_info

import seneca
from seneca import transforms as T
from seneca.cache import sample_cache


def double(index):
    return 2 * index


def triple(index):
    return 3 * index


class Numbers(Dataset):
    """Item ``i`` is ``transform(i)``."""

    def __init__(self, count=8, transform=double):
        self.count = count
        self.transform = transform

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return self.transform(index)


def keep(samples):
    return samples


def values(loader):
    return [value for batch in loader for value in batch.tolist()]


def load(dataset, cache=None, **options):
    return seneca.DataLoader(dataset, **{"batch_size": 4, "cache": cache, "cache_bytes": "2MiB", **options})


@pytest.mark.small(1)
@pytest.mark.parametrize("wrapped", [False, True])
def test_workers_that_stay_keep_the_transform_they_have_where_they_share_too(name, wrapped):
    """As torch's."""
    numbers = Numbers()
    dataset = seneca.SharedDataset(numbers, cache=name, cache_bytes="2MiB") if wrapped else numbers
    loader = load(dataset, name, num_workers=2, persistent_workers=True)
    assert values(loader) == [2 * i for i in range(8)]
    first = loader._iterator
    assert values(loader) == [2 * i for i in range(8)] and loader._iterator is first
    numbers.transform = triple
    assert values(loader) == values(loader) == [2 * i for i in range(8)]
    assert loader._iterator is first
    assert loader.stats()["delivered"] == 32


@pytest.mark.small(1)
@pytest.mark.parametrize("workers", [0, 1])
def test_a_shared_dataset_is_loaded_on_its_own_terms(name, workers):
    shared = seneca.SharedDataset(Numbers(), cache=name, cache_bytes="2MiB")
    loader = load(shared, None, shuffle=True, num_workers=workers)
    assert sorted(values(loader)) == [2 * i for i in range(8)]
    assert loader.stats()["delivered"] == 8 and repr(name) in loader.explain()


@pytest.mark.whole_size(shown_by="test_workers_that_stay_keep_the_transform_they_have_where_they_share_too")
def test_workers_that_stay_keep_the_dataset_they_have_where_nothing_is_shared():
    """As torch's."""
    loader = load(Numbers(), None, num_workers=1, persistent_workers=True)
    first = values(loader)
    loader.dataset.transform = triple
    assert values(loader) == first


def test_a_loader_that_has_loaded_here_may_go_on_with_workers(name):
    loader = load(Numbers(), name)
    assert values(loader) == [2 * i for i in range(8)]
    loader.num_workers, loader.prefetch_factor, loader.multiprocessing_context = 2, 2, "fork"
    for _ in range(2):
        assert values(loader) == [2 * i for i in range(8)]
    assert loader.stats()["delivered"] == 24 and loader.stats()["cache"]["processes"] == 1
    loader.multiprocessing_context = None
    loader.num_workers, loader.prefetch_factor = 0, None
    assert values(loader) == [2 * i for i in range(8)]


WAYS = {"pickle": lambda thing: pickle.loads(pickle.dumps(thing)), "deepcopy": copy.deepcopy}


@pytest.mark.whole_size(shown_by="test_a_loader_with_a_cache_made_by_hand_can_be_pickled_and_counts_anew")
@pytest.mark.parametrize("way", WAYS)
def test_a_shared_dataset_that_was_pickled_counts_anew_with_its_workers(name, way):
    shared = seneca.SharedDataset(Numbers(), cache=name, cache_bytes="2MiB")
    assert next(iter(DataLoader(shared))).item() == 0
    other = WAYS[way](shared)
    assert values(DataLoader(other, 4, num_workers=2)) == [2 * i for i in range(8)]
    assert (shared.stats()["delivered"], other.stats()["delivered"]) == (1, 8)


@pytest.mark.small(1)
@pytest.mark.parametrize("way", [*WAYS.values(), copy.copy])
def test_a_loader_with_a_cache_made_by_hand_can_be_pickled_and_counts_anew(picture_folder, name, way):
    dataset = seneca.ImageFolder(picture_folder, T.Resize((8, 8)))
    with seneca.SampleCache.create(name, dataset, cache_bytes="2MiB") as by_hand:
        loader = load(dataset, by_hand)
        assert len(list(loader)) == 12
        other = way(loader)
        assert len(list(other)) == 12 and other.cache == name
        assert loader.stats()["delivered"] == other.stats()["delivered"] == 48
        del other


def job_of_workers(connection, shared):
    """Send which job the workers of a loader here belong to, and this process."""
    from seneca._runtime.distributed import job_key

    shared.dataset.transform = lambda index: job_key()
    batches = seneca.OpportunisticBatchSampler(RandomSampler(shared), 1)
    loader = DataLoader(shared, batch_sampler=batches, num_workers=1, collate_fn=keep)
    connection.send((next(iter(loader))[0], job_key()))


def test_workers_belong_to_the_job_of_the_process_that_loads_not_of_the_one_that_made_the_dataset(name):
    shared = seneca.SharedDataset(Numbers(), cache=name, cache_bytes="2MiB", key="jobs")
    assert shared[0] == 0
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=job_of_workers, args=(there, shared))
    process.start()
    assert here.poll(300)
    of_worker, of_process = here.recv()
    process.join()
    assert of_worker == of_process != shared._job_key


class Left(Dataset):
    """Items say what ``worker_init_fn`` has left here, and how many caches the process has joined."""

    left = "nothing"

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return self.left, sum(pid == os.getpid() for pid, *_ in sample_cache._joined)


def leave(worker):
    info = get_worker_info()
    assert type(info.dataset) is Left
    info.dataset.left = worker


@pytest.mark.small(1)
@pytest.mark.parametrize("auto", [False, True])
def test_a_worker_init_fn_that_makes_another_dataset_of_it_is_followed_and_not_shared(name, auto):
    options = {"cache": "auto" if auto else name, "key": None, "batch_size": 2, "collate_fn": keep}
    loader = load(Left(), num_workers=2, worker_init_fn=leave, **options)
    for _ in range(2):
        assert list(loader) == [[(worker, 0)] * 2 for worker in (0, 1, 0, 1)]
    assert loader.stats()["delivered"] == 16 and loader.stats()["cache"]["payloads"]["augmented"] == 0
    assert list(load(Left(), **options)) == [[("nothing", 1)] * 2] * 4


class Locked(Numbers):
    """Cannot be fingerprinted."""

    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()


@pytest.mark.small(1)
@pytest.mark.parametrize(
    ("dataset", "options"),
    [(Locked, {}), (Locked, {"num_workers": 1}), (Numbers, {"on_error": "skip"})],
)
def test_a_warning_points_at_the_line_that_iterates(name, dataset, options):
    loader = load(dataset(), name, **options)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in loader:
            pass
    (warning,) = [warning for warning in caught if str(warning.message).startswith("seneca: ")]
    assert warning.filename == __file__
    with open(__file__) as source:
        assert source.readlines()[warning.lineno - 1].strip() == "for _ in loader:"


Pair = namedtuple("Pair", "tensor descriptors")


def descriptors(index):
    return len(os.listdir("/proc/self/fd"))


def pair(samples):
    return Pair(torch.zeros(10), samples[0])


def test_batches_of_any_class_leave_no_descriptors_open_in_the_worker():
    seen = [
        batch.descriptors for batch in load(Numbers(100, descriptors), None, num_workers=1, collate_fn=pair)
    ]
    # Some are open while a batch is on its way, how many is a matter of luck; else a few a batch would be.
    assert len(seen) >= 20 and seen[-1] < seen[0] + len(seen) // 2


class Unsendable(ValueError):
    pass


def test_an_exception_that_cannot_be_sent_comes_as_the_nearest_that_can():
    def fail(index):
        class Local(Unsendable):
            pass

        raise Local("no such thing")

    batches = iter(load(Numbers(8, fail), None, num_workers=1, timeout=300))
    for _ in range(2):
        with pytest.raises(Unsendable, match=r"(?s)worker process 0.*Local: no such thing"):
            next(batches)
    with pytest.raises(StopIteration):
        next(batches)


def test_an_epoch_of_a_batch_sampler_is_counted_once_whatever_the_workers(name):
    shared = seneca.SharedDataset(Numbers(64), cache=name, cache_bytes="2MiB")
    orders = []
    for workers in (0, size(1, 2)):
        batches = seneca.OpportunisticBatchSampler(RandomSampler(shared), 8, seed=3)
        loader = DataLoader(shared, batch_sampler=batches, num_workers=workers)
        batches.set_epoch(5)
        orders.append([values(loader), values(loader)])
        assert batches.epoch == 7
    assert orders[0] == orders[1] and orders[0][0] != orders[0][1]
    del loader


def test_a_dataset_is_inspected_once_an_epoch(name, monkeypatch):
    inspections = []
    look = seneca.SharedDataset.look
    monkeypatch.setattr(
        seneca.SharedDataset,
        "look",
        lambda self, *grade, **options: inspections.append(1) or look(self, *grade, **options),
    )
    shared = seneca.SharedDataset(Numbers(), cache=name, cache_bytes="2MiB")
    batches = seneca.OpportunisticBatchSampler(RandomSampler(shared), 4)
    for loader in (
        DataLoader(shared, batch_sampler=batches, num_workers=size(1, 2)),
        load(Numbers(), name, num_workers=size(1, 2)),
    ):
        for _ in range(2):
            inspections.clear()
            values(loader)
            assert len(inspections) == 1
    del loader


class Drawn(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return index, torch.rand(2)


@pytest.mark.small(1)
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("grade", ["native", "opaque"])
def test_loaders_of_one_process_share_copies_if_each_has_a_job_of_its_own_and_explain_says_so(
    grade, workers, picture_folder, name
):
    def loaders(name, *jobs):
        data = Drawn()
        if grade == "native":
            data = seneca.ImageFolder(picture_folder, seneca.transforms.RandomResizedCrop(16))
        return [
            seneca.DataLoader(
                data, 4, shuffle=True, cache=name, cache_bytes="4MiB", job=job, num_workers=workers
            )
            for job in jobs
        ]

    def copies(pair):
        for _ in range(3):
            for _ in zip(*pair, strict=True):
                pass
        return sum(one.stats()["served"]["augmented"] for one in pair)

    one_job, two_jobs = loaders(name, None, None), loaders(f"{name}-2", "one", "two")
    text = "1 other loader of it could use the same AUGMENTED copies"
    assert not any(text in one.explain() for one in one_job), "nobody has begun"
    assert copies(one_job) == 0 and all(text in one.explain() for one in one_job)
    assert copies(two_jobs) > 0 and not any("of it could use" in one.explain() for one in two_jobs)
    del one_job[1]
    gc.collect()
    assert text not in one_job[0].explain()
