"""What of an epoch is a rank's."""

import itertools

import pytest
import torch
from torch.utils.data import Dataset, DistributedSampler, RandomSampler

import seneca
from seneca.epochs.plan import shard_of

pytestmark = pytest.mark.usefixtures("alone")


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("drop_last", [False, True])
def test_a_portion_is_torch_s_to_the_index(shuffle, drop_last):
    for count, size in itertools.product((*range(12), 97, 1000), (1, 2, 3, 7)):
        dealt = []
        for rank in range(size):
            sampler = DistributedSampler(range(count), size, rank, shuffle, seed=5, drop_last=drop_last)
            sampler.set_epoch(3)
            shard = shard_of(sampler, count)
            dealt.append(shard.indices().tolist())
            assert dealt[-1] == list(sampler) and len(shard) == len(sampler)
            assert len(set(dealt[-1])) == len(dealt[-1]), "each at most once a rank"
        given = [index for own in dealt for index in own]
        if drop_last:
            assert len(set(given)) == len(given) == count - count % size
        else:
            assert set(given) == set(range(count))


def test_what_is_no_distributed_sampler_of_the_dataset_has_no_portion():
    class Wrapper(DistributedSampler):
        """As those of frameworks, which may deal out anything."""

        def __iter__(self):
            return iter(range(len(self)))

    assert shard_of(RandomSampler(range(8)), 8) is None
    assert shard_of(Wrapper(range(8), 2, 0), 8) is None
    assert shard_of(DistributedSampler(range(9), 2, 0), 8) is None
    changed = DistributedSampler(range(8), 2, 0)
    changed.num_samples = 3
    assert shard_of(changed, 8) is None


class Drawn(Dataset):
    """Each item with a random number, which distinguishes one copy from another."""

    def __init__(self, count=23):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return index, float(torch.rand(()))


def dealt(dataset, rank, size, *, seed=5, drop=False, shuffle=True, **options):
    """A rank's loader."""
    sampler = DistributedSampler(dataset, size, rank, shuffle, seed=seed, drop_last=drop)
    return loader_of(dataset, sampler=sampler, **options)


def loader_of(dataset, **options):
    options = {"batch_size": 4, "cache_bytes": "2MiB", "split": "20-20-60"} | options
    if isinstance(dataset, Drawn):
        options["collate_fn"] = list
    return seneca.DataLoader(dataset, **options)
