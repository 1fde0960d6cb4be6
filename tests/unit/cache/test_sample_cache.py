"""SampleCache: made once, joined by all, removed by whoever leaves last, swept where its users have died."""

import os
import signal
import time

import numpy as np
import pytest
from engine import NONE, Place, Process, in_small_shm

from seneca import SampleCache, errors, segments
from seneca._core.segment import segment_bytes
from seneca.cache import sample_cache
from seneca.cache.objects import sweep_others


@pytest.fixture
def place():
    with Place(100) as place:
        yield place


def hold(pipe, place, job):
    """Come, reserve and read what there is, and stay."""
    segment = place.attach(job)
    member = place.member(segment, seed=job)
    items, _, _ = member.draw(10)
    for slot in items["target_slot"][items["target_slot"] != NONE][::2].tolist():
        member.commit(slot)
    pipe.send(len(items))
    pipe.receive(patience_s=None)


# The public face.


class Dataset:
    def __init__(self, n=100, fingerprint=b"a dataset of 100"):
        self.n, self.bytes = n, fingerprint

    def __len__(self):
        return self.n

    def fingerprint(self):
        return self.bytes

    def total_bytes(self):
        return 100_000 * self.n


def object_path(name):
    return f"/dev/shm/seneca-{os.geteuid()}-{name}"


def test_a_cache_of_files_knows_their_newest_ctime(name):
    class OfFiles(Dataset):
        def newest_ctime(self):
            return 2**60

    with SampleCache.create(name, OfFiles(), cache_bytes="1MiB") as cache, SampleCache.attach(name) as other:
        assert cache.segment.newest_ctime == other.segment.newest_ctime == 2**60
    with SampleCache.create(name, Dataset(), cache_bytes="1MiB") as cache:
        assert cache.segment.newest_ctime == 0


def test_a_cache_is_made_once_and_joined_by_all(name):
    with SampleCache.create(name, Dataset(), cache_bytes="1MiB", split="30-20-50") as cache:
        assert cache.created and cache.stats()["payload_bytes"] == 1 << 20
        assert cache.stats()["budget_bytes"] == {
            "encoded": 76 * 4096, "recoded": 0, "decoded": 51 * 4096, "augmented": 128 * 4096,
        }  # fmt: skip
        with pytest.raises(FileExistsError, match=name):
            SampleCache.create(name, Dataset(), cache_bytes="1MiB")
        with SampleCache.attach(name) as other, SampleCache.attach(name, Dataset()) as third:
            assert not other.created and other.stats() == cache.stats() == third.stats()
            assert cache.stats()["processes"] == 3
        with SampleCache.join(name, Dataset(), cache_bytes="9GiB") as other:
            assert not other.created and other.stats()["payload_bytes"] == 1 << 20
        with pytest.raises(errors.SegmentMismatchError, match=name):
            SampleCache.attach(name, Dataset(101))
    assert not os.path.exists(object_path(name))
    cache.close()  # a second time is nothing
    with pytest.raises(errors.SegmentError, match="closed"):
        cache.stats()


def test_a_creation_that_takes_long_says_of_what_it_is(name, monkeypatch, capfd):
    monkeypatch.setattr(sample_cache, "REPORT_AFTER_S", 0)
    with SampleCache.create(name, Dataset(), cache_bytes="1MiB"):
        reports = capfd.readouterr().err.splitlines()
    assert reports and all(
        line.startswith(f"seneca: reserving shared memory for the cache {name!r} of 100 samples: 0.0 of ")
        for line in reports
    )


def test_what_is_not_there_cannot_be_attached_or_removed(name):
    with pytest.raises(FileNotFoundError, match="create"):
        SampleCache.attach(name)
    with pytest.raises(FileNotFoundError, match=name):
        SampleCache.remove(name)


def test_a_removed_cache_goes_on_for_its_users_and_newcomers_make_another(name):
    with SampleCache.create(name, Dataset(), cache_bytes="1MiB") as cache:
        SampleCache.remove(name)
        assert cache.stats()["processes"] == 1 and not cache.segment.linked
        with SampleCache.join(name, Dataset(), cache_bytes="2MiB") as other:
            assert other.created
            cache.close()
            assert os.path.exists(object_path(name)), "leaving the old one leaves the new one alone"


def test_a_kept_cache_stays_until_it_is_removed(name):
    SampleCache.create(name, Dataset(), cache_bytes="1MiB", keep=True).close()
    with pytest.raises(FileExistsError):
        SampleCache.create(name, Dataset(), cache_bytes="1MiB")
    sweep_others("/dev/shm/")
    with SampleCache.attach(name) as cache:
        assert not cache.created
    SampleCache.remove(name)
    assert not os.path.exists(object_path(name))


@pytest.mark.parametrize(("keep", "seconds"), [("10min", 600), (0.2, 1), (True, None), (False, 0)])
def test_a_cache_is_kept_for_as_long_as_was_asked(name, keep, seconds):
    with SampleCache.create(name, Dataset(), cache_bytes="1MiB", keep=keep):
        assert segments.find(name).view.keep_s == seconds
    assert os.path.exists(object_path(name)) == (seconds != 0)
    if seconds != 0:
        SampleCache.remove(name)


def test_a_cache_that_is_kept_is_warm_and_goes_when_its_time_is_over(name):
    SampleCache.create(name, Dataset(), cache_bytes="1MiB", keep=1).close()
    with SampleCache.join(name, Dataset(), cache_bytes="1MiB") as cache:
        assert not cache.created
    deadline = time.monotonic() + 60
    while os.path.exists(object_path(name)) and time.monotonic() < deadline:
        sweep_others("/dev/shm/")
        time.sleep(0.05)
    assert not os.path.exists(object_path(name))


def keep_in_a_small_shm():
    """Three caches, of which two have room, in a /dev/shm of 64 MiB; which there are then and later."""
    found = []
    for name, keep in (("forever", True), ("first", "10min"), ("second", "10min")):
        SampleCache.create(
            name, Dataset(), cache_bytes="1MiB" if keep is True else "24MiB", keep=keep
        ).close()
    with SampleCache.create("third", Dataset(), cache_bytes="24MiB"):
        found.append(sorted(one.name for one in segments.segments()))
        with pytest.raises(errors.NoSpaceError):
            SampleCache.create("much", Dataset(), cache_bytes="60MiB")
        found.append(sorted(one.name for one in segments.segments()))
    return found


def test_a_cache_that_is_kept_for_some_time_makes_room_for_one_that_is_needed():
    """The one that was left first goes first. What is in use stays, and what is kept until it is removed."""
    found = in_small_shm(64 << 20, keep_in_a_small_shm)
    assert found == [["forever", "second", "third"], ["forever", "third"]]


def test_no_space_says_how_much_is_needed_and_free_and_what_to_do(name):
    status = os.statvfs("/dev/shm")
    total = status.f_blocks * status.f_frsize
    with pytest.raises(errors.NoSpaceError) as caught:
        SampleCache.create(name, Dataset(), cache_bytes=2 * total)
    text = str(caught.value)
    needed = segment_bytes(100, 2 * total) / 2**20
    assert f"{needed:,.1f} MiB" in text and "MiB free" in text
    assert "smaller cache_bytes" in text and "--shm-size" in text
    assert not os.path.exists(object_path(name)), "nothing is left of the attempt"


def test_a_refused_attempt_leaks_no_descriptor(name):
    def descriptors():
        return len(os.listdir("/proc/self/fd"))

    status = os.statvfs("/dev/shm")
    before = descriptors()
    for _ in range(5):
        with pytest.raises(errors.NoSpaceError):
            SampleCache.create(name, Dataset(), cache_bytes=2 * status.f_blocks * status.f_frsize)
        with pytest.raises(FileNotFoundError):
            SampleCache.attach(name)
    assert descriptors() == before


@pytest.mark.parametrize("bad", ["", "a/b", "../x", "a b", "ä", "x" * 201])
def test_a_name_that_is_none_is_refused(bad):
    with pytest.raises(ValueError, match="name"):
        SampleCache.attach(bad)


def test_a_squatted_name_is_refused_with_its_path(name, tmp_path):
    (tmp_path / "target").write_bytes(b"")
    os.symlink(tmp_path / "target", object_path(name))
    with pytest.raises(errors.SegmentError, match=name):
        SampleCache.join(name, Dataset(), cache_bytes="1MiB")
    os.unlink(object_path(name))
    assert (tmp_path / "target").read_bytes() == b""

    with open(object_path(name), "wb") as file:
        os.fchmod(file.fileno(), 0o666)
    with pytest.raises(errors.SegmentOwnerError, match=name):
        SampleCache.join(name, Dataset(), cache_bytes="1MiB")
    os.unlink(object_path(name))


def test_attaching_anywhere_sweeps_what_the_dead_left(name):
    with Place(100) as dead, Place(100) as living, Place(100) as begun, Process(hold, dead, 1) as process:
        process.receive()
        living.attach()
        open(begun.path, "wb").close()
        os.chmod(begun.path, 0o600)
        process.kill()
        with SampleCache.join(name, Dataset(), cache_bytes="1MiB"):
            assert not dead.exists and not begun.exists
            assert living.exists


def test_a_cache_is_left_at_the_end_of_the_process_however_it_ends(name):
    def join(pipe, how):
        cache = SampleCache.create(name, Dataset(), cache_bytes="1MiB")
        pipe.send("here")
        if how == "exit":
            cache.close()
        else:
            os.kill(os.getpid(), signal.SIGKILL)

    for how in ("exit", "killed"):
        with Process(join, how) as process:
            assert process.receive() == "here"
            process.join()
        with SampleCache.create(name, Dataset(), cache_bytes="1MiB") as cache:
            assert cache.stats()["processes"] == 1


def test_auto_is_half_of_what_there_is_and_no_more_than_is_useful(name):
    status = os.statvfs("/dev/shm")
    free = status.f_bavail * status.f_frsize
    with SampleCache.create(name, Dataset(3), cache_bytes="auto") as cache:
        size = cache.stats()["payload_bytes"]
    assert 4096 <= size <= free // 2
    assert size <= 3 * (16 * 100_000 + 64 * 1024)


def test_members_of_one_name_in_two_datasets_of_equal_shape_do_not_meet(name):
    other = Dataset(fingerprint=b"another of bytes")
    with SampleCache.create(name, Dataset(), cache_bytes="1MiB"), pytest.raises(errors.SegmentMismatchError):
        SampleCache.join(name, other, cache_bytes="1MiB")


def test_seen_bits_are_what_the_member_took(place):
    segment = place.attach()
    member = place.member(segment, places=60, seed=4)
    items, _, _ = member.draw(25)
    rows = place.records().rows
    [row] = np.flatnonzero((rows["state"] == 1) & (rows["kind"] == 2))
    seen = place.records().seen(row)
    assert seen[items["sample"]].all() and (~seen).sum() == 60 - 25
    member.close()
