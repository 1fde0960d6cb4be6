"""Each experiment, at a tiny size: the rows that it must have, and what it computes from what jobs saw."""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from jobs import JobFailed
from papers import accuracy, hits, imbalance, joader, makespan, search, search_sound, shares
from papers.page import page
from papers.result import OURS, PAPER, PEER
from papers.setup import Setup
from papers.slow_storage import Storage

sys.path.append(str(Path(__file__).parent))
from small_setup import small

SIZES = {
    makespan: [makespan.Size(jobs=3, mean_arrival_s=0.1, epochs=1, steps_s=(0.0, 0.001), crop=32)],
    hits: hits.Size(jobs=2, samples=96, cached=(0.4,), epochs=1, batch=8),
    search: search.Size(jobs=2, seconds=0.3, batch=8, copies=1.0, small_batch=8),
    search_sound: search_sound.Size(
        jobs=2, clips=2, clip_s=1.0, samples=16, batch=4, seconds=0.3, copies=1.0
    ),
    joader: joader.Size(
        jobs=(1, 2),
        step_s=0.0,
        fastest_s=0.001,
        speeds=(1, 2),
        seconds=0.3,
        apart=2,
        overlaps=(0, 1),
        copies=1.0,
    ),
    imbalance: [imbalance.Size(ranks=2, batch=4, step_s=0.005, epochs=2)],
    shares: shares.Size(jobs=2, epochs=2),
    accuracy: accuracy.Size(
        seeds=1, epochs=1, target=0.0, batch=16, copies=50, made_up=(160, 32), predicts=False
    ),
}
OWN_PEERS = {joader: {"torch"}, hits: {"like MinIO"}, imbalance: {"torch"}, accuracy: {"torch"}}


@pytest.mark.small(1)
@pytest.mark.parametrize("experiment", SIZES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_an_experiment_has_its_paper_s_figures_ours_and_those_of_its_peers(experiment, picture_folder):
    result = experiment.run(small(picture_folder), SIZES[experiment])
    assert result.name == experiment.__name__.rpartition(".")[2]
    assert {row.who for row in result.rows} == {PAPER, OURS, PEER}
    peers = {row.name for row in result.rows if row.who == PEER}
    assert OWN_PEERS.get(experiment, {"torch", "like MinIO"}) <= peers
    assert result.goals and any("seed" in condition.lower() for condition in result.conditions)
    text = page([result], "a machine")
    assert all(row.name in text and f">{row.unit}</tr>" in text for row in result.rows if "'" not in row.name)
    assert not list(Path("/dev/shm").glob(f"seneca-*-papers-{os.getpid()}*"))


@pytest.mark.whole_size(shown_by="test_an_experiment_has_its_paper_s_figures_ours_and_those_of_its_peers")
@pytest.mark.parametrize("experiment", [imbalance, shares])
def test_without_torch_there_are_still_rows(experiment, picture_folder):
    result = experiment.run(small(picture_folder, ("seneca", "minio")), SIZES[experiment])
    assert "torch" not in {row.name for row in result.rows}
    assert OURS in {row.who for row in result.rows}


def test_arrivals_are_the_same_each_time_and_in_order():
    size = makespan.Size()
    arrivals = makespan.arrivals_of(size)
    assert arrivals == makespan.arrivals_of(size) == sorted(arrivals)
    assert arrivals[0] == 0 and len(arrivals) == size.jobs


def test_a_sweep_takes_at_least_what_storage_needs_or_the_last_job_s_arrival():
    storage = Storage.__new__(Storage)
    storage.files_bytes = 100
    size = makespan.Size(jobs=4, at_once=2, epochs=3, memory=0.6, mean_arrival_s=0.01)
    assert makespan.least_s(storage, size) == makespan.arrivals_of(size)[-1]
    storage.bytes_per_s = 10
    assert makespan.least_s(storage, size) == pytest.approx(10 * (1 + 5 * 0.4))
    late = replace(size, mean_arrival_s=100.0)
    assert makespan.least_s(storage, late) == makespan.arrivals_of(late)[-1]


@pytest.mark.whole_size(shown_by="test_the_pace_that_is_predicted_is_seneca_s_by_torch_s")
def test_seneca_plan_predicts_the_pace_from_one_job_of_torch(tmp_path):
    with accuracy.bench_accuracy.pictures(None, 160, 32) as folder:
        of_torch = accuracy.bench_accuracy.Setup(folder, "torch", 0.0, 1, 1, 16, "", 50, every=1)
        assert 0.5 < accuracy.predicted(of_torch) < 50


def test_the_pace_that_is_predicted_is_seneca_s_by_torch_s(monkeypatch, tmp_path):
    asked = []

    def called(command):
        asked.append(command)
        return json.dumps({"instead": {"samples_per_s": 30.0 if "loader=seneca" in command[-1] else 20.0}})

    monkeypatch.setattr(accuracy, "called", called)
    of_torch = accuracy.bench_accuracy.Setup(tmp_path, "torch", 0.0, 1, 1, 16, "", 50, every=1)
    assert accuracy.predicted(of_torch) == 1.5
    assert [command[3] for command in asked] == ["analyze", "plan", "plan"]
    assert asked[2][-1] == "--what-if=loader=seneca jobs=2 memory=204800B"


def test_a_command_that_fails_says_why():
    with pytest.raises(JobFailed, match="no such thing"):
        accuracy.called([sys.executable, "-c", "raise SystemExit('no such thing')"])


def test_the_stage_is_a_part_of_the_memory_that_shrinks_as_the_memory_grows():
    size = hits.Size(stage=0.08)
    assert hits.split_of("seneca", size, 0.2) == {"split": "92-0-8"}
    assert hits.split_of("seneca", size, 0.8) == {"split": "98-0-2"}
    assert hits.split_of("minio", size, 0.2) == {}


def test_an_iteration_is_imbalanced_if_the_last_batch_comes_a_tenth_of_a_step_after_the_first():
    first = [(0.0, 1.0), (2.0, 2.0), (3.0, 3.0), (4.0, 5.0)]
    second = [(0.0, 1.003), (2.0, 2.005), (3.0, 3.0), (4.0, 4.0)]
    size = imbalance.Size(step_s=0.04, batch=3)
    assert imbalance.imbalanced([first, second], size) == 50
    assert imbalance.rate([first, second], size) == 4 * 2 * 3 / 5


def test_a_job_reaches_an_accuracy_at_the_first_epoch_that_has_it():
    rows = [
        {"loader": "torch", "curve": [0.1, 0.6, 0.4], "ended_s": [1.0, 2.0, 3.0]},
        {"loader": "torch", "curve": [0.1, 0.2, 0.5], "ended_s": [1.5, 3.0, 4.5]},
        {"loader": "torch", "curve": [0.1, 0.2, 0.3], "ended_s": [1.0, 2.0, 3.0]},
        {"loader": "seneca", "curve": [0.5], "ended_s": [0.5]},
    ]
    assert accuracy.to_target(rows, "torch", 0.5) == [2.0, 4.5]
    assert accuracy.to_target(rows, "seneca", 0.5) == [0.5]


def test_a_rate_of_jobs_lasts_from_the_first_that_begins_to_the_last_that_ends():
    results = [
        {
            "epochs": [
                {"began": 0.0, "ended": 2.0, "samples": 10},
                {"began": 2.0, "ended": 3.0, "samples": 10},
            ]
        },
        {
            "epochs": [
                {"began": 1.0, "ended": 4.0, "samples": 10},
                {"began": 4.0, "ended": 7.0, "samples": 10},
            ]
        },
    ]
    assert shares.rate(results, slice(1)) == 20 / 4
    assert shares.rate(results, slice(1, None)) == 20 / 5


def test_jobs_in_memory_join_no_group_and_jobs_on_slow_storage_do(tmp_path, picture_folder):
    storage = Storage(picture_folder)
    storage.join = ("/a/group",)
    setup = Setup(storage, tmp_path, 1, None, ("seneca",), None)
    for folder, join in ((tmp_path, ()), (picture_folder, ("/a/group",))):
        job = setup.training("torch", None, folder=folder, samples=1, cache_bytes=1)
        assert job.join == join and job.options == {}
