"""transformers' Trainer: makes its loader itself, of the dataset that it is given, with accelerate."""

import pytest

pytest.importorskip("transformers", reason="transformers is not here; `make test-frameworks` installs it")
pytest.importorskip("accelerate", reason="accelerate is not here; `make test-frameworks` installs it")

from recorded import CACHE_BYTES, COUNT, Points, ours, planned, untrained_line
from transformers import Trainer, TrainingArguments

import seneca

EVERY_SAMPLE = list(range(COUNT))


class TrainerWithLoader(Trainer):
    """As its documentation says to give it another loader."""

    def __init__(self, *args, loader, **more):
        super().__init__(*args, **more)
        self.loader = loader

    def get_train_dataloader(self):
        return self.accelerator.prepare(self.loader)


@pytest.fixture
def arguments(tmp_path):
    return TrainingArguments(
        output_dir=str(tmp_path),
        num_train_epochs=2,
        per_device_train_batch_size=4,
        per_device_eval_batch_size=4,
        learning_rate=0.3,
        lr_scheduler_type="constant",
        label_names=["y"],
        logging_strategy="no",
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    )


def train(trainer):
    """The samples of its two epochs."""
    before = trainer.model.error()
    trainer.train()
    assert trainer.model.error() < before / 2
    seen = trainer.model.seen
    assert len(seen) == 2 * COUNT
    return seen[:COUNT], seen[COUNT:]


def shared_points(**more):
    return seneca.SharedDataset(Points(), cache_bytes=CACHE_BYTES, **more)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_shared_dataset_is_trained_on_once_an_epoch(arguments, workers):
    arguments.dataloader_num_workers = workers
    shared = shared_points()
    first, second = train(Trainer(untrained_line(), arguments, train_dataset=shared))
    assert sorted(first) == sorted(second) == EVERY_SAMPLE
    assert first != second
    assert shared.stats()["delivered"] == 2 * COUNT


def test_a_shared_dataset_leaves_what_it_makes_for_a_job_that_wants_it(arguments, another_job):
    other = another_job("points")
    train(Trainer(untrained_line(), arguments, train_dataset=shared_points()))
    found = other.finish()
    assert sorted(found["samples"]) == EVERY_SAMPLE
    assert found["served"]["augmented"] > COUNT // 2


@pytest.mark.parametrize("make", [ours, planned])
def test_a_loader_that_the_trainer_is_given_is_trained_on_once_an_epoch(arguments, make):
    first, second = train(
        TrainerWithLoader(untrained_line(), arguments, train_dataset=Points(), loader=make(Points()))
    )
    assert sorted(first) == sorted(second) == EVERY_SAMPLE
    assert first != second


def test_a_planned_loader_still_shares_under_the_trainer(arguments):
    loader = planned(Points())
    train(TrainerWithLoader(untrained_line(), arguments, train_dataset=Points(), loader=loader))
    assert loader.dataset.stats()["delivered"] == 2 * COUNT


def test_evaluating_a_shared_dataset_is_in_order_and_whole(arguments):
    trainer = Trainer(untrained_line(), arguments, eval_dataset=shared_points())
    labels = trainer.predict(trainer.eval_dataset).label_ids
    assert [round(float(y) * COUNT / 2) for y in labels.ravel()] == EVERY_SAMPLE
