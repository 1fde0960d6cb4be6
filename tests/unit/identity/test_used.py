"""Which attributes of an object count: those that code reads which runs while items are made."""

import threading

import pytest
from fingerprints import made

from seneca.identity import Fingerprinter

HEAD = """
class A:
    def __init__(self):
        self.read = self.unread = self.other = None
    def __getitem__(self, i): {2}
    def log(self): return self.unread
    def __repr__(self): return str(self.unread)
it = A()
it.read, it.unread = {0}, {1}
"""


def identity(item, read=1, unread=1, more=""):
    return Fingerprinter(reads_only=True).identify(made(HEAD.format(read, unread, item) + more)).here


ONLY_ONE = ["return self.read", "return getattr(self, 'read')", "x = self; return x.read"]
ALL = ["return vars(self)", "return self.__dict__", "return getattr(self, i)", "return self.log(), self.read"]


@pytest.mark.parametrize("item", ONLY_ONE)
def test_an_attribute_that_no_code_reads_does_not_count(item):
    assert identity(item) == identity(item, unread=2) != identity(item, read=2)


@pytest.mark.parametrize("item", ALL)
def test_what_may_be_read_counts(item):
    assert identity(item) != identity(item, unread=2)


def test_a_method_that_comes_to_run_counts_with_all_it_reads():
    """It is named by a function that is met after it."""
    more = "\ndef helper(a): return a.log()\nA.__len__ = lambda self: helper(self)\n"
    assert identity("return self.read") == identity("return self.read", unread=2)
    assert identity("return self.read", more=more) != identity("return self.read", unread=2, more=more)


def test_a_whole_fingerprint_counts_all():
    names = [
        Fingerprinter().identify(made(HEAD.format(1, unread, "return self.read"))).here for unread in (1, 2)
    ]
    assert names[0] != names[1]


def test_a_lock_counts_though_nobody_reads_it():
    it = made(HEAD.format(1, 1, "return self.read"))
    it.other = threading.Lock()
    with pytest.raises(Exception, match="lock"):
        Fingerprinter(reads_only=True).identify(it)


ADDS = ["self.read += 1", "self.read -= 2.5", "self.read += 1; self.other = i"]
USES = [
    "self.read += i",
    "self.read += 1; return self.read",
    "self.read = self.read + 1",
    "self.other.read += 1; return self.read",
    "self.read *= 2",
]


@pytest.mark.parametrize("item", ADDS)
def test_a_number_to_which_code_only_adds_does_not_count(item):
    assert identity(item) == identity(item, read=2)
    assert identity(item, "[1]") != identity(item, "[2]"), "what is added to may be any object"


@pytest.mark.parametrize("item", USES)
def test_a_number_that_is_used_otherwise_counts(item):
    assert identity(item) != identity(item, read=2)
