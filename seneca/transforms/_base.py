"""The base class of all transforms, and ``Compose``, the list of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from seneca.transforms._pipeline import NativeTransform, Step

if TYPE_CHECKING:
    import numpy
    import PIL.Image
    import torch

__all__ = ["Compose", "Transform", "step"]

# The native core assumes these defaults. Steps leave such arguments out. Therefore fingerprints stay the
# same when a transform gets a new argument.
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
    "center": None,
    "translate": None,
    "scale": None,
    "shear": None,
    "count": (1, 1),
}


def step(kind: str, **args: Any) -> tuple[Step, ...]:
    """Make one step, without the arguments that have their default value."""
    return (Step(kind, {name: arg for name, arg in args.items() if arg != DEFAULTS.get(name, ...)}),)


class Transform(NativeTransform):
    """The base class of all transforms here. They run natively, and can be called on one picture."""

    def __call__(self, img: PIL.Image.Image | numpy.ndarray) -> torch.Tensor:
        """Transform one picture as a loader would.

        Random numbers come from torch's global generator. A call draws at most one number from it.

        Args:
            img: A PIL image, or uint8 of shape (height, width, 3).

        Returns:
            A tensor of shape (3, height, width), float32 or of the type that the transform says.

        Raises:
            PlanError: The size of the result would depend on the picture, or the order of the transforms
                makes no sense.
            TypeError: ``img`` is neither a PIL image nor such an array.
        """
        # Imported here only: describing a transform needs no torch, and the command line starts quickly.
        from seneca.transforms._apply import transform_picture

        return transform_picture(self, img)

    def _set(self, **fields: Any) -> None:
        """Set fields of the frozen description to their normal form."""
        for name, value in fields.items():
            object.__setattr__(self, name, value)


@dataclass(frozen=True, init=False, repr=False)
class Compose(Transform):
    """Transforms that run one after the other.

    Args:
        transforms: Transforms of this module, in order. Those of pixels come first, then those of the
            tensor: ``ToTensor``, ``PILToTensor``, ``ToDtype``, ``ConvertImageDtype``, ``Normalize``,
            ``RandomErasing``.

    Raises:
        TypeError: The list has another callable. Put such a list into torchvision's ``Compose``, which the
            loader runs as Python.
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
