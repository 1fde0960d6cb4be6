"""Static marks a callable, and goes wherever that went."""

import pickle

import pytest
from PIL import ImageOps

from seneca import transforms as T


def test_it_calls_what_it_marks_and_is_named_after_it():
    assert T.Static(len)("abc") == 3
    assert repr(T.Static(ImageOps.equalize)) == "Static(ImageOps.equalize)"
    assert repr(T.Static(T.CenterCrop(3))) == f"Static({T.CenterCrop(3)!r})"


def test_equal_marks_are_equal_and_pickle():
    assert pickle.loads(pickle.dumps(T.Static(len))) == T.Static(len) != T.Static(max)


def test_what_cannot_be_called_is_refused():
    with pytest.raises(TypeError, match="a callable, such as a function, but got 3"):
        T.Static(3)
