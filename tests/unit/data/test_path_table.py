"""Paths of a table are the strings that torchvision has."""

import copy
import os
import pickle

import numpy as np
import pytest

from seneca.data import path_table
from seneca.data.path_table import Paths, PathTable, labels_of

NAMES = [b"a/1.jpg", b"a/\xff.jpg", "b/é.jpg".encode(), b"b/data/x.jpg"]


@pytest.fixture
def table():
    text = b"".join(b"/data/" + name + b"\0" for name in NAMES)
    offsets = np.cumsum([0, *(len(name) + 7 for name in NAMES)]).astype(np.uint64)
    return PathTable(text, offsets, np.array([0, 0, 1, 1]), base=b"/data/", names=b"n" * 16)


@pytest.mark.parametrize("at_once", [1, 3, 100])
@pytest.mark.parametrize("root", ["/data", "/data/", "data", "../x/data", "."])
def test_paths_begin_as_the_root_was_given(table, root, at_once, monkeypatch):
    monkeypatch.setattr(path_table, "AT_ONCE", at_once)
    paths, expected = Paths(table, root), [os.path.join(root, os.fsdecode(name)) for name in NAMES]
    assert list(paths) == [paths[index] for index in range(4)] == paths[:] == expected
    assert paths[-1] == expected[-1] and paths[1:3] == expected[1:3] and paths[::-2] == expected[::-2]
    assert paths[np.int64(2)] == expected[2] and paths[4:] == [] and expected[1] in paths
    for index in (4, -5):
        with pytest.raises(IndexError):
            paths[index]


def test_the_text_is_for_the_folder_that_it_is_of(table):
    assert Paths(table, "/data").text_in("/anywhere")[0] is table.text
    assert Paths(table, "data").text_in("/")[1] is table.offsets
    assert Paths(table, "data").text_in("/home") is None


def test_names_are_those_below_the_root(table):
    paths = Paths(table, "/data")
    assert paths.names_below("/data/") == paths.names_below("/data") == b"n" * 16
    assert paths.names_below("/data/a") is None and paths.names_below("data") is None


def test_a_copy_is_equal_and_holds_the_table_once(table):
    both = Paths(table, "/data"), labels_of(table)
    paths, labels = pickle.loads(pickle.dumps(both))
    assert list(paths) == list(both[0]) and labels == both[1] == [0, 0, 1, 1] and labels._table is paths.table
    assert copy.deepcopy(both)[0] is both[0] and copy.deepcopy(table) is table
