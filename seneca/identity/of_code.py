"""How code is walked: functions, classes, methods, modules, and the values that they name."""

from __future__ import annotations

import dataclasses
import functools
import importlib.machinery
import importlib.util
import os
import sys
import threading
import types
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any

from seneca._runtime.packages import MAIN, file_of, release_of
from seneca.identity.bytecode import Chain, instructions_of
from seneca.identity.modules import sources_of
from seneca.identity.names import NOTHING, Import, Named, named_by
from seneca.identity.namespaces import MISSING, follow, is_model
from seneca.identity.patched import is_a_stranger, is_code, strangers_in
from seneca.identity.plain import CONTAINERS, LEAVES, plain
from seneca.identity.used import Waiting, name_of_method
from seneca.identity.walk import SENECA, Taker, Walk, content_of, digest_of, home_of, title_of

__all__ = ["TAKERS", "found_in", "name_in", "named_by_texts", "reached_by"]

# Attributes of a class that say how or where it was written, or that change during use.
_NOT_OF_THE_CLASS = frozenset(
    (
        *("__module__", "__qualname__", "__doc__", "__dict__", "__weakref__", "__firstlineno__"),
        *("__static_attributes__", "__slotnames__", "__annotations__", "__annotations_cache__"),
        *("__annotate__", "__annotate_func__", "__orig_bases__", "__parameters__", "__abstractmethods__"),
        *("_abc_impl", "_member_map_", "_value2member_map_", "_hashable_values_", "_unhashable_values_"),
        *("_unhashable_values_map_", "__classdictcell__", "__classcell__", "__type_params__"),
    )
)
_NOT_OF_THE_CODE = frozenset({"__name__", "__package__", "__spec__", "__loader__", "__builtins__"})
_NOT_OF_A_DESCRIPTOR = frozenset({"attrname", "lock"})
_HAS_CONSTANT = frozenset({"LOAD_CONST", "RETURN_CONST", "KW_NAMES", "LOAD_SMALL_INT"})
_OF_THE_INTERPRETER = frozenset(  # what Python keeps there for itself; modules count by their files
    {
        ("sys", name)
        for name in ("modules", "path", "path_importer_cache", "meta_path", "path_hooks", "warnoptions")
    }
    | {("os", "environ"), ("os", "environb")}
)
_FIELDS = "__dataclass_fields__"
_LOCKS = (type(threading.Lock()), type(threading.RLock()))
LONGEST_NAME = 200  # of what a text may name
MOST_TOPS = 256  # modules that are searched for
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: not one of an extension's static types


def _function(walk: Walk, value: types.FunctionType) -> bytes:
    if named := _by_name(walk, value):
        return named
    if (registry := _registry_of(value)) is not None:
        return walk.all("single dispatch", [registry], lambda i: "'s registry")
    code = _code(walk, value.__code__)
    module = value.__globals__.get("__name__") or ""
    release = release_of(module)
    is_own = release is None
    if release is not None:
        _note(walk, module, release)
    if is_own:
        walk.modules.add(module)
        walk.functions.setdefault(f"{value.__qualname__}", value.__code__)
    # What installed code reads is not noted. It may be a decorator, with the user's method in its closure.
    named_here = _named_by(value.__code__) if is_own else NOTHING
    names = walk.methods.get(id(value)) if walk.reads_only else None
    if names is None:
        walk.uses.note(named_here)
    elif not walk.uses.note_method(names, named_here, value):
        return digest_of("method", code)  # what it names counts if it comes to run
    return digest_of("function", code, reached_by(walk, value))


def _defaults(function: types.FunctionType) -> dict[str, Any]:
    """The defaults of a function's parameters, by name."""
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    values = function.__defaults__ or ()
    by_place = dict(zip(names[len(names) - len(values) :], values, strict=True))
    return {**by_place, **(function.__kwdefaults__ or {})}


def reached_by(walk: Walk, value: types.FunctionType) -> bytes:
    """The digest of all that a function reaches: its defaults, closure, globals and imports."""
    named = _named_by(value.__code__)
    with walk.expecting(()):
        parts = [walk.all("defaults", value.__defaults__ or (), lambda i: f"'s default {i}")]
        for mapping, what in ((value.__kwdefaults__ or {}, "default"), (vars(value), "attribute")):
            parts.append(walk.named_values(mapping, f"'s {what} `{{}}`"))
        _name_parts(walk, f"the default {{}} of {value.__qualname__}", _defaults(value))
        parts += [_closure(walk, value, named)] if value.__closure__ else []
        if release_of(value.__globals__.get("__name__") or "") is None:
            parts.append(_globals(walk, value, named))
    return digest_of("reached", *parts)


def _closure(walk: Walk, value: types.FunctionType, named: Named) -> bytes:
    """The digest of the variables of a closure; of a namespace, what is read from it."""
    walk.watch.cells(value.__closure__ or ())
    held = dict(zip(value.__code__.co_freevars, map(_inside, value.__closure__ or ()), strict=True))
    found: dict[str, Any] = {}
    for name, *chain in named.cells:
        _follow(walk, name, held[name], tuple(chain), found)
    _name_parts(walk, f"{{}} of {value.__qualname__}", found)
    return walk.named_values(found, "'s closure variable `{}`")


def _name_parts(walk: Walk, name: str, found: Mapping[str, Any]) -> None:
    """Note by which names people know these values. ``name`` is a format, for that of each."""
    for own, value in found.items():
        walk.parts.setdefault(name.format(own), value.value if type(value) is Behind else value)


def _registry_of(value: types.FunctionType) -> dict[str, Any] | None:
    """The functions of a ``functools.singledispatch``, by the titles of their classes; None: no such."""
    registry = getattr(value, "registry", None)
    if not isinstance(registry, types.MappingProxyType) or not hasattr(value, "dispatch"):
        return None
    return {title_of(kind): function for kind, function in registry.items()}


def _code(walk: Walk, code: types.CodeType) -> bytes:
    """The digest of what a code object does. Line numbers and docstrings do not count."""
    if code in walk.codes:
        return walk.codes[code]
    text: list[str] = []
    constants: list[bytes] = []
    steps = instructions_of(code)
    walk.in_code += 1
    for i, step in enumerate(steps):
        detail: Any = step.arg
        name = "LOAD_CONST" if step.opname == "LOAD_SMALL_INT" else step.opname
        if isinstance(step.argval, types.CodeType):
            constants.append(_code(walk, step.argval))
            detail = "code"
        elif step.opname in _HAS_CONSTANT:
            after = steps[i + 1] if i + 1 < len(steps) else step
            if after.opname != "STORE_NAME" or after.argval not in _NOT_OF_THE_CLASS:
                unknown = step.opname == "KW_NAMES"  # Python 3.11's dis does not resolve it
                constants.append(walk.of(code.co_consts[step.arg or 0] if unknown else step.argval))
            detail = "constant"
        elif isinstance(step.argval, str):
            detail = step.argval
        text.append(f"{name} {detail}\n")
    shape = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags & 0xFFFF)
    names = (code.co_varnames, code.co_cellvars, code.co_freevars)
    jumps = getattr(code, "co_exceptiontable", b"")
    parts = [walk.of(part) for part in (shape, names, jumps, "".join(text))]
    walk.in_code -= 1
    walk.codes[code] = digest_of("code", *parts, *constants)
    return walk.codes[code]


def _globals(walk: Walk, function: types.FunctionType, named: Named) -> bytes:
    """The digest of everything outside itself that a function of the user's names."""
    walk.words |= named.words
    walk.variables |= named.variables
    walk.texts |= named.texts
    found: dict[str, Any] = {}
    scope = function.__globals__
    builtins = function.__builtins__  # type: ignore[attr-defined]
    for name, *attributes in named.globals:
        here = scope if name in scope else builtins
        if name not in _NOT_OF_THE_CODE and name in here:
            _resolve(walk, name, here[name], tuple(attributes), found)
    walk.watch.names(scope, tuple(name for name, *_ in named.globals if name in scope))
    before = walk.random_sets
    parts = [walk.named_values(found, "'s global `{}`")]
    if walk.random_sets > before:
        walk.note_sets(found, named)
    module = scope.get("__name__") or ""
    prefix = "" if module in MAIN else f"{module}."
    _name_parts(walk, f"the global {prefix}{{}}", found)
    if named.imports:
        parts.append(_imports(walk, named, function))
    return digest_of("globals", *parts)


def _resolve(walk: Walk, way: str, value: Any, attributes: Chain, found: dict[str, Any]) -> None:
    """Follow attributes through modules and namespaces. The value at the end counts."""
    while isinstance(value, types.ModuleType) and attributes:
        name, *rest = attributes
        if name not in vars(value):
            break
        inner = vars(value)[name]
        release = release_of(value.__name__)
        if release is None:
            walk.watch.names(vars(value), (name,))
        elif not isinstance(inner, (types.ModuleType, type)) and not is_a_stranger(inner):
            if not is_code(inner) and not _is_not_set(value.__name__, name, inner):
                walk.watch.names(vars(value), (name,))
                found[f"{way}.{name}"] = Behind(inner)  # a value that a program may have set
            break
        way, value, attributes = f"{way}.{name}", inner, tuple(rest)
    _follow(walk, way, value, attributes, found)


def _follow(walk: Walk, way: str, value: Any, chain: Chain, found: dict[str, Any]) -> None:
    inner, left = follow(value, chain)
    if left != chain:
        walk.watch_namespace(value)
        way += "".join(s if s.startswith("[") else f".{s}" for s in chain[: len(chain) - len(left)])
    found[way] = None if inner is MISSING else inner


class Behind:
    """A value that an installed module holds. It is walked leniently.

    Args:
        value: The value.
    """

    def __init__(self, value: Any) -> None:
        self.value = value


def _is_not_set(module: str, name: str, value: Any) -> bool:
    """Whether no program sets a value in an installed module: in Python's own, programs set plain data."""
    if module.partition(".")[0] == SENECA:
        return True
    if release_of(module) != "python":
        return False
    is_plain = type(value) in LEAVES or (type(value) in CONTAINERS and plain(value) is not None)
    return (module, name) in _OF_THE_INTERPRETER or not is_plain


def _imports(walk: Walk, named: Named, function: types.FunctionType) -> bytes:
    """The digest of what a function imports when it runs."""
    package = function.__globals__.get("__package__")
    found: dict[str, Any] = {}
    parts: list[bytes] = []
    for one in named.imports:
        if one.level and not package:
            raise walk.fault(f"imports `{'.' * one.level}{one.module}`, but its module is in no package")
        module = importlib.util.resolve_name("." * one.level + one.module, package)
        parts += _import(walk, module, one, found)
    _name_parts(walk, "{}", found)
    return digest_of("imports", *parts, walk.named_values(found, "'s import `{}`"))


def _import(walk: Walk, module: str, one: Import, found: dict[str, Any]) -> list[bytes]:
    """Put the imported value into ``found``. Return digests of modules that are not loaded."""
    uses = one.uses or ((),)
    value: Any = sys.modules.get(module)
    way = f"import {module}"
    if value is not None and one.attribute is not None:
        way = f"from {module} import {one.attribute}"
        inner = sys.modules.get(f"{module}.{one.attribute}")
        if release_of(module) is None:
            walk.watch.names(vars(value), (one.attribute,))
        value = vars(value).get(one.attribute, inner)
        if value is None and release_of(module) is not None:
            value = sys.modules[module]  # the module may make it on demand
        elif value is None and one.attribute not in vars(sys.modules[module]):
            return [_unloaded(walk, f"{module}.{one.attribute}")]
    elif value is None:
        name = module if one.attribute is None else f"{module}.{one.attribute}"
        return [_unloaded(walk, name)]
    for use in uses:
        _resolve(walk, way, value, use, found)
    return []


def _unloaded(walk: Walk, name: str) -> bytes:
    """A module that is not yet loaded, or a name in one: by its files."""
    if release_of(name) is not None:
        return _module_named(walk, name)
    try:
        files = list(sources_of(name)) or list(sources_of(name.rpartition(".")[0]))
    except OSError as error:
        raise walk.fault(f"imports {name}, whose file cannot be read ({error})") from None
    if not files:
        return digest_of("module's name", name.encode())
    walk.unloaded[name] = digest_of("sources", *(digest_of("source", source) for _, source in files))
    return walk.unloaded[name]


def named_by_texts(walk: Walk, texts: set[str]) -> bytes:
    """The digest of the user's own code that texts name, as ``package.module.name``."""
    found: dict[str, bytes] = {}
    tops: set[str] = set()
    for text in sorted(one.replace(":", ".", 1) for one in texts):  # an entry point is "module:name"
        if len(text) > LONGEST_NAME or not _is_name(text):
            continue
        top = text.partition(".")[0]
        tops.add(top)
        if len(tops) > MOST_TOPS or not _is_users_module(top):
            continue
        module = next((m for m in _parents(text) if m in sys.modules), None)
        value = sys.modules.get(module or "")
        for part in text[len(module or "") + 1 :].split(".") if module is not None else ():
            value = vars(value).get(part) if hasattr(value, "__dict__") else None
        found[text] = _unloaded(walk, text) if value is None else walk.of(value)
    return digest_of("by texts", *(part for name in found for part in (walk.of(name), found[name])))


@functools.lru_cache(4096)
def _is_users_module(top: str) -> bool:
    return top not in MAIN and release_of(top) is None and file_of(top) is not None


def _is_name(text: str) -> bool:
    return all(part.isidentifier() for part in text.split("."))


def _parents(name: str) -> Iterator[str]:
    """A dotted name, and the names of the packages around it."""
    while name:
        yield name
        name = name.rpartition(".")[0]


def _class(walk: Walk, value: type) -> bytes:
    if named := _by_name(walk, value):
        replaced = {name: one for name, one in vars(value).items() if is_a_stranger(one)}
        return digest_of("class", named, walk.named_values(replaced, ".{}")) if replaced else named
    if not value.__flags__ & _HEAP_TYPE:
        return name_in(walk, value.__module__, value.__qualname__)
    own = _of_model(value) if is_model(value) else vars(value)
    body = {key: item for key, item in own.items() if key not in _NOT_OF_THE_CLASS}
    walk.watch.mapping(vars(value))
    methods: dict[str, Any] = {}
    functions: dict[str, types.FunctionType] = {}
    is_of_root = walk.root is not None and issubclass(walk.root, value)
    for name, item in body.items():
        for function in functions_in(item):
            walk.methods.setdefault(id(function), set()).add(name_of_method(name, is_of_root=is_of_root))
            methods[name], functions[name] = item, function
    for base in value.__mro__[1:-1]:
        if release_of(base.__module__ or "") is not None:
            walk.uses.note_installed(base, functions, is_root=value is walk.root)
    around = (type(value), *value.__bases__)
    with walk.expecting(around):
        bases = walk.all("bases", around, lambda i: f"'s base {i}")
    with walk.expecting(function for item in methods.values() for function in functions_in(item)):
        parts = [walk.of(value.__qualname__), bases, walk.named_values(methods, ".{}")]
    with walk.expecting(()):
        parts += [_values_of_class(walk, value, {k: body[k] for k in body.keys() - methods.keys()})]
        parts += [_annotations(walk, value)]
    _name_parts(
        walk, f"{value.__qualname__}.{{}}", {k: v for k, v in methods.items() if not k.startswith("__")}
    )
    if issubclass(value, Enum):
        parts.append(_members(walk, value))
    if _is_of_an_extension(value.__module__):
        parts.append(_module_named(walk, value.__module__))
    return digest_of("class", *parts)


def _of_model(kind: type) -> dict[str, Any]:
    """The values of a pydantic class, without what pydantic has compiled from it, which names addresses.

    Validators and serializers, which pydantic calls, are in ``__pydantic_decorators__``.
    """
    found = {
        name: one
        for name, one in vars(kind).items()
        if name != "__signature__" and (not name.startswith("__pydantic_") or name == "__pydantic_fields__")
    }
    decorators: Any = vars(kind).get("__pydantic_decorators__")  # None in pydantic 1
    for kinds in () if decorators is None else dataclasses.fields(decorators):
        for name, one in getattr(decorators, kinds.name).items():
            found[f"{kinds.name} {name}"] = [getattr(one.func, "__func__", one.func), one.info]
    return found


def _values_of_class(walk: Walk, kind: type, values: dict[str, Any]) -> bytes:
    """The digest of what a class holds besides methods. Plain data counts where it is read."""
    waits: dict[str, Any] = {}
    rest = dict(values)
    if walk.reads_only and not issubclass(kind, (Enum, tuple)):
        # An object has a dataclass's fields itself. Their defaults count with the constructor, if that runs.
        fields = rest.get(_FIELDS, {})
        rest = {name: one for name, one in rest.items() if name not in fields}
        waits = {k: v for k, v in rest.items() if k == _FIELDS or (not k.startswith("__") and _is_data(v))}
        rest = {name: one for name, one in rest.items() if name not in waits}
    _name_parts(walk, f"{kind.__qualname__}.{{}}", {k: v for k, v in rest.items() if not k.startswith("__")})
    waiting = walk.wait(Waiting(waits, kind.__qualname__)) if waits else b""
    return digest_of("values", walk.named_values(rest, ".{}"), waiting)


def _is_data(value: Any) -> bool:
    return type(value) in LEAVES or (type(value) in CONTAINERS and plain(value) is not None)


def _annotations(walk: Walk, value: type) -> bytes:
    """The annotations of a class, which code may read as a schema. They are not evaluated."""
    late = vars(value).get("__annotate_func__") or vars(value).get("__annotate__")
    if isinstance(late, types.FunctionType):  # from Python 3.14 on: with the names that it refers to
        named = _named_by(late.__code__)
        found = {name: late.__globals__[name] for name, *_ in named.globals if name in late.__globals__}
        return digest_of("late", _code(walk, late.__code__), walk.named_values(found, "'s annotation `{}`"))
    found = vars(value).get("__annotations__") or {}
    return walk.of(tuple((name, _name_of_annotation(one)) for name, one in found.items()))


def _members(walk: Walk, value: type[Enum]) -> bytes:
    """The attributes of an enumeration's members besides their values."""
    states = {
        name: {k: v for k, v in vars(member).items() if not k.startswith("_") or not k.endswith("_")}
        for name, member in value._member_map_.items()
    }
    return walk.named_values(states, ".{}")


def _method(walk: Walk, value: Any) -> bytes:
    """A method and the object to which it is bound. Installed ones such as ``random.randint`` count by
    name."""
    owner, name = value.__self__, value.__name__
    for module in (value.__module__, type(owner).__module__):
        if release_of(module or "") is not None and getattr(sys.modules.get(module), name, None) == value:
            return name_in(walk, module, name)
    if value.__module__ and (owner is None or isinstance(owner, types.ModuleType)):
        return name_in(walk, value.__module__, name)  # from the user's own extension module
    function = value.__func__ if isinstance(value, types.MethodType) else name
    return walk.all("method", (function, owner), ("", "'s object").__getitem__)


def _module(walk: Walk, value: types.ModuleType) -> bytes:
    """A module that is used as a whole: by everything that it holds now."""
    name = value.__name__
    if (release := release_of(name)) is not None:
        # By its name, and by the user's own values that were put into it.
        strangers = {} if release == "python" else strangers_in(value)
        return digest_of("installed", _module_named(walk, name), walk.named_values(strangers, ".{}"))
    walk.modules.add(name)
    held = {
        key: item
        for key, item in vars(value).items()
        if not (key.startswith("__") and key.endswith("__")) and not isinstance(item, _LOCKS)
    }
    walk.watch.mapping(vars(value))
    return digest_of("module", walk.named_values(held, ".{}"))


def name_in(walk: Walk, module: str, name: str) -> bytes:
    return digest_of("name", _module_named(walk, module), digest_of("name", name.encode()))


def _module_named(walk: Walk, name: str) -> bytes:
    """An installed module by its release, the user's own module by its file."""
    if (release := release_of(name)) is not None:
        _note(walk, name, release)
        return digest_of("module", f"{release} {name}".encode())
    if (path := file_of(name)) is None:
        return digest_of("module's name", (MAIN[0] if name in MAIN else name).encode())
    walk.modules.add(name)
    try:
        return digest_of("module's file", _content_of_file(path, os.stat(path).st_mtime_ns))
    except OSError as error:
        raise walk.fault(f"uses the module {name}, whose file cannot be read ({error})") from None


def _by_name(walk: Walk, value: Any) -> bytes | None:
    """An installed value that can be found under its name: by that name. None for any other value."""
    module, name = value.__module__, value.__qualname__
    if (release := release_of(module or "")) is None or found_in(module, name) is not value:
        return None
    _note(walk, module, release)
    return digest_of("installed", f"{release} {home_of(module)}.{name}".encode())


def _note(walk: Walk, module: str, release: str) -> None:
    if release != "python":
        walk.packages.add(module.partition(".")[0])


def functions_in(item: Any) -> Iterator[types.FunctionType]:
    """The functions that a member of a class runs."""
    if isinstance(item, types.FunctionType):
        yield item
    elif isinstance(item, property):
        yield from (one for one in (item.fget, item.fset, item.fdel) if isinstance(one, types.FunctionType))
    else:
        for name in ("__func__", "func", "__wrapped__"):
            inner = getattr(item, name, None) if not isinstance(item, type) else None
            if isinstance(inner, types.FunctionType):
                yield inner


def _descriptor(walk: Walk, value: Any, *names: str) -> bytes:
    """A property or similar descriptor, by the functions that it calls."""
    parts = [walk.of(type(value)), walk.named_values({n: getattr(value, n) for n in names}, ".{}")]
    if release_of(type(value).__module__) is None:
        known = {*names, *_NOT_OF_A_DESCRIPTOR}
        own = {k: v for k, v in getattr(value, "__dict__", {}).items() if k not in known}
        parts.append(walk.named_values({k: v for k, v in own.items() if not k.startswith("__")}, ".{}"))
    return digest_of("parts", *parts)


@functools.lru_cache(4096)
def _named_by(code: types.CodeType) -> Named:
    return named_by(code)


def _is_of_an_extension(module: str) -> bool:
    path = file_of(module)
    return path is not None and path.endswith(tuple(importlib.machinery.EXTENSION_SUFFIXES))


@functools.lru_cache(256)
def _content_of_file(path: str, changed_at: int) -> bytes:
    with open(path, "rb") as file:
        return content_of(file.read())


def _name_of_annotation(one: Any) -> str:
    if isinstance(one, type):
        return f"{'' if one.__module__ in MAIN else one.__module__}.{one.__qualname__}"
    text = one if isinstance(one, str) else repr(one)
    return title_of(type(one)) if " at 0x" in text else text


def found_in(module: str | None, name: str) -> Any:
    """The value of a name in a loaded module."""
    found = sys.modules.get(module or "")
    for part in name.split("."):
        found = getattr(found, "__dict__", {}).get(part)
    return found


def _inside(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not yet filled
        return types.CellType


TAKERS: tuple[tuple[Any, Taker], ...] = (
    (types.FunctionType, _function),
    (type, _class),
    ((types.MethodType, types.BuiltinMethodType), _method),
    (types.ModuleType, _module),
    (types.CodeType, _code),
    (Behind, lambda walk, value: walk.leniently(value.value)),
    (functools._lru_cache_wrapper, lambda walk, value: _by_name(walk, value) or walk.of(value.__wrapped__)),
    (functools.cached_property, lambda walk, value: _descriptor(walk, value, "func")),
    ((staticmethod, classmethod), lambda walk, value: _descriptor(walk, value, "__func__")),
    (functools.partial, lambda walk, value: _descriptor(walk, value, "func", "args", "keywords", "__dict__")),
    (property, lambda walk, value: _descriptor(walk, value, "fget", "fset", "fdel")),
)
