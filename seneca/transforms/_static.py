"""``Static``, with which users say that a transform of theirs is deterministic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["Static"]


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
