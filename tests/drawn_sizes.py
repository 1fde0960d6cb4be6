"""Transforms that draw a size, by torchvision's functional calls with the numbers of a replay.

A sample is a PIL picture and what is beside it: boxes or a mask.
"""

from __future__ import annotations

import numpy as np
from torchvision_here import v2

__all__ = ["random_resize", "scale_jitter", "shortest_size", "zoom_out"]

F = v2.functional


def zoom_out(sample, numbers, p, scale, fill=(0, 0, 0), mask_fill=None):
    if numbers.double() >= p:
        return sample
    had_height, had_width = sample[0].height, sample[0].width
    factor = np.float32(numbers.uniform(*scale))
    height, width = int(np.float32(had_height) * factor), int(np.float32(had_width) * factor)
    left = int(np.float32(width - had_width) * np.float32(numbers.double()))
    top = int(np.float32(height - had_height) * np.float32(numbers.double()))
    padding = [left, top, width - left - had_width, height - top - had_height]
    picture, other = sample
    return [F.pad(picture, padding, list(fill)), F.pad(other, padding, mask_fill)]


def scale_jitter(sample, numbers, size, scale):
    height, width = sample[0].height, sample[0].width
    factor = np.float32(min(size[1] / height, size[0] / width)) * np.float32(numbers.uniform(*scale))
    new = [int(np.float32(height) * factor), int(np.float32(width) * factor)]
    return [F.resize(one, new) for one in sample]


def shortest_size(sample, numbers, sizes, max_size=None):
    height, width = sample[0].height, sample[0].width
    factor = sizes[numbers.below(len(sizes))] / min(height, width)
    if max_size:
        factor = min(factor, max_size / max(height, width))
    return [F.resize(one, [int(height * factor), int(width * factor)]) for one in sample]


def random_resize(sample, numbers, size):
    length = size[0] + numbers.below(size[1] - size[0] + 1)
    return [F.resize(one, [length]) for one in sample]
