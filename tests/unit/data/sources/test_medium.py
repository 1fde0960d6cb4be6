"""Which values begin as pictures, and which as sounds."""

import io

import numpy as np
import pytest
import soundfile
from PIL import Image

from seneca.data.sources.medium import is_picture, is_sound


@pytest.mark.parametrize("form", ["WAV", "FLAC", "OGG", "AIFF", "AU", "CAF", "MP3"])
def test_sounds(form):
    if form not in soundfile.available_formats():
        pytest.skip(f"this libsndfile has no {form}")
    file = io.BytesIO()
    soundfile.write(file, np.zeros(3000, np.float32), 8000, format=form)
    beginning = file.getvalue()[:12]
    assert is_sound(beginning) and not is_picture(beginning)


@pytest.mark.parametrize("form", ["JPEG", "PNG", "GIF", "BMP", "TIFF"])
def test_pictures(form):
    file = io.BytesIO()
    Image.new("RGB", (4, 4)).save(file, form)
    beginning = file.getvalue()[:12]
    assert is_picture(beginning) and not is_sound(beginning)


def test_what_is_neither():
    assert not any(map(is_sound, [b"", b"1281167", b"RIFF\0\0\0\0WEBP"]))
