"""The demo's verdict: whether each epoch was whole."""

from __future__ import annotations

import numpy as np
import pytest

from seneca.cli.verdict import Verdict, exactly_once, judge, read_ids, write_ids

# --- the verdict


@pytest.mark.parametrize(
    ("ids", "verdict"),
    [
        ([2, 0, 1], Verdict(epochs=1, ids=3)),
        ([2, 0], Verdict(epochs=1, ids=2, missing=1)),
        ([2, 0, 1, 0, 0], Verdict(epochs=1, ids=5, repeated=2)),
        ([0, 0, 2], Verdict(epochs=1, ids=3, missing=1, repeated=1)),
        ([0, 1, 2, 3], Verdict(epochs=1, ids=4, foreign=1)),
        ([], Verdict(epochs=1, missing=3)),
    ],
)
def test_an_epoch_is_judged_by_its_ids(ids, verdict):
    found = exactly_once(np.array(ids, dtype=np.uint32), samples=3)
    assert found == verdict
    assert found.good == (sorted(ids) == [0, 1, 2])


def test_nothing_checked_is_not_good():
    assert not Verdict().good


def test_ids_are_read_back_by_epoch_and_in_order(tmp_path):
    with open(tmp_path / "ids", "wb") as file:
        write_ids(file, 0, np.array([3, 1], dtype=np.uint32))
        write_ids(file, 0, np.array([2], dtype=np.uint32))
        write_ids(file, 1, np.array([7], dtype=np.uint32))
    assert {epoch: ids.tolist() for epoch, ids in read_ids(tmp_path / "ids").items()} == {
        0: [3, 1, 2],
        1: [7],
    }


def test_half_a_pair_of_a_killed_job_is_left_out(tmp_path):
    with open(tmp_path / "ids", "wb") as file:
        write_ids(file, 0, np.array([0, 1], dtype=np.uint32))
        file.write(b"\0\0\0")
    assert judge(tmp_path / "ids", samples=2, epochs=1).good
    assert read_ids(tmp_path / "never written") == {}


def test_each_epoch_has_to_be_whole_by_itself(tmp_path):
    with open(tmp_path / "ids", "wb") as file:
        write_ids(file, 0, np.array([0, 0], dtype=np.uint32))
        write_ids(file, 1, np.array([1, 1], dtype=np.uint32))
    found = judge(tmp_path / "ids", samples=2, epochs=3)
    assert found == Verdict(epochs=3, ids=4, missing=4, repeated=2)
