"""The operations as Pillow and NumPy do them, by the names that the core has for them."""

from __future__ import annotations

from collections.abc import Callable

from PIL import Image

__all__ = ["STEPS", "step"]

STEPS: dict[str, Callable[..., Image.Image]] = {}


def step(function: Callable[..., Image.Image]) -> Callable[..., Image.Image]:
    """Enter ``_random_crop()`` as "random_crop"."""
    STEPS[function.__name__.removeprefix("_")] = function
    return function
