"""Transforms of the resulting tensor: its type, its statistics, erasing; and how torchvision's are read."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from seneca.transforms._arguments import NotNative, channels, probability, rising, whole
from seneca.transforms._base import Step, Transform, ValueKind, step
from seneca.transforms._pipeline import DTYPES

if TYPE_CHECKING:
    import torch

__all__ = [
    "RANDOM",
    "TENSOR",
    "WORDS",
    "ConvertImageDtype",
    "Followed",
    "Normalize",
    "PILToTensor",
    "RandomErasing",
    "ToDtype",
    "ToTensor",
]

NOISES = ("random", "random colour")
MOST_BOXES = 1000  # MAX_BOXES in csrc/codec/plan.c


@dataclass(frozen=True)
class ToTensor(Transform):
    """Make a float32 tensor in [0, 1]. This is also the result without any transform of the tensor."""

    kinds = ("to_tensor",)


@dataclass(frozen=True)
class PILToTensor(Transform):
    """Make a uint8 tensor, from 0 to 255. It has a quarter of the bytes of float32.

    Example:
        >>> import numpy
        >>> from seneca import transforms as T
        >>> transform = T.Compose([T.CenterCrop(8), T.PILToTensor()])
        >>> transform(numpy.full((8, 8, 3), 200, numpy.uint8))[0, 0, 0]
        tensor(200, dtype=torch.uint8)
    """

    kinds = ("pil_to_tensor",)


@dataclass(frozen=True)
class ToDtype(Transform):
    """Make a tensor of another type, as torchvision's v2 does.

    Values are computed in float32 and rounded once, whatever the order in the list.

    Args:
        dtype: ``torch.uint8``, ``float16``, ``bfloat16`` or ``float32``, or its name.
        scale: Whether 0 to 255 in uint8 becomes 0 to 1 in floats, and the reverse. If not, floats hold 0 to
            255.

    Raises:
        ValueError: ``dtype`` is not supported.

    Example:
        >>> ToDtype("float16", scale=True)
        ToDtype(dtype='float16', scale=True)
    """

    kinds = ("to_dtype",)

    dtype: torch.dtype | str
    scale: bool = False

    def __post_init__(self) -> None:
        self._set(dtype=_dtype(self.dtype), scale=bool(self.scale))


@dataclass(frozen=True)
class ConvertImageDtype(Transform):
    """``ToDtype(dtype, scale=True)`` under its older name.

    Args:
        dtype: The type, as for :class:`ToDtype`.

    Raises:
        ValueError: ``dtype`` is not supported.
    """

    dtype: torch.dtype | str

    def __post_init__(self) -> None:
        self._set(dtype=_dtype(self.dtype))

    def steps(self) -> tuple[Step, ...]:
        return step("to_dtype", dtype=self.dtype, scale=True)


@dataclass(frozen=True, repr=False)
class Normalize(Transform):
    """Compute ``(value - mean) / std`` for each channel.

    Args:
        mean: Red, green and blue, in the units of the tensor: [0, 1], unless ``ToDtype`` left 0 to 255.
        std: Red, green and blue, none of them 0.
        inplace: Accepted as torchvision accepts it; it has no effect here.

    Raises:
        ValueError: ``mean`` or ``std`` is not three finite numbers, or ``std`` has a 0.
    """

    kinds = ("normalize",)

    mean: Sequence[float]
    std: Sequence[float]
    inplace: bool = False

    def __post_init__(self) -> None:
        self._set(mean=channels("mean", self.mean), std=channels("std", self.std))
        if 0 in self.std:
            raise ValueError(f"std: dividing by 0 gives no number; got {self.std}")

    def steps(self) -> tuple[Step, ...]:
        return step("normalize", mean=self.mean, std=self.std)

    def __repr__(self) -> str:
        return f"Normalize(mean={list(self.mean)}, std={list(self.std)})"


@dataclass(frozen=True, repr=False)
class RandomErasing(Transform):
    """Overwrite a random rectangle with a given probability ("Random Erasing Data Augmentation", Zhong et
    al.).

    The rectangle is drawn again for each delivery. Therefore two jobs that share a picture erase different
    parts.

    Args:
        p: The probability, in [0, 1].
        scale: The least and the greatest share of the picture's area, within [0, 1].
        ratio: The least and the greatest ratio of height to width of the rectangle.
        value: What is written: one number, or three (red, green, blue), in the units of the tensor at this
            place in the list. ``"random"`` writes normal noise of mean 0 and deviation 1, with a number for
            each pixel and channel. ``"random colour"`` writes such noise with one number for each channel.
        inplace: Accepted as torchvision accepts it; it has no effect here.
        count: How many rectangles, which share the area, or the fewest and the most of them. torchvision
            erases one, timm as many as its ``re_count`` says.

    Raises:
        TypeError: ``scale`` or ``ratio`` is not a sequence, or ``value`` is of another kind.
        ValueError: ``p`` or ``scale`` is outside [0, 1], a pair falls, ``value`` is an unknown word, or has
            not one or three numbers, or ``count`` is not from 1 to 1000.
    """

    kinds = ("random_erasing",)

    p: float = 0.5
    scale: Sequence[float] = (0.02, 0.33)
    ratio: Sequence[float] = (0.3, 3.3)
    value: float | str | Sequence[float] = 0
    inplace: bool = False
    count: int | Sequence[int] = 1

    def __post_init__(self) -> None:
        count = self.count if isinstance(self.count, (list, tuple)) else (self.count, self.count)
        fewest, most = (whole("count", number, 1, MOST_BOXES) for number in count)
        if fewest > most:
            raise ValueError(f"count: the fewest and the most in this order, but got {self.count!r}")
        self._set(
            count=(fewest, most),
            p=probability(self.p),
            scale=rising("scale", self.scale, zero=True, greatest=1),
            ratio=rising("ratio", self.ratio),
            value=_erasing_value(self.value),
        )

    def steps(self) -> tuple[Step, ...]:
        return step(
            "random_erasing", p=self.p, scale=self.scale, ratio=self.ratio, value=self.value, count=self.count
        )

    def __repr__(self) -> str:
        count = f", count={self.count}" if self.count != (1, 1) else ""
        return (
            f"RandomErasing(p={self.p}, scale={self.scale}, ratio={self.ratio}, value={self.value!r}, "
            f"inplace={self.inplace}{count})"
        )

    @classmethod
    def from_timm(cls, given: Any) -> RandomErasing:
        """timm's RandomErasing, on one picture's tensor."""
        value = "random" if given.per_pixel else "random colour" if given.rand_color else 0.0
        area, count = (given.min_area, given.max_area), (given.min_count, given.max_count)
        ratio = [math.exp(bound) for bound in given.log_aspect_ratio]
        return cls(given.probability, area, ratio, value, count=count)


def _dtype(given: torch.dtype | str) -> str:
    """The name of a type that the native core can write."""
    name = str(given).removeprefix("torch.")
    if name not in DTYPES:
        raise ValueError(f"dtype: one of {', '.join(f'torch.{n}' for n in DTYPES)}, but got {given!r}")
    return name


def _erasing_value(value: object) -> str | tuple[float, float, float]:
    """``value`` of RandomErasing: three numbers, or a word."""
    if isinstance(value, str):
        if value not in NOISES:
            raise ValueError(f'value: the only words are "random" and "random colour", but got {value!r}')
        return value
    if isinstance(value, numbers.Real):
        return channels("value", [float(value)] * 3)
    if not isinstance(value, (list, tuple)):
        raise TypeError(f'value: a number, three numbers or "random", but got {value!r}')
    return channels("value", tuple(value) * 3 if len(value) == 1 else value)


WORDS: dict[ValueKind, str] = {
    "picture": "a PIL image",
    "bytes": "a uint8 tensor",
    "floats": "a float tensor",
    "normalised": "a normalised tensor",
    "erased": "a tensor with an erased part",
}


class Followed:
    """Facts about the value that the next step gets, and Seneca's transforms up to there."""

    def __init__(self) -> None:
        self.pixels: list[Transform] = []
        self.tensor: list[Transform] = []
        self.dtype: str | None = None  # of the tensor, once there is one
        self.normalised = self.erased = False
        self.is_image = False  # a tv_tensors.Image
        self.behind = ""  # the step before which transforms of pixels must stand

    @property
    def holds(self) -> ValueKind:
        """The kind of value that the next step gets."""
        if self.dtype is None:
            return "picture"
        if self.erased:
            return "erased"
        if self.normalised:
            return "normalised"
        return "bytes" if self.dtype == "uint8" else "floats"

    def needs_tensor(self, name: str) -> None:
        """Raise if the value is not yet a tensor."""
        if self.dtype is None:
            raise NotNative(f"{name} gets a PIL image: put ToTensor in front of it")

    def needs_picture(self, name: str) -> None:
        """Raise if the value is already a tensor."""
        if self.dtype is not None:
            raise NotNative(f"{name} gets {WORDS[self.holds]}, not a PIL image: put it in front")


# How torchvision's and timm's are read: functions of the value so far and the step. compile_transform checks
# the combination.


def _to_tensor(at: Followed, _step: Any) -> None:
    import torch  # loaded: torchvision imports it

    at.needs_picture("ToTensor")
    if torch.get_default_dtype() != torch.float32:
        raise NotNative(f"ToTensor makes {torch.get_default_dtype()}, torch's default type")
    at.dtype, at.behind = "float32", "ToTensor"
    at.tensor.append(ToTensor())


def _maybe_to_tensor(at: Followed, step: Any) -> None:
    if at.dtype is None:
        _to_tensor(at, step)


def _maybe_pil_to_tensor(at: Followed, step: Any) -> None:
    if at.dtype is None:
        _pil_to_tensor(at, step)


def _timm_to_tensor(at: Followed, step: Any) -> None:
    at.needs_picture("timm.ToTensor")
    converted = ToDtype(step.dtype, scale=False)
    at.dtype, at.behind = str(converted.dtype), "timm.ToTensor"
    at.tensor += [PILToTensor(), converted]


def _pil_to_tensor(at: Followed, _step: Any) -> None:
    at.needs_picture("PILToTensor")
    at.dtype, at.behind = "uint8", "PILToTensor"
    at.tensor.append(PILToTensor())


def _to_image(at: Followed, _step: Any) -> None:
    at.is_image = True
    if at.dtype is None:
        at.dtype, at.behind = "uint8", "ToImage"
        at.tensor.append(PILToTensor())


def _to_pure_tensor(at: Followed, _step: Any) -> None:
    at.is_image = False


def _to_dtype(at: Followed, step: Any) -> None:
    at.needs_tensor("ToDtype")
    if isinstance(step.dtype, dict):
        raise NotNative(f"ToDtype has dtype={step.dtype!r}, a dtype per type; give one dtype")
    _convert(at, "ToDtype", ToDtype(step.dtype, step.scale))


def _convert_image_dtype(at: Followed, step: Any) -> None:
    at.needs_tensor("ConvertImageDtype")
    _convert(at, "ConvertImageDtype", ConvertImageDtype(step.dtype))


def _convert(at: Followed, name: str, converted: ToDtype | ConvertImageDtype) -> None:
    dtype = str(converted.dtype)
    if at.dtype in ("float16", "bfloat16") and at.dtype != dtype:
        # Seneca rounds once, at the end. torchvision rounds here already.
        raise NotNative(f"{name} makes {dtype} of {at.dtype}, which has lost digits: leave one of them out")
    at.dtype = dtype
    at.tensor.append(converted)


def _normalize(at: Followed, step: Any) -> None:
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


def _random_erasing(at: Followed, step: Any) -> None:
    at.needs_tensor("RandomErasing")
    value = "random" if step.value is None else step.value  # as v2 has it
    _erase(at, RandomErasing(step.p, step.scale, step.ratio, value))


def _timm_random_erasing(at: Followed, step: Any) -> None:
    at.needs_tensor("timm.RandomErasing")
    _erase(at, RandomErasing.from_timm(step))


def _erase(at: Followed, erasing: RandomErasing) -> None:
    at.tensor.append(erasing)
    at.erased, at.behind = True, "RandomErasing"


TENSOR: dict[str, Callable[[Followed, Any], None]] = {
    "ToTensor": _to_tensor,
    "PILToTensor": _pil_to_tensor,
    "ToImage": _to_image,
    "ToPureTensor": _to_pure_tensor,
    "Identity": lambda _at, _step: None,
    "ToDtype": _to_dtype,
    "ConvertImageDtype": _convert_image_dtype,
    "Normalize": _normalize,
    "RandomErasing": _random_erasing,
    "timm.MaybeToTensor": _maybe_to_tensor,
    "timm.MaybePILToTensor": _maybe_pil_to_tensor,
    "timm.ToTensor": _timm_to_tensor,
    "timm.RandomErasing": _timm_random_erasing,
}
RANDOM = {"RandomErasing", "timm.RandomErasing"}  # of these
