"""The form RECODED in a loader: which files have it, who uses it, and that pixels stay what they are."""

import io

import numpy as np
import pytest
import simplejpeg
import torch
from PIL import Image

import seneca
from seneca import transforms as T
from seneca.errors import PictureTooLargeError
from seneca.forms import UNRECODED

TRAIN = T.Compose([T.RandomResizedCrop(32), T.RandomHorizontalFlip(), T.ToTensor()])
OTHER = T.Compose([T.Resize(40), T.CenterCrop(32)])


def load(folder, transform=TRAIN, **options):
    options = {
        "cache": None,
        "cache_bytes": "4MiB",
        "split": "0-100-0-0",
        "share": "none",
        "check_every": None,
    } | options
    generator = torch.Generator().manual_seed(3)
    data = seneca.ImageFolder(folder, transform)
    return seneca.DataLoader(data, 8, shuffle=True, generator=generator, **options)


def epochs_of(loader, epochs=3):
    return [torch.cat([images.clone() for images, _ in loader]) for _ in range(epochs)]


@pytest.fixture
def recodable_folder(picture_folder):
    """The pictures without those of rare samplings."""
    for path in picture_folder.rglob("*.jpg"):
        if path.stem in ("03", "04", "08", "09"):
            path.unlink()
    return picture_folder


@pytest.mark.parametrize("workers", [0, 2])
def test_from_the_second_epoch_on_pictures_come_from_it_with_the_same_pixels(recodable_folder, name, workers):
    alone = epochs_of(load(recodable_folder, num_workers=workers))
    loader = load(recodable_folder, cache=name, num_workers=workers)
    shared = epochs_of(loader)
    assert all(map(torch.equal, alone, shared))
    stats, n = loader.stats(), len(loader.dataset)
    assert stats["served"] == {"storage": n, "encoded": 0, "recoded": 2 * n, "decoded": 0, "augmented": 0}
    assert stats["cache"]["payloads"]["recoded"] == n and sum(stats["unrecoded"].values()) == 0
    assert "not kept RECODED" not in loader.explain()


def test_a_job_with_another_transform_uses_the_payloads(recodable_folder, name):
    first = load(recodable_folder, cache=name)
    epochs_of(first, 1)
    second = load(recodable_folder, OTHER, cache=name)
    assert torch.equal(*(epochs_of(one, 1)[0] for one in (load(recodable_folder, OTHER), second)))
    assert second.stats()["served"]["recoded"] == len(second.dataset)


def test_a_jobs_own_limit_of_pixels_counts_for_what_others_have_kept(recodable_folder, name):
    first = load(recodable_folder, cache=name)
    epochs_of(first, 1)
    limited = seneca.ImageFolder(recodable_folder, TRAIN, max_pixels=100)
    second = seneca.DataLoader(limited, 8, cache=name, cache_bytes="4MiB", split="0-100-0-0")
    with pytest.raises(PictureTooLargeError):
        next(iter(second))
    assert second.stats()["damaged"] == 0


def jpeg(**options):
    file = io.BytesIO()
    pixels = np.random.default_rng(1).integers(0, 256, (9, 12, 3), np.uint8)
    picture = Image.fromarray(pixels).resize((48, 36), Image.Resampling.BICUBIC)
    picture.convert(options.pop("mode", "RGB")).save(file, options.pop("format", "JPEG"), **options)
    return file.getvalue()


def turned():
    exif = Image.Exif()
    exif[0x0112] = 6
    return jpeg(exif=exif)


def of_sampling(sampling):
    pixels = np.random.default_rng(1).integers(0, 256, (36, 48, 3), np.uint8)
    return simplejpeg.encode_jpeg(pixels, 90, "RGB", sampling)


def tiny_and_dense():
    """Few bytes for many blocks: each block's head is as long as its codes."""
    file = io.BytesIO()
    Image.new("RGB", (512, 512)).save(file, "JPEG", quality=10, optimize=True)
    return file.getvalue()


def wild():
    """Quantisers of 255 in place of what the coefficients were divided by."""
    data = bytearray(jpeg(quality=95))
    tables = [at for at in range(len(data) - 1) if data[at : at + 2] == b"\xff\xdb"]
    for at in tables:
        length = int.from_bytes(data[at + 2 : at + 4])
        for k in range((length - 2) // 65):
            begin = at + 4 + 65 * k + 1
            data[begin : begin + 64] = b"\xff" * 64
    return bytes(data)


WITHOUT = {
    "a PNG": ("kind", lambda: jpeg(format="PNG")),
    "CMYK": ("kind", lambda: jpeg(mode="CMYK")),
    "4:4:0": ("kind", lambda: of_sampling("440")),
    "4:1:1": ("kind", lambda: of_sampling("411")),
    "wild coefficients": ("damaged", wild),
    "many blocks of few bits": ("large", tiny_and_dense),
}


@pytest.mark.parametrize("kind", WITHOUT)
def test_a_file_that_has_none_stays_encoded_and_is_counted_once(kind, tmp_path, name):
    why, make = WITHOUT[kind]
    (tmp_path / "class").mkdir()
    (tmp_path / "class" / "picture.jpg").write_bytes(make())
    (tmp_path / "class" / "sound.jpg").write_bytes(jpeg(quality=90))
    alone = epochs_of(load(tmp_path))
    loader = load(tmp_path, cache=name, split="50-50-0-0")
    assert all(map(torch.equal, alone, epochs_of(loader)))
    stats = loader.stats()
    assert stats["unrecoded"] == dict.fromkeys(UNRECODED, 0) | {why: 1}
    served = {form: stats["served"][form] for form in ("storage", "encoded", "recoded")}
    assert served == {"storage": 2, "encoded": 2, "recoded": 2}
    assert f"1 files were not kept RECODED: 1 {UNRECODED[why]}" in loader.explain()


def test_a_file_that_has_none_is_tried_once_a_job_where_nothing_else_keeps_it(tmp_path, name):
    (tmp_path / "class").mkdir()
    for number in range(4):
        (tmp_path / "class" / f"{number}.jpg").write_bytes(of_sampling("411"))
    loader = load(tmp_path, cache=name)
    epochs_of(loader)
    assert loader.stats()["served"]["storage"] == 12 and loader.stats()["unrecoded"]["kind"] == 4


def test_a_file_that_is_refused_is_not_counted(tmp_path, name):
    (tmp_path / "class").mkdir()
    data = jpeg(quality=95)
    (tmp_path / "class" / "cut.jpg").write_bytes(data[: len(data) // 2])
    (tmp_path / "class" / "sound.jpg").write_bytes(data)
    loader = load(tmp_path, cache=name, on_error="skip")
    assert [len(images) for images in epochs_of(loader)] == [1, 1, 1]
    assert sum(loader.stats()["unrecoded"].values()) == 0


def test_a_picture_that_is_turned_upright_has_none(tmp_path, name):
    (tmp_path / "class").mkdir()
    (tmp_path / "class" / "turned.jpg").write_bytes(turned())
    data = seneca.ImageFolder(tmp_path, OTHER, apply_exif_orientation=True)
    loader = seneca.DataLoader(data, 1, cache=name, cache_bytes="1MiB", split="50-50-0-0", share="none")
    alone = seneca.DataLoader(data, 1, cache=None)
    for _ in range(2):
        assert torch.equal(next(iter(loader))[0], next(iter(alone))[0])
    assert loader.stats()["unrecoded"]["kind"] == 1
