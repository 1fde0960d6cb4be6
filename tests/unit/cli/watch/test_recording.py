"""What was seen over time, in few points."""

import itertools

import pytest
from seen_jobs import BEGAN_MS, job, segment, unreadable, work

from seneca.cli.watch.rates import FORMS, RateMeter
from seneca.cli.watch.recording import CAUSES, Recording
from seneca.segments import State

S = 1_000_000_000
FIRST_CAUSE = 1 + len(FORMS)


def recorded(*snapshots, most_points=600):
    """A finished recording of snapshots a second apart, each a list of segments."""
    watch, recording = RateMeter(), Recording(most_points)
    for second, found in enumerate(snapshots):
        recording.add(watch.update(found, BEGAN_MS + second * 1000), float(second))
    recording.finish()
    return recording


def steady(seconds, per_s=100, **changes):
    """Snapshots of a job that gets so many samples/s."""
    return [
        [segment(job(work(BEGAN_MS + s * 1000, s * per_s, prepared=s * per_s // 2, **changes)))]
        for s in range(seconds)
    ]


def test_a_point_has_rates_by_form_and_stalls_by_cause():
    snapshots = [
        [segment(job(work(BEGAN_MS + s * 1000, 100 * s, served={"encoded": 25 * s, "augmented": 75 * s},
                          stall_ns={"decode": s * S // 4, "cores": s * S // 8})))]
        for s in range(3)
    ]  # fmt: skip
    recording = recorded(*snapshots)
    (track,) = recording.jobs.values()
    assert recording.times == [0, 1, 2] and track.points[0] is None
    point = track.points[2]
    assert point[0] == 100 and point[1:FIRST_CAUSE] == (0, 25, 0, 0, 75)
    stalls = dict(zip(CAUSES, point[FIRST_CAUSE:], strict=True))
    assert stalls == dict.fromkeys(CAUSES, 0) | {"decode": 0.25, "cores": 0.125}


def test_memory_is_by_form():
    (track,) = recorded(*steady(2)).caches.values()
    mib = 1 << 20
    assert track.name == "demo" and track.points == [(16 * mib, 0, 16 * mib, 16 * mib, 64 * mib)] * 2


def test_a_job_that_comes_later_has_no_points_before():
    other = segment(job(work(pid=2), key="other"), name="other")
    recording = recorded(*[[other]] * 3, *steady(3))
    (_, track) = recording.jobs.values()
    assert len(track.points) == len(recording.times) == 6
    assert track.points[:3] == [None] * 3 and track.first_s == 3.0


def test_what_was_before_the_first_job_is_left_out():
    recording = recorded([], [segment()], *steady(2))
    assert recording.times == [2.0, 3.0] and recording.seconds == 1.0


def test_a_job_that_has_left_has_no_points_any_more():
    recording = recorded(*steady(3), [segment()], [])
    (track,) = recording.jobs.values()
    assert track.points[3:] == [None, None] and track.last_s == 2.0
    assert recording.seconds == 2.0 and track.last.watched.delivered == 200


def test_an_idle_job_gets_nothing():
    snapshots = steady(2) + [steady(2)[-1]] * 7
    (track,) = recorded(*snapshots).jobs.values()
    assert track.points[6][0] == 100, "it was silent for 5 s only"
    assert track.points[7] == (0.0,) * (FIRST_CAUSE + len(CAUSES))


@pytest.mark.small(2)
@pytest.mark.parametrize("snapshots", [19, 20, 21, 40, 97, 1000])
def test_however_long_it_was_watched_there_are_few_points(snapshots):
    recording = recorded(*steady(snapshots), most_points=10)
    (track,) = recording.jobs.values()
    assert len(recording.times) == len(track.points) <= 20
    assert recording.times == sorted(recording.times) and recording.times[-1] <= snapshots - 1
    gaps = {round(b - a, 6) for a, b in itertools.pairwise(recording.times[:-1])}
    assert len(gaps) == 1, "points are of the same time each, but for the last"
    rates = [point[0] for point in track.points if point is not None]
    assert rates == pytest.approx([100.0] * len(rates)) and len(rates) >= 9


def test_two_points_become_their_mean():
    snapshots = [
        [segment(job(work(BEGAN_MS + s * 1000, s * s * 10)))] for s in range(5)
    ]  # 10, 30, 50, 70 a second
    recording = recorded(*snapshots[1:], most_points=2)
    assert recording.times == [0.5, 2.5]
    (track,) = recording.jobs.values()
    assert [point[0] for point in track.points] == [30.0, 60.0]


def test_the_total_is_of_all_jobs_also_of_those_that_have_left():
    first = [job(work(BEGAN_MS + s * 1000, s * 10, prepared=s * 5), key="a") for s in range(3)]
    second = job(work(BEGAN_MS + 3000, 700, since_ms=BEGAN_MS + 2500, pid=2, prepared=1), key="b")
    recording = recorded(*([segment(one)] for one in first), [segment(second)])
    assert (recording.total.delivered, recording.total.prepared, len(recording.jobs)) == (720, 11, 2)
    assert recording.working


def test_a_job_whose_block_could_not_be_read_last_keeps_its_name():
    recording = recorded(*steady(2), [segment(job(pids=(100,)))])
    (track,) = recording.jobs.values()
    assert track.last.name == "train.py" and track.last.watched.delivered == 100


def test_caches_that_nobody_uses_are_left_out():
    snapshots = [[segment(name="kept", state=State.KEPT), unreadable(), *found] for found in steady(2)]
    assert [track.name for track in recorded(*snapshots).caches.values()] == ["demo"]


def test_where_nobody_got_a_sample_nothing_worked():
    assert not recorded([], []).working
    recording = recorded(*[[segment(job(pids=(4,)))]] * 2)
    assert not recording.working and len(recording.jobs) == 1
