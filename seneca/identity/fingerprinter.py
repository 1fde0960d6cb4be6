"""Identifies objects: their digests, and what these are made of."""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from seneca._runtime.packages import distribution_of, release_of, version_of
from seneca._runtime.pillow import settings as pillow_settings
from seneca.errors import NotFingerprinted
from seneca.identity import of_code, of_data
from seneca.identity.libraries import settings_of_libraries
from seneca.identity.modules import contents
from seneca.identity.order import hash_seed
from seneca.identity.patched import patched_modules
from seneca.identity.places import facts_of, folders_behind, variables_in
from seneca.identity.plain import Memory
from seneca.identity.process import settings
from seneca.identity.traits import traits_of
from seneca.identity.walk import Fault, Taker, Walk, digest_of
from seneca.identity.watch import Attributes, Watch

__all__ = ["Fingerprinter", "Identity", "MadeOf", "fingerprint"]

_FORMAT = "seneca identity 4"  # raise it when equal objects get other identities than before

MOST_NAMES = 12  # of each kind that are listed
MOST_OBJECTS = 1000  # whose attributes are named one by one
_STEP = re.compile(r"\[.*?\]")  # to an element of a container

# Code with one of these names may import or look up what a text names.
_IMPORT_BY_NAME = frozenset(
    (
        "import_module",
        "__import__",
        "instantiate",
        "get_class",
        "get_method",
        "get_object",
        "locate",
        "resolve_name",
    )
)

# Nearly all items are made with these packages, even if their code does not name them.
_ALWAYS = (
    *("torch", "torchvision", "torchaudio", "numpy", "pillow", "pillow-simd"),
    *("opencv-python", "opencv-python-headless", "opencv-contrib-python", "opencv-contrib-python-headless"),
)


@dataclass(frozen=True)
class MadeOf:
    """The ingredients of an identity, for people.

    Attributes:
        packages: Installed packages that the code names, with their releases.
        modules: The user's own modules whose code counts.
        unloaded: Those of them that are imported only while items are made. They count by their files.
        paths: The number of paths in the state that exist.
        variables: Environment variables that the code names.
        keyed: The paths to the values for which ``key`` stands.
        own_generator: Whether one of these values is a generator of random numbers.
        data_bytes: Bytes of tensors, arrays and large containers, which count by content.
        hashes: Whether the seed of Python's hashes counts, because code may depend on the order of a set.
        traits: A digest of each part that has a name: attributes, globals, settings, files. Two datasets with
            other identities differ in one of them.
    """

    packages: tuple[str, ...]
    modules: tuple[str, ...]
    unloaded: tuple[str, ...]
    paths: int
    variables: tuple[str, ...]
    keyed: tuple[str, ...]
    own_generator: bool
    data_bytes: int
    hashes: bool
    traits: dict[str, bytes]

    def __str__(self) -> str:
        parts = ["its state"]
        for what, names in (
            ("the code of", self.modules),
            ("the files of what is imported later,", self.unloaded),
            ("the packages", self.packages),
            ("the environment variables", self.variables),
        ):
            if names:
                parts.append(f"{what} {_listed(names)}")
        if self.data_bytes:
            parts.append(f"{self.data_bytes:,} bytes of data")
        if self.paths:
            parts.append(
                f"{self.paths} path{'s'[: self.paths != 1]} (device, inode, size and time of change)"
            )
        if self.hashes:
            parts.append(
                "the seed of Python's hashes, because code calls hash() or uses a set in its order (jobs "
                "share if they have the same PYTHONHASHSEED)"
            )
        if self.keyed:
            parts.append(f"the key, in place of {_listed(self.keyed)}")
        return ", ".join(parts)


@dataclass(frozen=True)
class Identity:
    """The identity of an object.

    Attributes:
        here: 32 bytes that are equal if items are equal, in the processes of one host at the same time.
        state: 32 bytes of state and code alone, without files, and with only the releases of packages. They
            are equal on another host and at another time.
        made_of: What ``here`` was made of.
    """

    here: bytes
    state: bytes
    made_of: MadeOf


class Fingerprinter:
    """Identifies objects that belong together. What it met in one object is known in the next.

    Args:
        key: A text that stands for each value that cannot be seen.
        memory: What earlier fingerprinters remember, which makes this one faster; None: there were none.
        reads_only: Whether of the attributes of the user's objects only those count that some code reads.

    Attributes:
        watch: Says whether any of what was met changes from now on.
        words: Every name and constant text in the code that was met so far.
    """

    def __init__(
        self, key: str | None = None, memory: Memory | None = None, *, reads_only: bool = False
    ) -> None:
        self.watch = Watch()
        self.watch.value(torch.get_default_dtype)
        self.watch.value(lambda: str(pillow_settings()))  # texts are compared by value
        self._key = key
        self._memory = memory or Memory()
        self._identified: dict[str, Any] = {}  # what was identified, by its name for people
        self._walk = Walk(
            *(_taker_of, key, self._memory, self.watch),
            reached_by=of_code.reached_by,
            reads_only=reads_only,
        )

    @property
    def words(self) -> set[str]:
        return self._walk.words

    def pass_over(self, *values: Any) -> None:
        """Treat these values as known, and do not enter them."""
        self._walk.pass_over(values)

    def identify(self, value: Any, name: str = "value", *, part: str = "") -> Identity:
        """The identity of a value.

        Files, packages and variables that earlier values led to count for this value too.

        Args:
            value: Any object.
            name: The name of the object in messages.
            part: The name of the object in :attr:`MadeOf.traits`; "": its attributes have theirs.

        Raises:
            NotFingerprinted: The object holds a value whose state cannot be seen, or changes while items
                are made; and there is no key.
        """
        self._identified[part] = value
        self._walk.root = type(value)
        return self._identify(lambda: self._walk.of(value), name)

    def identify_part(self, kind: type, attributes: dict[str, Any], name: str = "value") -> Identity:
        """The identity of an object of which only these attributes count. See :meth:`identify` for the
        rest."""
        walk = self._walk
        walk.root = kind

        def walked() -> bytes:
            with walk.expecting([kind]):
                parts = [walk.of(kind)]
            return digest_of("part", *parts, _attributes(walk, kind, attributes))

        return self._identify(walked, name)

    def _identify(self, walked: Callable[[], bytes], name: str) -> Identity:
        walk = self._walk
        try:
            parts = [walked()]
            walk.settle()  # then all texts are known
            parts.append(self._named_modules())
            state = digest_of(_process(), *parts, walk.settle())
        except Fault as fault:
            raise NotFingerprinted(name + fault.where, fault.why) from None
        except RecursionError:
            if self._key is None:
                raise NotFingerprinted(name, "is nested too deep") from None
            walk.keyed.append("")
            state = digest_of(_process(), walk.of(self._key))
        return self._with_what_lies_outside(state, name)

    def _named_modules(self) -> bytes:
        """The digest of the user's own code that is imported or looked up by a text."""
        walk = self._walk
        by_name = not walk.words.isdisjoint(_IMPORT_BY_NAME)
        texts = {
            text for text in walk.texts if isinstance(text, str) and (by_name or "." in text or ":" in text)
        }
        return of_code.named_by_texts(walk, texts)

    def attributes(self, owner: Any, repeat: Callable[[Callable[[], Any]], Any]) -> Attributes:
        """The attributes of a dataset that this has identified. ``repeat``: see :class:`Attributes`."""
        uses = self._walk.uses
        counted = functools.partial(of_data.counted_attributes, owner, uses)
        return Attributes(owner, counted, uses.stores, repeat)

    def end(self) -> None:
        """End. Only what this has met is remembered for the next fingerprinter."""
        self._memory.end_pass()

    def _with_what_lies_outside(self, state: bytes, name: str) -> Identity:
        walk = self._walk
        facts = facts_of(walk.texts)
        folders = folders_behind(frozenset(walk.words), walk.texts, facts)
        # Code that reads the environment may take a variable's name from anywhere in the state.
        named = walk.variables | {t for t in walk.texts if isinstance(t, str)} if walk.variables else set()
        variables = sorted(v for v in named | variables_in(walk.texts) if v in os.environ)
        packages = {one: contents(one) for top in sorted(walk.packages) for one in distribution_of(top)}
        hashes = walk.depends_on_hashes
        parts: dict[str, Any] = {
            **settings(),
            **{f"the variable {one}": os.environ[one] for one in variables},
            **({"PYTHONHASHSEED": hash_seed()} if hashes else {}),
            **{_text(fact): fact for fact in [*facts, *folders]},
            **{f"the package {one}": digest for one, digest in packages.items()},
        }
        patched = {
            f"{module}.{inner}": walk.leniently(value)
            for module, strangers in patched_modules().items()
            for inner, value in strangers.items()
        }
        libraries = {
            f"the configuration of {one}": walk.leniently(value)
            for one, value in settings_of_libraries(walk.packages, walk.words).items()
        }
        outside = repr(sorted(parts.items(), key=str)).encode("utf-8", "surrogateescape")
        behind = digest_of("behind", *map(_pair, sorted({**patched, **libraries}.items())))
        traits = {**self._parts(), **patched, **libraries}
        traits |= {one: repr(fact).encode("utf-8", "surrogateescape") for one, fact in parts.items()}
        traits |= {f"the module {one}": digest for one, digest in walk.unloaded.items()}
        traits |= {f"the code of {one}": walk.codes[code] for one, code in walk.functions.items()}
        return Identity(
            digest_of("here", state, _always(), behind, digest_of("outside", outside)),
            state,
            MadeOf(
                packages=tuple(sorted(filter(None, map(release_of, walk.packages)))),
                modules=tuple(sorted(walk.modules)),
                unloaded=tuple(sorted(walk.unloaded)),
                paths=len(facts),
                variables=tuple(variables),
                keyed=tuple(f"{name}{where}" for where in walk.keyed),
                own_generator=walk.own_generator,
                data_bytes=walk.data_bytes,
                hashes=hashes,
                traits=traits,
            ),
        )

    def _parts(self) -> dict[str, bytes]:
        """The digests of all attributes and globals that count, by the path to each."""
        walk, parts = self._walk, dict[str, bytes]()
        for name, inner in self._identified.items():
            parts |= traits_of(walk, name, inner)
        inside: dict[str, list[bytes]] = {}  # of objects in containers, if there are many
        for one in walk.waiting:
            if len(walk.waiting) > MOST_OBJECTS and "[" in one.way:
                inside.setdefault(_STEP.sub("[...]", one.way).lstrip("."), []).append(one.digest())
                continue
            for path, inner in one.values.items():
                parts |= traits_of(walk, f"{one.way}.{path}".lstrip("."), inner)
        for name, inner in walk.parts.items():
            parts |= traits_of(walk, name, inner)
        return parts | {name: digest_of("objects", *digests) for name, digests in inside.items()}


def _attributes(walk: Walk, kind: type, attributes: dict[str, Any]) -> bytes:
    if walk.reads_only and of_data.is_plain(kind):
        return walk.part(attributes)
    return walk.named_values(attributes, ".{}")


def _pair(item: tuple[str, bytes]) -> bytes:
    return digest_of("pair", digest_of("name", item[0].encode()), item[1])


def _text(fact: tuple[object, ...]) -> str:
    """The name of a fact about a path, or about a folder."""
    first = fact[0]
    if isinstance(first, bytes):
        return f"the file {os.fsdecode(first)}"
    return f"the {first} {fact[1]}" if first == "program" else f"the folder of {first}"


def fingerprint(value: Any, *, key: str | None = None, name: str = "value") -> bytes:
    """Compute a digest of all that determines the items of a dataset, or the results of a transform or
    function.

    The object is only read. Of its methods only ``__fingerprint__``, ``__getstate__`` and ``__reduce_ex__``
    are called, as pickling would call the last two.

    Args:
        value: Any object.
        key: A text that stands for each value in it that cannot be seen.
        name: The name of the object in messages.

    Returns:
        32 bytes. They are equal for equal objects, in every process of one host and one release of Python.

    Raises:
        NotFingerprinted: There is no ``key``, and the object holds a value whose state cannot be seen, or
            changes while items are made: a lock, an open file, an iterator, a random generator.

    Example:
        >>> fingerprint(lambda x: x + 1) == fingerprint(lambda x: x + 1)
        True
        >>> fingerprint(lambda x: x + 1) == fingerprint(lambda x: x + 2)
        False
    """
    return Fingerprinter(key).identify(value, name).here


def _listed(names: tuple[str, ...]) -> str:
    few = names[:MOST_NAMES]
    more = f" and {len(names) - len(few)} more" if len(names) > len(few) else ""
    return ", ".join(few) + more


def _process() -> str:
    """The settings of this process on which every item may depend, although no code names them."""
    default = f"{torch.get_default_dtype()} {torch.get_default_device()} {tuple(pillow_settings())}"
    return f"{_FORMAT}, {sys.implementation.name} {sys.hexversion:x}, {default}"


@functools.cache
def _always() -> bytes:
    """A digest of the packages with which nearly all items are made."""
    installed = {one: contents(one) for one in _ALWAYS if version_of(one) is not None}
    return digest_of("always", repr(sorted(installed.items())).encode())


# The first entry that fits counts.
_TAKERS = (*of_code.TAKERS, *of_data.TAKERS)


@functools.cache
def _taker_of(kind: type) -> Taker:
    return next((take for kinds, take in _TAKERS if issubclass(kind, kinds)), of_data.ANY)
