"""A shared dataset's attributes are the dataset's: to be read, and to be set."""

import pytest
import torch
from torch.utils.data import DataLoader

import seneca


class Scaled(torch.utils.data.Dataset):
    def __init__(self):
        self.transform = None

    def __len__(self):
        return 6

    def __getitem__(self, index):
        return index if self.transform is None else self.transform(index)


def negative(index):
    return -index


def width_of(picture):
    return picture.width


def one_more_than_width_of(picture):
    return picture.width + 1


def test_making_and_using_one_sets_nothing_on_the_dataset():
    dataset = Scaled()
    shared = seneca.SharedDataset(dataset, cache_bytes="4MiB")
    batches = seneca.OpportunisticBatchSampler(torch.utils.data.RandomSampler(shared), 4)
    assert len(list(DataLoader(shared, batch_sampler=batches))) == 2
    assert vars(dataset) == {"transform": None}


@pytest.mark.parametrize("key", [None, "six numbers"])
def test_a_transform_set_on_it_is_the_dataset_s_and_is_followed(key):
    dataset = Scaled()
    shared = seneca.SharedDataset(dataset, cache_bytes="4MiB", key=key)
    loader = DataLoader(shared, batch_size=6)
    assert [shared[i] for i in range(6)] == next(iter(loader)).tolist() == list(range(6))
    before = shared.terms.stages.augmented
    shared.transform = negative
    assert dataset.transform is negative and "transform" not in vars(shared)
    assert [shared[i] for i in range(6)] == next(iter(loader)).tolist() == [0, -1, -2, -3, -4, -5]
    assert shared.terms.stages.augmented != before, "a key stands for what cannot be seen, and no more"


@pytest.mark.parametrize("key", [None, "pictures"])
def test_a_transform_of_pictures_set_on_it_is_followed(picture_folder, key):
    dataset = seneca.ImageFolder(str(picture_folder), transform=width_of)
    shared = seneca.SharedDataset(dataset, cache_bytes="4MiB", key=key)
    width = shared[0][0]
    shared.transform = one_more_than_width_of
    assert shared[0][0] == width + 1


def test_its_own_attributes_stay_here():
    shared = seneca.SharedDataset(Scaled(), cache_bytes="4MiB")
    shared.cache_bytes = "8MiB"
    shared.key = "other"
    assert vars(shared.dataset) == {"transform": None}
