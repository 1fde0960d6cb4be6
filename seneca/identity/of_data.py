"""How data is walked: tensors, arrays, paths and sets, and any other object by its class and state."""

from __future__ import annotations

import copyreg
import functools
import io
import logging
import operator
import pathlib
import random
import sys
import types
from collections import ChainMap
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from seneca._runtime.lazy_list import LazyList
from seneca._runtime.packages import release_of
from seneca.identity.libraries import compiled_from, texts_in, texts_of_column
from seneca.identity.namespaces import is_configuration, items_of
from seneca.identity.of_code import found_in, name_in
from seneca.identity.order import is_hash_random
from seneca.identity.used import Uses
from seneca.identity.walk import Taker, Walk, content_of, digest_of, title_of
from seneca.identity.watch import is_in_foreign_memory

__all__ = ["ANY", "TAKERS"]

LEAST_MAPPED_TENSOR = (
    1 << 20
)  # nobody knows whose memory it is, and to find out takes as long as to read some MB
LEAST_MAPPED = 4097  # bytes; a smaller array or tensor is read, and watched by its content

# Libraries of random transforms whose objects hold generators, which each worker process seeds anew.
_SEED_THEIR_GENERATORS = frozenset({"albumentations", "albucore", "audiomentations", "monai", "torchio"})


def _tensor(walk: Walk, value: torch.Tensor) -> bytes:
    kind = type(value)
    with torch._C.DisableTorchFunctionSubclass():
        dense = value.is_cpu and value.layout is torch.strided and not value.is_nested
        hidden = copyreg._slotnames(kind)  # type: ignore[attr-defined]
        hidden = hidden or kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__
        if not dense or value.is_quantized or hidden:
            raise walk.fault(
                f"is a {title_of(kind)} on {value.device}; only dense ones on the CPU can be seen"
            )
        plain = value.detach().as_subclass(torch.Tensor)
        about = (str(value.dtype), tuple(value.shape), value.requires_grad)
        if (file := _file_of_tensor(walk, plain)) is not None:
            parts = walk.of(kind), digest_of("about", repr(about).encode()), _state(walk, vars(value))
            return digest_of("mapped tensor", *parts, walk.of(file))
        plain = plain.resolve_conj().resolve_neg()
        content = plain.contiguous().as_strided((plain.numel(),), (1,)).view(torch.uint8).numpy()
        walk.watch.tensor(value)
    walk.data_bytes += content.nbytes
    if value.dtype is torch.uint8 and not walk.in_code:
        walk.texts.update(texts_in(content))
    parts = walk.of(kind), digest_of("about", repr(about).encode()), _state(walk, vars(value))
    return digest_of("tensor", *parts, content_of(content))


def _array(walk: Walk, value: np.ndarray) -> bytes:
    if type(value) not in (np.ndarray, np.memmap):  # a masked array, for example, has more to it
        return _instance(walk, value)
    about = walk.of(type(value)), walk.of(value.dtype), walk.of(value.shape)
    if value.dtype.names:  # field by field, because bytes between fields are arbitrary
        fields = [value[name].view(np.ndarray) for name in value.dtype.names]
        return digest_of("fields", *about, walk.all("arrays", fields, "'s field {}".format))
    if value.dtype.hasobject:
        elements = value.ravel().tolist()
        return digest_of("objects", *about, walk.all("values", elements, ".flat[{}]".format))
    if (file := _file_of_array(walk, value)) is not None:
        return digest_of("mapped", *about, walk.of(file))
    walk.watch.array(value)
    walk.data_bytes += value.nbytes
    if not walk.in_code:
        walk.texts.update(texts_in(value))
    content = np.ascontiguousarray(value).reshape(-1)
    return digest_of("array", *about, content_of(content.view(np.uint8)) if content.nbytes else b"")


def _path(walk: Walk, value: pathlib.PurePath) -> bytes:
    walk.texts.add(str(value))
    if release_of(type(value).__module__) != "python":  # it may also have an address or options
        more = _state(walk, getattr(value, "__dict__", {}))  # pathlib pickles only the parts
        return digest_of("path and more", _instance(walk, value), more)
    return digest_of("path", walk.of(type(value)), walk.of(str(value)))


def _set(walk: Walk, value: set[Any] | frozenset[Any]) -> bytes:
    """A set, by the sorted digests of its elements. Each element is walked as if it were the first."""
    slots = copyreg._slotnames(type(value))  # type: ignore[attr-defined]
    state = {**getattr(value, "__dict__", {}), **{n: getattr(value, n) for n in slots if hasattr(value, n)}}
    about = walk.of(type(value)), _state(walk, state)
    if isinstance(value, set):
        walk.watch.elements(value)
    if any(map(is_hash_random, value)):
        walk.random_sets += 1
    if set(map(type, value)) == {str}:
        return digest_of("strings", *about, walk.of(sorted(value)))
    before = walk._done
    digests = []
    for element in value:
        walk._done = ChainMap({}, before)
        digests.append(walk.all("element", [element], "'s element".format))
    walk._done = before
    return digest_of("set", *about, *sorted(digests))


def _changing(walk: Walk, value: Any) -> bytes:
    if isinstance(value, Iterator) and release_of(type(value).__module__) is None:
        return _instance(walk, value)  # of the user's own class that has a __next__
    raise walk.fault(f"is a {title_of(type(value))}, whose state changes as items are made")


def _generator(walk: Walk, value: Any) -> bytes:
    if walk.in_library:
        return digest_of("a library's generator", title_of(type(value)).encode())
    walk.own_generator = True
    return _changing(walk, value)


def _logger(walk: Walk, value: logging.Logger) -> bytes:
    """A logger. It has no effect on items, unless its class is the user's own."""
    own = release_of(type(value).__module__) is None
    return walk.of(type(value) if own else logging.Logger)


def _instance(walk: Walk, value: Any) -> bytes:
    kind: type = type(value)
    if walk.reads_only and _is_a_record(kind):
        return _record(walk, value)
    if any(base.__module__ in ("ctypes", "_ctypes") for base in kind.__mro__):
        raise walk.fault(f"is a {title_of(kind)}, memory whose meaning cannot be seen")
    if is_configuration(value):
        return digest_of(
            "configuration", walk.of(title_of(kind)), walk.all("held", [items_of(value)], lambda i: "")
        )
    if not walk.in_code:
        walk.texts.update(texts_of_column(value))
    if (compiled := compiled_from(value)) is not None:
        return digest_of("compiled", walk.of(title_of(kind)), walk.all("parts", [compiled], lambda i: ""))
    if _seeds_its_generators(kind) and not walk.in_library:
        walk.in_library = True
        try:
            return _reduced(walk, value)
        finally:
            walk.in_library = False
    return _reduced(walk, value)


@functools.lru_cache(256)
def _is_a_record(kind: type) -> bool:
    """Whether objects of a class are made without arguments, and are what is in their dict."""
    return (
        is_plain(kind)
        and kind.__dictoffset__ != 0
        and not copyreg._slotnames(kind)  # type: ignore[attr-defined]
        and kind not in copyreg.dispatch_table
        and not any(hasattr(kind, name) for name in ("__getnewargs__", "__getnewargs_ex__"))
        and not any(base.__module__ in ("ctypes", "_ctypes") for base in kind.__mro__)
        and not _seeds_its_generators(kind)
    )


def _record(walk: Walk, value: Any) -> bytes:
    """The digest of such an object, as :func:`_reduced` gives it. There may be many."""
    kind, state = type(value), value.__dict__
    if kind not in walk.made:
        with walk.expecting([kind]):
            walk.made[kind] = walk.all("made", (copyreg.__newobj__, kind), ("'s maker", "").__getitem__)  # type: ignore[attr-defined]
    walk.watch.mapping(state)
    return digest_of("instance", walk.made[kind], walk.part(state or None))


def _reduced(walk: Walk, value: Any) -> bytes:
    """The digest of an object as pickling would take it."""
    kind = type(value)
    reduce = copyreg.dispatch_table.get(kind)
    try:
        reduced: Any = value.__reduce_ex__(2) if reduce is None else reduce(value)
    except Exception as error:  # the object's own code may raise anything
        raise walk.fault(f"is a {title_of(kind)}, whose state cannot be seen ({error})") from None
    if type(live := getattr(value, "__dict__", None)) is dict:
        walk.watch.mapping(live)
    if isinstance(reduced, str):
        return _known_by_name(walk, value, reduced)
    make, arguments, state, elements, items, setter = (tuple(reduced) + (None,) * 4)[:6]
    steps = ("'s maker", *("'s class" if isinstance(a, type) else "" for a in arguments))
    with walk.expecting([kind]):
        made = walk.all("made", (make, *arguments), steps.__getitem__)
    parts = [made, walk.part(state) if walk.reads_only and is_plain(kind) else _state(walk, state)]
    for what, extra in (("elements", elements), ("items", items)):
        if extra is not None:
            parts.append(walk.all(what, [list(extra)], lambda i: ""))
    return digest_of("instance", *parts, *([] if setter is None else [walk.of(setter)]))


def _known_by_name(walk: Walk, value: Any, name: str) -> bytes:
    """The digest of an object that pickles as a name: a user's own singleton also by what it holds."""
    kind = type(value)
    homes = (getattr(value, "__module__", None), kind.__module__, *sorted(sys.modules))
    home = next((module for module in homes if found_in(module, name) is value), None)
    if home is None:
        raise walk.fault(f"is a {title_of(kind)}, known by the name {name} that it is not found under")
    known = name_in(walk, home, f"{title_of(kind)} {name}")
    if release_of(home) is not None:
        return known
    held = getattr(value, "__value__", None)  # of `type Name = ...`
    inside = held if held is not None else getattr(value, "__dict__", None) or {}
    return digest_of("named", known, walk.of(kind), walk.all("holds", [inside], lambda i: ""))


def is_plain(kind: type) -> bool:
    """Whether objects of a class are of the user's own, and are what their attributes are.

    Then an attribute that no code reads decides nothing.
    """
    return release_of(kind.__module__ or "") is None and all(
        _has_no_state_of_its_own(base) for base in kind.__mro__[:-1]
    )


def counted_attributes(owner: Any, uses: Uses) -> dict[str, Any]:
    """The attributes of a dataset that count, by name, as a fingerprinter with these uses takes them.

    If its class says itself what its state is, that counts instead, under names of its own.
    """
    kind = type(owner)
    if is_plain(kind):
        held = getattr(owner, "__dict__", {})
        return {name: value for name, value in held.items() if uses.counts(name, value, is_root=True)}
    said = {} if (own := getattr(kind, "__fingerprint__", None)) is None else {"__fingerprint__": own(owner)}
    if "__fingerprint__" in vars(kind):
        return said
    reduce = copyreg.dispatch_table.get(kind)
    reduced = owner.__reduce_ex__(2) if reduce is None else reduce(owner)
    if isinstance(reduced, str):
        return said | dict(getattr(owner, "__dict__", {}))
    made, arguments, state, *more = (*reduced, None, None, None, None)[:6]
    if type(state) is dict and all(type(name) is str for name in state):
        said |= state
        state = None
    return said | {"__getstate__": state, "__reduce_ex__": (made, *arguments, *more)}


def _has_no_state_of_its_own(base: type) -> bool:
    says = {"__getstate__", "__reduce__", "__reduce_ex__", "__getattribute__", "__fingerprint__"}
    return not says & vars(base).keys() and base not in (list, dict, tuple, set, frozenset)


def _seeds_its_generators(kind: type) -> bool:
    """Whether a class belongs to a library that gives its objects random generators.

    Its items are random whatever the seed, and are shared as augmented copies are.
    """
    return any(base.__module__.partition(".")[0] in _SEED_THEIR_GENERATORS for base in kind.__mro__)


def _state(walk: Walk, state: Any) -> bytes:
    """Attributes by name. The order in which they were set does not count."""
    if type(state) is tuple and len(state) == 2 and type(state[1]) is dict:  # of a class with slots
        return digest_of("slots", *(_state(walk, one) for one in state))
    if type(state) is dict and all(type(key) is str for key in state):
        return walk.named_values(state, ".{}")
    return walk.all("state", [state], "'s state".format)


def _file_of_array(walk: Walk, value: np.ndarray) -> tuple[Any, ...] | None:
    """File and place of an array that is mapped from a file; None for any other array."""
    if value.nbytes < LEAST_MAPPED or not is_in_foreign_memory(value):
        return None
    first = value.__array_interface__["data"][0]
    return _file_at(walk, first, value.itemsize, value.shape, value.strides)


def _file_of_tensor(walk: Walk, value: torch.Tensor) -> tuple[Any, ...] | None:
    """The same for a tensor."""
    if value.nbytes < LEAST_MAPPED_TENSOR:
        return None
    size = value.element_size()
    strides = [size * stride for stride in value.stride()]
    file = _file_at(walk, value.data_ptr(), size, value.shape, strides)
    return None if file is None else (*file, value.is_conj(), value.is_neg())


def _file_at(
    walk: Walk, first: int, size: int, shape: Sequence[int], strides: Sequence[int]
) -> tuple[Any, ...] | None:
    """The file from which elements of a size are mapped, the place of the first, and all strides."""
    ways = [(length - 1) * stride for length, stride in zip(shape, strides, strict=True)]
    low, high = first + sum(min(way, 0) for way in ways), first + sum(max(way, 0) for way in ways) + size
    place = walk.mappings.place_of(first, low, high)
    return None if place is None else (*place, *strides)


def _getter(walk: Walk, value: Any) -> bytes:
    """An ``operator.attrgetter`` or ``methodcaller``, which reads what it names."""
    make, arguments, *_ = value.__reduce__()
    for name in (*getattr(make, "args", ()), *arguments):
        if isinstance(name, str):
            walk.uses.note_getter(name)
    return _instance(walk, value)


ANY: Taker = _instance
TAKERS: tuple[tuple[Any, Taker], ...] = (
    (torch.Tensor, _tensor),
    (np.ndarray, _array),
    ((set, frozenset), _set),
    (pathlib.PurePath, _path),
    (types.MappingProxyType, lambda walk, value: walk.of(dict(value))),
    (LazyList, lambda walk, value: walk.of(value.as_list())),  # which is watched
    (logging.Logger, _logger),
    ((operator.attrgetter, operator.methodcaller), _getter),
    ((random.Random, torch.Generator), _generator),
    ((np.random.Generator, np.random.RandomState, np.random.BitGenerator), _generator),
    ((io.IOBase, Iterator), _changing),
)
