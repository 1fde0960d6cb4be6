"""A snapshot of a segment from outside: what it finds, and that no user of the segment notices."""

import fcntl
import os

import numpy as np
import pytest
from engine import HEADER, Place, Process

from seneca import errors
from seneca._core.segment import KEEP_FOREVER
from seneca._core.snapshot import anyone_alive, discard, snapshot


@pytest.fixture
def place():
    with Place(100) as place:
        yield place


def opened(place, flags=os.O_RDONLY):
    return os.open(place.path, flags | os.O_CLOEXEC)


def seen(place):
    fd = opened(place)
    try:
        return snapshot(fd)
    finally:
        os.close(fd)


def test_what_is_seen_is_what_the_segment_says_of_itself(place):
    one, other = place.attach(7), place.attach(8)
    other.publish_pace(5, 640)
    members = [place.member(segment) for segment in (one, other)]
    items, _, _ = members[0].draw(16)
    for slot in items["target_slot"].tolist()[:10]:
        members[0].commit(slot)
    members[0].done(items[:10])
    members[0].draw(0)
    stats, found = one.stats(), seen(place)
    shared = (
        "payload_bytes",
        "reserved_bytes",
        "free_bytes",
        "bytes",
        "budget_bytes",
        "payloads",
        "writing",
        "split",
        "changes",
    )
    assert {name: found[name] for name in shared} == {name: stats[name] for name in shared}
    assert found["payloads"]["augmented"] == 10 and found["writing"] == 6
    assert (found["samples"], found["keep"], found["given_up"], found["torn"]) == (100, 0, False, False)
    assert found["fingerprint"] == b"fingerprint 0123".hex()
    rows = sorted((job, is_member, alive, pace) for job, _, is_member, alive, pace, *_ in found["rows"])
    assert rows == [(7, False, True, 0), (7, True, True, 0), (8, False, True, 640), (8, True, True, 0)]
    assert {pid for _, pid, *_ in found["rows"]} == {os.getpid()}
    for member in members:
        member.close()


def test_a_snapshot_changes_nothing(place):
    segment = place.attach()
    with open(place.path, "rb") as file:
        before = file.read()
        assert snapshot(file.fileno())["rows"] and anyone_alive(file.fileno())
        file.seek(0)
        assert file.read() == before
    assert os.stat(place.path).st_nlink == 1 and segment.stats()["processes"] == 1


def test_a_snapshot_waits_for_no_lock(place):
    """Another process is stopped with the lock in its hands."""
    segment = place.attach()
    with open(place.path, "rb+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(BlockingIOError):
            segment.stats()
        assert seen(place)["rows"]


def test_the_dead_are_distinguished_from_the_living(place):
    place.attach(1)

    def attach_and_die(pipe):
        place.attach(2)
        pipe.send("here")
        pipe.receive(patience_s=None)

    with Process(attach_and_die) as child:
        child.receive()
        assert sorted(row[3] for row in seen(place)["rows"]) == [True, True]
        child.kill()
    assert sorted((row[0], row[3]) for row in seen(place)["rows"]) == [(1, True), (2, False)]


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (lambda head: head["magic"].fill(0), errors.NotASegmentError),
        (lambda head: head["layout_version"].fill(99), errors.SegmentVersionError),
        (lambda head: head["n_samples"].fill(7), errors.SegmentCorruptError),
    ],
)
def test_what_is_no_segment_of_ours_is_named(tmp_path, place, spoil, error):
    place.attach()
    with open(place.path, "rb") as file:
        content = bytearray(file.read())
    head = np.frombuffer(content, HEADER, 1)
    spoil(head[:1])
    copy = tmp_path / "copy"
    copy.write_bytes(content)
    fd = os.open(copy, os.O_RDONLY)
    with pytest.raises(error):
        snapshot(fd)
    assert not anyone_alive(fd)
    os.close(fd)


@pytest.mark.parametrize("size", [0, 1, 100, 20_000])
def test_a_file_that_is_cut_off_is_no_segment(tmp_path, place, size):
    place.attach()
    with open(place.path, "rb") as file:
        (tmp_path / "short").write_bytes(file.read(size))
    fd = os.open(tmp_path / "short", os.O_RDONLY)
    with pytest.raises((errors.NotASegmentError, errors.SegmentCorruptError)):
        snapshot(fd)
    os.close(fd)


def test_only_what_nobody_uses_is_discarded():
    with Place(100, keep=KEEP_FOREVER) as place:
        segment = place.attach()
        assert not discard(opened(place, os.O_RDWR), place.path) and place.exists
        place.close(segment)
        fd = opened(place)
        assert place.exists and not anyone_alive(fd)
        os.close(fd)
        assert discard(opened(place, os.O_RDWR), place.path) and not place.exists
