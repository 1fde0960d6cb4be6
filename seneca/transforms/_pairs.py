"""torchvision's transforms of a picture and its mask, as Seneca's: one geometry for both.

What a transform of ``transforms.v2`` does to a ``tv_tensors.Mask`` beside a picture:

* Geometry is the picture's. A resize takes the nearest pixel, whatever the picture's filter.
* Margins get the mask's own ``fill``.
* Colours are the picture's alone, and so are ``Normalize`` and ``RandomErasing``.
* ``ToDtype`` gives the mask a type of its own.
"""

from __future__ import annotations

import copy
import sys
from dataclasses import dataclass
from typing import Any, NamedTuple

from seneca.transforms._base import Transform
from seneca.transforms._genuine import replaced_in_torchvision
from seneca.transforms._pipeline import NativeTransform, Step
from seneca.transforms._recognise import GROUPS, Recogniser, images_stay_images
from seneca.transforms._translate import V2, NotNative, known_as

__all__ = ["COLOURS", "PairTransform", "WithPicture", "recognise_pair", "steps_of"]

MASK_DTYPES = ("uint8", "int64")
TAKE_NO_MASKS = ("RandAugment", "TrivialAugmentWide", "AutoAugment")  # torchvision raises a TypeError
MOVE = frozenset(
    {
        "CenterCrop",
        "Pad",
        "RandomAffine",
        "RandomCrop",
        "RandomHorizontalFlip",
        "RandomResizedCrop",
        "RandomRotation",
        "RandomVerticalFlip",
        "Resize",
    }
)

COLOURS = frozenset(
    {
        "ColorJitter",
        "GaussianBlur",
        "RandomAdjustSharpness",
        "RandomAutocontrast",
        "RandomEqualize",
        "RandomGrayscale",
        "RandomInvert",
        "RandomPosterize",
        "RandomSolarize",
    }
)


class PairTransform(NamedTuple):
    """What a pair goes through.

    Attributes:
        transform: Seneca's transform of the picture, whose geometry is the mask's too.
        mask: The type of the mask.
    """

    transform: NativeTransform
    mask: str


@dataclass(frozen=True)
class Filled(Transform):
    """A transform whose margins have a class of their own in masks."""

    inner: Transform
    mask_fill: int

    def steps(self) -> tuple[Step, ...]:
        return tuple(Step(kind, {**args, "mask_fill": self.mask_fill}) for kind, args in self.inner.steps())


def recognise_pair(transforms: object) -> PairTransform | str:
    """Find Seneca's transforms of the same meaning for items ``(picture, mask)``.

    Args:
        transforms: What a dataset calls with an RGB PIL image and a ``tv_tensors.Mask`` of uint8.

    Returns:
        The transform; or the reason why there is none, to follow "... because".

    Example:
        >>> recognise_pair(None)
        'there is no transform, so that the picture is a PIL image'
    """
    if transforms is None:
        return "there is no transform, so that the picture is a PIL image"
    if (replaced := replaced_in_torchvision()) is not None:
        return f"{replaced} was replaced"
    recogniser = _PairRecogniser()
    try:
        for step in steps_of(transforms):
            recogniser.take(step)
        return PairTransform(recogniser.result(), recogniser.mask_dtype)
    except NotNative as reason:
        return str(reason)


def steps_of(transform: Any) -> list[Any]:
    """The steps of a transform. Composes of v2 are taken apart, also nested ones.

    Raises:
        NotNative: The transform takes a picture alone.
    """
    if isinstance(transform, NativeTransform):
        raise NotNative(
            f"Seneca's {type(transform).__name__} takes no mask and no boxes: use torchvision.transforms.v2"
        )
    name = known_as(transform)
    if name is not None and not type(transform).__module__.startswith(V2):
        raise NotNative(
            f"{name} of torchvision.transforms takes no mask and no boxes: use torchvision.transforms.v2"
        )
    if name != "Compose":
        return [transform]
    return [step for inner in transform.transforms for step in steps_of(inner)]


class WithPicture(Recogniser):
    """Follows a picture beside which there is something else: dicts of torchvision's tell the types apart."""

    def members(self, group: str, transform: Any) -> list[Transform]:
        steps_of(transform)  # each must be of v2
        return super().members(group, transform)

    def filled(self, step: Any) -> Any:
        """The step with the fill of the picture alone."""
        fills = vars(step).get("_fill")
        if not isinstance(fills, dict):
            return step
        like = copy.copy(step)
        like.fill = _for_type(fills, self._picture_type(), None)
        return like

    def converting(self, step: Any) -> Any:
        """``ToDtype`` of the picture alone; None: it leaves the picture as it is."""
        if not isinstance(step.dtype, dict):
            return step
        like = copy.copy(step)
        like.dtype = _for_type(step.dtype, self._picture_type(), KeyError)
        if like.dtype is KeyError:
            raise NotNative(f"ToDtype names no dtype for a {self._picture_type().__name__}")
        return None if like.dtype is None else like

    def _picture_type(self) -> type:
        """The type by which torchvision's dicts know the picture."""
        import torch  # loaded: torchvision imports it
        from PIL import Image

        if self.dtype is None:
            return Image.Image
        image: type = sys.modules["torchvision.tv_tensors"].Image
        return image if self.is_image else torch.Tensor


class _PairRecogniser(WithPicture):
    """Follows a picture and its mask from one step to the next."""

    def __init__(self) -> None:
        super().__init__()
        self.mask_dtype = "uint8"
        self.mask_is_pure = False  # a plain tensor, which transforms leave alone beside a picture

    def take(self, step: Any) -> None:
        name = known_as(step)
        if name == "ToDtype":
            if isinstance(step.dtype, dict) and not self.mask_is_pure:
                mask = _for_type(step.dtype, sys.modules["torchvision.tv_tensors"].Mask, KeyError)
                self._mask_becomes("ToDtype", mask)
            step = self.converting(step)
            if step is None:
                return
        elif name == "ConvertImageDtype":
            self._mask_becomes(name, step.dtype)
        elif name == "ToPureTensor":
            self.mask_is_pure = True
        super().take(step)

    def result(self) -> NativeTransform:
        if not self.mask_is_pure and images_stay_images():
            raise NotNative(
                'batches of masks are tv_tensors.Mask after set_return_type("TVTensor"): put ToPureTensor at '
                "the end"
            )
        return super().result()

    def translated(self, name: str, step: Any) -> Transform:
        if name in TAKE_NO_MASKS:
            raise NotNative(f"{name} takes no masks: leave it out")
        if name not in MOVE and name not in COLOURS and name not in GROUPS:
            raise NotNative(f"{name} is not one that the native path knows for masks: use RandomAffine")
        if name in MOVE and self.mask_is_pure:
            raise NotNative(f"{name} leaves the mask alone behind ToPureTensor: put it in front")
        fills = vars(step).get("_fill")
        mask_fill = 0
        if isinstance(fills, dict):
            mask_fill = _for_type(fills, sys.modules["torchvision.tv_tensors"].Mask, None) or 0
        if mask_fill not in range(256):
            raise NotNative(f"{name} fills masks with {mask_fill!r}, which is no whole number from 0 to 255")
        made = super().translated(name, self.filled(step))
        return Filled(made, int(mask_fill)) if mask_fill else made

    def _mask_becomes(self, name: str, dtype: Any) -> None:
        if dtype is KeyError:
            raise NotNative(f"{name} names no dtype for a Mask")
        if dtype is None or self.mask_is_pure:
            return
        self.mask_dtype = str(dtype).removeprefix("torch.")
        if self.mask_dtype not in MASK_DTYPES:
            raise NotNative(
                f"{name} makes masks of {self.mask_dtype}: only uint8 and int64 run natively, as in "
                'ToDtype({tv_tensors.Mask: torch.int64, "others": torch.float32})'
            )


def _for_type(given: dict[Any, Any], kind: type, otherwise: Any) -> Any:
    """What a dict of torchvision's says of a type."""
    return given.get(kind, given.get("others", otherwise))
