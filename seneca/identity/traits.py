"""Names for the parts that an identity is made of, so that people learn in which two of them differ."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

from seneca.identity.of_data import is_plain
from seneca.identity.walk import Walk, title_of

__all__ = ["traits_of"]

DEEP = 5  # parts within parts
MOST_ELEMENTS = 32  # of a container; a larger one is one part
_CODE = (types.FunctionType, types.ModuleType, type)  # which has names of its own


def traits_of(walk: Walk, name: str, value: Any) -> dict[str, bytes]:
    """The digests of the parts of a value that was walked, by the path to each. Nothing more is walked.

    Objects of which only what is read counts are no parts: their attributes are.
    """
    return dict(_parts(walk, name, value, DEEP))


def _parts(walk: Walk, name: str, value: Any, deep: int) -> Iterator[tuple[str, bytes]]:
    held = _held(value) if deep > 0 else None
    if held is None:
        digest = walk.known(value)
        if digest is not None and name and not isinstance(value, _CODE):
            yield name, digest
        return
    if type(value) not in (dict, list, tuple):
        yield f"the class of {name or 'the dataset'}", title_of(type(value)).encode()
    for step, inner in held:
        yield from _parts(walk, f"{name}{step}".lstrip("."), inner, deep - 1)


def _held(value: Any) -> list[tuple[str, Any]] | None:
    """The values inside a value, each with the step to it; None: it is one part."""
    if type(value) in (list, tuple):
        held = [(f"[{i}]", inner) for i, inner in enumerate(value[: MOST_ELEMENTS + 1])]
    elif type(value) is dict:
        if len(value) > MOST_ELEMENTS or any(type(key) is not str for key in value):
            return None
        held = [(f"[{key!r}]", value[key]) for key in sorted(value)]
    else:
        attributes = getattr(value, "__dict__", None)
        if type(attributes) is not dict or isinstance(value, _CODE) or is_plain(type(value)):
            return None
        if all(str(key).startswith("_") for key in attributes):
            return None  # people do not know these names
        held = [(f".{key}", attributes[key]) for key in sorted(attributes, key=str)]
    return held if 0 < len(held) <= MOST_ELEMENTS else None
