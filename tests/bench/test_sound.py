"""What bench_sound compares is the same sounds; each loader is measured; what is missing is named."""

import json
import subprocess
import sys
from pathlib import Path

import bench_sound
import pytest
import sound_peers
import torch
from oracle import sounds

import seneca
from seneca.testing import make_sounds

CLIP_FRAMES = 8000


@pytest.fixture(scope="module")
def clips(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clips")
    bench_sound.make_clips(folder, None, 4, 1.0)
    return folder


def setup_of(folder, frames):
    return sound_peers.Setup(folder, 4, 2, 1, frames, CLIP_FRAMES, "unused")


def test_clips_are_made_of_tones_or_of_recordings(clips, tmp_path):
    make_sounds(tmp_path / "data", count=2, classes=1)
    bench_sound.make_clips(tmp_path / "clips", tmp_path / "data", 2, 1.0)
    for folder, count in ((clips, 4), (tmp_path / "clips", 2)):
        made = seneca.SoundFolder(folder)
        assert len(made) == count == len(sound_peers.paths_of(folder))
        assert all(waveform.shape == (2, 44100) and waveform.std() > 0.01 for waveform, _ in made)
        assert not torch.equal(made[0][0], made[1][0])


@pytest.mark.parametrize("channels", [None, 2])
def test_recordings_that_do_not_fit_are_named(tmp_path, channels):
    if channels:
        make_sounds(tmp_path, count=1, classes=1, channels=channels)
    with pytest.raises(FileNotFoundError, match=f"one channel, below {tmp_path}" if channels else "no .wav"):
        bench_sound.make_clips(tmp_path / "clips", tmp_path, 1, 1.0)


def test_torch_and_seneca_load_the_same(clips):
    whole = sound_peers.Clips(setup_of(clips, CLIP_FRAMES), part=False)
    ours = seneca.SoundFolder(clips, rate=8000, mono=True)
    for number in range(4):
        assert whole[number][0].shape == (1, CLIP_FRAMES)
        assert torch.allclose(whole[number][0], ours[number][0], atol=1e-5)


def test_a_part_is_the_crop_but_for_its_ends(clips, monkeypatch):
    monkeypatch.setattr(sound_peers.random, "randint", lambda least, most: 3200)  # 17,640 in the file
    part, whole = (
        sound_peers.Clips(setup_of(clips, 1600), part=part)[0][0][:, 20:-20] for part in (True, False)
    )
    assert torch.allclose(part, whole, atol=1e-5)


def test_the_plain_resample_is_torchaudio_s():
    sound = torch.randn(2, 5000, generator=torch.Generator().manual_seed(0))
    made = sound_peers.Resample(44100, 8000)(sound)
    assert torch.allclose(made, sounds.resample(sound, 44100, 8000), atol=1e-5)


@pytest.mark.small(2)
@pytest.mark.parametrize("name", ["seneca-two", "torch", "seneca-decoded", "seneca", "torch-part"])
def test_a_loader_is_measured(clips, capsys, scratch_folder, name):
    arguments = ["measure", name, "--folder", str(clips), "--samples", "4", "--frames", "4000"]
    arguments += ["--clip-frames", str(CLIP_FRAMES), "--batch", "2", "--cache", f"test-{name}"]
    try:
        assert sound_peers.main([*arguments, "--warm", "0.05", "--seconds", "0.1"]) == 0
    finally:
        bench_sound.left_behind(f"test-{name}-*")
    measured = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert measured["per_s"] > 0 and measured["cpu_ms"] >= 0


def test_rows_have_the_medians_of_their_rounds_and_of_the_ratios():
    def rounds(*pairs):
        return [{"per_s": per_s, "cpu_ms": cpu_ms} for per_s, cpu_ms in pairs]

    torch_s, ours = rounds((10, 8), (20, 4), (10, 8)), rounds((30, 2), (40, 2), (50, 1))
    row = bench_sound.row_of("seneca", "whole", ours, torch_s)
    assert (row["per_s"], row["cpu_ms"], row["vs_torch"], row["cpu_vs_torch"]) == (40, 2, 3.0, 4.0)
    assert bench_sound.lines_of([row]) == [["whole", "seneca", "40", "50%", "3.00 x", "2.00", "4.00 x"]]
    assert bench_sound.duels({("whole", "torch"): torch_s, ("whole", "seneca"): ours}) == [
        ["seneca / torch", "3.00 x", "4.00 x", "", ""]
    ]


def test_what_is_missing_is_named(monkeypatch, capsys):
    answers = {name: {"text": "a loader", "missing": None, "versions": ["1"]} for name in sound_peers.PEERS}
    answers["spdl"]["missing"] = "FFmpeg's libraries"
    monkeypatch.setattr(bench_sound, "last_line", lambda command, cpus: answers)
    assert bench_sound.present(["torch", "spdl"], bench_sound.parse([])) == ["torch"]
    printed = capsys.readouterr().out
    assert printed == "torch: a loader (1)\nspdl is left out: it needs FFmpeg's libraries\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "/nowhere"], "no such folder: /nowhere"),
        (["--only", "torch,best"], "no loader best"),
        (["--rounds", "0"], "at least 1"),
        (["--seconds", "0"], "must be positive"),
        (["--peer-python", "/nowhere/python"], "no such interpreter"),
    ],
)
def test_a_mistake_on_the_command_line_ends_with_status_2(arguments, message, capsys):
    with pytest.raises(SystemExit) as ended:
        bench_sound.parse(arguments)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.whole_size(shown_by="test_a_loader_is_measured")
def test_all_of_it_runs(tmp_path):
    command = [sys.executable, "-m", "bench.bench_sound", "--only", "seneca", "--rounds", "2", "--clips", "2"]
    command += ["--clip-seconds", "1", "--links", "8", "--seconds", "0.1", "--json", str(tmp_path / "x.json")]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert ran.returncode == 0, ran.stderr
    rows = json.loads((tmp_path / "x.json").read_text())
    assert [(row["shape"], row["what"]) for row in rows] == [("whole", "seneca"), ("sixth", "seneca")]
