"""What is read from values that code uses by their attributes or keys."""

import argparse
import collections
import dataclasses
import types

import pytest

from seneca.identity.namespaces import MISSING, follow, is_configuration, is_namespace, items_of


@dataclasses.dataclass
class Config:
    size: int = 3
    inner: object = None


class Constants:
    size = 4

    class data:
        size = 5


class AttributeDict(dict):
    __getattr__ = dict.__getitem__


class Answers:
    def __getattr__(self, name):
        return 1


NAMESPACES = [
    argparse.Namespace(size=1),
    types.SimpleNamespace(size=2),
    Config(),
    Constants,
    {"size": 6},
    AttributeDict(size=7),
]


@pytest.mark.parametrize(
    "value",
    NAMESPACES,
    ids=[*("Namespace", "SimpleNamespace", "dataclass", "class", "dict", "dict with attributes")],
)
def test_namespaces_are_known_and_followed(value):
    assert is_namespace(value)
    step = "[size]" if type(value) is dict else "size"
    inner, left = follow(value, (step,))
    assert inner == items_of(value)["size"] and left == ()


@pytest.mark.parametrize(
    "value", [Answers(), [1], "text", collections.OrderedDict, ValueError, 5], ids=lambda v: repr(v)[:20]
)
def test_what_computes_its_attributes_is_none(value):
    assert not is_namespace(value) and not is_configuration(value)


def test_chains_go_through_all_kinds():
    whole = argparse.Namespace(config=Config(inner={"data": types.SimpleNamespace(size=9)}))
    assert follow(whole, ("config", "inner", "[data]", "size")) == (9, ())
    assert follow(Constants, ("data", "size")) == (5, ())


def test_a_chain_ends_where_a_value_is_used_otherwise():
    inner, left = follow(argparse.Namespace(names=["a"]), ("names", "append"))
    assert inner == ["a"] and left == ("append",)


def test_what_is_not_there_is_distinguished_from_none():
    assert follow(argparse.Namespace(a=None), ("a",)) == (None, ())
    assert follow({"a": None}, ("[b]",)) == (MISSING, ())


def test_an_attribute_that_is_not_there_counts_as_that_and_a_method_as_the_whole():
    whole = argparse.Namespace(a=None)
    assert follow(whole, ("b",)) == (MISSING, ())
    assert follow(whole, ("_get_kwargs",)) == (whole, ("_get_kwargs",))
