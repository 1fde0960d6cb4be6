"""seneca profile and seneca plan: what they print, what they refuse, and how a what-if is read."""

from __future__ import annotations

import importlib.util
import json
import sys

import pytest
from profiles import ROUND, round_profile
from typer.testing import CliRunner

from seneca import measure
from seneca.cli.app import app
from seneca.cli.what_if import BadWhatIf, WhatIf, parse_what_if, show_bytes, show_rate, span
from seneca.partition import Jobs, Profile, solve

RUN = CliRunner()


@pytest.fixture
def saved(tmp_path):
    """A profile in a file."""
    path = tmp_path / "profile.json"
    ROUND.save(path)
    return path


@pytest.fixture
def short(tmp_path, monkeypatch):
    """Measurements of a moment, kept in a folder of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("STORAGE_S", "ALONE_S", "TOGETHER_S", "MEMORY_S", "STEP_S"):
        monkeypatch.setattr(measure, name, 0.05)


def words(result):
    """What was printed, as one line of words."""
    return " ".join(result.stdout.split())


# --- what-if


@pytest.mark.parametrize(
    ("text", "fixed", "over", "values"),
    [
        (
            "memory=64GiB cores=16 jobs=4 storage=1GB/s",
            {"memory": 64 << 30, "cores": 16, "jobs": 4, "storage": 10**9},
            None,
            (),
        ),
        ("step=1200.5,threads=3, batch=64", {"step": 1200.5, "threads": 3, "batch": 64}, None, ()),
        ("cores=2..4 samples=1281167", {"samples": 1281167}, "cores", (2, 3, 4)),
        ("jobs=8 memory=1GiB..1GiB", {"jobs": 8}, "memory", (1 << 30,)),
    ],
)
def test_a_what_if_is_read(text, fixed, over, values):
    assert parse_what_if(text) == WhatIf(fixed, over, values)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is empty"),
        ("gpus=4", "'gpus=4' is not one of memory=, cores="),
        ("cores", "'cores' is not one of"),
        ("cores=many", "cores=many is no such amount; write for example cores=16"),
        ("cores=0", "cores=0 is no such amount"),
        ("cores=1.5", "no such amount"),
        ("memory=lots", "write for example memory=64GiB"),
        ("storage=fast", "write for example storage=1GB/s"),
        ("step=nan", "no such amount"),
        ("cores=1 cores=2", "cores is there twice"),
        ("cores=1..2 jobs=1..2", "cores and jobs are both ranges"),
        ("cores=4..2", "cores=4..2 falls"),
        ("cores=1..", "no such amount"),
    ],
)
def test_nonsense_is_refused_in_one_line(saved, text, message):
    with pytest.raises(BadWhatIf) as raised:
        parse_what_if(text)
    assert message in str(raised.value) and "\n" not in str(raised.value)
    result = RUN.invoke(app, ["plan", "--profile", str(saved), "--what-if", text])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"seneca plan: --what-if: {raised.value}\n"


def test_a_range_is_all_values_or_nine_in_equal_ratios():
    assert span("jobs", 1, 9) == tuple(range(1, 10))
    assert span("cores", 1, 256) == (1, 2, 4, 8, 16, 32, 64, 128, 256)
    memory = span("memory", 1 << 30, 256 << 30)
    assert memory[0] == 1 << 30 and memory[-1] == 256 << 30 and len(memory) == 9
    assert memory[1] == pytest.approx(2 << 30, abs=1)


def test_amounts_are_written_as_people_do():
    assert [show_bytes(amount) for amount in (512, 1536, 64 << 30, 3 << 40)] == [
        "512 B",
        "1.5 KiB",
        "64 GiB",
        "3 TiB",
    ]
    assert [show_rate(rate) for rate in (120e6, 999.7e6, 5.5e3, 12.0)] == [
        "120 MB/s",
        "1 GB/s",
        "5.5 kB/s",
        "12 B/s",
    ]


def test_no_amount_is_written_as_a_power_of_ten():
    shown = [show_bytes(amount) for amount in (999, 999 << 20, 1000 << 20, 1023 << 30, 1500 << 40)]
    assert shown == ["999 B", "999 MiB", "0.977 GiB", "0.999 TiB", "1,500 TiB"]
    assert [show_rate(rate) for rate in (120.4e9, 1.5e12)] == ["120 GB/s", "1,500 GB/s"]


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


def test_a_plan_is_shown_beside_what_would_be_instead(saved):
    what_if = "memory=64GiB cores=16 jobs=4 storage=1GB/s"
    result = RUN.invoke(app, ["plan", "--profile", str(saved), "--step", "900", "--what-if", what_if])
    assert result.exit_code == 0, result.stderr
    text = words(result)
    assert "now instead" in text
    assert "cores 4 16" in text and "jobs 1 4" in text and "storage 50 MB/s 1 GB/s" in text
    assert "memory for the cache 4.66 GiB 64 GiB" in text
    assert "limited by step step" in text and "samples/s of all jobs 900 3,600" in text
    assert "instead: What limits is the training step." in text


def test_a_range_gives_a_curve(saved):
    arguments = ["plan", "--profile", str(saved), "--what-if", "memory=1GiB..64GiB"]
    points = json.loads(RUN.invoke(app, [*arguments, "--json"]).stdout)["curve"]
    assert points["over"] == "memory" and len(points["points"]) == 9
    rates = [point["samples_per_s"] for point in points["points"]]
    assert rates == sorted(rates) and rates[0] < rates[-1]
    for point in points["points"]:
        best = solve(ROUND.with_memory(point["value"]))
        assert (point["split"], point["samples_per_s"]) == (
            str(best.split),
            pytest.approx(best.samples_per_s),
        )
    assert "1 GiB 100-0-0" in words(RUN.invoke(app, arguments))


def test_what_the_page_cache_serves_is_told(tmp_path):
    path = tmp_path / "profile.json"
    round_profile(free_memory_bytes=8_000_000_000).save(path)
    result = RUN.invoke(app, ["plan", "--profile", str(path), "--what-if", "samples=200000"])
    assert result.stdout.count("Of the reads from files the page cache serves") == 2
    assert "samples 100,000 200,000" in words(result)


def test_cores_are_said_to_help_where_they_do(tmp_path):
    path = tmp_path / "profile.json"
    round_profile(cache_bytes=60_000_000_000).save(path)
    answers = json.loads(RUN.invoke(app, ["plan", "--profile", str(path), "--json"]).stdout)["now"]["answers"]
    assert answers[0] == "What limits is the cores."
    assert answers[1] == "Jobs do not wait for storage with 55.9 GiB of cache."
    assert answers[2].startswith("More cores would help: one more adds 25%; beyond ")


def test_the_papers_model_can_be_asked(saved):
    result = RUN.invoke(app, ["plan", "--profile", str(saved), "--model", "paper", "--json"])
    plan = json.loads(result.stdout)
    assert plan["model"] == "paper" and plan["now"]["ceilings"] == {}
    assert RUN.invoke(app, ["plan", "--profile", str(saved), "--model", "paper"]).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give either a folder of pictures or --profile FILE"),
        (["/nowhere"], "/nowhere is no folder"),
        (["--profile", "/nowhere.json"], "/nowhere.json: No such file or directory"),
        (["--profile", "SAVED", "--jobs", "0"], "jobs are from 1 to 64, but got 0"),
        (["--profile", "SAVED", "--what-if", "jobs=65"], "--what-if: jobs=65: jobs are from 1 to 64"),
        (["--profile", "SAVED", "--model", "crystal"], "--model crystal is not bottleneck or paper"),
        (["--profile", "SAVED", "--step", "fast"], "--step fast: with --profile it is samples a second"),
        (["--profile", "SAVED", "--step", "-1"], "--step -1: with --profile it is samples a second"),
        (["--profile", "SAVED", "--memory", "much"], "'much' is not an amount of memory"),
    ],
)
def test_a_bad_plan_is_one_line_and_status_2(saved, arguments, message):
    arguments = [str(saved) if one == "SAVED" else one for one in arguments]
    result = RUN.invoke(app, ["plan", *arguments])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"seneca plan: {message}") and result.stderr.count("\n") == 1


def test_a_profile_of_another_version_is_one_line_and_status_2(saved):
    saved.write_text(json.dumps({**json.loads(saved.read_text()), "version": 2}))
    result = RUN.invoke(app, ["plan", "--profile", str(saved)])
    assert result.exit_code == 2
    assert result.stderr == (
        f"seneca plan: {saved}: a profile of version 2, and this Seneca reads version 1: "
        "measure again with `seneca profile`\n"
    )


def test_a_plot_is_drawn(saved, tmp_path):
    pytest.importorskip("matplotlib")
    picture = tmp_path / "plan.png"
    result = RUN.invoke(app, ["plan", "--profile", str(saved), "--plot", str(picture)])
    assert result.exit_code == 0, result.stderr
    assert picture.read_bytes().startswith(b"\x89PNG")
    result = RUN.invoke(app, ["plan", "--profile", str(saved), "--plot", str(tmp_path / "plan.nothing")])
    assert result.exit_code == 2 and "knows the kind by the file's ending" in result.stderr


@pytest.mark.skipif(importlib.util.find_spec("matplotlib") is not None, reason="matplotlib is here")
def test_a_plot_without_matplotlib_is_one_line_and_status_2(saved, tmp_path):
    result = RUN.invoke(app, ["plan", "--profile", str(saved), "--plot", str(tmp_path / "plan.png")])
    assert result.exit_code == 2
    how = "pip install 'seneca-loader[plot]', not beside pillow-simd"
    assert result.stderr == f"seneca plan: --plot needs matplotlib: {how}\n"


# --- seneca profile


def test_a_folder_is_measured_and_shown(picture_folder, short, tmp_path):
    file = tmp_path / "made" / "profile.json"
    step = tmp_path / "step.py"
    step.write_text("def step(images, labels):\n    assert images.shape == (4, 3, 32, 32)\n")
    ours = tmp_path / "ours.py"
    ours.write_text("from seneca import transforms as T\ntrain = T.Compose([T.RandomResizedCrop(32)])\n")
    options = f"--transform {ours}:train --step {step} --json {file} --batch 4 --memory 8MiB"
    result = RUN.invoke(app, ["profile", str(picture_folder), *options.split()])
    assert result.exit_code == 0, result.stderr
    found = Profile.load(file)
    assert (found.samples, found.cache_bytes, found.augmented.mean_bytes) == (48, 8 << 20, 32 * 32 * 3)
    assert found.step_per_s > 0
    text = words(result)
    for what in ("48 pictures on", "fetch, from the page cache", "cache 8 MiB", "Storage, files at a time"):
        assert what in text
    planned = RUN.invoke(app, ["plan", str(picture_folder), "--transform", f"{ours}:train", "--json"])
    assert planned.exit_code == 0, planned.stderr
    assert json.loads(planned.stdout)["now"]["cores"] == found.cores


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["/nowhere"], "/nowhere is no folder"),
        (["EMPTY"], "Couldn't find any class folder in"),
        (
            ["PICTURES", "--step", "quick"],
            "--step quick is neither a number of samples a second nor a script",
        ),
        (["PICTURES", "--step", "0"], "step is samples a second, above 0, but got 0.0"),
        (["PICTURES", "--step", "SCRIPT"], "--step SCRIPT defines no function step(images, labels)"),
        (["PICTURES", "--transform", "train"], "--transform train is not file.py:name or module:name"),
        (["PICTURES", "--transform", "no.such:thing"], "--transform no.such:thing: No module named 'no'"),
        (["PICTURES", "--transform", "SCRIPT:train"], "--transform SCRIPT:train: SCRIPT has no train"),
        (
            ["PICTURES", "--transform", "BROKEN:train"],
            "--transform BROKEN: ZeroDivisionError: division by zero",
        ),
        (
            ["PICTURES", "--transform", "broken_module:train"],
            "--transform broken_module:train: NameError: name 'undefined' is not defined",
        ),
        (
            ["PICTURES", "--transform", "leaving_module:train"],
            "--transform leaving_module:train: SystemExit: 3",
        ),
        (["PICTURES", "--transform", "builtins:len"], "only what runs natively can be profiled"),
        (["PICTURES", "--memory", "some"], "'some' is not an amount of memory"),
    ],
)
def test_what_cannot_be_profiled_is_one_line_and_status_2(
    picture_folder, short, tmp_path, monkeypatch, arguments, message
):
    (tmp_path / "broken_module.py").write_text("train = undefined\n")
    (tmp_path / "leaving_module.py").write_text("raise SystemExit(3)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    places = {"EMPTY": tmp_path / "empty", "SCRIPT": tmp_path / "script.py", "BROKEN": tmp_path / "broken.py"}
    places["EMPTY"].mkdir()
    places["SCRIPT"].write_text("x = 1\n")
    places["BROKEN"].write_text("x = 1 / 0\n")
    places["PICTURES"] = picture_folder
    for name, place in places.items():
        arguments = [one.replace(name, str(place)) for one in arguments]
        message = message.replace(name, str(place))
    result = RUN.invoke(app, ["profile", *arguments])
    assert (result.exit_code, result.stdout.strip()) == (2, "")
    assert result.stderr.startswith(f"seneca profile: {message}") and result.stderr.count("\n") == 1


def test_a_module_of_the_current_folder_is_found_and_the_path_is_as_it_was(
    picture_folder, short, tmp_path, monkeypatch
):
    (tmp_path / "module_here.py").write_text(
        "from seneca import transforms as T\ntrain = T.Compose([T.RandomResizedCrop(16)])\n"
    )
    monkeypatch.chdir(tmp_path)
    before = [*sys.path]
    result = RUN.invoke(app, ["profile", str(picture_folder), "--transform", "module_here:train"])
    assert result.exit_code == 0, result.stderr
    assert sys.path == before


def test_where_seneca_is_off_there_is_nothing_to_measure(picture_folder, monkeypatch):
    monkeypatch.setenv("SENECA_DISABLE", "1")
    result = RUN.invoke(app, ["profile", str(picture_folder)])
    assert result.exit_code == 2
    assert result.stderr == "seneca profile: there is nothing to measure here: SENECA_DISABLE is set\n"


def test_the_jobs_of_a_what_if_keep_their_pace():
    profile, jobs = parse_what_if("jobs=3").given(ROUND, Jobs(1, step_per_s=70.0))
    assert (profile, jobs.paces) == (ROUND, (70.0,) * 3)
