"""The segments of this host, found, inspected, shrunk and removed by somebody who does not use them."""

import dataclasses
import fcntl
import os
import secrets
import stat
import time

import pytest
from engine import Place, Process, in_a_shm_of_its_own

from seneca import errors
from seneca._core.segment import KEEP_FOREVER
from seneca._core.telemetry import CAUSES, publish_work
from seneca.segments import Segment, State, find, remove, segments, shrink, worth

NS = 10**9


def work_of(*, served, spent_ns):
    """What a process publishes that has done this, and nothing else."""
    names = (
        "since_ms",
        "published_ms",
        "delivered",
        "prepared",
        "staged",
        "skipped",
        "damaged",
        "read_bytes",
    )
    names += ("epoch", "place", "places", "threads", "batch_size", "rank", "ranks")
    return {
        "name": "",
        "dataset": "",
        **dict.fromkeys(names, 0),
        "served": {"storage": 0, "encoded": 0, "recoded": 0, "decoded": 0, "augmented": 0} | served,
        "unrecoded": {"kind": 0, "damaged": 0, "large": 0},
        "stall_ns": dict.fromkeys(CAUSES, 0),
        "spent_ns": dict.fromkeys(CAUSES, 0) | spent_ns,
    }


@pytest.fixture
def place():
    with Place(100, split=(0, 5000, 2500, 2500, 0)) as place:
        yield place


def name_of(place):
    return place.name.removeprefix(f"/seneca-{os.geteuid()}-")


def listed(place) -> Segment | None:
    return next((one for one in segments() if one.name == name_of(place)), None)


def attach_and_wait(place):
    def work(pipe):
        place.attach(2)
        pipe.send("here")
        pipe.receive(patience_s=None)

    return Process(work)


def test_a_segment_is_listed_with_its_jobs(place):
    segment = place.attach(7)
    member = place.member(segment)
    with attach_and_wait(place) as other:
        other.receive()
        segment.publish_pace(5, 640)
        found = listed(place)
        assert found == find(name_of(place))
        assert (found.state, found.why, str(found.path)) == (State.IN_USE, None, place.path)
        assert found.memory_bytes == os.stat(place.path).st_blocks * 512
        view = found.view
        assert (view.samples, view.payload_bytes, view.keep_s, view.torn) == (100, 1 << 20, 0, False)
        assert (view.split, view.split_changes) == ("50-25-25", [])
        assert view.payloads == {"encoded": 0, "recoded": 0, "decoded": 0, "augmented": 0}
        first, second = view.jobs
        assert (first.key, first.pids, first.iterators, first.pace) == (f"{7:016x}", (os.getpid(),), 1, 640)
        assert (second.key, second.pids, second.iterators, second.pace) == (
            f"{2:016x}",
            (other.pid,),
            0,
            None,
        )
        other.kill()
        assert [job.pids for job in listed(place).view.jobs] == [(os.getpid(),)]
    member.close()


def test_how_often_and_how_lately_it_was_joined(place):
    now = int(time.time())  # in whole seconds, of a clock that may be a few milliseconds behind
    place.attach(1)
    assert find(name_of(place)).view.joins == 1
    place.attach(2)
    view = find(name_of(place)).view
    assert 1.9 < view.joins <= 2 and now - 1 <= view.joined_at <= time.time()


def test_joins_count_for_less_as_time_goes_by(place):
    place.attach(1)
    at = 5084  # of sn_header.joined_at
    with open(place.path, "r+b") as file:
        file.seek(at)
        joined_at = int.from_bytes(file.read(4), "little")
        file.seek(at)
        file.write((joined_at - 1800).to_bytes(4, "little"))
    place.attach(2)
    assert find(name_of(place)).view.joins == pytest.approx(1.5, abs=0.01), "a half and a whole one"


def test_what_a_sample_costs_is_said_by_who_leaves():
    with Place(100, keep=KEEP_FOREVER) as place:
        stays = place.attach(1)
        for numbers, cost_s in (
            ({"storage": 0, "encoded": 50}, 0.0),  # it has made none from the beginning
            ({"storage": 20, "encoded": 20}, 0.2),  # 0.1 s of reading, 0.05 of its own code, 0.05 of decoding
            ({"storage": 0, "encoded": 9}, 0.2),  # what was known stays
        ):
            leaves = place.attach(2)
            spent_ns = {"storage": 2 * NS, "decode": 2 * NS, "item": NS}
            publish_work(leaves, work_of(served=numbers, spent_ns=spent_ns))
            place.close(leaves)
            assert find(name_of(place)).view.cost_s == pytest.approx(cost_s)
        place.close(stays)
        place.unlink()


def test_worth_is_the_work_that_it_saves_for_its_memory():
    with Place(100, keep=KEEP_FOREVER) as place:
        place.close(place.attach())
        one = find(name_of(place))
        place.unlink()
    payloads = {"encoded": 40, "recoded": 0, "decoded": 10, "augmented": 7}
    view = dataclasses.replace(one.view, joins=3.0, joined_at=1000, cost_s=0.01, payloads=payloads)
    one = dataclasses.replace(one, view=view, memory_bytes=1_000_000)
    assert worth(one, 1000) == pytest.approx(3.0 * 0.01 * 50 / 1e6)
    assert worth(one, 1000 + 3600) == pytest.approx(worth(one, 1000) / 4)
    assert worth(dataclasses.replace(one, memory_bytes=500_000), 1000) == pytest.approx(2 * worth(one, 1000))
    unknown = dataclasses.replace(one, view=dataclasses.replace(view, cost_s=0.0))
    assert worth(unknown, 1000) == pytest.approx(worth(one, 1000) / 10)
    assert worth(dataclasses.replace(one, view=None), 1000) == 0


@in_a_shm_of_its_own
def test_what_the_killed_leave_is_dead_and_can_be_removed():
    with Place(100) as place:
        with attach_and_wait(place) as only:
            only.receive()
            assert listed(place).state is State.IN_USE
            only.kill()
        found = listed(place)
        assert (found.state, found.view.jobs) == (State.DEAD, [])
        assert remove(found) and listed(place) is None
        assert remove(found), "it is gone already"


def test_what_is_kept_stays_until_it_is_removed():
    with Place(100, keep=KEEP_FOREVER) as place:
        segment = place.attach()
        found = find(name_of(place))
        assert found.view.keep_s is None and not remove(found), "in use"
        place.close(segment)
        found = find(name_of(place))
        assert found.state is State.KEPT and remove(found) and not place.exists


@in_a_shm_of_its_own
def test_what_is_kept_for_some_time_says_until_when():
    with Place(100, keep=1000) as place:
        segment = place.attach()
        found = find(name_of(place))
        assert (found.state, found.view.keep_s, found.view.left_at) == (State.IN_USE, 1000, None)
        before = int(time.time())
        place.close(segment)
        found = find(name_of(place))
        assert (found.state, found.view.keep_s) == (State.KEPT, 1000)
        assert before <= found.view.left_at <= time.time()
        with open(place.path, "rb+") as file:  # as if 1,001 s had passed
            file.seek(file.read().index(found.view.left_at.to_bytes(4, "little")))
            file.write((found.view.left_at - 1001).to_bytes(4, "little"))
        found = find(name_of(place))
        assert found.state is State.DEAD and remove(found) and not place.exists


def test_what_is_in_use_keeps_its_memory_when_its_name_goes(place):
    segment = place.attach()
    assert remove(find(name_of(place)), in_use=True)
    assert not place.exists and not segment.linked
    assert segment.stats()["processes"] == 1


def write_file(place, content):
    with open(place.path, "wb") as file:
        file.write(content)
    os.chmod(place.path, 0o600)


def test_what_cannot_be_read_is_listed_with_the_reason(place):
    write_file(place, b"something else" * 2000)
    found = listed(place)
    assert (found.state, found.view, found.why) == (State.UNKNOWN, None, "it was not made by Seneca")
    with pytest.raises(errors.NotASegmentError):
        remove(found)
    assert remove(found, in_use=True) and not place.exists


@in_a_shm_of_its_own
def test_what_its_maker_did_not_complete_is_dead():
    with Place(100) as place:
        write_file(place, b"\0" * 20_000)
        found = listed(place)
        assert (found.state, found.view) == (State.DEAD, None)
        assert remove(found) and not place.exists


def test_a_segment_of_another_version_is_listed_and_not_opened(place):
    segment = place.attach()
    with open(place.path, "rb+") as file:
        file.seek(8)
        version = file.read(4)
        file.seek(8)
        file.write((99).to_bytes(4, "little"))
    found = listed(place)
    assert (found.state, found.view, found.why) == (State.IN_USE, None, "another version of Seneca made it")
    with open(place.path, "rb+") as file:
        file.seek(8)
        file.write(version)
    assert segment.stats()["processes"] == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_another_user_s_segment_is_listed_with_its_owner(place):
    place.attach()
    os.chown(place.path, 54321, -1)
    found = listed(place)
    assert (found.owner, found.state, found.why, found.view) == (
        "uid 54321", State.UNKNOWN, "another user's", None,
    )  # fmt: skip
    os.chown(place.path, 0, -1)


def test_other_files_and_what_is_no_file_are_left_alone(tmp_path):
    (tmp_path / "something").write_bytes(b"x")
    (tmp_path / f"seneca-{os.geteuid()}-folder").mkdir()
    os.mkfifo(tmp_path / f"seneca-{os.geteuid()}-fifo")
    (tmp_path / f"seneca-{os.geteuid()}-link").symlink_to("/etc/passwd")
    found = {one.name: one.why for one in segments(tmp_path)}
    assert found == {
        "folder": "it is a directory and not a regular file",
        "fifo": "it is a FIFO and not a regular file",
        "link": "it is a symbolic link and not a regular file",
    }
    assert stat.S_ISLNK(os.lstat(tmp_path / f"seneca-{os.geteuid()}-link").st_mode)


def test_there_is_none_of_that_name():
    with pytest.raises(FileNotFoundError, match="there is no cache 'nothing"):
        find("nothing-" + secrets.token_hex(4))
    with pytest.raises(ValueError, match="a cache's name has letters"):
        find("../shadow")


def test_a_cache_in_use_is_shrunk(place):
    segment = place.attach()
    before = find(name_of(place))
    assert shrink(before, 100_000) == 0
    after = find(name_of(place))
    assert after.view.payload_bytes == after.view.free_bytes == segment.payload_bytes == 25 * 4096
    assert before.memory_bytes - after.memory_bytes == (1 << 20) - 25 * 4096


@in_a_shm_of_its_own
def test_a_kept_cache_is_shrunk_and_stays_and_a_dead_one_goes():
    with Place(100, keep=KEEP_FOREVER) as place:
        place.close(place.attach())
        assert shrink(find(name_of(place)), 4096) == 0
        assert find(name_of(place)).view.payload_bytes == 4096
        segment = place.attach()
        assert not segment.created and segment.payload_bytes == 4096 and segment.check() is None
        place.close(segment)
        place.unlink()
    with Place(100) as place:
        with attach_and_wait(place) as only:
            only.receive()
            only.kill()
        with pytest.raises(FileNotFoundError, match="nobody used it, and it is gone"):
            shrink(find(name_of(place)), 4096)


def test_a_cache_whose_lock_is_held_is_not_shrunk(place):
    segment = place.attach()
    with open(place.path, "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(errors.SegmentError, match="another process holds its lock"):
            shrink(find(name_of(place)), 4096, patience_s=0)
    assert segment.payload_bytes == 1 << 20
