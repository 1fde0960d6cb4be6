"""bench_keep: what it compares with, and what it prints."""

import bench_keep
import pytest


def test_jobs_with_orders_of_their_own_find_more_than_what_came_first(capsys):
    bench_keep.main(["--samples", "2000", "--epochs", "3", "--jobs", "1", "4", "--cached", "0.2"])
    assert "Belady" in capsys.readouterr().out
    alone, four = (bench_keep.simulated(2000, jobs, 0.2, 3) for jobs in (1, 4))
    assert alone["seneca"] == pytest.approx(alone["first"]), "one job can do no better"
    assert alone["belady"] == pytest.approx(alone["first"])
    assert four["first"] * 1.5 < four["seneca"] < four["belady"]
