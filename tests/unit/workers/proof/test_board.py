"""The verdicts of the processes of one dataset, which all of them read."""

import os

import pytest

from seneca.workers.proof.board import MOST_LOOKS, TEXT_BYTES, Board, Verdict

NAMES, OTHERS = (b"source", 1, 2), (b"source", 1, 3)


@pytest.fixture
def board():
    return Board()


def test_nothing_is_known_at_first(board):
    assert board.read(NAMES) is Verdict.UNKNOWN and board.text == "" and board.is_shared


def test_a_verdict_is_about_its_names_alone(board):
    board.write(NAMES, Verdict.PROVED)
    assert board.read(NAMES) is Verdict.PROVED and board.read(OTHERS) is Verdict.UNKNOWN


def test_one_that_does_not_last_is_of_its_look_alone(board):
    board.write(NAMES, Verdict.REFUSED, "why", look=4, lasts=False)
    assert board.read(NAMES, look=4) is Verdict.REFUSED and board.text == "why"
    assert board.read(NAMES, look=5) is Verdict.UNKNOWN and board.read(NAMES) is Verdict.UNKNOWN


def test_another_process_writes_what_this_one_reads(board):
    pid = os.fork()
    if pid == 0:
        board.write(NAMES, Verdict.UNPROVABLE, "they differ", look=1)
        os._exit(0)
    os.waitpid(pid, 0)
    assert board.read(NAMES, look=1) is Verdict.UNPROVABLE and board.text == "they differ"


def test_a_long_text_is_cut_and_the_looks_are_counted_all_the_same(board):
    board.write(NAMES, Verdict.REFUSED, "é" * TEXT_BYTES)
    assert board.text == "é" * (TEXT_BYTES // 2)
    assert [board.take_look() for _ in range(MOST_LOOKS + 1)] == [True] * MOST_LOOKS + [False]
