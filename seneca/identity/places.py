"""What the paths in a dataset's state lead to. Equal texts do not say that.

Two jobs may name equal paths and mean different files, in two working folders or in two containers. The
files may also have been written anew in between. Therefore a path that exists counts with what the file
system says of it.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterable, Sequence

from seneca.identity.names import names_files, names_programs

__all__ = ["SAMPLED", "facts_of", "folders_behind", "sample_of", "variables_in"]

SAMPLED = 64  # texts of a container with more than MANY
MANY = 4096
LONGEST = 4096  # characters of a path
BESIDE = ("-wal", "-journal", "-shm")  # what SQLite has not yet written into the file before these
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))", re.ASCII)
_OF_HOME = frozenset({"expanduser", "home", "HOME"})
_OF_TEMPORARY = frozenset({"gettempdir", "mkdtemp", "mkstemp", "NamedTemporaryFile", "TemporaryDirectory"})
# They exist everywhere, and nearly all code that has such a text splits others at it.
_NO_PLACES = frozenset({".", "..", "/", b".", b"..", b"/"})
_OF_CURRENT = frozenset({"getcwd", "getcwdb", "cwd"})


def sample_of(texts: Sequence[str | bytes]) -> list[str | bytes]:
    """A fixed part of many texts: the first, the last, and others evenly between; all, if they are few."""
    if len(texts) <= MANY:
        return list(texts)
    return [texts[i * (len(texts) - 1) // (SAMPLED - 1)] for i in range(SAMPLED)]


def facts_of(texts: Iterable[str | bytes]) -> list[tuple[object, ...]]:
    """The file system's facts about those texts that are existing paths.

    Returns:
        One entry for each path, sorted: path, kind, device and inode. A regular file also has its size, and
        the times of modification and of change; nobody can set the last. A folder has no time, because
        writing into it changes its time. If one of the paths is relative, device and inode of the current
        folder follow.
    """
    facts: list[tuple[object, ...]] = []
    relative = False
    for text in sorted({os.fsencode(text) for text in texts if _may_be(text)}):
        at = os.path.expanduser(text) if text == b"~" or text.startswith(b"~/") else text
        fact = _fact_of(at)
        if fact is None:
            continue
        facts.append((text, *fact))
        if fact[0] == stat.S_IFREG:
            facts += [(text + end.encode(), *one) for end in BESIDE if (one := _fact_of(at + end.encode()))]
        relative |= not os.path.isabs(at)
    if relative:
        facts.append(_current_folder())
    return facts


def _fact_of(path: bytes) -> tuple[int, ...] | None:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    place = stat.S_IFMT(status.st_mode), status.st_dev, status.st_ino
    if not stat.S_ISREG(status.st_mode):
        return place
    return (*place, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _current_folder() -> tuple[object, ...]:
    here = os.stat(".")
    return "relative paths", here.st_dev, here.st_ino


def folders_behind(
    words: frozenset[str], texts: Iterable[str | bytes], facts: Sequence[tuple[object, ...]]
) -> list[tuple[object, ...]]:
    """Folders in which code may search for files although no path in its state leads there.

    Args:
        words: Every name and constant text in the code.
        texts: Every text in code and state.
        facts: What :func:`facts_of` has found of these.
    """
    found: list[tuple[object, ...]] = []
    knows_where = any(isinstance(fact[0], bytes) and os.path.isabs(fact[0]) for fact in facts)
    if not words.isdisjoint(_OF_CURRENT) or (names_files(words) and not knows_where):
        found.append(_current_folder())
    if not words.isdisjoint(_OF_HOME) or any(
        isinstance(text, str) and text.startswith("~") for text in texts
    ):
        found.append(("home", os.path.expanduser("~")))
    if not words.isdisjoint(_OF_TEMPORARY):
        found.append(("temporary files", tempfile.gettempdir()))
    if names_programs(words):
        programs = {word.split()[0] for word in words if word.strip()}
        found += [("program", name, path) for name in sorted(programs) if (path := shutil.which(name))]
    return found


def variables_in(texts: Iterable[str | bytes]) -> set[str]:
    """The names of environment variables in texts such as ``$DATA/train``."""
    return {
        name
        for text in texts
        if isinstance(text, str) and "$" in text
        for match in _VARIABLE.findall(text)
        for name in match
        if name
    }


def _may_be(text: str | bytes) -> bool:
    if not 0 < len(text) <= LONGEST or text in _NO_PLACES:
        return False
    if isinstance(text, bytes):
        return b"\n" not in text and b"\0" not in text
    return "\n" not in text and "\0" not in text and _can_be_encoded(text)


def _can_be_encoded(text: str) -> bool:
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return True
