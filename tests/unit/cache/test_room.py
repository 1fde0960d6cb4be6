"""Room for a cache: what others were promised is not given twice."""

import os

import pytest
from engine import Place

from seneca import errors
from seneca.cache import room
from seneca.cache.room import auto_bytes, check_room, free_space, payload_bytes_for

MiB = 1 << 20
PATH = "/dev/shm/another"


class Dataset:
    def __len__(self):
        return 100

    def fingerprint(self):
        return b"a dataset of 100"

    def total_bytes(self):
        return 1 << 40


def test_a_size_that_was_asked_for_is_whole_granules():
    assert (
        payload_bytes_for(Dataset(), 4097, PATH) == 8192 and payload_bytes_for(Dataset(), "1MiB", PATH) == MiB
    )


def test_what_a_cache_in_use_still_gets_is_not_free(monkeypatch):
    monkeypatch.setattr(room, "free_space", lambda *_: 100 * MiB)
    monkeypatch.setattr(room, "free_memory", lambda *_: 100 * MiB)
    with Place(100, 41 * MiB) as place:
        # Those of other tests may grow.
        monkeypatch.setattr(room, "others", lambda path: [place.path] if path != place.path else [])
        before = auto_bytes(Dataset())
        segment = place.attach(first_bytes=MiB)
        assert before - auto_bytes(Dataset()) == 20 * MiB, "half of what is left"
        check_room(PATH, 100, 55 * MiB, 0)
        with pytest.raises(errors.NoSpaceError, match=r"free, of which other caches still get 40\.0 MiB"):
            check_room(PATH, 100, 61 * MiB, 0)
        check_room(place.path, 100, 61 * MiB, 0)
        while segment.grow(4096):
            pass
        assert auto_bytes(Dataset()) == before
        check_room(PATH, 100, 61 * MiB, 0)


def test_free_space_is_that_of_the_file_system():
    status = os.statvfs("/dev/shm")
    assert 0 <= free_space("/dev/shm") <= status.f_blocks * status.f_frsize
