"""Where code comes from: installed in a release, or the user's own; and what is in the files of both.

A module is **installed** where it is Python's, or lies in a folder of site-packages. It is then named by its
release. All other modules are the user's **own**, also packages that were installed from a folder of this
host, editable or not.
"""

from __future__ import annotations

import functools
import importlib.machinery
import importlib.metadata
import importlib.util
import json
import os
import re
import sys
import types
import urllib.parse
import urllib.request
from collections.abc import Iterator

import xxhash

from seneca.code.names import named_by

__all__ = ["MAIN", "contents", "distribution_of", "file_of", "release_of", "sources_of"]

MAIN = ("__main__", "__mp_main__")  # the second is the first's name in a spawned process
_STDLIB = os.path.dirname(os.__file__)
_INSTALLED = frozenset({"site-packages", "dist-packages"})
_SENECA = __name__.partition(".")[0]
_MOST_FILES = 2000  # of a package that is not loaded


@functools.cache
def release_of(module: str) -> str | None:
    """The release of an installed module, as ``torch==2.13.0``; None: it is the user's own."""
    top = module.partition(".")[0]
    if module in MAIN or not top:
        return None
    if top == _SENECA:  # though it may be run from its sources
        return f"{top}=={sys.modules[top].__version__}"
    path = file_of(module)
    if path is None:
        return "python" if top in sys.stdlib_module_names else None
    if not _INSTALLED & set(path.split(os.sep)):
        inside = path.startswith(_STDLIB) or "lib-dynload" in path
        return "python" if inside and top in sys.stdlib_module_names else None
    names = distribution_of(top)
    if names and all(map(_was_installed_from_a_folder, names)):
        return None
    return " ".join(f"{name}=={importlib.metadata.version(name)}" for name in names) or top


@functools.cache
def distribution_of(top: str) -> tuple[str, ...]:
    """The installed distributions that a top-level module may be of, sorted; mostly one, of its own name."""
    try:
        importlib.metadata.version(top)
        return (top,)
    except importlib.metadata.PackageNotFoundError:
        return tuple(sorted(set(importlib.metadata.packages_distributions().get(top, ()))))


@functools.cache
def _was_installed_from_a_folder(distribution: str) -> bool:
    """Whether it is a project of the user's own, as ``pip install .`` leaves it. Its folder is still there.

    What is set in its modules at run time counts then.
    """
    told = importlib.metadata.distribution(distribution).read_text("direct_url.json")
    source = json.loads(told) if told else {}
    folder = urllib.request.url2pathname(urllib.parse.urlsplit(source.get("url", "")).path)
    return "dir_info" in source and os.path.isdir(folder)


def file_of(module: str) -> str | None:
    """The file of a module or else of a package around it; nothing is imported to find it."""
    if not module:
        return None
    loaded = sys.modules.get(module)
    if (path := getattr(loaded, "__file__", None)) is not None:
        return path
    if (found := _found(module)) is not None:
        return found
    return file_of(module.rpartition(".")[0])


def _found(module: str) -> str | None:
    """The file that an import of a module would load; None: there is none."""
    spec = _spec_of(module)
    return spec.origin if spec is not None and spec.has_location else None


def _spec_of(module: str) -> importlib.machinery.ModuleSpec | None:
    parent = module.rpartition(".")[0]
    loaded = getattr(sys.modules.get(module), "__spec__", None)
    if loaded is not None:
        return loaded
    try:
        if not parent:
            return importlib.util.find_spec(module)
        around = _spec_of(parent)
        folders = None if around is None else around.submodule_search_locations
        return None if folders is None else importlib.machinery.PathFinder.find_spec(module, list(folders))
    except (ImportError, ValueError):
        return None


# What is installed.


@functools.cache
def contents(name: str) -> bytes:
    """Digest of what is in the files of a distribution, and of those that it requires.

    An installer writes the hash of each file into RECORD. A file that is loaded and was changed after that
    counts as it is. Files that hold where the distribution lies do not count: two virtual environments agree.

    Args:
        name: Of an installed distribution; of any other nothing is known, and nothing counts.
    """
    digest = xxhash.xxh3_128()
    for one in sorted(_with_required(name)):
        digest.update(one.encode() + b"\0" + _own_contents(one))
    return digest.digest()


def _with_required(name: str) -> set[str]:
    found: set[str] = set()
    left = [name]
    while left:
        try:
            distribution = importlib.metadata.distribution(left.pop())
        except importlib.metadata.PackageNotFoundError:
            continue  # required by a part that is not installed
        one = re.sub(r"[-_.]+", "-", distribution.metadata["Name"]).lower()
        if one not in found:
            found.add(one)
            left += [_name_of(line) for line in distribution.requires or () if "extra ==" not in line]
    return found


def _name_of(requirement: str) -> str:
    match = re.match(r"[\w.-]+", requirement.strip(), re.ASCII)
    return "" if match is None else match[0].rstrip(".-")


@functools.cache
def _own_contents(name: str) -> bytes:
    distribution = importlib.metadata.distribution(name)
    record = distribution.read_text("RECORD")
    digest = xxhash.xxh3_128(distribution.version.encode())
    if record is None:  # of a package manager that writes none
        for top in sorted(_tops_of(distribution)):
            if (path := file_of(top)) is not None:
                digest.update(f"{top} {os.stat(os.path.dirname(path)).st_mtime_ns}".encode())
        return digest.digest()
    for line in sorted(record.splitlines()):
        path, _, rest = line.partition(",")
        if rest.startswith("sha") and ".dist-info/" not in path and not path.startswith(("..", "/")):
            digest.update(line.encode() + b"\n")
    for path in _changed_since(distribution, record):
        with open(path, "rb") as file:
            digest.update(os.path.basename(path).encode() + b"\0" + file.read())
    return digest.digest()


def _tops_of(distribution: importlib.metadata.Distribution) -> list[str]:
    return (distribution.read_text("top_level.txt") or distribution.metadata["Name"]).split()


def _changed_since(distribution: importlib.metadata.Distribution, record: str) -> list[str]:
    """The loaded files of a distribution that were changed after it was installed."""
    place = next((line.partition(",")[0] for line in record.splitlines() if "/RECORD," in line), None)
    if place is None:
        return []
    recorded = str(distribution.locate_file(place))
    root = os.path.join(str(distribution.locate_file("")), "")
    tops = {line.partition("/")[0].partition(",")[0].removesuffix(".py") for line in record.splitlines()}
    try:
        installed = os.stat(recorded).st_mtime_ns
    except OSError:
        return []
    changed = []
    for module in list(sys.modules):
        if module.partition(".")[0] in tops:
            path = getattr(sys.modules.get(module), "__file__", None)
            if path is not None and path.startswith(root) and _changed_at(path) > installed:
                changed.append(path)
    return sorted(set(changed))


def _changed_at(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0  # gone since it was loaded


# What is not loaded.


def sources_of(module: str) -> Iterator[tuple[str, bytes]]:
    """The files that an import of the user's own module would run, with what is in them.

    Its own file, every file of the packages around it, and the same of all that these import and that is the
    user's own. Nothing is imported to find them.

    Raises:
        OSError: A file cannot be read.
    """
    met: set[str] = set()
    left = [module]
    while left:
        name = left.pop()
        if release_of(name) is not None or (path := _file_to_load(name)) is None or path in met:
            continue
        top = name.partition(".")[0]
        around = _file_to_load(top)
        paths = [path]
        if around is not None and os.path.basename(around) == "__init__.py":
            paths += _python_files(os.path.dirname(around))
        for one in paths:
            if one in met:
                continue
            met.add(one)
            with open(one, "rb") as file:
                source = file.read()
            yield one, source
            left += _imported_by(one, source)


def _file_to_load(module: str) -> str | None:
    loaded = sys.modules.get(module)
    path = getattr(loaded, "__file__", None) or _found(module)
    return path if path is None or os.path.isfile(path) else None


def _python_files(folder: str) -> list[str]:
    found = []
    for place, folders, files in os.walk(folder):
        folders.sort()
        found += [os.path.join(place, name) for name in sorted(files) if name.endswith(".py")]
        if len(found) > _MOST_FILES:
            break
    return found[:_MOST_FILES]


def _imported_by(path: str, source: bytes) -> list[str]:
    """Modules that a file imports; relative ones lie in its package, all of whose files count anyway."""
    if not path.endswith(".py"):
        return []
    try:
        code: types.CodeType = compile(source, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return []  # importing it is an error
    found = []
    for one in named_by(code).imports:
        if one.level == 0:
            found += [one.module, f"{one.module}.{one.attribute}"] if one.attribute else [one.module]
    return found
