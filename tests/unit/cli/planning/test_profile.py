"""seneca profile: what it prints, and what it refuses."""

from __future__ import annotations

import json
import sys

import pytest
from typer.testing import CliRunner

from seneca.cli.app import app
from seneca.partition import Profile
from seneca.tuning import profile as measure

RUN = CliRunner()


@pytest.fixture
def short(tmp_path, monkeypatch):
    """Measurements of a moment, kept in a folder of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("STORAGE_S", "ALONE_S", "TOGETHER_S", "MEMORY_S", "STEP_S"):
        monkeypatch.setattr(measure, name, 0.05)


def words(result):
    """What was printed, as one line of words."""
    return " ".join(result.stdout.split())


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
    for what in ("48 samples on", "fetch, from the page cache", "cache 8 MiB", "Storage, files at a time"):
        assert what in text
    planned = RUN.invoke(app, ["plan", str(picture_folder), "--transform", f"{ours}:train", "--json"])
    assert planned.exit_code == 0, planned.stderr
    assert json.loads(planned.stdout)["now"]["cores"] == found.cores


@pytest.mark.small(4)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["/nowhere"], "there is no folder /nowhere; give another"),
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


@pytest.mark.whole_size(shown_by="test_a_folder_is_measured_and_shown")
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
