"""Attributes that code reads from its values, collected while a walk meets code; and values that wait for
that.

A dataset's state holds more than its items depend on: where logs go, a learning rate, the object that made
it. An attribute that no code reads decides nothing. Which are read is known when all code has been met.
Therefore the attributes of an object of the user's own class wait until then::

    object --> its class: code --> which attributes are read --> these values --> more code --> ...
                  |
                  +--> methods count as code that runs when other code that runs names them

Code is taken by its names. An attribute counts if any code reads one of that name, of whatever object. If
code may read attributes without naming them (``vars(self)``, ``getattr(self, name)``), all count.

A method runs too if it is held as a value, if an installed base class has one of its name, or if code makes
a call whose name it computes. A class that is met as a value may be called: then its constructors run.
"""

from __future__ import annotations

import hashlib
import io
import marshal
import random
import re
import threading
import types
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import torch

from seneca.identity.bytecode import ADDED_TO, Chain
from seneca.identity.names import Named
from seneca.identity.namespaces import follow, is_namespace
from seneca.identity.order import iterates
from seneca.identity.plain import LEAVES

__all__ = ["Uses", "Waiting", "name_of_method"]

_CONSTRUCTORS = ("__new__", "__init__", "__post_init__")
_SHOWS = frozenset({"__repr__", "__str__", "__format__"})  # what Python calls to write an object as text
# Methods that Python calls while an object is made or shown, and not while items are.
_NOT_FOR_ITEMS = frozenset(
    (
        *(*_CONSTRUCTORS, "__init_subclass__", "__set_name__", "__class_getitem__"),
        *(*_SHOWS, "__del__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__"),
    )
)
# Methods that compare a dataset with others. Items do not depend on that.
_COMPARES = frozenset({"__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__hash__"})
_OF_THE_DATASET = "the dataset's "
_HASH_OF_THE_DATASET = f"{_OF_THE_DATASET}__hash__"
_OF_THE_LANGUAGE = frozenset({"abc", "builtins", "enum", "typing"})
# Methods that the loader calls.
_CALLED = frozenset({"read", "decode", "augment", "label", "forward"})
# Methods of installed classes that save and load a state.
_OF_SAVED_STATE = frozenset({"state_dict", "_save_to_state_dict", "load_state_dict", "_load_from_state_dict"})
# Methods that installed code calls of an object that stands for a file.
_OF_FILES = frozenset({"readinto", "readline", "seek", "tell", "close", "write"})


_NUMBERS = frozenset({int, float})
_FIELD = re.compile(r"\{\w*((?:\.\w+|\[[^\]]*\])+)")  # of a format: {self.size}, {0.size}


_KINDS_THAT_CHANGE = (
    *(type(threading.Lock()), type(threading.RLock()), io.IOBase, random.Random, torch.Generator),
    *(np.random.Generator, np.random.RandomState, np.random.BitGenerator, types.GeneratorType),
)


def name_of_method(name: str, *, is_of_root: bool) -> str:
    """The name under which a method of a class waits until it runs.

    Args:
        name: Its name in the class.
        is_of_root: Whether the class is the dataset's, or one from which that is derived.
    """
    return f"{_OF_THE_DATASET}{name}" if is_of_root and name in _COMPARES else name


class Uses:
    """The attributes that the code reads which a walk has met.

    Attributes:
        reflects: Whether some code may read attributes of any object that it does not name.
        copies: Whether some code reads all attributes of objects that it holds, but not of the dataset.
        hashes: Whether some of it depends on the seed of Python's hashes.
        listings: The instructions of the code that runs while items are made.
        begun: Methods of which that was not known when they were met. What they name is walked later.
        version: Changes when more attributes are read than before.
    """

    def __init__(self) -> None:
        self.version = 0
        self.reflects = self.copies = self._dispatches = self._shows = False
        self.hashes = False
        self.listings: list[Any] = []
        self.begun: list[types.FunctionType] = []
        self._chains: dict[str, set[Chain]] = {}
        self._waiting: dict[int, tuple[Named, types.FunctionType]] = {}  # methods, by the id of the function
        self._names: dict[str, list[int]] = {}  # the methods of each name
        self._running: set[int] = set()  # functions that run, also those that were not yet met
        self._stored: set[str] = set()  # attributes that are set, perhaps by properties
        self._noted: set[int] = set()
        self._hashless: dict[int, Named] = {}  # what is named by methods called __hash__

    def note(self, named: Named) -> None:
        """Note code that runs while items are made."""
        if id(named) in self._noted:
            return
        self._noted.add(id(named))
        self._read_all(reflects=named.reflects, copies=named.copies)
        self.hashes |= named.hashes
        if named.hashes:
            self._begin(self._names.pop(_HASH_OF_THE_DATASET, []))
        self._stored |= named.stores
        for name in named.stores:
            self._begin(self._names.pop(name, []))
        if named.dispatches and not self._dispatches:
            self._dispatches = True
            self._begin(list(self._waiting))
        if named.shows and not self._shows:
            self._shows = True
            for name in _SHOWS:
                self._begin(self._names.pop(name, []))
        self.listings += named.listings
        for name, *chain in named.reads:
            self._read(name, tuple(chain))

    def note_method(self, names: set[str], named: Named, function: types.FunctionType) -> bool:
        """Note a method. It runs if Python or the loader calls it, or when code that runs reads its name.

        Returns:
            Whether it runs, as far as is known now. If not, it may come to :attr:`begun`.
        """
        if names <= {"__hash__", _HASH_OF_THE_DATASET}:
            # What it returns finds a place in a dict or set. It is in an item only if code calls hash().
            named = self._hashless.setdefault(id(named), replace(named, hashes=False))
        if id(function) in self._running or self._dispatches or any(map(self._runs, names)):
            self.note(named)
            return True
        self._waiting[id(function)] = named, function
        for name in names:
            self._names.setdefault(name, []).append(id(function))
        return False

    def _runs(self, name: str) -> bool:
        if name in _SHOWS:
            return self._shows
        if name == _HASH_OF_THE_DATASET:
            return self.hashes
        is_dunder = name.startswith("__") and name.endswith("__")
        if is_dunder and name not in _NOT_FOR_ITEMS:
            return True
        if name in _CONSTRUCTORS:
            return False
        return name in _CALLED or name in _OF_FILES or name in self._chains or name in self._stored

    def run(self, function: types.FunctionType) -> None:
        """Note that a function is held as a value: whoever has it may call it."""
        if id(function) not in self._running:
            self._running.add(id(function))
            self._begin([id(function)])

    def construct(self, kind: type) -> None:
        """Note that code has a class as a value: it may make objects of it."""
        for base in kind.__mro__[:-1]:
            for name in _CONSTRUCTORS:
                member = vars(base).get(name)
                function = getattr(member, "__func__", member)
                if isinstance(function, types.FunctionType):
                    self.run(function)

    def note_installed(self, base: type, methods: Mapping[str, types.FunctionType], *, is_root: bool) -> None:
        """Note an installed class, from which a class of the user's is derived.

        Args:
            base: The installed class. Its methods read attributes, and call methods.
            methods: The methods of the user's class. Installed code calls those that the base has too.
            is_root: Whether the user's class is the dataset's.
        """
        for name in methods.keys() & vars(base).keys() - _NOT_FOR_ITEMS:
            self.run(methods[name])
        if base.__module__ in _OF_THE_LANGUAGE:
            return
        for name, member in vars(base).items():
            if name in _NOT_FOR_ITEMS or name in _OF_SAVED_STATE:
                continue
            code = getattr(getattr(member, "__func__", getattr(member, "fget", member)), "__code__", None)
            if isinstance(code, types.CodeType):
                if "__dict__" in code.co_names or "vars" in code.co_names:
                    self._read_all(reflects=is_root, copies=True)
                for read in code.co_names:
                    self._read(read, ())

    def note_getter(self, path: str) -> None:
        """Note a value that reads these attributes, one after the other, of what it is called with."""
        for name in path.split("."):
            self._read(name, ())

    def note_text(self, text: str) -> None:
        """Note a text. It may be a format, whose fields read attributes."""
        for found in _FIELD.finditer(text) if "{" in text and "." in text else ():
            for name in re.findall(r"\.(\w+)", found[1]):
                self._read(name, ())

    def _read_all(self, *, reflects: bool, copies: bool) -> None:
        if (reflects and not self.reflects) or (copies and not self.copies):
            self.reflects, self.copies = self.reflects or reflects, self.copies or copies
            self.version += 1

    def _read(self, name: str, chain: Chain) -> None:
        chains = self._chains.setdefault(name, set())
        if chain not in chains:
            chains.add(chain)
            self.version += 1
        if name not in _CONSTRUCTORS:  # code calls that of its own base, which construct() has noted
            self._begin(self._names.pop(name, []))

    def _begin(self, methods: list[int]) -> None:
        """Let these methods run, which were met before."""
        for one in methods:
            if (met := self._waiting.pop(one, None)) is not None:
                self.note(met[0])
                self.begun.append(met[1])

    def counts(self, name: str, value: Any, *, is_root: bool) -> bool:
        """Whether an attribute with this value counts, of the dataset or of another object.

        It does if code reads it. A number to which code only adds (``self.calls += 1``) decides nothing.
        """
        if self.reflects or (self.copies and not is_root):
            return True
        if name not in self._chains:
            return _changes(value)
        return type(value) not in _NUMBERS or self._chains[name] != {(ADDED_TO,)}

    def stores(self, name: str) -> bool:
        """Whether code sets or deletes an attribute of this name."""
        return name in self._stored

    def chains(self, name: str) -> set[Chain]:
        """Chains that are read from the attributes of this name; the value itself if that is not known."""
        chains: set[Chain] = {()} if self.reflects else self._chains.get(name, set())
        return {() if chain == (ADDED_TO,) else chain for chain in chains}


class Walk(Protocol):
    """The part of :class:`seneca.identity.walk.Walk` that this module needs."""

    uses: Uses
    random_sets: int

    def note_leaf(self, value: Any) -> None: ...
    def at(self, way: str, value: Any) -> bytes: ...
    def expecting(self, values: Iterable[Any]) -> AbstractContextManager[None]: ...
    def wait(self, waiting: Waiting) -> bytes: ...
    def watch_namespace(self, value: Any) -> None: ...


class Waiting:
    """An object, or a namespace in an attribute, of which only what is read counts.

    Args:
        attributes: The attributes that may count, by name.
        way: The path to the object, for people.
        is_space: Whether what is read counts by chains: ``attributes`` has the namespace under its name.
        is_root: Whether it is the dataset itself.
    """

    def __init__(
        self, attributes: Mapping[str, Any], way: str, *, is_space: bool = False, is_root: bool = False
    ) -> None:
        self.attributes, self.way, self._is_space, self._is_root = attributes, way, is_space, is_root
        self.found: dict[str, bytes] = {}
        self.values: dict[str, Any] = {}  # those that were found
        self._sets: list[tuple[str, bool]] = []
        self._version = -1  # of what is read, when this was walked last
        self._digest, self._digested = b"", -1  # of so many names

    def walk_more(self, walk: Walk) -> bool:
        """Walk what is known to be read by now. Returns whether there was anything new."""
        uses, n = walk.uses, len(self.found)
        if self._version == uses.version:
            return False
        self._version = uses.version
        for name in sorted(self.attributes):
            value = self.attributes[name]
            if self._is_space:
                self._walk_space(walk, name, value)
            elif name in self.found or not uses.counts(name, value, is_root=self._is_root):
                continue
            elif type(value) in LEAVES:
                walk.note_leaf(value)
                self._found(
                    name, value, b""
                )  # digest() takes all of these at once: there may be many records
            else:
                self._walk(walk, name, value, f"{self.way}.{name}")
        return len(self.found) > n

    def _walk(self, walk: Walk, name: str, value: Any, way: str) -> None:
        if is_namespace(value):
            space = Waiting({name: value}, self.way, is_space=True)
            self.found[name] = walk.wait(space)
            return
        before = walk.random_sets
        self._found(name, value, walk.at(way, value))
        if walk.random_sets > before:
            self._sets.append((name, not isinstance(value, (set, frozenset))))

    def _walk_space(self, walk: Walk, name: str, value: Any) -> None:
        kind = value if isinstance(value, type) else type(value)
        if f"{name}'s class" not in self.found and not isinstance(value, type):
            with walk.expecting([kind]):
                self._found(f"{name}'s class", kind, walk.at(f"{self.way}.{name}'s class", kind))
        for chain in sorted(walk.uses.chains(name)):
            path = _path(name, chain)
            if path in self.found or name in self.found:
                continue
            inner, left = follow(value, chain)
            if left == chain:  # all of it is used, or a method of it is
                walk.watch_namespace(value)
                self._found(name, value, walk.at(f"{self.way}.{name}", value))
                return
            path = _path(name, chain[: len(chain) - len(left)])
            if path not in self.found:
                walk.watch_namespace(value)
                self._found(path, inner, walk.at(f"{self.way}.{path}", inner))

    def _found(self, path: str, value: Any, digest: bytes) -> None:
        self.found[path], self.values[path] = digest, value

    def digest(self) -> bytes:
        """The digest of what was found."""
        if len(self.found) != self._digested:
            names = sorted(self.found)
            state = hashlib.sha256("\0".join(names).encode("utf-8", "surrogatepass"))
            state.update(b"".join([b"\0", *map(self.found.__getitem__, names)]))
            state.update(marshal.dumps([self.values[name] for name in names if not self.found[name]], 2))
            self._digest, self._digested = state.digest(), len(names)
        return self._digest

    def depends_on_hashes(self, uses: Uses) -> bool:
        """Whether code uses a set in these attributes in its order."""
        return any(iterates(uses.listings, name, inside=inside) for name, inside in self._sets)


def _changes(value: Any) -> bool:
    """Whether a value counts even if nobody reads it: code uses it in ways that are hard to see."""
    return type(value) not in LEAVES and isinstance(value, _KINDS_THAT_CHANGE)


def _path(name: str, chain: Chain) -> str:
    return name + "".join(step if step.startswith("[") else f".{step}" for step in chain)
