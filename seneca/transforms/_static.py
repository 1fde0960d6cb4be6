"""A user's word that a transform of theirs is deterministic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["Static"]


@dataclass(frozen=True, repr=False)
class Static:
    """Mark a callable as deterministic: equal pictures give equal results, on every call.

    Calling it calls what it marks, so it goes wherever that went. Nobody can see from outside
    whether a function draws random numbers; what it makes may be kept only where you say so.

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
        """What the marked transform makes of ``value``."""
        return self.transform(value)

    def __repr__(self) -> str:
        return f"Static({_called(self.transform)})"


def _called(transform: object) -> str:
    """A callable's name for people: of functions and classes their own, else what it prints as."""
    module, name = getattr(transform, "__module__", None), getattr(transform, "__qualname__", None)
    if name is None:
        return repr(transform)
    return name if module is None else f"{module.rpartition('.')[2]}.{name}"
