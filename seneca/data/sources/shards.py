"""Lists of archives that WebDataset's ``widsindex`` writes: ``shards.json``. Each archive is checked."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from seneca._runtime.regular_files import open_regular
from seneca.data.sources.archives import list_archives
from seneca.data.sources.buckets import is_bucket, list_bucket
from seneca.data.sources.listing import RANGE, Listing, key_of
from seneca.data.sources.source import ListingOptions
from seneca.errors import SourceError

__all__ = ["ENDINGS", "Shard", "check_shards", "list_of_shards", "list_shards", "matches"]

ENDINGS = (".json",)
MOST_LIST_BYTES = 1 << 28


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


def matches(paths: Sequence[str]) -> bool:
    """Whether this is one file of this host that is called like a list of shards."""
    return (
        len(paths) == 1
        and paths[0].lower().endswith(ENDINGS)
        and "://" not in paths[0]
        and not os.path.isdir(paths[0])
    )


def list_shards(paths: Sequence[str], options: ListingOptions) -> Listing:
    """The pictures in the archives of one list, as :func:`list_archives` and :func:`list_bucket` find them.

    Raises:
        ValueError: Some archives are URLs, and others files of this host.
    """
    shards = list_of_shards(paths[0])
    urls = [shard.url for shard in shards]
    listed = list_bucket if any(map(is_bucket, urls)) else list_archives
    listing = listed(urls, options)
    check_shards(paths[0], shards, listing)
    return listing


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
        SourceError: An archive is not the one that the list names.
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
