"""SoundFolder, SoundList and seneca.open(): which sounds they have, and what their items are."""

import io
import pickle
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

import seneca
from seneca import SoundFolder, SoundList
from seneca import transforms as T
from seneca.data.archive import PictureArchive, SoundArchive
from seneca.data.support import inspect_dataset
from seneca.errors import DecodeError, PlanError
from seneca.testing import make_pictures, make_sounds

FORMATS = {"WAV": "wav", "FLAC": "flac", "OGG": "ogg", "MP3": "mp3"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_sounds(tmp_path_factory.mktemp("sounds"), count=7, classes=3, channels=2)


def test_classes_samples_and_order_are_those_of_an_image_folder(folder):
    dataset = SoundFolder(folder)
    assert dataset.classes == ["class_00", "class_01", "class_02"]
    assert [Path(path).name for path, _ in dataset.samples][:3] == [f"sound_0000{i}.wav" for i in (0, 3, 6)]
    assert dataset.targets == [0, 0, 0, 1, 1, 2, 2] == [label for _, label in dataset.samples]
    assert dataset.class_to_idx["class_02"] == 2 and len(dataset) == 7


def test_an_item_without_a_transform_is_what_soundfile_reads(folder):
    dataset = SoundFolder(folder)
    for index, (path, label) in enumerate(dataset.samples):
        waveform, target = dataset[index]
        frames, _ = soundfile.read(path, dtype="float32", always_2d=True)
        assert waveform.dtype is torch.float32 and torch.equal(waveform, torch.from_numpy(frames.T))
        assert target == label


def test_rate_and_mono_are_what_the_transforms_do(folder):
    by_arguments = SoundFolder(folder, T.TimeCrop(3000), rate=8000, mono=True)
    by_transforms = SoundFolder(folder, T.Compose([T.Mono(), T.Resample(8000), T.TimeCrop(3000)]))
    for index in range(len(by_arguments)):
        assert by_arguments[index][0].shape == (1, 3000)
        assert torch.equal(by_arguments[index][0], by_transforms[index][0])


@pytest.mark.parametrize("form", FORMATS)
def test_formats(tmp_path, form):
    if form not in soundfile.available_formats():
        pytest.skip(f"this libsndfile has no {form}")
    time = np.arange(22050) / 22050
    tone = np.stack([np.sin(440 * 2 * np.pi * time), np.cos(440 * 2 * np.pi * time)], 1) * 0.5
    (tmp_path / "a").mkdir()
    soundfile.write(tmp_path / "a" / f"tone.{FORMATS[form]}", tone, 22050)
    waveform, _ = SoundFolder(tmp_path, mono=True)[0]
    assert waveform.shape[0] == 1 and waveform.shape[1] >= 22050
    power = float((waveform**2).mean())
    assert 0.05 < power < 0.2  # the mean of a sine and a cosine of 0.5 has 0.0625 * 2


def test_a_python_transform_gets_the_waveform_at_the_rate(folder):
    dataset = SoundFolder(folder, lambda waveform: waveform.shape, rate=8000, mono=True)
    shape, _ = dataset[0]
    frames, rate = soundfile.read(dataset.samples[0][0])
    assert shape == (1, -(-len(frames) * 8000 // rate))


def test_a_damaged_file_is_named(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "cut.flac").write_bytes(b"fLaC and no more")
    with pytest.raises(DecodeError, match=r"cut\.flac") as caught:
        SoundFolder(tmp_path)[0]
    assert "0x" not in str(caught.value)  # soundfile's message has the address of an object


def test_a_list_has_targets_of_any_kind_and_relative_paths(folder):
    paths = [str(path.relative_to(folder)) for path in sorted(folder.glob("*/*.wav"))]
    dataset = SoundList([(path, path.upper()) for path in paths], root=folder, mono=True)
    assert dataset[2][1] == paths[2].upper() and dataset[2][0].shape[0] == 1
    assert dataset.root == str(folder)
    with pytest.raises(ValueError, match="path of entry 0"):
        SoundList([(paths[0], 1), (paths[0], 2)], root=folder)
    with pytest.raises(FileNotFoundError, match="of entry 1"):
        SoundList([(paths[0], 1), ("nowhere.wav", 2)], root=folder)
    with pytest.raises(ValueError, match="list of sounds is empty"):
        SoundList([])


@pytest.mark.parametrize("wrong", [{"rate": 0}, {"channels": 0}, {"channels": 65}, {"rate": "x"}])
def test_wrong_arguments(folder, wrong):
    with pytest.raises((ValueError, TypeError), match=next(iter(wrong))):
        SoundFolder(folder, **wrong)


def test_a_file_of_other_channels_is_named(folder):
    dataset = SoundFolder(folder, T.TimeCrop(100), channels=1)
    with pytest.raises(DecodeError, match=r"sound_00000\.wav.*it has 2 channels, and the pipeline expects 1"):
        dataset[0]


def test_folders_without_sounds(tmp_path, folder):
    make_pictures(tmp_path / "pictures", count=2, classes=1, sides=(16, 20))
    with pytest.raises(FileNotFoundError, match=r"\.flac"):
        SoundFolder(tmp_path / "pictures")


def test_datasets_pickle(folder):
    dataset = SoundFolder(folder, T.TimeCrop(100), rate=8000, mono=True)
    again = pickle.loads(pickle.dumps(dataset))
    assert torch.equal(again[1][0], dataset[1][0]) and repr(again) == repr(dataset)


def test_support_says_what_runs_natively_and_what_is_missing(folder):
    def of(*args, **options):
        found = inspect_dataset(SoundFolder(folder, *args, **options))
        return found.name, "; ".join(found.why)

    assert of(T.TimeCrop(100), mono=True)[0] == "native"
    assert of(T.TimeCrop(100), channels=2)[0] == "native"
    assert of(None, mono=True) == (
        "staged",
        "sounds of SoundFolder come out in different shapes, therefore workers make items: a crop to a "
        "number of frames makes them equal",
    )
    assert "mono=True or channels=" in of(T.TimeCrop(100))[1]
    assert of(torch.nn.Identity(), mono=True)[0] == "staged"
    with pytest.raises(PlanError, match="memory_format"):
        inspect_dataset(SoundFolder(folder, mono=True), channels_last=True)


@pytest.fixture(scope="module")
def containers(tmp_path_factory, folder):
    inside = tmp_path_factory.mktemp("containers")
    with tarfile.open(inside / "sounds.tar", "w") as archive:
        archive.add(folder, "sounds")
    with zipfile.ZipFile(inside / "sounds.zip", "w", zipfile.ZIP_STORED) as archive:
        for path in sorted(folder.glob("*/*")):
            archive.write(path, str(path.relative_to(folder)))
    return inside


@pytest.mark.parametrize("name", ["sounds.tar", "sounds.zip"])
@pytest.mark.parametrize("options", [{}, {"rate": 8000, "mono": True}])
def test_archives_of_sounds_are_opened(containers, folder, name, options):
    dataset = seneca.open(str(containers / name), **options)
    assert type(dataset) is SoundArchive and dataset.classes == ["class_00", "class_01", "class_02"]
    plain = SoundFolder(folder, **options)
    assert all(torch.equal(dataset[k][0], plain[k][0]) for k in range(len(plain)))


def test_open_decides_by_what_is_there_and_what_is_said(folder, tmp_path):
    both = tmp_path / "both"
    make_pictures(both, count=2, classes=1, sides=(16, 20))
    make_sounds(both, count=2, classes=1)
    assert type(seneca.open(str(folder))) is SoundFolder
    assert type(seneca.open(str(both))) is seneca.ImageFolder
    assert type(seneca.open(str(both), mono=True)) is SoundFolder
    assert type(seneca.open(str(both), T.TimeCrop(10))) is SoundFolder
    with pytest.raises(ValueError, match="image="):
        seneca.open(str(both), image="x", mono=True)
    with tarfile.open(tmp_path / "both.tar", "w") as archive:
        archive.add(both, "both")
    assert type(seneca.open(str(tmp_path / "both.tar"))) is PictureArchive
    with pytest.raises(FileNotFoundError, match="jpg"):
        seneca.open(str(make_empty(tmp_path)))


def make_empty(tmp_path):
    path = tmp_path / "empty.tar"
    with tarfile.open(path, "w") as archive:
        member = tarfile.TarInfo("a/text.txt")
        member.size = 2
        archive.addfile(member, io.BytesIO(b"no"))
    return path
