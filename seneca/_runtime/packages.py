"""Where a module comes from: from an installed release, or from the user.

A module is **installed** if it is Python's, or is in a folder of site-packages. Its name is then that of
its release. All other modules are the user's **own**. Packages that were installed from a folder of this
host, editable or not, are also the user's own.
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
import urllib.parse
import urllib.request

__all__ = [
    "MAIN",
    "distribution_of",
    "fields_of",
    "file_of",
    "file_to_import",
    "release_of",
    "spec_of",
    "version_of",
]

MAIN = ("__main__", "__mp_main__")  # the second is the name of the first in a spawned process
_STDLIB = os.path.dirname(os.__file__)
_INSTALLED = frozenset({"site-packages", "dist-packages"})
_SENECA = __name__.partition(".")[0]


@functools.cache
def release_of(module: str) -> str | None:
    """The release of an installed module, such as ``torch==2.13.0``; None: the module is the user's own."""
    top = module.partition(".")[0]
    if module in MAIN or not top:
        return None
    if top == _SENECA:  # even if it runs from its sources
        return f"{top}=={sys.modules[top].__version__}"
    path = file_of(module)
    if path is None:
        return "python" if top in sys.stdlib_module_names else None
    if not _INSTALLED & set(path.split(os.sep)):
        inside = path.startswith(_STDLIB) or "lib-dynload" in path
        return "python" if inside and top in sys.stdlib_module_names else None
    if module != top and file_of(top) is not None:
        return release_of(top)
    names = distribution_of(top)
    if not names or all(map(_was_installed_from_a_folder, names)):
        return None  # a loose file among installed packages is the user's own
    return " ".join(f"{name}=={version_of(name)}" for name in names)


@functools.cache
def version_of(distribution: str) -> str | None:
    """The installed version of a distribution; None: it is not installed."""
    try:
        return next(iter(fields_of(importlib.metadata.distribution(distribution), "Version")), None)
    except importlib.metadata.PackageNotFoundError:
        return None


def fields_of(distribution: importlib.metadata.Distribution, field: str) -> list[str]:
    """The values of a field of a distribution's metadata.

    ``distribution.metadata`` would parse the whole text, its long description too, each time it is asked.
    """
    places = ("METADATA", "PKG-INFO", "")  # of a wheel; of an egg; of an egg that is a file itself
    text = next(filter(None, map(distribution.read_text, places)), "")
    head = text.partition("\n\n")[0]
    return re.findall(rf"^{re.escape(field)}:[ \t]*(.*?)[ \t]*$", head, re.MULTILINE)


@functools.cache
def distribution_of(top: str) -> tuple[str, ...]:
    """The installed distributions that may have a top-level module, sorted; mostly one, of the same name."""
    if version_of(top) is not None:
        return (top,)
    installed = (one for one in importlib.metadata.distributions() if top in _tops_of(one))
    return tuple(sorted({name for one in installed for name in fields_of(one, "Name")}))


def _tops_of(distribution: importlib.metadata.Distribution) -> set[str]:
    """The top-level modules of a distribution: those that it declares, or else those among its files."""
    declared = (distribution.read_text("top_level.txt") or "").split()
    listed = () if declared else (distribution.read_text("RECORD") or "").splitlines()
    return {*declared, *(line.partition("/")[0].partition(",")[0].partition(".")[0] for line in listed)}


@functools.cache
def _was_installed_from_a_folder(distribution: str) -> bool:
    """Whether a distribution is the user's own project, installed by ``pip install .``, and its folder
    still exists.

    Then the values that a program sets in its modules at run time count.
    """
    text = importlib.metadata.distribution(distribution).read_text("direct_url.json")
    source = json.loads(text) if text else {}
    folder = urllib.request.url2pathname(urllib.parse.urlsplit(source.get("url", "")).path)
    return "dir_info" in source and os.path.isdir(folder)


def file_of(module: str) -> str | None:
    """The file of a module, or else of a package around it. Nothing is imported to find it."""
    if not module:
        return None
    loaded = sys.modules.get(module)
    if (path := getattr(loaded, "__file__", None)) is not None:
        return path
    if (found := file_to_import(module)) is not None:
        return found
    return file_of(module.rpartition(".")[0])


def file_to_import(module: str) -> str | None:
    """The file that importing a module would load; None: there is none."""
    spec = spec_of(module)
    return spec.origin if spec is not None and spec.has_location else None


def spec_of(module: str) -> importlib.machinery.ModuleSpec | None:
    """How a module would be imported, found without importing anything."""
    parent = module.rpartition(".")[0]
    loaded = getattr(sys.modules.get(module), "__spec__", None)
    if loaded is not None:
        return loaded
    try:
        if not parent:
            return importlib.util.find_spec(module)
        around = spec_of(parent)
        folders = None if around is None else around.submodule_search_locations
        if folders is None:
            return None
        # Python lists the folders of a package without __init__.py only while its parent is loaded.
        return _found_in(module, list(getattr(folders, "_path", folders)))
    except (ImportError, ValueError):
        return None


def _found_in(module: str, folders: list[str]) -> importlib.machinery.ModuleSpec | None:
    try:
        return importlib.machinery.PathFinder.find_spec(module, folders)
    except KeyError:  # it is such a package itself
        spec = importlib.machinery.ModuleSpec(module, None, is_package=True)
        inner = (os.path.join(folder, module.rpartition(".")[2]) for folder in folders)
        spec.submodule_search_locations = [folder for folder in inner if os.path.isdir(folder)]
        return spec
