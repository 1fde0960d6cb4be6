"""What the samples in a container are: pictures or sounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

__all__ = ["PICTURES", "SOUNDS", "Medium", "is_picture", "is_sound"]

PICTURES_BEGIN = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF8", b"BM", b"II*\0", b"MM\0*")
SOUNDS_BEGIN = (b"fLaC", b"OggS", b"ID3", b"FORM", b".snd", b"caff")


class Medium(NamedTuple):
    """A kind of samples.

    Attributes:
        what: Its samples, for messages.
        argument: The argument of :func:`seneca.open` that names their column.
        feature: The type of Hugging Face ``datasets`` of such a column.
        begins: Whether a value whose first 12 bytes are given is such a sample.
    """

    what: str
    argument: str
    feature: str
    begins: Callable[[bytes], bool]


def is_picture(beginning: bytes) -> bool:
    """Whether it begins as a JPEG, PNG, WebP, GIF, BMP or TIFF does."""
    is_webp = beginning[:4] == b"RIFF" and beginning[8:12] == b"WEBP"
    return is_webp or beginning.startswith(PICTURES_BEGIN)


def is_sound(beginning: bytes) -> bool:
    """Whether it begins as a WAV, FLAC, Ogg, MP3, AIFF, AU or CAF does."""
    is_wav = beginning[:4] in (b"RIFF", b"RF64") and beginning[8:12] == b"WAVE"
    # A frame of MPEG audio: eleven bits that are set, and a layer.
    is_frame = len(beginning) > 1 and beginning[0] == 0xFF and beginning[1] >= 0xE0 and beginning[1] & 6 != 0
    return is_wav or is_frame or beginning.startswith(SOUNDS_BEGIN)


PICTURES = Medium("pictures", "image", "Image", is_picture)
SOUNDS = Medium("sounds", "audio", "Audio", is_sound)
