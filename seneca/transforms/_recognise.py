"""Translate transforms of torchvision's and timm's into Seneca's, or say why that cannot be done.

The input is any value that a user gave to a dataset as its transform. The result is a description that the
native core runs, or a reason in words. This module recognises torchvision and timm by the names of their
types, and never imports them.

tests/fidelity checks "the same meaning" against torchvision on the RGB PIL image of its default loader. It
compares the tensor's type and the distributions of random values. Pixels are on average at most 0.3 of 255
levels apart, and 99.9 % of them at most 2.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

from seneca.errors import PlanError
from seneca.transforms._base import Compose, Transform
from seneca.transforms._genuine import replaced_in_torchvision
from seneca.transforms._geometry import CenterCrop, Resize
from seneca.transforms._groups import RandomApply, RandomChoice, RandomOrder
from seneca.transforms._pipeline import NativeTransform, Step, compile_transform
from seneca.transforms._static import Static
from seneca.transforms._tensor import (
    ConvertImageDtype,
    Normalize,
    PILToTensor,
    RandomErasing,
    ToDtype,
    ToTensor,
)
from seneca.transforms._translate import (
    ON_TENSORS,
    PIXELS,
    Holds,
    NotNative,
    interpolation_of,
    known_as,
)
from seneca.transforms._translate_timm import timm_erasing

__all__ = [
    "Recogniser",
    "images_stay_images",
    "recognise",
    "run_steps",
    "split_static",
    "steps_on_pictures",
]


WORDS: dict[Holds, str] = {
    "picture": "a PIL image",
    "bytes": "a uint8 tensor",
    "floats": "a float tensor",
    "normalised": "a normalised tensor",
    "erased": "a tensor with an erased part",
}

GROUPS = ("RandomApply", "RandomChoice", "RandomOrder")

# torchvision's transforms, of v1, v2 or both, that give equal results for equal pictures.
DETERMINISTIC = frozenset(
    {
        "CenterCrop",
        "ConvertImageDtype",
        "FiveCrop",
        "Grayscale",
        "Identity",
        "ImageClassification",
        "LinearTransformation",
        "Normalize",
        "PILToTensor",
        "Pad",
        "RGB",
        "Resize",
        "TenCrop",
        "ToDtype",
        "ToImage",
        "ToPILImage",
        "ToPureTensor",
        "ToTensor",
        "timm.CenterCropOrPad",
        "timm.MaybePILToTensor",
        "timm.MaybeToTensor",
        "timm.ToNumpy",
        "timm.ToTensor",
    }
)

# Why a known transform has no place in native batches, to follow its name.
NEVER = {
    "FiveCrop": "makes five pictures of one, and a native batch has one of each: use CenterCrop",
    "TenCrop": "makes ten pictures of one, and a native batch has one of each: use CenterCrop",
    "timm.ToNumpy": "makes an array, and a native batch has tensors: use MaybePILToTensor",
    "timm.TrimBorder": "cuts a border whose place hangs on the picture: use a crop",
}


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
    if (replaced := replaced_in_torchvision()) is not None:
        return f"{replaced} was replaced"
    recogniser = Recogniser()
    try:
        for step in _flattened(transform):
            recogniser.take(step)
        return recogniser.result()
    except NotNative as reason:
        return str(reason)


def split_static(transform: object) -> tuple[list[Any], list[Any]]:
    """Split a transform into the deterministic steps that it begins with, and the others.

    To run the first list and then the second is to run the transform. A ``Compose`` of torchvision's is
    taken apart. One of Seneca's is a single step. It makes a tensor of a picture; its parts, called one
    after the other, would not.

    Args:
        transform: Any callable; ``None`` has no steps.

    Returns:
        The longest head of deterministic steps, and the rest. These steps are deterministic:

        * known ones of torchvision's, by their exact type;
        * those of Seneca's without random numbers;
        * those that the user has marked with :class:`Static`.
    """
    steps = [] if transform is None else _flattened(transform)
    length = next((i for i, step in enumerate(steps) if not _deterministic(step)), len(steps))
    return steps[:length], steps[length:]


def steps_on_pictures(transform: object) -> tuple[Step, ...] | None:
    """The native core's steps for a deterministic transform of torchvision's that gets a PIL image.

    None: there are no such steps, or their pixels would differ.
    """
    name = known_as(transform)
    if name not in PIXELS or not _deterministic(transform) or replaced_in_torchvision() is not None:
        return None
    try:
        return PIXELS[name](transform, "picture").steps()
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


def _flattened(transform: Any) -> list[Any]:
    """The steps of a transform. torchvision's Composes are taken apart, also nested ones."""
    if known_as(transform) != "Compose":
        return [transform]
    return [step for inner in transform.transforms for step in _flattened(inner)]


def _deterministic(step: Any) -> bool:
    if _is_senecas(step):
        try:
            pipeline = compile_transform(step)
        except PlanError:
            return False  # the call will raise it
        return pipeline.deterministic and pipeline.erase is None
    return isinstance(step, Static) or known_as(step) in DETERMINISTIC


class Recogniser:
    """Follows the value from one step to the next, and collects Seneca's transforms for the steps.

    Seneca puts transforms of pixels before those of the tensor. A transform that moves there past others
    means the same in both places; ``ON_TENSORS`` lists where that holds.
    """

    def __init__(self) -> None:
        self.pixels: list[Transform] = []
        self.tensor: list[Transform] = []
        self.dtype: str | None = None  # of the tensor, once there is one
        self.normalised = self.erased = False
        self.is_image = False  # a tv_tensors.Image
        self.behind = ""  # the step before which transforms of pixels must stand
        self.ended_by: str | None = None  # a transform of Seneca's, which makes the final tensor

    @property
    def holds(self) -> Holds:
        """The kind of value that the next step gets."""
        if self.dtype is None:
            return "picture"
        if self.erased:
            return "erased"
        if self.normalised:
            return "normalised"
        return "bytes" if self.dtype == "uint8" else "floats"

    def take(self, step: Any) -> None:
        """Take in one step of the user's."""
        name = known_as(step)
        if self.ended_by is not None:
            raise NotNative(
                f"{_named(step)} comes after Seneca's {self.ended_by}, which makes a tensor of "
                "its own: use seneca.transforms for all of them"
            )
        try:
            if isinstance(step, Transform) and _is_senecas(step):
                self._take_senecas(step)
            elif name in PIXELS or name in GROUPS:
                self._take_pixels(name, step)
            elif name in _TENSOR:
                _TENSOR[name](self, step)
            elif name in NEVER:
                raise NotNative(f"{name} {NEVER[name]}")
            else:
                raise NotNative(f"{_named(step)} is not one that the native path knows")
        except (TypeError, ValueError) as error:  # from the checks of Seneca's arguments
            raise NotNative(f"{name}: {error}") from None

    def result(self) -> NativeTransform:
        """The transform of all steps, once the last step is taken in."""
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

    def needs_tensor(self, name: str) -> None:
        """Raise if the value is not yet a tensor."""
        if self.dtype is None:
            raise NotNative(f"{name} gets a PIL image: put ToTensor in front of it")

    def needs_picture(self, name: str) -> None:
        """Raise if the value is already a tensor."""
        if self.dtype is not None:
            raise NotNative(f"{name} gets {WORDS[self.holds]}, not a PIL image: put it in front")

    def _take_senecas(self, step: Transform) -> None:
        name = type(step).__name__
        self.needs_picture(f"Seneca's {name}")
        self.pixels.append(step)
        self.ended_by = name

    def _take_pixels(self, name: str, step: Any) -> None:
        self.pixels.append(self.translated(name, step))

    def translated(self, name: str, step: Any) -> Transform:
        """Seneca's transform of the same meaning, for the value that there is now."""
        if name == "RandomApply":
            members = [made for inner in step.transforms for made in self.members(name, inner)]
            return RandomApply(members, step.p)
        if name in ("RandomChoice", "RandomOrder"):
            branches = [Compose(self.members(name, inner)) for inner in step.transforms]
            return RandomChoice(branches, step.p) if name == "RandomChoice" else RandomOrder(branches)
        holds = self.holds
        if holds != "picture" and holds not in ON_TENSORS[name]:
            raise NotNative(
                f"{name} works on {WORDS[holds]}, where its pixels are others than the native path's: put it "
                f"in front of {self.behind}"
            )
        return PIXELS[name](step, holds)

    def members(self, group: str, transform: Any) -> list[Transform]:
        """Seneca's transforms for a member of a group, which may be a list."""
        names = [(known_as(step), step) for step in _flattened(transform)]
        for name, step in names:
            if name not in PIXELS and name not in GROUPS and name != "Identity":
                raise NotNative(
                    f"{group} has {_named(step)}, which is not one that the native path knows there"
                )
        return [self.translated(name, step) for name, step in names if name and name != "Identity"]


def _named(step: Any) -> str:
    """The step's name in a reason. Another type with a name of torchvision's is named with its module."""
    known = known_as(step)
    if known is not None:
        return known
    own = getattr(step, "__qualname__", None)
    if own is not None:
        return str(own)
    kind = type(step)
    taken = kind.__name__ in PIXELS or kind.__name__ in _TENSOR
    return f"{kind.__module__}.{kind.__qualname__}" if taken else kind.__qualname__


def images_stay_images() -> bool:
    """Whether torch's functions, such as ``stack``, return a tv_tensors.Image for such images."""
    kind = sys.modules["torchvision.tv_tensors"].Image
    return type(kind([[0]]) + 0) is kind


# Transforms of the tensor: functions of the recogniser and the step. compile_transform checks the
# combination.


def _to_tensor(at: Recogniser, _step: Any) -> None:
    import torch  # loaded: torchvision imports it

    at.needs_picture("ToTensor")
    if torch.get_default_dtype() != torch.float32:
        raise NotNative(f"ToTensor makes {torch.get_default_dtype()}, torch's default type")
    at.dtype, at.behind = "float32", "ToTensor"
    at.tensor.append(ToTensor())


def _maybe_to_tensor(at: Recogniser, step: Any) -> None:
    if at.dtype is None:
        _to_tensor(at, step)


def _maybe_pil_to_tensor(at: Recogniser, step: Any) -> None:
    if at.dtype is None:
        _pil_to_tensor(at, step)


def _timm_to_tensor(at: Recogniser, step: Any) -> None:
    at.needs_picture("timm.ToTensor")
    converted = ToDtype(step.dtype, scale=False)
    at.dtype, at.behind = str(converted.dtype), "timm.ToTensor"
    at.tensor += [PILToTensor(), converted]


def _pil_to_tensor(at: Recogniser, _step: Any) -> None:
    at.needs_picture("PILToTensor")
    at.dtype, at.behind = "uint8", "PILToTensor"
    at.tensor.append(PILToTensor())


def _to_image(at: Recogniser, _step: Any) -> None:
    at.is_image = True
    if at.dtype is None:
        at.dtype, at.behind = "uint8", "ToImage"
        at.tensor.append(PILToTensor())


def _to_pure_tensor(at: Recogniser, _step: Any) -> None:
    at.is_image = False


def _to_dtype(at: Recogniser, step: Any) -> None:
    at.needs_tensor("ToDtype")
    if isinstance(step.dtype, dict):
        raise NotNative(f"ToDtype has dtype={step.dtype!r}, which tells types apart")
    _convert(at, "ToDtype", ToDtype(step.dtype, step.scale))


def _convert_image_dtype(at: Recogniser, step: Any) -> None:
    at.needs_tensor("ConvertImageDtype")
    _convert(at, "ConvertImageDtype", ConvertImageDtype(step.dtype))


def _convert(at: Recogniser, name: str, converted: ToDtype | ConvertImageDtype) -> None:
    dtype = str(converted.dtype)
    if at.dtype in ("float16", "bfloat16") and at.dtype != dtype:
        # Seneca rounds once, at the end. torchvision rounds here already.
        raise NotNative(f"{name} makes {dtype} of {at.dtype}, which has lost digits: leave one of them out")
    at.dtype = dtype
    at.tensor.append(converted)


def _normalize(at: Recogniser, step: Any) -> None:
    at.needs_tensor("Normalize")
    if at.dtype == "bfloat16":
        # 0.43 levels away: torch rounds the mean and each result to 8 bits; float16 is 0.03 away.
        raise NotNative("Normalize works on bfloat16: put ToDtype(torch.bfloat16) behind it")
    at.tensor.append(Normalize(_per_channel(step.mean), _per_channel(step.std)))
    at.normalised, at.behind = True, "Normalize"


def _per_channel(given: Any) -> Any:
    """One value stands for all channels."""
    if isinstance(given, (int, float)):
        return (given,) * 3
    return tuple(given) * 3 if len(given) == 1 else given


def _random_erasing(at: Recogniser, step: Any) -> None:
    at.needs_tensor("RandomErasing")
    value = "random" if step.value is None else step.value  # as v2 has it
    _erase(at, RandomErasing(step.p, step.scale, step.ratio, value))


def _timm_random_erasing(at: Recogniser, step: Any) -> None:
    at.needs_tensor("timm.RandomErasing")
    _erase(at, timm_erasing(step))


def _erase(at: Recogniser, erasing: RandomErasing) -> None:
    at.tensor.append(erasing)
    at.erased, at.behind = True, "RandomErasing"


def _preset(at: Recogniser, step: Any) -> None:
    at.needs_picture("ImageClassification")
    interpolation = interpolation_of("ImageClassification", step)
    at.pixels += [Resize(step.resize_size, interpolation), CenterCrop(step.crop_size)]
    at.tensor += [PILToTensor(), ConvertImageDtype("float32"), Normalize(step.mean, step.std)]
    at.dtype, at.normalised, at.behind = "float32", True, "ImageClassification"


_TENSOR: dict[str, Callable[[Recogniser, Any], None]] = {
    "ToTensor": _to_tensor,
    "PILToTensor": _pil_to_tensor,
    "ToImage": _to_image,
    "ToPureTensor": _to_pure_tensor,
    "Identity": lambda _at, _step: None,
    "ToDtype": _to_dtype,
    "ConvertImageDtype": _convert_image_dtype,
    "Normalize": _normalize,
    "RandomErasing": _random_erasing,
    "ImageClassification": _preset,
    "timm.MaybeToTensor": _maybe_to_tensor,
    "timm.MaybePILToTensor": _maybe_pil_to_tensor,
    "timm.ToTensor": _timm_to_tensor,
    "timm.RandomErasing": _timm_random_erasing,
}
