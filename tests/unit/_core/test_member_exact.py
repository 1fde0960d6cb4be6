"""Members whose copies are exact: who makes what, who waits for whom, and until when."""

import fcntl

import numpy as np
import pytest
from engine import AUGMENTED, NONE, STORAGE, Place, Process

N = 512
COPY, PEER = 1, 2  # enum sn_awaited
FAMILY = 99


class Jobs(Place):
    """A place, and the members on it, which are closed before it is."""

    def __init__(self, payload_bytes=16 << 20):
        super().__init__(N, payload_bytes)
        self.members = []

    def __exit__(self, failed, *rest):
        for member in self.members:
            member.close()
        super().__exit__(failed, *rest)


def exact(place, segment, **options):
    """A member in the order of the dataset; all that are made by this make the same copies."""
    options = {"fixed": True, "substitutes": False, "exact_family": FAMILY, "in_flight": 2 * N} | options
    place.members.append(place.member(segment, **options))
    return place.members[-1]


@pytest.fixture
def place():
    with Jobs() as place:
        yield place


@pytest.fixture
def jobs(place):
    """Two members of two jobs."""
    return exact(place, place.attach(1)), exact(place, place.attach(2))


def made(items):
    """The samples that whoever drew these makes itself."""
    return set(items["sample"][(items["source"] == STORAGE) & (items["awaited"] == 0)].tolist())


def awaited(items, what):
    return set(items["sample"][items["awaited"] == what].tolist())


def commit(member, items):
    """Write what is to be made, and be done with it."""
    for item in items[items["target_slot"] != NONE]:
        member.payload(int(item["target_slot"]))[:4] = int(item["sample"]).to_bytes(4, "little")
        member.commit(int(item["target_slot"]))


def assert_served(member, items):
    assert set(items["source"]) == {AUGMENTED} and not items["awaited"].any()
    for item in items:
        data = member.payload(int(item["source_slot"]))[:4]
        assert int.from_bytes(data, "little") == item["sample"]


def held(place, *members):
    """How many slots have any occupant, once these members have let go of what they are done with."""
    for member in members:
        member.draw(0)
    return int(np.count_nonzero(place.records().slots["state"]))


@pytest.mark.parametrize("count", [2, 4, 8])
def test_members_in_step_make_each_sample_once_and_nearly_as_many_each(place, count):
    members = [exact(place, place.attach(1 + k)) for k in range(count)]
    drawn = [member.draw(N)[0] for member in members]
    assert all(items["sample"].tolist() == list(range(N)) for items in drawn)
    parts = [made(items) for items in drawn]
    assert set().union(*parts) == set(range(N)) and sum(map(len, parts)) == N
    assert all(
        (items["target_slot"] != NONE).sum() == len(part) for items, part in zip(drawn, parts, strict=True)
    )
    mean, deviation = N / count, (N / count * (1 - 1 / count)) ** 0.5
    assert all(abs(len(part) - mean) < 5 * deviation for part in parts)
    # What was reserved is held; what is to be drawn by another is not.
    assert awaited(drawn[0], COPY) == set() and awaited(drawn[0], PEER) == set(range(N)) - parts[0]
    assert awaited(drawn[-1], PEER) == set() and awaited(drawn[-1], COPY) == set(range(N)) - parts[-1]


def test_what_others_have_made_is_served_and_then_nothing_is_held(place, jobs):
    first, second = jobs
    ours, theirs = first.draw(64)[0], second.draw(64)[0]
    commit(first, ours), commit(second, theirs)
    for member, items in ((first, ours), (second, theirs)):
        waiting = items["awaited"] != 0
        assert member.check_awaited(items) and not items["awaited"].any()
        assert_served(member, items[waiting])
        member.done(items)
    assert held(place, first, second) == 0


def test_a_sample_that_is_to_be_made_by_another_is_still_wanted(place, jobs):
    """Or who makes it would not leave it: nobody else has it to draw."""
    first, second = jobs
    ours = first.draw(N)[0]
    waits_for = sorted(awaited(ours, PEER))
    seen = place.records().seen(first_row(place))
    assert not seen[waits_for].any() and seen[sorted(made(ours))].all()
    theirs = second.draw(N)[0]
    assert (theirs["target_slot"][waits_for] != NONE).all()
    commit(second, theirs)
    first.check_awaited(ours)
    assert place.records().seen(first_row(place)).all()


def first_row(place):
    """The row of the member that came first: members are given the last rows first."""
    return len(place.records().rows) - 1


def test_who_has_nothing_else_to_do_makes_what_the_other_has_not_drawn(place, jobs):
    first, second = jobs
    ours = first.draw(64)[0]
    assert awaited(ours, PEER)
    first.check_awaited(ours)
    assert awaited(ours, PEER), "it may come yet"
    first.check_awaited(ours, takes_over=True)
    assert made(ours) == set(range(64)) and (ours["target_slot"] != NONE).all()
    theirs = second.draw(64)[0]
    assert awaited(theirs, COPY) == set(range(64))
    commit(first, ours)
    second.check_awaited(theirs)
    assert_served(second, theirs)


def test_who_waited_in_vain_makes_all_of_it_and_counts_on_the_other_no_more_until_that_draws(place, jobs):
    first, second = jobs
    theirs = second.draw(64)[0]
    ours = first.draw(64)[0]
    waits_for = awaited(ours, COPY)
    rows = set(ours["peer"][ours["awaited"] == COPY].tolist())
    assert waits_for and len(rows) == 1
    first.check_awaited(ours, blamed=rows)
    assert made(ours) == set(range(64))
    assert (ours["target_slot"][sorted(waits_for)] == NONE).all(), "the second has drawn its own part"
    assert made(first.draw(32)[0]) == set(range(64, 96)), "nobody else counts"
    second.draw(32)
    assert awaited(first.draw(32)[0], PEER), "it goes on"
    commit(second, theirs)  # late, and of no use to anybody


def test_copies_of_who_leaves_or_fails_are_made_by_who_waits(place, jobs):
    first, second = jobs
    theirs, ours = second.draw(64)[0], first.draw(64)[0]
    some = theirs[theirs["target_slot"] != NONE]
    for item in some[: len(some) // 2]:
        second.abort(int(item["target_slot"]))
    failed = set(some["sample"][: len(some) // 2].tolist())
    before = made(ours)
    first.check_awaited(ours, takes_over=True)
    assert made(ours) == before | failed and awaited(ours, COPY) == set(some["sample"].tolist()) - failed
    second.close()
    first.check_awaited(ours, takes_over=True)
    assert made(ours) == set(range(64))
    commit(first, ours)
    first.done(ours)
    assert held(place, first) == 0, "nobody wants them"


def test_copies_of_who_is_killed_are_made_by_who_waits(place):
    def draw(pipe):
        pipe.send("here")
        pipe.receive()
        member = exact(place, place.attach(2))
        pipe.send("joined")
        pipe.receive()
        pipe.send(len(made(member.draw(64)[0])))
        pipe.receive()

    with Process(draw) as other:
        other.receive()
        first = exact(place, place.attach(1))
        other.send("join")
        other.receive()
        other.send("draw")
        reserved = other.receive()
        ours = first.draw(64)[0]
        assert reserved == len(awaited(ours, COPY)) > 0
    for _ in range(8):  # who draws looks now and then who lives
        first.draw(0)
    first.check_awaited(ours, takes_over=True)
    assert made(ours) == set(range(64))


def test_who_is_far_behind_is_not_waited_for_and_finds_what_the_stage_has(place):
    ahead = exact(place, place.attach(1), in_flight=32)
    behind = exact(place, place.attach(2), in_flight=32)
    assert awaited(ahead.draw(16)[0], PEER), "beside each other they divide"
    assert awaited(ahead.draw(16)[0], PEER), "half of what is in flight is near enough"
    alone = ahead.draw(64)[0]
    assert made(alone) == set(alone["sample"].tolist())
    commit(ahead, alone)
    behind.draw(32)
    found = behind.draw(64)[0]
    assert_served(behind, found)


@pytest.mark.parametrize(
    "other",
    [{"augmented": 23}, {"samples": np.arange(N, dtype=np.uint32)[::-1].copy()}, {"fixed": False, "seed": 5}],
    ids=["another seed", "another order", "a permutation"],
)
def test_only_members_of_the_same_copies_and_order_divide(place, other):
    first = exact(place, place.attach(1))
    exact(place, place.attach(2), **other)
    items = first.draw(64)[0]
    assert made(items) == set(range(64))
    is_other_order = "augmented" not in other
    assert (items["target_slot"] != NONE).all() == is_other_order, "what the other can use is left for it"


def test_ranks_of_a_job_do_not_count_on_each_other(place):
    segment = place.attach(1)
    first, second = exact(place, segment), exact(place, segment)
    assert made(first.draw(64)[0]) == made(second.draw(64)[0]) == set(range(64))


def test_the_hash_and_not_the_order_of_drawing_says_who_makes_a_sample(place):
    """So what one expects of another does not change when a third has drawn."""
    members = [exact(place, place.attach(1 + k)) for k in range(3)]
    expected = made(members[2].draw(N)[0])
    assert expected == awaited(members[0].draw(N)[0], COPY) - made(members[1].draw(N)[0])


def test_an_exact_copy_is_not_given_up_for_a_later_one_that_as_many_want():
    """A member that is behind needs the oldest first."""
    with Jobs(64 * 4096) as place:
        ahead = exact(place, place.attach(1), in_flight=8)
        behind = exact(place, place.attach(2), in_flight=8)
        ahead.draw(16)  # from here on the other is behind
        staged = []
        while len(staged) < 200:
            items = ahead.draw(8)[0]
            commit(ahead, items)
            ahead.done(items)
            staged += (items["target_slot"] != NONE).tolist()
        room = staged.index(False)
        assert 0 < room < 100 and not any(staged[room:]), "the first that there was room for, and no other"
        behind.draw(16)
        assert_served(behind, behind.draw(room)[0])
        assert made(behind.draw(16)[0]), "behind these it makes its own"


def test_of_copies_that_fewer_want_the_newest_goes_first():
    """Those who are behind come to the oldest first."""
    with Jobs(64 * 4096) as place:
        ahead, middle, last = (exact(place, place.attach(1 + k), in_flight=8) for k in range(3))
        ahead.draw(16)
        staged = np.zeros(N, bool)
        while ahead.left > N - 16 - 96:
            items = ahead.draw(8)[0]
            commit(ahead, items)
            ahead.done(items)
            staged[items["sample"]] = items["target_slot"] != NONE
        oldest = np.flatnonzero(staged)
        middle.draw(16)
        served = middle.draw(len(oldest) - len(oldest) % 8)[0]  # from now on the last alone wants these
        assert_served(middle, served)
        middle.done(served)
        middle.draw(0)
        for _ in range(2):
            items = ahead.draw(8)[0]
            commit(ahead, items)
            ahead.done(items)
            assert (items["target_slot"] != NONE).all()
        last.draw(16)
        assert_served(last, last.draw(len(served) - 24)[0])


def test_first_copies_are_held_for_jobs_that_begin_a_moment_later(place):
    """Jobs in step end an epoch together, and one of them is the first to begin the next."""
    others = place.attach(2)
    exact(place, others).close()  # its process takes part in such copies
    first = exact(place, place.attach(1), in_flight=16)
    items = first.draw(16)[0]
    assert (items["target_slot"] != NONE).all(), "though nobody is here"
    commit(first, items)
    second = exact(place, others)
    assert_served(second, second.draw(16)[0])


def test_it_expects_nobody_for_ever(place):
    others = place.attach(2)
    exact(place, others).close()
    first = exact(place, place.attach(1), in_flight=16)
    staged = [(first.draw(16)[0]["target_slot"] != NONE).all() for _ in range(6)]
    assert staged == [True, True, False, False, False, False]
    with Jobs(1 << 20) as empty:
        alone = exact(empty, empty.attach(1), in_flight=16)
        assert set(alone.draw(16)[0]["target_slot"]) == {NONE}


def test_without_the_lock_what_would_be_made_here_is_made_from_storage_and_for_nobody(place, jobs):
    first, second = jobs
    theirs = second.draw(32)[0]
    ours = first.draw(64)[0]
    waits_for, to_come = awaited(ours, COPY), awaited(ours, PEER)
    assert waits_for and to_come

    with open(place.path) as held_by_another:
        fcntl.flock(held_by_another, fcntl.LOCK_EX)
        assert not first.check_awaited(ours)
        assert (awaited(ours, COPY), awaited(ours, PEER)) == (waits_for, to_come)
        assert not first.check_awaited(ours, takes_over=True)
        assert awaited(ours, COPY) == waits_for and awaited(ours, PEER) == set()
        assert to_come <= made(ours)
        assert not first.check_awaited(ours, blamed=ours["peer"][ours["awaited"] == COPY].tolist())
        assert made(ours) == set(range(64))
    commit(second, theirs)
    first.done(ours)
    second.done(theirs)
    first.draw(0)
    assert place.records().seen(first_row(place))[:64].all(), "nor is it wanted from others any more"


def test_a_private_member_makes_all_of_it(place):
    member = exact(place, None)
    items = member.draw(64)[0]
    assert made(items) == set(range(64)) and set(items["target_slot"]) == {NONE}
