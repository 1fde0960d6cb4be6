"""Translate transforms of torchvision's and timm's into Seneca's, or say why that cannot be done.

The input is any value that a user gave to a dataset as its transform. The result is a description that the
native core runs, or a reason in words. This module recognises torchvision and timm by the names of their
types, and never imports them.

tests/fidelity checks "the same meaning" against torchvision on the RGB PIL image of its default loader. It
compares the tensor's type and the distributions of random values. Pixels are on average at most 0.3 of 255
levels apart, and 99.9 % of them at most 2.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from seneca.errors import PlanError
from seneca.transforms._arguments import NotNative, interpolation_of
from seneca.transforms._base import (
    BY_NAME,
    MOVES,
    STAYS,
    Compose,
    NativeTransform,
    Static,
    Step,
    Transform,
    ValueKind,
    refused,
)
from seneca.transforms._detection import SANITIZE, BoxTransform
from seneca.transforms._genuine import V2, is_library_code, library_name, replaced_in_torchvision
from seneca.transforms._geometry import CenterCrop, Resize
from seneca.transforms._pipeline import compile_transform
from seneca.transforms._recipes import RandomApply, RandomChoice, RandomOrder
from seneca.transforms._tensor import (
    RANDOM,
    TENSOR,
    WORDS,
    ConvertImageDtype,
    Followed,
    Normalize,
    PILToTensor,
)

__all__ = [
    "PairTransform",
    "Recogniser",
    "does_beside",
    "images_stay_images",
    "recognise",
    "recognise_boxes",
    "recognise_pair",
    "run_steps",
    "split_static",
    "walked",
]


GROUPS = ("RandomApply", "RandomChoice", "RandomOrder")

MASK_DTYPES = ("uint8", "int64")


@dataclass(frozen=True)
class Other:
    """Facts about a transform of torchvision's or timm's that Seneca lacks."""

    why: str = "is not one that the native path knows"
    is_fixed: bool = False  # gives equal results for equal pictures
    masks: str = STAYS
    boxes: str = STAYS


def _refused(needs: str | None = None, boxes: str | None = None, **known: Any) -> Other:
    """One that torchvision does not run beside masks and boxes either."""
    without = f"needs {needs}, and torchvision refuses it without them: leave it out"
    masks = refused("masks") if needs is None else without
    return Other(masks=masks, boxes=boxes or (refused("boxes") if needs is None else without), **known)


FOLLOWED = ("RandomHorizontalFlip", "RandomVerticalFlip", "RandomZoomOut")  # the core moves boxes with these
ON_BOXES = Other(masks="does nothing to masks: leave it out", boxes=MOVES)
OTHERS: dict[str, Other] = {
    "ClampBoundingBoxes": ON_BOXES,
    "ConvertBoundingBoxFormat": ON_BOXES,
    "CutMix": _refused(),
    "FiveCrop": _refused(
        why="makes five pictures of one, and a native batch has one of each: use CenterCrop", is_fixed=True
    ),
    "LinearTransformation": Other(is_fixed=True),
    "MixUp": _refused(),
    "RGB": Other(is_fixed=True),
    SANITIZE: _refused("boxes", MOVES),
    "SanitizeKeyPoints": _refused("key points"),
    "SetClampingMode": ON_BOXES,
    "TenCrop": _refused(
        why="makes ten pictures of one, and a native batch has one of each: use CenterCrop", is_fixed=True
    ),
    "ToPILImage": Other(is_fixed=True),
    "timm.ToNumpy": Other(
        "makes an array, and a native batch has tensors: use MaybePILToTensor", is_fixed=True
    ),
    "timm.TrimBorder": Other("crops a border that depends on the picture's content: use a crop"),
}


def does_beside(name: str | None, what: Literal["masks", "boxes"]) -> str:
    """The effect of torchvision's transform of this name on masks or boxes, or why it has none here."""
    known = BY_NAME.get(name or "") or OTHERS.get(name or "")
    return STAYS if known is None else str(getattr(known, what))


def recognise(transform: object) -> NativeTransform | str:
    """Find Seneca's transforms of the same meaning.

    Only exact types are recognised, because a subclass may do anything. The result is meant for the batches
    of a loader with torch's default collate function. There a ``tv_tensors.Image`` becomes a plain tensor.

    Args:
        transform: The transform of a dataset: of torchvision's ``transforms`` or ``transforms.v2``, or of
            Seneca's. Seneca's are returned as they are.

    Returns:
        A transform that compiles; or the reason why there is none, to follow "... because".

    Example:
        >>> recognise(print)
        'print is not one that the native path knows'
    """
    if isinstance(transform, NativeTransform) and _is_senecas(transform):
        return transform
    if transform is None:
        return "there is no transform, so that the result is a PIL image"
    found = walked(transform, None)
    return found if isinstance(found, str) else found[1]


class PairTransform(NamedTuple):
    """The transform of a pair.

    Attributes:
        transform: Seneca's transform of the picture, whose geometry is the mask's too.
        mask: The type of the mask.
    """

    transform: NativeTransform
    mask: str


def recognise_pair(transforms: object) -> PairTransform | str:
    """Find Seneca's transforms of the same meaning for items ``(picture, mask)``.

    What a transform of ``transforms.v2`` does to a ``tv_tensors.Mask`` beside a picture:

    * Geometry is the picture's. A resize takes the nearest pixel, whatever the picture's filter.
    * Margins get the mask's own ``fill``.
    * Colours are the picture's alone, and so are ``Normalize`` and ``RandomErasing``.
    * ``ToDtype`` gives the mask a type of its own.

    Args:
        transforms: What a dataset calls with an RGB PIL image and a ``tv_tensors.Mask`` of uint8.

    Returns:
        The transform; or the reason why there is none, to follow "... because".

    Example:
        >>> recognise_pair(None)
        'there is no transform, so that the picture is a PIL image'
    """
    found = walked(transforms, "masks")
    return found if isinstance(found, str) else PairTransform(found[1], found[0].mask_dtype)


def recognise_boxes(transforms: object) -> BoxTransform | str:
    """Find Seneca's transforms of the same meaning for items ``(picture, target)``, whose target has boxes.

    Args:
        transforms: What a dataset calls with an RGB PIL image and a dict with ``tv_tensors.BoundingBoxes``.

    Returns:
        The transform; or the reason why there is none, to follow "... because".

    Example:
        >>> recognise_boxes(None)
        'there is no transform, so that the picture is a PIL image'
    """
    found = walked(transforms, "boxes")
    if isinstance(found, str):
        return found
    recogniser, transform = found
    return BoxTransform(transform, tuple(recogniser.box_steps), recogniser.is_image)


def walked(
    transform: Any, beside: Literal["masks", "boxes"] | None
) -> tuple[Recogniser, NativeTransform] | str:
    """Walk over the steps of a transform: who has seen them, and what they come to; or a reason."""
    if transform is None:
        return "there is no transform, so that the picture is a PIL image"
    if (replaced := replaced_in_torchvision()) is not None:
        return f"{replaced} was replaced"
    recogniser = Recogniser(beside)
    try:
        for step in _named_steps(transform, beside is not None):
            recogniser.take(*step)
        return recogniser, recogniser.result()
    except NotNative as reason:
        return str(reason)


class StaticSplit(NamedTuple):
    """A transform in two lists of steps. To run the first and then the second is to run the transform.

    Attributes:
        head: The longest head of deterministic steps.
        tail: The others.
        core: The native core's steps for how ``head`` begins.
        in_core: How many steps of ``head`` those are.
    """

    head: list[Any]
    tail: list[Any]
    core: tuple[Step, ...]
    in_core: int


def split_static(transform: object) -> StaticSplit:
    """Split a transform into the deterministic steps that it begins with, and the others.

    A ``Compose`` of torchvision's is taken apart. One of Seneca's is a single step. It makes a tensor of a
    picture; its parts, called one after the other, would not.

    Args:
        transform: Any callable; ``None`` has no steps.

    Returns:
        The two lists. These steps are deterministic:

        * known ones of torchvision's, by their exact type;
        * those of Seneca's without random numbers;
        * those that the user has marked with :class:`Static`.
    """
    steps = [] if transform is None else _named_steps(transform)
    length = next((i for i, step in enumerate(steps) if not _deterministic(*step)), len(steps))
    core: tuple[Step, ...] = ()
    in_core = 0
    while in_core < length and (known := _steps_on_pictures(*steps[in_core])) is not None:
        core += known
        in_core += 1
    values = [step for _, step in steps]
    return StaticSplit(values[:length], values[length:], core, in_core)


def _steps_on_pictures(name: str | None, step: Any) -> tuple[Step, ...] | None:
    """The native core's steps for a deterministic transform of torchvision's that gets a PIL image.

    None: there are no such steps, or their pixels would differ.
    """
    if name not in BY_NAME or replaced_in_torchvision() is not None:
        return None
    try:
        return _read(name, step, "picture").steps()
    except (NotNative, TypeError, ValueError):
        return None


def run_steps(steps: Iterable[Callable[[Any], Any]], value: Any) -> Any:
    """Run ``steps`` on ``value``, one after the other."""
    for step in steps:
        value = step(value)
    return value


def _is_senecas(transform: object) -> bool:
    """Whether a transform is one of Seneca's and its ``__call__`` is not the user's own."""
    if not isinstance(transform, NativeTransform):
        return False
    definer = next((base for base in type(transform).__mro__ if "__call__" in vars(base)), Transform)
    return definer is Transform


def _named_steps(transform: Any, beside: bool = False) -> list[tuple[str | None, Any]]:
    """The steps of a transform, each with its library's name. Composes are taken apart, also nested ones.

    Raises:
        NotNative: The transform gets more than a picture (``beside``), and a part of it takes no more.
    """
    name = library_name(transform)
    if beside and isinstance(transform, NativeTransform):
        raise NotNative(
            f"Seneca's {type(transform).__name__} takes no mask and no boxes: use torchvision.transforms.v2"
        )
    if beside and name is not None and not type(transform).__module__.startswith(V2):
        of = "" if name.startswith("timm.") else " of torchvision.transforms"
        raise NotNative(f"{name}{of} takes no mask and no boxes: use torchvision.transforms.v2")
    if name != "Compose":
        return [(name, transform)]
    return [step for inner in transform.transforms for step in _named_steps(inner, beside)]


def _deterministic(name: str | None, step: Any) -> bool:
    if _is_senecas(step):
        try:
            pipeline = compile_transform(step)
        except PlanError:
            return False  # the call will raise it
        return pipeline.deterministic and pipeline.erase is None
    return isinstance(step, Static) or _is_fixed(name or "")


def _is_fixed(name: str) -> bool:
    if name in BY_NAME:
        return BY_NAME[name].fixed_kinds == BY_NAME[name].kinds
    return name in STEPS.keys() - RANDOM or (name in OTHERS and OTHERS[name].is_fixed)


def _read(name: str, step: Any, holds: ValueKind) -> Transform:
    """Seneca's transform for one of torchvision's or timm's of this name."""
    kind = BY_NAME[name]
    return kind.from_timm(step) if name.startswith("timm.") else kind.from_torchvision(step, holds)


@dataclass(frozen=True)
class WithMaskFill(Transform):
    """A transform whose margins have a class of their own in masks."""

    inner: Transform
    mask_fill: int

    def steps(self) -> tuple[Step, ...]:
        return tuple(Step(kind, {**args, "mask_fill": self.mask_fill}) for kind, args in self.inner.steps())


def _preset(at: Followed, step: Any) -> None:
    at.needs_picture("ImageClassification")
    interpolation = interpolation_of("ImageClassification", step)
    at.pixels += [Resize(step.resize_size, interpolation), CenterCrop(step.crop_size)]
    at.tensor += [PILToTensor(), ConvertImageDtype("float32"), Normalize(step.mean, step.std)]
    at.dtype, at.normalised, at.behind = "float32", True, "ImageClassification"


STEPS: dict[str, Callable[[Followed, Any], None]] = {**TENSOR, "ImageClassification": _preset}
"""Of transforms that make or change a tensor: how they are read, by their names."""


class Recogniser(Followed):
    """Follows the value from one step to the next, and collects Seneca's transforms for the steps.

    Seneca puts transforms of pixels before those of the tensor. A transform that moves there past others
    means the same in both places, if its class says so (``on_tensors``).

    Args:
        beside: What is beside the picture, if anything. Dicts of torchvision's then differ by type.
    """

    def __init__(self, beside: Literal["masks", "boxes"] | None = None) -> None:
        super().__init__()
        self.beside = beside
        self.mask_dtype = "uint8"
        self.mask_is_pure = False  # a plain tensor, which transforms leave alone beside a picture
        self.box_steps: list[tuple[str, Any]] = []  # those that do something to boxes
        self.ended_by: str | None = None  # a transform of Seneca's, which makes the final tensor

    def take(self, name: str | None, step: Any) -> None:
        """Take in one step of the user's, by its library's name."""
        if self.beside is not None and (step := self._take_beside(name, step)) is None:
            return
        if self.ended_by is not None:
            raise NotNative(
                f"{_named(name, step)} comes after Seneca's {self.ended_by}, which makes a tensor of "
                "its own: use seneca.transforms for all of them"
            )
        try:
            if isinstance(step, Transform) and _is_senecas(step):
                self._take_senecas(step)
            elif name in BY_NAME or name in GROUPS:
                self.pixels.append(self.translated(name, step))
            elif name in STEPS:
                STEPS[name](self, step)
            else:
                raise NotNative(f"{_named(name, step)} {OTHERS.get(name or '', Other()).why}")
        except (TypeError, ValueError) as error:  # from the checks of Seneca's arguments
            raise NotNative(f"{name}: {error}") from None

    def _take_senecas(self, step: Transform) -> None:
        name = type(step).__name__
        self.needs_picture(f"Seneca's {name}")
        self.pixels.append(step)
        self.ended_by = name

    def result(self) -> NativeTransform:
        """The transform of all steps, once the last step is taken in."""
        if self.beside == "masks" and not self.mask_is_pure and images_stay_images():
            raise NotNative(
                'batches of masks are tv_tensors.Mask after set_return_type("TVTensor"): put ToPureTensor at '
                "the end"
            )
        if self.dtype is None and self.ended_by is None:
            raise NotNative("the result is a PIL image: put ToTensor at the end")
        if self.is_image and images_stay_images():
            raise NotNative(
                'ToImage makes batches of tv_tensors.Image after set_return_type("TVTensor"): put '
                "ToPureTensor at the end"
            )
        whole = Compose([*self.pixels, *self.tensor])
        try:
            compile_transform(whole)
        except PlanError as error:
            raise NotNative(str(error)) from None
        return whole

    def translated(self, name: str, step: Any) -> Transform:
        """Seneca's transform of the same meaning, for the value that there is now."""
        if name == "RandomApply":
            members = [made for inner in step.transforms for made in self.members(name, inner)]
            return RandomApply(members, step.p)
        if name in ("RandomChoice", "RandomOrder"):
            branches = [Compose(self.members(name, inner)) for inner in step.transforms]
            return RandomChoice(branches, step.p) if name == "RandomChoice" else RandomOrder(branches)
        mask_fill = self._fill_beside(name, step)
        if BY_NAME[name].needs_boxes:
            self._check_boxes(name)
        holds = self.holds
        if holds != "picture" and (name.startswith("timm.") or holds not in BY_NAME[name].on_tensors):
            raise NotNative(
                f"{name} gives different pixels on {WORDS[holds]} than on a PIL image; move it before "
                f"{self.behind}"
            )
        made = _read(name, step if self.beside is None else self._filled(step), holds)
        return WithMaskFill(made, mask_fill) if mask_fill else made

    def members(self, group: str, transform: Any) -> list[Transform]:
        """Seneca's transforms for a member of a group, which may be a list."""
        steps = _named_steps(transform, self.beside is not None)
        if self.beside is not None:
            moving = [name for name, _ in steps if does_beside(name, "boxes") == MOVES]
            if self.beside == "boxes" and moving:
                raise NotNative(f"{group} has {moving[0]}, which moves boxes: put it outside of {group}")
            for name, _ in steps:
                self._check(name)
        for name, step in steps:
            if name not in BY_NAME and name not in GROUPS and name != "Identity":
                raise NotNative(
                    f"{group} has {_named(name, step)}, which is not one that the native path knows there"
                )
        return [self.translated(name, step) for name, step in steps if name and name != "Identity"]

    def _check(self, name: str | None) -> None:
        if self.beside is not None and (does := does_beside(name, self.beside)) not in (MOVES, STAYS):
            raise NotNative(f"{name} {does}")

    def _take_beside(self, name: str | None, step: Any) -> Any:
        """Note what one step does to masks or boxes. Returns the step for the picture; None: it has none."""
        self._check(name)
        if self.beside == "boxes":
            moves = does_beside(name, "boxes") == MOVES
            if name and (moves or name in ("ConvertImageDtype", "ToDtype", "ToPureTensor")):
                self._take_for_boxes(name, step)
            if moves and name in OTHERS:
                return None
        elif name == "ToDtype":
            if isinstance(step.dtype, dict) and not self.mask_is_pure:
                mask = _for_type(step.dtype, sys.modules["torchvision.tv_tensors"].Mask, KeyError)
                self._mask_becomes("ToDtype", mask)
        elif name == "ConvertImageDtype":
            self._mask_becomes(name, step.dtype)
        elif name == "ToPureTensor":
            self.mask_is_pure = True
        return self._converting(step) if name == "ToDtype" else step

    def _take_for_boxes(self, name: str, step: Any) -> None:
        if not hasattr(step, "transform"):
            raise NotNative(
                f"{name} of this torchvision cannot move boxes alone: use torchvision 0.21 or later"
            )
        if name == SANITIZE and (
            step.labels_getter not in ("default", None) or not is_library_code(step._labels_getter)
        ):
            raise NotNative(f'{name} has a labels_getter of your own: use labels_getter="default"')
        self.box_steps.append((name, copy.deepcopy(step)))  # an epoch goes on with the step as it was

    def _check_boxes(self, name: str) -> None:
        """Check that the core has the boxes that a step reads as they are then."""
        if self.beside != "boxes":
            raise NotNative(f"{name} {BY_NAME[name].masks}")
        if before := [one for one, _ in self.box_steps[:-1] if one not in FOLLOWED]:
            raise NotNative(f"{name} reads the boxes behind {before[-1]}: put it in front of that")

    def _fill_beside(self, name: str, step: Any) -> int:
        """The value of masks in the margins that a step makes. Checks its margins."""
        margins = name == "Pad" or (name == "RandomCrop" and (step.padding or step.pad_if_needed))
        if self.beside == "boxes" and margins and step.padding_mode != "constant":
            raise NotNative(
                f'torchvision pads no boxes with {step.padding_mode!r}: use padding_mode="constant"'
            )
        if self.beside != "masks":
            return 0
        if does_beside(name, "masks") == MOVES and self.mask_is_pure:
            raise NotNative(f"{name} leaves the mask alone behind ToPureTensor: put it in front")
        fills, fill = vars(step).get("_fill"), 0
        if isinstance(fills, dict):
            fill = _for_type(fills, sys.modules["torchvision.tv_tensors"].Mask, None) or 0
        if fill not in range(256):
            raise NotNative(f"{name} fills masks with {fill!r}, which is no whole number from 0 to 255")
        return int(fill)

    def _filled(self, step: Any) -> Any:
        """The step with the fill of the picture alone."""
        fills = vars(step).get("_fill")
        if not isinstance(fills, dict):
            return step
        like = copy.copy(step)
        like.fill = _for_type(fills, self._picture_type(), None)
        return like

    def _converting(self, step: Any) -> Any:
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
    """The value that a dict of torchvision's has for a type."""
    return given.get(kind, given.get("others", otherwise))


def _named(name: str | None, step: Any) -> str:
    """The step's name in a reason. Another type with a name of torchvision's is named with its module."""
    if name is not None:
        return name
    own = getattr(step, "__qualname__", None)
    if own is not None:
        return str(own)
    kind = type(step)
    taken = kind.__name__ in BY_NAME or kind.__name__ in STEPS
    return f"{kind.__module__}.{kind.__qualname__}" if taken else kind.__qualname__


def images_stay_images() -> bool:
    """Whether torch's functions, such as ``stack``, return a tv_tensors.Image for such images."""
    kind = sys.modules["torchvision.tv_tensors"].Image
    return type(kind([[0]]) + 0) is kind
