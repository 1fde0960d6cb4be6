"""What a process publishes of its work: what is read from outside is what was written, or nothing."""

import os
import time

import pytest
from engine import Place, Process
from sizes import size

from seneca import errors
from seneca._core.segment import KEEP_FOREVER
from seneca._core.snapshot import snapshot
from seneca._core.telemetry import CAUSES, NAME_BYTES, publish_work

NUMBERS = (
    *("since_ms", "published_ms", "delivered", "prepared", "staged", "skipped", "damaged", "read_bytes"),
    *("epoch", "place", "places", "threads", "batch_size", "rank", "ranks"),
)
FORMS = ("storage", "encoded", "recoded", "decoded", "augmented")
UNRECODED = ("kind", "damaged", "large")
SNAPSHOTS = size(1000, 30_000)


@pytest.fixture
def place():
    with Place(100) as place:
        yield place


def work_from(first, name="train.py --lr 0.1", step=1, dataset="photos"):
    """What a process could publish: each number is another one, from ``first`` on."""
    values = iter(range(first, first + 1000 * step, step) if step else [first] * 1000)
    numbers = {number: next(values) for number in NUMBERS}
    served = {form: next(values) for form in FORMS}
    unrecoded = {why: next(values) for why in UNRECODED}
    stall, spent = ({cause: next(values) for cause in CAUSES} for _ in range(2))
    counts = {"served": served, "unrecoded": unrecoded, "stall_ns": stall, "spent_ns": spent}
    return {"name": name, "dataset": dataset, **numbers, **counts}


def seen(place):
    """What the rows publish, those that publish something, in the order of rows."""
    with open(place.path, "rb") as file:
        return [row[5] for row in snapshot(file.fileno())["rows"] if row[5] is not None]


def test_what_is_published_is_seen(place):
    segment = place.attach()
    member = place.member(segment)
    assert seen(place) == [], "nobody has published anything"
    publish_work(segment, work_from(2**62))
    assert seen(place) == [work_from(2**62)]
    publish_work(segment, work_from(7))
    assert seen(place) == [work_from(7)]
    member.close()


def test_each_process_publishes_its_own_work(place):
    one, other = place.attach(1), place.attach(2)
    publish_work(other, work_from(5000))
    publish_work(one, work_from(1000))
    assert seen(place) == [work_from(1000), work_from(5000)]


def test_a_long_name_is_cut_and_a_strange_one_is_shown(place):
    segment = place.attach()
    publish_work(segment, work_from(1, "x" * 500))
    assert seen(place)[0]["name"] == "x" * NAME_BYTES
    publish_work(segment, work_from(1, "\udcff é"))
    assert seen(place)[0]["name"] == "? é"


def dataset_of(place):
    with open(place.path, "rb") as file:
        return snapshot(file.fileno())["dataset"]


def test_the_dataset_is_named_also_once_all_have_left():
    with Place(100, keep=KEEP_FOREVER) as place:
        one, other = place.attach(1), place.attach(2)
        publish_work(one, work_from(1, dataset=""))
        assert dataset_of(place) == ""
        publish_work(one, work_from(100, dataset="photos"))
        publish_work(other, work_from(50, dataset="an older name"))
        assert dataset_of(place) == "photos", "it was published last"
        place.close(one)
        place.close(other)
        assert seen(place) == [] and dataset_of(place) == "photos"
        place.attach(3)
        assert dataset_of(place) == "photos", "who has not begun takes nothing from it"
        os.unlink(place.path)


def test_the_name_of_a_dataset_is_cut_and_a_strange_one_is_shown(place):
    segment = place.attach()
    publish_work(segment, work_from(1, dataset="x" * 500))
    assert seen(place)[0]["dataset"] == dataset_of(place) == "x" * 63
    publish_work(segment, work_from(2, dataset="\udcff é"))
    assert seen(place)[0]["dataset"] == dataset_of(place) == "? é"


def test_who_comes_next_into_a_row_has_published_nothing(place):
    first = place.attach(1)
    place.attach(2)
    publish_work(first, work_from(1))
    place.close(first)
    assert seen(place) == []
    again = place.attach(3)
    assert seen(place) == [], "it has the row of the first"
    publish_work(again, work_from(9))
    assert seen(place) == [work_from(9)]


def test_the_dead_publish_nothing(place):
    place.attach(1)

    def publish_and_wait(pipe):
        publish_work(place.attach(2), work_from(1))
        pipe.send("published")
        pipe.receive(patience_s=None)

    with Process(publish_and_wait) as child:
        child.receive()
        assert seen(place) == [work_from(1)]
        child.kill()
    assert seen(place) == []


def test_a_forked_child_does_not_publish_in_its_parents_name(place):
    segment = place.attach(1)
    publish_work(segment, work_from(1))

    def publish(pipe):
        try:
            publish_work(segment, work_from(500))
        except errors.SegmentError:
            pipe.send("refused")
        else:
            pipe.send("ignored")

    with Process(publish) as child:
        assert child.receive() in ("refused", "ignored")
    assert seen(place) == [work_from(1)]


def test_who_has_left_cannot_publish(place):
    segment = place.attach(1)
    place.close(segment)
    with pytest.raises(errors.SegmentError):
        publish_work(segment, work_from(1))


def test_nothing_is_seen_that_was_not_published_at_once(place):
    """A process publishes without a pause, each time one number everywhere. No snapshot finds two of them."""
    place.attach(1)

    def publish_on(pipe):
        segment = place.attach(2)
        pipe.send("here")
        n = 1
        while True:
            publish_work(segment, work_from(n, name=f"{n}", step=0))
            n += 1

    found, snapshots = set(), 0
    with Process(publish_on) as child:
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


def test_who_is_killed_while_publishing_is_not_believed(place):
    """Killed at any moment: the next one in its row publishes again."""
    place.attach(1)

    def publish_on(pipe):
        segment = place.attach(2)
        pipe.send("here")
        while True:
            publish_work(segment, work_from(3, step=0))

    for _ in range(size(8, 200)):
        with Process(publish_on) as child:
            child.receive()
            time.sleep(0.001)
            child.kill()
        assert seen(place) == []
        segment = place.attach(3)
        assert seen(place) == []
        publish_work(segment, work_from(4))
        assert seen(place) == [work_from(4)]
        place.close(segment)
    assert os.path.exists(place.path)
