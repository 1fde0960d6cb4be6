"""What determines an object's items, in 32 bytes: its state, and the code that works on it.

Two datasets, transforms or functions with equal fingerprints make equal items, in whatever process:
nothing that goes in depends on addresses, hash seeds, line numbers, docstrings or the name of the
main module. Python's own release always goes in. Beyond that:

* **Data** by content: numbers, strings, bytes, containers (dicts in their order), tensors, arrays.
* **Functions of the user's own**: bytecode, constants, defaults, attributes, what the closure holds,
  and each global that the code names, wherever that leads.
* **Classes of the user's own**: everything in the body but annotations, and the bases.
* **Modules of the user's own**: the attribute that is used, or else the file.
* **What is installed**, or the standard library's: by name and release, never by code.
* **Other objects**: class and state, as pickling would take them (``__getstate__``, ``__reduce_ex__``),
  but nothing is made anew. So values of ``cached_property``, and other caches that an object keeps
  in attributes, are state like any other. ``lru_cache`` is seen through.

An object may say for itself what it stands for::

    class Dataset:
        def __fingerprint__(self):  # instead of its state; the class goes in all the same
            return self.root, self.version

What lies outside the process (files that are read, environment variables, a random state) is not seen.
"""

from __future__ import annotations

import copyreg
import dis
import functools
import hashlib
import importlib.machinery
import importlib.metadata
import importlib.util
import io
import logging
import marshal
import os
import pathlib
import random
import sys
import types
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from itertools import chain
from typing import Any

import numpy as np
import torch

from seneca.errors import NotFingerprinted

__all__ = ["fingerprint"]

_FORMAT = "seneca fingerprint 1"  # raise it when equal objects come to have other fingerprints
_MAIN = ("__main__", "__mp_main__")  # the second is the first's name in a spawned process
_STDLIB = os.path.dirname(os.__file__)

# marshal writes these, version 2, by value alone; later versions tell which strings are interned.
_LEAVES = frozenset({int, float, complex, bool, str, bytes, type(None)})
_CONTAINERS = frozenset({list, tuple, dict})
_LEVELS = 4  # of containers that are tried as plain data; deeper ones are walked

# A class's attributes that say how or where it was written, or that change while it is used.
_NOT_OF_THE_CLASS = frozenset(
    (
        *("__module__", "__qualname__", "__doc__", "__dict__", "__weakref__", "__firstlineno__"),
        *("__static_attributes__", "__slotnames__", "__annotations__", "__annotations_cache__"),
        *("__annotate__", "__annotate_func__", "__orig_bases__", "__parameters__", "__abstractmethods__"),
        *("_abc_impl", "_member_map_", "_value2member_map_", "_hashable_values_", "_unhashable_values_"),
        "_unhashable_values_map_",
    )
)
_NOT_OF_THE_CODE = frozenset({"__name__", "__package__", "__spec__", "__loader__", "__builtins__"})
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: not one of an extension's static types


def fingerprint(value: Any, *, files: bool = True, name: str = "value") -> bytes:
    """Find out what determines the items of a dataset, or the results of a transform or function.

    Reads the object only: calls none of its methods but ``__fingerprint__``, ``__getstate__`` and
    ``__reduce_ex__``, and of those no more than pickling it would.

    Args:
        value: Any object.
        files: Whether to read the source of the user's own modules that the code uses as a whole
            (``import helpers`` inside a function, say); False takes those by name.
        name: What messages call the object.

    Returns:
        32 bytes; equal for equal objects, in every process of one release of Python.

    Raises:
        NotFingerprinted: The object holds something whose state cannot be seen, or changes as
            items are made: a lock, an open file, an iterator, a random generator.

    Example:
        >>> fingerprint(lambda x: x + 1) == fingerprint(lambda x: x + 1)
        True
        >>> fingerprint(lambda x: x + 1) == fingerprint(lambda x: x + 2)
        False
    """
    try:
        return _digest(f"{_FORMAT}, {sys.implementation.name} {sys.hexversion:x}", _Walk(files).of(value))
    except _Fault as fault:
        where, why = name + "".join(reversed(fault.path)), fault.why
    except RecursionError:
        where, why = name, "is nested too deep"
    raise NotFingerprinted(where, why)


class _Fault(Exception):
    """On its way up to :func:`fingerprint`, collecting the path from the end."""

    def __init__(self, why: str) -> None:
        self.why = why
        self.path: list[str] = []


def _digest(kind: str, *parts: Any) -> bytes:
    """Parts are digests, of 32 bytes each; or there is one, of any length, at the end."""
    state = hashlib.sha256(kind.encode("utf-8", "surrogatepass") + b"\0")
    for part in parts:
        state.update(part)
    return state.digest()


class _Walk:
    """Digests the values of one object, each once.

    A value inside itself is its distance from there; and as what is inside depends on the way in,
    nothing is walked in an order that could differ between processes.
    """

    def __init__(self, files: bool) -> None:
        self._files = files
        self._done: MutableMapping[int, bytes] = {}
        self._alive: list[Any] = []  # so that no id is given again
        self._open: dict[int, int] = {}
        self._codes: dict[types.CodeType, tuple[bytes, list[tuple[str, ...]], list[tuple[str, int]]]] = {}

    def of(self, value: Any) -> bytes:
        if type(value) in _LEAVES:
            return _digest("plain", marshal.dumps(value, 2))
        key = id(value)
        if key in self._done:
            return self._done[key]
        if key in self._open:
            return _digest("cycle", str(len(self._open) - self._open[key]).encode())
        self._open[key] = len(self._open)
        try:
            digest = self._container(value) if type(value) in _CONTAINERS else self._object(value)
        finally:
            del self._open[key]
        self._done[key] = digest
        self._alive.append(value)
        return digest

    def _all(self, kind: str, values: Iterable[Any], steps: Callable[[int], str]) -> bytes:
        """Values in their order; ``steps`` names the way to one."""
        digests: list[bytes] = []
        try:
            for value in values:
                digests.append(self.of(value))
        except _Fault as fault:
            fault.path.append(steps(len(digests)))
            raise
        return _digest(kind, *digests)

    def _container(self, value: Any) -> bytes:
        if _is_plain(value):
            return _digest("plain", marshal.dumps(value, 2))
        if type(value) is not dict:
            return self._all(type(value).__name__, value, "[{}]".format)
        keys = list(value)
        return self._all(
            "dict",
            chain(keys, value.values()),
            lambda i: f"'s key {keys[i]!r:.80}" if i < len(keys) else f"[{keys[i - len(keys)]!r:.80}]",
        )

    def _object(self, value: Any) -> bytes:
        kind = type(value)
        if (own := getattr(kind, "__fingerprint__", None)) is not None:
            return self._all("own", (kind, own(value)), ("'s class", ".__fingerprint__()").__getitem__)
        return _taker(kind)(self, value)  # type: ignore[arg-type]

    # Code.

    def _function(self, value: types.FunctionType) -> bytes:
        if named := _by_name(value):
            return named
        code, uses, imports = self._code(value.__code__)
        parts = [code, self._all("defaults", value.__defaults__ or (), lambda i: f"'s default {i}")]
        for mapping, what in ((value.__kwdefaults__ or {}, "default"), (vars(value), "attribute")):
            parts.append(self._named_values(mapping, f"'s {what} `{{}}`"))
        names = value.__code__.co_freevars
        cells = [_inside(cell) for cell in value.__closure__ or ()]
        parts.append(self._all("closure", cells, lambda i: f"'s closure variable `{names[i]}`"))
        if _release(value.__globals__.get("__name__") or "") is None:
            parts.append(self._globals(value, uses, imports))
        return _digest("function", *parts)

    def _code(self, code: types.CodeType) -> tuple[bytes, list[tuple[str, ...]], list[tuple[str, int]]]:
        """A code object's digest; the globals it names, each with attributes asked of it; its imports."""
        if code in self._codes:
            return self._codes[code]
        uses: list[tuple[str, ...]] = []
        imports: list[tuple[str, int]] = []
        text: list[str] = []
        constants: list[bytes] = []
        steps = [step for step in dis.get_instructions(code) if step.opname != "EXTENDED_ARG"]
        for i, step in enumerate(steps):
            detail: Any = step.arg
            if isinstance(step.argval, types.CodeType):
                inner, inner_uses, inner_imports = self._code(step.argval)
                constants.append(inner)
                uses += inner_uses
                imports += inner_imports
                detail = "code"
            elif step.opcode in dis.hasconst:
                after = steps[i + 1] if i + 1 < len(steps) else step
                if after.opname != "STORE_NAME" or after.argval not in _NOT_OF_THE_CLASS:
                    unknown = step.opname == "KW_NAMES"  # to the dis of Python 3.11
                    constants.append(self.of(code.co_consts[step.arg or 0] if unknown else step.argval))
                detail = "constant"
            elif isinstance(step.argval, str):
                detail = step.argval
            text.append(f"{step.opname} {detail}\n")
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"):
                end = i + 1
                while end < len(steps) and steps[end].opname in ("LOAD_ATTR", "LOAD_METHOD"):
                    end += 1
                uses.append(tuple(s.argval for s in steps[i:end]))
            elif step.opname == "IMPORT_NAME":
                imports.append((step.argval, steps[i - 2].argval))
        shape = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags & 0xFFFF)
        names = (code.co_varnames, code.co_cellvars, code.co_freevars)
        jumps = getattr(code, "co_exceptiontable", b"")
        parts = [self.of(part) for part in (shape, names, jumps, "".join(text))]
        self._codes[code] = _digest("code", *parts, *constants), uses, imports
        return self._codes[code]

    def _globals(
        self, value: types.FunctionType, uses: list[tuple[str, ...]], imports: list[tuple[str, int]]
    ) -> bytes:
        found: dict[str, Any] = {}
        for name, *attributes in uses:
            scope = value.__globals__ if name in value.__globals__ else value.__builtins__  # type: ignore[attr-defined]
            if name in _NOT_OF_THE_CODE or name not in scope:
                continue
            used, way = scope[name], name
            while (
                isinstance(used, types.ModuleType)
                and _release(used.__name__) is None
                and attributes
                and attributes[0] in vars(used)
            ):
                way += f".{attributes[0]}"
                used = vars(used)[attributes.pop(0)]
            found[way] = used
        parts = [self._named_values(found, "'s global `{}`")]
        for name, level in dict.fromkeys(imports):
            package = value.__globals__.get("__package__")
            if level and not package:
                raise _Fault(f" imports `{'.' * level}{name}`, but its module is in no package")
            parts.append(self._module_named(importlib.util.resolve_name("." * level + name, package)))
        return _digest("globals", *parts)

    def _named_values(self, values: dict[str, Any], step: str) -> bytes:
        """Values by name, in the order of the names."""
        if set(map(type, values.values())) <= _LEAVES:
            return _digest("plain named", marshal.dumps(sorted(values.items()), 2))
        names = sorted(values)
        ways = self.of(tuple(names))
        return _digest(
            "named", ways, self._all("values", map(values.get, names), lambda i: step.format(names[i]))
        )

    def _class(self, value: type) -> bytes:
        if named := _by_name(value):
            return named
        if not value.__flags__ & _HEAP_TYPE:
            return self._name_in(value.__module__, value.__qualname__)
        body = {key: item for key, item in vars(value).items() if key not in _NOT_OF_THE_CLASS}
        bases = self._all("bases", (type(value), *value.__bases__), lambda i: f"'s base {i}")
        return _digest("class", self.of(value.__qualname__), bases, self._named_values(body, ".{}"))

    def _method(self, value: Any) -> bytes:
        """A method and what it is bound to; but ``random.randint`` is a name, whatever it is bound to."""
        owner, name = value.__self__, value.__name__
        for module in (value.__module__, type(owner).__module__):
            if _release(module or "") is not None and getattr(sys.modules.get(module), name, None) == value:
                return self._name_in(module, name)
        if value.__module__ and (owner is None or isinstance(owner, types.ModuleType)):
            return self._name_in(value.__module__, name)  # of an extension of the user's own
        function = value.__func__ if isinstance(value, types.MethodType) else name
        return self._all("method", (function, owner), ("", "'s object").__getitem__)

    def _name_in(self, module: str, name: str) -> bytes:
        return _digest("name", self._module_named(module), self.of(name))

    def _module_named(self, name: str) -> bytes:
        if (release := _release(name)) is not None:
            return _digest("module", f"{release} {name}".encode())
        if not self._files or (path := _file(name)) is None:
            return _digest("module's name", (_MAIN[0] if name in _MAIN else name).encode())
        try:
            with open(path, "rb") as file:
                return _digest("module's file", file.read())
        except OSError as error:
            raise _Fault(f"uses the module {name}, whose file cannot be read ({error})") from None

    def _parts(self, value: Any, *names: str) -> bytes:
        return _digest(
            "parts", self.of(type(value)), self._named_values({n: getattr(value, n) for n in names}, ".{}")
        )

    # Data.

    def _tensor(self, value: torch.Tensor) -> bytes:
        kind = type(value)
        with torch._C.DisableTorchFunctionSubclass():
            dense = value.is_cpu and value.layout is torch.strided and not value.is_nested
            hidden = copyreg._slotnames(kind)  # type: ignore[attr-defined]
            hidden = hidden or kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__
            if not dense or value.is_quantized or hidden:
                raise _Fault(f"is a {_title(kind)} on {value.device}; only dense ones on the CPU can be seen")
            plain = value.detach().as_subclass(torch.Tensor).resolve_conj().resolve_neg()
            about = (str(value.dtype), tuple(value.shape), value.requires_grad)
            content = plain.contiguous().as_strided((plain.numel(),), (1,)).view(torch.uint8).numpy()
        parts = self.of(kind), self.of(about), self._state(vars(value))
        return _digest("tensor", *parts, content)

    def _array(self, value: np.ndarray) -> bytes:
        if type(value) not in (np.ndarray, np.memmap):  # a masked one, say, has more to it
            return self._instance(value)
        about = self.of(type(value)), self.of(value.dtype), self.of(value.shape)
        if value.dtype.names:  # field by field, as what lies between fields is anyone's
            fields = [value[name].view(np.ndarray) for name in value.dtype.names]
            return _digest("fields", *about, self._all("arrays", fields, "'s field {}".format))
        if value.dtype.hasobject:
            return _digest("objects", *about, self._all("values", value.ravel().tolist(), ".flat[{}]".format))
        content = np.ascontiguousarray(value).reshape(-1)
        return _digest("array", *about, content.view(np.uint8) if content.nbytes else b"")

    def _path(self, value: pathlib.PurePath) -> bytes:
        return _digest("path", self.of(type(value)), self.of(str(value)))

    def _set(self, value: set[Any] | frozenset[Any]) -> bytes:
        """Elements in the order of their digests; each is walked as if it were the first."""
        about = self.of(type(value)), self._state(getattr(value, "__dict__", {}))
        if set(map(type, value)) == {str}:
            return _digest("strings", *about, self.of(sorted(value)))
        before = self._done
        digests = []
        for element in value:
            self._done = ChainMap({}, before)
            digests.append(self._all("element", [element], "'s element".format))
        self._done = before
        return _digest("set", *about, *sorted(digests))

    def _changing(self, value: Any) -> bytes:
        if isinstance(value, Iterator) and _release(type(value).__module__) is None:
            return self._instance(value)  # of a class of the user's own that has a __next__
        raise _Fault(f"is a {_title(type(value))}, whose state changes as items are made")

    def _instance(self, value: Any) -> bytes:
        kind = type(value)
        if any(base.__module__ in ("ctypes", "_ctypes") for base in kind.__mro__):
            raise _Fault(f"is a {_title(kind)}, memory whose meaning cannot be seen")
        reduce = copyreg.dispatch_table.get(kind)
        try:
            reduced: Any = value.__reduce_ex__(2) if reduce is None else reduce(value)
        except Exception as error:  # whatever the object's own code raises
            raise _Fault(f"is a {_title(kind)}, whose state cannot be seen ({error})") from None
        if isinstance(reduced, str):  # what is known by its name alone
            homes = (getattr(value, "__module__", None), kind.__module__, *sorted(sys.modules))
            home = next((module for module in homes if _found(module, reduced) is value), None)
            if home is None:
                raise _Fault(f"is a {_title(kind)}, known by the name {reduced} that it is not found under")
            return self._name_in(home, f"{_title(kind)} {reduced}")
        make, arguments, state, elements, items, setter = (tuple(reduced) + (None,) * 4)[:6]
        steps = ("'s maker", *("'s class" if isinstance(a, type) else "" for a in arguments))
        parts = [self._all("made", (make, *arguments), steps.__getitem__), self._state(state)]
        for what, extra in (("elements", elements), ("items", items)):
            if extra is not None:
                parts.append(self._all(what, [list(extra)], lambda i: ""))
        return _digest("instance", *parts, *([] if setter is None else [self.of(setter)]))

    def _state(self, state: Any) -> bytes:
        """Attributes by name; the order in which they were set does not count."""
        if type(state) is tuple and len(state) == 2 and type(state[1]) is dict:  # of a class with slots
            return _digest("slots", *map(self._state, state))
        if type(state) is dict and all(type(key) is str for key in state):
            return self._named_values(state, ".{}")
        return self._all("state", [state], "'s state".format)


# The first that fits counts.
_TAKERS: tuple[tuple[Any, Callable[[_Walk, Any], bytes]], ...] = (
    (types.FunctionType, _Walk._function),
    (type, _Walk._class),
    ((types.MethodType, types.BuiltinMethodType), _Walk._method),
    (types.ModuleType, lambda walk, value: walk._module_named(value.__name__)),
    (types.CodeType, lambda walk, value: walk._code(value)[0]),
    (torch.Tensor, _Walk._tensor),
    (np.ndarray, _Walk._array),
    ((set, frozenset), _Walk._set),
    (pathlib.PurePath, _Walk._path),
    (types.MappingProxyType, lambda walk, value: walk.of(dict(value))),
    (functools._lru_cache_wrapper, lambda walk, value: _by_name(value) or walk.of(value.__wrapped__)),
    (functools.cached_property, lambda walk, value: walk._parts(value, "func")),
    ((staticmethod, classmethod), lambda walk, value: walk._parts(value, "__func__")),
    (functools.partial, lambda walk, value: walk._parts(value, "func", "args", "keywords", "__dict__")),
    (property, lambda walk, value: walk._parts(value, "fget", "fset", "fdel")),
    (logging.Logger, lambda walk, value: walk.of(logging.Logger)),  # takes note of items, makes none
    ((io.IOBase, Iterator), _Walk._changing),
    ((random.Random, torch.Generator), _Walk._changing),
    ((np.random.Generator, np.random.RandomState, np.random.BitGenerator), _Walk._changing),
)


@functools.cache
def _taker(kind: type) -> Callable[[_Walk, Any], bytes]:
    return next((take for kinds, take in _TAKERS if issubclass(kind, kinds)), _Walk._instance)


def _is_plain(value: Any) -> bool:
    """Whether a container holds nothing but leaves, in lists, tuples and dicts a few levels deep."""
    level: list[Any] = [value]
    for _ in range(_LEVELS):
        values = [part.values() for part in level if type(part) is dict]
        inner = list(chain.from_iterable(chain(level, values)))
        kinds = set(map(type, inner))
        if kinds <= _LEAVES:
            return True
        if not kinds <= _LEAVES | _CONTAINERS:
            return False
        level = [part for part in inner if type(part) in _CONTAINERS]
    return False


def _by_name(value: Any) -> bytes | None:
    """What is installed and found under its own name; nothing more has to be known of it."""
    module, name = value.__module__, value.__qualname__
    if (release := _release(module or "")) is None or _found(module, name) is not value:
        return None
    return _digest("installed", f"{release} {module}.{name}".encode())


def _found(module: str | None, name: str) -> Any:
    """What a loaded module has under a name."""
    found = sys.modules.get(module or "")
    for part in name.split("."):
        found = getattr(found, "__dict__", {}).get(part)
    return found


@functools.cache
def _release(module: str) -> str | None:
    """Of what release an installed module is; None of the user's own."""
    top = module.partition(".")[0]
    if module in _MAIN or not top:
        return None
    if top == __name__.partition(".")[0]:  # Seneca, though it may be run from its sources
        return f"{top}=={sys.modules[top].__version__}"
    path = _file(module)
    if path is None:
        return "python" if top in sys.stdlib_module_names else None
    if {"site-packages", "dist-packages"} & set(path.split(os.sep)):
        try:
            return f"{top}=={importlib.metadata.version(top)}"
        except importlib.metadata.PackageNotFoundError:
            names = sorted(set(importlib.metadata.packages_distributions().get(top, ())))
            return " ".join(f"{name}=={importlib.metadata.version(name)}" for name in names) or top
    inside = path.startswith(_STDLIB) or "lib-dynload" in path
    return "python" if inside and top in sys.stdlib_module_names else None


def _file(module: str) -> str | None:
    """The file of a module or else of a package around it; nothing is imported to find it."""
    if not module:
        return None
    loaded = sys.modules.get(module)
    if (path := getattr(loaded, "__file__", None)) is not None:
        return path
    parent, _, _ = module.rpartition(".")
    try:
        if not parent:
            spec = importlib.util.find_spec(module)
        else:
            around = _file(parent)
            folder = [os.path.dirname(around)] if around is not None else None
            spec = importlib.machinery.PathFinder.find_spec(module, folder)
    except (ImportError, ValueError):
        spec = None
    if spec is not None and spec.has_location:
        return spec.origin
    return _file(parent)


def _inside(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not yet filled
        return types.CellType


def _title(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
