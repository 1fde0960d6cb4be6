"""The members of archives, as samples with labels. What an archive lists is kept for the next run."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import glob
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import le
from pathlib import Path
from typing import Any

import numpy as np

from seneca._runtime.private_files import NotPrivate, private_folder
from seneca._runtime.regular_files import open_regular
from seneca._runtime.user_cache import user_cache
from seneca._runtime.warn import warn
from seneca.data.sources import kept_arrays
from seneca.data.sources.indexes import headers_ahead
from seneca.data.sources.labels import Labels
from seneca.data.sources.listing import PIECE, RANGE, STATED, Listing, Member, State, key_of
from seneca.data.sources.names import Names
from seneca.data.sources.source import ListingOptions
from seneca.data.sources.tar import members_of_tar
from seneca.data.sources.zip import members_of_zip
from seneca.errors import SourceError

__all__ = [
    "ENDINGS",
    "MOST_BYTES",
    "Members",
    "expand_paths",
    "expand_ranges",
    "kept_members",
    "list_archives",
    "list_members",
    "listing_of",
    "matches",
    "no_label",
]

ENDINGS = (".tar", ".zip")
LABEL = ".cls"  # the member that has the label, in WebDataset's convention
MOST_LABEL_BYTES = 20
NO_LABEL = 2**63
ENDING = ".members"
NAMES = ("names", "folders")  # the lists of names in what is kept
ARRAYS = ("offsets", "lengths", "folder_of", "order", "labels", "labelled")  # the others
MOST_BYTES = 2**30  # of a sample, as of a file


def matches(paths: Sequence[str]) -> bool:
    """Whether all are called like archives. A folder is no archive."""
    is_folder = len(paths) == 1 and os.path.isdir(os.path.expanduser(paths[0]))
    return not is_folder and all(path.lower().endswith(ENDINGS) for path in paths)


def list_archives(source: str | Sequence[str], options: ListingOptions) -> Listing:
    """The pictures in one archive or several.

    Args:
        source: The path of an archive; a pattern (``*``, ``?``, ``[]``) or a range (``{000..146}``) of paths;
            or several of these.
        options: Which members are pictures, and their labels. Without a function for these, WebDataset's
            ``.cls`` members have the labels; or the last folder in a member's name is its class.

    Raises:
        FileNotFoundError: There is no such archive, or no picture in it.
        SourceError: An archive cannot be read in place, or has no labels.
        OSError: An archive cannot be read.
    """
    return _list(expand_paths(source), options.extensions, options.labels)


def _list(
    containers: Sequence[str], extensions: tuple[str, ...], labels: Callable[[str], int] | None
) -> Listing:
    stated, ctimes = np.zeros(len(containers), STATED), np.zeros(len(containers), np.int64)
    every = []
    for number, path in enumerate(containers):
        members, state = _members(path)
        stated[number], ctimes[number] = state.stated, state.ctime_ns
        every.append(members)
    listing = listing_of(containers, stated, every, extensions, labels)
    again = functools.partial(_list_again, extensions, labels is None)
    return dataclasses.replace(listing, ctimes=ctimes, again=again)


def _list_again(extensions: tuple[str, ...], has_labels: bool, path: str) -> Listing:
    """See :attr:`Listing.again`."""
    listing = _list([path], extensions, None if has_labels else no_label)
    return listing if has_labels else dataclasses.replace(listing, labels=None)


def no_label(name: str) -> int:
    """In place of a user's function, if nobody asks for labels."""
    return 0


def listing_of(
    containers: Sequence[str],
    stated: np.ndarray,
    every: Sequence[Members],
    extensions: tuple[str, ...],
    labels: Callable[[str], int] | None,
) -> Listing:
    """The pictures among the members of each archive, with labels and in order; as :func:`list_archives`."""
    by_folder = labels is None and not any(members.has_labels for members in every)
    chosen = [members.that_end_in(extensions, by_folder) for members in every]
    names = Names.joined([members.names.take(places) for members, places in zip(every, chosen, strict=True)])
    if not len(names):
        raise FileNotFoundError(
            f"no pictures in {containers[0]}{' and the others' if len(containers) > 1 else ''}: "
            f"no member ends in {', '.join(extensions)}"
        )
    table = np.zeros(len(names), PIECE)
    table["offset"] = np.concatenate([m.offsets[places] for m, places in zip(every, chosen, strict=True)])
    table["length"] = np.concatenate([m.lengths[places] for m, places in zip(every, chosen, strict=True)])
    table["container"] = np.repeat(np.arange(len(every)), [len(places) for places in chosen])
    if labels is not None:
        return Listing(containers, stated, names, table, [labels(name) for name in names])
    if not by_folder:
        given = _labels_beside(containers, names, table, every, chosen)
        return Listing(containers, stated, names, table, Labels(given))
    numbers, classes = _classes(containers, names, table, every, chosen)
    # Each archive is in order. Two names of each show whether they are in order one after the other.
    ends = np.cumsum([len(places) for places in chosen if len(places)])
    if any(_parts(names[end - 1]) > _parts(names[end]) for end in ends[:-1].tolist()):
        parts = list(map(_parts, names))
        order = np.array(sorted(range(len(parts)), key=parts.__getitem__))
        names, table, numbers = names.take(order), table[order], numbers[order]
    return Listing(containers, stated, names, table, Labels(numbers), classes)


def _labels_beside(
    containers: Sequence[str],
    names: Names,
    table: np.ndarray,
    every: Sequence[Members],
    chosen: Sequence[np.ndarray],
) -> np.ndarray:
    """The label of each picture, from the ``.cls`` member beside it."""
    found = [members.labels_of(places) for members, places in zip(every, chosen, strict=True)]
    missing = np.flatnonzero(~np.concatenate([labelled for _, labelled in found]))
    if len(missing):
        name = names[missing[0]]
        raise SourceError(
            f"{containers[table['container'][missing[0]]]}: {name} has no member "
            f"{key_of(name)}{LABEL} with its label, and others have; give labels="
        )
    return np.concatenate([labels for labels, _ in found])


def _classes(
    containers: Sequence[str],
    names: Names,
    table: np.ndarray,
    every: Sequence[Members],
    chosen: Sequence[np.ndarray],
) -> tuple[np.ndarray, list[str]]:
    """The number of each picture's class, the last folder in its name; and the names of the classes."""
    of_folder = []  # for each archive: the class of each folder that contains a picture
    for members, places in zip(every, chosen, strict=True):
        used = np.flatnonzero(np.bincount(members.folder_of[places], minlength=len(members.folders)))
        of_folder.append({n: members.folders[n][:-1].rpartition("/")[2] for n in used.tolist()})
    classes = sorted({name for some in of_folder for name in some.values()})
    if "" in classes:
        place = next(i for i, name in enumerate(names) if not _parts(name)[0].rpartition("/")[2])
        raise SourceError(
            f"{containers[table['container'][place]]} has no labels: {names[place]} lies in no folder "
            f"of a class, and there is no {key_of(names[place])}{LABEL}; give labels=, a function of a "
            "member's name"
        )
    number_of = {name: number for number, name in enumerate(classes)}
    found = []
    for members, places, some in zip(every, chosen, of_folder, strict=True):
        numbers = np.zeros(len(members.folders), np.int64)
        for folder, name in some.items():
            numbers[folder] = number_of[name]
        found.append(numbers[members.folder_of[places]])
    return np.concatenate(found), classes


def _parts(name: str) -> tuple[str, str, str]:
    """The key by which pictures are sorted, as in a listed folder: the folder, then the name in it."""
    return name.rpartition("/")


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
    match = RANGE.search(pattern)
    if match is None:
        return [pattern]
    first, last = match.groups()
    numbers = range(int(first), int(last) + 1)
    before, after = pattern[: match.start()], pattern[match.end() :]
    return [one for n in numbers for one in expand_ranges(f"{before}{n:0{len(first)}d}{after}")]


@dataclass(frozen=True)
class Members:
    """The members of an archive, without its ``.cls`` members.

    Attributes:
        names: The name of each member.
        offsets, lengths: Where its bytes are, uint64 and uint32.
        folders: The folders that contain members, each with the slash at its end.
        folder_of: The place of each member's folder in ``folders``, uint32.
        order: The places of members, sorted by folder and then by name, uint32; empty: they are in order.
        labels: What the ``.cls`` member beside each says, int64; empty: the archive has no such members.
        labelled: Whether there is one beside it; empty, as ``labels`` is.
    """

    names: Names
    offsets: np.ndarray
    lengths: np.ndarray
    folders: Names
    folder_of: np.ndarray
    order: np.ndarray
    labels: np.ndarray
    labelled: np.ndarray

    @classmethod
    def of(
        cls, names: Sequence[str], offsets: np.ndarray, lengths: np.ndarray, label_of: Mapping[str, int]
    ) -> Members:
        """These members. ``label_of`` has what ``.cls`` members say, by their names without that ending."""
        parts = list(map(_parts, names))
        folders = {folder: number for number, folder in enumerate(dict.fromkeys(a + b for a, b, _ in parts))}
        order: Sequence[int] = ()
        if not all(map(le, parts, parts[1:])):
            order = sorted(range(len(parts)), key=parts.__getitem__)
        labels = [label_of.get(key_of(name)) for name in names] if label_of else []
        return cls(
            Names.of(names),
            offsets,
            lengths,
            Names.of(folders),
            np.array([folders[a + b] for a, b, _ in parts], np.uint32),
            np.array(order, np.uint32),
            np.array([label or 0 for label in labels], np.int64),
            np.array([label is not None for label in labels], bool),
        )

    @property
    def has_labels(self) -> bool:
        return len(self.labels) > 0

    def labels_of(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The labels of these members, and whether they have one."""
        if not self.has_labels:
            return np.zeros(len(places), np.int64), np.zeros(len(places), bool)
        return self.labels[places], self.labelled[places]

    def that_end_in(self, extensions: tuple[str, ...], sort: bool) -> np.ndarray:
        """The places of members whose names end so; sorted by folder and then by name if that is asked."""
        places = self.names.that_end_in(extensions)
        if not sort or not len(self.order):
            return places
        is_chosen = np.zeros(len(self.names), bool)
        is_chosen[places] = True
        return self.order[is_chosen[self.order]]

    def is_sound(self) -> bool:
        """Whether the parts fit each other."""
        n = len(self.names)
        return (
            n == len(self.offsets) == len(self.lengths) == len(self.folder_of)
            and len(self.order) in (0, n)
            and len(self.labels) == len(self.labelled)
            and len(self.labels) in (0, n)
            and self.names.is_sound()
            and self.folders.is_sound()
            and (not n or int(self.folder_of.max()) < len(self.folders))
            and (not len(self.order) or int(self.order.max()) < n)
        )


def kept_members(path: str, state: tuple[Any, ...], listed: Callable[[], Members]) -> Members:
    """The list that an earlier run made of the archive in this state, else the one that ``listed`` makes now.

    Args:
        path: The archive's path, or its URL.
        state: What distinguishes its content from any that was there before: of a file all of :class:`State`.
        listed: Lists it.
    """
    kept = _kept_as(path, state)
    try:
        private_folder(kept.parent)
    except NotPrivate as error:
        warn(f"what archives list is not kept, because others could change it: {error}, as XDG_CACHE_HOME")
        return listed()
    except OSError:
        return listed()
    members = _load(kept)
    if members is None:
        members = listed()
        _keep(kept, path, members)
    return members


def _members(path: str) -> tuple[Members, State]:
    """The members of an archive, and what state it is in."""
    file = open_regular(path)
    try:
        state = State.of(os.fstat(file))

        def listed() -> Members:
            members = _listed(file, path, state.size_bytes)
            if State.of(os.fstat(file)) != state:
                raise SourceError(f"{path} is being written; open it when it is complete")
            return members

        return kept_members(path, state, listed), state
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
                number = int(text)
            except ValueError:
                number = NO_LABEL
            if not -NO_LABEL < number < NO_LABEL or len(text) > MOST_LABEL_BYTES:
                raise SourceError(
                    f"{path}: {name} is to hold a whole number, but holds {text!r}; give labels="
                )
            labels[name[: -len(LABEL)]] = number
            continue
        if length > MOST_BYTES:
            raise SourceError(f"{path}: {name} has {length:,} bytes, and a sample has at most 1 GiB")
        names.append(name)
        offsets.append(offset)
        lengths.append(length)
    return Members.of(names, np.array(offsets, np.uint64), np.array(lengths, np.uint32), labels)


def _kept_as(path: str, state: tuple[Any, ...]) -> Path:
    name = hashlib.blake2b(repr((path, *state)).encode(errors="surrogateescape"), digest_size=16).hexdigest()
    return user_cache() / "archives" / f"{name}{ENDING}"


def _load(kept: Path) -> Members | None:
    """The list that an earlier run made; None: there is none, or it cannot be read."""
    file = kept_arrays.opened(kept)
    if file is None:
        return None
    try:
        found: dict[str, Any] = {name: file.arrays[name] for name in ARRAYS}
        members = Members(**found | {name: Names.of_arrays(file.arrays, name) for name in NAMES})
    except KeyError:
        return None
    return members if members.is_sound() else None


def _keep(kept: Path, path: str, members: Members) -> None:
    """For the next run. Where it cannot be written, that run lists the archive again."""
    arrays = {name: getattr(members, name) for name in ARRAYS}
    for name in NAMES:
        arrays |= getattr(members, name).arrays(name)
    with contextlib.suppress(OSError):
        kept_arrays.keep(kept, {"of": [path]}, arrays)
