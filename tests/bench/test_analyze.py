"""bench_analyze.py: what is planted, and the cost of the hooks."""

from __future__ import annotations

import math

import bench_analyze
import pytest


def test_the_planted_shares_are_those_of_the_slowest_part():
    alone = bench_analyze.Setting("torch", storage=0, cpu=5, step=20, workers=0).shares(2)
    assert alone == pytest.approx({"compute": 1 / 3, "fetch": 0.0, "prep": 2 / 3, "cores": 0.0})
    waits = {"storage": 11, "cpu": 1, "step": 20, "workers": 1}  # 80 ms of storage, 8 ms of CPU
    for_itself = bench_analyze.Setting("torch", **waits).shares(2)
    assert for_itself == pytest.approx({"compute": 20 / 88, "fetch": 68 / 88, "prep": 0.0, "cores": 0.0})
    ahead = bench_analyze.Setting("pictures", **waits).shares(2)
    assert ahead == pytest.approx({"compute": 1 / 4, "fetch": 3 / 4, "prep": 0.0, "cores": 0.0})
    too_few_cores = bench_analyze.Setting("torch", storage=0, cpu=10, step=20, workers=4).shares(2)
    assert too_few_cores == pytest.approx({"compute": 0.5, "fetch": 0.0, "prep": 0.0, "cores": 0.5})
    assert bench_analyze.bottleneck(too_few_cores) == "cores"


def test_both_hooks_are_called_and_cost_something():
    measured, passed = (bench_analyze.cost_of_calls(apart, calls=2000) for apart in (0.0, math.inf))
    assert set(measured) == set(passed) == {"step", "batch"}
    assert all(0 < passed[hook] < measured[hook] for hook in passed)


def test_the_cost_is_a_table_of_all_settings(monkeypatch, capsys):
    asked = []

    class Pretended:
        def cost(self, batch, workers, rounds):
            asked.append((batch, workers, rounds))
            return bench_analyze.Cost(2000.0, [0.01, 0.03, 0.02], [0.0, 0.0, 0.0], [0.0, 0.002, 0.001])

    costs = {0.0: {"step": 4.0, "batch": 6.0}, math.inf: {"step": 2.0, "batch": 0.0}}
    monkeypatch.setattr(bench_analyze, "cost_of_calls", costs.__getitem__)
    bench_analyze.print_cost(Pretended(), 3)
    printed = capsys.readouterr().out
    assert asked == [(batch, workers, 3) for batch in (1, 32, 256) for workers in (0, 2)]
    assert printed.count("+2.00%") == printed.count("+0.10%") == 6 and "4.0 us a step" in printed
    assert printed.count("0.48%") == 2  # of batches of one: a twentieth takes 10 us, the others 2
