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
from typing import Any, Literal, NamedTuple

from seneca.transforms._base import Transform
from seneca.transforms._genuine import replaced_in_torchvision
from seneca.transforms._pipeline import NativeTransform, Step
from seneca.transforms._recognise import Recogniser, images_stay_images
from seneca.transforms._translate import PIXELS, V2, NotNative, known_as

__all__ = ["MOVES", "PairTransform", "WithPicture", "recognise_pair", "steps_of"]

MASK_DTYPES = ("uint8", "int64")

# What a transform does to what is beside the picture: it moves that, or leaves it alone. Any other text is
# the reason, to follow the name, why the transform does not run natively there.
MOVES, STAYS = "moves", "stays"


class Beside(NamedTuple):
    """What a transform does to a mask beside the picture, and to boxes."""

    mask: str
    boxes: str


def _refused(needs: str | None = None) -> Beside:
    """A transform that torchvision does not run there either."""
    if needs is not None:
        return Beside(*[f"needs {needs}, and torchvision refuses it without them: leave it out"] * 2)
    return Beside(
        *(f"takes no {what}, and torchvision refuses it too: leave it out" for what in ("masks", "boxes"))
    )


def _not_yet(what: str, instead: str) -> str:
    return f"is not written for {what} yet: use {instead}"


# Every transform of torchvision's that Seneca has for a picture alone, and those for masks and boxes only.
BESIDE: dict[str, Beside] = {
    "CenterCrop": Beside(MOVES, MOVES),
    "Pad": Beside(MOVES, MOVES),
    "RandomCrop": Beside(MOVES, MOVES),
    "RandomHorizontalFlip": Beside(MOVES, MOVES),
    "RandomResizedCrop": Beside(MOVES, MOVES),
    "RandomVerticalFlip": Beside(MOVES, MOVES),
    "Resize": Beside(MOVES, MOVES),
    "RandomAffine": Beside(MOVES, _not_yet("boxes", "RandomResizedCrop")),
    "RandomRotation": Beside(MOVES, _not_yet("boxes", "RandomResizedCrop")),
    "RandomShortestSize": Beside(_not_yet("masks", "RandomResizedCrop"), MOVES),
    "RandomZoomOut": Beside(_not_yet("masks", "RandomResizedCrop"), MOVES),
    "ScaleJitter": Beside(_not_yet("masks", "RandomResizedCrop"), MOVES),
    "ElasticTransform": Beside(_not_yet("masks", "RandomAffine"), _not_yet("boxes", "RandomResizedCrop")),
    "RandomPerspective": Beside(_not_yet("masks", "RandomAffine"), _not_yet("boxes", "RandomResizedCrop")),
    "ColorJitter": Beside(STAYS, STAYS),
    "GaussianBlur": Beside(STAYS, STAYS),
    "RandomAdjustSharpness": Beside(STAYS, STAYS),
    "RandomAutocontrast": Beside(STAYS, STAYS),
    "RandomEqualize": Beside(STAYS, STAYS),
    "RandomGrayscale": Beside(STAYS, STAYS),
    "RandomInvert": Beside(STAYS, STAYS),
    "RandomPosterize": Beside(STAYS, STAYS),
    "RandomSolarize": Beside(STAYS, STAYS),
    "RandomPhotometricDistort": Beside(_not_yet("masks", "ColorJitter"), _not_yet("boxes", "ColorJitter")),
    "AugMix": _refused(),
    "AutoAugment": _refused(),
    "CutMix": _refused(),
    "FiveCrop": _refused(),
    "MixUp": _refused(),
    "RandAugment": _refused(),
    "TenCrop": _refused(),
    "TrivialAugmentWide": _refused(),
    "RandomIoUCrop": Beside(_refused("boxes").mask, "chooses its part by the boxes: use RandomResizedCrop"),
    "SanitizeBoundingBoxes": Beside(_refused("boxes").mask, MOVES),
    "SanitizeKeyPoints": _refused("key points"),
    **dict.fromkeys(
        ("ClampBoundingBoxes", "ConvertBoundingBoxFormat", "SetClampingMode"),
        Beside("does nothing to masks: leave it out", MOVES),
    ),
}  # fmt: skip


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
        of = "" if name.startswith("timm.") else " of torchvision.transforms"
        raise NotNative(f"{name}{of} takes no mask and no boxes: use torchvision.transforms.v2")
    if name != "Compose":
        return [transform]
    return [step for inner in transform.transforms for step in steps_of(inner)]


class WithPicture(Recogniser):
    """Follows a picture beside which there is something else: dicts of torchvision's tell the types apart.

    Args:
        what: The field of ``Beside`` that counts.
    """

    def __init__(self, what: Literal["mask", "boxes"]) -> None:
        super().__init__()
        self._what = what

    def take(self, step: Any) -> None:
        self._check(step)
        super().take(step)

    def members(self, group: str, transform: Any) -> list[Transform]:
        for step in steps_of(transform):  # each must be of v2
            self._check(step)
        return super().members(group, transform)

    def does(self, name: str | None) -> str | None:
        """What a transform does to what is beside the picture; None: there is nothing that it could move."""
        if name in BESIDE:
            return str(getattr(BESIDE[name], self._what))
        return "is not one that the native path knows there" if name in PIXELS else None

    def _check(self, step: Any) -> None:
        name = known_as(step)
        if (does := self.does(name)) not in (None, MOVES, STAYS):
            raise NotNative(f"{name} {does}")

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
        super().__init__("mask")
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
        if self.does(name) == MOVES and self.mask_is_pure:
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
