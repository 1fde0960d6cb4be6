"""The verdicts of the processes of one dataset, which all of them read."""

import os

import pytest

from seneca.workers.proof.table import MOST_INSPECTIONS, TEXT_BYTES, ProofState, ProofTable

NAMES, OTHERS = (b"source", 1, 2), (b"source", 1, 3)


@pytest.fixture
def table():
    return ProofTable()


def test_nothing_is_known_at_first(table):
    assert table.read(NAMES) is ProofState.UNKNOWN and table.text == "" and table.is_shared


def test_a_verdict_is_about_its_names_alone(table):
    table.write(NAMES, ProofState.PROVED)
    assert table.read(NAMES) is ProofState.PROVED and table.read(OTHERS) is ProofState.UNKNOWN


def test_one_that_does_not_last_is_of_its_inspection_alone(table):
    table.write(NAMES, ProofState.REFUSED, "why", inspection=4, lasts=False)
    assert table.read(NAMES, inspection=4) is ProofState.REFUSED and table.text == "why"
    assert table.read(NAMES, inspection=5) is ProofState.UNKNOWN and table.read(NAMES) is ProofState.UNKNOWN


def test_another_process_writes_what_this_one_reads(table):
    pid = os.fork()
    if pid == 0:
        table.write(NAMES, ProofState.UNPROVABLE, "they differ", inspection=1)
        os._exit(0)
    os.waitpid(pid, 0)
    assert table.read(NAMES, inspection=1) is ProofState.UNPROVABLE and table.text == "they differ"


def test_a_long_text_is_cut_and_the_inspections_are_counted_all_the_same(table):
    table.write(NAMES, ProofState.REFUSED, "é" * TEXT_BYTES)
    assert table.text == "é" * (TEXT_BYTES // 2)
    assert [table.take_inspection() for _ in range(MOST_INSPECTIONS + 1)] == [True] * MOST_INSPECTIONS + [
        False
    ]
