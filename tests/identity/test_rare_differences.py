"""Few items differ, in ways that no fingerprint sees: jobs find it by comparing, and stop."""

import itertools

import pytest
from rare import WHERE, Pair, pairs, run
from sizes import size

# 4 % of the items: the chance that two jobs miss all of them is below one in a million.
KINDS = ((False, 0), (True, 0), (False, 2), (True, 2))
CERTAIN = [
    Pair(where, staged, 1_000, 40, workers, seed=seed)
    for seed, (where, (staged, workers)) in enumerate(
        size(zip(WHERE, KINDS, strict=True), itertools.product(WHERE, KINDS))
    )
]


@pytest.mark.small(1)
@pytest.mark.parametrize("pair", CERTAIN, ids=lambda pair: f"{pair.where}, {pair.kind}")
def test_sharing_stops_before_the_third_epoch(pair):
    """Either both have found it, or one has, in its examples, and left."""
    given = run(pair)
    assert not all(one.shares[1] for one in given)


@pytest.mark.small(1)
@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize("where", WHERE)
def test_pairs_of_which_nothing_differs_share(where, staged):
    given = run(Pair(where, staged, 1_000, 0, epochs=3))
    assert all(one.shares[-1] and one.served for one in given)


@pytest.mark.small(1)
@pytest.mark.parametrize(
    "pair",
    pairs(size(12, 24), first=True, epochs=3)[:: size(3, 1)],
    ids=lambda pair: f"{pair.where}, {pair.kind}",
)
def test_with_check_every_first_nothing_wrong_is_delivered(pair):
    given = run(pair)
    assert [one.wrong for one in given] == [[0, 0, 0]] * 2


@pytest.mark.small(1)
@pytest.mark.parametrize("staged", [False, True])
def test_with_check_every_first_equal_jobs_share_from_the_second_epoch_on(staged):
    given = run(Pair("state", staged, 500, 0, first=True, epochs=4))
    assert all(one.shares[-1] for one in given)
    # Three epochs can share 1,500. A job that is far ahead makes its own.
    assert sum(one.served for one in given) > 500
    assert [one.wrong for one in given] == [[0] * 4] * 2
