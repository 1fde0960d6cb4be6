"""Indexes that other tools write beside tar archives, and what they are used for.

* ``train-000.idx`` beside ``train-000.tar``, by ``wds2idx`` of NVIDIA DALI: where members begin. It is a
  hint only. Storage is asked for many headers at once, and what these say is read from the archive. Therefore
  an index of another archive costs time, and leads to no wrong bytes.
* ``shards.json``, by ``widsindex`` of WebDataset: which archives there are. Each has to be as it says.
"""

from __future__ import annotations

import functools
import glob
import json
import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from seneca._runtime.regular_files import open_regular
from seneca.data.sources.listing import RANGE, Listing, key_of
from seneca.errors import SourceError

__all__ = ["Shard", "check_shards", "headers_ahead", "is_list_of_shards", "list_of_shards"]

FIRST_WORD = b"v1.2"  # of an index of DALI's; then come the number of samples, and a line for each
FIELDS = 4  # of each member in a line: ending, offset of its bytes, size, name
BEFORE = 3 * 512  # bytes before a member: its header, and an extended header with its block of words
MOST_LIST_BYTES = 1 << 28  # of a list of shards
AHEAD = 256  # headers that storage is asked for at once


def headers_ahead(file: int, path: str, size: int) -> Callable[[int, int], bytes]:
    """A function that reads ``(length, offset)`` of an archive, for one who reads all headers in their order.

    If there is an index beside the archive, storage is asked for the headers that come next.

    Args:
        file: The open archive.
        path: Its path.
        size: Its size in bytes.
    """
    offsets = _member_offsets(os.path.splitext(path)[0] + ".idx", size)
    if not len(offsets):
        return functools.partial(os.pread, file)
    asked, ask_again_at = 0, 0

    def read(length: int, at: int) -> bytes:
        nonlocal asked, ask_again_at
        if at >= ask_again_at:  # the first half of what was asked for is read
            first = max(asked, int(np.searchsorted(offsets, at)))
            asked = min(first + AHEAD, len(offsets))
            for offset in offsets[first:asked].tolist():
                os.posix_fadvise(file, max(0, offset - BEFORE), BEFORE, os.POSIX_FADV_WILLNEED)
            ask_again_at = int(offsets[(first + asked) // 2]) if asked < len(offsets) else size
        return os.pread(file, length, at)

    return read


def _member_offsets(path: str, size: int) -> np.ndarray:
    """Where the members of an archive begin, as an index says, sorted; empty: there is no such index."""
    nothing = np.zeros(0, np.int64)
    try:
        with open(open_regular(path), "rb") as file:
            # A member has 512 bytes or more in the archive, and fewer in its index.
            if os.fstat(file.fileno()).st_size > size or file.readline().split()[:1] != [FIRST_WORD]:
                return nothing
            lines = [line.split() for line in file]
    except OSError:
        return nothing
    found = [field for line in lines if len(line) % FIELDS == 0 for field in line[1::FIELDS]]
    offsets = np.array([int(field) for field in found if field.isdigit() and len(field) < 19], np.int64)
    return np.unique(offsets[offsets < size])


class Shard(NamedTuple):
    """An archive in a list of shards.

    Attributes:
        url: Its absolute path, or its URL.
        samples: How many samples it has.
        size_bytes: Its size; None: the list does not say it.
    """

    url: str
    samples: int
    size_bytes: int | None


def is_list_of_shards(path: str) -> bool:
    """Whether this is called like a list of shards on this host."""
    return path.lower().endswith(".json") and "://" not in path and not os.path.isdir(path)


def list_of_shards(path: str) -> list[Shard]:
    """The archives that a list of WebDataset's names. A relative path begins at the folder of the list.

    Raises:
        FileNotFoundError: There is no such list.
        SourceError: It is no list of archives.
    """
    path = os.path.abspath(os.path.expanduser(path))
    try:
        with open(open_regular(path), encoding="utf-8") as file:
            if os.fstat(file.fileno()).st_size > MOST_LIST_BYTES:
                raise SourceError(f"{path} has more than {MOST_LIST_BYTES:,} bytes, and is no list of shards")
            described = json.load(file)
    except SourceError:
        raise
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{path} is no JSON: {error}") from None
    if not isinstance(described, dict) or not isinstance(described.get("shardlist"), list):
        raise SourceError(f"{path} has no shardlist; write it with widsindex create")
    if described.get("datasets"):
        raise SourceError(f"{path} refers to other lists of shards; open each of them, and concatenate these")
    return [_shard(path, number, shard) for number, shard in enumerate(described["shardlist"])]


def _shard(path: str, number: int, shard: Any) -> Shard:
    words = shard if isinstance(shard, dict) else {}
    url, samples, size = (words.get(name) for name in ("url", "nsamples", "filesize"))
    if type(url) is not str or type(samples) is not int or type(size) not in (int, type(None)):
        raise SourceError(
            f"{path}: shard {number} has no url and nsamples, or a filesize that is no number; write it "
            "with widsindex create"
        )
    if "://" not in url:
        url = os.path.normpath(os.path.join(os.path.dirname(path), url))
    if _is_pattern(url):
        raise SourceError(f"{path}: shard {number} is {url!r}, and the url of a shard is that of one archive")
    if not url.lower().endswith(".tar"):
        raise SourceError(f"{path}: shard {number} is {url}, and the name of a tar archive ends in .tar")
    return Shard(url, samples, size)


def _is_pattern(url: str) -> bool:
    """Whether this would be read as more than the name of one archive; or cannot be a name."""
    try:
        os.fsencode(url)
    except UnicodeEncodeError:
        return True
    is_there = "://" not in url and os.path.exists(url)
    return "\0" in url or RANGE.search(url) is not None or (glob.has_magic(url) and not is_there)


def check_shards(path: str, shards: Sequence[Shard], listing: Listing) -> None:
    """See that each archive is the one that the list describes: by its size, else by its number of samples.

    Args:
        path: The list, for messages.
        shards: What it says.
        listing: What was found in these archives, in the same order.

    Raises:
        SourceError: An archive is another one.
    """
    of = listing.pieces["container"]
    for number, shard in enumerate(shards):
        if shard.size_bytes is not None:
            what, said, found = "bytes", shard.size_bytes, int(listing.stated["size_bytes"][number])
        else:
            keys = {key_of(listing.names[place]) for place in np.flatnonzero(of == number).tolist()}
            what, said, found = "samples with a picture", shard.samples, len(keys)
        if said != found:
            raise SourceError(
                f"{path} says that {shard.url} has {said:,} {what}, but it has {found:,}; write the list "
                "again with widsindex create, or open the archives without it"
            )
