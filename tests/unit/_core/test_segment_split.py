"""The shares of the forms: what is kept within them, and what goes when they change."""

import struct

import pytest
from engine import DECODED, ENCODED, HEADER, Place, keep

PAGE = 4096
CHANGES_AT = 5080 - 8 * 256  # in the header: how many there were, and the last eight


def test_a_form_is_kept_within_its_share_only():
    with Place(100, 20 * PAGE, split=(0, 5000, 2500, 2500, 0)) as place:
        segment = place.attach()
        member = place.member(segment, keeps=True, shares=False, places=50)
        assert keep(member, ENCODED, range(30)) == 10
        assert keep(member, DECODED, range(30)) == 5
        assert member.draw(1)[0][0]["keep"] == 0, "nothing more is worth offering"
        assert segment.check() is None
        member.close()


def test_after_a_change_of_the_shares_what_is_over_its_own_makes_room():
    with Place(100, 20 * PAGE, split=(0, 0, 10000, 0, 0)) as place:
        segment = place.attach()
        member = place.member(segment, keeps=True, shares=False)
        assert keep(member, DECODED, range(30)) == 20
        assert segment.change_split((0, 7500, 2500, 0, 0), 0, "a test")
        assert segment.stats()["payloads"]["decoded"] == 20, "nothing goes before space is needed"
        assert keep(member, ENCODED, range(40, 70)) == 15
        assert segment.stats()["payloads"] == {"encoded": 15, "recoded": 0, "decoded": 5, "augmented": 0}
        assert segment.check() is None
        member.close()


def test_where_what_is_free_is_in_pieces_that_are_too_small_nothing_is_worth_offering():
    with Place(100, 20 * PAGE, split=(0, 5000, 5000, 0, 0)) as place:
        segment = place.attach()
        member = place.member(segment, keeps=True, shares=False, places=50)
        for sample in range(5):
            assert keep(member, ENCODED, [sample]) == 1
            assert keep(member, DECODED, [10 + sample], height=60) == 1
        assert keep(member, ENCODED, range(5, 10)) == 5
        assert segment.change_split((0, 0, 10000, 0, 0), 0, "a test")
        assert member.draw(1)[0][0]["keep"] == DECODED, "what is over its share makes room"
        # Of ten free pages those between the decoded ones lie apart.
        assert keep(member, DECODED, range(20, 40), height=60) == 2
        stats = segment.stats()
        assert stats["payloads"] == {"encoded": 0, "recoded": 0, "decoded": 7, "augmented": 0}
        assert stats["bytes"]["decoded"] + 6 * PAGE == stats["budget_bytes"]["decoded"]
        assert member.draw(1)[0][0]["keep"] == 0
        assert segment.check() is None
        member.close()


def test_two_jobs_take_room_for_the_stage_from_what_is_kept():
    with Place(1000, 64 * PAGE, split=(0, 10000, 0, 0, 0)) as place:
        segments = [place.attach(job) for job in (1, 2)]
        alone = place.member(segments[0], keeps=True, in_flight=8)
        assert keep(alone, ENCODED, range(100)) == 64, "one job stages nothing"
        other = place.member(segments[1], keeps=True, in_flight=8, seed=1)
        assert segments[0].stats()["budget_bytes"]["augmented"] == 2 * 2 * 8 * PAGE
        staged = sum(int(item["target_slot"]) < 2**32 - 1 for item in other.draw(8)[0])
        assert staged == 8
        assert segments[0].stats()["payloads"]["encoded"] < 64
        assert segments[0].check() is None
        alone.close()
        other.close()


def test_the_stage_takes_no_room_for_more_than_an_epoch_has():
    with Place(3, 64 * PAGE, split=(0, 10000, 0, 0, 0)) as place:
        members = [place.member(place.attach(job), in_flight=8) for job in (1, 2)]
        assert place.handles[0].stats()["budget_bytes"]["augmented"] == 2 * 2 * 3 * PAGE
        for member in members:
            member.close()


def test_the_stage_takes_room_only_for_jobs_that_use_the_same_copies():
    with Place(1000, 64 * PAGE, split=(0, 10000, 0, 0, 0)) as place:
        segments = [place.attach(job) for job in (1, 2, 3)]
        given = zip(segments, (22, 33, 33), strict=True)
        pipelines = [place.member(segment, in_flight=8, augmented=pipeline) for segment, pipeline in given]
        assert segments[0].stats()["budget_bytes"]["augmented"] == 2 * 2 * 8 * PAGE, "of the last two"
        pipelines[2].close()
        assert segments[0].stats()["budget_bytes"]["augmented"] == 0
        assert segments[0].check() is None
        for member in pipelines[:2]:
            member.close()


def test_a_reason_may_name_a_file_that_no_encoding_can_name():
    with Place(100, split=(0, 6000, 2000, 2000, 0)) as place:
        segment = place.attach(1, adapts=True)
        assert segment.change_split((0, 10000, 0, 0, 0), 0, "by default: /data/\udcffcat/7.jpg is damaged")
        [(_, _, why)] = segment.stats()["changes"]
        assert why == r"by default: /data/\udcffcat/7.jpg is damaged"


@pytest.mark.parametrize(("counted", "left"), [(0, (20, 0)), (1, (5, 15))])
def test_a_change_that_its_process_did_not_finish_counts_in_whole_or_not_at_all(counted, left):
    """Killed before the change was counted, or after that and before the budgets were made of it."""
    with Place(100, 20 * PAGE, split=(0, 10000, 0, 0, 0)) as place:
        segment = place.attach()
        member = place.member(segment, keeps=True, shares=False)
        with open(place.path, "r+b") as file:
            for at, fields in (
                (CHANGES_AT, struct.pack("<Q5I", 1, 0, 2500, 7500, 0, 0)),
                (CHANGES_AT - 12, struct.pack("<I", counted)),
                (HEADER.fields["busy"][1], struct.pack("<I", 1)),
            ):
                file.seek(at)
                file.write(fields)
        assert keep(member, ENCODED, range(30)) == left[0]
        assert keep(member, DECODED, range(40, 70)) == left[1]
        n_changes, split = segment.split()
        assert (n_changes, tuple(split)) == (
            (1, (0, 2500, 7500, 0, 0)) if counted else (0, (0, 10000, 0, 0, 0))
        )
        assert segment.check() is None
        member.close()
