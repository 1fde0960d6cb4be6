"""The table of awkward files: what is wrong with each, and what becomes of it.

The name of a file says what is awkward about it. ``pillow`` is what Pillow does with it. Seneca does the
same, to the bit, unless ``on_purpose`` gives the reason why it does the opposite.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import simplejpeg
from jpeg_surgery import (
    SOF,
    SOS,
    after_soi,
    component_ids,
    edit,
    exif,
    flip_bits,
    lossless,
    picture,
    saved,
    segment,
    segments,
    sized,
    without,
)
from PIL import Image, features

from seneca._core.codec import libwebp

READ = "read"
REFUSED = "refused"
EITHER = "read or refused, as luck or Pillow's build has it"
SAME = ""

APP0, COM, DHT, DNL, DQT, DRI = 0xE0, 0xFE, 0xC4, 0xDC, 0xDB, 0xDD
EOI = b"\xff\xd9"

SCAN_LIMIT = "more than 500 scans are taken for an attack: each is another pass over all pixels"
CORE_ALONE = "the core was built with libwebp, this Pillow without"


class File(NamedTuple):
    """One awkward file."""

    name: str
    data: bytes | Callable[[], bytes]
    pillow: str = READ
    on_purpose: str = SAME

    @property
    def bytes(self) -> bytes:
        """What is in it."""
        return self.data() if callable(self.data) else self.data


BASE = picture()
PIXELS = np.ascontiguousarray(BASE)
NOISE = Image.fromarray(np.random.default_rng(1).integers(0, 256, (40, 50, 4), np.uint8), "CMYK")
PLAIN = saved(BASE)
PROGRESSIVE = saved(BASE, progressive=True)
RESTARTS = saved(BASE, restart_marker_blocks=2)
TALL = picture(300, 100)


def _files() -> Iterator[File]:
    yield from _encodings()
    yield from _colours()
    yield from _segments()
    yield from _sizes()
    yield from _truncated()
    yield from _damaged()
    yield from _bombs()
    yield from _other_formats()


def _encodings() -> Iterator[File]:
    for sampling in ("444", "422", "420", "440", "411"):
        data = simplejpeg.encode_jpeg(PIXELS, 90, "RGB", sampling)
        yield File(f"subsampling-{sampling}.jpg", data)
    for sampling in ("4:4:4", "4:2:2", "4:2:0"):
        name = sampling.replace(":", "")
        yield File(f"progressive-{name}.jpg", saved(BASE, subsampling=sampling, progressive=True))
    yield File(
        "luma-subsampled-more-than-chroma.jpg", edit(edit(PLAIN, SOF, _at(11, 0x11)), SOF, _at(14, 0x22))
    )
    yield File("one-component-of-factors-4x4.jpg", edit(saved(BASE.convert("L")), SOF, _at(11, 0x44)))
    yield File(
        "factors-that-do-not-divide.jpg", edit(edit(PLAIN, SOF, _at(11, 0x31)), SOF, _at(14, 0x21)), EITHER
    )
    yield File("optimised-huffman-tables.jpg", saved(BASE, optimize=True))
    yield File("restart-every-two-blocks.jpg", RESTARTS)
    yield File("restart-every-row.jpg", saved(BASE, restart_marker_rows=1))
    yield File("restart-progressive.jpg", saved(BASE, progressive=True, restart_marker_blocks=3))
    yield File("restart-interval-0.jpg", after_soi(PLAIN, segment(DRI, b"\0\0")))
    yield File("quality-1.jpg", saved(BASE, quality=1))
    yield File("quality-100.jpg", saved(BASE, quality=100, subsampling="4:4:4"))
    yield File("grey.jpg", saved(BASE.convert("L")))
    yield File("grey-progressive.jpg", saved(BASE.convert("L"), progressive=True))
    yield File("arithmetic.jpg", base64.b64decode(ARITHMETIC))
    yield File("arithmetic-progressive.jpg", base64.b64decode(ARITHMETIC_PROGRESSIVE))
    yield File("progressive-that-ends-after-3-scans.jpg", _first_scans(PROGRESSIVE, 3))
    yield File("tables-in-a-stream-of-their-own.jpg", _tables_first(PLAIN))
    yield File("quantisation-tables-of-16-bits.jpg", edit(PLAIN, DQT, _widen_table))
    yield File("precision-12.jpg", edit(PLAIN, SOF, _at(4, 12)), REFUSED)
    yield File("lossless.jpg", lossless(BASE), EITHER)
    yield File("called-lossless.jpg", edit(PLAIN, SOF, _at(1, 0xC3)), REFUSED)
    yield File("hierarchical.jpg", edit(PLAIN, SOF, _at(1, 0xC5)), REFUSED)


def _colours() -> Iterator[File]:
    inks, rgb = saved(NOISE), saved(BASE, keep_rgb=True)
    yield File("cmyk.jpg", inks)
    yield File("ycck.jpg", _adobe(inks, 2))
    yield File("cmyk-without-adobes-marker.jpg", without(inks, 0xEE))
    yield File("cmyk-progressive.jpg", saved(NOISE, progressive=True))
    yield File("cmyk-called-ycbcr.jpg", _adobe(inks, 1))
    yield File("rgb.jpg", rgb)
    yield File("rgb-called-ycbcr.jpg", _adobe(rgb, 1))
    yield File("rgb-known-by-its-names-only.jpg", component_ids(without(rgb, 0xEE), b"RGB"))
    yield File("rgb-of-an-unknown-transform.jpg", _adobe(rgb, 7))
    yield File("ycbcr-without-any-marker.jpg", without(PLAIN, APP0))
    yield File("ycbcr-of-strange-names.jpg", component_ids(without(PLAIN, APP0), b"\x00\x2a\xff"))
    yield File("ycbcr-of-three-equal-names.jpg", component_ids(without(PLAIN, APP0), b"\x01\x01\x01"), EITHER)
    yield File("jfif-and-adobes-rgb.jpg", after_soi(rgb, segment(APP0, b"JFIF\0\1\1\0\0\1\0\1\0\0")))
    yield File("components-0.jpg", edit(PLAIN, SOF, _at(9, 0)), REFUSED)
    yield File("components-2.jpg", edit(PLAIN, SOF, _at(9, 2)), REFUSED)
    yield File("components-5.jpg", edit(PLAIN, SOF, _at(9, 5)), REFUSED)
    yield File("components-4-said-3-there.jpg", edit(PLAIN, SOF, _at(9, 4)), REFUSED)
    yield File("components-in-the-scan-2.jpg", edit(PLAIN, SOS, _at(4, 2)), REFUSED)
    yield File("components-in-the-scan-5.jpg", edit(PLAIN, SOS, _at(4, 5)), REFUSED)
    yield File("components-in-the-scan-unknown.jpg", edit(PLAIN, SOS, _at(5, 9)), REFUSED)
    yield File("sampling-factor-0.jpg", edit(PLAIN, SOF, _at(11, 0)), REFUSED)
    yield File("sampling-factor-5.jpg", edit(PLAIN, SOF, _at(11, 0x51)), REFUSED)
    yield File("two-of-four-huffman-tables-named.jpg", edit(PLAIN, SOS, _at(6, 0x33)), REFUSED)


def _segments() -> Iterator[File]:
    for orientation in range(10):
        tags = Image.Exif()
        tags[0x0112] = orientation  # 0 and 9 are none
        yield File(f"exif-orientation-{orientation}.jpg", saved(BASE, exif=tags))
    yield File("exif-cut-short.jpg", after_soi(PLAIN, exif(b"MM\0*\0\0\0\x08\0\x05\x01\x12")))
    yield File("exif-of-noise.jpg", after_soi(PLAIN, exif(PIXELS.tobytes()[:2000])))
    yield File(
        "exif-that-points-at-itself.jpg",
        after_soi(PLAIN, exif(b"II*\0\x08\0\0\0\x01\0\x69\x87\x04\0" + b"\x01\0\0\0\x08\0\0\0" * 2)),
    )
    yield File("exif-of-resolution-1-by-0.jpg", after_soi(PLAIN, exif(EXIF_RESOLUTION)))
    yield File("exif-twice.jpg", after_soi(PLAIN, exif(b"II"), exif(b"MM")))
    yield File("icc-profile.jpg", saved(BASE, icc_profile=bytes(range(256)) * 4))
    yield File("icc-profile-in-parts.jpg", saved(BASE, icc_profile=bytes(150_000)))
    yield File("icc-profile-of-a-missing-part.jpg", after_soi(PLAIN, segment(0xE2, b"ICC_PROFILE\0\2\3abc")))
    yield File(
        "icc-profile-cut-short.jpg",
        after_soi(PLAIN, segment(0xE2, b"ICC_PROFILE\0")),
        REFUSED,
    )
    yield File("jfif-cut-short.jpg", after_soi(PLAIN, segment(APP0, b"JFIF\0")), REFUSED)
    yield File("jfif-of-another-version.jpg", edit(PLAIN, APP0, _at(9, 9)))
    yield File(
        "jfif-thumbnail.jpg",
        after_soi(without(PLAIN, APP0), segment(APP0, b"JFIF\0\1\2\0\0\1\0\1\x20\x10" + bytes(32 * 16 * 3))),
    )
    yield File("jfif-extension-thumbnail.jpg", after_soi(PLAIN, segment(APP0, b"JFXX\0\x10" + PLAIN)))
    yield File("adobe-cut-short.jpg", after_soi(PLAIN, segment(0xEE, b"Adobe\0\x64")))
    yield File(
        "photoshop-cut-short.jpg",
        after_soi(PLAIN, segment(0xED, b"Photoshop 3.0\x008BIM\x03\xed")),
        REFUSED,
    )
    yield File(
        "segments-of-every-app.jpg",
        after_soi(PLAIN, *(segment(APP0 + n, b"what%d" % n * 99) for n in range(16))),
    )
    yield File("segments-empty.jpg", after_soi(PLAIN, *(segment(APP0 + n) for n in range(16)), segment(COM)))
    yield File("comment-of-64-KiB.jpg", after_soi(PLAIN, segment(COM, b"\xff\xda" * 32766)))
    yield File("comments-of-1-MiB-together.jpg", after_soi(PLAIN, segment(COM, bytes(65533)) * 16))
    yield File("comment-between-scans.jpg", _before_last_scan(PROGRESSIVE, segment(COM, EOI)))
    yield File("comment-of-length-0.jpg", after_soi(PLAIN, b"\xff\xfe\0\0"))
    yield File("comment-of-length-1.jpg", after_soi(PLAIN, b"\xff\xfe\0\1"))
    yield File("fill-bytes-before-markers.jpg", _between(PLAIN, b"\xff\xff\xff"))
    yield File("rubbish-before-markers.jpg", _between(PLAIN, b"rubbish"))
    yield File("escaped-bytes-before-markers.jpg", _between(PLAIN, b"\xff\0"))
    yield File("restart-marker-in-the-header.jpg", after_soi(PLAIN, b"\xff\xd3"))
    yield File("marker-tem-in-the-header.jpg", after_soi(PLAIN, b"\xff\x01"), REFUSED)
    yield File("marker-reserved-in-the-header.jpg", after_soi(PLAIN, segment(0x02, b"x")), REFUSED)
    yield File("marker-of-an-extension-in-the-header.jpg", after_soi(PLAIN, segment(0xF3, b"x")), REFUSED)
    yield File("beginning-twice.jpg", after_soi(PLAIN, b"\xff\xd8"), REFUSED)
    yield File("header-twice.jpg", _twice(PLAIN, SOF), REFUSED)
    yield File("end-before-the-header.jpg", after_soi(PLAIN, EOI), REFUSED)
    yield File("scan-twice.jpg", _twice(PLAIN, (SOS,)), REFUSED)
    yield File("scan-before-the-header.jpg", _scan_first(PLAIN), REFUSED)
    yield File("rubbish-after-the-end.jpg", PLAIN + b"rubbish" * 1000)
    yield File("rubbish-before-the-beginning.jpg", b"rubbish" + PLAIN, REFUSED)
    yield File("blank-line-before-the-beginning.jpg", b"\r\n" + PLAIN, REFUSED)
    yield File("two-pictures-one-after-the-other.jpg", PLAIN + saved(picture(seed=5)))
    two = saved(BASE, "MPO", save_all=True, append_images=[picture(seed=6)])
    yield File("mpo-of-two-pictures.jpg", two)
    yield File("mpo-without-its-second-picture.jpg", two[: two.index(EOI, len(PLAIN) // 2) + 2])
    yield File("mpo-of-a-broken-index.jpg", after_soi(PLAIN, segment(0xE2, b"MPF\0II*\0\x08\0\0\0\xff\xff")))


def _sizes() -> Iterator[File]:
    for height, width in [(1, 1), (1, 7), (7, 1), (8, 8), (9, 17), (16, 16), (17, 33), (64, 64), (65, 63)]:
        for sampling in ("444", "420"):
            pixels = np.ascontiguousarray(picture(height, width))
            yield File(
                f"size-{height}x{width}-{sampling}.jpg", simplejpeg.encode_jpeg(pixels, 90, "RGB", sampling)
            )
    yield File("size-65500x1.jpg", saved(picture(65500, 1)))
    yield File("size-1x65500.jpg", saved(picture(1, 65500)))
    yield File("size-2x65500-progressive.jpg", saved(picture(2, 65500), progressive=True))
    yield File("height-0.jpg", sized(PLAIN, 0, 50), REFUSED)
    yield File(
        "height-0-and-given-after-the-scan.jpg",
        sized(PLAIN, 0, 50)[:-2] + segment(DNL, b"\0\x28") + EOI,
        REFUSED,
    )
    yield File("height-given-again-after-the-scan.jpg", PLAIN[:-2] + segment(DNL, b"\0\x28") + EOI)
    yield File("width-0.jpg", sized(PLAIN, 40, 0), REFUSED)
    yield File("height-less-than-the-scan-has.jpg", sized(PLAIN, 20, 50))
    yield File("height-more-than-the-scan-has.jpg", sized(PLAIN, 60, 50))
    yield File("width-less-than-the-scan-has.jpg", sized(PLAIN, 40, 30))


def _truncated() -> Iterator[File]:
    scan = PLAIN.index(bytes([0xFF, SOS]))
    places = {2, 3, 4, 5, *range(6, len(PLAIN) - 2, 61), *range(scan - 1, scan + 17, 3), len(PLAIN) - 3}
    for place in sorted(places):
        yield File(f"cut-after-{place:05}-bytes.jpg", PLAIN[:place], REFUSED)
    for tenth in range(1, 10):
        cut = len(PROGRESSIVE) * tenth // 10
        yield File(f"cut-progressive-after-{tenth}-tenths.jpg", PROGRESSIVE[:cut], REFUSED)
        yield File(
            f"cut-with-restarts-after-{tenth}-tenths.jpg", RESTARTS[: len(RESTARTS) * tenth // 10], REFUSED
        )
    for name, data in [
        ("plain", PLAIN),
        ("progressive", PROGRESSIVE),
        ("restarts", RESTARTS),
        ("grey", saved(BASE.convert("L"))),
    ]:
        yield File(f"end-marker-missing-{name}.jpg", data[:-2], REFUSED)
        yield File(f"end-marker-halved-{name}.jpg", data[:-1], REFUSED)
    yield File("end-marker-replaced-by-a-restart.jpg", PLAIN[:-1] + b"\xd0")
    yield File("end-marker-replaced-by-a-comment-cut-short.jpg", PLAIN[:-2] + b"\xff\xfe\x40\0abc")
    yield File("end-marker-replaced-by-a-bad-marker.jpg", PLAIN[:-1] + b"\x79" + bytes(9), REFUSED)
    yield File("end-marker-replaced-by-zeros.jpg", PLAIN[:-2] + bytes(1000))
    yield File("end-marker-replaced-by-ffs.jpg", PLAIN[:-2] + b"\xff" * 1000, REFUSED)
    yield File("end-marker-replaced-by-ffs-and-a-zero.jpg", PLAIN[:-2] + b"\xff" * 1000 + bytes(1), REFUSED)
    yield File("end-marker-behind-ffs.jpg", PLAIN[:-2] + b"\xff" * 1000 + EOI)
    yield File("end-marker-too-early.jpg", PLAIN[: scan + 100] + EOI)
    yield File("end-marker-instead-of-the-scan.jpg", PLAIN[:scan] + EOI, REFUSED)
    yield File("scan-empty.jpg", PLAIN[: scan + 14] + EOI)
    yield File("scan-of-ones.jpg", PLAIN[: scan + 14] + b"\xff\0" * 2000 + EOI)
    yield File("scan-of-zeros.jpg", PLAIN[: scan + 14] + bytes(2000) + EOI)
    data = saved(TALL)
    yield File("cut-below-the-crop.jpg", data[: len(data) * 9 // 10], REFUSED)
    yield File("end-marker-missing-below-the-crop.jpg", data[:-2], REFUSED)
    data = saved(TALL, progressive=True)
    yield File("cut-progressive-below-the-crop.jpg", data[: len(data) * 9 // 10], REFUSED)


def _damaged() -> Iterator[File]:
    for name, image in [("", BASE), ("large-", TALL)]:
        for kind, options in [
            ("plain", {}),
            ("progressive", {"progressive": True}),
            ("restarts", {"restart_marker_blocks": 2}),
        ]:
            data = saved(image, **options)
            for seed in range(6):
                yield File(f"bits-flipped-{name}{kind}-{seed}.jpg", flip_bits(data, seed), EITHER)
    yield File("restart-markers-gone.jpg", RESTARTS.replace(b"\xff\xd1", b"").replace(b"\xff\xd2", b""))
    yield File("restart-markers-out-of-turn.jpg", RESTARTS.replace(b"\xff\xd1", b"\xff\xd5"))
    yield File("restart-interval-wrong.jpg", edit(RESTARTS, DRI, _at(5, 3)))
    yield File("huffman-tables-missing.jpg", without(PLAIN, DHT))
    yield File("huffman-tables-missing-progressive.jpg", without(PROGRESSIVE, DHT), REFUSED)
    yield File("huffman-table-missing.jpg", _without_first(PLAIN, DHT))
    yield File("huffman-table-of-too-many-codes.jpg", edit(PLAIN, DHT, _at(5, 255)), REFUSED)
    yield File("huffman-table-of-number-9.jpg", edit(PLAIN, DHT, _at(4, 9)), REFUSED)
    yield File("quantisation-tables-missing.jpg", without(PLAIN, DQT), REFUSED)
    yield File("quantisation-table-missing.jpg", _without_first(PLAIN, DQT), REFUSED)
    yield File("quantisation-table-cut-short.jpg", edit(PLAIN, DQT, lambda s: _shorten(s, 20)), REFUSED)
    yield File("quantisation-table-of-zeros.jpg", edit(PLAIN, DQT, lambda s: _set(s, 5, *bytes(64))))
    yield File("quantisation-table-of-number-9.jpg", edit(PLAIN, DQT, _at(4, 9)), REFUSED)
    yield File(
        "segment-that-swallows-the-rest.jpg", edit(PLAIN, APP0, lambda s: _set(s, 2, 0xFF, 0xFF)), REFUSED
    )
    yield File("header-shorter-than-it-says.jpg", edit(PLAIN, SOF, lambda s: _shorten(s, 3)), REFUSED)
    yield File(
        "spectral-selection-of-a-baseline-scan.jpg", edit(PLAIN, SOS, lambda s: _set(s, 11, 3, 9, 0x21))
    )
    yield File(
        "spectral-selection-of-a-progressive-scan.jpg",
        edit(PROGRESSIVE, SOS, lambda s: _set(s, 11, 9, 3)),
        REFUSED,
    )


def _bombs() -> Iterator[File]:
    yield File("bomb-65500x65500.jpg", sized(PLAIN, 65500, 65500), REFUSED)
    yield File("bomb-65500x65500-progressive.jpg", sized(PROGRESSIVE, 65500, 65500), REFUSED)
    yield File("bomb-8000x8000-cut.jpg", sized(PLAIN, 8000, 8000)[:-2], REFUSED)
    yield File("bomb-of-400-scans.jpg", _last_scan_again(PROGRESSIVE, 380))
    yield File("bomb-of-2000-scans.jpg", _last_scan_again(PROGRESSIVE, 2000), READ, SCAN_LIMIT)
    yield File("bomb-that-is-a-picture.jpg", _64_million_pixels)
    png = saved(BASE, "PNG")
    yield File("bomb.png", png[:16] + b"\0\0\xff\xff" * 2 + png[24:], REFUSED)


def _other_formats() -> Iterator[File]:
    yield File("png-rgb.JPEG", saved(BASE, "PNG"))
    yield File("png-rgba.JPEG", saved(NOISE.convert("RGBA"), "PNG"))
    yield File("png-half-transparent.JPEG", saved(Image.fromarray(np.asarray(NOISE), "RGBA"), "PNG"))
    yield File("png-palette.JPEG", saved(BASE.convert("P"), "PNG"))
    yield File("png-palette-transparent.JPEG", saved(BASE.convert("P"), "PNG", transparency=3))
    yield File("png-grey.JPEG", saved(BASE.convert("L"), "PNG"))
    yield File("png-grey-and-alpha.JPEG", saved(BASE.convert("LA"), "PNG"))
    yield File(
        "png-16-bit.JPEG",
        saved(Image.fromarray(np.arange(2000, dtype=np.uint16).reshape(40, 50) * 30), "PNG"),
    )
    yield File("png-1-bit.JPEG", saved(BASE.convert("1"), "PNG"))
    yield File("png-animated.JPEG", saved(BASE, "PNG", save_all=True, append_images=[picture(seed=7)]))
    yield File("png-cut-short.png", saved(BASE, "PNG")[:-200], REFUSED)
    yield File("png-of-a-wrong-checksum.png", _with_byte(saved(BASE, "PNG"), 29, 77), REFUSED)
    yield File("bmp.JPEG", saved(BASE, "BMP"))
    yield File("bmp-palette.JPEG", saved(BASE.convert("P"), "BMP"))
    yield File("gif.JPEG", saved(BASE.convert("P"), "GIF"))
    yield File(
        "gif-animated.JPEG",
        saved(BASE.convert("P"), "GIF", save_all=True, append_images=[picture(seed=8).convert("P")]),
    )
    yield File("gif-cut-short.JPEG", saved(BASE.convert("P"), "GIF")[:600], REFUSED)
    yield File("tiff.JPEG", saved(BASE, "TIFF"))
    yield File("tiff-cmyk.tif", saved(NOISE, "TIFF"))
    yield File("tiff-cut-short.tif", saved(BASE, "TIFF")[:3000], REFUSED)
    yield File("ppm.JPEG", saved(BASE, "PPM"))
    reader = CORE_ALONE if libwebp() is not None and not features.check("webp") else SAME
    yield File("webp.JPEG", base64.b64decode(WEBP), EITHER, reader)
    yield File("jpeg-in-a-file-called.png", PLAIN)
    yield File("empty.jpg", b"", REFUSED)
    yield File("text.jpg", b"not a picture at all\n", REFUSED)
    yield File("web-page.jpg", b"<!doctype html><title>404 Not Found</title>", REFUSED)
    yield File("zeros.jpg", bytes(5000), REFUSED)


# -- How some of them are made --


def _set(part: bytearray, at: int, *values: int) -> None:
    part[at : at + len(values)] = bytes(values)


def _at(at: int, value: int) -> Callable[[bytearray], None]:
    return lambda part: _set(part, at, value)


def _with_byte(data: bytes, at: int, value: int) -> bytes:
    return data[:at] + bytes([value]) + data[at + 1 :]


def _adobe(data: bytes, transform: int) -> bytes:
    """Adobe's marker with another word about the colours."""
    return edit(data, 0xEE, _at(15, transform))


def _shorten(part: bytearray, count: int) -> None:
    del part[-count:]
    part[2:4] = (len(part) - 2).to_bytes(2, "big")


def _widen_table(part: bytearray) -> None:
    part[:] = segment(DQT, bytes([0x10 | part[4]]) + b"".join(bytes([0, value]) for value in part[5:69]))


def _between(data: bytes, extra: bytes) -> bytes:
    """Something before each marker but the first two, by which a JPEG is known."""
    first, *parts = [part for _, part in segments(data)]
    return first + extra.join(parts)


def _twice(data: bytes, markers: tuple[int, ...]) -> bytes:
    return b"".join(part * (1 + (marker in markers)) for marker, part in segments(data))


def _without_first(data: bytes, marker: int) -> bytes:
    parts = segments(data)
    parts.remove(next(part for part in parts if part[0] == marker))
    return b"".join(part for _, part in parts)


def _scan_first(data: bytes) -> bytes:
    parts = segments(data)
    return b"".join(part for _, part in [parts[0], parts[-2], *parts[1:-2], parts[-1]])


def _tables_first(data: bytes) -> bytes:
    """An abbreviated stream: one with the tables alone, then one that has the rest."""
    tables = b"".join(part for marker, part in segments(data) if marker in (DQT, DHT))
    return b"\xff\xd8" + tables + EOI + without(data, DQT, DHT)


def _first_scans(data: bytes, count: int) -> bytes:
    parts = [part for _, part in segments(data)]
    scans = [at for at, (marker, _) in enumerate(segments(data)) if marker == SOS]
    return b"".join(parts[: scans[count - 1] + 1]) + EOI


def _before_last_scan(data: bytes, extra: bytes) -> bytes:
    at = data.rindex(bytes([0xFF, SOS]))
    return data[:at] + extra + data[at:]


def _last_scan_again(data: bytes, count: int) -> bytes:
    at = data.rindex(bytes([0xFF, SOS]))
    return data[:at] + data[at:-2] * count + EOI


def _64_million_pixels() -> bytes:
    return simplejpeg.encode_jpeg(np.full((8001, 8000, 1), 90, np.uint8), 50, "GRAY", "Gray")


# A resolution of 1 / 0 dots per inch.
EXIF_RESOLUTION = b"II*\0\x08\0\0\0\x01\0\x1a\x01\x05\0\x01\0\0\0\x1a\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0"

# The same 16 x 24 picture, by `jpegtran -arithmetic` and `jpegtran -arithmetic -progressive`.
ARITHMETIC = (
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDABALDA4MChAODQ4SERATGCgaGBYWGDEjJR0oOjM9PDkzODdASFxOQERXRTc4UG1R"
    "V19iZ2hnPk1xeXBkeFxlZ2P/2wBDARESEhgVGC8aGi9jQjhCY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2Nj"
    "Y2NjY2NjY2NjY2NjY2P/yQARCAAQABgDASIAAhEBAxEB/8wACgAQEAUBEBEF/9oADAMBAAIRAxEAPwD4dyLx7yc+Te+ybMCc"
    "YQSsUhJbBOU/ka9pgBMZRIHg9OkNcbGsrZLy7VFeDJPCsSn8QnoEwPz1QsQ7aqo2AEb5Ohod7PEpVXgQMwleGKZF4ptUx/r+"
    "T7MPYS9DlaCGUhGi4kyoNSXqxlLxSpEMRF4erYs2/9k="
)
ARITHMETIC_PROGRESSIVE = (
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDABALDA4MChAODQ4SERATGCgaGBYWGDEjJR0oOjM9PDkzODdASFxOQERXRTc4UG1R"
    "V19iZ2hnPk1xeXBkeFxlZ2P/2wBDARESEhgVGC8aGi9jQjhCY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2Nj"
    "Y2NjY2NjY2NjY2NjY2P/ygARCAAQABgDASIAAhEBAxEB/8wABgAQARD/2gAMAwEAAhADEAAAAevwqv75e6mEQP/MAAQQBf/a"
    "AAgBAQABBQJK2UtOEmsRB9hgp6BsCHD/zAAEEQX/2gAIAQMBAT8BSmy3inWBbf/MAAQRBf/aAAgBAgEBPwGeobkz/8wABBAF"
    "/9oACAEBAAY/ApNLL3Hq8wNQRZjea4VNgP/MAAQQBf/aAAgBAQABPyGsaO7BS/jfnLcAp7GUAWrOQP/aAAwDAQACAAMAAAAQ"
    "mWD/zAAEEQX/2gAIAQMBAT8Q/JFmq0WYDV7tYP/MAAQRBf/aAAgBAgEBPxC7HKYAnNBTCoWBYzT/zAAEEAX/2gAIAQEAAT8Q"
    "bN+ZcfIAwF25TtQa8BdBWEUirlKp2v/Z"
)

# One pixel, which needs a Pillow that was built with WebP.
WEBP = "UklGRiQAAABXRUJQVlA4IBgAAAAwAQCdASoBAAEAAwA0JaQAA3AA/vuUAAA="

FILES = tuple(_files())
