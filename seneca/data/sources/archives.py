"""The members of archives, as samples with labels. What an archive lists is kept for the next run."""

from __future__ import annotations

import contextlib
import functools
import glob
import hashlib
import itertools
import operator
import os
import re
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from seneca._runtime.regular_files import open_regular
from seneca._runtime.user_cache import user_cache
from seneca.data.sources.indexes import headers_ahead
from seneca.data.sources.listing import PIECE, STATED, Listing, Member, key_of
from seneca.data.sources.tar import members_of_tar
from seneca.data.sources.zip import members_of_zip
from seneca.errors import SourceError

__all__ = [
    "ENDINGS",
    "MOST_BYTES",
    "Members",
    "expand_paths",
    "expand_ranges",
    "is_archive",
    "kept_members",
    "list_archives",
    "list_members",
    "listing_of",
]

ENDINGS = (".tar", ".zip")
LABEL = ".cls"  # the member that has the label, in WebDataset's convention
MOST_LABEL_BYTES = 20
MOST_BYTES = 2**30  # of a sample, as of a file


def is_archive(path: str) -> bool:
    return path.lower().endswith(ENDINGS)


def list_archives(
    source: str | Sequence[str], extensions: tuple[str, ...], labels: Callable[[str], int] | None
) -> Listing:
    """The pictures in one archive or several.

    Args:
        source: The path of an archive; a pattern (``*``, ``?``, ``[]``) or a range (``{000..146}``) of paths;
            or several of these.
        extensions: Endings of the members that are pictures, in lower case.
        labels: The label of a member, given its name. None: WebDataset's ``.cls`` members have the labels; or
            the last folder in a member's name is its class.

    Raises:
        FileNotFoundError: There is no such archive, or no picture in it.
        SourceError: An archive cannot be read in place, or has no labels.
        OSError: An archive cannot be read.
    """
    containers = expand_paths(source)
    stated = np.zeros(len(containers), STATED)
    every = []
    for number, path in enumerate(containers):
        members, stated[number] = _members(path)
        every.append(members)
    return listing_of(containers, stated, every, extensions, labels)


def listing_of(
    containers: Sequence[str],
    stated: np.ndarray,
    every: Sequence[Members],
    extensions: tuple[str, ...],
    labels: Callable[[str], int] | None,
) -> Listing:
    """The pictures among the members of each archive, with labels and in order; as :func:`list_archives`."""
    names: list[str] = []
    pieces = []
    of_key: dict[tuple[int, str], int] = {}
    for number, members in enumerate(every):
        chosen = _ending_in(members.names, extensions)
        piece = np.zeros(len(chosen), PIECE)
        piece["offset"], piece["length"] = members.offsets[chosen], members.lengths[chosen]
        piece["container"] = number
        pieces.append(piece)
        names += map(members.names.__getitem__, chosen)
        if labels is None:
            of_key |= {(number, key): label for key, label in members.labels.items()}
    table = np.concatenate(pieces)
    if not len(table):
        raise FileNotFoundError(
            f"no pictures in {containers[0]}{' and the others' if len(containers) > 1 else ''}: "
            f"no member ends in {', '.join(extensions)}"
        )
    folders: list[str] = []
    if labels is None and not of_key:  # as the folder would be listed that was packed
        folders = _folders(names)
        order = _order(names, folders)
        if order is not None:
            names, table = [names[place] for place in order], table[order]
            folders = [folders[place] for place in order]
    given, classes = _labelled(containers, names, folders, table, of_key, labels)
    return Listing(containers, stated, names, table, given, classes)


def _labelled(
    containers: Sequence[str],
    names: Sequence[str],
    folders: Sequence[str],
    table: np.ndarray,
    of_key: dict[tuple[int, str], int],
    labels: Callable[[str], int] | None,
) -> tuple[list[int], list[str]]:
    """The label of each sample, and the names of the classes."""
    if labels is not None:
        return [labels(name) for name in names], []
    if of_key:
        found = [
            of_key.get((number, key_of(name)))
            for number, name in zip(table["container"].tolist(), names, strict=True)
        ]
        if None in found:
            place = found.index(None)
            raise SourceError(
                f"{containers[table['container'][place]]}: {names[place]} has no member "
                f"{key_of(names[place])}{LABEL} with its label, and others have; give labels="
            )
        return found, []  # type: ignore[return-value]
    class_of = {folder: folder.rpartition("/")[2] for folder in set(folders)}
    classes = sorted(set(class_of.values()))
    if "" in classes:
        place = next(place for place, folder in enumerate(folders) if not class_of[folder])
        raise SourceError(
            f"{containers[table['container'][place]]} has no labels: {names[place]} lies in no folder "
            f"of a class, and there is no {key_of(names[place])}{LABEL}; give labels=, a function of a "
            "member's name"
        )
    number_of = {name: number for number, name in enumerate(classes)}
    of_folder = {folder: number_of[name] for folder, name in class_of.items()}
    return list(map(of_folder.__getitem__, folders)), classes


# An archive may have a million members. What is done for each of them is done by Python's own loops in C.


def _ending_in(names: Sequence[str], extensions: tuple[str, ...]) -> list[int]:
    """The places of the names that have one of these endings."""
    return [place for place, name in enumerate(map(str.lower, names)) if name.endswith(extensions)]


def _folders(names: Sequence[str]) -> list[str]:
    """The part of each name before its last slash."""
    slashes = map(str.rfind, names, itertools.repeat("/"))
    return [name[:slash] if slash > 0 else "" for name, slash in zip(names, slashes, strict=True)]


def _order(names: Sequence[str], folders: Sequence[str]) -> list[int] | None:
    """The order of the names by folder, then by what follows; None: they are in this order."""
    if "" not in folders and all(map(operator.le, folders, folders[1:])):
        others = map(operator.ne, folders, folders[1:])
        if all(map(operator.or_, others, map(operator.le, names, names[1:]))):
            return None
    parts = [name.rpartition("/") for name in names]
    return sorted(range(len(names)), key=parts.__getitem__)


def expand_paths(source: str | Sequence[str]) -> list[str]:
    """Absolute paths of the files that a path, a pattern, a range, or a list of these stands for."""
    found: list[str] = []
    for pattern in [source] if isinstance(source, str) else source:
        for one in expand_ranges(os.path.expanduser(pattern)):
            matches = sorted(glob.glob(one)) if glob.has_magic(one) and not os.path.exists(one) else [one]
            if not matches:
                raise FileNotFoundError(f"no file is called {one}")
            found += [os.path.abspath(match) for match in matches]
    if not found:
        raise FileNotFoundError("a list of no archives was given")
    return found


def expand_ranges(pattern: str) -> list[str]:
    """``{000..146}`` in a path stands for each number, with as many digits."""
    match = re.search(r"\{(\d+)\.\.(\d+)\}", pattern)
    if match is None:
        return [pattern]
    first, last = match.groups()
    numbers = range(int(first), int(last) + 1)
    before, after = pattern[: match.start()], pattern[match.end() :]
    return [one for n in numbers for one in expand_ranges(f"{before}{n:0{len(first)}d}{after}")]


class Members:
    """What an archive lists: names, and where their bytes are; and the labels that it has by their keys."""

    def __init__(
        self, names: list[str], offsets: np.ndarray, lengths: np.ndarray, labels: dict[str, int]
    ) -> None:
        self.names, self.offsets, self.lengths, self.labels = names, offsets, lengths, labels


def kept_members(path: str, stated: tuple[Any, ...], listed: Callable[[], Members]) -> Members:
    """What an earlier run has listed of the archive that is ``stated`` so, else what ``listed`` lists now."""
    kept = _kept_as(path, stated)
    members = _load(kept)
    if members is None:
        members = listed()
        _keep(kept, members)
    return members


def _members(path: str) -> tuple[Members, tuple[int, int]]:
    """The members of an archive, and its size and time of modification."""
    file = open_regular(path)
    try:
        status = os.fstat(file)
        stated = status.st_size, status.st_mtime_ns

        def listed() -> Members:
            members = _listed(file, path, status.st_size)
            now = os.fstat(file)
            if (now.st_size, now.st_mtime_ns) != stated:
                raise SourceError(f"{path} is being written; open it when it is complete")
            return members

        return kept_members(path, stated, listed), stated
    finally:
        os.close(file)


def _listed(file: int, path: str, size: int) -> Members:
    if path.lower().endswith(".tar"):
        read = headers_ahead(file, path, size)
        return list_members(members_of_tar(read, path, size), read, path)
    return list_members(members_of_zip(file, path, size), functools.partial(os.pread, file), path)


def list_members(found: Iterator[Member], read: Callable[[int, int], bytes], path: str) -> Members:
    """The members of an archive, with what its ``.cls`` members say."""
    names, offsets, lengths, labels = [], [], [], {}
    for name, offset, length in found:
        if name.lower().endswith(LABEL):
            text = read(min(length, MOST_LABEL_BYTES + 1), offset)
            try:
                labels[name[: -len(LABEL)]] = int(text)
            except ValueError:
                raise SourceError(
                    f"{path}: {name} is to hold a whole number, but holds {text!r}; give labels="
                ) from None
            continue
        if length > MOST_BYTES:
            raise SourceError(f"{path}: {name} has {length:,} bytes, and a sample has at most 1 GiB")
        names.append(name)
        offsets.append(offset)
        lengths.append(length)
    return Members(names, np.array(offsets, np.uint64), np.array(lengths, np.uint32), labels)


def _kept_as(path: str, stated: tuple[Any, ...]) -> Path:
    name = hashlib.blake2b(repr((path, *stated)).encode(errors="surrogateescape"), digest_size=16).hexdigest()
    return user_cache() / "archives" / f"{name}.npz"


def _load(kept: Path) -> Members | None:
    """What an earlier run has listed; None: nothing, or it cannot be read."""
    try:
        with np.load(kept, allow_pickle=False) as arrays:
            found: dict[str, Any] = {name: arrays[name] for name in arrays.files}
        names, keys = (os.fsdecode(found[name].tobytes()).split("\0")[:-1] for name in ("names", "keys"))
        labels = dict(zip(keys, found["labels"].tolist(), strict=True))
        if not len(names) == len(found["offsets"]) == len(found["lengths"]):
            return None
        return Members(names, found["offsets"], found["lengths"], labels)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None


def _keep(kept: Path, members: Members) -> None:
    """For the next run. Where it cannot be written, that run lists the archive again."""
    arrays = {
        "names": _joined(members.names),
        "offsets": members.offsets,
        "lengths": members.lengths,
        "keys": _joined(members.labels),
        "labels": np.array(list(members.labels.values()), np.int64),
    }
    with contextlib.suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=kept.parent, suffix=".part", delete=False) as file:
            try:
                np.savez(file, **arrays)  # type: ignore[arg-type]
                os.replace(file.name, kept)
            except BaseException:
                os.unlink(file.name)
                raise


def _joined(names: Any) -> np.ndarray:
    return np.frombuffer(os.fsencode("".join(f"{name}\0" for name in names)), np.uint8)
