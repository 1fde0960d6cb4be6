"""What it costs to read a header, to decode, to resize, to flip and to change colours.

``resize`` is from 400 x 470 to 224 x 224; ``-across`` and ``-down`` change one side alone. Flips and
colours are of 224 x 224. ``decode-region`` is the middle of the picture, half as high and as wide.
"""

import pytest
from stages import CLOCK

pytestmark = pytest.mark.benchmark(group="codec", timer=CLOCK)


@pytest.mark.parametrize("stage", ["probe", "decode", "decode-region"])
def test_jpeg(measure, stage):
    measure(stage)


@pytest.mark.parametrize("stage", ["resize", "resize-across", "resize-down", "flip"])
def test_geometry(measure, stage):
    measure(stage)


@pytest.mark.parametrize("stage", ["brightness", "contrast", "saturation", "hue", "grayscale"])
def test_colours(measure, stage):
    measure(stage)
