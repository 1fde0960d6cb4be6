"""How counters and loaders are shown."""

import json
import pickle

import pytest
import torch

import seneca
from seneca import transforms as T
from seneca.testing import make_pictures
from seneca.views import Stats

PAIRS = torch.utils.data.TensorDataset(torch.arange(12.0))


@pytest.fixture
def folder(tmp_path):
    return seneca.ImageFolder(
        make_pictures(tmp_path / "<made>", 12, 2, sides=(32, 40)), T.RandomResizedCrop(16)
    )


def test_counters_are_a_dict_that_prints_what_is_not_zero():
    counts = {
        "served": {"storage": 2000, "decoded": 0},
        "cache": {"bytes": {"decoded": 3 << 20}, "changes": [1]},
    }
    counts |= {"skipped": 0, "remote": {}, "stall_s": 0.125, "read_bytes": 1 << 19}
    stats = Stats(counts)
    assert stats == counts and json.loads(json.dumps(stats)) == counts
    assert pickle.loads(pickle.dumps(stats)) == stats
    assert str(stats).splitlines() == [
        "served       storage 2,000",
        "cache bytes  decoded 3.0 MiB",
        "stall        0.12 s",
        "read bytes   0.5 MiB",
    ]
    assert str(Stats()) == "nothing is counted yet"


def test_counters_are_scalars_by_one_name_each():
    stats = Stats(
        served={"storage": 7}, cache={"bytes": {"decoded": 3}, "changes": [1], "split": "0-1"}, stall_s=0.5
    )
    assert stats.scalars("") == {"served/storage": 7, "cache/bytes/decoded": 3, "stall_s": 0.5}
    assert set(stats.scalars()) == {f"seneca/{name}" for name in stats.scalars("")}


def test_a_notebook_shows_names_as_they_are():
    assert Stats({"server": {"redis://<a>": 3}})._repr_html_() == (
        "<table><tr><th>server</th><td>redis://&lt;a&gt; 3</td></tr></table>"
    )


def test_a_loader_shows_what_it_loads_and_how_and_with_whom(folder, name):
    loader = seneca.DataLoader(folder, 4, num_workers=2, cache=name, cache_bytes="4MiB", split="0-100-0")
    assert repr(loader) == "<DataLoader: dataset ImageFolder, 12 samples; batches of 4; epoch none yet>"
    assert loader._session.cache is None, "to show it begins nothing"
    list(loader)
    assert f"; loaded in 2 threads, natively; cache {name!r} of one job, split 0-100-0; " in repr(loader)
    assert "; epoch 0: 12 samples, " in repr(loader)
    assert "<th>loaded</th><td>in 2 threads, natively</td>" in loader._repr_html_()
    next(iter(loader))
    assert "; epoch 1, under way: " in repr(loader)
    assert "delivered" in str(loader.stats()) and "split" in str(seneca.SampleCache.attach(name).stats())


@pytest.mark.parametrize(
    ("workers", "by"), [(0, "in the thread that iterates"), (2, "by 2 worker processes")]
)
def test_a_loader_of_other_datasets_says_who_makes_the_items(workers, by):
    loader = seneca.DataLoader(PAIRS, batch_size=None, num_workers=workers, cache=None)
    list(loader)
    assert f": dataset TensorDataset, 12 samples; batches none, single samples; loaded {by}; " in repr(loader)
    batches = torch.utils.data.BatchSampler(range(5), 2, False)
    assert "; batches by BatchSampler; " in repr(seneca.DataLoader(PAIRS, batch_sampler=batches))


def test_a_stream_has_no_length():
    class Numbers(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(range(4))

    loader = seneca.DataLoader(Numbers(), 2, cache=None)
    list(loader)
    assert repr(loader) == "<DataLoader: dataset Numbers; batches of 2; loaded by torch alone>"
