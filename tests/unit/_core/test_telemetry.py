"""What a process tells of its work: what is read from outside is what was written, or nothing."""

import os
import time

import pytest
from engine import Place, Process
from sizes import size

from seneca import errors
from seneca._core.snapshot import snapshot
from seneca._core.telemetry import CAUSES, NAME_BYTES, tell_work

NUMBERS = (
    *("since_ms", "told_ms", "delivered", "prepared", "staged", "skipped", "damaged", "read_bytes"),
    *("epoch", "place", "places", "threads", "batch_size", "rank", "ranks"),
)
FORMS = ("storage", "encoded", "decoded", "augmented")
SNAPSHOTS = size(3000, 30_000)


@pytest.fixture
def place():
    with Place(100) as place:
        yield place


def told(first, name="train.py --lr 0.1", step=1):
    """What a process could tell: each number is another one, from ``first`` on."""
    values = iter(range(first, first + 1000 * step, step) if step else [first] * 1000)
    numbers = {number: next(values) for number in NUMBERS}
    served = {form: next(values) for form in FORMS}
    stall, spent = ({cause: next(values) for cause in CAUSES} for _ in range(2))
    return {"name": name, **numbers, "served": served, "stall_ns": stall, "spent_ns": spent}


def seen(place):
    """What the rows tell, those that tell something, in the order of rows."""
    with open(place.path, "rb") as file:
        return [row[5] for row in snapshot(file.fileno())["rows"] if row[5] is not None]


def test_what_is_told_is_seen(place):
    segment = place.attach()
    member = place.member(segment)
    assert seen(place) == [], "nobody has told anything"
    tell_work(segment, told(2**62))
    assert seen(place) == [told(2**62)]
    tell_work(segment, told(7))
    assert seen(place) == [told(7)]
    member.close()


def test_each_process_tells_of_itself(place):
    one, other = place.attach(1), place.attach(2)
    tell_work(other, told(5000))
    tell_work(one, told(1000))
    assert seen(place) == [told(1000), told(5000)]


def test_a_long_name_is_cut_and_a_strange_one_is_shown(place):
    segment = place.attach()
    tell_work(segment, told(1, "x" * 500))
    assert seen(place)[0]["name"] == "x" * NAME_BYTES
    tell_work(segment, told(1, "\udcff é"))
    assert seen(place)[0]["name"] == "? é"


def test_who_comes_next_into_a_row_has_told_nothing(place):
    first = place.attach(1)
    place.attach(2)
    tell_work(first, told(1))
    place.close(first)
    assert seen(place) == []
    again = place.attach(3)
    assert seen(place) == [], "it has the row of the first"
    tell_work(again, told(9))
    assert seen(place) == [told(9)]


def test_the_dead_tell_nothing(place):
    place.attach(1)

    def tell_and_wait(pipe):
        tell_work(place.attach(2), told(1))
        pipe.send("told")
        pipe.receive(patience_s=None)

    with Process(tell_and_wait) as child:
        child.receive()
        assert seen(place) == [told(1)]
        child.kill()
    assert seen(place) == []


def test_a_forked_child_does_not_tell_in_its_parents_name(place):
    segment = place.attach(1)
    tell_work(segment, told(1))

    def tell(pipe):
        try:
            tell_work(segment, told(500))
        except errors.SegmentError:
            pipe.send("refused")
        else:
            pipe.send("ignored")

    with Process(tell) as child:
        assert child.receive() in ("refused", "ignored")
    assert seen(place) == [told(1)]


def test_who_has_left_cannot_tell(place):
    segment = place.attach(1)
    place.close(segment)
    with pytest.raises(errors.SegmentError):
        tell_work(segment, told(1))


def test_nothing_is_seen_that_was_not_told_at_once(place):
    """A process tells without a pause, each time one number everywhere. No snapshot finds two of them."""
    place.attach(1)

    def tell_on(pipe):
        segment = place.attach(2)
        pipe.send("here")
        n = 1
        while True:
            tell_work(segment, told(n, name=f"{n}", step=0))
            n += 1

    found, snapshots = set(), 0
    with Process(tell_on) as child:
        child.receive()
        while snapshots < SNAPSHOTS or len(found) < SNAPSHOTS / 100:
            snapshots += 1
            for work in seen(place):
                numbers = [work[name] for name in NUMBERS]
                for name in ("served", "stall_ns", "spent_ns"):
                    numbers += work[name].values()
                assert set(numbers) == {int(work["name"])}
                found.add(numbers[0])
        child.kill()


def test_who_is_killed_while_telling_is_not_believed(place):
    """Killed at any moment: the next one in its row tells again."""
    place.attach(1)

    def tell_on(pipe):
        segment = place.attach(2)
        pipe.send("here")
        while True:
            tell_work(segment, told(3, step=0))

    for _ in range(size(20, 200)):
        with Process(tell_on) as child:
            child.receive()
            time.sleep(0.001)
            child.kill()
        assert seen(place) == []
        segment = place.attach(3)
        assert seen(place) == []
        tell_work(segment, told(4))
        assert seen(place) == [told(4)]
        place.close(segment)
    assert os.path.exists(place.path)
