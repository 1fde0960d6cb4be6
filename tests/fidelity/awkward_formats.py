"""More awkward files, of every format that Pillow reads. What Pillow does with each is not said.

Formats that this Pillow cannot save are left out.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import png_files
from jpeg_surgery import after_soi, exif, of_layout, picture, saved, segment
from PIL import Image
from png_files import begun, chunk, made
from sizes import size

__all__ = ["AwkwardFile", "awkward_formats"]

BASE = picture()
SECOND = picture(seed=3)
GREY_16 = Image.fromarray(np.arange(2000, dtype=np.uint16).reshape(40, 50) * 30)
CLEAR = Image.fromarray(np.random.default_rng(1).integers(0, 256, (40, 50, 4), np.uint8), "RGBA")

MODES = ("1", "L", "P", "RGB", "RGBA", "LA", "CMYK", "LAB", "I", "I;16", "F")
OF_ICNS = size(("RGB",), MODES)  # it has pictures of up to a million pixels, which take long to save

PCX = b"\x0a\5\1\x08\0\0\0\0\3\0\3\0"
PSD = b"8BPS\0\1" + bytes(6) + struct.pack(">HIIHH", 3, 2, 2, 8, 3)
LAYOUTS = [
    *([(h, v), (1, 1), (1, 1)] for h in (1, 2, 3, 4) for v in (1, 2, 3, 4) if h * v <= 8),
    [(1, 1), (2, 1), (2, 1)],
    [(1, 1), (1, 2), (1, 2)],
    [(2, 2), (2, 1), (1, 2)],
    [(2, 2), (1, 1), (2, 2)],
    [(2, 1), (2, 1), (2, 1)],
    [(3, 1), (1, 1), (3, 1)],
    [(4, 2)],
    [(2, 2), (1, 1), (1, 1), (2, 2)],
]


class AwkwardFile(NamedTuple):
    """A file, whose name says what is awkward about it."""

    name: str
    data: bytes


def awkward_formats() -> Iterator[AwkwardFile]:
    """All of them; the same each time."""
    yield from _jpegs()
    yield from _pngs()
    yield from _webps()
    yield from _all_formats()
    yield from _special_formats()
    yield from _no_pictures()


def _cut(name: str, data: bytes, parts: int = 5) -> Iterator[AwkwardFile]:
    """The file without its end, and with zeros in place of it."""
    stem, ending = name.rsplit(".", 1)
    for part in range(1, parts):
        at = len(data) * part // parts
        yield AwkwardFile(f"{stem}-cut-{part}.{ending}", data[:at])
        yield AwkwardFile(f"{stem}-zeros-{part}.{ending}", data[:at] + bytes(len(data) - at))
    yield AwkwardFile(f"{stem}-without-2-bytes.{ending}", data[:-2])
    yield AwkwardFile(f"{stem}-and-more.{ending}", data + b"more than that" * 100)


def _jpegs() -> Iterator[AwkwardFile]:
    for number, factors in enumerate(LAYOUTS):
        name = "_".join(f"{h}x{v}" for h, v in factors)
        yield AwkwardFile(f"layout-{name}.jpg", of_layout(factors, seed=number))
    for tall, options in [
        (40, {}),
        (300, {}),
        (300, {"progressive": True}),
        (300, {"restart_marker_rows": 1}),
    ]:
        data = saved(picture(tall, 60), **options)
        yield from _cut(f"tall-{tall}-{'-'.join(options) or 'plain'}.jpg", data)
    data = saved(picture(300, 60))
    for tenth in (6, 9):  # the middle is behind it, or before it
        at = len(data) * tenth // 10
        damaged = data[:at] + b"\xff\xc0" + data[at + 2 :]
        yield AwkwardFile(f"marker-in-the-scan-{tenth}.jpg", damaged)
    plain, resolution = saved(BASE), b"II*\0\x08\0\0\0\x02\0"
    for kind, value in [(1, b"7"), (2, b"7"), (7, b"7"), (2, b"72"), (3, b"\1"), (4, b"\1")]:
        entries = struct.pack("<HHI4s", 0x11A, kind, len(value), value) + struct.pack(
            "<HHIHH", 0x128, 3, 1, 2, 0
        )
        data = after_soi(plain[:2] + plain[20:], exif(resolution + entries + bytes(4)))
        yield AwkwardFile(f"resolution-of-type-{kind}-{len(value)}.jpg", data)
    yield AwkwardFile("resolution-in-two-segments.jpg", after_soi(plain, exif(resolution), exif(entries)))
    for count, entries in [(2, 2), (2, 1), (3, 2), (0, 0), (1, 0), (200, 2)]:
        index = struct.pack("<HHHII", 2, 0xB001, 4, 1, count) + struct.pack(
            "<HHII", 0xB002, 7, 16 * entries, 38
        )
        content = b"MPF\0II*\0\x08\0\0\0" + index + bytes(4) + bytes(16 * entries)
        data = after_soi(plain, segment(0xE2, content))
        yield AwkwardFile(f"index-of-{count}-pictures-with-{entries}.jpg", data)
    for length in (5, 6, 7, 10):
        data = after_soi(plain[:2] + plain[20:], segment(0xE0, b"JFIF\0\1\1\0\0\1\0\1\0\0"[:length]))
        yield AwkwardFile(f"jfif-of-{length}-bytes.jpg", data)
        data = after_soi(plain, segment(0xEE, b"Adobe\0\x64\0\0\0\0\1"[:length]))
        yield AwkwardFile(f"adobe-of-{length}-bytes.jpg", data)
    block = b"Photoshop 3.0\x008BIM\x03\xed\0\0\0\0\0\x10" + bytes(16)
    for length in range(14, len(block) + 1, 2):
        yield AwkwardFile(f"photoshop-of-{length}-bytes.jpg", after_soi(plain, segment(0xED, block[:length])))


def _pngs() -> Iterator[AwkwardFile]:
    rng = np.random.default_rng(2)
    for colour, depth in [*png_files.KINDS, (0, 16)]:
        for interlace in (0, 1):
            data = made(colour, depth, 37, 29, rng, interlace=interlace)
            yield AwkwardFile(f"colour-{colour}-depth-{depth}-interlace-{interlace}.png", data)
    for colour, content in [(0, b"\0\5"), (2, bytes(6)), (3, bytes(range(0, 250, 10)))]:
        data = made(colour, 8, 20, 10, rng, chunks=[(b"tRNS", content)])
        yield AwkwardFile(f"transparent-of-colour-{colour}.png", data)
    colours = (b"PLTE", rng.integers(0, 256, 3 * 256, np.uint8).tobytes())
    some = made(3, 8, 20, 10, rng)
    end, pixels = png_files.END, chunk(b"IDAT", zlib.compress(bytes(range(210))))
    for entries in (0, 1, 100):
        few = begun(20, 10, 8, 3) + chunk(b"PLTE", colours[1][: 3 * entries]) + pixels + end
        yield AwkwardFile(f"palette-of-{entries}.png", few)
    yield AwkwardFile("palette-of-4-bytes.png", begun(20, 10, 8, 3) + chunk(b"PLTE", bytes(4)) + pixels + end)
    yield AwkwardFile("palette-missing.png", begun(20, 10, 8, 3) + pixels + end)
    yield AwkwardFile("palette-of-rgb.png", made(2, 8, 20, 10, rng, chunks=[colours]))
    for name, content in [
        ("gAMA", b""), ("gAMA", bytes(4)), ("iCCP", b"name\0\0broken"), ("iCCP", b"name"), ("cHRM", bytes(3)),
        ("sRGB", b""), ("pHYs", bytes(2)), ("tRNS", b""), ("tEXt", b"no zero"), ("zTXt", b"a\0\0broken"),
        ("zTXt", b"a\0\7" + zlib.compress(b"a")), ("iTXt", b"a\0\1\0\0\0broken"), ("eXIf", b"broken"),
        ("zTXt", b"a\0\0" + zlib.compress(bytes(3 << 20))), ("acTL", b""), ("acTL", struct.pack(">II", 0, 0)),
        ("acTL", struct.pack(">II", 2, 0)), ("fcTL", bytes(26)), ("CgBI", bytes(4)), ("ABCD", b"critical"),
        ("abcd", b"not critical"), ("IHDR", bytes(13)), ("IEND", b""), ("PLTE", bytes(3)), ("bKGD", b""),
        ("hIST", bytes(3)), ("tIME", bytes(2)), ("sBIT", bytes(9)), ("oFFs", b""), ("a\0b\1", b"x"),
    ]:  # fmt: skip
        data = made(2, 8, 20, 10, rng, chunks=[(name.encode(), content)])
        name = name.replace("\0", "0").replace("\1", "1")
        yield AwkwardFile(f"chunk-{name}-{len(content)}.png", data)
    for name in ("IHDR", "PLTE", "tEXt", "IDAT", "IEND"):
        data = made(3, 8, 20, 10, rng, chunks=[(b"tEXt", b"a\0b")])
        at = data.index(name.encode())
        at += int.from_bytes(data[at - 4 : at], "big") + 4
        yield AwkwardFile(f"checksum-{name}.png", data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    yield AwkwardFile("without-IEND.png", some[:-12])
    yield AwkwardFile("without-IDAT.png", begun(20, 10, 8, 2) + end)
    yield AwkwardFile("IDAT-empty.png", begun(20, 10, 8, 2) + chunk(b"IDAT", b"") + end)
    rows = rng.integers(0, 5, (10, 61), np.uint8)
    for name, content in [
        ("bomb", zlib.compress(bytes(4 << 20))),
        ("no-stream", bytes(100)),
        ("a-row-short", zlib.compress(rows[:9].tobytes())),
        ("filter-9", zlib.compress(b"\x09" + rows.tobytes()[1:])),
        ("checksum", zlib.compress(rows.tobytes())[:-1] + b"\0"),
        ("cut", zlib.compress(rows.tobytes())[:-40]),
        ("zeros-behind", zlib.compress(rows.tobytes()) + bytes(500)),
    ]:
        yield AwkwardFile(f"stream-{name}.png", begun(20, 10, 8, 2) + chunk(b"IDAT", content) + end)
    halves = chunk(b"IDAT", content[:50]) + chunk(b"tEXt", b"a\0b") + chunk(b"IDAT", content[50:])
    yield AwkwardFile("text-within-pixels.png", begun(20, 10, 8, 2) + halves + end)
    for depth, colour in [(3, 0), (16, 3), (4, 2), (1, 6), (8, 5), (0, 0)]:
        data = begun(20, 10, depth, colour) + pixels + end
        yield AwkwardFile(f"depth-{depth}-of-colour-{colour}.png", data)
    yield AwkwardFile("width-0.png", begun(0, 10, 8, 2) + pixels + end)
    yield AwkwardFile("width-of-32-bits.png", begun(1 << 31, 1, 8, 2) + pixels + end)
    yield from _cut("cut.png", saved(picture(200, 90), "PNG"), 8)


def _webps() -> Iterator[AwkwardFile]:
    for name, image, options in [
        ("lossy", BASE, {}),
        ("lossless", BASE, {"lossless": True}),
        ("alpha", CLEAR, {}),
        ("alpha-lossless", CLEAR, {"lossless": True, "exact": True}),
        ("animated", BASE, {"save_all": True, "append_images": [SECOND]}),
        ("exif", BASE, {"exif": b"Exif\0\0broken", "icc_profile": bytes(50), "xmp": b"<x/>"}),
    ]:
        data = _saved(image, "WEBP", options)
        if data is not None:
            yield AwkwardFile(f"{name}.webp", data)
            yield from _cut(f"{name}.webp", data, 4)


def _all_formats() -> Iterator[AwkwardFile]:
    """Each format in each mode, whole and damaged."""
    Image.init()
    for kind in sorted(
        set(Image.SAVE) & set(Image.OPEN) - {"JPEG", "PNG", "WEBP", "EPS"}
    ):  # EPS runs a program
        for mode in OF_ICNS if kind == "ICNS" else MODES:
            image = GREY_16 if mode == "I;16" else CLEAR if mode == "RGBA" else _in_mode(mode)
            data = _saved(image, kind, {})
            if data is None:
                continue
            yield AwkwardFile(f"{kind}-{mode.replace(';', '')}.jpg", data)
            if mode in ("RGB", "P", "I;16"):
                yield from _cut(f"{kind}-{mode.replace(';', '')}.jpg", data, 3)


def _in_mode(mode: str) -> Image.Image:
    if mode == "LAB":
        return Image.frombytes("LAB", BASE.size, BASE.tobytes())
    return BASE.convert(mode)


def _saved(image: Image.Image, kind: str, options: dict[str, object]) -> bytes | None:
    """What Pillow writes; None: it cannot."""
    try:
        return saved(image, kind, **options)
    except (OSError, ValueError, KeyError, TypeError, struct.error):
        return None


def _special_formats() -> Iterator[AwkwardFile]:
    gif = {"save_all": True, "append_images": [SECOND.convert("P")]}
    for name, kind, image, options in [
        ("animated", "GIF", BASE.convert("P"), gif),
        ("transparent", "GIF", BASE.convert("P"), {"transparency": 3}),
        ("interlaced", "GIF", BASE.convert("P"), {"interlace": 1}),
        ("pages", "TIFF", BASE, {"save_all": True, "append_images": [SECOND]}),
        ("big", "TIFF", BASE, {"big_tiff": True}),
        *((f"by-{way}", "TIFF", BASE, {"compression": way}) for way in ("tiff_lzw", "tiff_deflate", "jpeg")),
        ("fax", "TIFF", BASE.convert("1"), {"compression": "group4"}),
        ("rle", "TGA", BASE, {"compression": "tga_rle"}),
        ("sizes", "ICO", BASE, {"sizes": [(16, 16), (32, 32)]}),
        ("bmp", "ICO", BASE, {"bitmap_format": "bmp"}),
        ("animated", "PNG", BASE, {"save_all": True, "append_images": [SECOND]}),
        ("animated", "AVIF", BASE, {"save_all": True, "append_images": [SECOND]}),
    ]:
        data = _saved(image, kind, options)
        if data is not None:
            yield AwkwardFile(f"{kind}-{name}.jpg", data)
            yield from _cut(f"{kind}-{name}.jpg", data, 2)
    pixels = np.random.default_rng(5).integers(0, 256, 6 * 4 * 4, np.uint8).tobytes()
    for bits in (1, 2, 4, 8, 16, 24, 32):
        for rows in (4, -4):  # from the bottom up, from the top down
            size = -(-6 * bits // 32) * 4 * 4
            colours = (
                bytes(range(4 << bits))[: 4 << bits] if bits <= 4 else bytes(range(256)) * 4 * (bits == 8)
            )
            head = struct.pack("<IiiHHIIiiII", 40, 6, rows, 1, bits, 0, size, 1, 1, 0, 0) + colours
            data = b"BM" + struct.pack("<IHHI", 0, 0, 0, 14 + len(head)) + head + pixels[:size]
            yield AwkwardFile(f"bits-{bits}-rows-{rows}.bmp", data)
    for name, codes in [
        ("sound", b"\6\1\0\0\6\2\0\0\0\4\1\2\3\4\2\5\0\0\6\7\0\0\0\1"),
        ("jump", b"\2\1\0\2\2\1\6\2\0\0\0\1"),
        ("too-long", b"\xff\1" * 9),
        ("cut", b"\6\1\0\0\6"),
    ]:
        head = struct.pack("<IiiHHIIiiII", 40, 6, 4, 1, 8, 1, len(codes), 1, 1, 0, 0) + bytes(range(256)) * 4
        data = b"BM" + struct.pack("<IHHI", 0, 0, 0, 14 + len(head)) + head + codes
        yield AwkwardFile(f"rle-{name}.bmp", data)
    for kind, data in [
        ("P1", b"P1\n# a comment\n3 2\n1 0 1\n0 1 0\n"), ("P2", b"P2 3 2 15 1 2 3 4 5 6"),
        ("P3", b"P3 1 1 9 1 2 3"),
        ("P2-over", b"P2 3 2 5 1 2 3 4 5 600"), ("P5-16", b"P5 2 1 65535 \0\1\xff\xff"),
        ("P7", b"P7\nWIDTH 1\n"),
        ("P6-cut", b"P6 9 9 255 \0\1"), ("P6-0", b"P6 0 9 255 "), ("Pf", b"Pf 1 1 -1.0 " + bytes(4)),
        ("PSD", PSD + bytes(12) + b"\0\0" + bytes(12)),
        ("PSD-cut", PSD + bytes(4)),
        ("JP2", b"\0\0\0\x0cjP  \r\n\x87\n" + bytes(40)), ("AVIF", b"\0\0\0\x1cftypavif" + bytes(60)),
        ("FITS", b"SIMPLE  =                    T" + b" " * 2850),
        ("XPM", b"/* XPM */\nstatic char *a[] = {\n"),
        ("FLI", bytes(4) + b"\x11\xaf" + bytes(140)), ("DDS", b"DDS " + struct.pack("<I", 124) + bytes(120)),
        ("PCX", b"\x0a\5\1\x08" + bytes(124)),
        ("PCX-without-palette", PCX + bytes(53) + b"\1\4\0\1\0" + bytes(58) + b"\7" * 16),
        ("TGA", bytes(2) + b"\2" + bytes(9) + b"\2\0\2\0\x18\0" + bytes(12)),
        ("WMF", b"\xd7\xcd\xc6\x9a\0\0" + bytes(60)), ("ICNS", b"icns\0\0\0\x08"),
        ("CUR", b"\0\0\2\0\1\0" + bytes(40)),
    ]:  # fmt: skip
        yield AwkwardFile(f"by-hand-{kind}.jpg", data)


def _no_pictures() -> Iterator[AwkwardFile]:
    for name, data in [
        ("one-byte", b"\xff"), ("two-bytes", b"\xff\xd8"), ("three-bytes", b"\xff\xd8\xff"),
        ("newline", b"\n"),
        ("text-utf-16", "text".encode("utf-16")), ("svg", b'<svg xmlns="http://www.w3.org/2000/svg"/>'),
        ("pdf", b"%PDF-1.4\n"), ("zip", b"PK\3\4" + bytes(60)), ("gzip", b"\x1f\x8b\x08" + bytes(60)),
        ("git-lfs", b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"),
        ("ones", b"\xff" * 5000),
        ("noise", np.random.default_rng(9).integers(0, 256, 5000, np.uint8).tobytes()),
        ("png-signature", b"\x89PNG\r\n\x1a\n"), ("riff", b"RIFF\4\0\0\0WEBP"), ("gif-head", b"GIF89a"),
        ("tiff-head", b"II*\0"), ("bmp-head", b"BM"),
    ]:  # fmt: skip
        yield AwkwardFile(f"no-picture-{name}.jpg", data)
