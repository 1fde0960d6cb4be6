"""Names as one text are the list of strings that they were made of."""

import pickle

import numpy as np
import pytest

from seneca.data.sources.names import Names

SOME = ["a/1.jpg", "", "b/\udcff.JPG", "ü.jpeg", "c\nd.png", "jpg"]


def test_it_is_the_list_that_it_was_made_of():
    names = Names.of(SOME)
    assert names == SOME and list(names) == SOME and len(names) == 6
    assert [names[i] for i in range(-6, 6)] == [*SOME, *SOME]
    assert names[1:4] == SOME[1:4] and names != SOME[:-1] and names != [*SOME[:-1], "png"] and names != 7
    assert pickle.loads(pickle.dumps(names)) == SOME
    assert (repr(names), repr(Names.of([]))) == ("<6 names, the first of them 'a/1.jpg'>", "<0 names>")
    with pytest.raises(IndexError):
        names[6]


def test_some_of_them_in_another_order():
    names = Names.of(SOME).take(np.array([3, 0, 0]))
    assert names == ["ü.jpeg", "a/1.jpg", "a/1.jpg"]
    assert Names.one_after_the_other(bytes(names.parts()[0]), names.parts()[1]) == names


def test_lists_one_after_the_other():
    parts = [Names.of(SOME), Names.of([]), Names.of(SOME).take(np.array([4, 2]))]
    assert Names.joined(parts) == [*SOME, SOME[4], SOME[2]]
    assert Names.joined([Names.of([])]) == []


def test_the_text_of_a_part_has_nothing_of_the_rest():
    text, lengths = Names.of(SOME)[2:4].parts()
    assert bytes(text) == "b/\udcff.JPGü.jpeg".encode(errors="surrogateescape")
    assert lengths.tolist() == [7, 7]
    assert Names.of([]).parts()[0] == b""


def test_text_that_is_too_long_or_too_short_is_refused():
    for text in (b"abc", b"abcde"):
        with pytest.raises(ValueError, match="are not those of the names"):
            Names.one_after_the_other(text, np.array([1, 3]))


def test_which_end_so():
    names = Names.of(SOME)
    assert names.that_end_in((".jpg", ".jpeg")).tolist() == [0, 2, 3]
    assert names.that_end_in(("jpg", ".png")).tolist() == [0, 2, 4, 5]
    assert names.that_end_in(()).tolist() == []
    assert names.that_end_in(("",)).tolist() == [0, 1, 2, 3, 4, 5]
