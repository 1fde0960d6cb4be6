"""Sounds for tests, made up and written by soundfile, in each format that the native core reads."""

from __future__ import annotations

import io

import numpy as np
import numpy.typing as npt
import pytest
import soundfile

from seneca._core.sound import libsndfile

__all__ = ["FORMATS", "LOSSLESS", "encoded", "tones"]

if libsndfile() is None:
    pytest.skip(
        "the core was built without libsndfile; libsndfile1-dev has its headers", allow_module_level=True
    )

# Of these the core reads parts.
LOSSLESS = {
    "wav": ("WAV", "PCM_16"),
    "wav24": ("WAV", "PCM_24"),
    "floats": ("WAV", "FLOAT"),
    "mu-law": ("WAV", "ULAW"),
    "flac": ("FLAC", "PCM_16"),
    "flac24": ("FLAC", "PCM_24"),
}
_OTHERS = {
    "adpcm": ("WAV", "IMA_ADPCM"),
    "vorbis": ("OGG", "VORBIS"),
    "opus": ("OGG", "OPUS"),
    "mp3": ("MP3", "MPEG_LAYER_III"),
}
_ALL = {**LOSSLESS, **_OTHERS}
FORMATS = [
    name for name, (_, subtype) in _ALL.items() if subtype in soundfile.available_subtypes(_ALL[name][0])
]


def tones(frames: int, channels: int = 1, *, seed: int = 0) -> npt.NDArray[np.float32]:
    """Tones that rise, and noise: float32 ``(channels, frames)``, within -0.9 and 0.9."""
    rng = np.random.default_rng(seed)
    at = np.arange(frames)
    pitch = rng.uniform(0.005, 0.1, (channels, 1))
    sound = 0.6 * np.sin(at * pitch * (1 + at / 1e6)) + rng.uniform(-0.2, 0.2, (channels, frames))
    return sound.astype(np.float32)


def encoded(sound: npt.NDArray[np.float32], kind: str = "wav", rate: int = 16_000) -> bytes:
    """A file of ``sound``, float32 ``(channels, frames)``."""
    container, subtype = _ALL[kind]
    file = io.BytesIO()
    soundfile.write(file, sound.T, rate, format=container, subtype=subtype)
    return file.getvalue()
