"""bench_what_if.py: what is asked is what is then made so, and a script of a world gives samples."""

from __future__ import annotations

import subprocess
import time
from dataclasses import replace

import bench_what_if
import pytest
import ready
from sizes import WHOLE

from seneca.cli.planning.what_if import parse_what_if


@pytest.mark.parametrize(("before", "text", "after"), bench_what_if.CHANGES)
def test_the_changed_world_is_the_one_that_is_asked_for(before, text, after):
    asked = parse_what_if(text)
    times = asked.fixed.get("storage", 1.0), asked.fixed.get("gpu", 1.0)
    expected = replace(
        before,
        workers=asked.fixed.get("workers", before.workers),
        jobs=asked.fixed.get("jobs", before.jobs),
        storage=before.storage * times[0],
        step=before.step / times[1],
        loader=asked.loader or before.loader,
        kept=after.kept,
    )
    assert after == expected
    assert set(asked.fixed) <= {"workers", "jobs", "storage", "gpu"}


def test_a_job_prints_what_it_got_between_two_times(tmp_path, picture_folder):
    bench = bench_what_if.Bench(tmp_path, picture_folder, picture_folder, seconds=0.5)
    world = replace(bench_what_if.PLANTED, workers=0, cpu=1, step=0, storage=1000)
    now = time.monotonic()  # it goes on until it has two batches
    line = [*bench.line(world), f"--begin={now}", f"--end={now}"]
    if WHOLE:
        ran = subprocess.run(line, env=bench.environment(world), capture_output=True, text=True)
    else:
        ran = ready.run(*line[1:], env=bench.environment(world))
    assert ran.returncode == 0, ran.stderr
    assert 0 < float(ran.stdout) <= 1000
