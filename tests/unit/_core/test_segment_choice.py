"""What a segment says of its split, and of who chose it."""

from __future__ import annotations

import time

from engine import ENCODED, Place

from seneca._core.segment import NONE
from seneca.cache import split_of
from seneca.partition import (
    Split,
)

# --- what is in the segment


def test_the_first_to_change_a_split_is_the_only_one():
    with Place(100, split=(0, 6000, 2000, 2000, 0)) as place:
        one, other = place.attach(1, adapts=True), place.attach(2)
        assert (one.adapts, other.adapts) == (True, True), "its maker has said so"
        assert one.change_split((0, 10000, 0, 0, 0), 0, "at first")
        assert not other.change_split((0, 0, 10000, 0, 0), 0, "at the same time")
        assert other.split() == (1, (0, 10000, 0, 0, 0))
        for number in range(1, 12):
            assert other.change_split(
                (0, 0, 10000 - number, number, 0), number, f"change {number}, ein längerer" * 20
            )
        changes = one.stats()["changes"]
        assert [split[3] for _, split, _ in changes] == list(range(4, 12)), "the last eight"
        assert all(why.startswith("change ") and len(why.encode()) <= 227 + 3 for _, _, why in changes)
        assert abs(changes[0][0] - time.time()) < 3600


def test_what_a_segment_has_is_read_as_a_split_whatever_it_is():
    assert split_of((0, 5800, 4200, 0, 0)) == Split(0.58, 0.42, 0)
    assert split_of((0, 1, 1, 2, 0)) == Split(0.25, 0.25, 0.5)
    assert split_of((7, 0, 0, 0)) == Split(0, 0, 1)


def test_a_row_says_nothing_of_who_had_it_before():
    with Place(100) as place:
        one, other = place.attach(1), place.attach(2)
        other.publish_pace(77, 500)
        one.publish_pace(78, 600)
        assert one.published_paces() == [(True, 1, 78, 600), (False, 2, 77, 500)]
        other.close()
        assert one.published_paces() == [(True, 1, 78, 600)]
        assert [row[1] for row in place.attach(3).published_paces()] == [1]


def test_staged_copies_over_their_share_make_room():
    with Place(400, 40 * 4096) as place:  # all of it for the stage
        segments = [place.attach(1), place.attach(2)]
        one, other = (place.member(segment, keeps=True, in_flight=4) for segment in segments)
        for _ in range(5):
            items, _, _ = one.draw(8)
            for item in items:
                if item["target_slot"] != NONE:
                    one.commit(int(item["target_slot"]))
            one.done(items)
        one.draw(0)
        staged = segments[0].stats()["payloads"]["augmented"]
        assert segments[0].change_split((0, 10000, 0, 0, 0), segments[0].split()[0], "a test")
        budget = segments[0].stats()["budget_bytes"]["augmented"] // 4096
        assert segments[0].stats()["payloads"]["augmented"] == staged > budget, (
            "nothing goes before space is needed"
        )
        for _ in range(8):  # the other job takes what there is
            other.done(other.draw(8)[0])
        assert segments[0].stats()["payloads"]["augmented"] <= budget
        offers = [(sample, ENCODED, 4096, 0, 0) for sample in range(100, 140)]
        accepted = [answer for answer in other.draw(0, offers)[1] if answer]
        assert len(accepted) >= 40 - budget - 8
        for slot, entry in accepted:
            other.abort(slot)
            other.offer_done(slot, entry)
        assert segments[0].check() is None
        one.close()
        other.close()
