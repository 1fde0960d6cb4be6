"""Samples of a listing: pairs that are made when they are asked for."""

import dataclasses
import pickle

import numpy as np
import pytest

from seneca.data.sources import PIECE, ListedPaths, Listing, Samples
from seneca.errors import SourceError


def listing_of(containers, names):
    """``names``: pairs of the number of a container and a name in it."""
    pieces = np.zeros(len(names), PIECE)
    pieces["container"] = [number for number, _ in names]
    return Listing(containers, np.zeros(0), [name for _, name in names], pieces)


NAMES = [(0, "a/1"), (0, "a/2"), (1, "a/3"), (0, "b/4"), (1, ""), (1, "b/ü\udcff"), (1, "")]


@pytest.fixture
def listing():
    return listing_of(["/x.tar", "/y.tar"], NAMES)


def test_names_as_one_text_are_the_names(listing):
    assert listing.all_names() == [name for _, name in NAMES]
    assert listing_of([], []).all_names() == []


def test_samples_are_pairs_of_path_and_label(listing):
    samples = Samples(ListedPaths(listing), [*range(7)])
    pairs = [(listing.path(index), index) for index in range(7)]
    assert pairs[4] == ("/y.tar", 4) and pairs[0] == ("/x.tar/a/1", 0)
    assert list(samples) == pairs and len(samples) == 7 and samples.labels == [*range(7)]
    assert [samples[index] for index in range(-7, 7)] == pairs * 2
    assert samples[1:6:2] == pairs[1:6:2] and samples[np.int64(2)] == pairs[2]
    assert pairs[3] in samples and samples.index(pairs[3]) == 3
    for index in (7, -8):
        with pytest.raises(IndexError):
            samples[index]


def test_samples_equal_a_list_of_the_same_pairs(listing):
    samples = Samples(ListedPaths(listing), [*range(7)])
    assert samples == list(samples) and tuple(samples) == samples
    assert samples == pickle.loads(pickle.dumps(samples))
    assert (
        samples != Samples(ListedPaths(listing), [0] * 7)
        and samples != list(samples)[:6]
        and samples != "samples"
    )
    assert repr(samples) == "<7 samples, the first of them ('/x.tar/a/1', 0)>"
    assert repr(Samples(ListedPaths(listing_of([], [])), [])) == "<0 samples>"


def test_samples_cannot_be_changed(listing):
    with pytest.raises(TypeError):
        Samples(ListedPaths(listing), [*range(7)])[0] = ("/z", 1)


FOLDERS = Listing(
    ["/x.tar", "/y.tar"],
    np.zeros(2),
    ["a/1", "b/2", "c/3"],
    np.array([(512, 10, 0), (2048, 20, 0), (512, 30, 1)], PIECE),
    [0, 1, 2],
    ["a", "b", "c"],
)
X = dataclasses.replace(
    FOLDERS, names=["a/1", "b/2"], pieces=FOLDERS.pieces[:2], labels=[0, 1], classes=["a", "b"]
)


@pytest.mark.parametrize(
    ("change", "holds"),
    [
        ({}, True),
        ({"names": ["b/2", "a/1"], "pieces": FOLDERS.pieces[[1, 0]], "labels": [1, 0]}, True),
        ({"labels": None}, True),
        ({"labels": [0, 0]}, False),
        ({"classes": ["a", "c"]}, False),
        ({"names": ["a/1", "b/3"]}, False),
        ({"names": ["b/2", "a/1"]}, False),
        ({"pieces": np.array([(512, 10, 0), (1536, 20, 0)], PIECE)}, False),
        ({"pieces": np.array([(512, 10, 0), (2048, 19, 0)], PIECE)}, False),
        ({"names": ["a/1"], "pieces": FOLDERS.pieces[:1], "labels": [0]}, False),
    ],
)
def test_a_container_holds_its_samples_while_each_is_in_its_place(change, holds):
    now = dataclasses.replace(X, **change)
    assert dataclasses.replace(FOLDERS, again={"/x.tar": now}.get).holds(0) is holds


def test_what_cannot_be_listed_holds_nothing():
    def damaged(path):
        raise SourceError(path)

    def empty(path):
        raise FileNotFoundError(path)

    def gone(path):
        raise PermissionError(path)

    for again in (damaged, empty, None):
        assert not dataclasses.replace(FOLDERS, again=again).holds(1)
    with pytest.raises(PermissionError):
        dataclasses.replace(FOLDERS, again=gone).holds(1)
    without = dataclasses.replace(FOLDERS, names=X.names, pieces=X.pieces, labels=X.labels, again=damaged)
    assert without.holds(1), "no sample is in it"
