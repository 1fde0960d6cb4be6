"""Samplers and batch samplers of the user's: asked as torch asks them, and prepared natively."""

import itertools
import os

import numpy as np
import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    RandomSampler,
    Sampler,
    Subset,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

import seneca
from seneca import transforms as T
from seneca.audit.check import check
from seneca.errors import DecodeError

CROP = T.Compose([T.RandomResizedCrop(16), T.RandomHorizontalFlip(), T.ToTensor()])
RESIZE = T.Compose([T.Resize((8, 8)), T.ToTensor()])  # draws nothing from torch's generators
COUNT = 48
WEIGHTS = [1.0 + n % 5 for n in range(COUNT)]


class Endless(Sampler):
    """Indices without end, drawn from torch's global generator one by one."""

    def __iter__(self):
        while True:
            yield int(torch.randint(COUNT, ()))


class ByLabel(Sampler):
    """Batches of two pictures of one class, and of a third of another."""

    def __init__(self, targets):
        self.targets = np.asarray(targets)

    def __iter__(self):
        for label in torch.randperm(4).tolist():
            own = np.flatnonzero(self.targets == label)
            yield [own[0], int(own[1]), torch.tensor(int((own[-1] + 1) % COUNT))]

    def __len__(self):
        return 4


SAMPLERS = {
    "weighted": lambda _: {"sampler": WeightedRandomSampler(WEIGHTS, 50), "batch_size": 8},
    "with replacement": lambda _: {"sampler": RandomSampler(range(COUNT), replacement=True), "batch_size": 8},
    "of a subset": lambda _: {"sampler": SubsetRandomSampler(range(3, 33)), "batch_size": 7},
    "whole batches alone": lambda _: {
        "sampler": SubsetRandomSampler(range(30)), "batch_size": 7, "drop_last": True,
    },
    "a list": lambda _: {"sampler": [5, 5, -1, 0, 5], "batch_size": 2},
    "lists of lists": lambda _: {"batch_sampler": [[5, 5], [-1], [0, 1, 2, 3]]},
    "of labels": lambda dataset: {"batch_sampler": ByLabel(dataset.targets)},
    "a batch sampler": lambda _: {
        "batch_sampler": BatchSampler(WeightedRandomSampler(WEIGHTS, 20), 6, drop_last=False),
    },
    "without end": lambda _: {"sampler": Endless(), "batch_size": 5},
    "single samples": lambda _: {"sampler": WeightedRandomSampler(WEIGHTS, 9), "batch_size": None},
    "single samples in order": lambda _: {"batch_size": None},
}  # fmt: skip


def loader_of(dataset, **options):
    return seneca.DataLoader(dataset, **{"cache": None} | options)


def labels_of(batch):
    return torch.as_tensor(batch[1]).tolist()


def pictures_of(loader, most=None):
    return [batch[0].clone() for batch in itertools.islice(loader, most)]


def first_batches(loader):
    """The labels of the first batches, and where torch's global generator is after each."""
    found = []
    for batch in itertools.islice(loader, 12):
        found.append((labels_of(batch), torch.rand(()).item()))
    return found


@pytest.mark.small(3)
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", SAMPLERS)
def test_samplers_are_asked_when_torch_asks_them(picture_folder, kind, workers):
    dataset = seneca.ImageFolder(picture_folder, RESIZE)
    of_torch, ours = (
        cls(dataset, num_workers=workers, **SAMPLERS[kind](dataset), **options)
        for cls, options in ((torch.utils.data.DataLoader, {}), (seneca.DataLoader, {"cache": None}))
    )
    assert "native: " in ours.explain() and "the order is that of" in ours.explain()
    torch.manual_seed(1)
    expected = first_batches(of_torch) + first_batches(of_torch)
    torch.manual_seed(1)
    assert first_batches(ours) + first_batches(ours) == expected


def test_batches_do_not_depend_on_threads_and_each_draw_has_numbers_of_its_own(picture_folder):
    dataset = seneca.ImageFolder(picture_folder, CROP)
    seen = []
    for workers in (0, 1, 2):
        torch.manual_seed(3)
        seen.append(pictures_of(loader_of(dataset, sampler=[7] * 12, batch_size=4, num_workers=workers)))
    assert all(map(torch.equal, torch.cat(seen[0]), torch.cat(seen[1])))
    assert all(map(torch.equal, torch.cat(seen[0]), torch.cat(seen[2])))
    assert len({picture.numpy().tobytes() for picture in torch.cat(seen[0])}) == 12
    in_batches = torch.cat(pictures_of(loader_of(dataset, batch_sampler=[[7, 7], [7]])))
    assert len({picture.numpy().tobytes() for picture in in_batches}) == 3


def test_samples_are_those_of_a_subset(picture_folder):
    whole = seneca.ImageFolder(picture_folder, T.Resize((8, 8)))
    chosen = [40, 3, 17, 5]
    loader = loader_of(Subset(whole, chosen), batch_sampler=[[0, 0], [3, -3]])
    expected = loader_of(whole, batch_sampler=[[40, 40], [5, 3]])
    assert all(map(torch.equal, pictures_of(loader), pictures_of(expected)))


@pytest.mark.parametrize("workers", [0, 2])
def test_what_is_no_index_is_an_error_in_its_batchs_place(picture_folder, workers):
    dataset = seneca.ImageFolder(picture_folder, CROP)
    batches = iter(
        loader_of(
            dataset, batch_sampler=[[1], [COUNT], [2], [1.5], ["a"], [-COUNT - 1], [3]], num_workers=workers
        )
    )
    assert labels_of(next(batches)) == [dataset.targets[1]]
    with pytest.raises(IndexError, match=f"the index {COUNT}, but the dataset has {COUNT} pictures"):
        next(batches)
    assert labels_of(next(batches)) == [dataset.targets[2]]
    with pytest.raises(TypeError, match=r"gave 1\.5 as an index of 48 pictures: give a whole number"):
        next(batches)
    with pytest.raises(TypeError, match="gave 'a' as an index"):
        next(batches)
    with pytest.raises(IndexError, match=f"the index {-COUNT - 1}"):
        next(batches)
    assert labels_of(next(batches)) == [dataset.targets[3]]
    assert next(batches, None) is None


@pytest.mark.parametrize("workers", [0, 2])
def test_what_a_sampler_raises_is_raised(picture_folder, workers):
    def fails():
        yield from range(9)
        raise OSError("of the sampler")

    dataset = seneca.ImageFolder(picture_folder, CROP)
    with pytest.raises(OSError, match="of the sampler"):
        list(loader_of(dataset, sampler=fails(), batch_size=2, num_workers=workers))


@pytest.mark.parametrize("workers", [0, 2])
def test_bad_pictures_are_left_out_if_they_are_to_be_skipped(picture_folder, workers):
    dataset = seneca.ImageFolder(picture_folder, CROP)
    os.truncate(dataset.samples[5][0], 60)
    batches = [[1, 5, 2], [5], [5, 3], [4]]
    with pytest.warns(seneca.SenecaWarning, match="skipped a sample that cannot be read"):
        loader = loader_of(dataset, batch_sampler=batches, on_error="skip", num_workers=workers)
        found = [len(images) for images, _ in loader]
    assert found == [2, 1, 1] and loader.stats()["skipped"] == 3 and loader.stats()["delivered"] == 4
    given = iter(loader_of(dataset, batch_sampler=batches))
    lengths = []
    for _ in batches:
        try:
            lengths.append(len(next(given)[0]))
        except DecodeError as error:
            lengths.append(error.path)
    assert lengths == [dataset.samples[5][0]] * 3 + [1]


@pytest.mark.small(3)
@pytest.mark.parametrize("kind", [kind for kind in SAMPLERS if kind not in ("without end", "of labels")])
def test_a_resumed_epoch_is_the_rest_to_the_bit(picture_folder, kind):
    dataset = seneca.ImageFolder(picture_folder, CROP)

    def make(workers):
        return loader_of(dataset, num_workers=workers, **SAMPLERS[kind](dataset))

    torch.manual_seed(5)
    loader = make(2)
    whole, states = [], []
    for images, _ in loader:
        whole.append(images.clone())
        states.append(loader.state_dict())
    for step in (0, len(whole) // 2, len(whole) - 1):
        torch.manual_seed(6)
        resumed = make(0)
        resumed.load_state_dict(states[step])
        rest = pictures_of(resumed)
        assert len(rest) == len(whole) - step - 1 or step == len(whole) - 1
        if step < len(whole) - 1:
            assert all(map(torch.equal, rest, whole[step + 1 :]))


@pytest.mark.small(1)
@pytest.mark.parametrize("is_uniform", [True, False])
def test_copies_of_other_jobs_serve_each_job_once(picture_folder, name, tmp_path, monkeypatch, is_uniform):
    monkeypatch.setenv("SENECA_AUDIT", str(tmp_path / "audit"))
    dataset = seneca.ImageFolder(picture_folder, CROP)
    options = {"cache": name, "cache_bytes": "4MiB", "split": "20-40-40", "batch_size": 6}
    jobs = [loader_of(dataset, shuffle=True, job=job, **options) for job in ("one", "two")]
    sampler = WeightedRandomSampler(WEIGHTS, 96)
    if is_uniform:
        sampler = RandomSampler(dataset, replacement=True, num_samples=96)
    given = loader_of(dataset, sampler=sampler, job="given", **options)
    for _ in range(2):
        for _ in itertools.zip_longest(*map(iter, [*jobs, given])):
            pass
    assert given.stats()["served"]["augmented"] > 0, "it is served copies that were made for others"
    assert (given.stats()["staged"] > 0) == is_uniform, "and makes some for them if that bends no order"
    assert given.stats()["read_bytes"] < dataset.total_bytes(), "kept payloads serve it too"
    report = check(tmp_path / "audit")
    assert not report.violations and report.own_order == 2 and report.checked[1] == 4
