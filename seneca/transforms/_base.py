"""What all transforms have, and the list of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from seneca._pipeline.plan import NativeTransform, Step

if TYPE_CHECKING:
    import numpy
    import PIL.Image
    import torch

__all__ = ["Compose", "Transform", "step"]

# What the native core assumes where a step says nothing. Such arguments are left out of steps, so
# that fingerprints stay what they are when a transform learns a new one.
DEFAULTS: dict[str, Any] = {
    "interpolation": "bilinear",
    "antialias": True,
    "max_size": None,
    "padding": (0, 0, 0, 0),
    "fill": (0, 0, 0),
    "padding_mode": "constant",
    "pad_if_needed": False,
    "brightness": None,
    "contrast": None,
    "saturation": None,
    "hue": None,
}


def step(kind: str, **args: Any) -> tuple[Step, ...]:
    """One step, without the arguments that have their default."""
    return (Step(kind, {name: arg for name, arg in args.items() if arg != DEFAULTS.get(name, ...)}),)


class Transform(NativeTransform):
    """What all transforms here have: they run natively, and on one picture when called."""

    def __call__(self, img: PIL.Image.Image | numpy.ndarray) -> torch.Tensor:
        """Transform one picture as a loader would.

        Random numbers come from torch's global generator, one draw a call.

        Args:
            img: A PIL image, or uint8 of shape (height, width, 3).

        Returns:
            A tensor of shape (3, height, width): float32, or what the transform says.

        Raises:
            PlanError: The size of the result would depend on the picture, or the transforms are
                not in an order that makes sense.
            TypeError: ``img`` is neither.
        """
        # Only here: describing a transform needs no torch, and the command line starts quickly.
        from seneca._pipeline.sample import transform_picture

        return transform_picture(self, img)

    def _set(self, **fields: Any) -> None:
        """Give fields of the frozen description their one spelling."""
        for name, value in fields.items():
            object.__setattr__(self, name, value)


@dataclass(frozen=True, init=False, repr=False)
class Compose(Transform):
    """Transforms one after the other.

    Args:
        transforms: Transforms of this module, in order: those of pixels, then those of the
            tensor (``ToTensor``, ``PILToTensor``, ``ToDtype``, ``ConvertImageDtype``,
            ``Normalize``, ``RandomErasing``).

    Raises:
        TypeError: Something else is among them; such a list belongs into torchvision's
            ``Compose``, which the loader runs as Python.
    """

    transforms: tuple[Transform, ...]

    def __init__(self, transforms: Sequence[Transform]) -> None:
        for transform in transforms:
            if not isinstance(transform, Transform):
                raise TypeError(
                    f"transforms: {transform!r} is not one of seneca.transforms; compose it with "
                    "torchvision's Compose instead, which runs as Python in worker processes"
                )
        self._set(transforms=tuple(transforms))

    def steps(self) -> tuple[Step, ...]:
        return tuple(step for transform in self.transforms for step in transform.steps())

    def __iter__(self) -> Iterator[Transform]:
        return iter(self.transforms)

    def __repr__(self) -> str:
        return "\n".join(["Compose(", *(f"    {transform}" for transform in self.transforms), ")"])
