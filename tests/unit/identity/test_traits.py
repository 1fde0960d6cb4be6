"""The parts of an identity have names, and two identities that differ, differ in one of them."""

import pytest
from fingerprints import made

from seneca.identity import Fingerprinter

SOURCE = """
K = {0}
class T:
    def __init__(self, k): self.k = k
    def __call__(self, x): return x * self.k
class A:
    c = {1}
    def __init__(self):
        self.a = 1
    def __getitem__(self, i, default={5}):
        for t in self.ts: i = t(i)
        return i * K * self.a * self.c * self.d["x"][0] * default
it = A()
it.a, it.ts, it.d = {2}, [T(1), T({3})], {{"x": [{4}, "b"]}}
"""
PARTS = ["the global user.K", "A.c", "a", "ts[1].k", "d[x][0]", "the default default of A.__getitem__"]


def traits(*numbers):
    return Fingerprinter(reads_only=True).identify(made(SOURCE.format(*numbers))).made_of.traits


@pytest.mark.small(2)
@pytest.mark.parametrize("place", range(6))
def test_a_part_that_differs_is_named_and_no_other(place):
    one, other = traits(*[1] * 6), traits(*(2 if i == place else 1 for i in range(6)))
    assert set(one) == set(other)
    assert {name for name in one if one[name] != other[name]} == {PARTS[place]}


def test_equal_objects_have_equal_parts():
    assert traits(*range(6)) == traits(*range(6))


def test_code_that_differs_is_named_by_its_function():
    one = Fingerprinter(reads_only=True).identify(made("def it(): return 1")).made_of.traits
    other = Fingerprinter(reads_only=True).identify(made("def it(): return 2")).made_of.traits
    assert {name for name in one if one[name] != other[name]} == {"the code of it"}
