"""Changes of shape take what torchvision's take."""

from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from seneca import transforms as T


def test_one_number_means_a_square_crop_and_the_short_side_of_a_resize():
    assert T.CenterCrop(224).size == (224, 224)
    assert T.RandomResizedCrop(np.int64(224)).size == (224, 224)
    assert T.Resize(256).size == T.Resize([256]).size == 256
    assert T.Resize([224, 288]).size == (224, 288)


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        *(("bilinear", "bilinear"), (2, "bilinear"), (SimpleNamespace(value="bilinear"), "bilinear")),
        *(("bicubic", "bicubic"), (3, "bicubic"), (SimpleNamespace(value="bicubic"), "bicubic")),
        *((Image.Resampling.BILINEAR, "bilinear"), (Image.Resampling.BICUBIC, "bicubic")),
    ],
)
def test_every_spelling_of_a_filter_is_the_same(spelling, name):
    assert T.Resize(8, interpolation=spelling) == T.Resize(8, name)
    assert T.RandomResizedCrop(8, interpolation=spelling) == T.RandomResizedCrop(8, interpolation=name)


def test_no_word_about_antialiasing_means_what_it_means_for_pil_images():
    assert T.Resize(8, antialias=None) == T.Resize(8) != T.Resize(8, antialias=False)


@pytest.mark.parametrize(
    ("padding", "margins"),
    [(3, (3, 3, 3, 3)), ([3], (3, 3, 3, 3)), ((1, 2), (1, 2, 1, 2)), ((1, 2, 3, 4), (1, 2, 3, 4))],
)
def test_padding_is_read_as_torchvision_reads_it(padding, margins):
    assert T.Pad(padding).padding == T.RandomCrop(8, padding).padding == margins
    assert T.RandomCrop(8).padding is None


@pytest.mark.parametrize(
    ("given", "ranges"),
    [
        ((), (None, None, None, None)),
        ((0.4,), ((0.6, 1.4), None, None, None)),
        ((2, 0, (1, 1), 0), ((0, 3), None, None, None)),
        ((0, (0.5, 4), 0, 0.5), (None, (0.5, 4), None, (-0.5, 0.5))),
        ((0, 0, [1, 1.5], (-0.1, 0.3)), (None, None, (1, 1.5), (-0.1, 0.3))),
        ((0, 0, (0, 0), (0.2, 0.2)), (None, None, (0, 0), (0.2, 0.2))),
        ((None, None, None, None), (None, None, None, None)),
    ],
)
def test_color_jitter_reads_numbers_and_pairs_as_torchvision_does(given, ranges):
    jitter = T.ColorJitter(*given)
    assert (jitter.brightness, jitter.contrast, jitter.saturation, jitter.hue) == ranges
