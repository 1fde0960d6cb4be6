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
    assert [shared[i] for i in range(6)] == list(range(6))
    before = shared.terms
    shared.transform = negative
    assert dataset.transform is negative and "transform" not in vars(shared)
    assert [shared[i] for i in range(6)] == [0, -1, -2, -3, -4, -5]
    assert (shared.terms is before) == (key is not None)  # by the user's word they are the same


def test_its_own_attributes_stay_here():
    shared = seneca.SharedDataset(Scaled(), cache_bytes="4MiB")
    shared.cache_bytes = "8MiB"
    shared.key = "other"
    assert vars(shared.dataset) == {"transform": None}
