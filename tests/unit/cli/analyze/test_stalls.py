"""Rates of a loader, the causes of its stalls, and what would remove them."""

import dataclasses

import numpy as np
import pytest
from traced import batches, epochs, steps

from seneca.cli.analyze.stalls import Rates, late_ranks, rates_of, remedies, stalls, waited_amid

RATES = Rates(
    steps=100,
    samples=8,
    seconds=10.0,
    first_s=1.0,
    wait_s=0.0,
    short_wait_s=0.0,
    compute_s=0.01,
    compute_cpu_s=0.0,
    cpu_s=0.0,
    blocked_s=0.0,
    delay_s=0.0,
    read_bytes=0.0,
    workers=1,
    cores=4,
)


def rates(**changed):
    return dataclasses.replace(RATES, **changed)


def shares(found):
    return pytest.approx((found.compute, found.fetch, found.prep, found.cores))


def test_the_first_step_of_an_epoch_and_what_follows_the_last_are_left_out():
    made = batches(4, 0.02, blocked=0.03, delay=0.01)
    found = rates_of(
        epochs(steps([5.0, 0.1, 0.3], 0.2, cpu=0.05), steps([7.0, 0.2], 0.2), made=made), cores=2
    )
    assert (found.steps, found.first_s) == (3, 6.0)
    assert (found.wait_s, found.short_wait_s) == pytest.approx((0.2, 0.15))
    assert found.compute_s == pytest.approx(0.2)
    assert found.seconds == pytest.approx(1.2)
    assert found.compute_cpu_s == pytest.approx(0.1 / 3)
    assert (found.cpu_s, found.blocked_s, found.delay_s) == pytest.approx((0.02, 0.03, 0.01))
    assert (found.samples, found.workers) == (4, 1)
    assert found.samples_per_s == pytest.approx(10)


def test_one_step_an_epoch_says_nothing():
    assert rates_of(epochs(steps([5.0], 0.2), steps([5.0], 0.2)), cores=2) is None
    assert rates_of(epochs(), cores=2) is None


def test_an_epoch_of_one_batch_says_nothing_though_the_loop_asks_for_a_second():
    asked_twice = steps([5.0, 0.1], 0.2)
    asked_twice["samples"][-1] = 0
    assert rates_of(epochs(asked_twice), cores=2) is None
    two_batches = steps([5.0, 0.3, 0.1], 0.2)
    two_batches["samples"][-1] = 0
    found = rates_of(epochs(asked_twice, two_batches), cores=2)
    assert (found.steps, found.seconds) == (2, pytest.approx(0.8))


def test_one_worker_is_no_workers():
    found = remedies(rates(workers=0, cpu_s=0.01, wait_s=0.01, compute_s=0.01))
    assert found[0].what == "1 worker instead of 0"


def test_with_a_gpu_its_idle_time_counts():
    one = epochs(steps([0.0, 0.9, 0.9], 0.1))
    one.idle = [steps([0.0, 0.2, 0.4], 0.7)]
    found = rates_of(one, cores=2)
    assert (found.wait_s, found.short_wait_s) == pytest.approx((0.3, 0.25))
    assert found.step_s == pytest.approx(1.0)


def test_waiting_for_threads_of_its_own_is_no_waiting_for_storage():
    found = rates_of(epochs(steps([0.1, 0.1], 0.1), made=batches(2, 0.01, others=0.05)), cores=8)
    assert (found.cpu_s, found.blocked_s) == pytest.approx((0.06, 0.0))


def test_without_workers_each_part_is_what_was_measured():
    found = stalls(rates(workers=0, wait_s=0.06, compute_s=0.04, cpu_s=0.01, blocked_s=0.04, delay_s=0.01))
    assert shares(found) == (0.4, 0.4, 0.1, 0.1)
    assert found.bottleneck == "fetch"


@pytest.mark.parametrize(
    ("measured", "wanted", "bottleneck"),
    [
        # Preparing alone takes 0.05 of a worker, and reading 0.15 more; computing takes 0.01.
        ({"wait_s": 0.19, "cpu_s": 0.05, "blocked_s": 0.15}, (0.05, 0.75, 0.2, 0.0), "fetch"),
        # Two workers read while the step computes: only preparing is slower.
        ({"wait_s": 0.01, "cpu_s": 0.04, "workers": 2}, (0.5, 0.0, 0.5, 0.0), "prep"),
        # Eight workers on four cores.
        ({"wait_s": 0.04, "cpu_s": 0.2, "workers": 8}, (0.2, 0.0, 0.3, 0.5), "cores"),
        # The step takes cores too.
        ({"wait_s": 0.01, "cpu_s": 0.04, "compute_cpu_s": 0.04, "workers": 4}, (0.5, 0.0, 0.0, 0.5), "cores"),
        # Others take the cores.
        ({"wait_s": 0.01, "cpu_s": 0.01, "delay_s": 0.01}, (0.5, 0.0, 0.0, 0.5), "cores"),
        ({"wait_s": 0.0001, "cpu_s": 0.005}, (0.990099, 0.0, 0.00990099, 0.0), "compute"),
    ],
)
def test_the_wait_is_divided_as_ds_analyzer_does(measured, wanted, bottleneck):
    found = stalls(rates(**measured))
    assert shares(found) == wanted
    assert found.bottleneck == bottleneck


def test_to_get_batches_that_are_ready_is_no_stall():
    found = stalls(rates(wait_s=0.01, short_wait_s=0.01, cpu_s=0.002, blocked_s=0.006))
    assert shares(found) == (0.5, 0.0, 0.0, 0.0)
    assert found.handover == pytest.approx(0.5)
    assert (found.waited, found.bottleneck) == (pytest.approx(0.5), "handover")
    found = stalls(rates(wait_s=0.0009, short_wait_s=0.0009, cpu_s=0.002, blocked_s=0.006))
    assert (found.handover, found.bottleneck) == (pytest.approx(0.08, abs=0.01), "compute")


def test_batches_that_come_in_time_by_the_mean_alone_are_waited_for_as_they_are_made():
    found = stalls(rates(wait_s=0.01, short_wait_s=0.002, cpu_s=0.002, blocked_s=0.006))
    assert shares(found) == (0.5, 0.3, 0.1, 0.0)
    assert found.handover == pytest.approx(0.1)
    assert found.bottleneck == "fetch"
    found = stalls(rates(wait_s=0.0018, short_wait_s=0.001, cpu_s=0.008))
    assert (found.prep, found.handover) == pytest.approx((0.068, 0.085), abs=0.001)
    assert found.bottleneck == "prep", "a handover of less than a tenth is not named"


def test_of_batches_that_nobody_saw_nothing_is_handover():
    found = stalls(rates(wait_s=0.01, short_wait_s=0.01))
    assert shares(found) == (0.5, 0.0, 0.5, 0.0)
    assert found.handover == 0.0


def test_what_a_hypervisor_takes_is_no_waiting_for_storage():
    one = epochs(steps([0.1, 0.1], 0.1), made=batches(2, 0.03, blocked=0.04))
    found = rates_of(one, cores=2, stolen=0.25)
    assert (found.cpu_s, found.blocked_s, found.delay_s) == pytest.approx((0.03, 0.03, 0.01))
    found = rates_of(one, cores=2, stolen=0.75)
    assert (found.cpu_s, found.blocked_s, found.delay_s) == pytest.approx((0.03, 0.0, 0.04))


def test_a_loader_that_reports_its_causes_is_believed():
    one = epochs(steps([0.1, 0.1, 0.1], 0.1))
    one.causes = {"storage": 1.0, "decode": 2.0, "batch": 1.0, "other": 5.0}
    assert shares(stalls(rates_of(one, cores=2))) == (0.5, 0.125, 0.375, 0.0)


def gains(found):
    return {remedy.what: pytest.approx(remedy.removes, abs=0.001) for remedy in remedies(found)}


def test_more_workers_help_until_the_step_or_the_cores_are_the_limit():
    waits = rates(wait_s=0.03, compute_s=0.01, cpu_s=0.01, blocked_s=0.03)
    assert gains(waits) == {
        "4 workers instead of 1": 0.75,
        "reading from memory instead of storage": 0.75,
    }
    few_cores = dataclasses.replace(waits, cores=0.5)
    assert gains(few_cores) == {
        "2 workers instead of 1": 0.5,
        "reading from memory instead of storage": 0.5,
    }
    many = rates(wait_s=0.1, compute_s=0.01, cpu_s=0.0, blocked_s=110.0, workers=1000)
    assert "1001 workers instead of 1000" not in gains(many)


def test_where_the_cores_are_used_up_only_cores_help():
    found = gains(rates(wait_s=0.03, compute_s=0.01, cpu_s=0.08, delay_s=0.08, workers=4, cores=4))
    assert found == {"twice as many cores": 0.5}


def test_no_more_workers_than_cores_are_proposed_unless_they_wait_for_storage():
    slow = {"wait_s": 0.9, "compute_s": 0.01, "cores": 2}
    assert gains(rates(**slow, cpu_s=0.91))["2 workers instead of 1"] == pytest.approx(0.5, abs=0.01)
    assert not any("workers" in what for what in gains(rates(**slow, cpu_s=1.82, workers=2)))
    busy = gains(rates(**slow, cpu_s=0.5, delay_s=0.41))
    assert set(busy) == {"2 workers instead of 1", "twice as many cores"}
    reads = gains(rates(**slow, cpu_s=0.01, blocked_s=0.9))
    assert set(reads) == {"reading from memory instead of storage", "49 workers instead of 1"}


def test_where_a_core_lacks_most_no_more_workers_are_proposed():
    assert gains(rates(wait_s=0.9, compute_s=0.01, cpu_s=0.2, delay_s=0.7, cores=2)) == {
        "twice as many cores": pytest.approx(0.77, abs=0.01)
    }


def test_a_step_that_does_not_wait_needs_nothing():
    assert remedies(rates(wait_s=0.0001, cpu_s=0.009)) == []


def test_no_remedy_removes_more_than_is_waited():
    """By the model a batch comes each 40 ms, and the step waits for 30. It was seen to wait for 10."""
    found = gains(rates(wait_s=0.01, compute_s=0.01, cpu_s=0.01, blocked_s=0.03, workers=1))
    assert found == {"4 workers instead of 1": 0.5, "reading from memory instead of storage": 0.5}


def test_the_cpu_of_steps_is_the_mean_of_those_that_were_measured():
    one = steps([0.1] * 6, 0.1)
    one["cpu"], one["others"] = (
        [np.nan, 1.03, np.nan, np.nan, 2.05, np.nan],
        [1.0, np.nan, np.nan, 2.0, np.nan, np.nan],
    )
    assert rates_of(epochs(one, made=batches(2, 0.03)), cores=2).compute_cpu_s == pytest.approx(0.04)
    one["others"] = np.nan
    assert rates_of(epochs(one, made=batches(2, 0.03)), cores=2).compute_cpu_s == 0.0


def test_nothing_is_promised_for_the_handing_over_of_batches():
    assert remedies(rates(wait_s=0.005, cpu_s=0.009)) == []


def test_the_rank_whose_batch_comes_last_is_late():
    in_time = epochs(steps([0.1] * 10, 1.0), rank=0)
    late = epochs(steps([0.5] * 5 + [0.11] * 5, 0.6), rank=1)
    late.steps[0]["begin"] = in_time.steps[0]["begin"]
    assert late_ranks({1: late, 0: in_time}) == {0: 0.0, 1: 0.5}


def test_ranks_with_one_step_say_nothing():
    assert late_ranks({0: epochs(steps([0.1], 1.0)), 1: epochs(steps([0.1], 1.0))}) == {}


def test_only_waits_amid_the_steps_of_a_loader_count_for_it():
    one = epochs(steps([0.1] * 5, 0.9), steps([0.1] * 5, 0.9, begin=200.0))  # 4 s each
    amid = steps(
        [0.25] * 20, 0.75, begin=100.0 + 0.2
    )  # the first of its waits ends within a step, the last ones after
    assert waited_amid(one, epochs(amid)) == pytest.approx(4 * 0.25)
    assert waited_amid(epochs(), epochs(amid)) == 0.0


@pytest.mark.parametrize("inner_first", [False, True])
def test_a_loader_within_another_is_waited_for_once(inner_first):
    outer = epochs(steps([0.5] * 5, 0.5))
    inner = epochs(steps([0.4] * 5, 0.6, begin=100.05))
    one, other = (inner, outer) if inner_first else (outer, inner)
    assert waited_amid(one, other) == 0.0


def test_with_a_gpu_the_idle_time_amid_counts():
    other = epochs(steps([0.0] * 5, 1.0, begin=100.2))
    other.idle = [steps([0.3] * 5, 0.7, begin=100.2)]
    assert waited_amid(epochs(steps([0.1] * 5, 0.9)), other) == pytest.approx(4 * 0.3)
