"""Kinds of items that datasets return: for each a name, and a function that makes the item of a sample.

kinds_of_arrays.py adds those of tensors, arrays and pictures.

The value of an item is its sample's alone: a second call returns an equal item. All can be imported, so that
items pickle where torch can pickle them.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import io
import itertools
import pathlib
import sqlite3
import tempfile
import threading
import types
import uuid
import zoneinfo
from array import array
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.ma  # NumPy would load these as they are first used: the dataset's code then names others
import numpy.rec
import numpy.strings
import torch
from sizes import size

__all__ = [
    "KINDS",
    "NOT_PICKLED",
    "SHARED",
    "Colour",
    "a",
    "each",
    "kind",
    "not_pickled",
    "shared",
    "with_attribute",
    "x",
]

Kind = Callable[[int], Any]

DEEP = size(6, 12)

KINDS: dict[str, Kind] = {}
SHARED: set[str] = set()  # those that jobs share; the others are delivered and not shared
NOT_PICKLED: set[str] = set()  # those that torch's workers cannot send


def kind(make: Kind) -> Kind:
    """A kind that is delivered, and that each job makes for itself."""
    KINDS[make.__name__.replace("_", " ").strip()] = make
    return make


def shared(make: Kind) -> Kind:
    SHARED.add(make.__name__.replace("_", " ").strip())
    return kind(make)


def not_pickled(make: Kind) -> Kind:
    NOT_PICKLED.add(make.__name__.replace("_", " ").strip())
    return kind(make)


def each(kinds: dict[str, Kind], how: Callable[[Kind], Kind]) -> None:
    for name, make in kinds.items():
        make.__name__ = name
        how(make)


def x(i: int, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    shape = shape or (2, 3)
    return (torch.arange(int(np.prod(shape))) + i).to(dtype).reshape(shape)


def a(i: int, *shape: int, dtype: Any = np.float32) -> np.ndarray:
    shape = shape or (2, 3)
    return (np.arange(int(np.prod(shape))) + i).astype(dtype).reshape(shape)


# Numbers and texts

each(
    {
        "None": lambda i: None,
        "None now and then": lambda i: None if i % 2 else x(i),
        "bool": lambda i: i % 2 == 0,
        "int": lambda i: i - 1,
        "int beyond 64 bits": lambda i: (-1) ** i * (2**200 + i),
        "int at the edge of 64 bits": lambda i: [2**63 - 1, 2**63, -(2**63), -(2**63) - 1][i % 4],
        "float": lambda i: i / 3,
        "nan": lambda i: float("nan"),
        "inf": lambda i: float("-inf" if i % 2 else "inf"),
        "negative zero": lambda i: -0.0,
        "complex": lambda i: complex(i, float("nan")),
        "str": lambda i: f"caf\xe9 \U0001f600 \0 {i}",
        "empty str": lambda i: "",
        "half a surrogate pair": lambda i: f"\ud83d{i}",
        "bytes": lambda i: bytes([i, 0, 255]),
        "bytearray": lambda i: bytearray([i, 0, 255]),
        "numpy scalars": lambda i: [
            np.float32(i),
            np.int8(i),
            np.bool_(i % 2),
            np.longlong(i),
            np.float16(i),
        ],
        "numpy complex scalar": lambda i: np.complex64(i + 1j),
        "numpy texts": lambda i: (np.str_(f"a\0{i}"), np.bytes_(b"a\0")),
        "numpy datetime64": lambda i: np.datetime64("2020-01-01T00:00:00", "ns") + np.timedelta64(i, "D"),
        "a longdouble": lambda i: np.longdouble("1.1") + i,
    },
    shared,
)


class Colour(enum.Enum):
    RED = 1
    BLUE = "b"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Right(enum.Flag):
    READ = 1
    WRITE = 2


class Count(int):
    """An int that is more than an int."""


class Celsius(float):
    pass


class Word(str):
    """A text that has attributes."""


each(
    {
        "Enum": lambda i: Colour.RED if i % 2 else Colour.BLUE,
        "IntEnum": lambda i: Level.HIGH if i % 2 else Level.LOW,
        "Flag": lambda i: Right.WRITE,
    },
    shared,
)


# Not made in the function: code that makes sets shares only with processes of the same PYTHONHASHSEED.
SETS = [{i, 7} for i in range(4)]
FROZEN = [frozenset({i, 7}) for i in range(4)]


def word(i: int) -> Word:
    made = Word(f"w{i}")
    made.index = i
    return made


each(
    {
        "combined Flag": lambda i: Right.READ | Right.WRITE,
        "subclass of int": Count,
        "subclass of float": Celsius,
        "subclass of str": word,
        "Decimal": lambda i: decimal.Decimal(f"{i}.10"),
        "Fraction": lambda i: fractions.Fraction(i, 7),
        "Path": lambda i: pathlib.Path(f"/no/{i}"),
        "UUID": lambda i: uuid.UUID(int=i),
        "datetime": lambda i: datetime.datetime(2020, 1, 1 + i, tzinfo=zoneinfo.ZoneInfo("UTC"), fold=1),
        "date and timedelta": lambda i: (datetime.date(2020, 1, 1 + i), datetime.timedelta(i)),
        "range": lambda i: range(i, 9),
        "slice": lambda i: slice(i, None),
        "set": lambda i: SETS[i],
        "frozenset": lambda i: FROZEN[i],
        "a class": lambda i: Colour,
        "a function": lambda i: x,
        "partial": lambda i: functools.partial(x, i),
        "NotImplemented": lambda i: NotImplemented,
        "Ellipsis": lambda i: ...,
    },
    kind,
)

# Containers


class Pair(NamedTuple):
    image: Any
    label: Any = 7


class PairWithMore(Pair):
    """A subclass of a named tuple, which has a __dict__."""


@dataclasses.dataclass
class Sample:
    image: Any
    label: int = 3


@dataclasses.dataclass(frozen=True, slots=True, eq=False)  # eq makes a __hash__: see SETS
class SlotSample:
    image: Any


class Encoding(collections.UserDict):
    """As the outputs of tokenizers: a dict with attributes."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["data"][name]
        except KeyError:
            raise AttributeError(name) from None


class Record(dict):
    """A dict whose keys are attributes too."""

    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__


class Numbers(list):
    pass


class Couple(tuple):
    pass


def with_attribute(value: Any, **attributes: Any) -> Any:
    for name, attribute in attributes.items():
        setattr(value, name, attribute)
    return value


def nested(depth: int, value: Any) -> Any:
    for k in range(depth):
        value = [value] if k % 2 else {"a": value}
    return value


each(
    {
        "variable sizes": lambda i: torch.arange(i + 1),
        "empty containers": lambda i: ((), [], {}, "", b""),
        "nested containers": lambda i: {"a": [x(i), (i, {"b": a(i)})], "c": ({}, [None])},
        "keys of all types": lambda i: {
            1: "a",
            "1": "b",
            None: 0,
            (1, 2.5): [],
            b"x": {},
            1.5: (),
            True + 1: 1,
        },
        "a dict in an order": lambda i: {"z": 1, "a": 2, "m": i},
        "a dict that resembles a node": lambda i: {"t": [1], "T": ["torch.float32", [1]]},
        "NamedTuple": lambda i: Pair(x(i), i),
        "namedtuple in namedtuple": lambda i: Pair(Pair(i, x(i))),
        "subclass of NamedTuple": lambda i: PairWithMore(i, x(i)),
        "deep nesting": lambda i: nested(40, i),
        "many tensors": lambda i: [torch.tensor(k + i) for k in range(60)],
        "thousands of numbers": lambda i: [k / 7 + i for k in range(500)],
        "a list that appears twice": lambda i: Pair(*[[i, 2]] * 2),
        "a dict that appears twice": lambda i: [{"a": i}] * 2,
        "a tensor that appears twice": lambda i: dict.fromkeys(["inputs", "labels"], x(i)),
        "an array that appears twice": lambda i: (b := a(i), [b], {"b": b}),
        "a bytearray that appears twice": lambda i: [bytearray([i])] * 2,
        "a list that appears often, deep": lambda i: functools.reduce(lambda v, _: [v, v], range(DEEP), [i]),
    },
    shared,
)


def recursive(i: int) -> Any:
    made: list[Any] = [i]
    made.append(made)
    return made


each(
    {
        "NamedTuple with attributes": lambda i: with_attribute(PairWithMore(i, 2), more=x(i)),
        "too deep nesting": lambda i: nested(90, i),
        "a list that contains itself": recursive,
        "dataclass": lambda i: Sample(x(i), i),
        "frozen dataclass with slots": lambda i: SlotSample(x(i)),
        "SimpleNamespace": lambda i: types.SimpleNamespace(a=x(i)),
        "UserDict with attributes": lambda i: Encoding({"input_ids": x(i), "n": i}),
        "dict with __getattr__": lambda i: Record(image=x(i), label=i),
        "subclass of list": lambda i: Numbers([i, 2]),
        "subclass of tuple": lambda i: Couple([i, 2]),
        "OrderedDict": lambda i: collections.OrderedDict(b=i, a=x(i)),
        "defaultdict": lambda i: collections.defaultdict(list, a=[i]),
        "Counter": lambda i: collections.Counter("aab" * (i + 1)),
        "ChainMap": lambda i: collections.ChainMap({"a": i}, {"b": 2}),
        "deque": lambda i: collections.deque([i, 2], maxlen=5),
        "array": lambda i: array("d", [i, 2.5]),
        "StringIO": lambda i: io.StringIO(f"line {i}"),
        "BytesIO": lambda i: io.BytesIO(bytes([i])),
        "Message": lambda i: ValueError(f"sample {i}"),
        "KeyError as an item": lambda i: KeyError(i),
    },
    kind,
)


# Objects


class Plain:
    """An object that pickles as most do."""

    def __init__(self, i: int) -> None:
        self.value = x(i)


class Refusing:
    """An object that cannot be compared or hashed."""

    def __init__(self, i: int) -> None:
        self.value = i

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no comparison")

    def __hash__(self) -> int:
        raise RuntimeError("no hash")


class Counted:
    """An object that counts how often it is pickled."""

    def __init__(self, i: int, pickled: int = 0) -> None:
        self.value, self.pickled = i, pickled

    def __reduce__(self) -> Any:
        self.pickled += 1
        return type(self), (self.value, self.pickled)


class Unpicklable:
    def __reduce__(self) -> Any:
        raise TypeError("this object stays here")


each(
    {
        "iterator": lambda i: iter([i, 2]),
        "object": Plain,
        "object without == and hash": Refusing,
        "object whose __reduce__ counts": Counted,
    },
    kind,
)
each(
    {
        "object that refuses to be pickled": lambda i: Unpicklable(),
        "lambda": lambda i: lambda: i,
        "generator": lambda i: (k for k in range(i)),
        "lock": lambda i: threading.Lock(),
        "open file": lambda i: tempfile.TemporaryFile(),  # noqa: SIM115 -- the item is the file
        "memoryview": lambda i: memoryview(bytes([i])),
        "MappingProxy": lambda i: types.MappingProxyType({"a": i}),
        "module": lambda i: itertools,
        "row of sqlite3": lambda i: row(i),
        "dict keys": lambda i: {i: 1}.keys(),
    },
    not_pickled,
)


def row(i: int) -> sqlite3.Row:
    database = sqlite3.connect(":memory:")
    database.row_factory = sqlite3.Row
    return database.execute("select ? as number", [i]).fetchone()
