"""The common part of all transforms, and the registry of them: each class says what it is, in one place.

A class of an operation on pixels has a ``kind``, which is its step's in the native core's words
(``csrc/codec/ops.def``), and reads the transforms of torchvision and timm that mean the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from seneca.transforms._pipeline import BY_KIND, NativeTransform, Size, Step, ValueKind

if TYPE_CHECKING:
    import torch

__all__ = [
    "BY_KIND",
    "BY_NAME",
    "MOVES",
    "STAYS",
    "Compose",
    "NativeTransform",
    "Size",
    "Static",
    "Step",
    "Transform",
    "ValueKind",
    "not_yet",
    "refused",
    "step",
]

# The native core assumes these defaults (a test compares them). Steps leave such arguments out. Therefore
# fingerprints stay the same when a transform gets a new argument.
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
    "distinct": False,
    "count": (1, 1),
}

# What a transform of torchvision's does to masks or boxes beside a picture: it moves them, or leaves them
# alone. Any other text is the reason, to follow the name, why it does not run natively there.
MOVES, STAYS = "moves", "stays"
NOT_OF_V2 = "is not one that the native path knows there"


def refused(what: str) -> str:
    """The reason of a transform that torchvision does not run beside masks or boxes either."""
    return f"takes no {what}, and torchvision refuses it too: leave it out"


def not_yet(what: str, instead: str) -> str:
    """The reason of a transform that moves masks or boxes in torchvision only."""
    return f"is not written for {what} yet: use {instead}"


def step(kind: str, **args: Any) -> tuple[Step, ...]:
    """Make one step, without the arguments that have their default value."""
    return (Step(kind, {name: arg for name, arg in args.items() if arg != DEFAULTS.get(name, ...)}),)


BY_NAME: dict[str, type[Transform]] = {}
"""The class that means the same as a transform of torchvision's, or of timm's behind ``timm.``."""


class Transform(NativeTransform):
    """The base class of all transforms here. They run natively, and can be called on one picture.

    Attributes:
        renamed: Fields whose argument in a step has another name.
        on_tensors: The tensors on which torchvision's means the same as on the PIL image before.
        masks, boxes: What torchvision's does to them beside a picture: ``MOVES``, ``STAYS`` or a reason.
        has_moves: The core has an entry of it in ``sn_moves``: how it moved a picture.
        needs_boxes: What it does depends on the boxes beside the picture.
        timm: The names of timm's transforms that :meth:`from_timm` reads.
    """

    renamed: ClassVar[dict[str, str]] = {}
    on_tensors: ClassVar[tuple[ValueKind, ...]] = ()
    masks: ClassVar[str] = NOT_OF_V2
    boxes: ClassVar[str] = NOT_OF_V2
    has_moves: ClassVar[bool] = False
    needs_boxes: ClassVar[bool] = False
    timm: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if not cls.__module__.startswith("seneca.transforms."):
            return  # a user's
        BY_KIND.update(dict.fromkeys(vars(cls).get("kinds", ()), cls))
        if "from_torchvision" in vars(cls):
            BY_NAME[cls.__name__] = cls
        BY_NAME.update({f"timm.{name}": cls for name in vars(cls).get("timm", ())})

    def steps(self) -> tuple[Step, ...]:
        fields = (field.name for field in dataclasses.fields(self))  # type: ignore[arg-type]
        return step(self.kinds[0], **{self.renamed.get(name, name): getattr(self, name) for name in fields})

    @classmethod
    def from_torchvision(cls, given: Any, holds: ValueKind) -> Transform:
        """The transform that means the same as one of torchvision's of this class's name.

        Raises:
            NotNative: There is none for the value that it gets; the reason.
        """
        raise NotImplementedError(cls)

    @classmethod
    def from_timm(cls, given: Any) -> Transform:
        """As :meth:`from_torchvision`, of timm's that ``timm`` names."""
        raise NotImplementedError(cls)

    @staticmethod
    def box_params(given: Any, drawn: list[int], boxes: Any) -> dict[str, Any]:
        """The draws with which torchvision's transform moves boxes as the core moved pixels.

        Args:
            given: torchvision's transform.
            drawn: The core's entry in ``sn_moves``, if there is one (``has_moves``).
            boxes: ``tv_tensors.BoundingBoxes`` before it.
        """
        return {}

    def __call__(self, img: Any, rate: int | None = None) -> torch.Tensor:
        """Transform one picture, or one sound, as a loader would.

        Random numbers come from torch's global generator. A call draws at most one number from it.

        Args:
            img: A PIL image, or uint8 of shape (height, width, 3). For a transform of sounds: float32 of
                shape (channels, frames).
            rate: Of a sound: its frames a second, which ``Resample`` needs.

        Returns:
            A tensor of shape (3, height, width), float32 or of the type that the transform says. For a
            transform of sounds: (channels, frames).

        Raises:
            PlanError: The size of the result would depend on the picture, or the order of the transforms
                makes no sense. Or a ``Resample`` has no ``rate``.
            TypeError: ``img`` is something else.
        """
        # Imported here only: describing a transform needs no torch, and the command line starts quickly.
        if self.is_of_sounds():
            from seneca.transforms._apply import transform_sound

            return transform_sound(self, img, rate)
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


@dataclass(frozen=True, repr=False)
class Static:
    """Mark a callable as deterministic: equal pictures give equal results, on every call.

    Seneca cannot see whether a function draws random numbers. It keeps the result of your function only if
    you mark it. Calling the mark calls the function; therefore it can stand wherever the function stood.

    Args:
        transform: Any callable that takes one value.

    Raises:
        TypeError: ``transform`` cannot be called.

    Example:
        >>> from PIL import Image, ImageOps
        >>> equalize = Static(ImageOps.equalize)
        >>> equalize
        Static(ImageOps.equalize)
        >>> equalize(Image.new("RGB", (4, 3))).size
        (4, 3)
    """

    transform: Callable[[Any], Any]

    def __post_init__(self) -> None:
        if not callable(self.transform):
            raise TypeError(f"transform: a callable, such as a function, but got {self.transform!r}")

    def __call__(self, value: Any) -> Any:
        """Call the marked transform with ``value``."""
        return self.transform(value)

    def __repr__(self) -> str:
        return f"Static({_called(self.transform)})"


def _called(transform: object) -> str:
    """A callable's name for people: the own name of a function or class, else its ``repr``."""
    module, name = getattr(transform, "__module__", None), getattr(transform, "__qualname__", None)
    if name is None:
        return repr(transform)
    return name if module is None else f"{module.rpartition('.')[2]}.{name}"
