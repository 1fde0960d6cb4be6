"""The content of code files: of installed distributions, and of the user's own modules."""

from __future__ import annotations

import base64
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

from seneca._runtime.packages import fields_of, file_to_import, release_of, spec_of, version_of
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
        one = re.sub(r"[-_.]+", "-", "".join(fields_of(distribution, "Name"))).lower()
        if one not in found:
            found.add(one)
            left += [_name_of(line) for line in _requirements(distribution) if "extra ==" not in line]
    return found


def _requirements(distribution: importlib.metadata.Distribution) -> list[str]:
    if distribution.read_text("METADATA") is None:  # an egg's are in a file of their own
        return distribution.requires or []
    return fields_of(distribution, "Requires-Dist")


def _name_of(requirement: str) -> str:
    match = re.match(r"[\w.-]+", requirement.strip(), re.ASCII)
    return "" if match is None else match[0].rstrip(".-")


@functools.cache
def _own_contents(name: str) -> bytes:
    distribution = importlib.metadata.distribution(name)
    listed = (distribution.read_text("RECORD") or "").splitlines()
    hashed = [
        line
        for line in listed
        if ",sha" in line and ".dist-info/" not in line and not line.lstrip('"').startswith(("..", "/"))
    ]
    digest = xxhash.xxh3_128(str(version_of(name)).encode())
    digest.update("\n".join(sorted(hashed)).encode())
    for path in _changed_since(distribution, listed, hashed):
        with open(path, "rb") as file:
            digest.update(os.path.basename(path).encode() + b"\0" + file.read())
    return digest.digest()


def _changed_since(
    distribution: importlib.metadata.Distribution, listed: list[str], hashed: list[str]
) -> list[str]:
    """The loaded files of a distribution that are not what was installed; all, if nothing is listed.

    Args:
        distribution: An installed distribution.
        listed: The lines of RECORD, in which the installer has listed its files.
        hashed: Those of them that have a hash and belong to a file that can be loaded.
    """
    root = os.path.join(str(distribution.locate_file("")), "")
    tops = {line.partition("/")[0] for line in listed}
    tops = {top.partition(",")[0].removesuffix(".py") for top in tops} or set(_tops_of(distribution))
    loaded = [
        path
        for module in list(sys.modules)
        if module.partition(".")[0] in tops
        and (path := getattr(sys.modules.get(module), "__file__", None)) is not None
        and path.startswith(root)
    ]
    if not loaded:
        return []
    recorded = next((line.partition(",")[0] for line in listed if ".dist-info/RECORD," in line), None)
    try:
        installed = None if recorded is None else os.stat(os.path.join(root, recorded))
    except OSError:
        installed = None
    by_path = {line.partition(",")[0]: line for line in hashed}
    changed = {path for path in loaded if _is_another(path, by_path.get(path[len(root) :]), installed)}
    return sorted(path for path in changed if os.path.isfile(path))


def _tops_of(distribution: importlib.metadata.Distribution) -> list[str]:
    declared = (distribution.read_text("top_level.txt") or "").split()
    return declared or fields_of(distribution, "Name")


def _is_another(path: str, line: str | None, installed: os.stat_result | None) -> bool:
    """Whether a file is not what its installer has listed in a line of RECORD: path, hash and size.

    A file that nobody has touched since is not read. The time of change decides, because nobody can set it.
    """
    if line is None:
        return True
    try:
        status = os.stat(path)
    except OSError:
        return False  # the file has gone since it was loaded
    hashed, _, size = line.partition(",")[2].partition(",")
    touched = installed is None or max(status.st_mtime_ns, status.st_ctime_ns) > installed.st_ctime_ns
    if not touched and size == str(status.st_size):
        return False
    method, _, wanted = hashed.partition("=")
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
