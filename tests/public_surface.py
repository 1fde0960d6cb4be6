"""What users may name of Seneca: all public names with their signatures, as text.

``tests/golden/public_surface.txt`` is this text as it was last agreed to. ``make generated`` writes it anew,
after a change that is meant.
"""

import enum
import importlib
import inspect
from pathlib import Path

import seneca
from seneca.transforms._base import Transform

GOLDEN = Path(__file__).parent / "golden" / "public_surface.txt"
OFF = "seneca.fallback"  # where Seneca is off, these classes take the places of the public ones


def is_ours(thing):
    return getattr(thing, "__module__", "").split(".")[0] == "seneca"


def written(annotation):
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def parameter(one):
    """A parameter as it is written in a signature."""
    stars = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
    text = stars + one.name + ("" if one.annotation is one.empty else f": {written(one.annotation)}")
    return text if one.default is one.empty else f"{text} = {one.default!r}"


def signature(name, function, *, bound):
    """The lines of a function's signature, a parameter a line; ``bound``: without the first one."""
    whole = inspect.signature(function)
    found = list(whole.parameters.values())[bound:]
    kinds = [one.kind for one in found]
    lines = [f"    {parameter(one)}" for one in found]
    for place, one in reversed(list(enumerate(found))):
        before = kinds[place - 1] if place else None
        if one.kind is one.KEYWORD_ONLY and before not in (one.KEYWORD_ONLY, one.VAR_POSITIONAL):
            lines.insert(place, "    *")
        elif before is one.POSITIONAL_ONLY and one.kind is not one.POSITIONAL_ONLY:
            lines.insert(place, "    /")
    returns = "" if whole.return_annotation is whole.empty else f" -> {written(whole.return_annotation)}"
    return [f"{name}(", *lines, f"){returns}"] if lines else [f"{name}(){returns}"]


def of_class(name, cls):
    yield f"class {name}"
    if issubclass(cls, enum.Enum):
        yield from (f"    {one.name} = {one.value!r}" for one in cls)
        return
    for member in ["__init__", *(one for one in sorted(dir(cls)) if not one.startswith("_"))]:
        owner = next((base for base in cls.__mro__ if member in vars(base)), None)
        if owner is None or not is_ours(owner):
            continue  # torch's, or Python's
        if issubclass(cls, Transform) and member != "__init__" and hasattr(Transform, member):
            continue  # what a transform is to the core, which users have no need of
        found = vars(owner)[member]
        kind = type(found).__name__ if isinstance(found, (classmethod, staticmethod, property)) else ""
        function, lines = getattr(found, "__func__", found), [member]
        if member == "__init__" and not is_ours(function):
            continue  # a Protocol's
        if callable(function):
            lines = signature(member, function, bound=kind != "staticmethod")
        yield from (f"    {line}" for line in [f"{kind} {lines[0]}".strip(), *lines[1:]])


def of_thing(name, thing):
    if inspect.isclass(thing):
        yield from of_class(name, thing)
    elif inspect.ismodule(thing):
        for inner in sorted(thing.__all__):
            yield from of_thing(f"{name}.{inner}", getattr(thing, inner))
    elif callable(thing):
        yield from signature(f"def {name}", thing, bound=False)
    else:
        yield f"{name}: {type(thing).__name__}"


def surface():
    """All of it, as one text."""
    off = importlib.import_module(OFF)
    lines = [
        line for name in sorted(seneca.__all__) for line in of_thing(f"seneca.{name}", getattr(seneca, name))
    ]
    return "\n".join([*lines, *of_thing(OFF, off)]) + "\n"


if __name__ == "__main__":
    GOLDEN.write_text(surface())
