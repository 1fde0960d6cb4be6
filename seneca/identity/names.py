"""The names with which a code object refers to the outside: globals, attributes, imports, the environment.

This module only reads bytecode. Nothing is run, imported or looked up.
"""

from __future__ import annotations

import dis
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from seneca.identity.bytecode import (
    Chain,
    Steps,
    all_codes,
    chains_from,
    chains_of,
    instructions_of,
    is_attribute,
    read_by_name,
    stored,
    takes_parameter,
    texts_of,
)
from seneca.identity.order import calls_hash, iterates_a_set

__all__ = ["NOTHING", "Import", "Named", "named_by", "names_files", "names_programs"]

_LOADS_GLOBAL = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
_BETWEEN_IMPORT_AND_STORE = ("ROT_TWO", "SWAP", "POP_TOP")
_OF_THE_ENVIRONMENT = frozenset({"environ", "environb", "getenv", "expandvars", "environment"})
_BY_NAME = frozenset({"getattr", "hasattr"})

# Code with one of these names may read attributes without naming them.
_REFLECTS = frozenset({"__dict__", "__slots__", "__getattribute__", "attrgetter", "getattr_static"})
_REFLECTS_AS_GLOBAL = frozenset({"vars", "dir", "eval", "exec"})  # an attribute may be called eval, too
# Functions that read all attributes of their argument, and of what it holds.
_COPIES = frozenset(("asdict", "astuple", "fields", "getmembers", "dump", "dumps", "Pickler", "pformat"))
# Code with one of these names may call methods that it does not name.
_DISPATCHES = frozenset({"methodcaller", "__getattribute__", "getattr_static", "getmembers", "eval", "exec"})
# Code with one of these names may write objects as text.
_SHOWS = frozenset({"str", "repr", "ascii", "format", "print", "join", "format_map"})
# Code with one of these names may open a file, and a name without a folder is one in the current folder.
_OPENS = frozenset(
    (
        *("open", "load", "loads", "loadtxt", "genfromtxt", "memmap", "fromfile", "imread", "imread_v2"),
        *("Path", "PosixPath", "PurePath", "glob", "iglob", "rglob", "listdir", "scandir", "walk", "exists"),
        *("getcwd", "abspath", "realpath", "cwd", "resolve", "is_file", "isfile", "isdir", "File", "connect"),
        *("read_image", "decode_image", "load_dataset", "load_from_disk", "ImageFolder", "DatasetFolder"),
        *("run", "Popen", "check_output", "check_call", "call", "system", "popen", "TarFile", "ZipFile"),
    )
)
_READS = ("read_", "scan_", "load_", "open_", "from_file", "from_csv", "from_json")
_RUNS = frozenset(
    ("run", "Popen", "check_output", "check_call", "getoutput", "system", "popen", "which", "execvp", "spawn")
)


@dataclass(frozen=True)
class Import:
    """An import inside a function.

    Attributes:
        module: The module as it is written, without the dots in front.
        level: The number of these dots.
        attribute: The name that is imported from the module; None: the module itself.
        uses: The chains that are read from it. Empty: no use of it was found.
    """

    module: str
    level: int
    attribute: str | None
    uses: tuple[Chain, ...]


@dataclass(frozen=True)
class Named:
    """The names in a code object and in the code inside it.

    Attributes:
        globals: Each global, with what is read from it.
        cells: Each variable of the closure, likewise.
        reads: Each attribute that is read from anything, likewise.
        imports: The imports inside the code.
        words: Every name, and every text that is a constant.
        variables: Texts that may name environment variables; none if the code reads no variable.
        texts: Every text that is a constant.
        reflects: Whether it may read attributes that it does not name.
        copies: Whether it may read all attributes of objects that it has as the value of something else.
        dispatches: Whether it may call methods that it does not name.
        shows: Whether it may write objects as text.
        stores: The attributes that it sets or deletes.
        hashes: Whether it depends on the seed of Python's hashes.
        listings: The instructions of it and of the code inside it.
    """

    globals: tuple[Chain, ...]
    cells: tuple[Chain, ...]
    reads: tuple[Chain, ...]
    imports: tuple[Import, ...]
    words: frozenset[str]
    variables: frozenset[str]
    texts: frozenset[str]
    reflects: bool
    copies: bool
    dispatches: bool
    shows: bool
    stores: frozenset[str]
    hashes: bool
    listings: tuple[Steps, ...]


NOTHING = Named(
    globals=(),
    cells=(),
    reads=(),
    imports=(),
    words=frozenset(),
    variables=frozenset(),
    texts=frozenset(),
    reflects=False,
    copies=False,
    dispatches=False,
    shows=False,
    stores=frozenset(),
    hashes=False,
    listings=(),
)


def named_by(code: types.CodeType) -> Named:
    """The names in this code and in that of its inner functions, classes and comprehensions."""
    codes = list(all_codes(code))
    listings: list[Steps] = [instructions_of(one) for one in codes]
    globals_: dict[Chain, None] = {}
    reads: dict[Chain, None] = {}
    imports: dict[Import, None] = {}
    reflects = dispatches = shows = False
    stores: set[str] = set()
    for steps in listings:
        for i, step in enumerate(steps):
            if step.opname in _LOADS_GLOBAL:
                globals_.update(
                    dict.fromkeys((step.argval, *c) for c in sorted(chains_from(steps, i, listings)))
                )
                reflects |= step.argval in _REFLECTS_AS_GLOBAL
                if step.argval in _BY_NAME:
                    name = read_by_name(steps, i)
                    reflects |= name is None
                    dispatches |= name is None
                    reads.update({} if name is None else {(name,): None})
                elif step.argval in _COPIES:
                    reflects |= takes_parameter(steps, i)
            elif step.opname in ("STORE_ATTR", "DELETE_ATTR"):
                stores.add(step.argval)
            elif step.opname.startswith("FORMAT_") or step.argrepr in ("%", "%="):
                shows = True
            elif is_attribute(step):
                reflects |= step.argval in _COPIES and takes_parameter(steps, i)
                reads.update(
                    dict.fromkeys((step.argval, *c) for c in sorted(chains_from(steps, i, listings)))
                )
            elif step.opname in ("LOAD_SUPER_ATTR", "LOAD_SUPER_METHOD"):
                reads[(step.argval,)] = None
            elif step.opname == "IMPORT_NAME":
                imports.update(dict.fromkeys(_imports_at(steps, i, listings)))
            elif step.opname == "MATCH_CLASS":
                reads.update(dict.fromkeys((text,) for one in codes for text in texts_of(one)))
                reflects |= bool(step.arg)  # it reads what __match_args__ names
    names = {name for one in codes for name in (*one.co_names, *one.co_freevars)}
    texts = frozenset(text for one in codes for text in texts_of(one))
    cells = {(name, *chain): None for name in code.co_freevars for chain in sorted(_of_cell(listings, name))}
    return Named(
        globals=tuple(globals_),
        cells=tuple(cells),
        reads=tuple(reads),
        imports=tuple(imports),
        words=frozenset(names | texts),
        variables=frozenset(names | texts) if names & _OF_THE_ENVIRONMENT else frozenset(),
        texts=texts,
        reflects=reflects or not names.isdisjoint(_REFLECTS),
        copies=not names.isdisjoint(_COPIES),
        dispatches=dispatches or not names.isdisjoint(_DISPATCHES),
        shows=shows or not names.isdisjoint(_SHOWS),
        stores=frozenset(stores),
        hashes=calls_hash(frozenset(names)) or iterates_a_set(listings),
        listings=tuple(listings),
    )


def _of_cell(listings: Sequence[Steps], name: str) -> set[Chain]:
    """Chains that are read from a variable of the closure; the value itself, if no use of it is found."""
    return chains_of(listings, name) or {()}


def names_files(words: frozenset[str]) -> bool:
    """Whether code with these names may open a file by a name without a folder."""
    return not words.isdisjoint(_OPENS) or any(word.startswith(_READS) for word in words)


def names_programs(words: frozenset[str]) -> bool:
    """Whether code with these names may run a program that is found by PATH."""
    return not words.isdisjoint(_RUNS)


def _imports_at(steps: Sequence[dis.Instruction], i: int, listings: Sequence[Steps]) -> Iterator[Import]:
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
        name = stored(store)
        uses = (
            ((),) if name is None else tuple(sorted(chains_of(listings, name)))
        )  # () if any code may use it
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
