"""Pairs of jobs whose state differs: globals, environment, what is set in mid-epoch."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch
from alike import Items, check, labelled_first
from pairs import BATCH, SAMPLES, Scenario, run, senecas
from sizes import size

import seneca
from seneca.data.support import inspect_dataset


class Scaled:
    """A transform with state."""

    def __init__(self, k):
        self.k = k

    def __call__(self, x):
        return x * self.k


# The state of the process


DATA = None


class OfGlobal(Items):
    def item(self, index):
        return torch.tensor(int(DATA[index]))


@pytest.mark.small(1)
@pytest.mark.parametrize("stock", [False, True])
def test_a_worker_init_fn_that_sets_a_global(stock, tmp_path):
    def options(side):
        factor = side.pick(1, 100)

        def init(worker_id):
            global DATA
            DATA = torch.arange(SAMPLES) * factor

        return {"num_workers": 1, "worker_init_fn": init}

    def want(side, dataset, index):
        return torch.tensor(index * side.pick(1, 100))

    make = (lambda side: shared(OfGlobal())) if stock else (lambda side: OfGlobal())
    check(Scenario(make, options, want=want, loader=stock_loader if stock else senecas), tmp_path)


def test_a_worker_init_fn_is_part_of_the_names():
    """It may set what no inspection sees, in a library say."""
    names = {
        inspect_dataset(OfGlobal(), worker_init_fn=init).stages.augmented
        for init in (None, lambda worker: np.seterr(all="raise"), lambda worker: np.seterr(all="ignore"))
    }
    assert len(names) == 3


@pytest.mark.whole_size(shown_by="test_a_worker_init_fn_that_sets_a_global")
def test_a_worker_init_fn_that_changes_the_dataset(tmp_path):
    def options(side):
        factor = side.pick(1, 100)

        def init(worker_id):
            torch.utils.data.get_worker_info().dataset.transform.k = factor

        return {"num_workers": 1, "worker_init_fn": init}

    def want(side, dataset, index):
        return torch.tensor(index * side.pick(1, 100))

    check(Scenario(lambda side: Transformed(1), options, want=want), tmp_path)


class Transformed(Items):
    def __init__(self, k):
        self.transform = Scaled(k)

    def item(self, index):
        return self.transform(torch.tensor(index))


class Thirds(Items):
    def item(self, index):
        return torch.tensor([index / 3])


def test_another_default_dtype(tmp_path):
    def make(side):
        if side.name == "B":
            torch.set_default_dtype(torch.float64)
        return Thirds()

    check(Scenario(make), tmp_path)


@pytest.mark.whole_size(shown_by="test_another_default_dtype")
def test_another_default_dtype_behind_a_transform_of_pictures(tmp_path):
    from torchvision_here import torchvision, v1

    folder = seneca.testing.make_pictures(tmp_path / "pictures", count=SAMPLES, classes=2, sides=(16, 16))

    def same_tensor(x):
        return x

    def make(side):
        if side.name == "B":
            torch.set_default_dtype(torch.float64)
        steps = [v1.RandomHorizontalFlip(), v1.ToTensor(), same_tensor]
        return torchvision.datasets.ImageFolder(str(folder), v1.Compose(steps))

    def of_the_default_dtype(dataset, **options):
        return Typed(senecas(dataset, **options))

    class Typed:
        def __init__(self, loader):
            self.loader, self.number = loader, 0
            self.stats, self.explain = loader.stats, loader.explain

        def __iter__(self):
            numbers = iter(range(SAMPLES))
            for batch in self.loader:
                yield [(next(numbers), str(picture.dtype)) for picture, _ in batch]

    def want(side, dataset, index):
        return side.pick("torch.float32", "torch.float64")

    check(Scenario(make, loader=of_the_default_dtype, want=want), tmp_path)


def test_an_environment_variable_that_the_code_names(tmp_path):
    def make(side):
        os.environ["SENECA_TEST_SCALE"] = side.pick("1", "100")

        class OfEnvironment(Items):
            def item(self, index):
                return torch.tensor(index * int(os.environ["SENECA_TEST_SCALE"]))

        return OfEnvironment()

    check(Scenario(make), tmp_path)


GLOBAL = 1


class OfMain(Items):
    def item(self, index):
        return torch.tensor(index * GLOBAL)


@pytest.mark.whole_size(shown_by="test_a_worker_init_fn_that_sets_a_global")
def test_a_global_that_forked_workers_have_and_spawned_ones_have_not(tmp_path):
    def make(side):
        global GLOBAL
        GLOBAL = 5
        return OfMain()

    def options(side):
        method = side.pick("fork", "spawn")
        return {"num_workers": 1, "multiprocessing_context": method, "persistent_workers": True}

    def want(side, dataset, index):
        return torch.tensor(index * side.pick(5, 1))

    check(Scenario(make, options, want=want, epochs=2), tmp_path)


# What the user says


class Keyed(Items):
    def __init__(self, size):
        self.size = size
        self.rng = np.random.default_rng(0)

    def item(self, index):
        return torch.full((2,), index * self.size)


def test_a_key_does_not_hide_an_argument_that_can_be_seen(tmp_path):
    scenario = Scenario(lambda side: Keyed(side.pick(1, 100)), lambda side: {"key": "mydata"})
    check(scenario, tmp_path)


def test_a_key_stands_for_what_cannot_be_seen(tmp_path):
    check(Scenario(lambda side: Keyed(3), lambda side: {"key": "mydata"}), tmp_path, shares=True)


class SaysItself(Items):
    def __fingerprint__(self):
        return "numbers"


class SaysLess(SaysItself):
    def __init__(self, k):
        self.k = k

    def item(self, index):
        return torch.tensor(index * self.k)


def test_an_inherited_fingerprint_that_does_not_know_what_the_subclass_adds(tmp_path):
    check(Scenario(lambda side: SaysLess(side.pick(1, 100))), tmp_path)


# Stages


class WithRate:
    """A transform of sounds."""

    def __init__(self, rate):
        self.rate = rate

    def __call__(self, array):
        return array


class Sounds(seneca.StagedDataset):
    def __init__(self, transform):
        self.transform = transform

    def __len__(self):
        return SAMPLES

    def read(self, index):
        return bytes([index] * 4)

    def augment(self, array, rng):
        return torch.from_numpy(np.array(array))

    def label(self, index):
        return index

    def __getitem__(self, index):
        return index, self.augment(self.decode(self.read(index)), None)


class ByProperty(Sounds):
    rate = property(lambda self: self.transform.rate)

    def decode(self, data):
        return np.frombuffer(data, np.uint8).astype(np.int64) * self.rate


class ByDecorated(Sounds):
    @torch.no_grad()
    def decode(self, data):
        return np.frombuffer(data, np.uint8).astype(np.int64) * self.transform.rate


def scaled(dataset, data):
    return np.frombuffer(data, np.uint8).astype(np.int64) * dataset.transform.rate


class ByHelper(Sounds):
    def decode(self, data):
        return scaled(self, data)


@pytest.mark.small(1)
@pytest.mark.parametrize("kind", [ByProperty, ByDecorated, ByHelper])
def test_a_transform_that_is_used_in_decode(kind, tmp_path):
    def options(side):
        return {"split": "0-100-0", "collate_fn": labelled_first}

    check(Scenario(lambda side: kind(WithRate(side.pick(1, 100))), options), tmp_path)


class Padded(torch.utils.data.Dataset):
    """Its items are as long as the longest of their batch."""

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        return index, torch.zeros(index + 1)

    def __getitems__(self, indices):
        return [(index, torch.zeros(max(indices) + 1)) for index in indices]


class SeldomShort(Padded):
    """Nearly all items are of the full length, as texts are that were cut off."""

    def __getitems__(self, indices):
        return [(index, torch.zeros(8 if any(i % 12 for i in indices) else 3)) for index in indices]

    def __getitem__(self, index):
        return self.__getitems__([index])[0]


@pytest.mark.small(1)
@pytest.mark.parametrize("kind", [Padded, SeldomShort])
def test_items_that_hang_on_their_batch(kind, tmp_path):
    class Unlike:
        """Gives None for an item that has the length of its batch."""

        def __init__(self, loader):
            self.loader = loader
            self.stats, self.explain = loader.stats, loader.explain

        def __iter__(self):
            for batch in self.loader:
                (length,) = {len(x) for _, x in kind().__getitems__([index for index, _ in batch])}
                yield [(index, None if len(x) == length else len(x)) for index, x in batch]

    def loader(dataset, **options):
        return Unlike(senecas(dataset, **options))

    scenario = Scenario(lambda side: kind(), loader=loader, want=lambda side, dataset, index: None)
    check(scenario, tmp_path, by_names=False)


# Torch's own loader


def shared(dataset):
    return seneca.SharedDataset(dataset, cache_bytes="8MiB")


class OfTorch:
    """Torch's own loader of a shared dataset, without Seneca's batch sampler."""

    def __init__(self, dataset, **options):
        options = {"batch_size": BATCH, "shuffle": True, "collate_fn": list} | options
        self.loader = torch.utils.data.DataLoader(dataset, **options)
        self.stats, self.explain = dataset.stats, dataset.explain

    def __iter__(self):
        return iter(self.loader)


def stock_loader(dataset, **options):
    return OfTorch(dataset, **options)


SPAWNED = pytest.param({"num_workers": 1, "multiprocessing_context": "spawn"}, id="spawned")


@pytest.mark.small(1)
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="here"),
        pytest.param({"num_workers": 1}, id="forked"),
        *size([], [SPAWNED]),  # it imports torch in each epoch
    ],
)
@pytest.mark.parametrize("nested", [True, False])
def test_a_change_between_epochs_in_torch_s_own_loader(options, nested, tmp_path):
    def make(side):
        return shared(Transformed(1)) if side.name == "A" else Transformed(1)

    def between(side, dataset, epoch):
        if side.name == "A" and epoch == 1:
            if nested:
                dataset.dataset.transform.k = 100
            else:
                dataset.dataset.transform = Scaled(100)

    def loader(dataset, **given):
        return (
            stock_loader(dataset, **given) if isinstance(dataset, seneca.SharedDataset) else senecas(dataset)
        )

    check(Scenario(make, lambda side: side.pick(options, {}), loader=loader, between=between), tmp_path)


class Curriculum(Items):
    def __init__(self):
        self.step = torch.zeros(1, dtype=torch.int64).share_memory_()

    def item(self, index):
        return torch.tensor(index + 100 * int(self.step))


@pytest.mark.small(1)
@pytest.mark.parametrize("workers", [0, 1])
def test_a_shared_tensor_that_one_job_sets_in_mid_epoch(workers, tmp_path):
    def within(side, dataset, epoch, batch):
        if side.name == "A" and batch == 4:
            dataset.step.fill_(1)

    def between(side, dataset, epoch):
        if side.name == "A":
            dataset.step.fill_(0)

    def options(side):
        return {"num_workers": workers, "check_every": None}

    scenario = Scenario(
        lambda side: Curriculum(),
        options,
        within=within,
        between=between,
        want=lambda side, dataset, index: None if side.name == "A" else torch.tensor(index),
        epochs=size(2, 4),
    )  # what A is given depends on how far its worker is ahead
    a, b = run(scenario, tmp_path)
    assert a.once and b.once and b.wrong == []


def test_a_change_of_a_transform_in_mid_epoch(tmp_path):
    def within(side, dataset, epoch, batch):
        if side.name == "A" and (epoch, batch) == (0, 3):
            dataset.transform.k = 100

    check(Scenario(lambda side: Transformed(1), within=within), tmp_path)


@pytest.fixture(autouse=True)
def checkout(tmp_path):
    """The second module of the project that is checked out twice."""
    for name in "AB":
        path = tmp_path / name / "project" / "paths.py"
        path.parent.mkdir(parents=True)
        path.write_text("def name_of(i): return f'{i:02}.npy'\n")
