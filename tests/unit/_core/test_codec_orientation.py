"""EXIF orientation: what Pillow's exif_transpose makes of the file, however broken its EXIF is."""

import io
import struct
import warnings

import numpy as np
import pytest
import simplejpeg
from PIL import Image, ImageOps
from PIL import __version__ as pillow_version

from seneca._core.codec import Codec
from seneca._core.plan import Plan
from seneca.errors import LeftToPillowError
from seneca.transforms._apply import open_picture

ORIENTATIONS = range(1, 9)
PILLOW_SIMD = "post" in pillow_version
NAME = b"Exif\0\0"
XMP = b"http://ns.adobe.com/xap/1.0/\0"
TRANSPOSES = {
    2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180, 4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE, 6: Image.Transpose.ROTATE_270, 7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}  # fmt: skip
SHORT, LONG, RATIONAL, SBYTE, SLONG, FLOAT, DOUBLE = 3, 4, 5, 6, 9, 11, 12


def plan(*ops, n_head=0, upright=True, decode="exact"):
    return Plan(
        list(ops), n_head, "uint8", True, (0, 0, 0), (1, 1, 1), apply_orientation=upright, decode=decode
    )


def noise(height, width, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


def encodings(height, width):
    pixels = noise(height, width)
    for sampling in ("444", "422", "420", "440", "411"):
        yield simplejpeg.encode_jpeg(pixels, 90, "RGB", sampling)
    file = io.BytesIO()
    Image.fromarray(pixels[..., 0]).save(file, "JPEG", progressive=True)
    yield file.getvalue()


def segment(payload):
    return b"\xff\xe1" + struct.pack(">H", len(payload) + 2) + payload


def with_segments(data, *payloads):
    """The file with these APP1 segments first."""
    return data[:2] + b"".join(map(segment, payloads)) + data[2:]


def entry(order, tag, kind, count, value):
    return struct.pack(order + "HHI4s", tag, kind, count, value)


def tiff(*entries, order=">", head=None, after=b""):
    """A TIFF of one directory; ``after`` follows it, at byte 14 + 12 * len(entries)."""
    head = head or (b"MM\0*" if order == ">" else b"II*\0")
    directory = struct.pack(order + "H", len(entries)) + b"".join(entries) + bytes(4)
    return head + struct.pack(order + "I", 8) + directory + after


def orientation_entry(value, order=">"):
    return entry(order, 274, SHORT, 1, struct.pack(order + "HH", value, 0))


def turned(data, orientation, order=">"):
    return with_segments(data, NAME + tiff(orientation_entry(orientation, order), order=order))


def by_pillow(data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the EXIF that we broke
        try:
            image = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
        except Exception:  # whatever a parser meets in such EXIF, in reading or writing it anew
            image = Image.open(io.BytesIO(data))
            try:
                method = TRANSPOSES.get(image.getexif().get(274))
            except Exception:
                method = None
            image = image if method is None else image.transpose(method)
    return np.asarray(image.convert("RGB"))


def decoded(data, codec=None):
    """The whole picture, upright, as the pipeline decodes it."""
    try:
        return (codec or Codec()).decode(plan(), data)
    except LeftToPillowError:
        return np.asarray(open_picture(data, apply_orientation=True))


def assert_as_pillow(data, message=""):
    np.testing.assert_array_equal(decoded(data), by_pillow(data), message)


@pytest.mark.parametrize("orientation", ORIENTATIONS)
@pytest.mark.parametrize(("height", "width"), [(1, 1), (1, 7), (17, 8), (31, 45)])
def test_a_whole_picture_is_turned_as_pillow_turns_it(height, width, orientation):
    for data in encodings(height, width):
        for order in "<>":
            assert_as_pillow(turned(data, orientation, order))


@pytest.mark.small(3)
@pytest.mark.parametrize("orientation", ORIENTATIONS)
def test_a_region_is_turned_as_the_whole_picture(orientation):
    codec, rng = Codec(), np.random.default_rng(orientation)
    for data in encodings(43, 70):
        data = turned(data, orientation)
        whole = by_pillow(data)
        height, width, _ = whole.shape
        for _ in range(10):
            h, w = int(rng.integers(1, height + 1)), int(rng.integers(1, width + 1))
            top, left = round((height - h) / 2), round((width - w) / 2)
            region = codec.decode(plan(("center_crop", {"size": (h, w)}), n_head=1), data)
            np.testing.assert_array_equal(region, whole[top : top + h, left : left + w])


@pytest.mark.small(3)
@pytest.mark.parametrize("orientation", ORIENTATIONS)
@pytest.mark.parametrize(("height", "width"), [(97, 61), (120, 200)])
def test_a_random_crop_is_cut_from_the_turned_picture(height, width, orientation):
    codec = Codec()
    crop = ("random_resized_crop", {"size": (32, 48), "scale": (0.08, 1.0), "ratio": (3 / 4, 4 / 3)})
    train = plan(crop, ("random_hflip", {"p": 0.5}))
    for data in encodings(height, width):
        data = turned(data, orientation)
        whole = Image.fromarray(by_pillow(data))
        for index in range(6):
            (route,) = train.route(whole.height, whole.width, 5, 0, 0, index)
            top, left, h, w = route["box"]
            expected = whole.crop((left, top, left + w, top + h)).resize((48, 32), Image.Resampling.BILINEAR)
            if route["flip"]:
                expected = expected.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
            ours = codec.augment_encoded(train, data, 5, 0, 0, index)
            apart = np.abs(ours.astype(int) - np.asarray(expected))
            assert apart.max() <= (0 if PILLOW_SIMD else 2)  # csrc/codec/kernels/taps.h


def test_a_picture_is_turned_only_where_that_is_asked():
    data = turned(next(encodings(20, 30)), 6)
    codec = Codec()
    assert codec.probe(data) == (20, 30)
    assert codec.decode_region(data, 0, 0, 20, 30).shape == (20, 30, 3)
    assert codec.decode(plan(upright=False), data).shape == (20, 30, 3)
    assert codec.decode(plan(), data).shape == (30, 20, 3)
    # What one file says is forgotten with the next.
    assert codec.decode(plan(), next(encodings(20, 30))).shape == (20, 30, 3)


def xmp(text):
    return XMP + b'<x:xmpmeta xmlns:tiff="..." ' + text + b"/>"


def peculiar():
    """Contents of APP1 segments that a writer, or chance, may leave behind."""
    six = orientation_entry(6)
    little = orientation_entry(8, "<")
    far = entry(">", 270, 2, 9, struct.pack(">I", 14 + 12 * 2))  # a description, kept after the directory
    lost = entry(">", 270, 2, 9, struct.pack(">I", 5000))
    yield ("no segment",)
    for value in (0, 1, 9, 255, 1536, 65535):
        yield f"value {value}", NAME + tiff(orientation_entry(value))
    yield "both heads wrong", NAME + tiff(six, head=b"MMMM")
    yield "swapped magic, MM", NAME + tiff(six, head=b"MM*\0")
    yield "swapped magic, II", NAME + tiff(little, order="<", head=b"II\0*")
    yield "big TIFF, II", NAME + tiff(little, order="<", head=b"II+\0")
    yield "big TIFF, MM", NAME + tiff(six, head=b"MM\0+")
    yield "order against head", NAME + tiff(little, order=">", head=b"II*\0")
    yield "name alone", NAME
    yield "name cut", NAME[:5]
    yield "another name", b"Exif\0\1" + tiff(six)
    yield "name twice", NAME + NAME + tiff(six)
    for cut in (1, 4, 7, 8, 9, 10, 15, 21, 22, 25):
        yield f"cut to {cut}", NAME + tiff(six)[:cut]
    yield "directory beyond", NAME + b"MM\0*" + struct.pack(">I", 4_000_000_000) + tiff(six)[8:]
    yield "directory in the head", NAME + b"MM\0*" + bytes(4) + tiff(six)[8:]
    yield "more entries said", NAME + tiff(six)[:8] + b"\xff\xff" + tiff(six)[10:]
    yield "fewer entries said", NAME + tiff(six)[:8] + b"\0\0" + tiff(six)[10:]
    yield "twice", NAME + tiff(six, orientation_entry(3))
    yield "twice, then none", NAME + tiff(six, entry(">", 274, SHORT, 0, bytes(4)))
    yield "twice, then text", NAME + tiff(six, entry(">", 274, 2, 1, b"3\0\0\0"))
    yield "after a description", NAME + tiff(far, six, after=b"a picture")
    yield "after a description that is lost", NAME + tiff(lost, six)
    yield "before a description that is lost", NAME + tiff(six, lost)
    yield "after an unknown type", NAME + tiff(entry(">", 270, 99, 1 << 31, bytes(4)), six)
    yield "after a huge count", NAME + tiff(entry(">", 270, 5, (1 << 32) - 1, bytes(4)), six)
    for name, kind, value in [
        ("byte", 1, b"\6\0\0\0"),
        ("text", 2, b"6\0\0\0"),
        ("long", LONG, b"\0\0\0\6"),
        ("signed byte", SBYTE, b"\6\0\0\0"),
        ("undefined", 7, b"\6\0\0\0"),
        ("signed short", 8, b"\0\6\0\0"),
        ("signed long", SLONG, b"\0\0\0\6"),
        ("float", FLOAT, struct.pack(">f", 6)),
        ("broken float", FLOAT, struct.pack(">f", 6.5)),
        ("directory", 13, b"\0\0\0\6"),
        ("type 0", 0, b"\0\6\0\0"),
        ("type 14", 14, b"\0\6\0\0"),
        ("type 17", 17, b"\0\6\0\0"),
    ]:
        yield name, NAME + tiff(entry(">", 274, kind, 1, value))
    for name, kind, value in [
        ("fraction", RATIONAL, struct.pack(">II", 12, 2)),
        ("fraction of nothing", RATIONAL, struct.pack(">II", 6, 0)),
        ("signed fraction", 10, struct.pack(">ii", -12, -2)),
        ("double", DOUBLE, struct.pack(">d", 6)),
        ("long of 8", 16, struct.pack(">Q", 6)),
        ("large long of 8", 16, struct.pack(">Q", (1 << 63) + 6)),
    ]:
        yield name, NAME + tiff(entry(">", 274, kind, 1, struct.pack(">I", 26)), after=value)
    yield "many values", NAME + tiff(entry(">", 274, SHORT, 3, struct.pack(">I", 26)), after=b"\0\3\0\6\0\6")
    yield "two values", NAME + tiff(entry(">", 274, SHORT, 2, b"\0\3\0\6"))
    yield "two segments", NAME + tiff(six), NAME + tiff(orientation_entry(3))
    yield "an empty segment first", NAME, NAME + tiff(six)
    yield "a broken segment first", NAME + b"broken", NAME + tiff(six)
    halves = tiff(far, six, after=b"a picture")
    yield "in two halves", NAME + halves[:40], NAME + halves[40:]
    yield "other APP1 first", b"something else", b"", NAME + tiff(six)
    yield "XMP", xmp(b'tiff:Orientation="6"')
    yield "XMP element", xmp(b"tiff:Orientation>8<")
    yield "XMP of no digit", xmp(b'tiff:Orientation="x" tiff:Orientation="6"')
    yield "XMP of 9", xmp(b'tiff:Orientation="9" tiff:Orientation="6"')
    yield "XMP cut", xmp(b'tiff:Orientation="')[:-2]
    yield "XMP cut at the equals sign", xmp(b"tiff:Orientation=")[:-2]
    yield "XMP with nothing", XMP
    yield "two XMP", xmp(b'tiff:Orientation="6"'), xmp(b'tiff:Orientation="8"')
    yield "XMP and EXIF", xmp(b'tiff:Orientation="6"'), NAME + tiff(orientation_entry(3))
    yield "XMP and EXIF of 1", xmp(b'tiff:Orientation="6"'), NAME + tiff(orientation_entry(1))
    yield "XMP and EXIF without it", xmp(b'tiff:Orientation="6"'), NAME + tiff(far, after=b"a picture")
    yield "XMP and broken EXIF", xmp(b'tiff:Orientation="6"'), NAME + b"broken, and how"
    yield "XMP and EXIF of nothing", xmp(b'tiff:Orientation="6"'), NAME


@pytest.mark.parametrize("segments", [pytest.param(case[1:], id=case[0]) for case in peculiar()])
def test_peculiar_exif_is_applied_or_ignored_as_pillow_does(segments):
    assert_as_pillow(with_segments(next(encodings(16, 24)), *segments))


def test_the_peculiar_cases_are_of_both_kinds():
    data = next(encodings(16, 24))
    shapes = [by_pillow(with_segments(data, *case[1:])).shape for case in peculiar()]
    assert shapes.count((16, 24, 3)) > 20 and shapes.count((24, 16, 3)) > 20


@pytest.mark.small(1)
@pytest.mark.parametrize("seed", range(4))
def test_damaged_exif_is_applied_or_ignored_as_pillow_does(seed):
    rng, codec, data = np.random.default_rng(seed), Codec(), next(encodings(8, 16))
    order = "<>"[seed % 2]
    far = entry(order, 271, 2, 9, struct.pack(order + "I", 14 + 12 * 3))
    good = tiff(
        far, orientation_entry(6, order), orientation_entry(8, order), order=order, after=b"some text"
    )
    outcomes = {False: 0, True: 0}
    for trial in range(500):
        exif = bytearray(good)
        for _ in range(rng.integers(1, 4)):
            exif[rng.integers(len(exif))] = rng.choice([rng.integers(256), rng.integers(18)])
        if trial % 5 == 0:
            del exif[int(rng.integers(len(exif))) :]
        broken = with_segments(data, NAME + bytes(exif), *([xmp(b'tiff:Orientation="5"')] * (trial % 2)))
        ours = decoded(broken, codec)
        np.testing.assert_array_equal(ours, by_pillow(broken), f"seed {seed}, trial {trial}: {exif.hex()}")
        outcomes[ours.shape[0] == 16] += 1
    assert min(outcomes.values()) > 50  # else the damage says nothing


@pytest.mark.parametrize("head", [b"Exif", NAME, XMP])
def test_endless_segments_are_harmless(head):
    data = with_segments(
        next(encodings(16, 24)), *[head + tiff(orientation_entry(6))[: 7 + k] for k in range(400)]
    )
    assert_as_pillow(data)
