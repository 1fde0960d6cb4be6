"""The model of torch's own loader: values worked out by hand."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from profiles import ROUND, round_profile

from seneca.partition import (
    BOTTLENECK,
    TORCH,
    Cost,
    Jobs,
    ProfileError,
    Reading,
    Split,
    bottleneck,
    default_split,
    solve,
    torch_loader,
)
from seneca.partition.torch_model import MOST_SPREAD, _closed, spread_by_waits

# Four cores; storage gives 20, 35 and 50 MB/s to 1, 2 and 4 readers, files have 97,952 bytes; no page cache.
SCRIPT = round_profile(item=Cost(2e-3, 3e-3), free_memory_bytes=0, step_cpu_s=1e-3)
ANY = default_split()


def predicted(profile, jobs):
    found = torch_loader(profile, ANY, jobs)
    return found.samples_per_s, found.limited_by


def test_a_worker_reads_and_prepares_in_turn():
    assert predicted(SCRIPT, Jobs(threads=1)) == (pytest.approx(1 / (2e-3 + 5e-3)), "workers")


def test_workers_beside_each_other_take_from_each_others_cores_and_wait_at_the_storage():
    # The storage serves a file in 1/50 of 97,952 us; the rest of the 5 ms passes beside. A second worker
    # comes upon the first there with probability `busy`. What is left of its time then is half, for files of
    # equal size, and a bit more for files that differ.
    served = 97_952 / 50e6
    busy = served / (2e-3 + 1e-3 / 3 + 5e-3)
    differ = (30_000 / 97_952) ** 2
    together = 2e-3 + 1e-3 / 3 + 5e-3 + served * busy * (1 + differ) / 2
    assert predicted(SCRIPT, Jobs(threads=2)) == (pytest.approx(2 / together), "workers")


def test_workers_whose_files_differ_wait_longer():
    equal, differ = (_closed(3, 2e-3, 3, apart_s=0.0, served_s=1e-3, spread=spread) for spread in (0.0, 1.0))
    # Exponential times, by hand: 1, 4/3 and 9/5 ms at the storage for one, two and three workers.
    assert differ == pytest.approx(3 / (2e-3 + 9 / 5 * 1e-3))
    assert differ < equal < 1000
    assert _closed(100, 2e-3, 100, apart_s=0.0, served_s=1e-3, spread=0.0) == 1000


SLOW = round_profile(item=Cost(2e-3, 2e-3), storage=(Reading(1, 50e6, 97_952 / 50e6),), free_memory_bytes=0)


@pytest.mark.parametrize("spread", [0.0, 0.3, 1.0, 2.5])
def test_waits_of_workers_show_how_they_read(spread):
    reads = dataclasses.replace(SLOW, served_spread=spread)
    waits_s = 2 / torch_loader(reads, ANY, Jobs(threads=2)).samples_per_s - 2e-3
    assert spread_by_waits(SLOW, 2, waits_s) == pytest.approx(spread, abs=1e-3)
    reading, by_sizes = (torch_loader(one, ANY, Jobs(threads=2)).samples_per_s for one in (reads, SLOW))
    assert (reading < by_sizes) == (spread > (30_000 / 97_952) ** 2)


def test_waits_that_no_model_explains_count_as_the_most_it_knows():
    assert spread_by_waits(SLOW, 2, 1.0) == MOST_SPREAD
    assert spread_by_waits(SLOW, 2, 0.0) == pytest.approx(0.0, abs=1e-3)


def test_waits_do_not_always_show_how_workers_read():
    assert spread_by_waits(SLOW, 1, 2e-3) is None  # it waits for nobody
    assert spread_by_waits(SLOW, 4, 6e-3) is None  # storage is used up
    in_memory = dataclasses.replace(SLOW, free_memory_bytes=10**11)
    assert spread_by_waits(in_memory, 2, 1e-3) is None  # storage is not asked


def test_more_workers_than_cores_take_turns():
    assert _closed(2, 4e-3, 2, apart_s=0.0, served_s=0.0, spread=0.0) == 500
    assert _closed(64, 4e-3, 2, apart_s=0.0, served_s=0.0, spread=0.0) == 500
    # Two workers and one core, by hand: the second comes upon the first with probability 4/5.
    assert _closed(2, 4e-3, 1, apart_s=1e-3, served_s=0.0, spread=0.0) == pytest.approx(
        2 / (4e-3 * (1 + 4 / 5) + 1e-3)
    )


@pytest.mark.small(1)
@pytest.mark.parametrize("cores", [1, 2, 4])
def test_the_network_is_what_a_simulation_of_it_gives(cores):
    """Four workers, cores and one storage that serve first who came first, times that are exponential."""
    random = np.random.default_rng(1)
    of_cores, served_until = [0.0] * cores, 0.0
    waiting = [(0.0, worker) for worker in range(4)]  # for a core
    reading = []
    done = 0
    while done < 40_000:
        if waiting and (not reading or min(waiting)[0] <= min(reading)[0]):
            came, worker = min(waiting)
            waiting.remove((came, worker))
            core = of_cores.index(min(of_cores))
            of_cores[core] = max(came, of_cores[core]) + random.exponential(2e-3)
            reading.append((of_cores[core], worker))
        else:
            came, worker = min(reading)
            reading.remove((came, worker))
            served_until = max(came, served_until) + random.exponential(1e-3)
            waiting.append((served_until, worker))
            done += 1
    assert _closed(4, 2e-3, cores, apart_s=0.0, served_s=1e-3, spread=1.0) == pytest.approx(
        done / served_until, rel=0.02
    )


def test_storage_gives_no_more_than_it_has():
    assert predicted(SCRIPT, Jobs(threads=16)) == (pytest.approx(50e6 / 97_952), "storage")


def test_cores_serve_workers_and_steps():
    fast = SCRIPT.with_storage(1e12)
    assert predicted(fast, Jobs(threads=16)) == (pytest.approx(4 / (3e-3 + 1e-3)), "cpu")


def test_a_slow_step_is_the_limit():
    assert predicted(SCRIPT, Jobs(threads=16, step_per_s=100.0)) == (100.0, "step")


def test_without_workers_a_step_waits_while_its_batch_is_made():
    assert predicted(SCRIPT, Jobs(threads=0, step_per_s=100.0)) == (
        pytest.approx(1 / (1e-2 + 2e-3 + 5e-3)),
        "step",
    )
    assert predicted(SCRIPT, Jobs(threads=0)) == (pytest.approx(1 / 7e-3), "step")


def test_jobs_share_storage_and_cores_and_nothing_else():
    alone = predicted(SCRIPT, Jobs(1, threads=3))
    assert predicted(SCRIPT, Jobs(3, threads=1)) == (pytest.approx(alone[0]), alone[1])
    found = torch_loader(SCRIPT, ANY, Jobs(3, threads=8))
    assert found.per_job == pytest.approx([50e6 / 97_952 / 3] * 3) and found.prepared == 1.0


def test_the_page_cache_has_all_free_memory():
    roomy = round_profile(item=Cost(2e-3, 2e-3), free_memory_bytes=10_000_000_000)
    found = torch_loader(roomy, ANY, Jobs(threads=1))
    assert (found.page_cache, found.samples_per_s) == (1.0, pytest.approx(500))
    # The share that Linux was seen to serve, for the model of the page cache: 35 % of the files, 15 % hits.
    tight = round_profile(item=Cost(2e-3, 2e-3), free_memory_bytes=round(0.35 * 100_000 * 97_952))
    assert torch_loader(tight, ANY, Jobs()).page_cache == pytest.approx(0.138, abs=0.001)


def test_a_step_waits_while_the_loop_takes_its_batch():
    fast = round_profile(item=Cost(1e-4, 1e-4), item_take_s=2e-3, take_s=5e-3, free_memory_bytes=10**11)
    jobs = Jobs(step_per_s=100.0, threads=4)
    assert predicted(fast, jobs) == (pytest.approx(1 / 12e-3), "step")
    assert bottleneck(fast, ANY, jobs).samples_per_s == pytest.approx(1 / 15e-3)
    assert solve(fast, jobs, model=BOTTLENECK).samples_per_s == pytest.approx(1 / 15e-3)
    without_workers = Jobs(step_per_s=100.0, threads=0)  # there is nobody to take it from
    assert predicted(fast, without_workers) == (pytest.approx(1 / 10.1e-3), "step")


def test_no_split_changes_anything():
    rates = {torch_loader(SCRIPT, split, Jobs()).samples_per_s for split in (ANY, Split(1, 0, 0))}
    assert rates == {solve(SCRIPT, Jobs(), model=TORCH).samples_per_s}


def test_without_the_cost_of_an_item_there_is_no_prediction():
    with pytest.raises(ProfileError, match="does not say what torch's own loader takes"):
        torch_loader(ROUND, ANY, Jobs())


def test_samples_without_stages_are_never_kept():
    profile = round_profile(staged=False, batch=Cost(0.0, 0.0), fetch=Cost(0.0, 0.0))
    alone, shared = (solve(profile, Jobs(count, threads=4), model=BOTTLENECK) for count in (1, 2))
    assert alone.mix == shared.mix == {"storage": 1.0, "encoded": 0.0, "recoded": 0.0, "decoded": 0.0}
    assert shared.prepared == pytest.approx(0.5, abs=0.01)


def test_the_cpu_of_the_step_is_of_every_delivery_with_seneca_too():
    there = bottleneck(round_profile(step_cpu_s=1e-3, take_s=1e-4), Split(1, 0, 0), Jobs())
    assert there.ceilings["cpu"] == pytest.approx(4 / (1.6e-3 + 0.5 * 1e-4 + 1e-4 + 1e-3 + 1e-4))
    there = round_profile(item=Cost(2e-3, 3e-3), step_cpu_s=1e-3, item_take_s=1e-3)
    torchs = torch_loader(there, ANY, Jobs())
    assert torchs.ceilings["cpu"] == pytest.approx(4 / (3e-3 + 1e-3 + 1e-3))
