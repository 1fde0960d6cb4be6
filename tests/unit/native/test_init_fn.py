"""Which ``worker_init_fn`` is left out on the native path, and which needs torch's workers."""

import functools
import os
import random
import signal
import warnings

import numpy as np
import pytest
import torch
from torch.utils.data import get_worker_info

import seneca
from seneca import transforms as T
from seneca.native.init_fn import can_be_left_out


def of_torchs_recipe(worker_id):
    worker_seed = torch.initial_seed() % 2**32
    np.random.seed(worker_seed)
    random.seed(worker_seed)


def of_rank(worker_id, rank, seed):
    info = get_worker_info()
    np.random.seed(seed + rank + info.id)


def sets_up(worker_id):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.sched_setaffinity(0, {worker_id})


def changes_the_dataset(worker_id):
    get_worker_info().dataset.transform = None


def by_another(worker_id):
    changes_the_dataset(worker_id)


def by_an_inner_one(worker_id):
    return [info.dataset for info in [torch.utils.data.get_worker_info()]]


class Callable:
    def __call__(self, worker_id):
        get_worker_info()


class WithMethod:
    def init(self, worker_id):
        random.seed(worker_id)


@pytest.mark.parametrize(
    "function",
    [
        None,
        of_torchs_recipe,
        functools.partial(of_rank, rank=1, seed=2),
        WithMethod().init,
        lambda n: np.random.seed(n),
    ],
)
@pytest.mark.parametrize("runs_python", [False, True])
def test_what_only_seeds_is_left_out(function, runs_python):
    assert can_be_left_out(function, runs_python=runs_python)


def test_what_sets_up_a_worker_is_left_out_where_nothing_of_the_users_runs():
    assert can_be_left_out(sets_up, runs_python=False)
    assert not can_be_left_out(sets_up, runs_python=True)


@pytest.mark.parametrize(
    "function",
    [changes_the_dataset, by_another, by_an_inner_one, Callable(), print, functools.partial(by_another)],
)
def test_what_may_reach_the_dataset_needs_workers(function):
    assert not can_be_left_out(function, runs_python=False)


def test_one_notice_says_that_it_is_not_called(picture_folder):
    dataset = seneca.ImageFolder(picture_folder, T.Resize((8, 8)))
    options = {"cache": None, "num_workers": 1, "batch_size": 8}
    loader = seneca.DataLoader(dataset, worker_init_fn=sets_up, **options)
    with pytest.warns(seneca.SenecaWarning, match="worker_init_fn is not called, because threads") as caught:
        assert len(list(loader)) == len(list(loader)) == 6
    assert len(caught) == 1 and "worker_init_fn is not called" in loader.explain()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        without = seneca.DataLoader(dataset, worker_init_fn=sets_up, **{**options, "num_workers": 0})
        assert len(list(without)) == 6, "torch does not call it either"
        seeded = seneca.DataLoader(dataset, worker_init_fn=of_torchs_recipe, **options)
        assert len(list(seeded)) == 6


def test_one_that_changes_the_dataset_is_called_by_workers(picture_folder):
    dataset = seneca.ImageFolder(picture_folder, T.Resize((8, 8)))
    loader = seneca.DataLoader(
        dataset, 4, cache=None, num_workers=1, worker_init_fn=changes_the_dataset, collate_fn=list
    )
    assert "because its worker_init_fn may set up what items depend on" in loader.explain()
    assert next(iter(loader))[0][0].size[0] > 8, "the workers' dataset has no transform any more"
