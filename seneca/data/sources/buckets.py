"""Pictures in buckets and on web servers: what there is, as a listing; and bytes of it, which are checked.

::

    s3://bucket/train/           --list_bucket()--> Listing: each object a container, with its etag
    s3://bucket/train-{00..99}.tar -----------+     or: each archive a container, its members pieces
    (container, offset, length)  --Objects.fetch()--> bytes of the object as listed, or an error with its name
"""

from __future__ import annotations

import dataclasses
import errno
import fnmatch
import glob
import hashlib
import random
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import numpy as np

from seneca._runtime.printable import printable
from seneca.data.sources.archives import MOST_BYTES, Members, expand_ranges, kept_members, list_members
from seneca.data.sources.archives import listing_of as listing_of_members
from seneca.data.sources.listing import PIECE, STATED, Listing
from seneca.data.sources.source import ListingOptions
from seneca.data.sources.stores import PACKAGES, Direct, Found, scheme_of, store_of
from seneca.data.sources.tar import members_of_tar
from seneca.data.sources.waiting import GivenUp, Waiting, seconds_for
from seneca.errors import SourceError

__all__ = ["ObjectPiece", "Objects", "is_bucket", "list_bucket", "matches"]

PAUSES_S = (0.2, 1.0, 3.0)  # before each further try; half to one and a half of it, by chance
LISTED_AT_A_TIME = 16  # archives
BLOCK = 2**20  # of an archive whose headers are near each other
HEADER = 4096  # of one whose members are large
CHANGED = "has changed since it was opened; open it again with seneca.open()"

T = TypeVar("T")


def is_bucket(source: str) -> bool:
    return scheme_of(source) is not None


def matches(paths: Sequence[str]) -> bool:
    return any(map(is_bucket, paths))


class Objects:
    """The objects of a listing, which any process that has it can read.

    Args:
        listing: Its containers are URLs, and it has an etag for each.
    """

    def __init__(self, listing: Listing) -> None:
        self._listing = listing

    def fetch(self, container: int, offset: int, length: int, waiting: Waiting) -> Any:
        """Bytes of an object as it was listed, as a buffer.

        Raises:
            OSError: They cannot be had, or the object has changed. It names the object.
            GivenUp: Another thread has ended the wait.
        """
        return _piece(self._found(container), offset, length, waiting)

    def read(self, container: int, offset: int, length: int) -> bytes:
        """As :meth:`fetch`, with a wait that is never given up."""
        return bytes(self.fetch(container, offset, length, Waiting()))

    def are_direct(self) -> bool:
        """Whether plain requests may bring them, as far as the first one shows."""
        return bool(self._listing.containers) and self._direct(0) is not None

    def requests_for(self, pieces: Sequence[tuple[int, int, int]]) -> list[PlainRequest | None]:
        """A plain request for each container, offset and length; None: only :meth:`fetch` brings it."""
        requests: list[PlainRequest | None] = [None] * len(pieces)
        groups: dict[Direct, list[tuple[int, str]]] = {}
        for at, (container, _, length) in enumerate(pieces):
            direct = self._direct(container)
            if direct is not None and length:
                groups.setdefault(direct[0], []).append((at, direct[1]))
        for how, members in groups.items():
            how.asked += len(members)
            try:
                urls = how.urls_of([name for _, name in members])
            except Exception:  # no credentials, perhaps: fetch() says what is wrong, if anything is
                how.in_vain += len(members)
                continue
            for (at, _), url in zip(members, urls, strict=True):
                container, offset, length = pieces[at]
                found = self._found(container)
                is_part = (offset, length) != (0, found.size)
                requests[at] = PlainRequest(url, found.etag, is_part, round(1000 * seconds_for(length)))
        return requests

    def was_in_vain(self, container: int) -> None:
        """:meth:`fetch` has read an object that a plain request could not."""
        direct = self._direct(container)
        if direct is not None:
            direct[0].in_vain += 1

    def _direct(self, container: int) -> tuple[Direct, str] | None:
        found = self._found(container)
        try:
            direct = store_of(found.url).direct(found)
        except Exception:  # there is no package for it, or no bucket: fetch() says so
            return None
        return None if direct is None or direct[0].is_off else direct

    def _found(self, container: int) -> Found:
        listing = self._listing
        return Found(
            listing.containers[container],
            int(listing.stated["size_bytes"][container]),
            listing.etags[container],
        )


class PlainRequest(NamedTuple):
    """A GET of a URL, with the condition that the object has this etag: for all of it or a part."""

    url: str
    etag: str
    is_part: bool
    most_ms: int


class ObjectPiece(NamedTuple):
    """Some bytes of an object, as :class:`seneca._runtime.regular_files.Piece` is of a file."""

    objects: Objects
    path: str
    container: int
    offset: int
    length: int

    def read(self) -> bytes:
        return self.objects.read(self.container, self.offset, self.length)


def _piece(found: Found, offset: int, length: int, waiting: Waiting) -> Any:
    if length == 0:
        return b""

    def once() -> Any:
        data, etag = store_of(found.url).get(found, offset, offset + length, waiting)
        if etag != found.etag:
            raise OSError(errno.ESTALE, CHANGED, found.url)
        if len(data) != length:
            raise _Short(f"its answer has {len(data):,} of {length:,} bytes")
        return data

    return _tried(found.url, once, waiting)


class _Short(Exception):
    """An answer that ends too early, or too late."""


def _tried(url: str, once: Callable[[], T], waiting: Waiting) -> T:
    """Try, and again where that may help; raise what names the URL and says what to do."""
    for pause in (*PAUSES_S, None):
        try:
            return once()
        except (SourceError, GivenUp):
            raise
        except Exception as error:
            number, why = _named(error, scheme_of(url) or "")
            if number is not None:
                raise OSError(number, why, url) from None
            last, is_late = why, _is_late(error)
        if pause is not None:
            waiting.pause(pause * random.uniform(0.5, 1.5))
    raise OSError(
        errno.ETIMEDOUT if is_late else errno.EIO,
        f"could not be fetched in {len(PAUSES_S) + 1} tries: {last}",
        url,
    )


def _named(error: Exception, scheme: str) -> tuple[int | None, str]:
    """The number of an error that no further try mends, and its text; None: another try may."""
    status = _status(error)
    if isinstance(error, OSError) and error.errno == errno.ESTALE:
        return errno.ESTALE, CHANGED
    if status in (412, 416):
        return errno.ESTALE, CHANGED
    if status in (401, 403) or (status is None and isinstance(error, PermissionError)) or _lacks_key(error):
        return errno.EACCES, (
            f"may not be read by this process ({status or 'no credentials'}); give it credentials, as "
            f"{PACKAGES.get(scheme, 'fsspec')} searches for them"
        )
    if status in (404, 410) or (status is None and isinstance(error, FileNotFoundError)):
        return errno.ENOENT, "is not there (404); list it again with seneca.open(), or put it back"
    if status is not None and 400 <= status < 500 and status not in (408, 425, 429):
        return errno.EIO, f"was refused by its server ({status}): {_text(error)}"
    return None, f"{status}: {_text(error)}" if status else _text(error)


def _is_late(error: Exception) -> bool:
    """Whether it is a TimeoutError: Python's, or asyncio's, which was its own class before Python 3.11."""
    return any(kind.__name__ == "TimeoutError" for kind in type(error).__mro__)


def _lacks_key(error: BaseException) -> bool:
    """Whether botocore, which has classes for that and no status, has found no credentials."""
    return type(error).__name__ in ("NoCredentialsError", "PartialCredentialsError", "TokenRetrievalError")


def _status(error: BaseException | None) -> int | None:
    """The HTTP status in an exception or in those that caused it, whichever library has made them."""
    while error is not None and not type(error).__module__.startswith("aiohttp.http_exceptions"):
        answer = getattr(
            error, "response", None
        )  # that module's errors call a body that is cut off a status 400
        if isinstance(answer, dict):  # botocore
            answer = answer.get("ResponseMetadata", {}).get("HTTPStatusCode")
        named = next((name for name in ("status", "status_code", "code") if hasattr(error, name)), "")
        for candidate in (answer, getattr(answer, "status_code", None), getattr(error, named, None)):
            if isinstance(candidate, int) and 400 <= candidate < 600:
                return candidate
        error = error.__cause__
    return None


def _text(error: BaseException) -> str:
    text = printable(" ".join(str(error).split()))  # it may quote the server
    return text[:300] if text else type(error).__name__


def list_bucket(sources: Sequence[str], options: ListingOptions) -> Listing:
    """The pictures below a prefix, or in ``.tar`` archives.

    Args:
        sources: A URL that ends with a slash or with no ``.tar``: a prefix with folders of classes. Or
            URLs of archives: patterns (``*``, ``?``, ``[]``), ranges (``{000..146}``), or a list.
        options: Which objects or members are pictures, and their labels, given the name below the prefix or
            in the archive. Without a function for these they are as :class:`seneca.ImageFolder` or
            :func:`list_archives` find them.

    Raises:
        FileNotFoundError: There is no such object, or no picture.
        SourceError: It cannot be read in place, or has no labels.
        OSError: A server does not answer, or refuses.
        ValueError: Some sources are files of this host.
    """
    if not all(map(is_bucket, sources)):
        raise ValueError("one dataset is either of URLs or of files of this host")
    for source in sources:
        _refuse(source)
    if all(source.lower().endswith(".tar") for source in sources):
        return _list_tars(sources, options.extensions, options.labels)
    if len(sources) == 1:
        return _list_prefix(sources[0].rstrip("/") + "/", options.extensions, options.labels)
    raise SourceError("a list of URLs is to name .tar archives, or is one prefix with folders of classes")


def _refuse(source: str) -> None:
    store_of(source)
    parts = urlsplit(source)
    if parts.username or parts.password:
        raise SourceError(
            f"{parts.scheme}://{parts.hostname}: a name or password in a URL would be kept with the dataset; "
            "put it where the package for this scheme searches for it, such as ~/.netrc"
        )
    if parts.scheme in ("http", "https") and parts.query:
        raise SourceError(
            f"{parts.scheme}://{parts.netloc}{parts.path}: what follows the question mark may be a "
            "signature, and would be kept with the dataset; give a URL without"
        )
    if source.lower().endswith(".zip"):
        raise SourceError(
            f"{source}: zip archives are read on this host's storage only; copy it, or pack a .tar"
        )


def _everything(prefix: str) -> list[Found]:
    waiting = Waiting()
    return _tried(prefix, lambda: store_of(prefix).below(prefix, waiting), waiting)


def _list_prefix(prefix: str, extensions: tuple[str, ...], labels: Callable[[str], int] | None) -> Listing:
    everything = _everything(prefix)
    root = _common(prefix, everything)
    below = [(one.url[len(root) :], one) for one in everything]
    chosen = [
        (name, one)
        for name, one in below
        if name.lower().endswith(extensions) and ("/" in name or labels is not None)
    ]
    if not chosen:
        what = "no folder of a class with pictures" if labels is None else "no pictures"
        raise FileNotFoundError(f"{prefix} has {what}: no name ends in {', '.join(extensions)}")
    for name, one in chosen:
        if one.size > MOST_BYTES:
            raise SourceError(f"{one.url}: {name} has {one.size:,} bytes, and a sample has at most 1 GiB")
    # The order of ImageFolder: classes, then folders, then names.
    chosen.sort(key=lambda pair: (pair[0].partition("/")[0], *pair[0].rpartition("/")[::2]))
    names = [name for name, _ in chosen]
    classes = [] if labels else sorted({name.partition("/")[0] for name in names})
    number_of = {name: number for number, name in enumerate(classes)}
    given = [labels(name) if labels else number_of[name.partition("/")[0]] for name in names]
    pieces = np.zeros(len(chosen), PIECE)
    pieces["length"] = [one.size for _, one in chosen]
    pieces["container"] = np.arange(len(chosen))
    found = [one for _, one in chosen]
    return Listing(
        [one.url for one in found], _stated(found), [""] * len(found), pieces, given, classes,
        etags=[one.etag for one in found], root=root,
    )  # fmt: skip


def _common(prefix: str, everything: Sequence[Found]) -> str:
    """The prefix as the store calls it: of the hub it has a commit now."""
    if not everything or everything[0].url.startswith(prefix):
        return prefix
    first = everything[0].url
    depth = prefix.rstrip("/").count("/") + 1
    return "/".join(first.split("/")[:depth]) + "/"


def _stated(found: Sequence[Found]) -> np.ndarray:
    stated = np.zeros(len(found), STATED)
    stated["size_bytes"] = [one.size for one in found]
    return stated


def _list_tars(
    sources: Sequence[str], extensions: tuple[str, ...], labels: Callable[[str], int] | None
) -> Listing:
    urls: list[str] = []
    for source in sources:
        for one in expand_ranges(source):
            urls += _matches(one) if glob.has_magic(one) else [one]
    waiting = Waiting()

    def members(url: str) -> tuple[Found, Members]:
        found = _tried(url, lambda: store_of(url).found(url, waiting), waiting)
        return found, _members(found, waiting)

    with ThreadPoolExecutor(LISTED_AT_A_TIME) as threads:
        try:
            every = list(threads.map(members, urls))
        finally:
            waiting.give_up()  # where one has failed, or a Ctrl-C ends the wait, the others end too
    found = [one for one, _ in every]
    listing = listing_of_members(
        [one.url for one in found], _stated(found), [one for _, one in every], extensions, labels
    )
    begins, ends = min(one.url for one in found), max(one.url for one in found)
    same = next((i for i, (a, b) in enumerate(zip(begins, ends, strict=False)) if a != b), len(begins))
    root = begins[:same].rpartition("/")[0] + "/"
    return dataclasses.replace(listing, etags=[one.etag for one in found], root=root)


def _matches(pattern: str) -> list[str]:
    fixed = re.split(r"[*?\[]", pattern, maxsplit=1)[0].rpartition("/")[0] + "/"
    everything = _everything(fixed)
    depth = pattern.count("/")
    found = sorted(
        one.url for one in everything if one.url.count("/") == depth and fnmatch.fnmatchcase(one.url, pattern)
    )
    if not found:
        raise FileNotFoundError(f"no object is called {pattern}")
    return found


def _members(found: Found, waiting: Waiting) -> Members:
    """The members of an archive, now or when it had this etag."""

    def listed() -> Members:
        read = _Blocks(found, waiting)
        return list_members(members_of_tar(read, found.url, found.size), read, found.url)

    return kept_members(found.url, (found.size, found.etag), listed)


class _Blocks:
    """Reads an archive's headers, one after the other. A block is large while headers are near each other.

    To read on is cheaper than to ask again: with 20 ms for an answer, a mebibyte more costs less than a
    request.
    """

    def __init__(self, found: Found, waiting: Waiting) -> None:
        self._found, self._waiting = found, waiting
        self._at, self._data = 0, b""

    def __call__(self, length: int, at: int) -> bytes:
        begins = at - self._at
        if not 0 <= begins <= len(self._data) - length:
            is_near = self._at <= at < self._at + len(self._data) + BLOCK
            end = min(self._found.size, at + max(length, BLOCK if is_near else HEADER))
            if at >= end:
                return b""
            self._data = bytes(_piece(self._found, at, end - at, self._waiting))
            self._at, begins = at, 0
        return self._data[begins : begins + length]


def digest_of_etags(etags: Sequence[str]) -> bytes:
    """16 bytes that distinguish these etags from others."""
    return hashlib.blake2b("\0".join(etags).encode(errors="surrogateescape"), digest_size=16).digest()
