"""Datasets whose items bind attributes anew: jobs share as long as nothing that counts becomes another."""

from __future__ import annotations

import functools
import os
import sqlite3
import warnings

import pytest
import torch
from alike import Items, check
from pairs import SAMPLES, Scenario
from sizes import size

import seneca
from seneca.data.support import inspect_dataset
from seneca.workers.proof.table import MOST_INSPECTIONS

BEGUN_AT = 100


class LeavesOut(Items):
    """Opens what it needs in its first item, and leaves it out when it is pickled, as the docs advise."""

    def __init__(self, path):
        self.path = path
        self.handle = None

    def __getstate__(self):
        return {**vars(self), "handle": None}

    def item(self, index):
        if self.handle is None:
            self.handle = self.open()
        return torch.tensor(self.value_at(index))


class OfDatabase(LeavesOut):
    def open(self):
        return sqlite3.connect(self.path)

    def value_at(self, index):
        return self.handle.execute("SELECT value FROM items WHERE id = ?", (index,)).fetchone()[0]


class OfFile(LeavesOut):
    def open(self):
        return open(self.path, "rb")

    def value_at(self, index):
        return os.pread(self.handle.fileno(), 1, index)[0]


class CopiesItsLists(OfFile):
    """Its state is made of new lists each time that it is asked for."""

    def __getstate__(self):
        return {**vars(self), "handle": None, "names": list(self.names)}

    def __init__(self, path):
        super().__init__(path)
        self.names = [str(index) for index in range(SAMPLES)]


class Calls(Items):
    """Counts its calls, and says when it was called last. No item depends on that."""

    def __init__(self, begun_at):
        self.calls = begun_at
        self.last = None

    def item(self, index):
        self.calls += 1
        self.last = index
        return torch.tensor(index)


class Computed(Items):
    def __init__(self):
        self.size = 3

    @functools.cached_property
    def table(self):
        return torch.arange(SAMPLES) * self.size

    def item(self, index):
        return self.table[index].clone()


class Rebuilt(Items):
    """Binds equal values again and again."""

    def __init__(self):
        self.size = [2, ["a"]]

    def item(self, index):
        self.size = [2, ["a"]]
        return torch.tensor(index * self.size[0])


LARGE = 1 << 18  # numbers of 8 bytes: more than are compared one by one


class Made(Items):
    """Binds equal objects again and again, of which only an inspection finds that they are equal."""

    def __init__(self):
        self.scale = torch.full((LARGE,), 2)

    def item(self, index):
        self.scale = torch.full((LARGE,), 2)
        return index * self.scale[0]


def make_of(kind):
    def make(side):
        if kind is Calls:
            return Calls(side.pick(0, BEGUN_AT))
        return kind(str(side.both / "items")) if issubclass(kind, LeavesOut) else kind()

    return make


def want_of(kind):
    factor = {Calls: 1, Rebuilt: 2, Made: 2}.get(kind, 3)
    return lambda side, dataset, index: torch.tensor(index * factor)


@pytest.fixture
def items(tmp_path):
    """Makes the file of items of a kind of dataset."""
    path = tmp_path / "both" / "items"
    path.parent.mkdir()

    def write(kind):
        if kind is OfDatabase:
            with sqlite3.connect(path) as database:
                database.execute("CREATE TABLE items (id INTEGER PRIMARY KEY, value INTEGER)")
                database.executemany("INSERT INTO items VALUES (?, ?)", [(i, 3 * i) for i in range(SAMPLES)])
            database.close()
        else:
            path.write_bytes(bytes(3 * index for index in range(SAMPLES)))

    return write


@pytest.mark.small(1)
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", [OfDatabase, OfFile, CopiesItsLists, Calls, Computed, Rebuilt, Made])
def test_jobs_share_whose_items_bind_what_does_not_count(kind, workers, items, tmp_path):
    items(kind)
    options = {"num_workers": workers}
    scenario = Scenario(
        make_of(kind), lambda side: options, want=want_of(kind), epochs=size(3, 4), in_turn=True
    )
    check(scenario, tmp_path, shares=True)


class OfOrder(Items):
    """Its items depend on how many were made before."""

    def __init__(self):
        self.calls = 0

    def item(self, index):
        self.calls += 1
        return torch.tensor(index + 0 * self.calls)


class Lazy(Items):
    """Its state becomes another with its first item, and nothing says that items do not depend on that."""

    def __init__(self):
        self.table = None

    def item(self, index):
        if self.table is None:
            self.table = torch.arange(SAMPLES)
        return self.table[index].clone()


class SetsWhatIsComputed(Computed):
    def item(self, index):
        self.table = torch.arange(SAMPLES) * index
        return self.table[1].clone()


@pytest.mark.small(2)
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", [OfOrder, Lazy, SetsWhatIsComputed])
def test_a_change_that_counts_ends_the_sharing_and_is_named(kind, workers):
    loader = seneca.DataLoader(kind(), batch_size=4, num_workers=workers, cache_bytes="4MiB")
    name = "calls" if kind is OfOrder else "table"
    with pytest.warns(seneca.SenecaWarning, match=rf"attributes changed while items were made \({name}\)"):
        for _ in range(2):
            list(loader)


@pytest.fixture
def inspections(monkeypatch):
    made = []

    def counted(dataset, **options):
        made.append(dataset)
        return inspect_dataset(dataset, **options)

    monkeypatch.setattr("seneca.workers.inspection.inspect_dataset", counted)
    return made


@pytest.mark.parametrize(
    ("kind", "most"),
    [*((kind, 0) for kind in (OfFile, CopiesItsLists, Calls, Computed, Rebuilt)), (Made, MOST_INSPECTIONS)],
)
def test_the_inspections_because_of_bound_attributes_have_an_end(kind, most, items, inspections, tmp_path):
    """None is made because of what does not count. A job makes a few because of others, in all its epochs."""
    items(kind)
    made = (
        Calls(0)
        if kind is Calls
        else kind(str(tmp_path / "both" / "items"))
        if issubclass(kind, LeavesOut)
        else kind()
    )
    shared = seneca.SharedDataset(made, cache_bytes="4MiB")
    loader = torch.utils.data.DataLoader(shared, batch_size=1)
    epochs = 2
    with warnings.catch_warnings(record=True) as warned:
        for _ in range(epochs):
            assert len(list(loader)) == SAMPLES
    assert len(inspections) == epochs + most
    assert bool(warned) == (kind is Made)
