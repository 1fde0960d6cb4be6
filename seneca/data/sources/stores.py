"""Object stores and web servers, as ``fsspec`` reaches them: what lies there, and bytes of it. One try each.

::

    URL --store_of()--> Store --found(), below()--> Found: URL, size, etag
                          +-----get()-------------> bytes, and the etag of what they are of

A store belongs to one process and is made where it is used first. Therefore nothing that is open, and no credentials,
are in a dataset that is pickled or forked. Coroutines run in the loop of ``fsspec``, in a thread of its own.
"""

from __future__ import annotations

import asyncio
import datetime
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

from seneca.errors import SourceError

__all__ = ["MOST_AT_A_TIME", "PACKAGES", "Found", "Store", "run", "scheme_of", "store_of"]

PACKAGES = {
    "s3": "s3fs",
    "gs": "gcsfs",
    "az": "adlfs",
    "hf": "huggingface_hub",
    "http": "aiohttp",
    "https": "aiohttp",
}
"""What has to be installed for each scheme, besides ``fsspec``."""

MOST_AT_A_TIME = 64  # connections of a process to a store
CONNECT_S, SILENT_S = 10, 30  # to connect; without a byte
ETAGS = ("ETag", "etag", "blob_id", "md5Hash", "generation")
TIMES = ("LastModified", "last_modified", "Last-Modified", "updated", "mtime", "created")

T = TypeVar("T")


class Found(NamedTuple):
    """An object as it was when it was listed. ``etag`` tells it from itself after a change."""

    url: str
    size: int
    etag: str


def scheme_of(source: str) -> str | None:
    """The scheme of a URL; None: it is the path of a file."""
    scheme, colon, _ = source.partition("://")
    return scheme.lower() if colon and scheme.isalnum() else None


class Store:
    """All objects of one scheme. A store of objects whose scheme has a class of its own is asked less often.

    Args:
        scheme: A key of :data:`PACKAGES`.

    Raises:
        SourceError: The package for it is not installed.
    """

    def __init__(self, scheme: str) -> None:
        self.scheme = scheme
        try:
            import fsspec

            kind = fsspec.get_filesystem_class(scheme)
        except ImportError as error:
            package = PACKAGES[scheme]
            raise SourceError(
                f"{scheme}:// needs the package {package}: pip install {package} ({error})"
            ) from None
        # No instance of the user's: its cache of listings would hide changes.
        self.fs = kind(skip_instance_cache=True, use_listings_cache=False, **self._options())
        self._threads = None if self.fs.async_impl else ThreadPoolExecutor(MOST_AT_A_TIME, "seneca-fetch")

    def _options(self) -> dict[str, Any]:
        return {}

    def path(self, url: str) -> str:
        """What the file system calls a URL."""
        return str(self.fs._strip_protocol(url))

    async def found(self, url: str) -> Found:
        """What lies at a URL."""
        return self._as_found(url, await self._call("info", self.path(url)))

    async def below(self, url: str) -> list[Found]:
        """All objects whose names begin with a URL, which ends with a slash."""
        listed = await self._call("find", self.path(url), detail=True)
        return [self._as_found(f"{self.scheme}://{name.lstrip('/')}", about) for name, about in listed.items()]

    async def get(self, found: Found, start: int, end: int) -> tuple[bytes, str]:
        """Bytes of an object, and its etag. The etag is asked for afterwards: what came is of it or older."""
        whole = (start, end) == (0, found.size)
        path = self.path(found.url)
        limits = {} if whole else {"start": start, "end": end}
        data = await self._call("cat_file", path, **limits)
        return data, (await self.found(found.url)).etag

    async def _call(self, name: str, *args: Any, **options: Any) -> Any:
        if self._threads is None:
            return await getattr(self.fs, f"_{name}")(*args, **options)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, lambda: getattr(self.fs, name)(*args, **options))

    def _as_found(self, url: str, about: dict[str, Any]) -> Found:
        size = about.get("size")
        if not isinstance(size, int):
            raise SourceError(f"{url}: its server does not say how many bytes it has")
        etag = next((str(about[name]) for name in ETAGS if about.get(name)), None)
        if etag is None:
            time = next((about[name] for name in TIMES if about.get(name)), None)
            if isinstance(time, datetime.datetime):  # one file system has both kinds
                time = time.timestamp()
            etag = None if time is None else f"{size} {time}"
        if etag is None:
            raise SourceError(
                f"{url}: its server gives neither an etag nor a time of change, and nobody could tell that "
                "it changes; copy it to a server that does"
            )
        return Found(url, size, etag)


class _S3(Store):
    """One request for a piece: it says which etag is wanted, and the answer has the etag."""

    def _options(self) -> dict[str, Any]:
        import fsspec.config

        own = fsspec.config.conf.get("s3", {}).get("config_kwargs", {})
        timeouts = {"connect_timeout": CONNECT_S, "read_timeout": SILENT_S}
        once = {"retries": {"total_max_attempts": 1}}  # seneca.data.sources.buckets tries again
        return {"config_kwargs": {"max_pool_connections": MOST_AT_A_TIME} | timeouts | own | once}

    def __init__(self, scheme: str) -> None:
        super().__init__(scheme)
        self.fs.retries = 1

    async def get(self, found: Found, start: int, end: int) -> tuple[bytes, str]:
        bucket, key, _ = self.fs.split_path(self.path(found.url))
        wanted = {} if (start, end) == (0, found.size) else {"Range": f"bytes={start}-{end - 1}"}
        answer = await self.fs._call_s3("get_object", Bucket=bucket, Key=key, IfMatch=found.etag, **wanted)
        async with answer["Body"] as body:
            return await body.read(), answer["ETag"]


class _Web(Store):
    """Likewise. A weak etag is compared here: servers compare them with nothing."""

    def _options(self) -> dict[str, Any]:
        import aiohttp

        timeouts = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=SILENT_S)
        return {"client_kwargs": {"timeout": timeouts, "trust_env": True}}  # proxies, and ~/.netrc

    async def below(self, url: str) -> list[Found]:
        raise SourceError(f"{url}: a web server does not list what it has; give the URL of a .tar")

    async def found(self, url: str) -> Found:
        return (await self._range(url, 0, 1, {}))[1]  # its size is told with any part of it

    async def get(self, found: Found, start: int, end: int) -> tuple[bytes, str]:
        condition = {"If-Match": found.etag} if found.etag.startswith('"') else {}
        data, now = await self._range(found.url, start, end, condition)
        return data, now.etag

    async def _range(
        self, url: str, start: int, end: int, condition: dict[str, str]
    ) -> tuple[bytes, Found]:
        """A part of a file, and what the file is now."""
        session = await self.fs.set_session()
        headers = {"Accept-Encoding": "identity", "Range": f"bytes={start}-{end - 1}", **condition}
        async with session.get(self.fs.encode_url(url), headers=headers) as answer:
            answer.raise_for_status()
            if answer.status != 206:
                raise SourceError(f"{url}: its server gives no parts of files; copy it to one that does")
            total = answer.headers.get("Content-Range", "").rpartition("/")[2]
            about = {name: answer.headers.get(name) for name in (*ETAGS, *TIMES)}
            about["size"] = int(total) if total.isdigit() else None
            return await answer.read(), self._as_found(url, about)


class _Hub(Store):
    """Repositories of the Hugging Face hub. What is listed is named by its commit, and a commit never changes."""

    async def _pinned(self, url: str) -> str:
        """The URL with the commit that its revision is now."""
        at = await self._resolved(url)
        api = self.fs._api
        about = await asyncio.get_running_loop().run_in_executor(
            self._threads,
            lambda: api.repo_info(at.repo_id, repo_type=at.repo_type, revision=at.revision),
        )
        kind = {"dataset": "datasets/", "space": "spaces/"}.get(at.repo_type, "")
        inside = f"/{at.path_in_repo}" if at.path_in_repo else ""
        return f"hf://{kind}{at.repo_id}@{about.sha}{inside}"

    async def _resolved(self, url: str) -> Any:
        return await self._call("resolve_path", self.path(url))

    async def found(self, url: str) -> Found:
        return await super().found(await self._pinned(url))

    async def below(self, url: str) -> list[Found]:
        return await super().below(await self._pinned(url) + "/")

    async def get(self, found: Found, start: int, end: int) -> tuple[bytes, str]:
        data = await self._call("cat_file", self.path(found.url), start=start, end=end)
        return data, found.etag


KINDS: dict[str, type[Store]] = {"s3": _S3, "http": _Web, "https": _Web, "hf": _Hub}

_stores: dict[str, Store] = {}
_making = threading.Lock()


def _forget() -> None:
    """In a forked child: the parent's connections are not this process's, and a thread may have held the lock."""
    global _making
    _stores.clear()
    _making = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def store_of(url: str) -> Store:
    """This process's store for a URL."""
    scheme = scheme_of(url)
    assert scheme is not None
    if scheme not in PACKAGES:
        raise SourceError(f"{url}: {scheme}:// is none of {', '.join(f'{one}://' for one in PACKAGES)}")
    with _making:
        if scheme not in _stores:
            _stores[scheme] = KINDS.get(scheme, Store)(scheme)
        return _stores[scheme]


def run(work: Coroutine[Any, Any, T]) -> T:
    """Wait for a coroutine that runs in the loop of ``fsspec``."""
    from fsspec.asyn import get_loop

    async def ended() -> tuple[T | None, Exception | None]:
        try:
            return await work, None
        except Exception as error:  # as a result: asyncio makes a TimeoutError anew, without its file
            return None, error

    future = asyncio.run_coroutine_threadsafe(ended(), get_loop())
    try:
        result, error = future.result()
    finally:
        future.cancel()  # nothing, where it has ended; else a Ctrl-C has ended the wait
    if error is not None:
        raise error
    return result  # type: ignore[return-value]
