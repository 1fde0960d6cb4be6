"""Lightning's Trainer: it makes a new loader of ours whenever it wants another sampler."""

import warnings

import pytest

pytest.importorskip("lightning", reason="lightning is not here; `make test-frameworks` installs it")

import lightning
import torch
from recorded import CACHE_BYTES, COUNT, Points, ours, planned
from recorded_lightning import Module, trainer_of
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, RandomSampler, SequentialSampler

import seneca

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
EVERY_SAMPLE = list(range(COUNT))


def fit(loader, **more):
    module = Module()
    trainer = trainer_of(max_epochs=2, **more)
    trainer.fit(module, loader)
    return module.epochs, trainer


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("make", [ours, planned])
def test_fit_trains_on_each_sample_once_an_epoch(make, workers):
    (first, second), _ = fit(make(Points(), num_workers=workers))
    assert sorted(first) == sorted(second) == EVERY_SAMPLE
    assert first != second


@pytest.mark.parametrize("make", [ours, planned])
def test_fit_shares_with_other_jobs(another_job, make):
    other = another_job("points")
    fit(make(Points()))
    found = other.finish()
    assert sorted(found["samples"]) == EVERY_SAMPLE
    assert found["served"]["augmented"] > COUNT // 2


def test_overfit_batches_makes_our_loader_anew_with_all_its_arguments():
    arguments = {"key": "points", "share": "decoded", "split": "0-0-100", "on_error": "skip"}
    given = ours(Points(), **arguments)
    (first, second), trainer = fit(given, overfit_batches=3)
    made = trainer.train_dataloader
    assert type(made) is seneca.DataLoader and made is not given
    assert type(made.sampler) is SequentialSampler
    for name, value in {**arguments, "cache_bytes": CACHE_BYTES, "batch_size": 4}.items():
        assert getattr(made, name) == value, name
    assert first == second == list(range(12))


def test_overfit_batches_leaves_our_batch_sampler_as_it_leaves_torch_s():
    given = planned(Points())
    stock = BatchSampler(RandomSampler(Points()), 4, False)
    for loader in (given, DataLoader(Points(), batch_sampler=stock)):
        (first, second), trainer = fit(loader, overfit_batches=3)
        assert trainer.train_dataloader.batch_sampler is loader.batch_sampler
        assert len(set(first)) == len(set(second)) == 12


@pytest.fixture(scope="module")
def ranks(two_processes):
    return two_processes("lightning_ranks.py")


@pytest.mark.parametrize("make", ["ours", "planned"])
def test_two_processes_divide_each_epoch_as_lightning_s_sampler_says(ranks, make):
    for epoch in range(2):
        for rank in range(2):
            sampler = DistributedSampler(Points(), num_replicas=2, rank=rank, shuffle=True, seed=0)
            sampler.set_epoch(epoch)  # as Lightning does: the order of an epoch is its own
            assert ranks[rank][make]["epochs"][epoch] == list(sampler)
        both = ranks[0][make]["epochs"][epoch] + ranks[1][make]["epochs"][epoch]
        assert sorted(both) == EVERY_SAMPLE


@pytest.mark.parametrize("make", ["ours", "planned"])
def test_two_processes_are_one_job_and_have_a_portion_each(ranks, make):
    assert [rank[make]["portion"] for rank in ranks] == [[COUNT, 0, 2], [COUNT, 1, 2]]
    assert ranks[0][make]["job"] == ranks[1][make]["job"]


def test_two_processes_have_loaders_of_our_classes(ranks):
    for rank in ranks:
        assert rank["ours"]["loader"] == "seneca.loader.DataLoader"
        assert rank["planned"]["batch_sampler"] == "seneca.workers.sampler.OpportunisticBatchSampler"
        assert rank["ours"]["served"] == rank["planned"]["served"] == COUNT  # of ours: two epochs of half


def test_validation_is_in_order_and_whole():
    module = Module()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer_of().validate(module, seneca.DataLoader(Points(), 4, cache_bytes="4MiB"), verbose=False)
    assert module.validated == EVERY_SAMPLE


def test_predicting_wraps_our_batch_sampler_and_gives_every_sample():
    module = Module()
    given = torch.cat(trainer_of().predict(module, planned(Points())))
    assert sorted(given.tolist()) == EVERY_SAMPLE


class Saves(lightning.Callback):
    """Saves a checkpoint after so many batches; at an epoch's end not before Lightning's loop is through."""

    def __init__(self, path, batches):
        self.path = path
        self.batches = batches

    def on_train_batch_end(self, trainer, *_):
        if trainer.global_step == self.batches and self.batches % 13:
            trainer.save_checkpoint(self.path)

    def on_train_epoch_end(self, trainer, *_):
        if trainer.global_step == self.batches:
            trainer.save_checkpoint(self.path)


@pytest.mark.parametrize("batches", [5, 13, 16])
def test_a_checkpoint_goes_on_with_the_samples_that_are_left(tmp_path, batches):
    whole, _ = fit(ours(Points()), callbacks=[Saves(tmp_path / "saved", batches)])
    module = Module()
    module.epochs.append([])  # of the epoch that goes on, whose beginning Lightning does not report again
    trainer_of(max_epochs=2).fit(module, ours(Points()), ckpt_path=tmp_path / "saved")
    first, *rest = module.epochs
    epoch, at = divmod(batches, 13)
    assert sorted(whole[epoch][: 4 * at] + first) == EVERY_SAMPLE if at else first == []
    assert [sorted(samples) for samples in rest] == [EVERY_SAMPLE] * (1 - epoch if at else 1)
