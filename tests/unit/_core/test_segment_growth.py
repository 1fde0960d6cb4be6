"""Payload space that gets its memory piece by piece: what is counted has memory, whoever is killed."""

import errno
import mmap
import os

import numpy as np
import pytest
from engine import HEADER, Place, Process, in_a_shm_of_its_own

from seneca import errors

MiB = 1 << 20
GRANULE = 4096


@pytest.fixture
def place():
    with Place(100, 8 * MiB) as place:
        yield place


def memory_of(place):
    """The memory for payloads, as the kernel counts it; of the rows' own there is less than half a MiB."""
    return os.stat(place.path).st_blocks * 512 - int(place.records().head["payload_at"])


def test_a_cache_begins_with_its_first_piece_and_grows_to_what_was_asked_for(place):
    segment = place.attach(first_bytes=MiB)
    assert (segment.payload_bytes, segment.reserved_bytes) == (8 * MiB, MiB)
    assert MiB <= memory_of(place) < 1.5 * MiB
    for reserved in range(2, 9):
        assert segment.grow(MiB // GRANULE)
        stats = segment.stats()
        assert stats["reserved_bytes"] == segment.reserved_bytes == reserved * MiB
        assert stats["payload_bytes"] == stats["free_bytes"] == 8 * MiB
        assert sum(stats["budget_bytes"].values()) == reserved * MiB, "shares of what there is"
        assert reserved * MiB <= memory_of(place) < (reserved + 0.5) * MiB
        assert segment.check() is None
    assert not segment.grow(1) and not segment.stop_growing(), "it has all"


def test_nothing_lies_where_there_is_no_memory_yet(place):
    place.payload_bytes = 64 * GRANULE
    segment = place.attach(first_bytes=10 * GRANULE)
    members = [place.member(segment), place.member(place.attach(2))]
    ends = []
    for granules in (0, 7, 20):
        if granules:
            assert segment.grow(granules)
        members[0].draw(40 if granules else 30)
        slots = place.records().slots
        ends.append(int(slots["granule"][slots["state"] != 0].max()) + 1)
        assert segment.check() is None
    assert ends == [10, 17, 37]
    for member in members:
        member.close()


def test_who_joins_sees_how_far_it_is_and_may_go_on(place):
    one, other = place.attach(first_bytes=MiB), place.attach(2)
    assert one.grow(256) and other.reserved_bytes == 2 * MiB
    assert other.grow(256) and one.reserved_bytes == 3 * MiB


def test_many_that_grow_it_at_once_do_no_harm(place):
    place.payload_bytes = 32 * MiB
    segment = place.attach(first_bytes=MiB)

    def grow(pipe):
        mine, added = place.attach(os.getpid()), 0
        pipe.receive()
        while mine.reserved_bytes < mine.payload_bytes:
            added += mine.grow(13)
        pipe.send(added)

    with Process(grow) as one, Process(grow) as two, Process(grow) as three:
        for process in (one, two, three):
            process.send("go")
        added = [process.receive() for process in (one, two, three)]
    assert sum(added) == -(-31 * MiB // GRANULE // 13), "each piece was added once"
    assert segment.check() is None and segment.stats()["reserved_bytes"] == 32 * MiB
    assert 32 * MiB <= memory_of(place) < 32.5 * MiB


def touch_all(place, reserved_bytes):
    """Write to every granule that has memory: without it, the kernel would end this process."""
    at = int(place.records().head["payload_at"])
    with open(place.path, "r+b") as file, mmap.mmap(file.fileno(), 0) as map_:
        for byte in range(at, at + reserved_bytes, GRANULE):
            map_[byte] = 1


@in_a_shm_of_its_own  # of 64 MiB
def test_a_cache_that_gets_no_more_memory_stays_at_what_it_has():
    with Place(100, 128 * MiB) as place:
        segment, other = place.attach(first_bytes=MiB), place.attach(2)
        with pytest.raises(OSError) as raised:
            while segment.grow(7 * MiB // GRANULE):
                pass
        assert raised.value.errno == errno.ENOSPC
        reserved = segment.reserved_bytes
        assert 50 * MiB < reserved < 64 * MiB and other.reserved_bytes == reserved
        touch_all(place, reserved)
        assert segment.stop_growing() and not other.stop_growing(), "one of them has said so"
        assert segment.payload_bytes == other.payload_bytes == reserved
        stats = segment.stats()
        assert stats["payload_bytes"] == stats["reserved_bytes"] == stats["free_bytes"] == reserved
        assert not other.grow(1) and segment.check() is None


@in_a_shm_of_its_own
def test_a_kept_cache_goes_on_where_its_users_were_killed():
    with Place(100, 8 * MiB, keep=3600) as place:

        def grow(pipe):
            mine = place.attach(2, first_bytes=MiB)
            pipe.send(mine.grow(256))
            pipe.receive(patience_s=None)

        with Process(grow) as victim:
            assert victim.receive()
            victim.kill()
        segment = place.attach()
        assert not segment.created and segment.reserved_bytes == 2 * MiB
        assert segment.grow(256) and segment.check() is None
        place.close(segment)
        place.unlink()


@pytest.mark.parametrize("field", ["backed", "limit"])
def test_a_count_of_more_than_there_is_is_refused(place, field):
    segment = place.attach(first_bytes=MiB)
    kind, at = HEADER.fields[field][:2]
    with open(place.path, "r+b") as file:
        value = os.pread(file.fileno(), kind.itemsize, at)
        os.pwrite(file.fileno(), np.uint32(8 * MiB // GRANULE + 1).tobytes(), at)
        with pytest.raises(errors.SegmentCorruptError):
            place.try_attach(2)
        os.pwrite(file.fileno(), value, at)
    assert segment.check() is None and not place.attach(2).created
