"""The names with which a code object refers to the outside: globals, imports, environment variables.

This module only reads bytecode. Nothing is run, imported or looked up.
"""

from __future__ import annotations

import dis
import types
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Chain", "Import", "Named", "instructions_of", "named_by"]

Chain = tuple[str, ...]
"""The attributes that code reads from a value, one after the other; empty: the value itself is used."""

_LOADS_GLOBAL = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
_LOADS_LOCAL = ("LOAD_FAST", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_NAME", "LOAD_FROM_DICT_OR_DEREF")
_LOADS_ATTRIBUTE = ("LOAD_ATTR", "LOAD_METHOD")
_STORES_LOCAL = ("STORE_FAST", "STORE_DEREF", "STORE_NAME")
_BETWEEN_IMPORT_AND_STORE = ("ROT_TWO", "SWAP", "POP_TOP")
_OF_THE_ENVIRONMENT = frozenset({"environ", "environb", "getenv"})


@dataclass(frozen=True)
class Import:
    """An import inside a function.

    Attributes:
        module: The module as it is written, without the dots in front.
        level: The number of these dots.
        attribute: The name that is imported from the module; None: the module itself.
        uses: The chains of attributes that are read from it. Empty: no use of it was found.
    """

    module: str
    level: int
    attribute: str | None
    uses: tuple[Chain, ...]


@dataclass(frozen=True)
class Named:
    """The names in a code object and in the code inside it.

    Attributes:
        globals: Each global, with the attributes that are read from it.
        imports: The imports inside the code.
        words: Every name, and every text that is a constant.
        variables: Texts that may name environment variables; none if the code reads no variable.
        paths: Texts that look like paths, because they have a slash.
    """

    globals: tuple[Chain, ...]
    imports: tuple[Import, ...]
    words: frozenset[str]
    variables: frozenset[str]
    paths: frozenset[str]


def instructions_of(code: types.CodeType) -> list[dis.Instruction]:
    """The instructions of a code object, each with its whole argument."""
    return [step for step in dis.get_instructions(code) if step.opname != "EXTENDED_ARG"]


def named_by(code: types.CodeType) -> Named:
    """The names in this code and in that of its inner functions, classes and comprehensions."""
    codes = list(_all_codes(code))
    listings = [instructions_of(one) for one in codes]
    globals_: dict[Chain, None] = {}
    imports: dict[Import, None] = {}
    for steps in listings:
        for i, step in enumerate(steps):
            if step.opname in _LOADS_GLOBAL:
                globals_[(step.argval, *_attributes_after(steps, i))] = None
            elif step.opname == "IMPORT_NAME":
                imports.update(dict.fromkeys(_imports_at(steps, i, listings)))
    names = {name for one in codes for name in (*one.co_names, *one.co_freevars)}
    texts = {text for one in codes for text in _texts_of(one)}
    return Named(
        globals=tuple(globals_),
        imports=tuple(imports),
        words=frozenset(names | texts),
        variables=frozenset(names | texts) if names & _OF_THE_ENVIRONMENT else frozenset(),
        paths=frozenset(text for text in texts if "/" in text),
    )


def _all_codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _all_codes(constant)


def _texts_of(code: types.CodeType) -> Iterator[str]:
    for constant in code.co_consts:
        for one in constant if isinstance(constant, (tuple, frozenset)) else (constant,):
            if isinstance(one, str):
                yield one


def _attributes_after(steps: list[dis.Instruction], i: int) -> Chain:
    """The attributes that are read from the value that instruction ``i`` has loaded."""
    end = i + 1
    while end < len(steps) and steps[end].opname in _LOADS_ATTRIBUTE:
        end += 1
    return tuple(step.argval for step in steps[i + 1 : end])


def _stored(step: dis.Instruction) -> str | None:
    """The local variable to which an instruction stores first."""
    if step.opname in _STORES_LOCAL:
        return step.argval
    return step.argval[0] if step.opname.startswith("STORE_FAST_") else None  # two instructions combined


def _loads(step: dis.Instruction, name: str) -> bool:
    """Whether an instruction loads this variable."""
    if not step.opname.startswith(_LOADS_LOCAL) and step.opname != "STORE_FAST_LOAD_FAST":
        return False
    return step.argval[-1] == name if isinstance(step.argval, tuple) else step.argval == name


def _loads_first_of_two(step: dis.Instruction, name: str) -> bool:
    return step.opname.startswith("LOAD_FAST_") and isinstance(step.argval, tuple) and step.argval[0] == name


def _uses(listings: list[list[dis.Instruction]], name: str) -> tuple[Chain, ...]:
    """The chains of attributes that are read from a local variable, here and in inner functions."""
    found: dict[Chain, None] = {}
    for steps in listings:
        for i, step in enumerate(steps):
            if _loads(step, name):
                found[_attributes_after(steps, i)] = None
            if _loads_first_of_two(step, name):
                found[()] = None
    return tuple(found)


def _imports_at(
    steps: list[dis.Instruction], i: int, listings: list[list[dis.Instruction]]
) -> Iterator[Import]:
    """The import at instruction ``i``, once for each name that it binds.

    ``from a import b, c`` is IMPORT_NAME a, and an IMPORT_FROM and a store for each name. ``import a.b as
    c`` is the same with IMPORT_FROM b. ``import a.b`` binds a.
    """
    module, level, wanted = steps[i].argval, steps[i - 2].argval, steps[i - 1].argval
    bound: list[tuple[str | None, dis.Instruction]] = []
    at = i + 1
    while at < len(steps) and (steps[at].opname == "IMPORT_FROM" or not bound):
        attribute = steps[at].argval if steps[at].opname == "IMPORT_FROM" else None
        at += attribute is not None
        while at < len(steps) and steps[at].opname in _BETWEEN_IMPORT_AND_STORE:
            at += 1
        if at == len(steps):
            break
        bound.append((attribute, steps[at]))
        at += 1
    for attribute, store in bound:
        name = _stored(store)
        uses = ((),) if name is None else _uses(listings, name)  # bound to a global, say: any code may use it
        if wanted:
            yield Import(module, level, attribute, uses)
        elif attribute is not None:
            yield Import(module, level, None, uses)
        else:
            yield from _of_a_whole_path(module, level, uses)


def _of_a_whole_path(module: str, level: int, uses: tuple[Chain, ...]) -> Iterator[Import]:
    """The imports of ``import a.b``. ``uses`` has the attributes that are read from ``a``."""
    top, *inner = module.split(".")
    inside = tuple(use[len(inner) :] for use in uses if use[: len(inner)] == tuple(inner))
    yield Import(module, level, None, inside)
    if outside := tuple(use for use in uses if use[: len(inner)] != tuple(inner)):
        yield Import(top, level, None, outside)
