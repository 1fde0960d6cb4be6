"""Labels in an array are the numbers."""

import copy
import pickle

import numpy as np
import pytest

from seneca.data.sources import labels as module
from seneca.data.sources.labels import Labels

NUMBERS = [3, 1, -4, 1, 5, 9, 2, 2**63 - 1]


@pytest.fixture(params=[1 << 16, 3], ids=["together", "in parts"])
def labels(request, monkeypatch):
    monkeypatch.setattr(module, "AT_ONCE", request.param)
    return Labels(np.array(NUMBERS, np.int64))


def test_they_are_pythons_numbers(labels):
    assert list(labels) == [labels[index] for index in range(8)] == labels[:] == NUMBERS
    assert {type(label) for label in (*labels, labels[-1], *labels[2:4])} == {int}
    assert labels[::-2] == NUMBERS[::-2] and labels[9:] == [] and len(labels) == 8
    for wrong, error in ((8, IndexError), (-9, IndexError), ("1", TypeError), (1.0, TypeError)):
        with pytest.raises(error):
            labels[wrong]


def test_they_are_found_as_in_a_list(labels):
    for value in (*NUMBERS, 1.0, True, np.int64(9)):
        assert value in labels and labels.count(value) == NUMBERS.count(value)
        assert labels.index(value) == NUMBERS.index(value)
    assert labels.index(1, 2) == 3 and labels.index(1, -5, -3) == 3
    for value in (7, "1", None, [3], 1.5):
        assert value not in labels and labels.count(value) == 0
        with pytest.raises(ValueError, match="is not in list"):
            labels.index(value)
    with pytest.raises(ValueError, match="is not in list"):
        labels.index(1, 4, 8)


def test_they_equal_a_list_of_the_same_numbers(labels):
    assert labels == NUMBERS and labels == tuple(NUMBERS) and labels == Labels(labels.array.copy())
    assert labels != NUMBERS[1:] and labels != [*NUMBERS[:-1], 0] and labels != "text"
    assert pickle.loads(pickle.dumps(labels)) == labels and copy.deepcopy(labels) is labels
    assert (
        repr(labels) == "<8 labels, the first of them 3>" and repr(Labels(labels.array[:0])) == "<0 labels>"
    )


def test_an_array_of_them_is_the_callers_own(labels):
    array = np.asarray(labels)
    array[:] = 0
    assert labels == NUMBERS and np.asarray(labels, np.float32).dtype == np.float32


def test_labels_that_are_no_numbers_of_64_bits_stay_what_they_are():
    for given in ([1, 2.0], [1, True], ["a"], [2**63], [None]):
        assert Labels.of(given) is given
    assert Labels.of([1, 2]).array.tolist() == [1, 2] and Labels.of([]) == []
