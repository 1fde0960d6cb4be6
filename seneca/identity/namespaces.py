"""Values that code uses by their attributes: command-line arguments, configurations, classes that hold
constants.

If all code that reaches such a value only reads attributes of it, only these attributes count. Two jobs with
another learning rate in one ``args`` then have equal datasets.
"""

from __future__ import annotations

import argparse
import copyreg
import dataclasses
import inspect
import sys
import types
from collections import OrderedDict, defaultdict
from collections.abc import Mapping
from typing import Any

from seneca._runtime.packages import release_of
from seneca.identity.bytecode import IS_NONE, Chain

__all__ = ["MISSING", "Missing", "follow", "is_configuration", "is_model", "is_namespace", "items_of"]

# Packages whose classes give the keys of a mapping as attributes.
_OF_CONFIGURATIONS = frozenset({"addict", "box", "easydict", "ml_collections", "munch", "mmengine", "yacs"})
_DICTS = (dict, OrderedDict, defaultdict)
_RESOLVED = "omegaconf"
_FLAGS = "absl"
_NOT_CONSTANTS = (
    *(types.FunctionType, types.BuiltinFunctionType, types.MethodType, property, classmethod, staticmethod),
    *(types.MemberDescriptorType, types.GetSetDescriptorType, types.WrapperDescriptorType),
)


# What a __getattr__ names that only returns the key.
_OF_PLAIN_GETATTR = frozenset(
    (
        "get",
        "__getitem__",
        "AttributeError",
        "KeyError",
        "format",
        "super",
        "dict",
        "type",
        "__name__",
        "repr",
    )
)


class Missing:
    """Stands for an attribute or key that is not there."""


MISSING = Missing()


def is_namespace(value: Any) -> bool:
    """Whether a value may be used by its attributes or keys alone."""
    kind = type(value)
    if kind in (argparse.Namespace, types.SimpleNamespace, *_DICTS) or is_configuration(value):
        return True
    if _is_users_dict(value) or _is_named_tuple(value):
        return True
    if isinstance(value, types.ModuleType):
        return release_of(value.__name__) is None
    if isinstance(value, type):
        return release_of(value.__module__ or "") is None and not issubclass(value, BaseException)
    if is_model(kind):
        return not any("__getattr__" in vars(base) for base in kind.__mro__ if is_model(base))
    if not dataclasses.is_dataclass(kind):
        return False
    return release_of(kind.__module__ or "") is None and "__getattr__" not in dir(kind)


class _Resolved(dict[str, Any]):
    """A configuration whose interpolations are resolved. Its keys are read as attributes too."""


def is_configuration(value: Any) -> bool:
    kind = type(value)
    top = kind.__module__.partition(".")[0]
    if top in (_RESOLVED, _FLAGS):
        return kind.__name__ in ("DictConfig", "ListConfig", "FlagValues")
    if kind is _Resolved:
        return True
    return top in _OF_CONFIGURATIONS and (isinstance(value, Mapping) or hasattr(kind, "keys"))


def is_model(kind: type) -> bool:
    """Whether a class is the user's own and derived from pydantic's ``BaseModel``."""
    bases = ((base.__module__, base.__name__) for base in kind.__mro__[1:])
    return ("pydantic.main", "BaseModel") in bases and release_of(kind.__module__ or "") is None


def _is_named_tuple(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(type(value), "_fields")


def _is_users_dict(value: Any) -> bool:
    """Whether a value is of a class of the user's own that gives the keys of a dict as attributes."""
    kind = type(value)
    return kind is not dict and isinstance(value, dict) and release_of(kind.__module__ or "") is None


def follow(value: Any, chain: Chain) -> tuple[Any, Chain]:
    """Follow attributes and keys through namespaces.

    Returns:
        The value at which this ends, and what of the chain is left. :data:`MISSING`: it is not there.
    """
    if chain == (IS_NONE,):
        return value is None, ()
    while chain and is_namespace(value):
        inner = _read(value, chain[0])
        if inner is _NOT_HELD:
            break
        value, chain = inner, chain[1:]
        if chain == (IS_NONE,):
            return value is None, ()
    return value, chain[:-1] if chain and chain[-1] == IS_NONE else chain


_NOT_HELD = object()  # what is read is a method, say: it may use all of the namespace


def _read(value: Any, step: str) -> Any:
    key = step[1:-1] if step.startswith("[") else None
    if type(value) in _DICTS:
        missing = _NOT_HELD if type(value) is defaultdict else MISSING
        return _NOT_HELD if key is None else value.get(key, missing)
    if _is_users_dict(value):
        own = vars(value) if vars(value) is not value else {}  # some keep their keys as attributes too
        is_attribute = key is None and not hasattr(type(value), step) and step not in own
        return dict.get(value, step, _NOT_HELD) if is_attribute and _gives_keys(value) else _NOT_HELD
    if _is_named_tuple(value):
        return getattr(value, step) if step in type(value)._fields else _NOT_HELD
    if is_configuration(value):
        if key is None and hasattr(type(value), step):
            return _NOT_HELD  # a method, which is found before a key of that name
        return items_of(value).get(step if key is None else key, _NOT_HELD if key is None else MISSING)
    if key is not None:
        return _NOT_HELD
    if isinstance(value, type):
        inner = inspect.getattr_static(value, step, _NOT_HELD)
        is_plain = not isinstance(inner, _NOT_CONSTANTS) and not hasattr(type(inner), "__get__")
        return inner if is_plain and not step.startswith("__") else _NOT_HELD
    missing = _NOT_HELD if hasattr(type(value), step) or is_model(type(value)) else MISSING
    return _attributes(value).get(step, missing)


def _attributes(value: Any) -> dict[str, Any]:
    """The attributes of an object, in its dict or in slots."""
    slots = copyreg._slotnames(type(value))  # type: ignore[attr-defined]
    return {n: getattr(value, n) for n in slots if hasattr(value, n)} | getattr(value, "__dict__", {})


def _gives_keys(value: Any) -> bool:
    """Whether the attributes of a dict of the user's class are its keys, as they are."""
    kind = type(value)
    if any(getattr(kind, name, None) is not getattr(dict, name, None) for name in ("__getitem__", "get")):
        return False
    names = getattr(getattr(kind, "__getattr__", None), "__code__", None)
    return names is None or set(names.co_names) <= _OF_PLAIN_GETATTR


def items_of(value: Any) -> dict[str, Any]:
    """The values of a namespace, by name.

    A configuration of OmegaConf's is resolved: ``${oc.env:HOME}`` counts as what it stands for.
    """
    top = type(value).__module__.partition(".")[0]
    if top == _RESOLVED:
        return _resolved(value)
    if top == _FLAGS:
        return {name: value[name].value for name in value}
    if isinstance(value, Mapping) or top in _OF_CONFIGURATIONS:
        return {str(key): value[key] for key in value.keys()}  # noqa: SIM118  # not each is iterated by its keys
    if isinstance(value, type):
        return {k: v for k, v in vars(value).items() if not k.startswith("__")}
    return _attributes(value)


def _resolved(value: Any) -> _Resolved:
    config = sys.modules[_RESOLVED].OmegaConf
    try:
        plain = config.to_container(value, resolve=True)
    except Exception:  # an interpolation that leads nowhere: reading it raises, whatever the job
        plain = config.to_container(value, resolve=False)
    return _by_name(plain)


def _by_name(plain: Any) -> Any:
    if isinstance(plain, dict):
        return _Resolved((str(key), _by_name(one)) for key, one in plain.items())
    if isinstance(plain, list):
        return _Resolved((str(i), _by_name(one)) for i, one in enumerate(plain))
    return plain
