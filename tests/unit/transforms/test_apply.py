"""One picture at a time: the native core and its Pillow twin say the same, by the same seed."""

import colorsys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import pictures as portable
from PIL import Image

from seneca import ImageFolder
from seneca import transforms as T
from seneca.errors import DecodeError, PlanError
from seneca.transforms import _apply as sample
from seneca.transforms._pipeline import compile_transform

NORMALIZE = T.Normalize(T.IMAGENET_MEAN, T.IMAGENET_STD)


def smooth(height, width, seed=0):
    """A picture without edges, where two right answers differ by rounding only."""
    small = np.random.default_rng(seed).integers(0, 256, (4, 5, 3), dtype=np.uint8)
    return Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)


def in_pillow(transform, picture):
    pipeline, rng = compile_transform(transform), np.random.default_rng(0)
    return torch.from_numpy(
        portable.finish(pipeline, portable.augment(pipeline.steps, picture, rng), rng),
    )


def pixels_of(transform, picture):
    """uint8 (height, width, 3) after some transforms of a picture whose size is known."""
    picture = np.asarray(picture)
    return T.Compose([T.CenterCrop(picture.shape[:2]), *transform, T.PILToTensor()])(picture).permute(1, 2, 0)


@pytest.fixture
def in_oracle(monkeypatch):
    portable.run_here(monkeypatch)


@pytest.fixture(params=["native", "portable"])
def engine(request, monkeypatch):
    """Once with the native core and once without."""
    if request.param == "portable":
        portable.run_here(monkeypatch)


SIDE = st.integers(1, 90)
FILTER = st.sampled_from(["bilinear", "bicubic"])
ANTIALIAS = st.booleans()
HEAD = st.one_of(
    st.builds(T.Resize, SIDE, FILTER, st.one_of(st.none(), st.integers(91, 120)), ANTIALIAS),
    st.builds(T.Resize, st.tuples(SIDE, SIDE), FILTER, antialias=ANTIALIAS),
)


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
    assert (native - in_pillow(transform, picture)).abs().max() <= 2.01 / 255


@pytest.mark.parametrize("had", [5, 6, 7, 8])
@pytest.mark.parametrize("wanted", [5, 6, 7, 8])
def test_a_centre_crop_rounds_and_pads_as_torchvisions(had, wanted, in_oracle):
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
    """Means over a ramp show where crops lie and how large they are."""
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
    portable.run_here(monkeypatch)
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


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
@pytest.mark.parametrize("size", [(40, 7), (9, 90), (20, 30)])
def test_without_antialiasing_a_resize_is_torchs_on_tensors(engine, interpolation, size):
    picture = np.random.default_rng(3).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    resized = pixels_of([T.Resize(size, interpolation, antialias=False)], picture)
    tensor = torch.from_numpy(picture).permute(2, 0, 1)[None]
    wanted = torch.nn.functional.interpolate(tensor, size, mode=interpolation, align_corners=False)
    off = (resized.permute(2, 0, 1).int() - wanted[0].int()).abs()
    assert off.max() <= 2 and off.double().mean() < 0.3


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric"])
@pytest.mark.parametrize("padding", [(1, 2, 3, 4), (0, 0, 7, 0), (9, 9, 0, 11)])
def test_padding_is_numpys_and_torchvisions_on_pil_images(engine, mode, padding):
    picture = np.random.default_rng(4).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    left, top, right, bottom = padding
    wanted = np.pad(picture, ((top, bottom), (left, right), (0, 0)), mode)
    assert np.array_equal(pixels_of([T.Pad(padding, padding_mode=mode)], picture), wanted)


def test_constant_margins_have_the_colour(engine):
    out = pixels_of([T.Pad((1, 0), (10, 20, 30))], np.full((2, 2, 3), 99, np.uint8))
    assert out[:, [0, -1]].reshape(-1, 3).tolist() == [[10, 20, 30]] * 4 and (out[:, 1:-1] == 99).all()


def windows(picture, height, width):
    """Every part of that size, by its bytes, and where it lies."""
    tall, wide = picture.shape[0] - height + 1, picture.shape[1] - width + 1
    return {
        picture[y : y + height, x : x + width].tobytes(): (y, x) for y in range(tall) for x in range(wide)
    }


@pytest.mark.small(3)
@pytest.mark.parametrize(
    ("crop", "padded"),
    [
        (T.RandomCrop((5, 6)), lambda p: p),
        (T.RandomCrop((6, 8)), lambda p: p),
        (T.RandomCrop((7, 9), padding=(1, 2, 0, 0)), lambda p: np.pad(p, ((2, 0), (1, 0), (0, 0)))),
        (T.RandomCrop((5, 9), pad_if_needed=True), lambda p: np.pad(p, ((0, 0), (1, 1), (0, 0)))),
        (
            T.RandomCrop((8, 8), None, True, 0, "reflect"),
            lambda p: np.pad(p, ((2, 2), (0, 0), (0, 0)), "reflect"),
        ),
        (
            T.RandomCrop((9, 7), (0, 1), True, 0, "edge"),
            lambda p: np.pad(p, ((2, 2), (0, 0), (0, 0)), "edge"),
        ),
    ],
)
def test_a_random_crop_lies_anywhere_with_equal_probability(engine, crop, padded):
    """A picture that lacks pixels gets as many as it lacks, on both sides."""
    torch.manual_seed(3)
    picture = np.random.default_rng(5).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    places = windows(padded(picture), *crop.size)
    drawn = [
        places[pixels_of([crop], picture).contiguous().numpy().tobytes()] for _ in range(80 * len(places))
    ]
    counts = [drawn.count(place) for place in places.values()]
    assert min(counts) >= 40 and max(counts) <= 130  # 80 expected, deviation below 9


def test_a_crop_from_a_picture_that_is_too_small_is_refused(engine):
    transform = T.Compose([T.RandomVerticalFlip(), T.RandomCrop(9)])
    with pytest.raises(PlanError, match="picture"):
        transform(smooth(20, 8))


@pytest.mark.parametrize(
    ("transform", "change"),
    [
        (T.RandomHorizontalFlip(1), lambda p: p[:, ::-1]),
        (T.RandomVerticalFlip(1), lambda p: p[::-1]),
        (T.RandomVerticalFlip(0), lambda p: p),
        (T.RandomGrayscale(0), lambda p: p),
        (T.RandomGrayscale(1), lambda p: np.asarray(Image.fromarray(p).convert("L").convert("RGB"))),
    ],
)
def test_what_is_certain_to_happen_or_not(engine, transform, change):
    picture = np.random.default_rng(6).integers(0, 256, (13, 21, 3), dtype=np.uint8)
    assert np.array_equal(pixels_of([transform], picture), change(picture))


@pytest.mark.small(1)
@pytest.mark.parametrize("transform", [T.RandomVerticalFlip(0.25), T.RandomGrayscale(0.25)])
def test_what_may_happen_happens_as_often_as_it_should(engine, transform):
    torch.manual_seed(4)
    picture = np.random.default_rng(6).integers(0, 256, (2, 2, 3), dtype=np.uint8)
    changed = sum(not np.array_equal(pixels_of([transform], picture), picture) for _ in range(800))
    assert 150 <= changed <= 250  # 200 expected, deviation 12


def grey(pixels):
    """Luma, as Pillow rounds it."""
    return ((pixels.astype(int) @ [19595, 38470, 7471] + 0x8000) >> 16)[..., None]


def mixed(pixels, other, factor):
    return np.clip(other + factor * (pixels.astype(float) - other), 0, 255)


@pytest.mark.parametrize("factor", [0, 0.3, 1.5, 3])
@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("brightness", lambda p: 0),
        ("contrast", lambda p: int(grey(p).mean() + 0.5)),
        ("saturation", grey),
    ],
)
def test_a_factor_of_colour_mixes_the_picture_with_another(engine, name, other, factor):
    picture = np.asarray(smooth(40, 30, seed=2))
    out = pixels_of([T.ColorJitter(**{name: (factor, factor)})], picture).numpy()
    # Pillow's grey is rounded now up, now down.
    assert np.abs(out - mixed(picture, other(picture), factor)).max() <= 1 + abs(1 - factor)


@pytest.mark.parametrize("turn", [-0.5, -0.2, 0.1, 0.5])
def test_hue_is_turned_and_saturation_and_value_stay(engine, turn):
    picture = np.asarray(smooth(20, 15, seed=8))
    out = pixels_of([T.ColorJitter(hue=(turn, turn))], picture).numpy()
    off = []
    for pixel, turned in zip(picture.reshape(-1, 3) / 255, out.reshape(-1, 3) / 255, strict=True):
        hue, saturation, value = colorsys.rgb_to_hsv(*pixel)
        off.append(np.abs(turned - colorsys.hsv_to_rgb((hue + turn) % 1, saturation, value)).max() * 255)
    assert np.mean(off) < 4 and max(off) < 14  # Pillow's hue has 256 steps, up to 6 levels apart


@pytest.mark.small(1)
def test_the_adjustments_of_colour_come_in_every_order(engine):
    """Each order of three that cut off at 255 gives other pixels."""
    torch.manual_seed(9)
    picture = np.asarray(smooth(12, 12, seed=5))
    jitter = T.ColorJitter((1.8, 1.8), (2.5, 2.5), (3, 3))
    seen = [pixels_of([jitter], picture).numpy().tobytes() for _ in range(240)]
    counts = [seen.count(one) for one in set(seen)]
    assert len(counts) == 6 and min(counts) >= 20  # 40 expected, deviation below 6


@pytest.mark.small(1)
def test_factors_are_drawn_uniformly_from_their_range(engine):
    torch.manual_seed(10)
    picture = np.full((1, 1, 3), 100, np.uint8)
    drawn = torch.stack([pixels_of([T.ColorJitter((0.5, 2))], picture)[0, 0, 0] for _ in range(600)]).float()
    assert drawn.min() < 54 and drawn.max() > 196
    assert (drawn.mean() - 125).abs() < 8 and (drawn.std() - 150 / 12**0.5).abs() < 4


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_every_type_is_float32_rounded_once(engine, dtype):
    picture = smooth(9, 11)
    crop = T.CenterCrop((9, 11))
    pixels = T.Compose([crop, T.PILToTensor()])(picture)
    assert pixels.dtype == torch.uint8
    assert torch.equal(pixels, torch.from_numpy(np.array(picture)).permute(2, 0, 1))
    for scale in (True, False):
        plain = T.Compose([crop, T.ToDtype(dtype, scale=scale)])(picture)
        assert plain.dtype == dtype and plain.is_contiguous()
        assert torch.equal(plain, (pixels / 255 if scale else pixels).to(dtype))
    mean, std = (torch.tensor(numbers)[:, None, None] for numbers in (T.IMAGENET_MEAN, T.IMAGENET_STD))
    normalized = T.Compose([crop, T.ToDtype(dtype, scale=True), NORMALIZE])(picture)
    assert torch.equal(normalized, ((pixels / 255 - mean) / std).to(dtype))


def rectangle(mask):
    """Top, left, height and width of what is set, which is a rectangle."""
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    box = rows[0], columns[0], rows[-1] - rows[0] + 1, columns[-1] - columns[0] + 1
    assert mask.sum() == box[2] * box[3]
    return box


def test_erasing_overwrites_a_rectangle_and_nothing_else(engine):
    torch.manual_seed(1)
    picture = np.random.default_rng(7).integers(1, 255, (40, 60, 3), dtype=np.uint8)
    endings = [
        ([], 0.5, (0.5, 0.5, 0.5)),
        ([T.PILToTensor()], (255, 0, 255), (255, 0, 255)),
        ([T.ToDtype("bfloat16")], -7, (-7, -7, -7)),
        ([NORMALIZE], (10, 11, 12), (10, 11, 12)),
    ]
    for ending, value, written in endings:
        crop = T.CenterCrop((40, 60))
        whole = T.Compose([crop, *ending])(picture)
        for _ in range(5):
            out = T.Compose([crop, *ending, T.RandomErasing(1, value=value)])(picture)
            assert out.dtype == whole.dtype
            mask = (out != whole).any(0)
            rectangle(mask.numpy())
            assert torch.equal(
                out[:, mask].float(), torch.tensor(written)[:, None].expand(3, mask.sum()).float()
            )


def test_what_is_erased_before_normalize_is_normalised_too(engine):
    torch.manual_seed(1)
    picture = np.zeros((20, 20, 3), np.uint8)
    out = T.Compose([T.CenterCrop(20), T.RandomErasing(1, value=1), NORMALIZE])(picture)
    white = T.Compose([T.CenterCrop(20), NORMALIZE])(picture + 255)
    assert torch.allclose(out.amax((1, 2)), white[:, 0, 0], atol=1e-5)


def test_noise_is_normal_and_new_for_each_value(engine):
    torch.manual_seed(2)
    erasing = T.RandomErasing(1, scale=(0.5, 0.5), ratio=(1, 1), value="random")
    picture = np.zeros((90, 90, 3), np.uint8)
    out = T.Compose([T.CenterCrop(90), erasing, T.Normalize((0, 0.5, 1), (1, 2, 0.5))])(picture)
    whole = T.Compose([T.CenterCrop(90), T.Normalize((0, 0.5, 1), (1, 2, 0.5))])(picture)
    noise = out[:, (out != whole).all(0)].double()
    assert noise.shape[1] >= 4000
    for values, mean, deviation in zip(noise, (0, -0.25, -2), (1, 0.5, 2), strict=True):
        assert abs(values.mean() - mean) < 0.06 * deviation and abs(values.std() / deviation - 1) < 0.05
        inside = ((values - mean).abs() < deviation).double().mean()
        assert abs(inside - 0.6827) < 0.03  # the share of a normal distribution within one deviation
    assert np.abs(np.corrcoef(noise.numpy()) - np.eye(3)).max() < 0.06


@pytest.mark.small(1)
def test_rectangles_are_drawn_as_torchvision_draws_them(engine):
    """By its own arithmetic: area and log ratio uniform, the place too, no side as long as the picture's."""
    torch.manual_seed(3)
    erasing = T.RandomErasing(0.8, scale=(0.1, 0.2), ratio=(0.25, 1))
    transform = T.Compose([T.CenterCrop((50, 80)), T.PILToTensor(), erasing])
    picture = np.full((50, 80, 3), 9, np.uint8)
    masks = [(transform(picture) == 0).all(0).numpy() for _ in range(1200)]
    boxes = np.array([rectangle(mask) for mask in masks if mask.any()])
    assert 900 <= len(boxes) <= 1020  # 960 expected, deviation 14
    top, left, height, width = boxes.T
    area, log_ratio = height * width / 4000, np.log(height / width)
    assert 0.09 < area.min() < 0.11 and 0.19 < area.max() < 0.21 and abs(area.mean() - 0.15) < 0.004
    assert log_ratio.min() > -1.5 and log_ratio.max() < 0.1 and abs(log_ratio.mean() + np.log(2)) < 0.05
    assert abs((top / (50 - height)).mean() - 0.5) < 0.04 and abs((left / (80 - width)).mean() - 0.5) < 0.04
    assert (top == 50 - height).any() and (left == 80 - width).any()


def test_where_no_rectangle_fits_nothing_is_erased(engine):
    picture = np.full((20, 20, 3), 9, np.uint8)
    transform = T.Compose([T.CenterCrop(20), T.PILToTensor(), T.RandomErasing(1, scale=(1, 1), ratio=(1, 1))])
    assert (transform(picture) == 9).all()


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


def test_without_the_core_a_transform_says_what_to_install(picture_folder, monkeypatch):
    monkeypatch.setattr(sample, "Codec", None)
    monkeypatch.setattr(sample, "_of_thread", sample.threading.local())
    message = "not built here"
    for make in (
        lambda: ImageFolder(picture_folder, T.CenterCrop(16))[0],
        lambda: T.CenterCrop(16)(smooth(9, 9)),
    ):
        with pytest.raises(PlanError, match=message):
            make()


def test_a_thread_has_a_codec_for_each_limit(monkeypatch):
    assert sample.codec_of(1000) is sample.codec_of(1000) is not sample.codec_of(2000)


def test_a_very_long_picture_falls_back_to_a_crop_of_an_allowed_ratio(in_oracle):
    ramp = np.ascontiguousarray(np.broadcast_to(np.arange(250, dtype=np.uint8)[None, :, None], (10, 250, 3)))
    transform = T.RandomResizedCrop((2, 13), scale=(1, 1), ratio=(1, 1.3))
    row = transform(ramp)[0, 0] * 255
    assert row.min() >= 118 and row.max() <= 132  # the middle 13 of 250 columns


@pytest.mark.parametrize("data", [b"", b"no picture"])
def test_the_reason_for_a_file_of_no_known_format_is_the_same_each_time(data):
    with pytest.raises(DecodeError) as caught:
        sample.open_picture(data)
    assert caught.value.reason == "no format of pictures that Pillow knows"
