"""Whether objects that were fingerprinted are still the same."""

import functools
import types

import numpy as np
import pytest
import torch

from seneca.identity.fingerprinter import Fingerprinter
from seneca.identity.watch import MOST_ELEMENTS, Attributes, Watch


def a_closure(value):
    def inner():
        return value

    def put(other):
        nonlocal value
        value = other

    return inner.__closure__, put


def cases():
    mapping, names, elements, members = {"a": [1]}, {"a": 1, "b": 2}, [1, 2], {1, 2}
    tensor, large = torch.zeros(3), torch.zeros(5000)
    array, values = np.zeros(3), [0]
    cells, put = a_closure(1)
    yield "mapping", lambda w: w.mapping(mapping), lambda: mapping.update(a=[1])
    yield "names", lambda w: w.names(names, ("a",)), lambda: names.update(a=7)
    yield "elements", lambda w: w.elements(elements), lambda: elements.append(3)
    yield "members", lambda w: w.elements(members), lambda: members.add(3)
    yield "cells", lambda w: w.cells(cells), lambda: put(2)
    yield "tensor", lambda w: w.tensor(tensor), lambda: tensor.add_(1)
    yield "large tensor", lambda w: w.tensor(large), lambda: large.add_(1)
    yield "array", lambda w: w.array(array), lambda: array.fill(1)
    yield "value", lambda w: w.value(lambda: values[0]), lambda: values.__setitem__(0, 1)


@pytest.mark.parametrize(("remember", "change"), [case[1:] for case in cases()], ids=[c[0] for c in cases()])
def test_a_change_is_seen_until_it_is_settled(remember, change):
    watch = Watch()
    remember(watch)
    assert not watch.changed()
    change()
    assert watch.changed()
    watch.settle()
    assert not watch.changed()


def test_names_that_were_not_asked_for_and_equal_numbers_are_no_change():
    watch, names, numbers = Watch(), {"a": 1, "b": 2}, [10**20]
    watch.names(names, ("a",))
    watch.elements(numbers)
    names["b"] = 3
    numbers[0] = 10**19 * 10
    assert not watch.changed()


def test_of_a_large_container_the_length_counts_alone():
    watch, elements = Watch(), [0] * (MOST_ELEMENTS + 1)
    watch.elements(elements)
    elements[0] = 1
    assert not watch.changed()
    elements.append(1)
    assert watch.changed()


@pytest.mark.parametrize("make", ["tensor", "array"])
def test_what_another_process_may_change_is_never_settled(make):
    """A change while items are made is else taken for one that making them has caused."""
    watch = Watch()
    mine = np.zeros(3)
    if make == "tensor":
        live = torch.zeros(3).share_memory_()
        watch.tensor(live)
    else:
        live = np.frombuffer(bytearray(24), float)
        watch.array(live)
    watch.array(mine)
    mine[0] = 1
    assert watch.changed() and not watch.changed_elsewhere()
    watch.settle()
    assert not watch.changed()
    live[0] = 1
    watch.settle()
    assert watch.changed() and watch.changed_elsewhere()


class Holding:
    """ValueKind mutable containers of every kind."""

    def __init__(self):
        self.words, self.none, self.nested = {"a", "b"}, set(), {"x": [{1, 2}, {frozenset({3})}, {}, []]}


def test_what_a_fingerprinter_has_met_is_the_same_until_it_changes():
    holding, fingerprinter = Holding(), Fingerprinter()
    fingerprinter.identify(holding)
    assert not fingerprinter.watch.changed()
    holding.nested["x"][0].add(9)
    assert fingerprinter.watch.changed()


# Attributes


@pytest.mark.parametrize(
    ("before", "now", "changed"),
    [
        (1, 1, False),
        (1, True, True),
        (10**20, 10**19 * 10, False),
        ([1, ("a", {"b": 2.0})], [1, ("a", {"b": 2.0})], False),
        ([1, 2], [1, 3], True),
        ([1, 2], (1, 2), True),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        (float("nan"), float("nan"), True),
        (object, object, False),
        ([object()], [object()], True),
    ],
)
def test_an_attribute_changes_if_its_new_value_is_not_alike(before, now, changed):
    owner = types.SimpleNamespace(value=before, other=0)
    attributes = Attributes(owner)
    owner.value = now
    assert attributes.changed() == ["value"] * changed


def test_attributes_that_come_and_go_are_named():
    owner = types.SimpleNamespace(goes=1, stays=2)
    attributes = Attributes(owner)
    del owner.goes
    owner.comes = 3
    assert attributes.changed() == ["comes", "goes"] == attributes.changed()


@pytest.mark.parametrize("stored", [False, True])
def test_a_cached_property_may_get_its_value_but_no_other(stored):
    class Owner:
        computed = functools.cached_property(lambda self: [1, {"a": torch.ones(3)}])

    owner = Owner()
    attributes = Attributes(owner, stores=lambda name: stored)
    _ = owner.computed
    assert attributes.changed() == ["computed"] * stored
    if not stored:
        owner.computed = object()
        assert attributes.changed() == ["computed"]


def test_a_cached_property_that_gives_something_else_once_more_has_changed():
    """A random one, for example: each job has its own."""

    class Owner:
        computed = functools.cached_property(lambda self: 7)
        other = functools.cached_property(lambda self: object())

    owner = Owner()
    attributes = Attributes(owner, stores=lambda name: False, repeat=lambda make: object())
    _ = owner.computed
    assert attributes.changed() == ["computed"]
    attributes = Attributes(owner, stores=lambda name: False)
    _ = owner.other
    assert attributes.changed() == ["other"]


def test_the_class_is_not_asked_again_for_what_does_not_count():
    asked = []

    def counted():
        asked.append(1)
        return {"kept": owner.kept}

    owner = types.SimpleNamespace(kept=1, handle=0)
    attributes = Attributes(owner, counted)
    for _ in range(5):
        owner.handle = object()
        assert attributes.changed() == []
    assert len(asked) == 2
    owner.kept = 2
    assert attributes.changed() == ["kept"]


@pytest.mark.parametrize(
    ("before", "now", "alike"),
    [
        ({1, "a"}, {"a", 1}, True),
        ({1}, {2}, False),
        ({(1,)}, {(1,)}, False),
        (np.arange(3), np.arange(3), True),
        (np.arange(3), np.arange(3.0), False),
        (np.array([None]), np.array([None]), False),
        (torch.ones(2), torch.ones(2), True),
        (torch.ones(2), torch.ones(2, requires_grad=True), False),
        (np.zeros(1 << 20), np.zeros(1 << 20), False),
    ],
)
def test_sets_and_small_arrays_are_alike_by_their_elements(before, now, alike):
    owner = types.SimpleNamespace(value=before)
    attributes = Attributes(owner)
    owner.value = now
    assert attributes.changed() == ["value"] * (not alike)


def test_a_state_that_cannot_be_read_has_changed():
    owner = types.SimpleNamespace(value=1)

    def counted():
        raise RuntimeError("no state")

    attributes = Attributes(owner, counted)
    assert attributes.changed() == []
    owner.value = 2
    assert attributes.changed() == ["__reduce_ex__"]
