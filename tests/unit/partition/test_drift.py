"""When the split of a cache is changed, and what for."""

from __future__ import annotations

import dataclasses

import pytest
from profiles import RECODED, round_profile

from seneca.partition import (
    ALONE,
    Adaptation,
    Cost,
    Hosts,
    Jobs,
    Reading,
    Seen,
    Size,
    Spent,
    Split,
    profile_of,
    solve,
)
from seneca.partition import drift as decision

ONE, TWO = Jobs(1), Jobs(2)


def spent(read_s=None, *, times=100, read_bytes=97_952, **cpu_s):
    """So many of what took so long each, as ``prepare_s=1e-3``; None: none of it."""
    seconds = (read_s, *(cpu_s.pop(f"{stage}_s", None) for stage in decision.CPU_STAGES))
    assert not cpu_s
    return Spent(
        tuple(times if one is not None else 0 for one in seconds),
        tuple(times * (one or 0.0) for one in seconds),
        0 if read_s is None else times * read_bytes,
        0,
    )


def seen(jobs=ONE, what=None, *, seconds=2.0, cold=None, free=5_000_000_000):
    return Seen(jobs, what or Spent(), seconds, cold, free)


def chosen(profile, jobs=ONE):
    return Adaptation(profile, jobs), solve(profile, jobs).split


# --- the decision


def test_where_all_is_as_it_was_nothing_is_changed():
    profile = round_profile()
    adaptation, split = chosen(profile)
    as_measured = spent(prepare_s=profile.prepare.all_s, augment_s=profile.augment.all_s)
    for now in range(0, 1000, 100):
        assert adaptation.consider(now, split, seen(what=as_measured)) is None
    assert adaptation.consider(1000, Split(1, 0, 0), seen(what=as_measured)) is None, (
        "though it is not the best"
    )


@pytest.mark.parametrize(
    ("times_as_long", "changes"), [(1.2, False), (0.85, False), (1.3, True), (0.7, True)]
)
def test_a_rate_that_parts_by_more_than_a_quarter_is_a_reason(times_as_long, changes):
    profile = round_profile()
    adaptation = Adaptation(profile, ONE)
    bad = Split(0, 0, 1)  # anything else is worth it
    change = adaptation.consider(0, bad, seen(what=spent(prepare_s=times_as_long * profile.prepare.all_s)))
    assert (change is not None) == changes
    if change:
        assert f"to prepare takes {1.6 * times_as_long:.3g} ms in place of 1.6" in change.why


def test_what_was_seen_too_seldom_is_no_rate():
    profile = round_profile()
    seldom = spent(prepare_s=10 * profile.prepare.all_s, times=decision.ENOUGH - 1)
    assert Adaptation(profile, ONE).consider(0, Split(0, 0, 1), seen(what=seldom)) is None


def test_costs_that_were_not_seen_part_with_those_that_were():
    profile = round_profile()
    found = decision.corrected(profile, seen(what=spent(augment_s=2 * profile.augment.all_s)))
    assert found.prepare.all_s == pytest.approx(2 * profile.prepare.all_s)
    assert found.augment.one_s == pytest.approx(2 * profile.augment.one_s)
    assert found.storage == profile.storage


def test_a_redraw_that_takes_longer_is_a_reason_and_changes_the_other_costs():
    profile = round_profile(**RECODED)
    slow = seen(what=spent(redraw_s=2 * profile.redraw.all_s))
    found = decision.corrected(profile, slow)
    assert found.redraw == Cost(pytest.approx(6e-4), pytest.approx(1e-3))
    assert found.prepare.all_s == pytest.approx(2 * profile.prepare.all_s)
    assert found.recode.all_s == pytest.approx(2 * profile.recode.all_s)
    assert (found.recodable, found.recoded) == (profile.recodable, profile.recoded)
    alone = dataclasses.replace(profile, redraw=found.redraw)
    assert decision._reasons(profile, alone, ONE, ONE) == ["to redraw takes 1 ms in place of 0.5"]
    change = Adaptation(profile, ONE).consider(0, Split(0, 0, 1), slow)
    assert change.split == solve(found, ONE).split


def test_a_redraw_changes_with_what_was_seen():
    profile = round_profile(**RECODED)
    found = decision.corrected(profile, seen(what=spent(prepare_s=3 * profile.prepare.all_s)))
    assert found.redraw.all_s == pytest.approx(3 * profile.redraw.all_s)
    none = round_profile()
    slow = decision.corrected(none, seen(what=spent(prepare_s=3 * none.prepare.all_s)))
    assert (slow.redraw, slow.recodable) == (none.redraw, 0.0)


def test_to_recode_is_no_reason_and_not_waited_for():
    profile = round_profile(**RECODED)
    dear = dataclasses.replace(profile, recode=Cost(1.0, 1.0))
    assert decision._reasons(profile, dear, ONE, ONE) == []
    often, seldom = decision.ENOUGH, decision.ENOUGH - 1
    assert Spent((often, often, 0, 0, 1, often)).has_enough_measurements
    assert not Spent((often, often, 0, 0, often, seldom)).has_enough_measurements
    assert not Spent().has_enough_measurements


def test_what_was_spent_is_added_and_subtracted_stage_by_stage():
    one, more = Spent((1, 2, 3, 4, 5, 6), (0.5,) * 6), Spent((6, 5, 4, 3, 2, 1), (0.25,) * 6, 7)
    assert one.plus(more) == Spent((7,) * 6, (0.75,) * 6, 7)
    assert one.plus(more).since(one) == more
    assert Spent((100,) * 6, (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)).mean_s("redraw") == pytest.approx(0.06)


@pytest.mark.parametrize(("before", "now"), [(ONE, TWO), (TWO, ONE)])
def test_jobs_that_join_or_leave_are_a_reason(before, now):
    change = Adaptation(round_profile(), before).consider(0, Split(0, 0, 1), seen(now))
    assert change is not None
    assert change.why.startswith(
        f"{now.count} job{'s' if now.count > 1 else ''} in place of {before.count}: "
    )
    assert change.split == solve(round_profile(), now).split


def test_the_pace_of_a_step_is_a_reason():
    adaptation = Adaptation(round_profile(), Jobs(1, step_per_s=1000))
    assert adaptation.consider(0, Split(0, 0, 1), seen(Jobs(1, step_per_s=900))) is None
    change = adaptation.consider(0, Split(0, 0, 1), seen(Jobs(1, step_per_s=2000)))
    assert change.why.startswith("a job's step takes 2,000 samples/s in place of 1,000: ")


def test_reasons_are_written_as_people_do():
    """Neither inf nor a power of ten."""
    split, halved = Split(0, 0, 1), round_profile().with_storage(2e9)
    limited = Adaptation(round_profile(), Jobs(1, step_per_s=500)).consider(0, split, seen(ONE))
    assert limited.why.startswith("a job's step takes any samples/s in place of 500: ")
    [reason] = decision._reasons(halved, halved.with_storage(1.2e9), ONE, ONE)
    assert reason == "storage gives 1,200 MB/s in place of 2,000"
    slow = dataclasses.replace(halved, prepare=Cost(1.5, 1.5))
    [reason] = decision._reasons(halved, slow, ONE, ONE)
    assert reason == "to prepare takes 1,500 ms in place of 1.6"


def test_a_gain_of_a_few_per_cent_is_not_worth_a_change():
    profile = round_profile()
    best = solve(profile, TWO).split
    near = Split(best.encoded - 0.01, best.decoded + 0.01, best.augmented)
    adaptation = Adaptation(profile, ONE)
    assert adaptation.consider(0, near, seen(TWO)) is None
    assert adaptation.consider(100, Split(0, 0, 1), seen(TWO)) is None, "that was examined"


def test_changes_keep_their_distance_and_the_reason_is_not_forgotten():
    adaptation = Adaptation(round_profile(), ONE)
    bad = Split(0, 0, 1)
    assert adaptation.consider(100.0, bad, seen(TWO)) is not None
    soon = 100.0 + decision.CHANGE_EVERY_S - 0.1
    # Somebody has undone it, which is a change as well; and two jobs have become three.
    assert adaptation.consider(soon, bad, seen(Jobs(3))) is None
    assert adaptation.consider(soon + decision.CHANGE_EVERY_S - 0.1, bad, seen(Jobs(3))) is None
    assert adaptation.consider(soon + decision.CHANGE_EVERY_S, bad, seen(Jobs(3))) is not None


def test_a_change_that_could_not_be_made_is_looked_for_again():
    adaptation, bad = Adaptation(round_profile(), ONE), Split(0, 0, 1)
    change = adaptation.consider(100.0, bad, seen(TWO))
    adaptation.failed(change)
    assert adaptation.consider(100.1, bad, seen(TWO)) is None
    again = adaptation.consider(100.0 + decision.CHANGE_EVERY_S, bad, seen(TWO))
    assert again == change
    assert adaptation.consider(200.0, again.split, seen(TWO)) is None, "it was made"


def test_who_does_not_decide_follows_the_jobs():
    adaptation = Adaptation(round_profile(), ONE)
    adaptation.follow(-100.0, Split(0, 0, 1), TWO)
    assert adaptation.consider(0, Split(0, 0, 1), seen(TWO)) is None
    assert adaptation.consider(0, Split(0, 0, 1), seen(ONE)).why.startswith("1 job in place of 2")


def test_who_takes_over_keeps_its_distance_from_the_changes_of_others():
    adaptation, bad = Adaptation(round_profile(), TWO), Split(0, 0, 1)
    adaptation.follow(0.0, Split(1, 0, 0), TWO)
    adaptation.follow(100.0, bad, TWO)
    assert adaptation.consider(100.0 + decision.CHANGE_EVERY_S - 0.1, bad, seen(ONE)) is None
    assert adaptation.consider(100.0 + decision.CHANGE_EVERY_S, bad, seen(ONE)) is not None


def test_reads_that_take_longer_slow_storage_for_as_many_readers():
    profile = round_profile()
    # 100 reads of 40 ms in 2 s: two at a time; by the profile two readers have 35 MB/s, 5.6 ms a file.
    found = decision.corrected(profile, seen(what=spent(read_s=0.04), cold=1.0))
    assert found.storage_at(2) == pytest.approx(2 * 97_952 / 0.04)
    assert found.storage[0].latency_s == pytest.approx(
        profile.storage[0].latency_s * 0.04 * 35e6 / 2 / 97_952
    )
    assert found.free_memory_bytes == profile.cache_bytes, "what was said to be free"


def test_what_the_page_cache_served_says_nothing_of_storage():
    profile = round_profile(free_memory_bytes=20_000_000_000)
    found = decision.corrected(profile, seen(what=spent(read_s=1e-4), cold=0.0, free=20_000_000_000))
    assert found == profile
    half = spent(read_s=0.5 * 1e-4 + 0.5 * 0.02)  # half of it from memory, half in 20 ms
    found = decision.corrected(profile, seen(what=half, cold=0.5, free=20_000_000_000))
    assert found.storage_at(1) == pytest.approx(97_952 / 0.02)


def test_slow_reads_that_the_kernel_knows_nothing_of_are_not_helped_by_its_page_cache():
    profile = round_profile(free_memory_bytes=20_000_000_000)
    assert solve(profile).page_cache == 1
    slow = seen(what=spent(read_s=0.05), cold=0.0, free=20_000_000_000)
    found = decision.corrected(profile, slow)
    assert found.free_memory_bytes == found.cache_bytes
    change = Adaptation(profile, ONE).consider(0, solve(profile).split, slow)
    assert "storage gives" in change.why
    assert change.split.encoded > solve(profile).split.encoded


def from_servers(hits, reads=0, *, kept=0, hit_s=1e-4):
    """So many files that servers had, and so many that storage had, of which servers have kept some."""
    return Spent((reads, 0, 0, 0, 0, 0), from_servers=hits, from_servers_s=hits * hit_s, to_servers=kept)


def test_where_servers_have_the_files_memory_is_for_decoded_samples_and_where_they_fail_for_files():
    profile = round_profile()
    adaptation, alone = chosen(profile)
    assert alone.encoded > 0.9, "storage is slow"
    change = adaptation.consider(0, alone, seen(what=from_servers(500)))
    assert "servers have 100% of the files in place of 0%" in change.why
    assert change.split == Split(0, 1, 0)
    assert adaptation.consider(100, change.split, seen(what=from_servers(500))) is None
    assert adaptation.consider(200, change.split, seen(what=spent(augment_s=4e-4))) is None, "none was needed"
    back = adaptation.consider(300, change.split, seen(what=from_servers(0, 500)))
    assert "servers have 0% of the files in place of 100%" in back.why
    assert back.split == alone


def test_the_last_files_that_servers_lacked_are_news_because_slow_storage_had_to_give_them():
    adaptation, alone = chosen(round_profile(storage=(Reading(1, 1e7, 0.01),)))
    assert adaptation.consider(0, alone, seen(what=from_servers(4600, 400))) is None, "it is no better yet"
    assert adaptation.consider(100, alone, seen(what=from_servers(4575, 425))) is None, "91.5%"
    change = adaptation.consider(200, alone, seen(what=from_servers(5000)))
    assert "servers have 100% of the files in place of 92%" in change.why
    assert change.split == Split(0, 1, 0)


def test_files_that_servers_have_kept_count_before_they_are_needed_again():
    adaptation, alone = chosen(round_profile())
    assert adaptation.consider(0, alone, seen(what=from_servers(0, 500))) is None
    change = adaptation.consider(100, alone, seen(what=from_servers(0, 500, kept=500)))
    assert change.split == Split(0, 1, 0)


def test_a_network_that_is_slower_than_storage_moves_nothing():
    adaptation, alone = chosen(round_profile())
    slow = from_servers(100, hit_s=0.02)  # by 5 MB/s
    assert adaptation.consider(0, alone, seen(what=slow)) is None
    faster = adaptation.consider(100, alone, seen(what=from_servers(500)))
    assert "servers give 980 MB/s in place of 4.9" in faster.why


def test_what_servers_give():
    profile = round_profile()

    def found(what, before=ALONE, jobs=ONE):
        return decision.servers_of(before, profile, seen(jobs, what))

    files = profile.samples * profile.encoded.mean_bytes
    some = found(from_servers(75, 25))
    assert (some.served(files), some.elsewhere) == (pytest.approx(0.75), 1.0)
    assert some.nic_bytes_per_s == pytest.approx(97_952 / 1e-4), "to one that asks without a pause"
    # Two jobs, each with 4 threads that wait for servers all the time: 400 files in 2 s.
    assert found(from_servers(400, hit_s=0.02), jobs=TWO).nic_bytes_per_s == pytest.approx(400 * 97_952)
    assert found(from_servers(30, 30), before=some) == some, "too few to know"
    assert found(from_servers(0, 100), before=some) == ALONE
    kept = found(from_servers(0, 100, kept=150), before=some)
    assert (kept.served(files), kept.nic_bytes_per_s) == (1.0, some.nic_bytes_per_s)
    assert found(from_servers(0, 100, kept=50)) == Hosts(remote_bytes=round(files / 2), are_apart=True)


def test_a_profile_is_made_of_what_was_seen():
    what = Spent((100, 80, 80, 120, 0, 0), (10.0, 0.8, 0.4, 0.24, 0.0, 0.0), 100 * 1000, 80 * 5000)
    known = {"samples": 1000, "cores": 2, "cache_bytes": 10**6, "decoded_bytes": 0.0, "copy_bytes": 3000}
    found = profile_of(seen(what=what, free=10**9), **known)
    assert (found.encoded, found.decoded, found.augmented) == (Size(1000.0), Size(5000.0), Size(3000))
    assert (found.prepare.all_s, found.augment.all_s) == (pytest.approx(0.01), pytest.approx(0.002))
    assert found.storage == (Reading(5, pytest.approx(5 * 1000 / 0.1), pytest.approx(0.1)),)
    assert found.recodable == 0, "what Python prepares is never RECODED"
    never = Spent((100, 80, 80, 0, 0, 0), (10.0, 0.8, 0.4, 0.0, 0.0, 0.0), 100 * 1000, 80 * 5000)
    assert profile_of(seen(what=never), **known) is None, "nothing was augmented yet"
