"""What one process sees of the servers of several hosts."""

import math

import pytest

from seneca.partition import Asked, Served


def asked(hits=0, misses=0, stored=0, read_s=0.0, file_bytes=1000):
    return Asked(hits + misses, hits, stored, hits * file_bytes, hits * read_s)


def test_what_was_asked_of_all_servers_adds_up():
    one = {"hits": 3, "misses": 2, "skipped": 1, "stored": 2, "bytes": 300, "get_s": 0.5, "wrong": 9}
    other = {"hits": 1, "misses": 0, "skipped": 0, "stored": 0, "bytes": 100, "get_s": 0.25, "wrong": 0}
    both = Asked.of([one, other])
    assert both == Asked(7, 4, 2, 400, 0.75)
    assert both.since(Asked.of([other])) == Asked.of([one])
    assert Asked.of([]) == Asked()


def test_what_was_left_there_will_be_there():
    assert Served.after(None, asked(hits=10, misses=90, stored=70), 1.0).share == pytest.approx(0.8)
    assert Served.after(None, asked(misses=100), 1.0).share == 0
    found = Served.after(None, asked(hits=50, misses=50, stored=100), 1.0)
    assert found.share == 1, "what was stored before the first of these was asked for"


def test_a_few_answers_change_nothing():
    before = Served(0.5, 0.1, 2.0)
    assert Served.after(None, asked(hits=63, read_s=1.0), 1.0) is None
    assert Served.after(before, asked(hits=63, read_s=1.0), 1.0) is before
    assert Served.after(before, asked(hits=64, read_s=0.2), 6.4) == Served(1.0, 0.2, 2.0)


def test_a_share_without_enough_files_keeps_the_time_of_a_file():
    assert Served.after(Served(0.5, 0.1, 2.0), asked(hits=20, misses=80), 1.0) == Served(0.2, 0.1, 2.0)


@pytest.mark.parametrize(
    ("hits", "read_s", "is_taken"),
    [(320, 0.25, True), (316, 0.25, False), (20 * 64, 0.001, False), (64, 2.5, True)],
)
def test_few_reads_at_a_time_do_not_undo_what_many_have_taken(hits, read_s, is_taken):
    """In 10 s: 320 of 0.25 s are 8 at a time, half of 16."""
    before = Served(1.0, 2.0, 16.0)
    after = Served.after(before, asked(hits=hits, read_s=read_s), 10.0)
    assert after == (Served(1.0, read_s, hits * read_s / 10.0) if is_taken else before)


def test_each_job_of_the_host_asks_as_much():
    assert Served.after(None, asked(hits=100, read_s=0.2), 10.0, jobs=3).at_a_time == pytest.approx(6.0)


def test_more_readers_get_more():
    assert Served(1.0, 0.01).bytes_per_s(8, 1000) == pytest.approx(800_000)
    assert Served(1.0).bytes_per_s(8, 1000) == math.inf, "no file came yet"


def test_servers_are_told_in_words():
    assert str(Served(0.0, 0.1)) == "nothing"
    assert str(Served(0.97)) == "97% of the files"
    assert str(Served(1.0, 0.000214)) == "100% of the files, one in 0.214 ms"
