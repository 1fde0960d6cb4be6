"""The ops of a plan one after another, by Pillow and numpy, with the numbers that the native path draws.

Written from torchvision's and Pillow's documentation of what each op means and operations/route.h's of
which numbers it draws, so that a merged pass can be held against its ops step by step. Pictures are uint8
arrays of shape (height, width, 3).
"""

import math

import numpy as np
from PIL import Image

from seneca._core.rng import Rng

COLOURS = ("brightness", "contrast", "saturation", "hue")


class Numbers(Rng):
    """The random numbers of one sample."""

    def uniform(self, low, high):
        return low + (high - low) * self.double()


def replay(ops, picture, *key):
    """The picture after ``ops``, with the random numbers of ``key`` (seed, nonce, epoch, index)."""
    numbers = Numbers(*key)
    for kind, arguments in ops:
        picture = KINDS[kind](picture, numbers, **arguments)
    return np.ascontiguousarray(picture)


def resized_size(height, width, size, max_size=None):
    """torchvision's _compute_resized_output_size."""
    if not isinstance(size, int):
        return size
    short, long = min(height, width), max(height, width)
    new_short, new_long = size, int(size * long / short)
    if max_size and new_long > max_size:
        new_short, new_long = max(1, int(max_size * new_short / new_long)), max_size
    return (new_long, new_short) if width <= height else (new_short, new_long)


def resize(picture, numbers, size, max_size=None):
    height, width = resized_size(*picture.shape[:2], size, max_size)
    return np.asarray(Image.fromarray(picture).resize((width, height), Image.Resampling.BILINEAR))


def center_crop(picture, numbers, size):
    height, width = picture.shape[:2]
    short = [max(0, wanted - side) for wanted, side in zip(size, (height, width), strict=True)]
    sides = [(missing // 2, (missing + 1) // 2) for missing in short]
    picture = np.pad(picture, [*sides, (0, 0)])
    top, left = (round((side - wanted) / 2) for side, wanted in zip(picture.shape, size, strict=False))
    return picture[top : top + size[0], left : left + size[1]]


def box_of(numbers, height, width, scale, ratio):
    """RandomResizedCrop.get_params."""
    for _ in range(10):
        target = height * width * numbers.uniform(*scale)
        aspect = math.exp(numbers.uniform(math.log(ratio[0]), math.log(ratio[1])))
        w, h = round(math.sqrt(target * aspect)), round(math.sqrt(target / aspect))
        if 0 < w <= width and 0 < h <= height:
            return numbers.below(height - h + 1), numbers.below(width - w + 1), h, w
    w, h = width, height
    if width / height < ratio[0]:
        h = max(1, round(width / ratio[0]))
    elif width / height > ratio[1]:
        w = max(1, round(height * ratio[1]))
    return (height - h) // 2, (width - w) // 2, h, w


def random_resized_crop(picture, numbers, size, scale, ratio):
    top, left, height, width = box_of(numbers, *picture.shape[:2], scale, ratio)
    return resize(np.ascontiguousarray(picture[top : top + height, left : left + width]), numbers, size)


def random_hflip(picture, numbers, p):
    return picture[:, ::-1] if numbers.double() < p else picture


def random_vflip(picture, numbers, p):
    return picture[::-1] if numbers.double() < p else picture


def pad(picture, numbers, padding, fill=(0, 0, 0), padding_mode="constant"):
    left, top, right, bottom = padding
    sides = ((top, bottom), (left, right))
    if padding_mode != "constant":
        return np.pad(picture, [*sides, (0, 0)], padding_mode)
    channels = [np.pad(picture[..., c], sides, constant_values=fill[c]) for c in range(3)]
    return np.stack(channels, axis=-1)


def random_crop(picture, numbers, size, padding=(0, 0, 0, 0), pad_if_needed=False, **border):
    picture = pad(picture, numbers, padding, **border)
    if pad_if_needed and picture.shape[1] < size[1]:
        missing = size[1] - picture.shape[1]
        picture = pad(picture, numbers, (missing, 0, missing, 0), **border)
    if pad_if_needed and picture.shape[0] < size[0]:
        missing = size[0] - picture.shape[0]
        picture = pad(picture, numbers, (0, missing, 0, missing), **border)
    height, width = picture.shape[:2]
    if (height, width) == tuple(size):
        return picture
    top, left = numbers.below(height - size[0] + 1), numbers.below(width - size[1] + 1)
    return picture[top : top + size[0], left : left + size[1]]


def blend(toward, picture, factor):
    ends = (
        Image.fromarray(np.ascontiguousarray(np.broadcast_to(end, picture.shape)))
        for end in (toward, picture)
    )
    return np.asarray(Image.blend(*ends, factor))


def grey_of(picture):
    """Image.convert("L") of Pillow-SIMD, whose last columns are another's; see operations/colour.h."""
    return ((picture.astype(np.int64) @ [9798, 19235, 3735] + (1 << 14)) >> 15).astype(np.uint8)


def brightness(picture, factor):
    return blend(np.uint8(0), picture, factor)


def contrast(picture, factor):
    return blend(np.uint8(int(grey_of(picture).mean() + 0.5)), picture, factor)


def saturation(picture, factor):
    return blend(grey_of(picture)[..., None], picture, factor)


def hue(picture, factor):
    hsv = np.array(Image.fromarray(np.ascontiguousarray(picture)).convert("HSV"))
    hsv[..., 0] += np.uint8(int(factor * 255) % 256)
    return np.asarray(Image.fromarray(hsv, "HSV").convert("RGB"))


def color_jitter(picture, numbers, **ranges):
    order = list(COLOURS)
    for last in (3, 2, 1):
        other = numbers.below(last + 1)
        order[last], order[other] = order[other], order[last]
    neutral = {"brightness": (1, 1), "contrast": (1, 1), "saturation": (1, 1), "hue": (0, 0)}
    changed = [name for name in COLOURS if tuple(ranges.get(name, neutral[name])) != neutral[name]]
    factors = {name: numbers.uniform(*ranges[name]) for name in changed}
    for name in order:
        if name in factors:
            picture = globals()[name](picture, factors[name])
    return picture


def random_grayscale(picture, numbers, p):
    return np.repeat(grey_of(picture)[..., None], 3, axis=2) if numbers.double() < p else picture


KINDS = {
    function.__name__: function
    for function in (
        resize,
        center_crop,
        random_resized_crop,
        random_hflip,
        random_vflip,
        pad,
        random_crop,
        color_jitter,
        random_grayscale,
    )
}
