"""The order in which a member takes its samples when it is alone."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from engine import AUGMENTED, NONE, STORAGE, Place


def order(n, *, batch=None, **options):
    """All that one epoch delivers, in its order, in batches of any size."""
    member = Place(n).member(None, **options)
    delivered = []
    while left := member.left:
        items, _, private = member.draw(batch or n)
        assert not private and set(items["source"]) == {STORAGE} and set(items["target_slot"]) == {NONE}
        assert len(items) == min(batch or n, left)
        delivered += items["sample"].tolist()
    assert len(member.draw(5)[0]) == 0
    return delivered


def chi_square(counts, places):
    expected = sum(counts.values()) / places
    return sum((counts[place] - expected) ** 2 / expected for place in range(places))


@pytest.mark.small(3)
@pytest.mark.parametrize("n", [1, 2, 7, 1000, 65536, 65537, 100_000])
@pytest.mark.parametrize("seed", [0, (1 << 64) - 1])
def test_an_epoch_is_every_sample_exactly_once(n, seed):
    assert sorted(order(n, seed=seed, batch=n // 3 + 1)) == list(range(n))


@pytest.mark.small(1)
@pytest.mark.parametrize("n", [1000, 70_000])
def test_seed_and_epoch_name_the_order(n):
    first = order(n, seed=5, epoch=2)
    assert order(n, seed=5, epoch=2, batch=77) == first
    for other in (
        order(n, seed=6, epoch=2),
        order(n, seed=5, epoch=3),
        order(n, seed=2, epoch=5),
        list(range(n)),
    ):
        same = sum(a == b for a, b in zip(first, other, strict=True))
        assert same < 12, "one is to be expected"


@pytest.mark.small(1)
@pytest.mark.parametrize("n", [1000, 70_000])
@pytest.mark.parametrize("fixed", [False, True])
def test_an_own_seed_names_another_order_of_what_the_seed_does_not_drop(n, fixed):
    """Also of what is left, in an epoch that goes on."""
    shuffled = np.random.default_rng(3).permutation(n).astype(np.uint32)
    options = {"seed": 5, "epoch": 2, "fixed": fixed, "samples": shuffled, "places": n - 300}
    plain = order(n, **options)
    own = order(n, own_seed=9, **options)
    assert own == order(n, own_seed=9, **options) and sorted(own) == sorted(plain)
    assert sum(a == b for a, b in zip(plain, own, strict=True)) < 12, "one is to be expected"
    taken = np.zeros(n, bool)
    taken[own[:400]] = True
    options |= {"taken": np.packbits(taken, bitorder="little"), "places": n - 700}
    assert order(n, own_seed=9, **options) == own[400:]
    assert sorted(order(n, **options)) == sorted(own[400:])


@pytest.mark.small(1)
@pytest.mark.parametrize("n", [1000, 70_000])
def test_the_orders_of_following_epochs_are_not_correlated(n):
    epochs = [order(n, seed=9, epoch=epoch) for epoch in range(6)]
    for a, b in pairwise(epochs):
        assert abs(np.corrcoef(a, b)[0, 1]) < 5 / n**0.5
    for a in epochs:
        assert abs(np.corrcoef(a[1:], a[:-1])[0, 1]) < 5 / n**0.5


@pytest.mark.small(2)
@pytest.mark.parametrize(("n", "limit"), [(2, 19.5), (3, 23), (6, 33), (13, 46)])  # 1 in 100,000 and rarer
@pytest.mark.parametrize("place", ["first", "last"])
def test_every_sample_is_as_likely_at_the_ends(n, limit, place):
    at = 0 if place == "first" else -1
    counts = Counter(order(n, seed=seed, epoch=seed % 3)[at] for seed in range(400 * n))
    assert chi_square(counts, n) < limit


def test_every_order_of_four_is_as_likely():
    counts = Counter(tuple(order(4, seed=1, epoch=epoch)) for epoch in range(24 * 300))
    assert len(counts) == 24
    assert sum((count - 300) ** 2 / 300 for count in counts.values()) < 70  # 23 degrees: 1 in 1,000,000


def test_every_part_of_a_large_dataset_is_as_likely_at_the_start():
    n, parts = 70_001, 10
    starts = [Place(n).member(None, seed=seed).draw(8)[0]["sample"] for seed in range(500)]
    counts = Counter(sample * parts // n for sample in np.concatenate(starts).tolist())
    assert chi_square(counts, parts) < 40  # 9 degrees: 1 in 100,000


def test_neighbours_in_the_order_of_a_large_dataset_have_nothing_in_common():
    pairs = np.array(order(100_000, seed=2)).reshape(-1, 2)
    for shift in (0, 5):
        counts = Counter(((pairs[:, 0] ^ pairs[:, 1]) >> shift & 63).tolist())
        assert chi_square(counts, 64) < 130  # 63 degrees: 1 in 1,000,000


def test_a_subset_is_delivered_exactly_once_and_nothing_else():
    own = np.random.default_rng(3).permutation(5000)[:777].astype(np.uint32)
    delivered = order(5000, batch=50, samples=own, places=len(own))
    assert sorted(delivered) == sorted(own.tolist())
    assert delivered != own.tolist()


def test_a_fixed_order_is_kept_to_the_index():
    own = np.random.default_rng(4).permutation(300).astype(np.uint32)
    assert order(300, batch=50, samples=own, places=300, fixed=True) == own.tolist()


def test_what_is_dropped_are_the_last_places():
    whole = order(1000, seed=8)
    member = Place(1000).member(None, seed=8, places=900)
    assert member.left == 900
    assert member.draw(2000)[0]["sample"].tolist() == whole[:900]


def test_an_epoch_of_no_places_is_empty():
    assert Place(10).member(None, places=0).left == 0


@pytest.mark.parametrize("own", [[0, 1, 1], [3, 10], [0xFFFFFFFF]])
def test_samples_that_come_twice_or_do_not_exist_are_refused(own):
    with pytest.raises(ValueError, match="at most once"):
        Place(10).member(None, samples=np.array(own, np.uint32), places=len(own))


@pytest.mark.parametrize("share", [False, True])
def test_alone_in_a_segment_the_order_is_the_private_one(share):
    with Place(500) as place:
        segment = place.attach()
        member = place.member(segment, seed=3, shares=share, substitutes=share)
        assert member.shared
        assert member.draw(500)[0]["sample"].tolist() == order(500, seed=3)
        assert member.out_of_turn == 0
        member.close()


def in_the_permutation_s_turn(delivered, permutation):
    """How many samples come when all that are before them in the permutation have come."""
    come, at, count = set(), 0, 0
    for sample in delivered:
        while at < len(permutation) and permutation[at] in come:
            at += 1
        count += permutation[at] == sample
        come.add(sample)
    return count


@pytest.mark.parametrize("speed", [1, 5])
def test_a_member_counts_what_comes_out_of_turn(speed):
    """Copies that another has made; and what it makes early because a slower one needs copies."""
    with Place(400, 40 * 4096) as place:
        segments = [place.attach(job) for job in (1, 2)]
        fast, slow = (place.member(segment, seed=job) for job, segment in enumerate(segments))
        delivered, copies = [], 0
        while fast.left:
            for member, size in ((slow, 8), (fast, 8 * speed)):
                items, _, _ = member.draw(size)
                for slot in items["target_slot"][items["target_slot"] != NONE].tolist():
                    member.commit(slot)
                member.done(items)
            delivered += items["sample"].tolist()
            copies += int((items["source"] == AUGMENTED).sum())
        expected = 400 - in_the_permutation_s_turn(delivered, order(400, seed=0))
        assert expected <= fast.out_of_turn <= expected + 10, "a copy may be of the very sample that is next"
        assert copies < fast.out_of_turn < 200 if speed > 1 else copies > 0
        fast.close()
        slow.close()


def test_what_was_passed_over_is_out_of_turn():
    """Another prepares a sample that is next in both orders. It fails there."""
    with Place(200) as place:
        one, other = (place.member(place.attach(job), seed=3, in_flight=0) for job in (1, 2))
        items, _, _ = one.draw(8)
        assert (items["target_slot"] != NONE).all()
        delivered = other.draw(100)[0]["sample"].tolist()
        assert not set(delivered) & set(items["sample"].tolist()) and other.out_of_turn == 0
        for slot in items["target_slot"].tolist():
            one.abort(slot)
        one.done(items)
        one.draw(0)
        delivered += other.draw(100)[0]["sample"].tolist()
        assert sorted(delivered) == list(range(200)) and other.out_of_turn == 8
        one.close()
        other.close()


def test_who_does_not_share_keeps_its_order_among_those_who_do():
    with Place(200) as place:
        segments = [place.attach(job) for job in (1, 2, 3)]
        others = [place.member(segment, seed=job) for job, segment in enumerate(segments[:2])]
        own = place.member(segments[2], seed=7, shares=False, substitutes=False)
        delivered = []
        while own.left:
            for member in others:
                items, _, _ = member.draw(16)
                for slot in items["target_slot"][items["target_slot"] != NONE].tolist():
                    member.commit(slot)
                member.done(items)
            delivered += own.draw(7)[0]["sample"].tolist()
        assert delivered == order(200, seed=7)
        for member in (*others, own):
            member.close()


@pytest.mark.parametrize("n", [1, 200, 70_000])
@pytest.mark.parametrize("fixed", [False, True])
def test_an_epoch_that_goes_on_takes_the_rest_in_its_order(n, fixed):
    """Whatever was delivered before; what is dropped is dropped from the end of the rest."""
    whole = order(n, seed=3, fixed=fixed)
    for some in (whole[: n // 2], whole[::3], whole, []):
        taken = np.zeros(n, bool)
        taken[some] = True
        bits = np.packbits(taken, bitorder="little")
        rest = [sample for sample in whole if not taken[sample]]
        for places in (n, len(rest), len(rest) // 2):
            assert order(n, seed=3, fixed=fixed, taken=bits, places=places, batch=77) == rest[:places]


def test_an_epoch_that_goes_on_of_some_samples_only():
    own = np.arange(10, 50, dtype=np.uint32)
    whole = order(100, seed=3, samples=own)
    taken = np.zeros(100, bool)
    taken[[*whole[:7], 3, 99]] = True  # two of them are not its own anyway
    assert order(100, seed=3, samples=own, taken=np.packbits(taken, bitorder="little")) == whole[7:]
