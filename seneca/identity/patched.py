"""Functions that a program has put into installed modules in place of their own.

Installed code counts by its release. A function that the user's program has put there is not of that
release, and counts like the user's own code.
"""

from __future__ import annotations

import functools
import sys
import types
from operator import is_
from typing import Any

from seneca._runtime.packages import release_of

__all__ = ["is_a_stranger", "is_code", "patched_modules", "strangers_in"]

# Modules on which items may depend although no code names them: others call them.
_ALWAYS = (
    *("builtins", "json", "math", "os.path", "random", "re"),
    *("PIL.Image", "PIL.ImageEnhance", "PIL.ImageFile", "PIL.ImageFilter", "PIL.ImageOps"),
    *("cv2", "numpy", "numpy.random", "pandas"),
    *("torch", "torch.nn.functional", "torchaudio", "torchaudio.functional"),
    *("torchvision.io", "torchvision.transforms.functional", "torchvision.transforms.v2.functional"),
    *("torchvision.transforms._functional_pil", "torchvision.transforms._functional_tensor"),
)


def is_code(value: Any) -> bool:
    """Whether a value in an installed module is code: a module, a class, or a function."""
    if isinstance(value, (types.ModuleType, type, types.FunctionType, types.BuiltinFunctionType)):
        return True
    return isinstance(value, types.MethodType) or (
        callable(value) and type(value).__module__.startswith(("builtins", "numpy", "_cython_"))
    )


def is_a_stranger(value: Any) -> bool:
    """Whether code in an installed module is the user's own, because it was put there."""
    if isinstance(value, (types.FunctionType, type)):
        return release_of(value.__module__ or "") is None
    if isinstance(value, functools.partial):
        return True  # who has made it cannot be known, and it is small
    if isinstance(value, types.MethodType):
        return is_a_stranger(value.__func__) or _is_users(type(value.__self__))
    if isinstance(value, functools._lru_cache_wrapper):
        return is_a_stranger(value.__wrapped__)
    if isinstance(value, (staticmethod, classmethod)):
        return is_a_stranger(value.__func__)
    return _is_users(type(value))


def _is_users(kind: type) -> bool:
    module = kind.__module__ or ""
    return module != "builtins" and not module.startswith("_cython_") and release_of(module) is None


_seen: dict[str, tuple[list[Any], dict[str, Any]]] = {}


def strangers_in(module: types.ModuleType) -> dict[str, Any]:
    """The user's own values in an installed module, by name."""
    now = list(vars(module).values())
    known = _seen.get(module.__name__)
    if known is not None and len(known[0]) == len(now) and all(map(is_, known[0], now)):
        return known[1]
    found = {name: one for name, one in vars(module).items() if is_a_stranger(one)}
    _seen[module.__name__] = now, found
    return found


def patched_modules() -> dict[str, dict[str, Any]]:
    """The strangers in modules that others call, by module. Modules without any are left out."""
    loaded = {name: sys.modules[name] for name in _ALWAYS if name in sys.modules}
    found = {name: strangers_in(module) for name, module in loaded.items()}
    return {name: strangers for name, strangers in found.items() if strangers}
