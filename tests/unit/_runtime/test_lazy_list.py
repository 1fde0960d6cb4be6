"""A lazy list does what a list of the same items does."""

import copy
import operator
import pickle
import random

import numpy as np
import pytest
import torch

from seneca._runtime.lazy_list import LazyList
from seneca.data.sources import Samples
from seneca.data.sources.labels import Labels
from seneca.identity import Fingerprinter, fingerprint

NUMBERS = [3, 1, 4, 1, 5, 9, 2, 6]
PAIRS = [(f"/data/{number}.jpg", label) for number, label in enumerate(NUMBERS)]


class Watched(tuple):
    """Items that may be read, but not all of them at once."""

    def __iter__(self):
        raise AssertionError("all items were made")


@pytest.fixture(params=["numbers", "pairs"])
def both(request):
    """A list, and a lazy one."""
    if request.param == "numbers":
        return list(NUMBERS), LazyList(Labels(np.array(NUMBERS, np.int64)))
    return list(PAIRS), LazyList(Samples([path for path, _ in PAIRS], NUMBERS))


CHANGES = {
    "an item": lambda a: a.__setitem__(2, a[0]),
    "the last item": lambda a: a.__setitem__(-1, a[0]),
    "a slice": lambda a: a.__setitem__(slice(1, 5), a[:2]),
    "every second": lambda a: a.__setitem__(slice(0, 4, 2), a[:2]),
    "an item less": lambda a: a.__delitem__(3),
    "a slice less": lambda a: a.__delitem__(slice(0, 8, 2)),
    "append": lambda a: a.append(a[1]),
    "extend": lambda a: a.extend(a[1:3]),
    "extend by itself": lambda a: a.extend(a),
    "insert": lambda a: a.insert(1, a[4]),
    "pop": lambda a: a.pop(),
    "pop the first": lambda a: a.pop(0),
    "remove": lambda a: a.remove(a[3]),
    "reverse": lambda a: a.reverse(),
    "sort": lambda a: a.sort(),
    "sort by a key": lambda a: a.sort(key=str, reverse=True),
    "clear": lambda a: a.clear(),
    "shuffle": lambda a: random.Random(1).shuffle(a),
    "in-place add": lambda a: operator.iadd(a, a[:2]),
    "in-place times": lambda a: operator.imul(a, 2),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_changes_are_those_of_a_list(both, change):
    ours, theirs = both[1], both[0]
    same = ours
    assert change(ours) == change(theirs) or change is CHANGES["in-place add"]
    assert ours is same and ours == theirs and theirs == ours and len(ours) == len(theirs)
    assert list(ours) == theirs
    change(ours)
    change(theirs)
    assert ours == theirs, "a second time"


@pytest.mark.parametrize("change", [change for change in CHANGES if change != "extend by itself"])
def test_a_change_leaves_what_it_was_made_of(both, change):
    theirs, ours = both
    items, other = ours.items, LazyList(ours.items)
    CHANGES[change](ours)
    assert list(items) == list(other) == theirs
    assert type(ours.items) is list and other.items is items


READS = {
    "length": len,
    "items": lambda a: [a[i] for i in range(-8, 8)],
    "numpy's numbers": lambda a: a[np.int64(3)],
    "slices": lambda a: (a[1:5], a[::-1], a[6:1:-2], a[9:], a[:-3]),
    "iteration": list,
    "reversed": lambda a: list(reversed(a)),
    "contains": lambda a: (a[3] in a, "no" in a, None in a),
    "index": lambda a: (a.index(a[3]), a.index(a[6], 2), a.index(a[3], -6, 8)),
    "count": lambda a: (a.count(a[1]), a.count("no")),
    "copy": lambda a: (a.copy(), copy.copy(a), copy.deepcopy(a)),
    "sorted": lambda a: (sorted(a), max(a), min(a)),
    "plus a list": lambda a: a + a[:1],
    "a list plus it": lambda a: a[:1] + a,
    "plus itself": lambda a: a + a,
    "times": lambda a: (a * 2, 2 * a),
    "order": lambda a: (a < a[:3], a <= a[:], a > a[:3], a >= a[1:], a[:3] < a),
    "zip": lambda a: list(zip(a, a, strict=True)),
    "unpacking": lambda a: [*a],
    "sample": lambda a: random.Random(2).sample(a, 3),
    "choice": lambda a: random.Random(2).choice(a),
    "pickle": lambda a: pickle.loads(pickle.dumps(a)),
    "a set": lambda a: set(a),
    "truth": bool,
    "array": lambda a: np.array(a).tolist(),
    "asarray": lambda a: np.asarray(a).tolist(),
    "unique": lambda a: np.unique(a).tolist(),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_reads_are_those_of_a_list(both, read):
    theirs, ours = both
    assert read(ours) == read(theirs)
    assert type(ours.items) is not list, "reading makes no list"
    ours.append(ours[0])
    theirs.append(theirs[0])
    assert read(ours) == read(theirs), "after a change"


@pytest.mark.parametrize(
    "wrong",
    [
        lambda a: a[8],
        lambda a: a[-9],
        lambda a: a["1"],
        lambda a: a.index("no"),
        lambda a: a.index(a[0], 1),
        lambda a: a.remove("no"),
        lambda a: hash(a),
        lambda a: operator.add(a, (1,)),
        lambda a: operator.add((1,), a),
        lambda a: a < (1,),
        lambda a: a.__setitem__(8, 1),
    ],
)
def test_errors_are_those_of_a_list(both, wrong):
    raised = []
    for one in both:
        with pytest.raises(Exception) as error:
            wrong(one)
        raised.append(error.type)
    assert raised[0] is raised[1]


def test_an_item_is_made_when_it_is_asked_for():
    lazy = LazyList(Watched(PAIRS))
    assert lazy[3] == PAIRS[3] and len(lazy) == 8 and lazy[1:2] == Watched(PAIRS[1:2])
    assert lazy == LazyList(lazy.items), "of the same items"
    with pytest.raises(AssertionError, match="all items were made"):
        lazy.append(PAIRS[0])


def test_it_equals_no_other_kind_of_sequence(both):
    theirs, ours = both
    assert ours != tuple(theirs) and ours != "text" and ours != theirs[:-1] and ours != theirs[::-1]
    assert ours != None  # noqa: E711


def test_labels_are_an_array_for_numpy_and_torch():
    lazy = LazyList(Labels(np.array(NUMBERS, np.int64)))
    array = np.asarray(lazy)
    assert array.dtype == np.int64
    array[:] = 0
    assert lazy == NUMBERS, "which is the caller's own"
    assert np.asarray(lazy, np.float32).dtype == np.float32
    assert np.bincount(lazy).tolist() == np.bincount(NUMBERS).tolist()
    assert torch.tensor(lazy).tolist() == torch.as_tensor(lazy).tolist() == NUMBERS
    assert all(type(label) is int for label in [*lazy, lazy[0], *lazy[2:4]])


class Dataset:
    def __init__(self, targets):
        self.targets, self.root = targets, "/data"

    def __getitem__(self, index):
        return self.targets[index]


def test_it_is_identified_as_the_list_and_a_change_is_seen():
    ours, theirs = LazyList(Labels(np.array(NUMBERS, np.int64))), list(NUMBERS)
    assert fingerprint(Dataset(ours)) == fingerprint(Dataset(theirs)) != fingerprint(Dataset(theirs[1:]))
    fingerprinter = Fingerprinter()
    fingerprinter.identify(ours, "it")
    assert not fingerprinter.watch.changed()
    ours[1] = 7
    assert fingerprinter.watch.changed()
    assert fingerprint(ours) != fingerprint(theirs)
