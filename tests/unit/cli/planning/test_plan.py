"""seneca plan: what it prints, and what it refuses."""

from __future__ import annotations

import dataclasses
import json

import pytest
from profiles import ROUND, round_profile
from typer.testing import CliRunner

from seneca._core.pool import READS_AHEAD
from seneca.cli.app import app
from seneca.cli.planning import plan
from seneca.partition import Cost, Jobs, Profile, default_split, solve, torch_loader

RUN = CliRunner()


@pytest.fixture
def saved(tmp_path):
    """A profile in a file."""
    path = tmp_path / "profile.json"
    ROUND.save(path)
    return path


def words(result):
    """What was printed, as one line of words."""
    return " ".join(result.stdout.split())


# --- seneca plan


def test_a_plan_says_what_the_solver_found(saved):
    result = RUN.invoke(app, ["plan", "--profile", str(saved), "--json"])
    assert result.exit_code == 0, result.stderr
    plan = json.loads(result.stdout)
    best = solve(ROUND)
    assert plan["model"] == "bottleneck" and plan["instead"] is None and plan["curve"] is None
    now = plan["now"]
    assert (now["split"], now["limited_by"]) == (str(best.split), best.limited_by)
    assert now["samples_per_s"] == pytest.approx(best.samples_per_s)
    assert now["ceilings"]["step"] is None and now["step_per_s"] == [None]
    assert now["refined"]["samples_per_s"] >= now["samples_per_s"]
    assert now["worth"]["core"] == 0 and now["worth"]["gb_memory"] > 0
    assert any("Jobs wait for storage with 4.66 GiB of cache; with" in answer for answer in now["answers"])
    assert "More cores would not help." in now["answers"]


@pytest.mark.whole_size(shown_by="test_what_changes_a_script_is_predicted")
def test_a_plan_is_shown_beside_what_would_be_instead(saved):
    what_if = "memory=64GiB cores=16 jobs=4 storage=1GB/s"
    result = RUN.invoke(app, ["plan", "--profile", str(saved), "--step", "900", "--what-if", what_if])
    assert result.exit_code == 0, result.stderr
    text = words(result)
    assert "now instead" in text
    assert "cores 4 16" in text and "jobs 1 4" in text and "storage 50 MB/s 1 GB/s" in text
    assert "memory for the cache 4.66 GiB 64 GiB" in text
    assert "limited by step step" in text and "all jobs together, samples/s 900 3,600" in text
    assert "training step, samples/s 900 900" in text
    assert "instead: The limit: the training step." in text


def test_sentences_come_first_and_rows_have_units(saved):
    lines = RUN.invoke(app, ["plan", "--profile", str(saved)]).stdout.splitlines()
    assert lines[0].startswith("The limit: ")
    table = lines[lines.index("") + 1 :]
    assert not any(line.endswith(".") for line in table) and lines[lines.index("") - 1].endswith(".")
    rows = {name.strip(): value for name, _, value in (line.rpartition("   ") for line in table)}
    assert rows["training step, samples/s"] == "any" and rows["a core more adds, samples/s"] == "0"
    assert rows["the cache is filled with"] == "4.66 GiB encoded"


@pytest.mark.parametrize(
    ("filled", "text"),
    [
        ({}, "nothing"),
        ({"encoded": 0.0, "augmented": 200 * 2.0**20}, "200 MiB augmented"),
        (
            {"augmented": 2.0**30, "recoded": 3 * 2.0**30, "encoded": 2.0**20},
            "3 GiB recoded\n1 GiB augmented",
        ),
    ],
)
def test_a_plan_says_with_what_the_cache_is_filled(filled, text):
    best = dataclasses.replace(solve(ROUND), filled_bytes=filled)
    assert plan._filled_text(best) == text and best.memory_bytes == sum(filled.values())


def test_a_range_gives_a_curve(saved):
    arguments = ["plan", "--profile", str(saved), "--what-if", "memory=1GiB..64GiB"]
    points = json.loads(RUN.invoke(app, [*arguments, "--json"]).stdout)["curve"]
    assert points["over"] == "memory" and len(points["points"]) == 9
    rates = [point["samples_per_s"] for point in points["points"]]
    assert rates == sorted(rates) and rates[0] < rates[-1]
    for point in points["points"]:
        best = solve(ROUND.with_memory(point["value"]), Jobs(reads_ahead=READS_AHEAD))
        assert (point["split"], point["samples_per_s"]) == (
            str(best.split),
            pytest.approx(best.samples_per_s),
        )
    assert "1 GiB 100-0-0" in words(RUN.invoke(app, arguments))


def test_threads_that_prepare_natively_do_not_wait_for_storage():
    """Torch's workers, which make whole items, do."""
    assert (plan.reads_ahead(ROUND), plan.reads_ahead(round_profile(staged=False))) == (READS_AHEAD, 0)


def test_what_the_page_cache_serves_is_shown(tmp_path):
    path = tmp_path / "profile.json"
    round_profile(free_memory_bytes=8_000_000_000).save(path)
    result = RUN.invoke(app, ["plan", "--profile", str(path), "--what-if", "samples=200000"])
    assert result.stdout.count("Of the reads from files the page cache serves") == 2
    assert "samples of the dataset 100,000 200,000" in words(result)


def test_cores_are_said_to_help_where_they_do(tmp_path):
    path = tmp_path / "profile.json"
    round_profile(cache_bytes=60_000_000_000).save(path)
    answers = json.loads(RUN.invoke(app, ["plan", "--profile", str(path), "--json"]).stdout)["now"]["answers"]
    assert answers[0] == "The limit: the cores."
    assert answers[1] == "Jobs do not wait for storage with 55.9 GiB of cache."
    assert answers[2].startswith("More cores would help: one more adds 25%; beyond ")


def test_jobs_whose_copies_leave_no_room_learn_what_memory_would_give(tmp_path):
    """The stage of eight jobs takes all of it: less than one job alone would get."""
    path = tmp_path / "profile.json"
    round_profile(samples=300, cache_bytes=600_000_000, memory_bytes_per_s=1e12).save(path)
    said = {}
    for jobs in (1, 8):
        result = RUN.invoke(app, ["plan", "--profile", str(path), "--jobs", str(jobs), "--json"])
        said[jobs] = [line for line in json.loads(result.stdout)["now"]["answers"] if "More memory" in line]
    assert said[1] == []
    assert len(said[8]) == 1 and said[8][0].startswith("More memory would help: one GB more adds ")


@pytest.fixture
def analyzed(tmp_path):
    """What ``seneca analyze --deep --json`` wrote of a script with two workers of torch's loader."""
    path = tmp_path / "run.json"
    profile = round_profile(
        item=Cost(2e-3, 3e-3), free_memory_bytes=1, cache_bytes=0, step_per_s=900.0, workers=2, batch_size=32
    )
    content = {"version": 1, "bottleneck": "prep", "profile": json.loads(profile.to_json())}
    path.write_text(json.dumps(content))
    return path


def plan_of_what_is_analyzed(path, *arguments):
    result = RUN.invoke(app, ["plan", "--profile", str(path), "--json", *arguments])
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_a_script_is_planned_as_it_is_with_torchs_own_loader(analyzed):
    now = plan_of_what_is_analyzed(analyzed)["now"]
    profile, jobs = Profile.load(analyzed), Jobs(step_per_s=900.0, batch_size=32, threads=2)
    assert now["samples_per_s"] == torch_loader(profile, default_split(), jobs).samples_per_s
    assert (now["model"], now["limited_by"], now["step_per_s"]) == ("torch", "workers", [900.0])
    assert now["answers"][0] == "The limit: the workers, which prepare and wait for storage."
    assert "More workers (num_workers) would help, before more cores do." in now["answers"]
    assert "Jobs wait for storage with 1 B of free memory; with " in now["answers"][1]
    assert plan_of_what_is_analyzed(analyzed, "--threads", "0")["now"]["samples_per_s"] == pytest.approx(
        1 / (1 / 900 + 7e-3)
    )
    shown = words(RUN.invoke(app, ["plan", "--profile", str(analyzed)]))
    assert "model torch split, encoded-(recoded-)decoded-augmented - all jobs" in shown


def test_what_changes_a_script_is_predicted(analyzed):
    def instead(text):
        return plan_of_what_is_analyzed(analyzed, "--what-if", text)["instead"]["samples_per_s"]

    assert instead("workers=1 storage=2x") == pytest.approx(1 / (2e-3 + 2.5e-3))
    assert instead("workers=64") == pytest.approx(50e6 / 97_952)
    assert instead("workers=16 storage=10x gpu=0.5x") == pytest.approx(450)
    assert instead("workers=16 storage=10x gpu=2x") == pytest.approx(4 / 3e-3)
    both = plan_of_what_is_analyzed(analyzed, "--what-if", "loader=seneca jobs=2 memory=16GiB workers=1..2")
    assert (both["now"]["model"], both["instead"]["model"]) == ("torch", "bottleneck")
    assert [point["prepared"] for point in both["curve"]["points"]] == pytest.approx([0.5, 0.5], abs=0.01)
    assert "1 - 222" in words(
        RUN.invoke(app, ["plan", "--profile", str(analyzed), "--what-if", "workers=1..2 storage=2x"])
    )


def test_a_profile_of_pictures_does_not_say_what_torchs_loader_takes(saved):
    result = RUN.invoke(app, ["plan", "--profile", str(saved), "--what-if", "loader=torch"])
    assert result.exit_code == 2 and result.stderr.count("\n") == 1
    assert "`seneca analyze --deep --json FILE -- python train.py` makes one" in result.stderr


def test_several_hosts(saved):
    """ROUND's storage gives 510 files a second; with servers for all of them the cores are the limit."""
    options = ["plan", "--profile", str(saved), "--memory", "1MiB", "--what-if"]
    result = RUN.invoke(app, [*options, "hosts=4 nic=10Gb/s remote=64GiB", "--json"])
    plan = json.loads(result.stdout)
    assert (plan["now"]["hosts"], plan["instead"]["hosts"]) == (1, 4)
    assert (plan["now"]["limited_by"], plan["instead"]["limited_by"]) == ("storage", "cpu")
    each = plan["instead"]["samples_per_s"]
    assert plan["instead"]["samples_per_s_of_all_hosts"] == pytest.approx(4 * each)
    text = RUN.invoke(app, [*options, "hosts=4"]).stdout
    assert "all hosts together, samples/s" in text and "files that servers have room for" in text
    assert "hosts" not in RUN.invoke(app, ["plan", "--profile", str(saved)]).stdout


def test_the_papers_model_can_be_asked(saved):
    result = RUN.invoke(app, ["plan", "--profile", str(saved), "--model", "paper", "--json"])
    plan = json.loads(result.stdout)
    assert plan["model"] == "paper" and plan["now"]["ceilings"] == {}
    assert RUN.invoke(app, ["plan", "--profile", str(saved), "--model", "paper"]).exit_code == 0


@pytest.mark.small(4)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give either a folder of pictures or --profile FILE"),
        (["/nowhere"], "there is no folder /nowhere; give another"),
        (["--profile", "/nowhere.json"], "/nowhere.json: No such file or directory"),
        (["--profile", "SAVED", "--jobs", "0"], "jobs are from 1 to 64, but got 0"),
        (["--profile", "SAVED", "--what-if", "jobs=65"], "--what-if: jobs=65: jobs are from 1 to 64"),
        (["--profile", "SAVED", "--what-if", "nic=fast"], "--what-if: nic=fast is no such amount; write for"),
        (
            ["--profile", "SAVED", "--model", "paper", "--what-if", "hosts=2"],
            "the paper's model is of one host here; leave out hosts, nic and remote, or --model",
        ),
        (["--profile", "SAVED", "--model", "crystal"], "--model crystal is not bottleneck, paper or torch"),
        (["--profile", "SAVED", "--step", "fast"], "--step fast: with --profile it is samples a second"),
        (["--profile", "SAVED", "--step", "-1"], "--step -1: with --profile it is samples a second"),
        (["--profile", "SAVED", "--memory", "much"], "'much' is not an amount of memory"),
        (["--profile", "SAVED", "--memory", "8"], '\'8\' means bytes; write "8GiB", or "8B" if bytes are'),
        (["--profile", "/etc/passwd"], "/etc/passwd: no profile of Seneca's: "),
    ],
)
def test_a_bad_plan_is_one_line_and_status_2(saved, arguments, message):
    arguments = [str(saved) if one == "SAVED" else one for one in arguments]
    result = RUN.invoke(app, ["plan", *arguments])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"seneca plan: {message}") and result.stderr.count("\n") == 1


def test_a_profile_of_another_version_is_one_line_and_status_2(saved):
    saved.write_text(json.dumps({**json.loads(saved.read_text()), "version": 3}))
    result = RUN.invoke(app, ["plan", "--profile", str(saved)])
    assert result.exit_code == 2
    assert result.stderr == (
        f"seneca plan: {saved}: a profile of version 3, and this Seneca reads version 4: "
        "measure again with `seneca profile`\n"
    )
