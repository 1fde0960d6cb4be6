"""bench_analyze.py: what is planted, and the cost of the hooks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import bench_analyze
import pytest

ROOT = Path(__file__).parents[2]


def test_the_planted_shares_are_those_of_the_slowest_part():
    alone = bench_analyze.Setting("torch", storage=0, cpu=5, step=20, workers=0).shares(2)
    assert alone == pytest.approx({"compute": 1 / 3, "fetch": 0.0, "prep": 2 / 3, "cores": 0.0})
    too_few_cores = bench_analyze.Setting("torch", storage=0, cpu=10, step=20, workers=4).shares(2)
    assert too_few_cores == pytest.approx({"compute": 0.5, "fetch": 0.0, "prep": 0.0, "cores": 0.5})
    assert bench_analyze.bottleneck(too_few_cores) == "cores"


def test_both_hooks_are_called_and_cost_something():
    found = bench_analyze.cost_of_calls(calls=200)
    assert set(found) == {"step", "batch"}
    assert min(found.values()) > 0


def test_the_cost_alone_is_a_table_of_all_settings():
    line = [sys.executable, "-m", "bench.bench_analyze", "--only-cost", "--rounds=1", "--steps=1"]
    ran = subprocess.run(line, cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    rows = [text.split() for text in ran.stdout.splitlines() if text.split()[1:2] in (["0"], ["2"])]
    assert [row[:2] for row in rows] == [[batch, workers] for batch in ("1", "32", "256") for workers in "02"]
    assert all(row[-1].endswith("%") for row in rows)
    assert "us a step" in ran.stdout
