"""bench_model: which settings it measures, what it makes of the measurements, and one run of it."""

from __future__ import annotations

import dataclasses
import json
import os
import statistics
import subprocess
import sys

import bench_model
import pytest
from profiles import ROUND
from sizes import size

from seneca.partition import Jobs, Split, bottleneck, solve
from seneca.tuning import profile as measure

JOBS = size(1, 2)


def row(measured, bottleneck, paper, *, ratio=2.0, jobs=1, split="100-0-0", chosen=False):
    return {
        "ratio": ratio,
        "jobs": jobs,
        "split": split,
        "chosen": chosen,
        "measured": measured,
        "bottleneck": bottleneck,
        "paper": paper,
        "limited_by": "cpu",
    }


def test_the_chosen_split_is_chosen_in_the_memory_that_the_jobs_leave(monkeypatch):
    measured = []

    def pretend(setting, profile, options):
        measured.append(setting.split)
        free = 10**9 if setting.split == "0-0-100" else 10**12
        return {**dataclasses.asdict(setting), "free_bytes": free, "measured": 1.0}

    monkeypatch.setattr(bench_model, "measure", pretend)
    options = bench_model.parse(["--data", "x", "--threads", "4", "--again", "0"])
    for ratio in (2.0, 0.5):
        measured.clear()
        rows = bench_model.group_of(ratio, 2, options.splits, ROUND, options)
        there = bench_model.with_cache(ROUND, ratio, 10**9)
        best = str(solve(there, Jobs(2, batch_size=options.batch, threads=4)).split)
        assert [row["split"] for row in rows if row["chosen"]] == [best]
        assert measured == list(dict.fromkeys([*bench_model.SPLITS, best]))


@pytest.mark.parametrize(
    ("measurements", "order", "regret"),
    [
        # Lucky once: the chosen one is as good.
        ({"C": [100, 101, 99], "A": [110, 98, 97]}, "ACCACA", 0.0),
        # Better indeed, by the medians of 90, 100, 95 and of 110, 100, 120.
        ({"C": [90, 100, 95], "A": [110, 100, 120]}, "ACCACA", 1 - 95 / 110),
        # When one was lucky the next has its turn, and the chosen one keeps all its runs.
        ({"C": [100, 102, 101, 99, 98], "A": [110, 98, 97], "B": [105, 90, 91]}, "ABCCACACBCB", 0.0),
        # Nothing was better: nothing is measured again.
        ({"C": [100], "A": [99]}, "AC", 0.0),
    ],
)
def test_what_measured_better_than_the_chosen_split_is_measured_again(
    monkeypatch, measurements, order, regret
):
    chosen = str(solve(bench_model.with_cache(ROUND, 2.0, 0), Jobs(1, batch_size=16, threads=4)).split)
    splits = {"A": "0-0-100", "B": "0-50-50", "C": chosen}
    names = {split: name for name, split in splits.items()}
    left, asked = {name: list(all_of) for name, all_of in measurements.items()}, []

    def pretend(setting, profile, options):
        name = names[setting.split]
        asked.append(name)
        return {**row(left[name].pop(0), 1.0, 1.0, split=setting.split), "free_bytes": 0}

    monkeypatch.setattr(bench_model, "measure", pretend)
    wanted = ",".join(splits[name] for name in "ABC" if name in measurements)
    options = bench_model.parse(["--data", "x", "--threads", "4", "--splits", wanted])
    rows = bench_model.group_of(2.0, 1, options.splits, ROUND, options)
    assert "".join(asked) == order
    assert {names[one["split"]]: one["runs"] for one in rows} == measurements
    assert [one["measured"] for one in rows] == [statistics.median(one["runs"]) for one in rows]
    assert [names[one["split"]] for one in rows if one["chosen"]] == ["C"]
    assert bench_model.summary_of(rows, "disk")["regret"][0]["regret"] == pytest.approx(regret)


def test_the_settings_of_the_command_are_24_at_least():
    options = bench_model.parse(["--data", "x"])
    assert len(options.ratios) * len(options.jobs) * len(options.splits) >= 24


def test_the_stage_does_not_take_all_of_a_small_dataset_s_cache():
    options = bench_model.parse(["--data", "x"])
    small = dataclasses.replace(ROUND, samples=3000)
    for ratio in options.ratios:
        there = bench_model.with_cache(small, ratio, 0)
        kept = bottleneck(there, Split(1.0, 0.0, 0.0), bench_model.jobs_of(max(options.jobs), options)).mix
        assert kept["encoded"] > 0.1


def test_a_ratio_is_of_the_files_to_the_cache():
    quarter = bench_model.with_cache(ROUND, 4.0, 7)
    assert quarter.cache_bytes == int(100_000 * 97_952 / 4)
    assert quarter.free_memory_bytes == quarter.cache_bytes + 7


def test_error_correlation_and_regret_are_as_they_are_defined():
    rows = [
        row(100.0, 110.0, 300.0, chosen=True),
        row(200.0, 210.0, 200.0, split="0-100-0"),
        row(50.0, 40.0, 100.0, jobs=2, chosen=True),
    ]
    summary = bench_model.summary_of(rows, "disk")
    assert summary["settings"] == rows and summary["storage"] == "disk"
    assert summary["bottleneck"]["mape"] == pytest.approx((0.1 + 0.05 + 0.2) / 3)
    assert summary["paper"]["mape"] == pytest.approx((2.0 + 0.0 + 1.0) / 3)
    for name, said in (("bottleneck", [110, 210, 40]), ("paper", [300, 200, 100])):
        assert summary[name]["pearson"] == pytest.approx(statistics.correlation([100, 200, 50], said))
    assert summary["regret"] == [
        {"ratio": 2.0, "jobs": 1, "regret": 0.5},
        {"ratio": 2.0, "jobs": 2, "regret": 0.0},
    ]


def test_models_that_always_say_the_same_have_no_correlation():
    rows = [row(100.0, 7.0, 7.0, chosen=True), row(200.0, 7.0, 8.0, split="0-100-0")]
    summary = bench_model.summary_of(rows, "disk")
    assert summary["bottleneck"]["pearson"] is None and summary["paper"]["pearson"] == pytest.approx(1)


def test_it_runs_and_writes_what_it_found(picture_folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("STORAGE_S", "ALONE_S", "TOGETHER_S", "MEMORY_S"):
        monkeypatch.setattr(measure, name, 0.05)
    file = tmp_path / "model.json"
    options = f"--data {picture_folder} --json {file} --ratios 0.001 --jobs {JOBS} --splits 100-0-0"
    options += " --warm 2 --seconds 0.2 --again 0 --batch 8 --threads 1"
    assert bench_model.main(options.split()) == 0
    found = json.loads(file.read_text())
    assert found.keys() == {"storage", "settings", "bottleneck", "paper", "regret"}
    assert found["storage"] == "disk"
    assert all(
        one["measured"] in one["runs"] and one["bottleneck"] > 0 < one["measured"]
        for one in found["settings"]
    )
    kept = next(one for one in found["settings"] if one["split"] == "100-0-0")
    assert kept["served"]["encoded"] > kept["served"]["storage"]
    assert found["regret"][0]["jobs"] == JOBS
    assert "bottleneck: correlation" in capsys.readouterr().out


@pytest.mark.whole_size(shown_by="test_it_runs_and_writes_what_it_found")
def test_a_throttled_run_says_so_and_counts_on_no_page_cache(picture_folder, tmp_path):
    file = tmp_path / "model.json"
    options = f"--data {picture_folder} --json {file} --throttle 2MB --ratios 0.001 --jobs 1 --splits 0-100-0"
    options += " --warm 2 --seconds 0.2 --again 0 --batch 8 --threads 1"
    (tmp_path / "temporary").mkdir()
    done = subprocess.run(
        [sys.executable, bench_model.__file__, *options.split()],
        env={**os.environ, "TMPDIR": str(tmp_path / "temporary"), "XDG_CACHE_HOME": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(file.read_text())
    assert found["storage"] == "token bucket, 2 MB/s"
    assert "by a token bucket in this program, not by a disk" in done.stdout
    assert [one["free_bytes"] for one in found["settings"]] == [0] * len(found["settings"])
    assert list((tmp_path / "temporary").iterdir()) == []
    assert not (tmp_path / "cache").exists(), "a profile of such storage is kept"


def test_without_a_compiler_there_is_no_throttle(picture_folder, monkeypatch, capsys):
    monkeypatch.setenv("CC", "no-such-compiler")
    assert bench_model.main(["--data", str(picture_folder), "--throttle", "1MB"]) == 2
    assert capsys.readouterr().err == (
        "bench_model: no C compiler (no-such-compiler); install gcc, or name another in CC\n"
    )


@pytest.mark.parametrize("more", [[], ["--throttle", "1MB"]])
def test_a_folder_without_pictures_is_reported_in_one_line(tmp_path, capsys, more):
    (tmp_path / "class").mkdir()
    assert bench_model.main(["--data", str(tmp_path), *more]) == 2
    assert capsys.readouterr().err == f"bench_model: no pictures in the class folders of {tmp_path}\n"
    assert bench_model.main(["--data", str(tmp_path / "nowhere"), *more]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_memory_for_the_page_cache_is_not_asked_for_where_there_is_none(capsys):
    with pytest.raises(SystemExit, match="2"):
        bench_model.parse(["--data", "x", "--throttle", "1MB", "--free", "60MB"])
    assert "has no page cache" in capsys.readouterr().err
