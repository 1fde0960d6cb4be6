"""JPEG files taken apart and put together wrongly, on purpose."""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
from PIL import Image

__all__ = [
    "SOF",
    "SOS",
    "after_soi",
    "component_ids",
    "edit",
    "exif",
    "flip_bits",
    "lossless",
    "of_layout",
    "picture",
    "saved",
    "scan_end",
    "segment",
    "segments",
    "sized",
    "without",
]

SOF = (0xC0, 0xC1, 0xC2, 0xC9, 0xCA)
SOS = 0xDA
SIZES = bytes([0, 0, 0, 12]) + bytes(12) + bytes(range(12))  # 12 codes of 4 bits
STANDALONE = (0x01, *range(0xD0, 0xDA))


def picture(height: int = 40, width: int = 50, seed: int = 0) -> Image.Image:
    """Smooth enough that a JPEG of it is ordinary, rough enough that every block says something."""
    small = np.random.default_rng(seed).integers(0, 256, (height // 4 + 2, width // 4 + 2, 3), np.uint8)
    return Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)


def saved(image: Image.Image, kind: str = "JPEG", **options: object) -> bytes:
    """What Pillow writes."""
    file = io.BytesIO()
    image.save(file, kind, **{"quality": 90, **options} if kind == "JPEG" else options)
    return file.getvalue()


def segment(marker: int, payload: bytes = b"") -> bytes:
    """A marker, its length and its payload."""
    return bytes([0xFF, marker]) + (len(payload) + 2).to_bytes(2, "big") + payload


def segments(data: bytes) -> list[tuple[int, bytes]]:
    """``(marker, bytes)`` of each part; a scan's bytes go with its SOS. Joined, they are the file."""
    parts, at = [], 0
    while at < len(data):
        marker, begin = data[at + 1], at
        at += 2
        if marker not in STANDALONE:
            at += int.from_bytes(data[at : at + 2], "big")
        if marker == SOS:
            at = scan_end(data, at)
        parts.append((marker, data[begin:at]))
    return parts


def scan_end(data: bytes, at: int) -> int:
    """Where the entropy-coded bytes that begin at ``at`` end: at the next marker but a restart."""
    while data[at] != 0xFF or data[at + 1] == 0 or 0xD0 <= data[at + 1] <= 0xD7:
        at += 1
    return at


def without(data: bytes, *markers: int) -> bytes:
    """The file with some kinds of segments taken out."""
    return b"".join(part for marker, part in segments(data) if marker not in markers)


def after_soi(data: bytes, *extra: bytes) -> bytes:
    """The file with something put in at its beginning."""
    return data[:2] + b"".join(extra) + data[2:]


def edit(data: bytes, marker: int | tuple[int, ...], change: Callable[[bytearray], None]) -> bytes:
    """The file with the first segment of a kind changed; ``change`` gets it from its 0xFF on."""
    wanted = (marker,) if isinstance(marker, int) else marker
    parts = [[kind, bytearray(part)] for kind, part in segments(data)]
    change(next(part for kind, part in parts if kind in wanted))
    return b"".join(bytes(part) for _, part in parts)


def sized(data: bytes, height: int, width: int) -> bytes:
    """The file with another size in its header."""

    def change(part: bytearray) -> None:
        part[5:9] = height.to_bytes(2, "big") + width.to_bytes(2, "big")

    return edit(data, SOF, change)


def component_ids(data: bytes, ids: bytes) -> bytes:
    """The file with its components named otherwise, in the header and in the (only) scan."""

    def in_header(part: bytearray) -> None:
        part[10 : 10 + 3 * len(ids) : 3] = ids

    def in_scan(part: bytearray) -> None:
        part[5 : 5 + 2 * len(ids) : 2] = ids

    return edit(edit(data, SOF, in_header), SOS, in_scan)


def flip_bits(data: bytes, seed: int, count: int = 3) -> bytes:
    """The file with some bits of its scans changed."""
    rng, damaged = np.random.default_rng(seed), bytearray(data)
    first = data.index(bytes([0xFF, SOS])) + 14
    for at in rng.integers(first, len(data) - 2, count):
        damaged[at] ^= 1 << int(rng.integers(8))
    return bytes(damaged)


def exif(payload: bytes) -> bytes:
    """An APP1 segment that claims to be EXIF."""
    return segment(0xE1, b"Exif\0\0" + payload)


def lossless(image: Image.Image) -> bytes:
    """A grey picture as a lossless JPEG (process 14 of the standard): each pixel by its left neighbour."""
    pixels = np.asarray(image.convert("L")).astype(int)
    before = np.roll(pixels, 1, axis=1)
    before[1:, 0], before[0, 0] = pixels[:-1, 0], 128
    bits = "".join(map(_coded, (pixels - before).ravel().tolist()))
    sizes = pixels.shape[0].to_bytes(2, "big") + pixels.shape[1].to_bytes(2, "big")
    return b"".join(
        [
            b"\xff\xd8",
            segment(0xC3, b"\x08" + sizes + b"\1\1\x11\0"),
            segment(0xC4, b"\0" + SIZES),
            segment(SOS, b"\1\1\0\1\0\0"),  # predictor 1
            _stuffed(bits),
            b"\xff\xd9",
        ]
    )


def _coded(change: int) -> str:
    """A difference as a size and so many bits."""
    size = abs(change).bit_length()
    amount = change if change >= 0 else change + (1 << size) - 1
    return f"{size:04b}" + (f"{amount:0{size}b}" if size else "")


def _stuffed(bits: str) -> bytes:
    bits += "1" * (-len(bits) % 8)
    return int(bits, 2).to_bytes(len(bits) // 8, "big").replace(b"\xff", b"\xff\0")


def of_layout(factors: list[tuple[int, int]], height: int = 21, width: int = 35, seed: int = 0) -> bytes:
    """A JPEG whose components have these sampling factors (across, down): each block is of one colour."""
    rng, bits = np.random.default_rng(seed), ""
    across, down = (max(factor[axis] for factor in factors) for axis in (0, 1))
    mcus = -(-width // (8 * across)) * -(-height // (8 * down))
    blocks = [
        number for number, (h, v) in enumerate(factors) for _ in range(h * v if len(factors) > 1 else 1)
    ]
    if len(factors) == 1:
        mcus = -(-width // 8) * -(-height // 8)
    level = [0] * len(factors)
    for number in blocks * mcus:
        wanted = int(rng.integers(-40, 41))
        change, level[number] = wanted - level[number], wanted
        bits += _coded(change) + "0"  # and no frequencies
    sizes = height.to_bytes(2, "big") + width.to_bytes(2, "big")
    frame = b"".join(bytes([number + 1, h << 4 | v, 0]) for number, (h, v) in enumerate(factors))
    order = b"".join(bytes([number + 1, 0]) for number in range(len(factors)))
    count = bytes([len(factors)])
    return b"".join(
        [
            b"\xff\xd8",
            segment(0xDB, b"\0" + b"\x10" * 64),
            segment(SOF[0], b"\x08" + sizes + count + frame),
            segment(0xC4, b"\0" + SIZES),
            segment(0xC4, b"\x10\1" + bytes(15) + b"\0"),  # one code of 1 bit: the block ends
            segment(SOS, count + order + b"\0\x3f\0"),
            _stuffed(bits),
            b"\xff\xd9",
        ]
    )
