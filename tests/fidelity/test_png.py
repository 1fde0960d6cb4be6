"""PNGs in the native core beside Pillow: the same pixels of each kind, and no others of a damaged file."""

import io
import itertools
import os
import random
import struct
import zlib

import numpy as np
import pytest
from PIL import Image
from png_files import END, KINDS, begun, chunk, made, png
from sizes import size

from seneca._core.codec import Codec, libdeflate
from seneca._core.plan import Plan
from seneca.data.pairs import joined_bytes
from seneca.errors import DecodeError, LeftToPillowError
from seneca.transforms._apply import open_mask, open_picture

OPTIONS = (0, "uint8", True, (0, 0, 0), (1, 1, 1))
WHOLE = Plan([], *OPTIONS)
OF_PAIRS = Plan([], *OPTIONS, mask="uint8")
SIDES = [(1, 1), (1, 9), (9, 1), (3, 5), (17, 31), (64, 48)]


def decoded(data):
    return Codec().decode(WHOLE, data)


def as_mask(codec, data):
    """The classes of a mask; the picture beside it has the size that its header says."""
    width, height = struct.unpack(">II", data[16:24]) if len(data) > 24 else (1, 1)
    if not 0 < width * height < 2**19:
        width = height = 1
    picture = png(width, height, 8, 0, (b"\0" * (width + 1)) * height)
    return codec.decode(OF_PAIRS, joined_bytes(picture, data))[1]


@pytest.mark.parametrize("interlace", [0, 1])
@pytest.mark.parametrize("colour, depth", KINDS)
def test_pixels_are_those_of_pillow(colour, depth, interlace):
    rng = np.random.default_rng(colour * 100 + depth)
    for width, height in SIDES:
        data = made(colour, depth, width, height, rng, interlace=interlace)
        assert np.array_equal(decoded(data), np.asarray(open_picture(data))), (width, height)


@pytest.mark.parametrize("interlace", [0, 1])
@pytest.mark.parametrize("colour, depth", [*KINDS, (0, 16)])
def test_masks_are_the_indices_and_greys_of_pillow(colour, depth, interlace):
    rng, codec = np.random.default_rng(colour * 100 + depth), Codec()
    for width, height in SIDES:
        for chunks in [[], [(b"tRNS", bytes(2))]][: 2 if colour in (0, 3) else 1]:
            data = made(colour, depth, width, height, rng, interlace=interlace, palette=40, chunks=chunks)
            with Image.open(io.BytesIO(data)) as file:
                mode = file.mode
            if mode in ("L", "P"):
                assert np.array_equal(as_mask(codec, data), open_mask(data)), (width, height)
                continue
            with pytest.raises(LeftToPillowError):
                as_mask(codec, data)
            with pytest.raises(DecodeError, match=f"one byte a pixel.*'{mode}'"):
                open_mask(data)


@pytest.mark.parametrize(
    "chunks",
    [
        [(b"tRNS", b"\0\5\0\7\0\11")], [(b"gAMA", struct.pack(">I", 100_000))], [(b"sRGB", b"\0")],
        [(b"bKGD", b"\0\1\0\2\0\3")], [(b"cHRM", struct.pack(">8I", *[30_000] * 8))],
        [(b"pHYs", struct.pack(">IIB", 1, 3, 0))], [(b"tEXt", b"Title\0of a picture")],
    ],
    ids=lambda chunks: chunks[0][0].decode(),
)  # fmt: skip
def test_what_other_chunks_say_changes_nothing(chunks):
    data = made(2, 8, 20, 10, np.random.default_rng(1), chunks=chunks)
    assert np.array_equal(decoded(data), np.asarray(open_picture(data)))


@pytest.mark.parametrize(
    "colour, chunk", [(0, b"\0\5"), (3, bytes(range(0, 250, 10)))], ids=["grey", "palette"]
)
def test_transparency_is_dropped_and_not_blended(colour, chunk):
    data = made(colour, 8, 20, 10, np.random.default_rng(2), chunks=[(b"tRNS", chunk)])
    assert np.array_equal(decoded(data), np.asarray(open_picture(data)))


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA"])
def test_what_pillow_writes_is_read(mode):
    rng = np.random.default_rng(3)
    picture = Image.fromarray(rng.integers(0, 256, (33, 21, 3), np.uint8)).convert(mode)
    for options in ({}, {"optimize": True}, {"compress_level": 0}):
        file = io.BytesIO()
        picture.save(file, "PNG", **options)
        assert np.array_equal(decoded(file.getvalue()), np.asarray(open_picture(file.getvalue())))


def test_what_is_rare_is_left_to_pillow():
    rng = np.random.default_rng(4)
    grey = made(0, 16, 5, 5, rng)
    animation = made(2, 8, 5, 5, rng, chunks=[(b"acTL", struct.pack(">II", 1, 0))])
    for data in (grey, animation):
        with pytest.raises(LeftToPillowError):
            decoded(data)
    turned = made(2, 8, 5, 5, rng, chunks=[(b"eXIf", b"MM\0*\0\0\0\x08\0\0\0\0\0\0")])
    assert decoded(turned).shape == (5, 5, 3)
    with pytest.raises(LeftToPillowError):
        Codec().decode(Plan([], *OPTIONS, apply_orientation=True), turned)
    with pytest.raises(LeftToPillowError):
        Codec(max_pixels=24).decode(WHOLE, made(2, 8, 5, 5, rng))
    assert Codec(max_pixels=25).decode(WHOLE, made(2, 8, 5, 5, rng)).shape == (5, 5, 3)


@pytest.mark.parametrize("name", [b"IEOD", b"iend"])
def test_a_damaged_end_is_left_to_pillow(name):
    data = made(2, 8, 5, 5, np.random.default_rng(5))
    with pytest.raises(LeftToPillowError):
        decoded(data[:-8] + name + data[-4:])
    assert decoded(data).shape == (5, 5, 3)


@pytest.mark.parametrize(
    "width, height, colour",
    [
        (65_533, 1, 0), (65_534, 1, 0), (65_535, 1, 0), (254, 257, 0), (255, 256, 0), (32_767, 1, 6),
        (65_534, 2, 0), (43_690, 1, 2), (254, 514, 3), (254, 1028, 0),
    ],
)  # fmt: skip
def test_rows_of_about_65535_bytes_or_a_multiple_have_pillows_pixels(width, height, colour):
    """libdeflate gives libpng the rows in blocks of so many bytes."""
    data = made(colour, 8, width, height, np.random.default_rng(6))
    assert np.array_equal(decoded(data), np.asarray(open_picture(data)))
    if colour in (0, 3):
        assert np.array_equal(as_mask(Codec(), data), open_mask(data))


def cut(data, *places):
    """IDATs that begin at these places of a stream."""
    ends = [*places, len(data)]
    return b"".join(chunk(b"IDAT", data[at:to]) for at, to in zip([0, *places], ends, strict=True))


@pytest.mark.parametrize(
    "places",
    [[], [1], [2], [50, 50, 50], [0, 0], [10_000, 10_000], range(60), [-4], [-1], [-4, -3, -2, -1]],
)
def test_pixels_lie_in_any_number_of_chunks_also_empty_ones(places):
    pixels = np.random.default_rng(7).integers(0, 4, (30, 100, 3), np.uint8)
    stream = zlib.compress(b"".join(b"\0" + row.tobytes() for row in pixels))
    places = [at % len(stream) if at < 0 else min(at, len(stream)) for at in places]
    data = begun(100, 30, 8, 2) + cut(stream, *places) + END
    assert np.array_equal(open_picture(data), pixels)
    assert np.array_equal(decoded(data), pixels)


def odd_files():
    """What is odd, the file, and whether it is decoded. Its rows have no filter, or that of the row above."""
    rng = np.random.default_rng(8)
    filters, content = rng.integers(0, 2, (30, 1)) * 2, rng.integers(0, 4, (30, 300))
    rows = np.hstack([filters, content]).astype(np.uint8).tobytes()
    head, of_palette, stream = begun(100, 30, 8, 2), begun(300, 30, 8, 3), zlib.compress(rows)
    idat, text, other = chunk(b"IDAT", stream), chunk(b"tEXt", b"A\0B"), b"A\0B"
    palette = bytes(range(12))
    five = rng.integers(0, 256, (5, 301), np.uint8)
    five[:, 0] = 0
    far = b"\x08\x1d" + zlib.compress(five.tobytes() * 6)[2:]  # it says that 256 bytes are looked back on
    yield "nothing", head + idat + END, True
    yield "bytes behind the last chunk", head + idat + END + b"\0" * 20, True
    yield "a chunk behind the last one", head + idat + END + text, True
    yield "bytes behind the stream", head + chunk(b"IDAT", stream + b"12345") + END, True
    yield "a chunk of bytes behind the stream", head + idat + chunk(b"IDAT", b"12345") + END, True
    yield "a second stream", head + idat + idat + END, True
    yield "a second run of pixels", head + idat + text + idat + END, True
    yield "a run cut in two", head + cut(stream[:99]) + text + cut(stream[99:]) + END, False
    yield "an empty run behind", head + idat + text + chunk(b"IDAT", b"") + END, True
    yield "no pixels", head + END, False
    yield "empty pixels", head + chunk(b"IDAT", b"") + END, False
    yield "a row is missing", head + chunk(b"IDAT", zlib.compress(rows[:-301])) + END, False
    yield "a row too many", head + chunk(b"IDAT", zlib.compress(rows + rows[:301])) + END, True
    yield "a filter that is none", head + chunk(b"IDAT", zlib.compress(b"\5" + rows[1:])) + END, False
    yield "no end", head + idat, False
    yield "an end with content", head + idat + chunk(b"IEND", other), True
    yield "a wrong checksum of pixels", head + chunk(b"IDAT", stream, 1) + END, False
    yield "a wrong checksum of the end", head + idat + chunk(b"IEND", b"", 1), False
    yield "a wrong checksum of text", head + chunk(b"tEXt", other, 1) + idat + END, False
    yield "a wrong checksum of text behind", head + idat + chunk(b"tEXt", other, 1) + END, False
    yield "a wrong checksum of the rows", head + cut(stream[:-1] + bytes([stream[-1] ^ 1])) + END, False
    yield "no checksum of the rows", head + chunk(b"IDAT", stream[:-4]) + END, False
    yield "a damaged stream", head + chunk(b"IDAT", stream[:40] + b"\xff" * 9 + stream[49:]) + END, False
    yield "a dictionary", head + chunk(b"IDAT", b"\x78\x3f" + stream[2:]) + END, False
    yield "another method", head + chunk(b"IDAT", b"\x77\x0f" + stream[2:]) + END, False
    yield "a window that is too small", head + chunk(b"IDAT", far) + END, libdeflate() is not None
    yield "an unknown critical chunk", head + chunk(b"QuIp", other) + idat + END, False
    yield "an unknown chunk", head + chunk(b"quIp", other) + idat + END, True
    yield "a second header", head + head[8:] + idat + END, False
    yield "a palette", of_palette + chunk(b"PLTE", palette) + idat + END, True
    yield "a wrong checksum of a palette", of_palette + chunk(b"PLTE", palette, 1) + idat + END, False
    yield "a palette behind", of_palette + idat + chunk(b"PLTE", palette) + END, False
    yield "no palette", of_palette + idat + END, False
    yield "a palette without use", head + chunk(b"PLTE", palette) + idat + END, True


ODD = list(odd_files())


@pytest.mark.parametrize("data, is_decoded", [odd[1:] for odd in ODD], ids=[odd[0] for odd in ODD])
def test_an_odd_file_gives_pillows_pixels_or_is_left_to_pillow(data, is_decoded):
    if is_decoded:
        assert np.array_equal(decoded(data), np.asarray(open_picture(data)))
        return
    with pytest.raises(LeftToPillowError):
        decoded(data)


@pytest.mark.parametrize("data", [odd[1] for odd in ODD], ids=[odd[0] for odd in ODD])
def test_an_odd_mask_gives_pillows_classes_or_is_left_to_pillow(data):
    """The same as a grey or a mask with a palette, because a mask has one byte a pixel."""
    grey = begun(300, 30, 8, 0) + data[33:] if data[25] == 2 else data
    try:
        ours = as_mask(Codec(), grey)
    except LeftToPillowError:
        return
    assert np.array_equal(ours, open_mask(grey))


def damaged(rng, pick):
    colour, depth = pick.choice(KINDS)
    data = bytearray(
        made(
            colour,
            depth,
            pick.randint(1, 20),
            pick.randint(1, 20),
            rng,
            interlace=pick.randint(0, 1),
            palette=pick.choice([256, 40]),
        )
    )
    for _ in range(pick.choice([1, 1, 2, 8])):
        kind = pick.randrange(4)
        at = pick.randrange(len(data))
        if kind == 0:
            data[at] ^= 1 << pick.randrange(8)
        elif kind == 1:
            del data[max(9, at) :]
        elif kind == 2:
            data[at : at + 4] = struct.pack(">I", pick.choice([0, 1, 2**31 - 1, 2**31, 2**32 - 1, 65536]))
        else:
            data[at:at] = data[: pick.randrange(1, 60)]
        if not data:
            data = bytearray(b"\x89")
    if pick.random() < 0.7:  # checksums that fit: what lies behind them is reached
        mend(data)
    return bytes(data)


def mend(data):
    """Give each chunk the checksum of its content, as far as chunks follow each other."""
    at = 8
    while at + 12 <= len(data):
        (length,) = struct.unpack_from(">I", data, at)
        if length > len(data) - at - 12:
            return
        struct.pack_into(">I", data, at + 8 + length, zlib.crc32(bytes(data[at + 4 : at + 8 + length])))
        at += 12 + length


def test_a_damaged_file_gives_pillows_pixels_or_is_left_to_pillow():
    seed = int(os.environ.get("SENECA_TEST_SEED", random.randrange(2**32)))
    rng, pick = np.random.default_rng(seed), random.Random(seed)
    count = int(os.environ.get("SENECA_FUZZ", size(500, 3_000)))
    codec = Codec()
    read = 0
    for number in itertools.islice(itertools.count(), count):
        data = damaged(rng, pick)
        try:
            ours = codec.decode(WHOLE, data)
        except (LeftToPillowError, DecodeError):
            continue
        read += 1
        assert ours.shape[2] == 3
        if number % 10 == 0:
            try:
                theirs = np.asarray(open_picture(data))
            except DecodeError as error:
                pytest.fail(f"seed {seed}, file {number}: Pillow refuses it: {error}")
            assert np.array_equal(ours, theirs), f"seed {seed}, file {number}"
    assert read > count // 50


def test_a_damaged_mask_gives_pillows_classes_or_is_left_to_pillow():
    seed = int(os.environ.get("SENECA_TEST_SEED", random.randrange(2**32)))
    rng, pick = np.random.default_rng(seed), random.Random(seed)
    count = int(os.environ.get("SENECA_FUZZ", size(500, 3_000)))
    codec = Codec()
    read = 0
    for number in range(count):
        data = damaged(rng, pick)
        try:
            ours = as_mask(codec, data)
        except (LeftToPillowError, DecodeError):
            continue
        read += 1
        try:
            theirs = open_mask(data)
        except DecodeError as error:
            pytest.fail(f"seed {seed}, file {number}: Pillow refuses it: {error}")
        assert np.array_equal(ours, theirs), f"seed {seed}, file {number}"
    assert read > count // 100
