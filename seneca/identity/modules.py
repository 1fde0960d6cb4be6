"""The content of code files: of installed distributions, and of the user's own modules."""

from __future__ import annotations

import base64
import csv
import functools
import hashlib
import importlib.machinery
import importlib.metadata
import importlib.util
import os
import re
import sys
import types
import zipimport
from collections.abc import Iterator

import xxhash

from seneca._runtime.packages import file_to_import, release_of, spec_of
from seneca.identity.names import named_by

__all__ = ["contents", "sources_of"]

_MOST_FILES = 2000  # in a package that is not loaded


# Installed code.


@functools.cache
def contents(name: str) -> bytes:
    """A digest of the files of a distribution, and of the distributions that it requires.

    An installer writes the hash of each file into RECORD, and these hashes count. A loaded file that was
    changed after the installation counts by its content. Files that say where the distribution is do not
    count; therefore two virtual environments agree.

    Args:
        name: The name of an installed distribution. Nothing is known of any other, and nothing counts.
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
            continue  # only a part that is not installed requires it
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
    listed = {} if record is None else _listed(record)
    for path, (hashed, size) in sorted(listed.items()):
        if hashed and ".dist-info/" not in path and not path.startswith(("..", "/")):
            digest.update(f"{path},{hashed},{size}\n".encode())
    for path in _changed_since(distribution, listed):
        with open(path, "rb") as file:
            digest.update(os.path.basename(path).encode() + b"\0" + file.read())
    return digest.digest()


def _listed(record: str) -> dict[str, tuple[str, str]]:
    """The hash and the size of each file that an installer has listed."""
    try:
        rows = [row for row in csv.reader(record.splitlines()) if len(row) == 3]
    except csv.Error:  # a program may have set another limit for fields
        return {}
    return {path: (hashed if hashed.startswith("sha") else "", size) for path, hashed, size in rows}


def _changed_since(
    distribution: importlib.metadata.Distribution, listed: dict[str, tuple[str, str]]
) -> list[str]:
    """The loaded files of a distribution that are not what was installed; all, if nothing is listed."""
    root = os.path.join(str(distribution.locate_file("")), "")
    tops = {path.partition("/")[0].removesuffix(".py") for path in listed} or set(_tops_of(distribution))
    recorded = next((path for path in listed if path.endswith(".dist-info/RECORD")), None)
    try:
        installed = None if recorded is None else os.stat(os.path.join(root, recorded))
    except OSError:
        installed = None
    changed = set()
    for module in list(sys.modules):
        path = getattr(sys.modules.get(module), "__file__", None)
        if module.partition(".")[0] in tops and path is not None and path.startswith(root):
            found = listed.get(path[len(root) :])
            if found is None or not found[0] or _is_another(path, found, installed):
                changed.add(path)
    return sorted(path for path in changed if os.path.isfile(path))


def _tops_of(distribution: importlib.metadata.Distribution) -> list[str]:
    return (distribution.read_text("top_level.txt") or distribution.metadata["Name"]).split()


def _is_another(path: str, listed: tuple[str, str], installed: os.stat_result | None) -> bool:
    """Whether a file is not what its installer has listed.

    A file that nobody has touched since is not read. The time of change decides, because nobody can set it.
    """
    try:
        status = os.stat(path)
    except OSError:
        return False  # the file has gone since it was loaded
    touched = installed is None or max(status.st_mtime_ns, status.st_ctime_ns) > installed.st_ctime_ns
    if not touched and listed[1] == str(status.st_size):
        return False
    method, _, wanted = listed[0].partition("=")
    with open(path, "rb") as file:
        found = base64.urlsafe_b64encode(hashlib.new(method, file.read()).digest())
    return found.rstrip(b"=").decode() != wanted


# Code that is not loaded.


def sources_of(module: str) -> Iterator[tuple[str, bytes]]:
    """The files that an import of the user's own module would run, with their content.

    These are the module's file and every file of the packages around it. The same holds for every module of
    the user's that these files import. Nothing is imported to find them.

    Raises:
        OSError: A file cannot be read.
    """
    met: set[str] = set()
    left = [module]
    while left:
        name = left.pop()
        if release_of(name) is not None:
            continue
        if (path := _file_to_load(name)) is None:
            if (source := _source_in_archive(name)) is not None and name not in met:
                met.add(name)
                yield name, source
            continue
        if path in met:
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
    path = getattr(loaded, "__file__", None) or file_to_import(module)
    return path if path is None or os.path.isfile(path) else None


def _source_in_archive(module: str) -> bytes | None:
    """The source of a module in a zip archive on the path; None: it is in none."""
    spec = spec_of(module)
    if spec is None or not isinstance(spec.loader, zipimport.zipimporter):
        return None
    source = spec.loader.get_source(module)
    return None if source is None else source.encode()


def _python_files(folder: str) -> list[str]:
    found = []
    for place, folders, files in os.walk(folder):
        folders.sort()
        found += [os.path.join(place, name) for name in sorted(files) if name.endswith(".py")]
        if len(found) > _MOST_FILES:
            break
    return found[:_MOST_FILES]


def _imported_by(path: str, source: bytes) -> list[str]:
    """The modules that a file imports, without relative imports: all files of its package count anyway."""
    if not path.endswith(".py"):
        return []
    try:
        code: types.CodeType = compile(source, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return []  # importing this file is an error
    found = []
    for one in named_by(code).imports:
        if one.level == 0:
            found += [one.module, f"{one.module}.{one.attribute}"] if one.attribute else [one.module]
    return found
