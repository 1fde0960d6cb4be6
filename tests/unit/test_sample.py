"""One picture at a time: the native core and its Pillow twin say the same, by the same seed."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from seneca import ImageFolder
from seneca import transforms as T
from seneca._pipeline import portable, sample
from seneca._pipeline.plan import compile_transform
from seneca.errors import PlanError

NORMALIZE = T.Normalize(T.IMAGENET_MEAN, T.IMAGENET_STD)


def smooth(height, width, seed=0):
    """A picture without edges, where two right answers differ by rounding only."""
    small = np.random.default_rng(seed).integers(0, 256, (4, 5, 3), dtype=np.uint8)
    return Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)


def in_pillow(transform, picture):
    return torch.from_numpy(
        portable.normalize(
            compile_transform(transform),
            portable.augment(compile_transform(transform).steps, picture, np.random.default_rng(0)),
        )
    )


@pytest.fixture
def without_core(monkeypatch):
    monkeypatch.setattr(sample, "Codec", None)


SIDE = st.integers(1, 90)
HEAD = st.one_of(st.builds(T.Resize, SIDE), st.builds(T.Resize, st.tuples(SIDE, SIDE)))


@settings(deadline=None)
@given(HEAD, st.tuples(SIDE, SIDE), st.integers(2, 120), st.integers(2, 120))
def test_resize_and_crop_are_pillows_up_to_rounding(resize, crop, height, width):
    transform = T.Compose([resize, T.CenterCrop(crop)])
    picture = smooth(height, width)
    try:
        native = transform(picture)
    except PlanError:  # so thin that a side becomes 0: Pillow refuses it too
        with pytest.raises(ValueError, match="must be > 0"):
            in_pillow(transform, picture)
        return
    assert native.shape == (3, *crop)
    assert (native - in_pillow(transform, picture)).abs().max() <= 1.01 / 255


@pytest.mark.parametrize("had", [5, 6, 7, 8])
@pytest.mark.parametrize("wanted", [5, 6, 7, 8])
def test_a_centre_crop_rounds_and_pads_as_torchvisions(had, wanted, without_core):
    """By its own arithmetic: pad the lesser half in front, else cut from the rounded middle."""
    row = np.arange(1, had + 1)
    if wanted > had:
        before = (wanted - had) // 2
        row = np.pad(row, (before, wanted - had - before))
    else:
        row = row[round((had - wanted) / 2) :][:wanted]
    pixels = np.repeat(np.arange(1, had + 1, dtype=np.uint8)[None, :, None], 4, axis=0).repeat(3, axis=2)
    out = T.CenterCrop((4, wanted))(np.ascontiguousarray(pixels))
    assert (out[0, 0] * 255).round().int().tolist() == row.tolist()


def test_the_native_core_and_pillow_draw_crops_of_the_same_distribution(monkeypatch):
    """Means over a ramp tell where crops lie and how large they are."""
    ramp = np.ascontiguousarray(np.broadcast_to(np.arange(200, dtype=np.uint8)[None, :, None], (100, 200, 3)))
    transform = T.Compose([T.RandomResizedCrop((4, 8)), T.RandomHorizontalFlip()])

    def moments():
        rows = torch.stack([transform(ramp)[0, 0] * 255 for _ in range(1500)])
        width = (rows[:, -1] - rows[:, 0]).abs()
        return torch.stack(
            [
                rows.mean(),
                rows.mean(1).std(),
                width.mean(),
                width.std(),
                (rows[:, 0] < rows[:, -1]).float().mean(),
            ]
        )

    torch.manual_seed(1)
    native = moments()
    monkeypatch.setattr(sample, "Codec", None)
    pillow = moments()
    assert torch.allclose(native[:4], pillow[:4], rtol=0.08)
    assert (native[4] - 0.5).abs() < 0.06 and (pillow[4] - 0.5).abs() < 0.06


def test_normalising_is_what_torchvision_computes():
    picture = smooth(9, 11)
    pixels = torch.from_numpy(np.array(picture)).permute(2, 0, 1) / 255
    wanted = (pixels - torch.tensor(T.IMAGENET_MEAN)[:, None, None]) / torch.tensor(T.IMAGENET_STD)[
        :, None, None
    ]
    transform = T.Compose([T.CenterCrop((9, 11)), T.ToTensor(), NORMALIZE])
    assert torch.allclose(transform(picture), wanted, atol=1e-6)
    assert torch.allclose(in_pillow(transform, picture), wanted, atol=1e-6)


def test_a_call_takes_pil_images_and_arrays_alike():
    picture = smooth(20, 30)
    transform = T.Resize((8, 8))
    assert torch.equal(transform(picture), transform(np.asarray(picture)))
    assert torch.equal(transform(picture.convert("L")), transform(picture.convert("L").convert("RGB")))
    flipped = np.asarray(picture)[:, ::-1]  # not contiguous
    assert torch.equal(transform(flipped), transform(np.ascontiguousarray(flipped)))


@pytest.mark.parametrize("picture", [None, b"bytes", np.zeros((4, 4, 3)), np.zeros((4, 4), np.uint8)])
def test_a_call_with_anything_else_is_refused(picture):
    with pytest.raises(TypeError, match="uint8"):
        T.CenterCrop(2)(picture)


def test_calling_a_transform_gives_what_a_dataset_gives_for_a_file_that_is_no_jpeg(tmp_path):
    (tmp_path / "a").mkdir()
    picture = smooth(40, 50)
    picture.save(tmp_path / "a" / "1.png")
    transform = T.Compose([T.RandomResizedCrop(16), T.RandomHorizontalFlip(), NORMALIZE])
    torch.manual_seed(5)
    called = transform(picture)
    torch.manual_seed(5)
    assert torch.equal(ImageFolder(tmp_path, transform)[0][0], called)


def test_without_the_core_a_dataset_works_in_pillow(picture_folder, without_core):
    dataset = ImageFolder(
        picture_folder, T.Compose([T.RandomResizedCrop(16), T.RandomHorizontalFlip(), NORMALIZE])
    )
    torch.manual_seed(5)
    first = dataset[0][0]
    torch.manual_seed(5)
    assert first.shape == (3, 16, 16) and first.dtype == torch.float32
    assert torch.equal(dataset[0][0], first)


def test_a_very_long_picture_falls_back_to_a_crop_of_an_allowed_ratio(without_core):
    ramp = np.ascontiguousarray(np.broadcast_to(np.arange(250, dtype=np.uint8)[None, :, None], (10, 250, 3)))
    transform = T.RandomResizedCrop((2, 13), scale=(1, 1), ratio=(1, 1.3))
    row = transform(ramp)[0, 0] * 255
    assert row.min() >= 118 and row.max() <= 132  # the middle 13 of 250 columns
