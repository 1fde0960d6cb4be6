"""Checks of transforms' arguments, which bring them into one normal form; and torchvision's, as these.

The exceptions are of torchvision's kinds: TypeError for a value of the wrong kind, ValueError for a value
out of range. Each message begins with the argument's name.
"""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Sequence
from typing import Any, Literal

from seneca.transforms._genuine import is_v1
from seneca.transforms._pipeline import ValueKind

__all__ = [
    "MOST_FACTOR",
    "PADDING_MODES",
    "NotNative",
    "angles",
    "antialiasing",
    "channels",
    "colour",
    "fill_of",
    "filter_name",
    "filter_of",
    "filter_or_random",
    "interpolation_of",
    "kernel",
    "margins",
    "one_of",
    "pair",
    "point",
    "probability",
    "rising",
    "side",
    "warp_filter",
    "warp_filter_or_random",
    "warping_of",
    "whole",
]

PADDING_MODES = ("constant", "edge", "reflect", "symmetric")
MAX_SIDE = 65_535  # no JPEG is larger
MOST_FACTOR = float(MAX_SIDE)

# The values of torchvision's constants are names, those of Pillow's constants are numbers.
FILTERS: dict[object, Literal["bilinear", "bicubic"]] = {
    "bilinear": "bilinear",
    "bicubic": "bicubic",
    2: "bilinear",
    3: "bicubic",
}


# Those of a warp. Pillow knows no other nearest pixel, and torchvision has two names for it.
WARP_FILTERS: dict[object, str] = {**FILTERS, "nearest": "nearest", "nearest-exact": "nearest", 0: "nearest"}

MOST_DEGREES = 1e6  # MAX_DEGREES in csrc/codec/operations/recipe.c
MOST_KERNEL = 255  # SN_BLUR_MAX_KERNEL in csrc/codec/operations/blur.h


def side(name: str, value: object, least: int = 1) -> int:
    """A length in pixels."""
    try:
        length = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name}: a length is an int, but got {value!r}") from None
    if not least <= length <= MAX_SIDE:
        raise ValueError(f"{name}: a length is between {least} and {MAX_SIDE}, but got {length}")
    return length


def pair(value: object) -> tuple[int, int]:
    """``size`` as height and width. One number stands for both."""
    sides = value if isinstance(value, (list, tuple)) else (value,)
    if not 1 <= len(sides) <= 2:
        raise ValueError(f"size: one int or (height, width), but got {value!r}")
    return side("size", sides[0]), side("size", sides[-1])


def margins(value: object) -> tuple[int, int, int, int]:
    """``padding`` as left, top, right, bottom; from one number for all sides, two numbers, or four."""
    given = value if isinstance(value, (list, tuple)) else (value,)
    if len(given) not in (1, 2, 4):
        raise ValueError(
            "padding: an int, (left and right, top and bottom) or (left, top, right, bottom), "
            f"but got {value!r}"
        )
    if any(isinstance(margin, numbers.Real) and margin < 0 for margin in given):
        raise ValueError(f"padding: to cut off margins use a crop; got {value!r}")
    left, top, right, bottom = (side("padding", margin, least=0) for margin in (tuple(given) * 4)[:4])
    return left, top, right, bottom


def colour(value: object) -> tuple[int, int, int]:
    """``fill`` as red, green and blue; from one number for all, or from three."""
    given = value if isinstance(value, (list, tuple)) else (value,)
    if not all(isinstance(channel, numbers.Real) for channel in given):
        raise TypeError(f"fill: a number or (red, green, blue), but got {value!r}")
    if len(given) not in (1, 3):
        raise ValueError(f"fill: one number or three (red, green, blue), but got {value!r}")
    if any(channel not in range(256) for channel in given):
        raise ValueError(f"fill: whole numbers from 0 to 255, but got {value!r}")
    red, green, blue = (int(channel) for channel in (tuple(given) * 3)[:3])
    return red, green, blue


def rising(
    name: str, value: Sequence[float], *, zero: bool = False, greatest: float = math.inf
) -> tuple[float, float]:
    """A pair of positive numbers, the least and the greatest value. With ``zero``, the least may be 0."""
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"{name}: a pair (least, greatest), but got {value!r}")
    try:
        low, high = (float(bound) for bound in value)
    except (TypeError, ValueError):
        raise ValueError(f"{name}: a pair (least, greatest), but got {value!r}") from None
    if not (0 <= low <= high <= greatest and high < math.inf) or (low == 0 and not zero):
        limits = "not negative" if zero else "positive"
        limits += "" if greatest == math.inf else f", at most {greatest:g}"
        raise ValueError(f"{name}: least and greatest are {limits} and in this order, but got {value!r}")
    return low, high


def channels(name: str, value: Sequence[float]) -> tuple[float, float, float]:
    """Three finite numbers: for red, green and blue."""
    try:
        red, green, blue = (float(channel) for channel in value)
    except (TypeError, ValueError):
        raise ValueError(f"{name}: three numbers (red, green, blue), but got {value!r}") from None
    if not all(math.isfinite(channel) for channel in (red, green, blue)):
        raise ValueError(f"{name}: finite numbers, but got {value!r}")
    return red, green, blue


def probability(value: float) -> float:
    """``p`` as a float in [0, 1]."""
    if not 0 <= value <= 1:
        raise ValueError(f"p is a probability in [0, 1], but got {value!r}")
    return float(value)


def one_of(name: str, allowed: Sequence[str], value: object) -> str:
    """``value``, if it is one of the allowed words."""
    if value not in allowed:
        raise ValueError(f"{name}: one of {', '.join(map(repr, allowed))}, but got {value!r}")
    return str(value)


def filter_name(given: Any) -> Literal["bilinear", "bicubic"]:
    """``interpolation``: a name, torchvision's ``InterpolationMode`` or Pillow's ``Resampling``."""
    name = FILTERS.get(getattr(given, "value", given))
    if name is None:
        raise ValueError(f'interpolation: "bilinear" or "bicubic" run natively, but got {given!r}')
    return name


def filter_or_random(given: Any) -> Literal["bilinear", "bicubic", "random"]:
    """The same; ``"random"`` or both of them: one of the two is drawn each time."""
    return "random" if is_either(given) else filter_name(given)


def is_either(given: Any) -> bool:
    """Whether ``interpolation`` is drawn each time, bilinear or bicubic."""
    if isinstance(given, (list, tuple)):
        return [FILTERS.get(getattr(one, "value", one)) for one in given] == ["bilinear", "bicubic"]
    return bool(given == "random")


def antialiasing(given: bool | None) -> bool:
    """``antialias`` as a bool. None means True, as for torchvision on PIL images."""
    if given is not None and not isinstance(given, bool):
        raise TypeError(f"antialias: True, False or None, but got {given!r}")
    return given is not False


def warp_filter(given: Any) -> str:
    """``interpolation`` of a transform that turns or shifts, in the same spellings."""
    name = WARP_FILTERS.get(getattr(given, "value", given))
    if name is None:
        raise ValueError(f'interpolation: "nearest", "bilinear" or "bicubic" run natively, but got {given!r}')
    return name


def warp_filter_or_random(given: Any) -> str:
    """The same; ``"random"`` or bilinear and bicubic: one of the two is drawn each time."""
    return "random" if is_either(given) else warp_filter(given)


def whole(name: str, value: object, least: int, greatest: int) -> int:
    """An int from ``least`` to ``greatest``."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name}: an int, but got {value!r}") from None
    if not least <= number <= greatest:
        raise ValueError(f"{name}: from {least} to {greatest} run natively, but got {number}")
    return number


def kernel(value: object) -> tuple[int, int]:
    """``kernel_size`` as width and height. One number stands for both."""
    sides = value if isinstance(value, (list, tuple)) else (value,)
    if not 1 <= len(sides) <= 2:
        raise ValueError(f"kernel_size: one int or (width, height), but got {value!r}")
    width, height = (whole("kernel_size", one, 1, MOST_KERNEL) for one in (sides[0], sides[-1]))
    if width % 2 == 0 or height % 2 == 0:
        raise ValueError(f"kernel_size: odd numbers, but got {value!r}")
    return width, height


def point(name: str, value: Any) -> tuple[float, float]:
    """Two finite numbers, along the width and along the height."""
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"{name}: two numbers, but got {value!r}")
    if len(value) != 2 or not all(
        isinstance(one, numbers.Real) and abs(float(one)) <= MOST_DEGREES for one in value
    ):
        raise ValueError(f"{name}: two numbers of at most 1000000, but got {value!r}")
    return float(value[0]), float(value[1])


def angles(name: str, value: Any) -> tuple[float, float]:
    """The least and the greatest angle. A number ``x`` stands for the range from ``-x`` to ``x``."""
    if isinstance(value, numbers.Real):
        if float(value) < 0:
            raise ValueError(f"{name}: a single number is not negative, but got {value!r}; give a pair")
        value = -float(value), float(value)
    low, high = point(name, value)
    if low > high:
        raise ValueError(f"{name}: least and greatest in this order, but got {value!r}")
    return low, high


# The arguments of torchvision's transforms, for the kind of value that these get.


class NotNative(Exception):
    """A transform does not run natively. The message is the reason."""


def interpolation_of(name: str, given: Any) -> Any:
    """The interpolation of a resize as an argument of Seneca's: a name or Pillow's number."""
    value = getattr(given.interpolation, "value", given.interpolation)
    if value in FILTERS:
        return value
    raise NotNative(f"{name} has interpolation={getattr(given.interpolation, 'name', value)}")


def filter_of(name: str, given: Any, holds: ValueKind) -> Any:
    """The interpolation, if the resizing gives Seneca's pixels."""
    interpolation = interpolation_of(name, given)
    if holds == "picture":
        return interpolation  # Pillow always antialiases and ignores the argument
    if given.antialias is not True:
        # v1 is up to 0.36 levels away, and so is v2 where torch has no resize of uint8 for the CPU.
        raise NotNative(f"{name} has antialias={given.antialias} on a tensor")
    if is_v1(given) and interpolation in ("bicubic", 3):
        # Pillow, v2 and Seneca clip overshoots between the two passes; v1 does not: 3.6 levels apart, at
        # edges.
        raise NotNative(f"{name} of v1 has interpolation=BICUBIC on a tensor")
    return interpolation


def fill_of(name: str, given: Any, holds: ValueKind) -> Any:
    """The colour of margins. None means black in v2."""
    fill = 0 if given.fill is None and not (is_v1(given) and holds != "picture") else given.fill
    if isinstance(fill, dict):
        raise NotNative(f"{name} has fill={fill!r}, a fill per type; give one colour")
    if holds == "floats" and fill != 0:
        raise NotNative(f"{name} has fill={fill!r} on a float tensor, where that is no level from 0 to 255")
    if holds == "bytes" and is_v1(given) and not isinstance(fill, (int, float)):
        raise NotNative(f"{name} has fill={fill!r} on a tensor, for which v1 takes one number")
    return fill


def warping_of(name: str, given: Any) -> Any:
    """The interpolation of a transform that turns or shifts."""
    value = getattr(given.interpolation, "value", given.interpolation)
    if value in WARP_FILTERS:
        return value
    raise NotNative(f"{name} has interpolation={getattr(given.interpolation, 'name', value)}")
