"""Samples of a listing: pairs that are made when they are asked for."""

import pickle

import numpy as np
import pytest

from seneca.data.sources import PIECE, Listing, Samples


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
    samples = Samples(listing, [*range(7)])
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
    samples = Samples(listing, [*range(7)])
    assert samples == list(samples) and tuple(samples) == samples
    assert samples == pickle.loads(pickle.dumps(samples))
    assert samples != Samples(listing, [0] * 7) and samples != list(samples)[:6] and samples != "samples"
    assert repr(samples) == "<7 samples, the first of them ('/x.tar/a/1', 0)>"
    assert repr(Samples(listing_of([], []), [])) == "<0 samples>"


def test_samples_cannot_be_changed(listing):
    with pytest.raises(TypeError):
        Samples(listing, [*range(7)])[0] = ("/z", 1)
