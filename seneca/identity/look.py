"""One look at objects: their identities, and what these are made of."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from seneca._runtime.packages import distribution_of, release_of
from seneca.errors import NotFingerprinted
from seneca.identity import of_code, of_data
from seneca.identity.modules import contents
from seneca.identity.places import facts_of
from seneca.identity.plain import Memory
from seneca.identity.walk import Fault, Taker, Walk, digest_of
from seneca.identity.watch import Watch

__all__ = ["Identity", "Look", "MadeOf", "fingerprint"]

_FORMAT = "seneca identity 2"  # raise it when equal objects get other identities than before

MOST_NAMES = 12  # of each kind that are listed

# Nearly all items are made with these packages, even if their code does not name them.
_ALWAYS = (
    *("torch", "torchvision", "torchaudio", "numpy", "pillow", "pillow-simd"),
    *("opencv-python", "opencv-python-headless", "opencv-contrib-python", "opencv-contrib-python-headless"),
)


@dataclass(frozen=True)
class MadeOf:
    """What an identity was made of, for people.

    Attributes:
        packages: Installed packages that the code names, with their releases.
        modules: The user's own modules whose code counts.
        unloaded: Those of them that are imported only while items are made. They count by their files.
        paths: The number of paths in the state that exist.
        variables: Environment variables that the code names.
        keyed: The paths to the values for which ``key`` stands.
        own_generator: Whether one of these values is a generator of random numbers.
        data_bytes: Bytes of tensors, arrays and large containers, which count by content.
    """

    packages: tuple[str, ...]
    modules: tuple[str, ...]
    unloaded: tuple[str, ...]
    paths: int
    variables: tuple[str, ...]
    keyed: tuple[str, ...]
    own_generator: bool
    data_bytes: int

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


class Look:
    """One look at objects that belong together. What the look met in one object is known in the next.

    Args:
        key: A text that stands for each value that cannot be seen.
        memory: What earlier looks have remembered, which makes this one faster; None: there were none.

    Attributes:
        watch: Tells whether any of what was met changes from now on.
        words: Every name and constant text in the code that was met so far.
    """

    def __init__(self, key: str | None = None, memory: Memory | None = None) -> None:
        self.watch = Watch()
        self.watch.value(torch.get_default_dtype)
        self.watch.value(_takes_truncated_pictures)
        self._key = key
        self._memory = memory or Memory()
        self._walk = Walk(_taker_of, key, self._memory, self.watch)

    @property
    def words(self) -> set[str]:
        return self._walk.words

    def pass_over(self, *values: Any) -> None:
        """Treat these values as known, and do not look into them."""
        self._walk.pass_over(values)

    def identify(self, value: Any, name: str = "value") -> Identity:
        """The identity of a value.

        Files, packages and variables that earlier values of this look led to count for this value too.

        Args:
            value: Any object.
            name: The name of the object in messages.

        Raises:
            NotFingerprinted: The object holds a value whose state cannot be seen, or changes while items
                are made; and there is no key.
        """
        return self._identify(lambda: self._walk.of(value), name)

    def identify_part(self, kind: type, attributes: dict[str, Any], name: str = "value") -> Identity:
        """The identity of an object of which only these attributes count. See :meth:`identify` for the
        rest."""
        walk = self._walk
        return self._identify(
            lambda: digest_of("part", walk.of(kind), walk.named_values(attributes, ".{}")), name
        )

    def _identify(self, walked: Callable[[], bytes], name: str) -> Identity:
        try:
            state = digest_of(_process(), walked())
        except Fault as fault:
            raise NotFingerprinted(name + fault.where, fault.why) from None
        except RecursionError:
            if self._key is None:
                raise NotFingerprinted(name, "is nested too deep") from None
            self._walk.keyed.append("")
            state = digest_of(_process(), self._walk.of(self._key))
        return self._with_what_lies_outside(state, name)

    def end(self) -> None:
        """End the look. Only what it has met is remembered for the next one."""
        self._memory.looked()

    def _with_what_lies_outside(self, state: bytes, name: str) -> Identity:
        walk = self._walk
        facts = facts_of(walk.texts)
        # Code that reads the environment may take a variable's name from anywhere in the state.
        named = walk.variables | {t for t in walk.texts if isinstance(t, str)} if walk.variables else ()
        variables = sorted(variable for variable in named if variable in os.environ)
        packages = [contents(one) for top in sorted(walk.packages) for one in distribution_of(top)]
        settings = [(one, os.environ[one]) for one in variables]
        outside = repr((facts, packages, settings)).encode("utf-8", "surrogateescape")
        return Identity(
            digest_of("here", state, _always(), digest_of("outside", outside)),
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
            ),
        )


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
    return Look(key).identify(value, name).here


def _listed(names: tuple[str, ...]) -> str:
    few = names[:MOST_NAMES]
    more = f" and {len(names) - len(few)} more" if len(names) > len(few) else ""
    return ", ".join(few) + more


def _process() -> str:
    """The settings of this process on which every item may depend, although no code names them."""
    default = f"{torch.get_default_dtype()} {torch.get_default_device()} {_takes_truncated_pictures()}"
    return f"{_FORMAT}, {sys.implementation.name} {sys.hexversion:x}, {default}"


def _takes_truncated_pictures() -> bool:
    """Whether Pillow accepts truncated pictures, a setting of many scripts."""
    return bool(getattr(sys.modules.get("PIL.ImageFile"), "LOAD_TRUNCATED_IMAGES", False))


@functools.cache
def _always() -> bytes:
    """A digest of the packages with which nearly all items are made."""
    installed = {one: contents(one) for one in _ALWAYS if _is_installed(one)}
    return digest_of("always", repr(sorted(installed.items())).encode())


def _is_installed(distribution: str) -> bool:
    try:
        importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


# The first entry that fits counts.
_TAKERS = (*of_code.TAKERS, *of_data.TAKERS)


@functools.cache
def _taker_of(kind: type) -> Taker:
    return next((take for kinds, take in _TAKERS if issubclass(kind, kinds)), of_data.ANY)
