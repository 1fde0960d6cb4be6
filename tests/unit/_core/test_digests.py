"""What jobs compare, seen from Python: processes that meet in one table. Its rules: tests/c."""

import numpy as np
import pytest
from engine import Place, Process

from seneca import errors
from seneca._core.digests import CHANGED, DIFFERS, EQUAL, NEW, OWN, Digests, compared, mark_words
from seneca._core.snapshot import snapshot
from seneca.forms import Form

N, KIND = 200, 77


@pytest.fixture
def place():
    with Place(N) as place:
        yield place


def table(segment, kind=KIND, shape="float32[3]"):
    return Digests(segment, kind, Form.DECODED, shape, np.zeros(mark_words(N), np.uint64))


def test_two_jobs_compare_what_they_make(place):
    first, second = (table(place.attach(job_key=key)) for key in (1, 2))
    assert first.meet(5, 1 << 20, False) == NEW
    assert first.meet(5, 1 << 20, False) == OWN
    assert second.meet(5, 1 << 20, False) == EQUAL
    assert second.meet(5, 1 << 40, False) == DIFFERS and first.meet(5, 1 << 40, False) == CHANGED
    assert (first.compared, second.compared) == (1, 1)
    assert first.is_marked(5) and not first.is_marked(6)
    assert second.maker(5) == 1 and second.have_company and second.shape == "float32[3]"


def test_a_payload_is_vouched_for_only_if_it_is_what_was_made(place):
    one = table(place.attach())
    one.meet(5, 1 << 20, False)
    assert one.vouch(5, 1 << 20) and not one.vouch(5, 1 << 40) and not one.vouch(6, 1 << 20)


def test_kinds_do_not_meet(place):
    segment = place.attach()
    assert table(segment).meet(5, 1 << 20, False) == NEW
    assert table(segment, kind=KIND + 1).meet(5, 1 << 40, False) == NEW


def of_another_job(pipe, place, digest):
    segment = place.attach(job_key=2)
    pipe.send(table(segment).meet(5, digest, False))
    pipe.receive()


@pytest.mark.small(1)
@pytest.mark.parametrize("kill", [False, True])
def test_what_was_made_outlives_who_made_it(place, kill):
    here = place.attach()
    with Process(of_another_job, place, 1 << 20) as other:
        assert other.receive() == NEW
        if kill:
            other.kill()
        else:
            other.send("end")
            other.join()
    assert table(here).meet(5, 1 << 20, False) == EQUAL


def test_a_snapshot_from_outside_counts_the_same(place):
    segments = [place.attach(job_key=key) for key in (1, 2)]
    tables = [table(segment) for segment in segments]
    for sample in range(30):
        for one in tables:
            one.meet(sample, 1 << 20, False)
    with open(place.path, "rb") as file:
        assert snapshot(file.fileno())["compared"] == {1: {"decoded": 30}, 2: {"decoded": 30}}
    assert compared(segments[0], KIND) == 30 and compared(segments[0], KIND + 1) == 0


def test_marks_of_another_size_are_refused(place):
    with pytest.raises(ValueError, match="marks"):
        Digests(place.attach(), KIND, Form.DECODED, "", np.zeros(1, np.uint64))


def test_a_segment_that_is_closed_has_none(place):
    segment = place.attach()
    segment.close()
    with pytest.raises(errors.SegmentError):
        table(segment)
