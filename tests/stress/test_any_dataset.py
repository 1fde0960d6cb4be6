"""Two jobs on datasets of every grade, as processes with workers of every kind: what each was given."""

import itertools
import os
from multiprocessing import get_context

import numpy as np
import pytest
import torch
from job_processes import Host, assert_exactly_once, in_step
from sizes import size

import seneca

SAMPLES = 96
MEASURED = int(os.environ.get("SENECA_TEST_SAMPLES") or size(5_000, 10_000))


class Rows(torch.utils.data.Dataset):
    """Opaque: nested items that say which sample they are in three places."""

    def __init__(self, count=SAMPLES):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        drawn = np.float32(torch.rand(()))
        return {"row": torch.full((10,), index), "more": (float(index), drawn), "id": index}


class Sounds:
    """Staged: the sample is in the bytes, the label is put to it."""

    def __init__(self, count=SAMPLES):
        self.count = count

    def __len__(self):
        return self.count

    def read(self, index):
        return index.to_bytes(4, "little") * 8

    def decode(self, data):
        return np.frombuffer(data, np.uint32).astype(np.float32)

    def augment(self, array, rng):
        return array + 0.4 * rng.random()

    def label(self, index):
        return index


def ids_of_rows(batch):
    ids = batch["id"]
    assert (batch["row"] == ids[:, None]).all() and (batch["more"][0] == ids).all()
    return ids.numpy()


def ids_of_sounds(batch):
    sounds, ids = batch
    assert (sounds.long() == ids[:, None]).all()
    return ids.numpy()


@pytest.fixture(scope="session")
def with_torchvision():
    """Only where it is used: workers that are spawned have no need of it."""
    global torchvision, v2
    from torchvision_here import torchvision, v2


@pytest.fixture(scope="session")
def tiny_pictures(tmp_path_factory, with_torchvision):
    """96 pictures in three classes."""
    return seneca.testing.make_pictures(tmp_path_factory.mktemp("tiny"), count=SAMPLES, classes=3)


def train(grade, name, *, folder=None, count=SAMPLES, epochs=2, batch_size=8, meet=None, **options):
    """What a job does, see :mod:`job_processes`; the last thing that it logs is what it prepared.

    ``meet`` is called before the first batch and after each.
    """

    def work(log):
        torch.manual_seed(os.getpid())  # forked from one process, jobs would have one order
        if grade == "native":
            transform = v2.Compose(
                [v2.RandomResizedCrop(16), v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]
            )
            dataset = torchvision.datasets.ImageFolder(str(folder), transform)
        else:
            dataset = Rows(count) if grade == "opaque" else Sounds(count)
        loader = seneca.DataLoader(
            dataset, batch_size=batch_size, shuffle=True, cache=name,
            **({"cache_bytes": "2MiB", "split": "20-20-60"} | options),
        )  # fmt: skip
        assert loader.explain().startswith(f"{grade}: ")
        get_context("forkserver").set_forkserver_preload([__name__, "seneca.workers.dataset"])
        meet is None or meet()
        for epoch in range(epochs):
            for batch in loader:
                if grade == "native":
                    images, labels = batch
                    ids = loader.last_indices
                    assert images.shape[1:] == (3, 16, 16)
                    assert [dataset.targets[i] for i in ids] == labels.tolist()
                else:
                    ids = ids_of_rows(batch) if grade == "opaque" else ids_of_sounds(batch)
                log(epoch, ids)
                meet is None or meet()
        stats = loader.stats()
        assert stats["delivered"] == epochs * len(dataset)
        log(epochs, [stats["prepared"]])

    return work


def prepared(job, epochs):
    """Checks that each sample came once an epoch, and answers how many the job made."""
    delivered = job.delivered()
    [[made]] = delivered.pop(epochs)
    job.delivered = lambda: delivered
    return int(made)


METHODS = size(("none", "fork"), ("none", "fork", "spawn", "forkserver"))


@pytest.mark.small(2)
@pytest.mark.parametrize(
    ("grade", "method"),
    # Natively there are threads: no method starts them.
    [("native", "none"), ("native", "fork"), *itertools.product(("staged", "opaque"), METHODS)],
)
def test_two_jobs_get_each_sample_once_an_epoch(host: Host, tiny_pictures, grade, method):
    options = {}
    if method != "none":
        # Starting takes longer than all the rest: workers that are not forked are few, and stay for both
        # epochs. They have pickled the dataset, which two of one job do as two of two do.
        forked = method == "fork"
        options = dict(
            num_workers=2 if forked else 1, multiprocessing_context=method, persistent_workers=not forked
        )
    work = train(grade, host.name, folder=tiny_pictures, **options)
    jobs = [host.start(work) for _ in range(2)]
    assert [job.wait() for job in jobs] == [0, 0]
    for job in jobs:
        assert prepared(job, 2) <= 2 * SAMPLES
        assert_exactly_once(job, 2, SAMPLES, 8)
    assert host.segments() == []


METHODS = os.environ.get("SENECA_TEST_METHODS", "fork").split(",")


@pytest.mark.whole_size(shown_by="test_two_jobs_get_each_sample_once_an_epoch")
@pytest.mark.small(1)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("grade", "method"),
    [("native", "threads"), *((grade, method) for grade in ("staged", "opaque") for method in METHODS)],
)
def test_jobs_of_equal_speed_prepare_about_once_with_a_small_stage(
    host: Host, tmp_path, with_torchvision, grade, method
):
    """A stage of 5 % of the samples, batches of 32. SENECA_TEST_SAMPLES makes it larger than 10,000.

    The jobs wait for each other after every batch, so that they are of equal speed on any machine.
    """
    folder, options = None, {"multiprocessing_context": method}
    if grade == "native":
        folder, options = seneca.testing.make_pictures(tmp_path, MEASURED, sides=(24, 32)), {}
    meet = in_step(2)
    epochs = 2
    work = train(
        grade, host.name, folder=folder, count=MEASURED, epochs=epochs, batch_size=32, meet=meet,
        num_workers=2, persistent_workers=True, cache_bytes=MEASURED // 20 * 4096, split="0-0-100", **options,
    )  # fmt: skip
    jobs = [host.start(work) for _ in range(2)]
    assert [job.wait(600) for job in jobs] == [0, 0]
    rate = sum(prepared(job, epochs) for job in jobs) / (epochs * MEASURED)
    print(f"{grade}, {method}: {rate:.3f} preparations a sample and epoch")
    for job in jobs:
        assert_exactly_once(job, epochs, MEASURED, 32)
    assert 1 <= rate <= 1.15
