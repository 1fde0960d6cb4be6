"""Whether a segment would be swept up, asked without touching it."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest
from engine import HEADER, Place, Remote

from seneca._core.segment import KEEP_FOREVER
from seneca._core.snapshot import left_behind


def unswept(**options):
    """A place whose name no other test's cache sweeps."""
    place = Place(100, **options)
    place.name = place.name.replace("/seneca-", "/unswept-")
    place.path = f"/dev/shm{place.name}"
    return place


@pytest.fixture
def asked():
    """``asked(place)``: through a descriptor that may only read."""

    def ask(place):
        fd = os.open(place.path, os.O_RDONLY)
        try:
            return left_behind(fd)
        finally:
            os.close(fd)

    return ask


def test_a_segment_is_left_behind_once_its_last_user_is_dead(asked):
    with unswept() as place:
        first, second = Remote(place, 1), Remote(place, 2)
        assert not asked(place)
        first.process.kill()
        assert not asked(place)
        second.process.kill()
        before = Path(place.path).read_bytes()
        assert asked(place) and asked(place)
        assert Path(place.path).read_bytes() == before
        place.unlink()


def test_a_kept_segment_is_not_left_behind(asked):
    with unswept(keep=KEEP_FOREVER) as place:
        Remote(place, 1).process.kill()
        assert not asked(place)
        place.unlink()


def test_one_whose_maker_died_is_left_behind_and_one_that_is_being_made_is_not(asked):
    with unswept() as place:
        with open(place.path, "w+b") as file:
            assert asked(place)
            fcntl.flock(file, fcntl.LOCK_EX)
            assert not asked(place), "its maker holds the lock"
            fcntl.flock(file, fcntl.LOCK_UN)
            assert asked(place)
        place.unlink()


def test_one_of_another_version_is_not_judged(asked):
    with unswept() as place:
        Remote(place, 1).process.kill()
        with open(place.path, "r+b") as file:
            file.seek(HEADER.fields["layout_version"][1])
            file.write((999).to_bytes(4, "little"))
        assert not asked(place)
        place.unlink()


def test_the_lock_is_free_again(asked):
    with unswept() as place:
        Remote(place, 1).process.kill()
        assert asked(place)
        with open(place.path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        place.unlink()
