"""PNGs for tests, of each kind of pixels, with any chunks."""

from __future__ import annotations

import struct
import zlib

import numpy as np

__all__ = ["END", "KINDS", "begun", "chunk", "made", "png"]


def chunk(name, data, wrong=0):
    """A chunk; its checksum is that of its content but for the bits in ``wrong``."""
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data) ^ wrong)


def begun(width, height, depth, colour, interlace=0):
    """The signature and the first chunk of a PNG."""
    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlace)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head)


END = chunk(b"IEND", b"")


def png(width, height, depth, colour, rows, *, chunks=(), interlace=0):
    """A PNG of these rows, each with its byte that names the filter."""
    body = b"".join(chunk(name, data) for name, data in chunks)
    data = zlib.compress(rows)
    parts = [chunk(b"IDAT", data[at : at + 100]) for at in range(0, len(data), 100)]
    return begun(width, height, depth, colour, interlace) + body + b"".join(parts) + END


CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
KINDS = [
    (0, 1),
    (0, 2),
    (0, 4),
    (0, 8),
    (2, 8),
    (2, 16),
    (3, 1),
    (3, 2),
    (3, 4),
    (3, 8),
    (4, 8),
    (4, 16),
    (6, 8),
    (6, 16),
]


def passes_of(width, height, interlace):
    """Width and height of each pass of Adam7, or the whole picture."""
    if not interlace:
        return [(width, height)]
    of = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
    sizes = [(-(-(width - x) // dx), -(-(height - y) // dy)) for x, y, dx, dy in of]
    return [(w, h) for w, h in sizes if w > 0 and h > 0]


def made(colour, depth, width, height, rng, *, interlace=0, palette=256, chunks=()):
    rows = b""
    for w, h in passes_of(width, height, interlace):
        for _ in range(h):
            length = (w * CHANNELS[colour] * depth + 7) // 8
            content = rng.integers(0, 256, length, np.uint8)
            if colour == 3 and depth == 8 and palette < 256:
                content %= palette
            rows += bytes([int(rng.integers(0, 5)) if colour != 3 else 0]) + content.tobytes()
    if colour == 3:
        entries = min(palette, 1 << depth)
        chunks = [(b"PLTE", rng.integers(0, 256, 3 * entries, np.uint8).tobytes()), *chunks]
    return png(width, height, depth, colour, rows, chunks=chunks, interlace=interlace)
