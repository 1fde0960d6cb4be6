"""Birth and death of a segment: who makes it, who may join, who removes it, and what is left behind."""

import contextlib
import os
import secrets
import signal
import stat

import pytest
from engine import ENCODED, HEADER, NONE, STORAGE, Place, Process, in_small_shm
from sizes import size as at_size

from seneca import errors
from seneca._core.codes import Unlinked
from seneca._core.segment import KEEP_FOREVER, segment_bytes


@pytest.fixture
def place():
    with Place(100) as place:
        yield place


# Made, joined, left.


def test_who_comes_first_makes_it_and_who_comes_next_joins(place):
    first, second = place.attach(1), place.attach(2, payload_bytes=5 << 20)
    assert first.created and not second.created
    assert second.payload_bytes == first.payload_bytes == 1 << 20, "the second takes it as it is"
    assert second.stats() == first.stats()
    place.close(first)
    assert place.exists and second.linked and second.stats()["processes"] == 1
    place.close(second)
    assert not place.exists, "the last to leave removes it"


def test_the_newest_change_of_a_file_is_what_its_maker_knew(place):
    first = place.attach(1, newest_ctime=2**62 + 5)
    second = place.attach(2, newest_ctime=2**62 + 9)
    assert first.newest_ctime == second.newest_ctime == 2**62 + 5
    with Place(100) as another:
        assert another.attach().newest_ctime == 0


def test_the_last_to_leave_removes_one_that_was_given_up_also_if_it_was_to_be_kept():
    with Place(100, keep=KEEP_FOREVER) as place:
        first, second = place.attach(1), place.attach(2)
        first.distrust(3, STORAGE)
        place.close(first)
        assert place.exists
        place.close(second)
        assert not place.exists


def test_another_file_that_has_the_name_by_then_stays(place):
    """The last to leave takes nothing from one that has its name by now, even if its own is given up."""
    for keep in (0, KEEP_FOREVER):
        first = place.attach(1, keep=keep)
        moved = place.path + "-moved"
        os.rename(place.path, moved)
        second = place.attach(2)
        assert second.created and second.linked and not first.linked
        if keep:
            first.distrust(3, STORAGE)
        place.close(first)
        assert place.exists and second.linked
        place.close(second)
        assert not place.exists
        with contextlib.suppress(FileNotFoundError):  # a job that begins meanwhile sweeps up what is unused
            os.unlink(moved)


def test_its_memory_is_reserved_in_full_and_its_own(place):
    segment = place.attach()
    file = os.stat(place.path)
    head = place.records().head
    assert file.st_size == segment.total_bytes
    assert file.st_blocks * 512 >= head["rooms_at"] + head["seen_in"], "no page is missing: never a bus error"
    assert stat.S_IMODE(file.st_mode) == 0o600


def work_in_a_small_shm():
    """A segment of nine million samples, whose rooms are huge pages."""
    with Place(9_000_000) as place:
        segment = place.attach()
        member = place.member(segment)
        items = member.draw(32)[0]
        found = member.shared, len(items)
        member.close()
        return found


def test_rooms_made_at_birth_leave_memory_for_whoever_makes_them():
    with Place(9_000_000) as place:
        place.attach()
        head = place.records().head
        size = int(head["rooms_at"] + 2 * head["room_bytes"])
    assert in_small_shm(size, work_in_a_small_shm) == (True, 32)


def reserved_bytes(place):
    return os.stat(place.path).st_blocks * 512


def test_a_row_that_nobody_has_had_takes_no_memory(place):
    segment = place.attach()
    head = place.records().head
    room = int(head["timetable_in"])
    place.member(segment).close()
    one = reserved_bytes(place)
    assert head["rooms_at"] + room <= one <= segment_bytes(100, 1 << 20)
    place.member(segment, epoch=1).close()
    assert reserved_bytes(place) == one, "the room is used again"
    members = [place.member(segment, epoch=2), place.member(segment, epoch=2)]
    assert one + room <= reserved_bytes(place) <= one + head["room_bytes"]
    for member in members:
        member.close()
    assert segment.check() is None


def test_rooms_that_are_made_at_birth_are_those_of_the_first_members(place):
    """Where rooms are huge pages. Where the kernel has none, members reserve as many."""
    place.n_samples = 1 << 24
    segment = place.attach()
    head = place.records().head
    whole = head["rooms_at"] + 9 * head["room_bytes"]
    assert head["rooms_at"] + head["seen_in"] <= reserved_bytes(place) <= whole
    members = [place.member(segment) for _ in range(8)]
    of_eight = reserved_bytes(place)
    assert head["rooms_at"] + 8 * head["timetable_in"] <= of_eight <= whole
    members.append(place.member(segment))
    assert of_eight + head["timetable_in"] <= reserved_bytes(place) <= of_eight + head["room_bytes"]
    for member in members:
        member.close()
    place.member(segment, epoch=1).close()
    assert reserved_bytes(place) <= of_eight + head["room_bytes"], "rooms are used again"
    assert segment.check() is None


@pytest.mark.parametrize(("payload_bytes", "granules"), [(1, 1), (4096, 1), (4097, 2), (123 * 4096, 123)])
def test_payload_space_is_a_whole_number_of_granules(place, payload_bytes, granules):
    segment = place.attach(payload_bytes=payload_bytes)
    assert segment.stats()["free_bytes"] == granules * 4096
    assert segment.check() is None


@pytest.mark.parametrize(("n_samples", "payload_bytes"), [(0, 4096), (1 << 31, 4096), (10, 1 << 50)])
def test_a_size_that_cannot_be_is_refused_and_leaves_nothing(place, n_samples, payload_bytes):
    with pytest.raises(ValueError, match="no cache can be made"):
        segment_bytes(n_samples, payload_bytes)
    with pytest.raises((OSError, Unlinked)):
        place.try_attach(n_samples=n_samples, payload_bytes=payload_bytes)
    assert not place.exists


def test_one_that_was_to_be_kept_outlives_everybody_and_what_it_holds_too(place):
    place.keep, place.split = KEEP_FOREVER, (0, 10000, 0, 0, 0)

    def keep_something(pipe, how):
        segment = place.attach(3)
        member = place.member(segment, keeps=True, places=1)
        items, _, _ = member.draw(1)
        _, [(slot, entry)], _ = member.draw(0, [(7, ENCODED, 5000, 0, 0)])
        member.payload(slot)[:] = bytes(range(250)) * 20
        member.commit(slot)
        member.offer_done(slot, entry)
        if how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        member.done(items)
        member.close()
        place.close(segment)

    try:
        for how in ("leaves", "killed"):
            with Process(keep_something, how) as process:
                assert process.join() == (0 if how == "leaves" else -signal.SIGKILL)
            segment = place.attach()
            assert not segment.created and segment.check() is None
            assert segment.stats()["payloads"]["encoded"] == 1
            member = place.member(segment, keeps=True)
            items = member.draw(100)[0]
            [item] = items[items["source"] == ENCODED]
            assert item["sample"] == 7
            assert bytes(member.payload(item["source_slot"])) == bytes(range(250)) * 20
            member.close()
            place.close(segment)
            assert place.exists
            if how == "leaves":
                place.unlink()
    finally:
        place.unlink()


# Makers and joiners who die or race.


@pytest.mark.parametrize("left", [0, 1, 7, 12345, 30 << 20])
def test_what_a_maker_left_who_died_before_the_magic_is_taken_over(place, left):
    with open(place.path, "wb") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(b"\0" * 8)
        file.seek(0)
        file.truncate(left)
        if left > 100:
            file.seek(50)
            file.write(b"\xff" * 50)
    segment = place.attach()
    assert segment.created and segment.check() is None
    assert os.stat(place.path).st_size == segment.total_bytes


def test_a_maker_that_is_killed_while_it_reserves_holds_nobody_up(place):
    place.payload_bytes = 130 << 20  # three pieces

    def die_in_the_middle(pipe):
        place.attach(3, progress=lambda done, total: os.kill(os.getpid(), signal.SIGKILL))

    with Process(die_in_the_middle) as process:
        assert process.join() == -signal.SIGKILL
    assert place.attach().created


def test_many_that_race_to_make_it_all_end_up_in_one(place):
    def attach(pipe):
        while pipe.receive(patience_s=None):
            segment = place.attach(os.getpid())
            pipe.send((segment.created, os.stat(place.path).st_ino))
            pipe.receive()
            linked, processes = segment.linked, segment.stats()["processes"]
            pipe.send((linked, processes))
            pipe.receive()
            place.close(segment)
            pipe.send("left")

    racers = [Process(attach) for _ in range(8)]
    try:
        for _ in range(at_size(8, 25)):
            for racer in racers:
                racer.send("go")
            came = [racer.receive() for racer in racers]
            assert sorted(created for created, _ in came) == [False] * 7 + [True]
            assert len({inode for _, inode in came}) == 1
            for racer in racers:
                racer.send("all are here")
            assert [racer.receive() for racer in racers] == [(True, 8)] * 8
            for racer in racers:
                racer.send("leave")
            assert [racer.receive() for racer in racers] == ["left"] * 8
            assert not place.exists, "the last of those who left together removed it"
        for racer in racers:
            racer.send(None)
            assert racer.join() == 0
    finally:
        for racer in racers:
            racer.__exit__()


def test_who_joins_while_the_last_leaves_is_never_in_one_without_a_name(place):
    def come_and_go(pipe):
        made = 0
        for _ in range(at_size(100, 300)):
            segment = place.attach(os.getpid())
            made += segment.created
            assert segment.linked, "others will not find it"
            place.close(segment)
        pipe.send(made)

    with Process(come_and_go) as one, Process(come_and_go) as two, Process(come_and_go) as three:
        made = [process.receive() for process in (one, two, three)]
    assert 1 <= sum(made) <= 900
    assert not place.exists


def hold(pipe, place, job):
    """Come, reserve and read what there is, and stay."""
    segment = place.attach(job)
    member = place.member(segment, seed=job)
    items, _, _ = member.draw(10)
    for slot in items["target_slot"][items["target_slot"] != NONE][::2].tolist():
        member.commit(slot)
    pipe.send(len(items))
    pipe.receive(patience_s=None)


def test_when_all_users_are_killed_at_once_the_next_begins_anew(place):
    users = []
    try:
        for job in range(1, 6):
            users.append(Process(hold, place, job))
            users[-1].receive()
        inode = os.stat(place.path).st_ino
        with open(place.path) as old:  # so that its number is not given out again
            for user in users:
                os.kill(user.pid, signal.SIGKILL)
            for user in users:
                user.join()
            segment = place.attach()
            assert segment.created and os.stat(place.path).st_ino != inode == os.fstat(old.fileno()).st_ino
            stats = segment.stats()
        assert stats["processes"] == stats["jobs"] == 1 and stats["free_bytes"] == stats["payload_bytes"]
    finally:
        for user in users:
            user.__exit__()


def test_who_only_joins_makes_nothing(place):
    with Process(hold, place, 1) as process:
        process.receive()
        segment = place.try_attach(makes=False)
        assert not segment.created
        place.close(segment)
    with pytest.raises(Unlinked):
        place.try_attach(makes=False)  # its users are dead
    assert not place.exists


# What is refused, and left as it is.


def spoil(place, at, value):
    with open(place.path, "r+b") as file:
        file.seek(at)
        file.write(value)


def test_another_dataset_is_refused(place):
    place.attach()
    for change in ({"fingerprint": b"another of bytes"}, {"n_samples": 101}):
        with pytest.raises(errors.SegmentMismatchError):
            place.try_attach(2, **change)
    assert place.attach(2, payload_bytes=1 << 30).payload_bytes == 1 << 20, "a size is no reason"


def test_another_layout_version_is_refused(place):
    segment = place.attach()
    spoil(place, HEADER.fields["layout_version"][1], (77).to_bytes(4, "little"))
    with pytest.raises(errors.SegmentVersionError):
        place.try_attach(2)
    assert segment.linked


@pytest.mark.parametrize("content", [b"\xff", b"not a segment", secrets.token_bytes(100_000)])
def test_what_is_no_segment_is_refused_and_left_alone(place, content):
    with open(place.path, "wb") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(content)
    for makes in (True, False):
        with pytest.raises(errors.NotASegmentError):
            place.try_attach(makes=makes)
    with open(place.path, "rb") as file:
        assert file.read() == content
    place.unlink()


@pytest.mark.parametrize("size", [8, 100, HEADER.itemsize, 1 << 20, -1, 1])
def test_a_truncated_or_grown_segment_is_refused(place, size):
    place.attach()  # which must not touch what is cut off
    whole = os.stat(place.path).st_size
    with open(place.path, "rb") as file:
        saved = file.read()
    os.truncate(place.path, size if size > 1 else whole + size)
    with pytest.raises((errors.NotASegmentError, errors.SegmentCorruptError)):
        place.try_attach(2)
    with open(place.path, "r+b") as file:
        file.write(saved)
        file.truncate(whole)


def test_a_header_that_contradicts_itself_is_refused(place):
    """Each field of the plan, in each of its bytes; some are checked elsewhere, or may be anything."""
    segment = place.attach()
    fields = HEADER.fields
    skipped = {
        "magic",
        "layout_version",
        "fingerprint",
        "keep",
        "split_at_birth",
        "adapts",
        "first_granules",
        "padding",
        "boot",
    }
    for name in list(HEADER.names[: HEADER.names.index("busy")]):
        kind, at = fields[name][:2]
        for byte in range(kind.itemsize):
            if name in skipped or (name == "payload_bytes" and byte == 0):  # the same number of granules
                continue
            value = bytes(place.records().bytes[at + byte : at + byte + 1])
            spoil(place, at + byte, bytes([value[0] ^ 0x41]))
            with pytest.raises((errors.SegmentCorruptError, errors.SegmentMismatchError)):
                place.try_attach(2)
            spoil(place, at + byte, value)
    assert segment.check() is None and not place.attach(2).created


@pytest.mark.parametrize("mode", [0o666, 0o640, 0o604])
def test_what_others_may_open_is_refused(place, mode):
    place.attach()
    os.chmod(place.path, mode)
    with pytest.raises(errors.SegmentOwnerError):
        place.try_attach(2)
    os.chmod(place.path, 0o600)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_another_user_s_is_refused(place):
    place.attach()
    os.chown(place.path, 12345, -1)
    with pytest.raises(errors.SegmentOwnerError):
        place.try_attach(2)
    os.chown(place.path, 0, -1)


def test_a_symbolic_link_is_not_followed(place, tmp_path):
    target = tmp_path / "precious"
    target.write_bytes(b"\0" * 100)
    target.chmod(0o600)
    os.symlink(target, place.path)
    with pytest.raises(OSError):
        place.try_attach()
    assert target.read_bytes() == b"\0" * 100
    place.unlink()


# Fork.


def test_a_forked_child_s_handle_is_dead_and_its_end_frees_nothing(place):
    segment, other = place.attach(1), place.attach(2)
    member = place.member(segment)
    others = place.member(other, seed=1)
    items, _, _ = member.draw(10)

    def use(pipe):
        for what in (segment.stats, segment.check, lambda: segment.change_split((0, 0, 0, 1, 0), 0, "")):
            with pytest.raises(errors.SegmentError, match="parent"):
                what()
        segment.publish_pace(99, 7)
        private = place.member(segment)
        assert not private.shared
        private.close()
        mine, _, private = member.draw(200)
        assert private and len(mine) == 90
        member.close()
        pipe.send("closed its member")
        segment.close()
        pipe.send("left")

    with Process(use) as child:
        assert child.receive() == "closed its member"
        assert child.receive() == "left"
        assert child.join() == 0
    assert other.published_paces() == [], "its row is the parent's"
    stats = other.stats()  # probes whose owner lives
    assert (stats["members"], stats["processes"], stats["writing"]) == (2, 2, 10)
    assert segment.check() is None
    for slot in items["target_slot"].tolist():
        member.commit(slot)
    member.done(items)
    assert set(others.draw(10)[0]["sample"].tolist()) == set(items["sample"].tolist())
    assert len(member.draw(200)[0]) == 90, "the child took nothing of the parent's"
    member.close()
    others.close()


def test_a_child_that_outlives_its_parent_does_not_keep_its_row(place):
    def leave_an_orphan(pipe):
        place.attach(2)
        if os.fork() == 0:
            pipe.send(os.getpid())
            signal.pause()
        pipe.receive()
        os.kill(os.getpid(), signal.SIGKILL)

    with Process(leave_an_orphan) as process:
        orphan = process.receive()
        try:
            process.send("die")
            assert process.join() == -signal.SIGKILL
            with pytest.raises(
                (Unlinked, FileNotFoundError)
            ):  # a job of a test beside this may have swept it up
                place.try_attach(makes=False)  # its users are dead
            assert not place.exists
        finally:
            os.kill(orphan, signal.SIGKILL)


# How many.


def test_the_65th_job_is_refused_and_a_place_is_free_when_one_leaves(place):
    jobs = [place.attach(job) for job in range(1, 65)]
    assert jobs[0].stats()["jobs"] == 64
    with pytest.raises(errors.TooManyJobsError):
        place.attach(65)
    again = place.attach(64)
    assert again.stats()["processes"] == 65, "one more process of a job that is there"
    place.close(jobs[3])
    assert place.attach(65).stats()["jobs"] == 64
    assert again.check() is None


def test_when_every_row_is_taken_a_process_is_refused_and_a_member_is_private(place):
    segment = place.attach(1)
    members = [place.member(segment, seed=seed) for seed in range(127)]
    assert all(member.shared for member in members)
    with pytest.raises(errors.TooManyMembersError):
        place.attach(2)
    one_more = place.member(segment, seed=3)
    assert not one_more.shared
    items, _, private = one_more.draw(200)
    assert sorted(items["sample"].tolist()) == list(range(100)) and not private
    assert set(items["source_slot"]) == {NONE}
    assert segment.check() is None
    members.pop().close()
    assert place.attach(2).stats()["members"] == 126
    for member in [*members, one_more]:
        member.close()


def test_it_cannot_be_left_while_an_iterator_draws(place):
    segment = place.attach()
    member = place.member(segment)
    with pytest.raises(errors.SegmentError, match="1 iterators still draw"):
        segment.close()
    member.close()
    place.close(segment)
    assert segment.closed
    with pytest.raises(errors.SegmentError, match="closed"):
        segment.stats()
    segment.close()  # a second time is nothing
