"""Measuring a host: what a profile of real files says, and what it does where it cannot measure."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sizes import size

import seneca
from seneca import transforms as T
from seneca._core.codec import Codec
from seneca.errors import DecodeError, PlanError
from seneca.partition import Cost, Profile
from seneca.transforms._pipeline import compile_transform
from seneca.tuning import host, work
from seneca.tuning import profile as measure


@pytest.fixture(autouse=True)
def short(tmp_path, monkeypatch):
    """Measurements of a moment, kept in a folder of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("STORAGE_S", "ALONE_S", "TOGETHER_S", "STEP_S"):
        monkeypatch.setattr(measure, name, size(0.05, 0.2))
    monkeypatch.setattr(measure, "MEMORY_S", 0.02)


def test_a_profile_is_of_these_files_and_this_transform(picture_folder):
    dataset = seneca.ImageFolder(picture_folder, T.Compose([T.Resize((40, 48)), T.RandomCrop(32)]))
    reports = []
    found = seneca.profile(
        dataset, step=123.0, cache_bytes="1MiB", progress=lambda *what: reports.append(what)
    )
    sizes = [os.path.getsize(path) for path, _ in dataset.samples]
    assert found.samples == 48
    assert found.encoded.mean_bytes == pytest.approx(np.mean(sizes))
    assert found.decoded.mean_bytes == 40 * 48 * 3 and found.decoded.std_bytes == 0
    assert found.augmented.mean_bytes == 32 * 32 * 3
    assert found.batch_bytes == 32 * 32 * 3 * 4
    assert (found.step_per_s, found.cache_bytes, found.deterministic) == (123.0, 1 << 20, False)
    assert found.dataset == dataset.fingerprint().hex()
    assert found.cores == host.cores()
    assert [reading.readers for reading in found.storage] == [1, 2, 4, 8, 16, 32]
    for stage in (*work.STAGES, *work.RECODED_STAGES):
        cost = getattr(found, stage)
        assert isinstance(cost, Cost) and cost.one_s > 0 and cost.all_s > 0
    payloads = [Codec().recode(Path(path).read_bytes()) for path, _ in dataset.samples]
    payloads = [one.nbytes for one in payloads if one is not None]
    assert 0 < len(payloads) < 48 and found.recodable == len(payloads) / 48
    assert found.recoded.mean_bytes == pytest.approx(np.mean(payloads))
    shares = [share for share, _ in reports]
    assert shares == sorted(shares) and shares[0] == 0 and shares[-1] == 1


def test_a_measurement_is_kept_and_recalled(picture_folder, monkeypatch):
    first = seneca.profile(picture_folder, cache_bytes="1MiB")
    monkeypatch.setattr(measure, "_measure", lambda *arguments: pytest.fail("measured again"))
    again = seneca.profile(picture_folder, cache_bytes="2MiB", step=10)
    assert again.storage == first.storage and again.prepare == first.prepare
    assert (again.cache_bytes, again.step_per_s) == (2 << 20, 10)
    with pytest.raises(pytest.fail.Exception):
        seneca.profile(picture_folder, fresh=True)
    with pytest.raises(pytest.fail.Exception):  # other files
        os.utime(next(picture_folder.rglob("*.jpg")), (1, 1))
        seneca.profile(picture_folder)


def test_a_measurement_that_another_user_could_have_written_is_not_recalled(picture_folder):
    first = seneca.profile(picture_folder)
    path = measure.profile_path(first.host, first.dataset, first.pipeline)
    dataclasses.replace(first, samples=7).save(path)
    path.parent.chmod(0o777)
    again = seneca.profile(picture_folder)
    assert again.samples == first.samples == 48
    assert any("could not be kept" in note and "its mode is 0777" in note for note in again.notes)


def test_another_transform_is_another_measurement(picture_folder):
    first = seneca.profile(picture_folder)
    other = seneca.profile(picture_folder, transform=T.Compose([T.RandomResizedCrop(64)]))
    assert first.dataset == other.dataset and first.pipeline != other.pipeline


@pytest.mark.whole_size(shown_by="test_another_transform_is_another_measurement")
def test_a_profile_of_another_version_is_measured_anew(picture_folder):
    first = seneca.profile(picture_folder)
    path = measure.profile_path(first.host, first.dataset, first.pipeline)
    fields = json.loads(path.read_text())
    path.write_text(json.dumps({**fields, "version": 99}))
    again = seneca.profile(picture_folder)
    assert again.version == first.version and Profile.load(path).version == first.version


@pytest.mark.small(1)
@pytest.mark.parametrize("home", ["/dev/null", "/proc/nowhere"])
def test_without_a_home_it_is_measured_and_not_kept(picture_folder, monkeypatch, home):
    """As of users that services run as."""
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", home)
    dataset = seneca.ImageFolder(picture_folder, measure.default_transform())
    found = seneca.profile(dataset)
    assert found.samples == 48 and any("could not be kept" in note for note in found.notes)
    pipeline = compile_transform(dataset.transform)
    assert measure.recall(dataset.fingerprint().hex(), pipeline) is None


def test_torch_is_not_needed_for_a_folder_of_jpegs(picture_folder, tmp_path):
    code = f"""if True:
        import sys, seneca.tuning.profile as measure
        measure.STORAGE_S = measure.ALONE_S = measure.TOGETHER_S = measure.MEMORY_S = 0.02
        measure.profile({str(picture_folder)!r})
        assert "torch" not in sys.modules"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=os.getcwd())


def test_the_pace_of_a_step_is_measured(picture_folder, monkeypatch):
    monkeypatch.setattr(measure, "STEP_S", 0.0)  # one step
    seen = []

    def step(images, labels):
        seen.append((tuple(images.shape), str(images.dtype), tuple(labels.shape)))

    found = seneca.profile(picture_folder, step=step, batch_size=6)
    assert seen == [((6, 3, 224, 224), "torch.float32", (6,))] * (measure.WARM_UP_STEPS + 1)
    assert found.step_per_s > 0


@pytest.mark.parametrize("step", [0.0, -1.0, math.nan, math.inf])
def test_a_pace_that_is_none_is_refused(picture_folder, step):
    with pytest.raises(ValueError, match="step is samples a second, above 0"):
        seneca.profile(picture_folder, step=step)


def test_what_cannot_be_measured_is_refused(picture_folder, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError):
        seneca.profile(tmp_path / "empty")
    with pytest.raises(PlanError, match="only what runs natively can be profiled"):
        seneca.profile(seneca.ImageFolder(picture_folder, transform=lambda picture: picture))
    with pytest.raises(ValueError, match="a dataset has its own transform"):
        seneca.profile(seneca.ImageFolder(picture_folder), transform=T.Compose([T.RandomCrop(8)]))


def test_pictures_that_cannot_be_decoded_are_left_out_and_reported(picture_folder):
    for path in list(picture_folder.rglob("*.jpg"))[:10]:
        path.write_bytes(b"\xff\xd8\xff\xe0 no more of it")
    found = seneca.profile(picture_folder)
    assert any("could not be decoded and were left out" in note for note in found.notes)
    for path in picture_folder.rglob("*.jpg"):
        path.write_bytes(b"\xff\xd8\xff\xe0 no more of it")
    with pytest.raises(DecodeError, match=r"none of \d+ pictures could be decoded"):
        seneca.profile(picture_folder)


def test_pictures_that_pillow_decodes_are_measured_and_reported(tmp_path):
    for number in range(4):
        (tmp_path / "pictures" / "a").mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (50 + number, 60)).save(tmp_path / "pictures" / "a" / f"{number}.bmp")
    found = seneca.profile(tmp_path / "pictures", transform=T.Compose([T.RandomResizedCrop(16)]))
    assert found.augmented.mean_bytes == 16 * 16 * 3
    assert any("are left to Pillow" in note for note in found.notes)
