"""The walk over everything on which an object's items depend: its state, and the code that works on it.

No part of a digest depends on addresses, hash seeds, line numbers, docstrings or the name of the main
module. The walk collects what it meets outside the object: paths, packages, environment variables.

This module has what all kinds of values have in common. :mod:`seneca.identity.of_code` and
:mod:`seneca.identity.of_data` know the kinds.
"""

from __future__ import annotations

import contextlib
import hashlib
import marshal
import types
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from itertools import chain
from typing import Any

import xxhash

from seneca.identity.mapped import Mappings
from seneca.identity.names import Named
from seneca.identity.order import iterates
from seneca.identity.places import sample_of
from seneca.identity.plain import CONTAINERS, LEAVES, Memory, plain
from seneca.identity.used import Uses, Waiting
from seneca.identity.watch import Watch

__all__ = ["SENECA", "Fault", "Taker", "Walk", "content_of", "digest_of", "home_of", "title_of"]

LARGE = 1000  # elements; a larger container is worth remembering
MOST_WATCHED = 256  # containers inside plain data
MOST_FORMATS = 1000  # texts of plain data that may be formats
MOST_BEHIND = 5000  # values in one that installed code holds

SENECA = __name__.partition(".")[0]


class TooMuch(Exception):
    """A value behind installed code holds too much to be walked."""


class Fault(Exception):
    """A value cannot be seen, or does not stay the same.

    Args:
        where: The path from the walked object to the value.
        why: The rest of the sentence.
    """

    def __init__(self, where: str, why: str) -> None:
        super().__init__(where, why)
        self.where, self.why = where, why


def digest_of(kind: str, *parts: Any) -> bytes:
    """A digest of digests. The parts have 32 bytes each; the last may have any length."""
    state = hashlib.sha256(kind.encode("utf-8", "surrogatepass") + b"\0")
    for part in parts:
        state.update(part)
    return state.digest()


def content_of(data: Any) -> bytes:
    """A digest of much data at the speed of memory: some 15 GB/s, in place of SHA-256's 1.3."""
    return xxhash.xxh3_128(data).digest()


def title_of(kind: type) -> str:
    """A class's name as code writes it."""
    module = home_of(kind.__module__)
    return kind.__qualname__ if module == "builtins" else f"{module}.{kind.__qualname__}"


def home_of(module: str) -> str:
    """By what an installed module is named: itself, but Seneca's by the package alone.

    In the next release a class of Seneca's may be in another module. A loader's state must name the same
    dataset then.
    """
    return SENECA if module.partition(".")[0] == SENECA else module


Taker = Callable[["Walk", Any], bytes]
"""Digests the values of one kind."""


class Walk:
    """Digests values, each once.

    A value inside itself is digested as its distance from its outer occurrence. Such a digest depends on
    the way in. Therefore the order of walking must be the same in all processes.

    Args:
        taker_of: Finds the function that digests the values of a class.
        key: A text that stands for each value that cannot be seen; None: such a value raises
            :class:`Fault`.
        memory: What earlier walks have remembered.
        watch: Is given the mutable objects that are met.
        reached_by: Digests all that a function of the user's names.
        reads_only: Whether only what code reads counts of the attributes of the user's objects.

    Attributes:
        packages: Top-level modules of the installed packages that were named.
        modules: The user's own modules whose code counts.
        unloaded: Those of them that are not loaded, with digests of their files.
        texts: Texts that may be paths.
        variables: Texts that may be names of environment variables.
        words: Every name and constant text in the code that was met.
        keyed: The paths to the values for which ``key`` stands.
        uses: What the code reads that was met.
        random_sets: How many sets were met whose order differs in each process.
        parts: Globals, variables and defaults of the user's functions, each by its name for people.
        functions: Each function of the user's, with its module, by name.
        own_generator: Whether a generator of random numbers is among the values.
        data_bytes: Bytes of tensors, arrays and large containers.
    """

    def __init__(
        self,
        taker_of: Callable[[type], Taker],
        key: str | None,
        memory: Memory,
        watch: Watch,
        *,
        reached_by: Callable[[Walk, types.FunctionType], bytes],
        reads_only: bool = False,
    ) -> None:
        self._taker_of, self._reached_by = taker_of, reached_by
        self.reads_only = reads_only
        self.uses = Uses()
        self.random_sets = 0
        self.parts: dict[str, Any] = {}
        self.functions: dict[str, types.CodeType] = {}
        self.methods: dict[int, set[str]] = {}  # functions of classes, by id: the names of the method
        self.expected: frozenset[int] = frozenset()  # classes and functions that are met because of an object
        self.root: type | None = None  # the class of what is identified
        self.made: dict[type, bytes] = {}  # how objects of a class are made that are what is in their dict
        self.waiting: list[Waiting] = []
        self.begun: list[bytes] = []  # of methods that came to run
        self.mappings = Mappings()
        self.in_library = False  # whether within an object of a library that seeds its generators
        self._lenient = False
        self._left = 0
        self.packages: set[str] = set()
        self.modules: set[str] = set()
        self.unloaded: dict[str, bytes] = {}
        self.texts: set[str | bytes] = set()
        self.variables: set[str] = set()
        self.words: set[str] = set()
        self.keyed: list[str] = []
        self.own_generator = False
        self.data_bytes = 0
        self._key = key
        self._memory = memory
        self.watch = watch
        self._done: MutableMapping[int, bytes] = {}
        self._alive: list[Any] = []  # keeps the ids from being used again
        self._open: dict[int, int] = {}
        self.codes: dict[types.CodeType, bytes] = {}
        self._way: list[tuple[Callable[[int], str], list[int]]] = []  # the path to the current value
        self.in_code = 0
        self.depends_on_hashes = False

    def of(self, value: Any) -> bytes:
        """The digest of a value.

        Raises:
            Fault: The value cannot be seen, and there is no key.
        """
        if type(value) in LEAVES:
            self.note_leaf(value)
            return digest_of("plain", marshal.dumps(value, 2))
        key = id(value)
        if self.reads_only and key not in self.expected:
            if type(value) is types.FunctionType:
                self.uses.run(value)
            elif isinstance(value, type):
                self.uses.construct(value)
        if key in self._done:
            return self._done[key]
        if self._lenient:
            self._left -= 1
            if self._left < 0:
                raise TooMuch
        if key in self._open:
            return digest_of("cycle", str(len(self._open) - self._open[key]).encode())
        self._open[key] = len(self._open)
        depth = len(self._way)
        try:
            digest = self._container(value) if type(value) in CONTAINERS else self._object(value)
        except Fault as fault:
            if self._lenient:
                del self._way[depth:]
                return digest_of("unseen", title_of(type(value)).encode())
            if self._key is None:
                raise
            del self._way[depth:]
            self.keyed.append(fault.where)
            digest = digest_of("key", self.of(self._key), self.of(title_of(type(value))))
        finally:
            del self._open[key]
        self._done[key] = digest
        self._alive.append(value)
        return digest

    def note_leaf(self, value: Any) -> None:
        """Note a text: it may be a path, or a format."""
        if type(value) is str:
            self.uses.note_text(value)
        if not self.in_code and type(value) in (str, bytes):
            self.texts.add(value)

    def known(self, value: Any) -> bytes | None:
        """The digest of a value that was walked; None: it was not."""
        return self.of(value) if type(value) in LEAVES else self._done.get(id(value))

    @contextlib.contextmanager
    def expecting(self, values: Iterable[Any]) -> Iterator[None]:
        """Meanwhile these are met because of an object of theirs, and not as values that code may call."""
        before, self.expected = self.expected, frozenset(map(id, values))
        try:
            yield
        finally:
            self.expected = before

    def at(self, way: str, value: Any) -> bytes:
        """The digest of a value at this path."""
        self._way.append((lambda i: way, [0]))
        try:
            return self.of(value)
        finally:
            self._way.pop()

    def leniently(self, value: Any) -> bytes:
        """The digest of a value behind installed code. What cannot be seen counts by its class.

        A value that holds very much counts by its class alone.
        """
        if self._lenient:
            return self.of(value)
        self._lenient, self._left = True, MOST_BEHIND
        depth = len(self._way)
        try:
            return digest_of("behind", self.of(value))
        except (TooMuch, RecursionError):
            del self._way[depth:]
            return digest_of("much", title_of(type(value)).encode())
        finally:
            self._lenient = False

    def wait(self, waiting: Waiting) -> bytes:
        """The digest of an object whose attributes are walked later: see :meth:`settle`."""
        self.waiting.append(waiting)
        return digest_of("waits", str(len(self.waiting)).encode())

    def part(self, state: Any) -> bytes:
        """The digest of the attributes of an object of the user's own, of which what is read counts."""
        held = state if type(state) is tuple else (state,)
        attributes = {k: v for one in held if type(one) is dict for k, v in one.items() if type(k) is str}
        return self.wait(Waiting(attributes, self.way(), is_root=not self.way()))

    def way(self) -> str:
        """The path to the current value."""
        return "".join(steps(at[0]) for steps, at in self._way)

    def settle(self) -> bytes:
        """Walk what code reads of the objects that wait, until nothing new is met. Returns its digest."""
        new = True
        while new:
            new = any([one.walk_more(self) for one in self.waiting])  # also those that come meanwhile
            while self.uses.begun:
                self.begun.append(self._reached_by(self, self.uses.begun.pop(0)))
                new = True
        digests = [*self.begun, *(one.digest() for one in self.waiting)]
        hashes = self.uses.hashes or any(one.depends_on_hashes(self.uses) for one in self.waiting)
        self.depends_on_hashes = hashes
        return digest_of("settled", *digests)

    def note_sets(self, names: Iterable[str], named: Named) -> None:
        """Note that some of these globals hold sets whose order differs in each process."""
        tops = {name.partition(".")[0].partition("[")[0] for name in names}
        if any(iterates(named.listings, top, inside=inside) for top in tops for inside in (False, True)):
            self.uses.hashes = True

    def watch_namespace(self, value: Any) -> None:
        """Watch what a namespace holds."""
        held = value if type(value) is dict else getattr(value, "__dict__", None)
        if held is not None:
            self.watch.mapping(held)

    def pass_over(self, values: Iterable[Any]) -> None:
        """Treat these values as known, and do not enter them."""
        for value in values:
            self._done[id(value)] = digest_of("passed over")
            self._alive.append(value)

    def fault(self, why: str) -> Fault:
        """Make the :class:`Fault` that says that the current value cannot be seen."""
        return Fault(self.way(), why)

    def all(self, kind: str, values: Iterable[Any], steps: Callable[[int], str]) -> bytes:
        """Digest values in their order. ``steps`` names the path to each."""
        digests: list[bytes] = []
        at = [0]
        self._way.append((steps, at))
        for value in values:
            digests.append(self.of(value))
            at[0] += 1
        self._way.pop()
        return digest_of(kind, *digests)

    # Containers of Python's own.

    def _container(self, value: Any) -> bytes:
        large = len(value) > LARGE
        if large and (found := self._memory.find(value)) is not None:
            self.texts.update(found.texts)
            digest = found.digest
        elif (inside := plain(value)) is not None:
            data = marshal.dumps(value, 2)
            self.data_bytes += len(data) if large else 0
            digest = digest_of("plain", content_of(data))
            texts = [] if self.in_code else sample_of(inside.texts)
            self.texts.update(texts)
            for text in inside.texts[:MOST_FORMATS]:
                if type(text) is str:
                    self.uses.note_text(text)
            if large and inside.immutable:
                self._memory.keep(value, digest, texts)
            if len(inside.mutable) <= MOST_WATCHED:
                for inner in inside.mutable:
                    self._watch_container(inner)
        else:
            digest = self._walked(value)
        self._watch_container(value)
        return digest

    def _watch_container(self, value: Any) -> None:
        if self.in_code:
            return
        if type(value) is dict:
            self.watch.mapping(value)
        elif type(value) is list:
            self.watch.elements(value)

    def _walked(self, value: Any) -> bytes:
        if type(value) is not dict:
            return self.all(type(value).__name__, value, "[{}]".format)
        keys = list(value)
        return self.all(
            "dict",
            chain(keys, value.values()),
            lambda i: f"'s key {keys[i]!r:.80}" if i < len(keys) else f"[{keys[i - len(keys)]!r:.80}]",
        )

    def _object(self, value: Any) -> bytes:
        kind = type(value)
        own = getattr(kind, "__fingerprint__", None)
        if own is None:
            return self._taker_of(kind)(self, value)
        said = self.all("own", (kind, own(value)), ("'s class", ".__fingerprint__()").__getitem__)
        if "__fingerprint__" in vars(kind):
            return said
        # A base class defines it, and does not know what this class adds.
        return digest_of("own and more", said, self._taker_of(kind)(self, value))

    def named_values(self, values: dict[str, Any], step: str) -> bytes:
        """Digest values by name, in the order of the names."""
        kinds = set(map(type, values.values()))
        if kinds <= LEAVES:
            for value in values.values():
                self.note_leaf(value)
            return digest_of("plain named", marshal.dumps(sorted(values.items()), 2))
        names = sorted(values)
        self.in_code += 1
        ways = self.of(tuple(names))
        self.in_code -= 1
        at_each = self.all("values", map(values.get, names), lambda i: step.format(names[i]))
        return digest_of("named", ways, at_each)
