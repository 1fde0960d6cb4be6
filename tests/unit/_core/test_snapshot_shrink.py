"""A segment that gives memory back: what is in use stays, and nothing is given out behind the limit."""

import os

import pytest
from engine import Place

from seneca._core.snapshot import shrink

MiB = 1 << 20
GRANULE = 4096
ALL_DECODED = (0, 0, 10000, 0, 0)


@pytest.fixture
def place():
    with Place(100, 8 * MiB, split=ALL_DECODED) as place:
        yield place


def shrunk(place, granules):
    return shrink(os.open(place.path, os.O_RDWR), place.path, granules)


def memory_of(place):
    """The memory for payloads, as the kernel counts it; of the rows' own there is less than half a MiB."""
    return os.stat(place.path).st_blocks * 512 - int(place.records().head["payload_at"])


def test_an_empty_cache_gives_back_what_is_asked_of_it(place):
    segment = place.attach()
    assert memory_of(place) >= 8 * MiB
    assert shrunk(place, 512) == (2048, 0, 0)
    assert 2 * MiB <= memory_of(place) < 2.5 * MiB
    stats = segment.stats()
    assert stats["payload_bytes"] == stats["reserved_bytes"] == stats["free_bytes"] == 2 * MiB
    assert stats["budget_bytes"]["decoded"] == 2 * MiB and segment.check() is None
    assert stats["processes"] == 1 and place.exists


@pytest.mark.parametrize("limit", [1, 63, 500, 513])
def test_what_lies_below_the_limit_keeps_its_memory_though_it_is_free(place, limit):
    segment = place.attach()
    before = os.stat(place.path).st_blocks
    assert shrunk(place, limit) == (2048, 0, 0)
    assert (before - os.stat(place.path).st_blocks) * 512 == (2048 - limit) * GRANULE
    assert segment.reserved_bytes == limit * GRANULE and segment.check() is None


def test_more_than_there_is_changes_nothing(place):
    segment = place.attach()
    assert shrunk(place, 5000) == (2048, 0, 0) and segment.payload_bytes == 8 * MiB
    shrunk(place, 512)
    assert shrunk(place, 1024) == (512, 0, 0) and segment.payload_bytes == 2 * MiB, "it never rises again"


def test_one_that_grows_still_grows_no_further_than_that(place):
    segment = place.attach(first_bytes=MiB)
    shrunk(place, 512)
    assert segment.grow(200) and segment.grow(200) and not segment.grow(200)
    assert segment.reserved_bytes == segment.payload_bytes == 2 * MiB
    assert memory_of(place) < 2.5 * MiB and segment.check() is None


def test_what_is_in_use_stays_and_goes_with_the_next_pass():
    with Place(100, 100 * GRANULE) as place:
        members = [place.member(place.attach(job), in_flight=2) for job in (1, 2)]
        segment = place.handles[0]
        items, _, _ = members[0].draw(60)
        slots = place.records().slots
        behind = [i for i in items["target_slot"].tolist() if slots["granule"][i] >= 20]
        assert len(behind) == 40
        for slot in behind:
            members[0].payload(slot)[:] = bytes([7]) * 192
        assert shrunk(place, 20) == (100, 8, 40)
        assert all(bytes(members[0].payload(slot)) == bytes([7]) * 192 for slot in behind)
        for slot in items["target_slot"].tolist():
            members[0].commit(slot)
        members[0].done(items)
        members[0].draw(0)
        assert shrunk(place, 20) == (20, 8, 0), "others want those copies, and make them for themselves"
        assert segment.stats()["payloads"]["augmented"] == 20 and segment.check() is None
        assert shrunk(place, 7) == (20, 8, 0) and segment.payload_bytes == 20 * GRANULE, "8 are needed"
        members[1].draw(100)
        assert segment.check() is None
        for member in members:
            member.close()
