"""Cores are divided by need, and the number of threads follows without trembling."""

from __future__ import annotations

import itertools
import random

import pytest

from seneca.partition.cores import LEAST, Need, Threads, shares


def test_each_gets_what_it_needs_if_there_is_enough():
    assert shares([Need(1.5, 0.5), Need(0.25, 0.1)], cores=4) == [1.5, 0.25]


def test_all_are_slowed_down_equally_if_there_is_not():
    needs = [Need(3, 1), Need(6, 0), Need(10, 4)]
    given = shares(needs, cores=14)
    slower = 14 / 24
    assert given == [pytest.approx(slower * need.prepare) for need in needs]


def test_who_takes_all_gets_the_rest_or_an_equal_part():
    assert shares([Need(0.4, 0.1), Need(9, 0.5, takes_all=True)], cores=4) == [0.4, 3.0]
    assert shares([Need(1, 0, takes_all=True)] * 4, cores=2) == [0.5] * 4
    finite, greedy = shares([Need(3, 0), Need(9, 0, takes_all=True)], cores=4)
    assert greedy == pytest.approx(4 * 2 / 5), "an equal part is 2 of 4, beside a need of 3"
    assert finite == pytest.approx(4 * 3 / 5)


def test_no_need_counts_as_more_than_all_cores():
    light, endless = shares([Need(0.5, 0), Need(1000, 0)], cores=2)
    assert light == pytest.approx(0.5 * 2 / 2.5)
    assert endless == pytest.approx(2 * 2 / 2.5)


def test_who_prepares_gets_the_cores_that_a_waiting_loop_does_not_use():
    """The loop would take more than all cores if it never waited. As it waits, it takes an eighth of that."""
    assert shares([Need(14, 2)], cores=2) == [pytest.approx(1.75)]
    assert shares([Need(14, 2), Need(14, 2)], cores=2) == [pytest.approx(0.875)] * 2


def test_nobody_gets_nothing():
    assert shares([Need(0, 0), Need(5, 0)], cores=2)[0] == LEAST
    assert shares([Need(0, 3, takes_all=True)], cores=2) == [LEAST]


@pytest.mark.parametrize("seed", range(20))
def test_what_is_given_is_at_most_what_there_is(seed):
    random_ = random.Random(seed)
    cores = random_.choice([0.5, 1, 2, 7.5, 96])
    needs = [
        Need(random_.uniform(0.1, cores), random_.uniform(0, cores / 8), random_.random() < 0.3)
        for _ in range(random_.randint(1, 9))
    ]
    given = shares(needs, cores)
    assert sum(given) <= cores + LEAST * len(needs) + 1e-6
    assert all(g <= need.prepare + 1e-9 for g, need in zip(given, needs, strict=True) if not need.takes_all)


def test_the_order_of_loaders_does_not_matter():
    needs = [Need(3, 1), Need(6, 0), Need(10, 4, takes_all=True)]
    assert shares(needs[::-1], 8) == shares(needs, 8)[::-1]


def test_one_sample_changes_nothing_and_two_that_agree_do():
    threads = Threads(now=4, most=32)
    assert threads.follow(20, full=False) == 4
    assert threads.follow(20, full=False) == 8
    threads = Threads(now=4, most=32)
    assert [threads.follow(share, full=False) for share in (20, 1, 20, 1, 3, 20)] == [4] * 6


def test_a_change_at_most_doubles_or_halves():
    threads = Threads(now=1, most=64)
    assert [threads.follow(40, full=False) for _ in range(7)] == [1, 2, 4, 8, 16, 32, 50]
    assert [threads.follow(0.1, full=False) for _ in range(7)] == [50, 25, 12, 6, 3, 1, 1]


def test_there_are_no_spare_threads_where_all_cores_are_given_away():
    spare, full = Threads(1, 64), Threads(1, 64)
    for _ in range(8):
        spare.follow(16, full=False)
        full.follow(16, full=True)
    assert (spare.now, full.now) == (20, 16)


def test_a_number_is_from_one_to_the_most():
    threads = Threads(now=99, most=3)
    assert threads.now == 3
    assert [threads.follow(50, full=True) for _ in range(3)] == [3] * 3
    assert [threads.follow(0.0, full=True) for _ in range(4)][-1] == 1


@pytest.mark.small(3)
@pytest.mark.parametrize("share", [0.3, 0.9, 1.0, 1.6, 2.0, 3.2, 7.7, 16.0])
@pytest.mark.parametrize("full", [True, False])
def test_a_steady_share_that_trembles_is_followed_once(share, full):
    """Thirty samples are a minute. A mean of six seconds differs by 3 %, if steps of 200 ms do by 30 %."""
    for seed in range(50):
        random_ = random.Random(seed)
        threads = Threads(now=4, most=64)
        for _ in range(8):
            threads.follow(share, full=full)
        seen = [threads.now] + [threads.follow(share * random_.gauss(1, 0.03), full=full) for _ in range(30)]
        assert sum(a != b for a, b in itertools.pairwise(seen)) <= 1
