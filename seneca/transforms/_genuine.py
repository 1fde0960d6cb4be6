"""Whether torchvision's code is really torchvision's, and timm's timm's.

A class of that name may be a different one, and a function may have been replaced.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Mapping
from typing import Any

from seneca._runtime.packages import release_of

__all__ = [
    "TIMM_RECIPES",
    "V2",
    "is_genuine",
    "is_library_code",
    "is_v1",
    "library_name",
    "replaced_in_torchvision",
]

V1 = ("torchvision.transforms.transforms", "torchvision.transforms.autoaugment")
V2 = "torchvision.transforms.v2."
PRESETS = "torchvision.transforms._presets"  # what weights.transforms() makes
TIMM_RECIPES = "timm.data.auto_augment"
TIMM = ("timm.data.transforms", TIMM_RECIPES, "timm.data.random_erasing")

# torchvision's and timm's transforms call functions of these modules on the way from a file to a tensor.
_ON_THE_WAY = (
    "torchvision.datasets.folder",
    "torchvision.transforms.functional",
    "torchvision.transforms.autoaugment",
    "torchvision.transforms._functional_pil",
    "torchvision.transforms._functional_tensor",
    "torchvision.transforms.v2.functional",
    "torchvision.transforms.v2.functional._utils",
    "torchvision.transforms.v2.functional._geometry",
    "torchvision.transforms.v2.functional._color",
    "torchvision.transforms.v2.functional._misc",
    "torchvision.transforms.v2.functional._type_conversion",
    "torchvision.transforms.v2._auto_augment",
    "timm.data.transforms",
    "timm.data.auto_augment",
    "timm.data.random_erasing",
    "PIL.Image",
    "PIL.ImageEnhance",
    "PIL.ImageFilter",
    "PIL.ImageOps",
)
_HOOKS = ("_forward_hooks", "_forward_pre_hooks")


def is_library_code(function: Any) -> bool:
    """Whether a function belongs to an installed package, and is not one of the user's that was put there."""
    return not isinstance(function, types.FunctionType) or release_of(function.__module__ or "") is not None


def is_genuine(transform: object) -> bool:
    """Whether neither a torchvision object nor its class was changed from outside."""
    kind = type(transform)
    if getattr(sys.modules.get(kind.__module__), kind.__qualname__, None) is not kind:
        return False
    own = vars(transform)
    methods = {name for base in kind.__mro__ for name, one in vars(base).items() if callable(one)}
    if methods & own.keys() or any(own.get(hooks) for hooks in _HOOKS):
        return False
    return not any(_replaced(vars(base)) for base in kind.__mro__ if base is not object)


def library_name(transform: object) -> str | None:
    """Name of a torchvision transform, or ``timm.`` plus that of one of timm's. None: unknown or modified."""
    kind = type(transform)
    if kind.__module__ in TIMM and is_genuine(transform):
        return f"timm.{kind.__qualname__}"
    is_tv = kind.__module__ in (*V1, PRESETS) or kind.__module__.startswith(V2)
    return kind.__qualname__ if is_tv and is_genuine(transform) else None


def is_v1(transform: object) -> bool:
    """Whether a transform is of torchvision's first version."""
    return type(transform).__module__ in V1


def replaced_in_torchvision() -> str | None:
    """The name of a function on the way of pictures that the user has replaced; None: there is none."""
    for name in _ON_THE_WAY:
        module = sys.modules.get(name)
        if module is not None and (replaced := _replaced(vars(module))):
            return f"{name}.{replaced}"
    image = getattr(sys.modules.get("PIL.Image"), "Image", None)
    if image is not None and (replaced := _replaced(vars(image))):
        return f"PIL.Image.Image.{replaced}"
    return None


def _replaced(held: Mapping[str, Any]) -> str | None:
    return next((name for name, one in list(held.items()) if not is_library_code(one)), None)
