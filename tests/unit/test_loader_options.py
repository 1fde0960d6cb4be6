"""Seneca's arguments are attributes. Set later, one counts from the next epoch on, or raises."""

import pickle
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

import seneca
import seneca.testing
from seneca import transforms as T
from seneca.loader import _warn_of_undivided_ranks


@pytest.fixture
def loader(picture_folder):
    train = seneca.ImageFolder(picture_folder, T.RandomResizedCrop(16))
    return seneca.DataLoader(train, 8, shuffle=True, cache=None)


def test_a_layout_that_is_set_later_counts(loader):
    assert not next(iter(loader))[0].is_contiguous(memory_format=torch.channels_last)
    loader.memory_format = torch.channels_last
    assert next(iter(loader))[0].is_contiguous(memory_format=torch.channels_last)


def test_a_cache_that_is_set_later_is_joined_and_left(loader, name):
    list(loader)
    assert loader.stats()["cache"] is None
    loader.cache, loader.cache_bytes, loader.split = name, "2MiB", "100-0-0"
    list(loader)
    assert loader.stats()["cache"]["payload_bytes"] == 2 * 2**20
    loader.cache = None
    list(loader)
    assert loader.stats()["cache"] is None


def test_they_count_where_workers_prepare_too(name):
    rows = torch.utils.data.TensorDataset(torch.arange(8))
    loader = seneca.DataLoader(rows, 4, cache=None)
    list(loader)
    assert "cache=None" in loader.explain()
    loader.cache, loader.cache_bytes = name, "2MiB"
    list(loader)
    assert name in loader.explain()
    assert loader.stats()["cache"]["payload_bytes"] == 2 * 2**20
    loader.share = "decoded"
    list(loader)
    assert "share='decoded'" in loader.explain()
    assert loader.stats()["cache"] is None


def test_bad_pictures_are_skipped_from_when_it_is_said(tmp_path):
    seneca.testing.make_pictures(tmp_path, count=8, classes=2)
    next(tmp_path.rglob("*.jpg")).write_bytes(b"no picture")
    loader = seneca.DataLoader(seneca.ImageFolder(tmp_path, T.RandomResizedCrop(16)), 4, cache=None)
    with pytest.raises(seneca.errors.DecodeError):
        list(loader)
    loader.on_error = "skip"
    with pytest.warns(seneca.SenecaWarning, match="skipped"):
        assert sum(len(images) for images, _ in loader) == 7


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("cache", 3),
        ("cache_bytes", "much"),
        ("split", "90-90-0"),
        ("share", "all"),
        ("on_error", "ignore"),
        ("memory_format", torch.preserve_format),
        ("key", ""),
        ("job", 7),
        ("check_every", 0),
        ("verify_files", "never"),
        ("device", "toaster"),
    ],
)
def test_what_is_wrong_raises_with_the_next_epoch(loader, attribute, value):
    next(iter(loader))
    setattr(loader, attribute, value)
    with pytest.raises(ValueError, match=str(attribute)):
        iter(loader)
    fresh = {} if attribute == "device" else {"cache": None}
    with pytest.raises(ValueError, match=str(attribute)):
        seneca.DataLoader(loader.dataset, **(fresh | {attribute: value}))


def test_options_may_be_properties_of_a_subclass(picture_folder, name):
    class Alone(seneca.DataLoader):
        share = property(lambda self: "none", lambda self, value: None)

    train = seneca.ImageFolder(picture_folder, T.RandomResizedCrop(16))
    loader = Alone(train, 8, shuffle=True, cache=name, cache_bytes="2MiB")
    next(iter(loader))
    assert loader.state_dict()["order"] == "samples"
    assert "AUGMENTED" not in loader.explain()


@pytest.mark.parametrize("make", [torch.tensor, np.array, tuple])
def test_a_split_may_be_three_numbers_of_any_kind(make):
    rows = torch.utils.data.TensorDataset(torch.arange(8))
    loader = seneca.DataLoader(rows, 4, cache=None, split=make([0.5, 0.25, 0.25]))
    assert [len(list(loader)) for _ in range(2)] == [2, 2]


def test_a_copy_of_a_loader_knows_what_was_yielded_last(loader):
    next(iter(loader))
    copy = pickle.loads(pickle.dumps(loader))
    assert copy.last_indices.tolist() == loader.last_indices.tolist()
    assert copy.stats()["delivered"] == 0
    loader.last_indices = None
    assert loader.last_indices is None


@pytest.mark.small(1)
@pytest.mark.parametrize("batch_size", [2, 4, 5])
def test_no_batch_is_short_where_workers_go_on_after_skipped_pictures(tmp_path, name, batch_size):
    """The rank had skipped three bad pictures and has three good ones left, though it owes six samples."""
    seneca.testing.make_pictures(tmp_path, count=24, classes=2)
    train = seneca.ImageFolder(tmp_path, T.RandomResizedCrop(16))
    for bad in (0, 2, 4):
        Path(train.samples[bad][0]).write_bytes(b"no picture")

    def loader(batch_size, **options):
        sampler = torch.utils.data.DistributedSampler(train, 2, 0, shuffle=False)
        options |= {"drop_last": True, "cache": name, "cache_bytes": "4MiB"}
        return seneca.DataLoader(train, batch_size, sampler=sampler, **options)

    first = loader(3, on_error="skip")
    with pytest.warns(seneca.SenecaWarning, match="skipped"):
        batches = iter(first)
        next(batches), next(batches)
    second = loader(batch_size, collate_fn=len)
    second.load_state_dict(first.state_dict())
    assert list(second) == [batch_size] * (3 // batch_size)


# Sizes beyond every dataset


class Sounds(seneca.StagedDataset):
    def __len__(self):
        return 10

    def read(self, index):
        return bytes([index])

    def decode(self, data):
        return np.frombuffer(data, np.uint8)

    def augment(self, array, rng):
        return int(array[0]), 0

    def __getitem__(self, index):
        return index, 0


def ten(grade, pictures):
    if grade == "native":
        return torch.utils.data.Subset(seneca.ImageFolder(pictures, T.RandomResizedCrop(16)), range(10))
    return Sounds() if grade == "staged" else torch.utils.data.TensorDataset(torch.arange(10), torch.ones(10))


SAMPLERS = {
    "shuffled": lambda: None,
    "sequence": lambda: range(10),
    "subset": lambda: torch.utils.data.SubsetRandomSampler(range(10)),
    "weighted": lambda: torch.utils.data.WeightedRandomSampler(torch.ones(10), 10),
}


@pytest.mark.small(2)
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("order", SAMPLERS)
@pytest.mark.parametrize("grade", ["native", "staged", "opaque"])
@pytest.mark.parametrize("size", [11, 2**31, 2**32 + 1, sys.maxsize, 2**63])
def test_a_batch_larger_than_the_dataset_is_one_batch_or_none(
    size, grade, order, workers, picture_folder, name
):
    dataset = ten(grade, picture_folder)
    sampler = SAMPLERS[order]()
    options = {"num_workers": workers, "sampler": sampler, "shuffle": sampler is None or None}
    for drop_last in (False, True):
        loader = seneca.DataLoader(
            dataset, size, drop_last=drop_last, cache=name, cache_bytes="4MiB", **options
        )
        for _ in range(2):
            assert [len(values) for values, _ in loader] == [10] * (not drop_last)
        assert (len(loader), loader.batch_size) == (not drop_last, size)


@pytest.mark.small(1)
@pytest.mark.parametrize("order", ["shuffled", "subset", "weighted"])
@pytest.mark.parametrize("grade", ["native", "staged", "opaque"])
@pytest.mark.parametrize("size", [4, 2**40])
def test_more_batches_may_be_prepared_ahead_than_there_are(size, grade, order, picture_folder, name):
    sampler = SAMPLERS[order]()
    options = {"num_workers": 2, "sampler": sampler, "shuffle": sampler is None or None}
    loader = seneca.DataLoader(
        ten(grade, picture_folder), size, prefetch_factor=2**40, cache=name, cache_bytes="4MiB", **options
    )
    for _ in range(2):
        assert sum(len(values) for values, _ in loader) == 10
    assert loader.prefetch_factor == 2**40


def test_a_process_is_warned_once_of_undivided_ranks():
    _warn_of_undivided_ranks.cache_clear()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for _ in range(3):
            _warn_of_undivided_ranks(2)
    _warn_of_undivided_ranks.cache_clear()
    assert len(warned) == 1 and "DistributedSampler" in str(warned[0].message)
