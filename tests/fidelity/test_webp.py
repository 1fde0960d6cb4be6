"""WebPs in the native core beside Pillow: the same pixels of each kind, and no others of a damaged file."""

import io
import os
import random
import struct

import numpy as np
import pytest
import torch
from PIL import Image
from sizes import size
from webp_files import NEEDS_PILLOW, chunks_of, extended, pillows_pixels, riff, webp

import seneca
from seneca import transforms as T
from seneca._core.codec import Codec
from seneca._core.plan import Plan
from seneca.data.broken import judge
from seneca.errors import DecodeError, LeftToPillowError
from seneca.transforms._apply import open_picture

OPTIONS = (0, "uint8", True, (0, 0, 0), (1, 1, 1))
WHOLE = Plan([], *OPTIONS)
UPRIGHT = Plan([], *OPTIONS, apply_orientation=True)
SIDES = [(1, 1), (1, 9), (9, 1), (3, 5), (17, 31), (64, 48), (130, 200)]
KINDS = [(lossless, channels) for lossless in (False, True) for channels in (3, 4)]


def pixels_of(rng, height, width, channels):
    """Noise on a gradient: all kinds of blocks."""
    ramp = np.linspace(0, 200, width)[None, :, None] + np.linspace(0, 40, height)[:, None, None]
    noise = rng.integers(0, 1 + int(rng.integers(1, 56)), (height, width, channels))
    return (ramp + noise).clip(0, 255).astype(np.uint8)


def decoded(data, plan=WHOLE):
    return Codec().decode(plan, data)


def is_left(data, plan=WHOLE, codec=None):
    with pytest.raises(LeftToPillowError):
        (codec or Codec()).decode(plan, data)
    return True


@pytest.mark.parametrize("lossless, channels", KINDS)
def test_pixels_are_those_of_pillow(lossless, channels):
    rng = np.random.default_rng(10 * lossless + channels)
    for height, width in SIDES:
        pixels = pixels_of(rng, height, width, channels)
        for quality in (0, 50, 100):
            data = webp(pixels, lossless=lossless, quality=quality)
            assert np.array_equal(decoded(data), pillows_pixels(data)), (height, width, quality)
            if lossless and channels == 3:
                assert np.array_equal(decoded(data), pixels)


def test_alpha_is_dropped_and_not_blended():
    pixels = pixels_of(np.random.default_rng(1), 20, 30, 4)
    pixels[..., 3] = np.arange(30)
    pixels[:5, :, 3] = 255
    data = webp(pixels, lossless=True)
    assert np.array_equal(decoded(data)[:, 1:], pixels[:, 1:, :3])  # what is all transparent has no colour
    assert np.array_equal(decoded(data), pillows_pixels(data))


@pytest.mark.parametrize(
    "flags, before, after",
    [
        (0x10, [], []),
        (0x30, [(b"ICCP", b"a profile")], []),
        (0x18, [], [(b"EXIF", b"MM\0*\0\0\0\x08\0\0\0\0\0\0")]),
        (0x14, [], [(b"XMP ", b"<x/>")]),
        (0x00, [], []),
    ],
    ids=["bare", "profile", "exif", "xmp", "flags of nothing"],
)
@pytest.mark.parametrize("lossless, channels", KINDS)
def test_what_other_chunks_say_changes_nothing(lossless, channels, flags, before, after):
    pixels = pixels_of(np.random.default_rng(2), 20, 31, channels)
    data = extended(webp(pixels, lossless=lossless), 20, 31, flags=flags, before=before, after=after)
    assert np.array_equal(decoded(data), pillows_pixels(data))


def test_a_picture_that_may_have_to_be_turned_is_left_to_pillow():
    data = webp(pixels_of(np.random.default_rng(3), 20, 31, 3))
    for name in (b"EXIF", b"XMP "):
        with_metadata = extended(data, 20, 31, flags=0x1C, after=[(name, b"MM\0*")])
        assert decoded(with_metadata).shape == (20, 31, 3)
        assert is_left(with_metadata, UPRIGHT)
    assert np.array_equal(decoded(data, UPRIGHT), decoded(data))


@NEEDS_PILLOW
def test_a_picture_is_turned_as_its_exif_says(tmp_path):
    tags = Image.Exif()
    tags[0x0112] = 6
    (tmp_path / "a").mkdir()
    picture = Image.fromarray(pixels_of(np.random.default_rng(4), 20, 30, 3))
    picture.save(tmp_path / "a" / "1.webp", exif=tags, lossless=True)
    dataset = seneca.ImageFolder(tmp_path, T.Resize((30, 20)), apply_exif_orientation=True)
    ((images, _),) = seneca.DataLoader(dataset, cache=None)
    upright = np.asarray(picture.transpose(Image.Transpose.ROTATE_270))
    assert np.array_equal((images[0] * 255).round().numpy().transpose(1, 2, 0), upright)


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data + b"\0\0",
        lambda data: data[:-2],
        lambda data: data[:4] + struct.pack("<I", len(data) - 10) + data[8:],
        lambda data: riff(*chunks_of(data), (b"EXIF", b"ab")),
        lambda data: riff(*chunks_of(data), *chunks_of(data)),
        lambda data: riff((b"ALPH", b"\0ab"), *chunks_of(data)),
        lambda data: extended(data, 20, 30),
        *(lambda data, flag=flag: extended(data, 20, 31, flags=flag) for flag in (0x02, 0x01, 0x40, 0x80)),
        lambda data: extended(data, 20, 31, before=[(b"ANIM", bytes(6))]),
        lambda data: extended(data, 20, 31, after=[(b"abcd", b"ef")]),
        lambda data: extended(data, 20, 31, after=[(b"ICCP", b"ef")]),
        lambda data: extended(data, 20, 31, before=[(b"VP8X", bytes(10))]),
        lambda data: extended(data, 20, 31)[:30] + bytes(8),
        lambda data: data[:12],
        lambda data: data[:8] + b"WAVE" + data[12:],
    ],
    ids=[
        "more than it says", "less than it says", "another length", "exif in the small container",
        "two pictures", "alpha in the small container", "another size", "animated", "flag 1", "flag 64",
        "flag 128", "frames", "a chunk nobody knows", "a late profile", "two headers", "no picture",
        "no chunk", "a sound",
    ],
)  # fmt: skip
def test_what_is_rare_or_damaged_is_left_to_pillow(change):
    data = webp(pixels_of(np.random.default_rng(5), 20, 31, 3))
    assert decoded(data).shape == (20, 31, 3)
    assert is_left(change(data))


def test_a_picture_beyond_the_limit_is_left_to_pillow_which_refuses_it():
    data = webp(pixels_of(np.random.default_rng(6), 5, 5, 3))
    assert is_left(data, codec=Codec(max_pixels=24))
    assert Codec(max_pixels=25).decode(WHOLE, data).shape == (5, 5, 3)


@NEEDS_PILLOW
def test_of_an_animation_the_first_frame_is_taken(tmp_path):
    rng = np.random.default_rng(7)
    frames = [Image.fromarray(pixels_of(rng, 20, 30, 3)) for _ in range(3)]
    (tmp_path / "a").mkdir()
    frames[0].save(tmp_path / "a" / "1.webp", save_all=True, append_images=frames[1:], lossless=True)
    data = (tmp_path / "a" / "1.webp").read_bytes()
    assert is_left(data)
    ((images, _),) = seneca.DataLoader(seneca.ImageFolder(tmp_path, T.Resize((20, 30))), cache=None)
    assert np.array_equal((images[0] * 255).round().numpy().transpose(1, 2, 0), np.asarray(frames[0]))


@NEEDS_PILLOW
def test_what_pillow_writes_is_read():
    rng = np.random.default_rng(8)
    for mode in ("L", "LA", "P", "RGB", "RGBA"):
        picture = Image.fromarray(pixels_of(rng, 33, 21, 3)).convert(mode)
        exact = {"lossless": True, "exact": True}
        for options in ({}, {"lossless": True}, exact, {"method": 0, "quality": 5}):
            file = io.BytesIO()
            picture.save(file, "WEBP", **options)
            assert np.array_equal(decoded(file.getvalue()), pillows_pixels(file.getvalue())), (mode, options)


@NEEDS_PILLOW
def test_a_damaged_picture_is_a_decode_error():
    data = webp(pixels_of(np.random.default_rng(9), 40, 40, 3), quality=100)
    ((name, content),) = chunks_of(data)
    for spoilt in (data[:-100], riff((name, content[:-100])), riff((name, content[:3]))):
        assert is_left(spoilt)
        with pytest.raises(DecodeError):
            open_picture(spoilt)


def test_a_pillow_without_webp_is_named_with_its_remedy(monkeypatch):
    from PIL import WebPImagePlugin, features

    data = webp(pixels_of(np.random.default_rng(9), 4, 4, 3))
    monkeypatch.setattr(features, "check", lambda name: False)
    monkeypatch.setattr(WebPImagePlugin, "SUPPORTED", False)
    with pytest.raises(DecodeError, match="this Pillow was compiled without: install libwebp-dev"):
        open_picture(data)
    assert judge(data, Codec())[:2] == (None, "WEBP")
    assert judge(data[:-2], Codec()).reason


def damaged(rng, pick):
    lossless, channels = pick.choice(KINDS)
    height, width = pick.randint(1, 40), pick.randint(1, 40)
    data = webp(pixels_of(rng, height, width, channels), lossless=lossless, quality=pick.choice([5, 80, 100]))
    if pick.random() < 0.5:
        around = [(name, pick.randbytes(5)) for name in (b"EXIF", b"XMP ", b"ICCP") if pick.random() < 0.3]
        before = [chunk for chunk in around if chunk[0] == b"ICCP"]
        after = [chunk for chunk in around if chunk[0] != b"ICCP"]
        data = extended(data, height, width, flags=0x3C, before=before, after=after)
    data = bytearray(data)
    for _ in range(pick.choice([0, 1, 1, 2, 8])):
        kind, at = pick.randrange(5), pick.randrange(len(data))
        if kind == 0:
            data[at] ^= 1 << pick.randrange(8)
        elif kind == 1:
            del data[max(9, at) :]
        elif kind == 2:
            number = pick.choice([0, 1, 2**31 - 1, 2**31, 2**32 - 1, 65536, 0x3FFF3FFF])
            data[at : at + 4] = struct.pack("<I", number)
        elif kind == 3:
            data[at:at] = data[: pick.randrange(1, 60)]
        else:
            names = [b"VP8 ", b"VP8L", b"VP8X", b"ALPH", b"EXIF", b"ANIM", b"ANMF", b"ICCP"]
            data[12:16] = pick.choice(names)
    if pick.random() < 0.8 and len(data) >= 8:
        data[4:8] = struct.pack("<I", max(0, len(data) - 8))
    return bytes(data)


def test_a_damaged_file_gives_pillows_pixels_or_is_left_to_pillow():
    seed = int(os.environ.get("SENECA_TEST_SEED", random.randrange(2**32)))
    print(f"SENECA_TEST_SEED={seed}")
    rng, pick = np.random.default_rng(seed), random.Random(seed)
    count = int(os.environ.get("SENECA_FUZZ", size(500, 3_000)))
    codec = Codec()
    read = 0
    for number in range(count):
        data = damaged(rng, pick)
        try:
            ours = codec.decode(WHOLE, data)
        except LeftToPillowError:
            continue
        read += 1
        try:
            theirs = pillows_pixels(data)
        except (EOFError, OSError, SyntaxError, ValueError) as error:
            pytest.fail(f"seed {seed}, file {number}: Pillow refuses it: {error}")
        assert np.array_equal(ours, theirs), f"seed {seed}, file {number}"
    assert read > count // 20


@pytest.fixture
def folder(tmp_path):
    """Class folders of 40 WebPs."""
    rng = np.random.default_rng(11)
    for number in range(40):
        path = tmp_path / "pictures" / f"class{number % 4}" / f"{number:02}.webp"
        path.parent.mkdir(parents=True, exist_ok=True)
        lossless, channels = KINDS[number % 4]
        path.write_bytes(webp(pixels_of(rng, 40, 50, channels), lossless=lossless))
    return tmp_path / "pictures"


def test_a_folder_of_webps_runs_natively_without_pillow(folder, monkeypatch):
    dataset = seneca.ImageFolder(folder, T.Compose([T.CenterCrop((40, 50)), T.PILToTensor()]))
    loader = seneca.DataLoader(dataset, batch_size=10, num_workers=1, cache=None)
    assert loader.explain().startswith("native: ")
    with monkeypatch.context() as without:
        without.setattr(Image, "open", None)
        images, labels = zip(*loader, strict=True)
    assert torch.cat(labels).tolist() == dataset.targets
    for index, image in enumerate(torch.cat(images)):
        assert np.array_equal(image.numpy().transpose(1, 2, 0), pillows_pixels(dataset.read(index)))


def test_an_epoch_of_webps_is_resumed_where_it_was_left(folder):
    dataset = seneca.ImageFolder(folder, T.RandomResizedCrop(16))

    def loader():
        return seneca.DataLoader(dataset, batch_size=8, shuffle=True, num_workers=1, cache=None)

    first = loader()
    torch.manual_seed(3)
    batches = iter(first)
    before = [next(batches) for _ in range(2)]
    state = first.state_dict()
    rest = list(batches)
    second = loader()
    second.load_state_dict(state)
    again = list(second)
    assert len(before) + len(rest) == 5 and len(again) == 3
    for one, other in zip(rest, again, strict=True):
        assert torch.equal(one[0], other[0]) and torch.equal(one[1], other[1])
