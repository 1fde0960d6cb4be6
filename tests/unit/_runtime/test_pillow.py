"""Settings of Pillow."""

import sys

from PIL import ImageFile

from seneca._runtime.pillow import takes_truncated


def test_truncated_pictures_are_taken_if_pillow_is_set_to(monkeypatch):
    assert not takes_truncated()
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    assert takes_truncated()


def test_without_pillow_nothing_is_set(monkeypatch):
    monkeypatch.delitem(sys.modules, "PIL.ImageFile")
    assert not takes_truncated()
