"""What jobs do, from snapshots of what they have published: rates, idleness, counters that begin anew."""

import pytest
from seen_jobs import BEGAN_MS, job, segment, unreadable, work

from seneca.cli.watch.rates import Done, RateMeter, between

S = 1_000_000_000


def snapshots(*found, every_ms=1000, window_s=1.0):
    """The rates of the last of these snapshots: each a list of one segment's jobs, or a tuple of segments."""
    watch = RateMeter(window_s)
    for number, one in enumerate(found):
        seen = watch.update(one if isinstance(one, tuple) else [segment(*one)], BEGAN_MS + number * every_ms)
    return seen


def only_job(*found, **options):
    ((one,),) = [cache.jobs for cache in snapshots(*found, **options)]
    return one


def test_a_rate_is_of_the_time_between_two_updates():
    seen = only_job([job(work(BEGAN_MS - 200, 100))], [job(work(BEGAN_MS + 600, 500))])
    assert seen.samples_per_s == pytest.approx(400 / 0.8)
    assert (seen.total.delivered, seen.done.delivered, seen.silent_s) == (500, 400, 0.4)


def test_before_the_second_update_no_rate_is_known():
    seen = only_job([job(work(BEGAN_MS, 100))], [job(work(BEGAN_MS, 100))])
    assert (seen.samples_per_s, seen.done, seen.idle) == (None, None, False)


def test_a_job_that_has_not_begun_an_epoch_publishes_nothing():
    seen = only_job([job(pids=(7, 8))])
    assert (seen.name, seen.pids, seen.publishing, seen.silent_s) == (None, (7, 8), 0, None)
    assert (seen.samples_per_s, seen.idle, seen.total) == (None, False, Done())


def test_a_batch_that_takes_longer_than_a_snapshot_does_not_make_the_rate_jump():
    """Updates are 3 s apart, snapshots 1 s: each shows the rate of the last three."""
    watch = RateMeter()
    rates = []
    for second in range(9):
        updated = second // 3 * 3
        (cache,) = watch.update(
            [segment(job(work(BEGAN_MS + updated * 1000, updated * 10)))], BEGAN_MS + second * 1000
        )
        rates.append(cache.jobs[0].samples_per_s)
    assert rates == [None] * 3 + [10.0] * 6


def test_a_rate_is_of_the_window_where_updates_are_closer():
    """Snapshots each 100 ms, a window of a second: what was before it does not count."""
    watch = RateMeter(1.0)
    for number in range(30):
        delivered = 0 if number < 15 else (number - 15) * 10
        (cache,) = watch.update(
            [segment(job(work(BEGAN_MS + number * 100, delivered)))], BEGAN_MS + number * 100
        )
    assert cache.jobs[0].samples_per_s == pytest.approx(100)
    assert cache.jobs[0].done.ns == S


def test_a_job_that_is_silent_is_idle_and_its_rate_is_0():
    updates = [[job(work(BEGAN_MS + ms, ms))] for ms in (0, 250, 500)]
    assert not only_job(*updates, updates[-1], every_ms=1800).idle
    seen = only_job(*updates, updates[-1], every_ms=1900)
    assert (seen.idle, seen.samples_per_s, seen.done, seen.silent_s) == (True, 0.0, None, 5.2)


def test_a_job_of_long_batches_is_not_idle_before_three_of_them():
    updates = [[job(work(BEGAN_MS, 0))], [job(work(BEGAN_MS + 10_000, 256))]]
    assert not only_job(*updates, updates[-1], every_ms=20_000).idle
    assert only_job(*updates, updates[-1], every_ms=20_001).idle


def test_the_processes_of_a_job_are_one_row():
    def ranks(ms, first, second):
        return [
            job(
                work(BEGAN_MS + ms, first, pid=1, rank=0, ranks=2, place=first, places=500),
                work(BEGAN_MS + ms, second, pid=2, rank=1, ranks=2, place=second, places=500, threads=3),
            )
        ]

    seen = only_job(ranks(0, 0, 0), ranks(1000, 100, 60))
    assert (seen.samples_per_s, seen.publishing, seen.pids, seen.threads) == (160.0, 2, (1, 2), 4)
    assert (seen.epoch, seen.place, seen.places) == (0, 160, 1000)


def test_a_rank_that_is_an_epoch_ahead_has_completed_this_one():
    ahead = work(epoch=4, place=20, places=500, pid=1)
    seen = only_job([job(ahead, work(epoch=3, place=480, places=500, pid=2, rank=1))])
    assert (seen.epoch, seen.place, seen.places) == (3, 980, 1000)


def test_ranks_that_are_idle_do_not_count_in_the_rates_of_the_others():
    def ranks(ms, delivered):
        return [job(work(BEGAN_MS + ms, delivered, pid=1), work(BEGAN_MS - 9000, 50, pid=2))]

    seen = only_job(ranks(0, 0), ranks(1000, 100))
    assert (seen.idle, seen.samples_per_s, seen.silent_s, seen.total.delivered) == (False, 100.0, 0.0, 150)


def test_the_share_of_the_time_stalled_is_of_all_processes_together():
    def ranks(ms, **stalls):
        return [job(work(BEGAN_MS + ms, ms, pid=1, stall_ns=stalls), work(BEGAN_MS + ms, ms, pid=2, rank=1))]

    seen = only_job(ranks(0), ranks(1000, decode=6 * S // 10, cores=2 * S // 10, other=1))
    assert seen.done.stalled == pytest.approx(0.4)
    assert list(seen.done.stalled_by) == ["decode", "cores", "other"]
    assert seen.done.stalled_by["decode"] == pytest.approx(0.3)


def test_nobody_is_stalled_for_more_than_all_of_the_time():
    """A wait is published with the batch that it was for, maybe an update later."""
    seen = only_job([job(work(BEGAN_MS))], [job(work(BEGAN_MS + 500, 9, stall_ns={"storage": 2 * S}))])
    assert (seen.done.stalled, seen.done.stalled_by) == (1.0, {"storage": 1.0})


def test_served_is_of_what_came_in_the_interval():
    before = work(BEGAN_MS, 100, served={"storage": 100})
    now = work(BEGAN_MS + 1000, 200, served={"storage": 125, "augmented": 75})
    seen = only_job([job(before)], [job(now)])
    assert seen.done.served_shares == {"storage": 0.25, "augmented": 0.75}
    assert between(now, now).served_shares == {}


def test_counters_of_a_process_that_has_begun_anew_count_from_there():
    restarted = work(BEGAN_MS + 900, 30, since_ms=BEGAN_MS + 700)
    seen = only_job([job(work(BEGAN_MS, 5000))], [job(restarted)])
    assert (seen.samples_per_s, seen.total.delivered, seen.watched.delivered) == (None, 30, 30)
    later = work(BEGAN_MS + 1900, 130, since_ms=BEGAN_MS + 700)
    seen = only_job([job(work(BEGAN_MS, 5000))], [job(restarted)], [job(later)])
    assert (seen.samples_per_s, seen.watched.delivered) == (100.0, 130)


def test_counters_that_fall_and_clocks_that_are_set_back_begin_anew():
    for changed in (work(BEGAN_MS + 1000, 3), work(BEGAN_MS - 3000, 700)):
        seen = only_job([job(work(BEGAN_MS, 600))], [job(changed)])
        assert seen.samples_per_s is None
    assert between(work(BEGAN_MS, 600), work(BEGAN_MS - 5000, 500)) == between(work(), work())


def test_jobs_come_and_go_between_snapshots():
    first, second = job(work(BEGAN_MS, 10), key="a"), job(work(BEGAN_MS + 900, 5, pid=200), key="b")
    assert [one.key for one in snapshots([first], [first, second])[0].jobs] == ["a", "b"]
    assert [one.key for one in snapshots([first, second], [second])[0].jobs] == ["b"]
    assert snapshots([first], []) == snapshots([])
    assert snapshots([first], (segment(first),), ()) == []


def test_a_row_that_was_missed_once_goes_on():
    """Its block was written each time that it was read."""
    updates = [[job(work(BEGAN_MS, 0))], [job(pids=(100,))], [job(work(BEGAN_MS + 2000, 100))]]
    seen = only_job(*updates)
    assert (seen.samples_per_s, seen.watched.delivered) == (50.0, 100)


def test_two_rows_of_one_process_from_one_millisecond_are_two():
    def both(ms, one, other):
        return [job(work(BEGAN_MS + ms, one), work(BEGAN_MS + ms, other))]

    seen = only_job(both(0, 500, 0), both(1000, 510, 20))
    assert (seen.publishing, seen.samples_per_s, seen.watched.delivered) == (2, 30.0, 30)


def test_what_was_watched_is_from_the_beginning_of_the_watch():
    old = [job(work(BEGAN_MS + ms, 1000 + ms, since_ms=BEGAN_MS - 60_000), key="a") for ms in (0, 1000)]
    new = [job(work(BEGAN_MS + ms, ms, since_ms=BEGAN_MS + 100, pid=2), key="b") for ms in (900, 1900)]
    jobs = {one.key: one for one in snapshots([old[0]], [old[1], new[0]], [old[1], new[1]])[0].jobs}
    assert jobs["a"].watched.delivered == 1000 and jobs["b"].watched.delivered == 1900


def test_what_a_process_did_before_it_was_seen_first_is_not_watched():
    """It began before the watch, and the first snapshot missed it."""
    late = [[job(work(BEGAN_MS + ms, 700 + ms, since_ms=BEGAN_MS - 1))] for ms in (900, 1900)]
    assert only_job([], *late).watched.delivered == 1000


def test_sharing_is_of_all_jobs_of_a_cache():
    first = job(work(BEGAN_MS, 300, prepared=100), key="a")
    second = job(work(BEGAN_MS, 300, prepared=200, pid=2), key="b")
    (cache,) = snapshots([first, second])
    assert cache.deliveries_per_preparation == 2.0
    (cache,) = snapshots([job(work(BEGAN_MS, 300))])
    assert cache.deliveries_per_preparation is None, "nobody prepared"


def test_the_same_job_in_two_caches_is_two():
    found = [
        (segment(job(work(BEGAN_MS + ms, ms)), name="a"), segment(job(work(BEGAN_MS + ms, 2 * ms)), name="b"))
        for ms in (0, 1000)
    ]
    assert [cache.jobs[0].samples_per_s for cache in snapshots(*found)] == [1000.0, 2000.0]


def test_what_cannot_be_read_has_no_jobs():
    (cache,) = snapshots((unreadable(),))
    assert (cache.segment.why, cache.jobs, cache.total) == ("another user's", (), Done())
