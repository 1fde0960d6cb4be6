"""Whatever torch's loader delivers of an item, Seneca's delivers, also of one that another job has made.

Each kind of item is a few samples of one dataset, and each batch is of one kind. The batches of one job are
made by itself, or by another job before. An item has a random number beside it, which shows who made it.
"""

from __future__ import annotations

import functools
import itertools
import os
import secrets
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pydantic
import pytest
import torch
from engine import Process
from items_in_words import in_words
from kinds_of_arrays import COMMON
from kinds_of_items import KINDS, NOT_PICKLED, SHARED
from sizes import size
from subjects import PATIENCE_S
from torch.utils.data import DataLoader, Dataset, default_collate

import seneca

pytestmark = pytest.mark.filterwarnings("ignore")  # some kinds are of functions that warn
EACH = size(2, 3)  # samples of a kind
WORKERS = {
    "here": {"num_workers": 0},
    "forked": {"num_workers": 2, "multiprocessing_context": "fork"},
    "spawned": {"num_workers": 1, "multiprocessing_context": "spawn"},
    "forkserver": {"num_workers": 1, "multiprocessing_context": "forkserver"},
}
METHODS = pytest.mark.parametrize("workers", size(["here", "forked"], list(WORKERS)))
AHEAD = 8  # batches that a job may draw before it is asked to go on


class Kinds(Dataset):
    """Sample ``i`` is of kind ``i // EACH``, with a random number."""

    def __init__(self, names: list[str]) -> None:
        self.names = names

    def __len__(self) -> int:
        return EACH * len(self.names)

    def __getitem__(self, index: int) -> tuple[float, Any]:
        name = self.names[index // EACH]
        value = bytes(60_000) if name == "first" else KINDS[name](index % EACH)
        return float(torch.rand((), dtype=torch.float64)), value


def collate(batch: list[tuple[float, Any]]) -> tuple[list[float], list[Any], Any]:
    """The items as they are, and as torch's function collates them."""
    numbers, values = map(list, zip(*batch, strict=True))
    try:
        with torch.no_grad():  # else workers could not send what is made of leaves
            collated = default_collate(values)
    except Exception as error:
        collated = f"{type(error)}: {error}"
    return numbers, values, collated


def load(cls: type[DataLoader], names: list[str], workers: str, **options: Any) -> DataLoader:
    options |= WORKERS[workers]
    if workers != "here":
        options["timeout"] = PATIENCE_S
    return cls(Kinds(names), batch_size=EACH, collate_fn=collate, **options)


def in_words_of(batches: Iterable[Any], names: list[str]) -> dict[str, Any]:
    """Of each kind: its random numbers, and what its items and their batch are, in words."""
    found: dict[str, Any] = {}
    for name, (numbers, values, collated) in zip(names, batches, strict=True):
        words = [in_words(value) for value in values]
        found[name] = numbers, words, in_words(collated)
    return found


def named(workers: str) -> list[str]:
    """The kinds that are delivered. The first batches are drawn before another job makes any."""
    return ["first"] * AHEAD + [name for name in KINDS if workers == "here" or name not in NOT_PICKLED]


@functools.cache
def of_torch(workers: str) -> dict[str, Any]:
    names = named(workers)
    return in_words_of(load(DataLoader, names, workers), names)


def assert_as_torch(given: dict[str, Any], workers: str) -> None:
    wanted = of_torch(workers)
    assert given.keys() == wanted.keys()
    differences = [
        f"{name}: {_difference(given[name][1:], wanted[name][1:])}"
        for name in wanted
        if given[name][1:] != wanted[name][1:]
    ]
    assert not differences, f"{len(differences)} differ\n" + "\n".join(differences)


def _difference(given: Any, wanted: Any) -> str:
    """The first part of what is in words that differs."""
    if isinstance(given, (tuple, list)) and isinstance(wanted, (tuple, list)) and len(given) == len(wanted):
        for one, other in zip(given, wanted, strict=True):
            if one != other:
                return _difference(one, other)
    return f"torch's {wanted}, Seneca's {given}"


def _other_job(pipe: Process, workers: str, options: dict[str, Any]) -> None:
    """Another job, without workers of its own."""
    torch.set_num_threads(1)
    torch.manual_seed(os.getpid())
    names = named(workers)
    loader = load(seneca.DataLoader, names, "here", **options)
    while True:
        asked_to = pipe.receive(None)
        if asked_to == "begin":
            batches = begun(loader)
            pipe.send(None)
        else:
            pipe.send(in_words_of(batches, names))


def begun(loader: DataLoader) -> Iterator[Any]:
    """An epoch that wants every sample from now on."""
    batches = iter(loader)
    getattr(batches._sampler_iter, "begin", int)()
    return batches


@pytest.fixture
def shared() -> dict[str, Any]:
    """The options of jobs that share a cache of this test's own.

    They share what costs nothing too, because the split is given.
    """
    cache = "items-" + secrets.token_hex(6)
    return {"cache": cache, "cache_bytes": "128MiB", "split": "0-0-100", "key": "kinds"}


@METHODS
def test_every_kind_is_delivered_as_torch_delivers_it(workers):
    names = named(workers)
    assert_as_torch(in_words_of(load(seneca.DataLoader, names, workers, cache=None), names), workers)


@pytest.mark.small(1)
@METHODS
def test_every_kind_that_another_job_made_is_delivered_as_torch_delivers_it(workers, shared):
    names = named(workers)
    loader = load(seneca.DataLoader, names, workers, **shared)
    with Process(_other_job, workers, shared) as other:

        def take() -> dict[str, Any]:
            other.send("take")
            return other.receive()

        def begin() -> None:
            other.send("begin")
            other.receive()

        mine = begun(loader)
        begin()
        theirs = take()
        assert_as_torch(ours := in_words_of(mine, names), workers)
        assert served(ours, theirs) == SHARED, loader.explain()
        del mine
        if workers == "here":  # the other has none either, and is now the one that is served
            assert_as_torch(theirs, workers)
            begin()
            ours = in_words_of(begun(loader), names)
            assert_as_torch(theirs := take(), workers)
            assert_as_torch(ours, workers)
            assert served(ours, theirs) == SHARED, loader.explain()


def served(some: dict[str, Any], others: dict[str, Any]) -> set[str]:
    """The kinds of which two jobs were given the same items."""
    return {name for name in some.keys() & KINDS.keys() if some[name][0] == others[name][0]}


@pytest.mark.small(1)
@pytest.mark.parametrize("workers", ["here", "forked"])
def test_torchs_own_loader_delivers_every_kind_of_a_shared_dataset(workers, shared):
    names = named(workers)
    dataset = seneca.SharedDataset(Kinds(names), **shared)
    sampler = torch.utils.data.SequentialSampler(dataset)
    batches = seneca.OpportunisticBatchSampler(sampler, EACH, drop_last=False)
    options = WORKERS[workers] | ({"timeout": PATIENCE_S} if workers != "here" else {})
    loader = DataLoader(dataset, batch_sampler=batches, collate_fn=collate, **options)
    for _ in range(2):
        assert_as_torch(in_words_of(loader, names), workers)


@pytest.mark.small(1)
@pytest.mark.parametrize("cache", [False, True])
@pytest.mark.parametrize("workers", ["here", "forked"])
def test_what_samples_have_in_common_they_have_in_common_in_a_batch(workers, cache, shared):
    """Of one job. From another job each sample comes by itself."""

    def found(cls: type[DataLoader], **options: Any) -> list[Any]:
        loader = cls(Common(), batch_size=EACH, collate_fn=in_words_here, **WORKERS[workers], **options)
        return list(loader)

    ours = found(seneca.DataLoader, **(shared if cache else {"cache": None}))
    assert ours == found(DataLoader)


class Common(Dataset):
    """Sample ``i`` is of kind ``i // EACH`` of those of which samples have memory in common."""

    def __len__(self) -> int:
        return EACH * len(COMMON)

    def __getitem__(self, index: int) -> Any:
        return list(COMMON.values())[index // EACH](index % EACH)


def in_words_here(batch: list[Any]) -> Any:
    return in_words(batch)


@pytest.mark.small(1)
@pytest.mark.parametrize("name", sorted(NOT_PICKLED))
def test_what_workers_cannot_send_is_an_error_that_says_so(name, shared):
    """With torch the run waits for it for ever."""
    loader = load(seneca.DataLoader, ["int", name, "str"], "forked", **shared)
    batches = iter(loader)
    assert next(batches)[1] == [KINDS["int"](i) for i in range(EACH)]
    with pytest.raises(
        (TypeError, AttributeError, RuntimeError), match="what collate_fn made cannot be sent"
    ):
        next(batches)
    assert next(batches)[1] == [KINDS["str"](i) for i in range(EACH)]


class Model(pydantic.BaseModel):
    label: int
    words: list[str]


class Apart(Dataset):
    """Of classes whose fingerprints may differ in a spawned process. So they are not among the kinds."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        record = np.zeros(2, [("a", "i2"), ("b", "U3")]).view(np.recarray)
        return Model(label=index, words=["a"]), record


@pytest.mark.small(1)
@METHODS
def test_models_and_recarrays_are_delivered_as_torch_delivers_them(workers, shared):
    options = {"batch_size": 2, "collate_fn": in_words_here, **WORKERS[workers]}
    assert list(seneca.DataLoader(Apart(), **options, **shared)) == list(DataLoader(Apart(), **options))


class Large(Dataset):
    """Items that are larger than the cache, and None in between."""

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> Any:
        return None if index % 2 else torch.full((2**20,), float(index))


def without_none(batch: list[Any]) -> torch.Tensor:
    return default_collate([item for item in batch if item is not None])


@pytest.mark.small(1)
@pytest.mark.parametrize("workers", ["here", "forked"])
def test_items_larger_than_the_cache_are_delivered_and_none_can_be_left_out(workers, shared):
    shared["cache_bytes"] = "2MiB"
    loader = seneca.DataLoader(Large(), 3, collate_fn=without_none, **shared, **WORKERS[workers])
    for _ in range(2):
        first, second = loader
        assert first[:, 0].tolist() == [0, 2] and second[:, -1].tolist() == [4]


class InMemory(Dataset):
    """Dicts that the dataset keeps."""

    def __init__(self) -> None:
        self.items = [{"x": torch.tensor([float(i)]), "name": f"{i}"} for i in range(6)]

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> Any:
        return self.items[index]


@pytest.mark.parametrize("workers", ["here", "forked"])
def test_what_the_training_loop_does_to_items_has_torchs_effect(workers, shared):
    """Without workers it changes the dataset's own items."""

    def delivered(cls: type[DataLoader], **options: Any) -> list[Any]:
        loader = cls(InMemory(), batch_size=2, collate_fn=list, **WORKERS[workers], **options)
        found = []
        for batch in itertools.chain(loader, loader):
            found.append([(item["x"].tolist(), item.get("name")) for item in batch])
            for item in batch:
                item["x"] += 100
                item.pop("name", None)
        return found

    wanted = delivered(DataLoader)
    shared.pop("key")
    assert delivered(seneca.DataLoader, **shared) == wanted
    assert delivered(seneca.DataLoader, cache=None) == wanted
