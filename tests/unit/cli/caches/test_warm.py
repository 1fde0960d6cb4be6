"""seneca warm: what it fills serves the jobs that come, and what it cannot fill it says."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import time

import pytest
import ready
from typer.testing import CliRunner

import seneca
from seneca import transforms as T
from seneca.cli.app import app
from seneca.cli.caches import warm
from seneca.cli.caches.warm import _is_full
from seneca.segments import State, find

PATIENCE_S = 60


@pytest.fixture
def name(name):
    """A cache of this test's own, which seneca warm keeps, and this removes."""
    yield name
    for entry in os.listdir("/dev/shm"):
        if entry.endswith(name):
            os.unlink(f"/dev/shm/{entry}")


def run(folder, name, *arguments):
    command = ["warm", str(folder), "--cache", name, "--memory", "8MiB", *map(str, arguments)]
    return CliRunner().invoke(app, command)


def job(folder, name, transform):
    """What a job is served that comes later."""
    data = seneca.ImageFolder(folder, transform=transform)
    loader = seneca.DataLoader(data, 16, shuffle=True, num_workers=1, cache=name, cache_bytes="8MiB")
    assert sum(len(images) for images, _ in loader) == len(data)
    return loader.stats()["served"]


@pytest.mark.small(1)
@pytest.mark.parametrize(("split", "form"), [("0-100-0", "decoded"), ("100-0-0", "encoded")])
def test_a_job_that_comes_finds_all_of_it(picture_folder, name, split, form):
    result = run(picture_folder, name, "--split", split, "--keep", "2min", "--workers", 1)
    assert result.exit_code == 0, result.output
    assert f"48 {form}" in result.output and "it stays 2min after its last user" in result.output
    found = find(name)
    assert (found.state, found.view.keep_s, found.view.payloads[form]) == (State.KEPT, 120, 48)
    served = job(picture_folder, name, T.Compose([T.RandomResizedCrop(32), T.RandomHorizontalFlip()]))
    assert served == {**dict.fromkeys(served, 0), form: 48}


def test_decoded_pictures_are_those_of_the_transform(picture_folder, name, tmp_path):
    script = tmp_path / "mine.py"
    script.write_text(
        "from seneca import transforms as T\nmine = T.Compose([T.Resize(40), T.RandomCrop(32)])\n"
    )
    result = run(picture_folder, name, "--split", "0-100-0", "--transform", f"{script}:mine")
    assert result.exit_code == 0, result.output
    served = job(picture_folder, name, T.Compose([T.Resize(40), T.RandomCrop(24)]))
    assert served["decoded"] == 48


def test_it_goes_on_where_an_earlier_one_has_ended(picture_folder, name):
    assert run(picture_folder, name, "--split", "100-0-0").exit_code == 0
    result = run(picture_folder, name, "--split", "100-0-0")
    assert result.exit_code == 0 and "48 encoded" in result.output


def test_it_stops_when_there_is_no_more_room(picture_folder, name, monkeypatch):
    monkeypatch.setattr(warm, "CHECK_EVERY_S", 0.0)
    monkeypatch.setattr(warm, "BATCH", 4)
    command = ["warm", str(picture_folder), "--cache", name, "--memory", "64KiB", "--split", "0-100-0"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    held = find(name).view.payloads["decoded"]
    assert 0 < held < 48 and f"{held} decoded" in result.output


@pytest.mark.parametrize(
    ("bytes_", "budget", "full"),
    [
        ((0, 0), (1000, 1000), False),
        ((0, 900), (0, 1000), True),
        ((0, 700), (0, 1000), False),
        ((500, 900), (1000, 1000), False),
        ((900, 900), (1000, 1000), True),
    ],
)
def test_it_is_full_when_no_form_has_room(bytes_, budget, full):
    """Payloads of 100 bytes."""
    forms = ("encoded", "decoded", "recoded")
    bytes_, budget = (*bytes_, 0), (*budget, 0)
    holds = {
        "bytes": dict(zip(forms, bytes_, strict=True)),
        "payloads": {form: held // 100 for form, held in zip(forms, bytes_, strict=True)},
        "budget_bytes": dict(zip(forms, budget, strict=True)),
        "writing": 0,
    }
    assert _is_full(holds) is full
    assert _is_full(holds | {"writing": 1}) is False, "these would be lost"
    assert _is_full(None) is False


def test_what_one_form_has_no_room_for_another_keeps(picture_folder, name):
    """All are drawn before the form that is tried first is full."""
    result = run(picture_folder, name, "--split", "99-1-0")
    assert result.exit_code == 0 and "not kept" not in result.output, result.output
    held = find(name).view.payloads
    assert 0 < held["decoded"] < 48 and held["encoded"] == 48 - held["decoded"]


def test_what_is_not_kept_is_counted_with_the_reason(picture_folder, name):
    command = ["warm", str(picture_folder), "--cache", name, "--memory", "64KiB", "--split", "0-100-0"]
    said = CliRunner().invoke(app, command).output
    held = find(name).view.payloads["decoded"]
    assert f"{48 - held} samples are not kept: there is no room for them in 64 KiB" in said
    assert f"`seneca rm {name}`, and give more --memory" in said
    again = CliRunner().invoke(app, [*command, "--memory", "8MiB"]).output
    assert f"the cache {name} was there already: its size (64 KiB) and its split stay" in again


@pytest.mark.small(1)
@pytest.mark.parametrize("memory", ["1B", "4KiB"])
def test_a_memory_in_which_nothing_fits_makes_no_cache(picture_folder, name, memory):
    command = ["warm", str(picture_folder), "--cache", name, "--memory", memory, "--split", "0-100-0"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 2 and len(result.output.strip().splitlines()) == 1
    assert "not one of 48 samples fits in 4 KiB" in result.output and "give more --memory" in result.output
    with pytest.raises(FileNotFoundError):
        find(name)


def test_a_cache_in_which_nothing_fits_stays_if_another_made_it(picture_folder, name):
    data = seneca.ImageFolder(picture_folder)
    with seneca.SampleCache.create(name, data, cache_bytes="4KiB", split="0-100-0"):
        result = run(picture_folder, name)
        assert result.exit_code == 2 and f"`seneca rm {name}`, and give more --memory" in result.output
        assert find(name).state is State.IN_USE


@pytest.mark.whole_size(shown_by="test_what_is_not_kept_is_counted_with_the_reason")
def test_what_is_kept_for_no_time_is_said_to_go(picture_folder, name):
    result = run(picture_folder, name, "--keep", "0s")
    assert result.exit_code == 0 and "--keep 0s does not keep it" in result.output
    with pytest.raises(FileNotFoundError):
        find(name)


TRANSFORMS = r"""
import torch, seneca
def raises(picture):
    raise KeyError("two\nlines")
def no_tensor(picture):
    return None
def of_many_shapes(picture):
    return torch.zeros(picture.size)
def works(picture):
    return torch.zeros(3)
if __name__ == "__main__":
    raise SystemExit("it trains")
"""


@pytest.mark.small(1)
@pytest.mark.parametrize(
    ("transform", "words"),
    [("raises", "KeyError"), ("no_tensor", "TypeError"), ("of_many_shapes", "RuntimeError")],
)
def test_a_transform_that_fails_is_one_line(picture_folder, name, tmp_path, transform, words):
    script = tmp_path / "mine.py"
    script.write_text(TRANSFORMS)
    gc.disable()  # a collection would end the workers, too, but late: torch would wait for them
    try:
        result = run(picture_folder, name, "--transform", f"{script}:{transform}")
        assert multiprocessing.active_children() == [], "the workers have ended"
    finally:
        gc.enable()
    assert result.exit_code == 2 and len(result.output.strip().splitlines()) == 1, result.output
    assert f"--transform {script}:{transform}: {words}" in result.output
    assert "returns a tensor, of one shape" in result.output
    with pytest.raises(FileNotFoundError):
        find(name)


def test_a_transform_in_python_brings_no_warning(picture_folder, name, tmp_path, recwarn):
    script = tmp_path / "mine.py"
    script.write_text(TRANSFORMS)
    result = run(picture_folder, name, "--split", "0-100-0", "--transform", f"{script}:works")
    assert result.exit_code == 0 and "48 decoded" in result.output, result.output
    assert not [warning for warning in recwarn if issubclass(warning.category, seneca.SenecaWarning)]


def test_broken_pictures_are_counted_and_passed_over(picture_folder, name):
    path = next(picture_folder.glob("*/*.jpg"))
    path.write_bytes(b"no picture")
    with pytest.warns(seneca.SenecaWarning, match="skipped"):
        result = run(picture_folder, name, "--split", "0-100-0")
    assert result.exit_code == 0 and "1 pictures cannot be read" in result.output


@pytest.mark.small(2)
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--keep", "0"), "keep is a time"),
        (("--keep", "soon"), "keep"),
        (("--split", "1-2"), "split"),
        (("--transform", "nowhere"), "--transform nowhere"),
        (("--memory", "7TiB"), "MiB free"),
    ],
)
def test_what_cannot_be_filled_is_one_line(picture_folder, name, arguments, words):
    result = run(picture_folder, name, *arguments)
    assert result.exit_code == 2
    assert words in result.output and len(result.output.strip().splitlines()) == 1
    with pytest.raises(FileNotFoundError):
        find(name)


def test_what_is_no_folder_of_pictures_is_said(tmp_path, name):
    assert "there is no folder" in run(tmp_path / "none", name).output
    result = run(tmp_path, name)
    assert result.exit_code == 2 and str(tmp_path) in result.output


def test_where_seneca_is_off_it_says_so(picture_folder, name, monkeypatch):
    monkeypatch.setenv("SENECA_DISABLE", "1")
    result = run(picture_folder, name)
    assert result.exit_code == 2 and "SENECA_DISABLE" in result.output


def test_a_ctrl_c_leaves_what_is_filled(picture_folder, name):
    """Each batch waits until it is interrupted, once some pictures are kept."""
    script = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from seneca.cli.caches import warm\n"
        "warm.BATCH, warm.CHECK_EVERY_S, full = 8, 0.0, warm._is_full\n"
        "def slow(holds):\n"
        "    if holds['payloads']['encoded'] >= 16:\n"
        "        print('filled', flush=True)\n"
        "        time.sleep(1000)\n"
        "    return full(holds)\n"
        "warm._is_full = slow\n"
        f"wanted = warm.Wanted(Path({str(picture_folder)!r}), None, '8MiB', '100-0-0', '1min', {name!r}, 1)\n"
        "sys.exit(warm.run(wanted))\n"
    )
    child = ready.Script("-c", script)
    assert child.stdout.readline() == "filled\n"
    time.sleep(0.2)  # it sleeps now
    child.send_signal(signal.SIGINT)
    said = child.communicate(timeout=PATIENCE_S)[0]
    assert child.returncode == 130 and "encoded" in said
    found = find(name)
    assert found.state is State.KEPT and found.view.payloads["encoded"] >= 16
