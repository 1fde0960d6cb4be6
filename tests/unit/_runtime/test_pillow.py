"""Settings of Pillow."""

import sys

import pytest
from PIL import Image, ImageFile

from seneca._runtime.pillow import Settings, settings


def test_they_are_those_of_this_process_now(monkeypatch):
    assert settings() == Settings() == (False, Image.MAX_IMAGE_PIXELS)
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    assert settings() == (True, 100)


@pytest.mark.parametrize(
    ("limit", "known"), [(None, None), (float("inf"), None), (1e9, 10**9), (2.5, 2), (0, 0)]
)
def test_a_limit_of_pixels_may_have_any_type_of_numbers(monkeypatch, limit, known):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
    assert settings().max_pixels == known


def test_without_pillow_nothing_is_set(monkeypatch):
    monkeypatch.delitem(sys.modules, "PIL.ImageFile")
    monkeypatch.delitem(sys.modules, "PIL.Image")
    assert settings() == Settings()
