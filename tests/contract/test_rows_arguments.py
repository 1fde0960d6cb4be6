"""Section 1: the constructor. Names, order, defaults, what is refused and how, what is warned of."""

import inspect
import multiprocessing
import warnings

import pytest
import torch
from subjects import SAMPLES, TORCH, epoch, torchs_warnings
from torch.utils.data import (
    BatchSampler,
    RandomSampler,
    SequentialSampler,
    default_collate,
    default_convert,
)
from toys import Count, Locked, Numbers, Recording, keep

import seneca

PARAMETERS = list(inspect.signature(torch.utils.data.DataLoader.__init__).parameters.values())[1:]


def nothing(worker):
    """A worker_init_fn."""


def test_thirteen_arguments_go_by_position(load, dataset):
    generator = torch.Generator()
    given = {
        "dataset": dataset, "batch_size": 5, "shuffle": None, "sampler": [3, 1, 2], "batch_sampler": None,
        "num_workers": 2, "collate_fn": keep, "pin_memory": True, "drop_last": True, "timeout": 7,
        "worker_init_fn": nothing, "multiprocessing_context": "fork", "generator": generator,
    }  # fmt: skip
    assert list(given) == [parameter.name for parameter in PARAMETERS[:13]]
    loader = load(*given.values())
    for name in given.keys() - {"shuffle", "batch_sampler", "multiprocessing_context"}:
        assert getattr(loader, name) is given[name], name
    assert loader.multiprocessing_context.get_start_method() == "fork"
    with pytest.raises(TypeError):
        load(*given.values(), 4)


@pytest.mark.meant("arguments")
def test_the_signature_is_torchs_and_what_is_added_is_keyword_only(load):
    parameters = list(inspect.signature(load.cls.__init__).parameters.values())[1:]
    own = parameters[len(PARAMETERS) :]
    assert [(p.name, p.kind, p.default) for p in parameters[: len(PARAMETERS)]] == [
        (p.name, p.kind, p.default) for p in PARAMETERS
    ]
    assert bool(own) != load.is_torch
    assert all(p.kind is p.KEYWORD_ONLY for p in own)


@pytest.mark.meant("arguments")
def test_arguments_that_are_added_are_attributes_of_their_names(load):
    own = {"cache": None, "cache_bytes": "1MiB", "split": "50-50-0", "share": "none", "on_error": "skip"}
    own["snapshot_every_n_steps"] = 10  # torchdata's
    if load.is_torch:
        with pytest.raises(TypeError, match="unexpected keyword argument"):
            load(Numbers(3), **own)
    else:
        loader = load.cls(Numbers(3), **own)
        assert {name: getattr(loader, name) for name in own} == own


def test_the_defaults_are_torchs(load, dataset):
    loader = load(dataset)
    assert loader.dataset is dataset
    assert (loader.batch_size, loader.num_workers, loader.timeout) == (1, 0, 0)
    assert loader.pin_memory is loader.drop_last is loader.persistent_workers is False
    assert loader.worker_init_fn is loader.multiprocessing_context is loader.generator is None
    assert loader.prefetch_factor is None and loader.pin_memory_device == "" and loader.in_order is True
    assert loader.collate_fn is default_collate
    assert type(loader.sampler) is SequentialSampler and type(loader.batch_sampler) is BatchSampler


def test_the_prefetch_factor_is_2_with_workers(load, dataset):
    assert load(dataset, num_workers=1).prefetch_factor == 2
    assert load(dataset, num_workers=1, prefetch_factor=5).prefetch_factor == 5


def test_shuffle_makes_a_random_sampler_with_the_generator(load, dataset):
    generator = torch.Generator()
    sampler = load(dataset, shuffle=True, generator=generator).sampler
    assert (
        type(sampler) is RandomSampler and sampler.generator is generator and sampler.data_source is dataset
    )
    assert type(load(dataset, shuffle=False).sampler) is SequentialSampler


def test_a_batch_sampler_takes_the_place_of_the_batch_size(load, dataset):
    batches = [[1, 2], [0]]
    loader = load(dataset, batch_sampler=batches)
    assert loader.batch_sampler is batches
    assert loader.batch_size is None and loader.drop_last is False
    assert type(loader.sampler) is SequentialSampler and loader.collate_fn is default_collate


def test_without_batches_there_is_no_batch_sampler(load, dataset):
    loader = load(dataset, batch_size=None)
    assert loader.batch_size is None and loader.batch_sampler is None
    assert loader.collate_fn is default_convert


REFUSED = {
    "a negative num_workers": (
        {"num_workers": -1}, ValueError, "num_workers option should be non-negative"),
    "a negative timeout": (
        {"timeout": -1}, ValueError, "timeout option should be non-negative"),
    "a prefetch_factor without workers": (
        {"prefetch_factor": 2}, ValueError, "prefetch_factor option could only be specified in"),
    "a negative prefetch_factor": (
        {"prefetch_factor": -1, "num_workers": 1}, ValueError, "prefetch_factor option should be non-n"),
    "persistent workers without workers": (
        {"persistent_workers": True}, ValueError, "persistent_workers option needs num_workers > 0"),
    **{
        f"batch_size={size!r}": (
            {"batch_size": size}, ValueError,
            f"batch_size should be a positive integer value, but got batch_size={size}")
        for size in (0, -1, 2.5, "4", True)
    },
    "drop_last that is no bool": (
        {"drop_last": 1}, ValueError, "drop_last should be a boolean value, but got drop_last=1"),
    "a sampler and shuffle": (
        {"sampler": [0], "shuffle": True}, ValueError, "sampler option is mutually exclusive with shuffle"),
    **{
        f"a batch_sampler and {other}": (
            {"batch_sampler": [[0]], **other}, ValueError, "batch_sampler option is mutually exclusive")
        for other in ({"batch_size": 2}, {"shuffle": True}, {"sampler": [0]}, {"drop_last": True})
    },
    "drop_last without batches": (
        {"batch_size": None, "drop_last": True}, ValueError, "batch_size=None option disables auto-batching"),
    "a start method without workers": (
        {"multiprocessing_context": "fork"}, ValueError, "multiprocessing_context can only be used with"),
    "an unknown start method": (
        {"multiprocessing_context": "thread", "num_workers": 1}, ValueError, "valid start method in ['fork"),
    "a context that is none": (
        {"multiprocessing_context": 1, "num_workers": 1}, TypeError, "should be a valid context"),
    "an unknown argument": (
        {"workers": 1}, TypeError, "unexpected keyword argument 'workers'"),
}  # fmt: skip


@pytest.mark.parametrize("row", REFUSED)
def test_what_the_constructor_refuses(load, dataset, row):
    arguments, kind, text = REFUSED[row]
    with pytest.raises(kind) as raised:
        load(dataset, **arguments)
    assert type(raised.value) is kind and text in str(raised.value)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"shuffle": True}, "expected unspecified shuffle option, but got shuffle=True"),
        ({"sampler": [0]}, "expected unspecified sampler option, but got sampler=[0]"),
        ({"batch_sampler": [[0]]}, "expected unspecified batch_sampler option, but got batch_sampler=[[0]]"),
    ],
)
def test_what_an_iterable_dataset_excludes(load, arguments, text):
    with pytest.raises(ValueError) as raised:
        load(Count(3), **arguments)
    assert text in str(raised.value)


def test_an_iterable_dataset_admits_that_it_is_not_shuffled(load):
    assert epoch(load(Count(3), shuffle=False, batch_size=2)) == [[0, 1], [2]]


def test_shuffling_nothing_is_refused(load):
    with pytest.raises(
        ValueError, match="num_samples should be a positive integer value, but got num_samples=0"
    ):
        load(Numbers(0), shuffle=True)
    assert epoch(load(Numbers(0))) == []


def test_a_timeout_needs_workers(load, dataset):
    loader = load(dataset, timeout=1)
    with pytest.raises(AssertionError, match="requires timeout == 0"):
        iter(loader)


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # torch's own, of a half-made iterator
def test_a_prefetch_factor_of_0_is_refused_by_the_iterator(load, dataset):
    loader = load(dataset, num_workers=1, prefetch_factor=0)
    with pytest.raises(AssertionError, match="prefetch_factor must be greater than 0"):
        iter(loader)


def of_too_many(caught):
    """How many of the warnings are of that, in torch's own words."""
    texts = [str(warning.message) for warning in caught if warning.category is UserWarning]
    return sum("2 worker processes in total. " in text and "in current system is 1" in text for text in texts)


def test_more_workers_than_cores_are_warned_of_at_construction(load, dataset, monkeypatch):
    monkeypatch.setattr(torch._utils, "cpu_count", lambda: 1)
    with pytest.warns(UserWarning) as caught:
        load(dataset, num_workers=2)
    assert of_too_many(caught) == 1
    with pytest.warns(UserWarning) as of_torch:
        torch.utils.data.DataLoader(dataset, num_workers=2)
    assert [(str(one.message), one.category, one.filename, one.lineno) for one in caught] == [
        (str(one.message), one.category, one.filename, one.lineno) for one in of_torch
    ]


def test_more_workers_than_cores_are_warned_of_at_every_iteration(load, dataset, monkeypatch):
    loader = load(dataset, num_workers=2)
    monkeypatch.setattr(torch._utils, "cpu_count", lambda: 1)
    for _ in range(2):
        with pytest.warns(UserWarning) as caught:
            iter(loader)
        assert of_too_many(caught) == 1


@pytest.mark.skipif(torch.accelerator.is_available(), reason="there is an accelerator to pin memory for")
@pytest.mark.parametrize("workers", [0, 1])
def test_pinning_without_an_accelerator_is_warned_of_and_goes_on(load, dataset, workers, monkeypatch):
    with torchs_warnings() as texts:
        loader = load(dataset, batch_size=8, pin_memory=True, pin_memory_device="cuda", num_workers=workers)
    assert texts == []
    with torchs_warnings() as texts:
        batches = list(loader)
    assert ["pin_memory_device is deprecated" in texts[0], "no accelerator is found" in texts[1]] == [
        True,
        True,
    ]
    assert len(texts) == 2 and len(batches) == 2 and not batches[0][0].is_pinned()


@pytest.mark.skipif(not torch.accelerator.is_available(), reason="there is no accelerator to pin memory for")
@pytest.mark.parametrize("workers", [0, 1])
def test_batches_are_pinned_for_an_accelerator(load, dataset, workers):
    images, labels = next(iter(load(dataset, pin_memory=True, num_workers=workers)))
    assert images.is_pinned() and labels.is_pinned()


@pytest.mark.parametrize("given", ["fork", "spawn", "forkserver", multiprocessing.get_context("spawn")])
def test_the_start_method_is_kept_as_a_context_and_a_property(load, dataset, given):
    loader = load(dataset, num_workers=1, multiprocessing_context=given)
    method = given if isinstance(given, str) else given.get_start_method()
    assert loader.multiprocessing_context.get_start_method() == method
    assert "multiprocessing_context" not in vars(loader)


@pytest.mark.parametrize(("workers", "factor"), [(1, 1), (1, 3), (2, 2)])
def test_outstanding_batches_are_the_factor_times_the_workers(load, workers, factor):
    sampler = Recording(20)
    batches = iter(
        load(Numbers(20), batch_size=2, sampler=sampler, num_workers=workers, prefetch_factor=factor)
    )
    assert len(sampler.taken) == 2 * workers * factor
    next(batches)
    assert len(sampler.taken) == 2 * (workers * factor + 1)


def test_nothing_is_taken_from_the_sampler_before_the_first_batch_without_workers(load):
    sampler = Recording(20)
    batches = iter(load(Numbers(20), batch_size=2, sampler=sampler))
    assert sampler.taken == []
    next(batches)
    assert sampler.taken == [0, 1]


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.stock
def test_drop_last_drops_what_makes_no_whole_batch(load, dataset, drop_last, workers):
    loader = load(dataset, batch_size=5, drop_last=drop_last, num_workers=workers)
    assert epoch(loader) == epoch(TORCH(dataset, batch_size=5, drop_last=drop_last))
    assert len(loader) == (2 if drop_last else 3)
    assert SAMPLES % 5


@pytest.mark.meant("notice")
def test_what_is_not_shared_is_noted_once_a_loader(load):
    loader = load(Locked(3))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert epoch(loader) == epoch(loader) == [[0], [1], [2]]
    assert [warning.category for warning in caught] == [seneca.SenecaWarning] * load.shares
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", seneca.SenecaWarning)
        assert epoch(load(Locked(3))) == [[0], [1], [2]]


@pytest.mark.parametrize("workers", [0, 1])
def test_an_iterable_dataset_is_loaded_where_warnings_are_errors(load, workers):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert epoch(load(Count(3), num_workers=workers)) == [[0], [1], [2]]
