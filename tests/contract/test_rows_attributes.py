"""Section 2: what others read from a loader, set on it, replace in it, and send elsewhere."""

import copy
import pickle

import pytest
import torch
from subjects import SAMPLES, TORCH, epoch, flat
from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler
from toys import Count, Numbers, Recording, keep

READ_BY_OTHERS = [
    "dataset",
    "batch_size",
    "num_workers",
    "pin_memory",
    "drop_last",
    "timeout",
    "sampler",
    "batch_sampler",
    "collate_fn",
    "worker_init_fn",
    "generator",
    "prefetch_factor",
    "persistent_workers",
    "pin_memory_device",
    "in_order",
    "multiprocessing_context",
    "_dataset_kind",
    "_iterator",
    "_auto_collation",
    "_index_sampler",
    "_IterableDataset_len_called",
]
FROZEN = ["batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"]


def test_it_is_a_torch_loader_and_has_all_of_its_attributes(load, dataset):
    loader, torchs = load(dataset), TORCH(dataset)
    assert isinstance(loader, torch.utils.data.DataLoader)
    assert vars(torchs).keys() <= vars(loader).keys()
    for name in READ_BY_OTHERS:
        assert type(getattr(loader, name)) is type(getattr(torchs, name)), name


def test_the_index_sampler_is_the_one_that_is_iterated(load, dataset):
    batches, samples = load(dataset, batch_size=2), load(dataset, batch_size=None)
    assert batches._index_sampler is batches.batch_sampler and batches._auto_collation is True
    assert samples._index_sampler is samples.sampler and samples._auto_collation is False
    assert load(Count(3))._dataset_kind == 1 and batches._dataset_kind == 0


@pytest.mark.parametrize("workers", [0, 1])
def test_an_iterator_can_be_had_without_iter(load, dataset, workers):
    loader = load(dataset, batch_size=5, num_workers=workers)
    assert epoch(loader._get_iterator()) == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9], [10, 11]]


@pytest.mark.parametrize("name", FROZEN)
def test_what_an_iteration_hangs_on_cannot_be_set_later(load, dataset, name):
    loader = load(dataset)
    before = getattr(loader, name)
    text = f"^{name} attribute should not be set after {load.cls.__name__} is initialized"
    with pytest.raises(ValueError, match=text):
        setattr(loader, name, before)

    class Own(load.cls):
        pass

    with pytest.raises(ValueError, match="should not be set after Own is initialized"):
        setattr(Own(dataset, **load.options), name, before)
    assert getattr(loader, name) is before


def test_everything_else_can_be_set_later(load, dataset):
    loader = load(dataset, num_workers=1)
    for name, value in {
        "num_workers": 2, "pin_memory": True, "timeout": 9, "collate_fn": keep, "worker_init_fn": keep,
        "generator": torch.Generator(), "prefetch_factor": 3, "pin_memory_device": "cuda", "in_order": False,
    }.items():  # fmt: skip
        setattr(loader, name, value)
        assert getattr(loader, name) is value
    loader.multiprocessing_context = "spawn"
    assert loader.multiprocessing_context.get_start_method() == "spawn"
    loader.anything_else = 1
    with pytest.raises(
        ValueError, match="multiprocessing_context option should specify a valid start method"
    ):
        loader.multiprocessing_context = "thread"


def test_a_collate_function_that_is_set_later_is_used(load, dataset):
    loader = load(dataset, batch_size=8)
    assert epoch(loader) == [[*range(8)], [*range(8, 12)]]
    loader.collate_fn = len
    assert list(loader) == [8, 4]


@pytest.mark.meant("threads")
def test_a_worker_init_fn_and_workers_that_are_set_later_are_used(load, dataset, tmp_path):
    loader = load(dataset, batch_size=4, num_workers=1)
    loader.worker_init_fn = lambda worker: (tmp_path / str(worker)).touch()
    loader.num_workers = 2
    assert len(list(loader)) == 3
    begun = [] if load.has_threads(dataset) else ["0", "1"]
    assert sorted(path.name for path in tmp_path.iterdir()) == begun


def test_a_generator_that_is_set_later_is_drawn_from(load, dataset):
    loader = load(dataset)
    loader.generator = torch.Generator().manual_seed(1)
    before = torch.get_rng_state(), loader.generator.get_state()
    iter(loader)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert not torch.equal(loader.generator.get_state(), before[1])


class Again:
    """As timm's and YOLO's: a batch sampler that never ends."""

    def __init__(self, sampler):
        self.sampler = sampler

    def __iter__(self):
        while True:
            yield from iter(self.sampler)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_subclass_may_replace_the_batch_sampler_by_the_mangled_name(load, dataset, workers):
    class MultiEpochs(load.cls):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self._DataLoader__initialized = False
            self.batch_sampler = Again(self.batch_sampler)
            self._DataLoader__initialized = True
            self.iterator = super().__iter__()

        def __len__(self):
            return len(self.batch_sampler.sampler)

        def __iter__(self):
            for _ in range(len(self)):
                yield next(self.iterator)

    loader = MultiEpochs(dataset, batch_size=5, shuffle=True, num_workers=workers, **load.options)
    for _ in range(3):
        assert sorted(flat(epoch(loader))) == [*range(SAMPLES)]
    with pytest.raises(ValueError, match="should not be set"):
        loader.batch_sampler = []


def test_a_batch_sampler_that_replaces_another_by_the_mangled_name_is_followed(load, dataset):
    loader = load(dataset, batch_size=5)
    loader._DataLoader__initialized = False
    loader.batch_sampler = BatchSampler(SequentialSampler(range(4)), 3, False)
    assert epoch(loader) == [[0, 1, 2], [3]]


@pytest.mark.parametrize("workers", [0, 1])
def test_a_subclass_may_have_an_index_sampler_of_its_own(load, dataset, workers):
    class Twice(load.cls):
        @property
        def _index_sampler(self):
            return [[1, 2], [2, 1]]

    loader = Twice(dataset, num_workers=workers, **load.of(dataset))
    assert epoch(loader) == [[1, 2], [2, 1]]


def test_an_iterator_has_the_user_s_dataset(load, dataset):
    for one in (dataset, Count(3)):
        for workers in (0, 1):
            assert iter(load(one, num_workers=workers))._dataset is one


def test_another_sampler_and_dataset_can_be_put_in_by_the_mangled_name(load, dataset):
    loader = load(dataset, batch_size=5)
    loader._DataLoader__initialized = False
    loader.sampler = Recording(4)
    loader.batch_sampler = BatchSampler(loader.sampler, 3, False)
    loader._DataLoader__initialized = True
    assert epoch(loader) == [[0, 1, 2], [3]] and loader.sampler.taken == [0, 1, 2, 3]
    loader._DataLoader__initialized = False
    loader.dataset = Numbers(2)
    loader.batch_sampler = BatchSampler(RandomSampler(loader.dataset), 1, False)
    if load.shares:
        loader.cache = load.of(loader.dataset)["cache"]  # the old one's has a name, and holds the old dataset
    assert sorted(flat(epoch(loader))) == [0, 1]


def test_it_can_be_subscribed_for_types(load, dataset):
    assert load.cls[int].__origin__ is load.cls
    assert epoch(load.cls[int](dataset, batch_size=8, **load.options)) == [[*range(8)], [*range(8, 12)]]


WAYS = {
    "pickle": lambda loader: pickle.loads(pickle.dumps(loader)),
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("used", [False, True])
@pytest.mark.stock
def test_a_loader_can_be_pickled_and_copied(load, dataset, way, used):
    loader = load(dataset, batch_size=5, drop_last=True)
    if used:
        epoch(loader)
    other = WAYS[way](loader)
    assert type(other) is load.cls and other.drop_last is loader.drop_last
    assert epoch(other) == epoch(loader) == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    with pytest.raises(ValueError, match="should not be set"):
        other.batch_size = 3


@pytest.mark.parametrize("way", ["pickle", "deepcopy"])
@pytest.mark.stock
def test_a_pickled_loader_goes_on_with_the_generator_as_it_was(load, dataset, way):
    loader = load(dataset, batch_size=5, shuffle=True, generator=torch.Generator().manual_seed(3))
    first = epoch(loader)
    other = WAYS[way](loader)
    assert epoch(other) == epoch(loader) != first
    assert other.generator is not loader.generator


@pytest.mark.parametrize("workers", [0, 1])
def test_an_iterator_cannot_be_pickled(load, dataset, workers):
    with pytest.raises(NotImplementedError, match="cannot be pickled"):
        pickle.dumps(iter(load(dataset, num_workers=workers)))


def test_workers_that_are_given_up_later_load_here(load, dataset):
    loader = load(dataset, batch_size=6, num_workers=1)
    loader.num_workers = 0
    loader.prefetch_factor = None
    assert epoch(loader) == [[*range(6)], [*range(6, 12)]]
