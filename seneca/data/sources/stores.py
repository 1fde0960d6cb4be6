"""Object stores and web servers: the objects there, and bytes of it. One try each, for a thread that waits.

::

    URL --store_of()--> Store --found(), below()--> Found: URL, size, etag
                          +-----get()-------------> bytes, and the etag of what they are of

A server may answer anything. Of an object one byte more is read than was asked for, nothing is inflated, and
what would become a header has no control characters. (``huggingface_hub`` before 1.0 reads an answer whole.)

A store belongs to one process and is made where it is used first. Therefore nothing that is open, and no
credentials, are in a dataset that is pickled or forked.

``obstore`` is taken where it is installed. It needs a sixth of the processor's time of ``s3fs``, and none
of it in Python. Else ``fsspec`` has a package for each scheme. Its coroutines run in its own thread.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import importlib.util
import os
import re
import threading
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from seneca._runtime.printable import printable
from seneca.data.sources.waiting import CONNECT_S, SILENT_S, STARTS_S, Waiting, seconds_for
from seneca.errors import SourceError

__all__ = ["MOST_AT_A_TIME", "PACKAGES", "Direct", "Found", "Store", "scheme_of", "store_of"]

PACKAGES = {
    "s3": "s3fs",
    "gs": "gcsfs",
    "az": "adlfs",
    "hf": "huggingface_hub",
    "http": "aiohttp",
    "https": "aiohttp",
}
"""The package that each scheme needs besides ``fsspec``."""

BY_OBSTORE = ("s3", "gs", "az")
BY_SIGNED_URLS = ("s3",)  # other clouds may have to be asked for each signature
LEAST_IN_VAIN, MOST_IN_VAIN = 3, 0.05  # plain requests: so many, and that share of them
SIGNED_FOR = datetime.timedelta(minutes=15)  # longer than any request takes
STATUSES = {  # of the exceptions of obstore
    "NotFoundError": 404,
    "FileNotFoundError": 404,
    "PreconditionError": 412,
    "PermissionDeniedError": 403,
    "UnauthenticatedError": 401,
}
MOST_AT_A_TIME = 64  # connections of a process to a store
ETAGS = ("ETag", "etag", "e_tag", "blob_id", "md5Hash", "generation")
CONTROL = re.compile(r"[\x00-\x1f\x7f]")
REDIRECTS = (301, 302, 303, 307, 308)
MOST_REDIRECTS = 5
MOST_OF_A_REDIRECT = 2**16  # bytes that are read of one: then its connection can be used again
MOST_OF_A_LISTING = 2**26  # bytes of an answer to gcsfs or adlfs that is no part of an object
RANGE = re.compile(r"bytes=(\d+)-(\d+)")
ELSEWHERE = "https"  # the only scheme by which a server may redirect to another
TIMES = ("LastModified", "last_modified", "Last-Modified", "updated", "mtime", "created")


class Found(NamedTuple):
    """An object as it was when it was listed. ``etag`` distinguishes it from itself after a change."""

    url: str
    size: int
    etag: str


def scheme_of(source: str) -> str | None:
    """The scheme of a URL; None: it is the path of a file."""
    scheme, colon, _ = source.partition("://")
    return scheme.lower() if colon and scheme.isalnum() else None


def _as_found(url: str, about: dict[str, Any]) -> Found:
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
            f"{url}: its server gives neither an etag nor a time of change, and Seneca could not detect that "
            "it changes; copy it to a server that does"
        )
    for what, text in {"name": url, "etag": etag}.items():
        if CONTROL.search(text):
            raise SourceError(f"{printable(url)}: its {what} has control characters; copy it to another name")
    return Found(url, size, etag)


async def _at_most(count: int, read: Callable[[int], Awaitable[bytes]]) -> bytes:
    """An answer that is to have ``count`` bytes, and at most one more, given how to read some of it."""
    parts: list[bytes] = []
    missing = count + 1
    while missing and (part := await read(missing)):
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)


class _Body:
    """The body of an answer of ``aiohttp``, as packages read it. More than ``most`` bytes are an error."""

    def __init__(self, body: Any, most: int) -> None:
        self._read, self._most, self._left = body.read, most, most
        self.exception, self.set_exception = body.exception, body.set_exception

    async def read(self, count: int = -1) -> bytes:
        if count < 0:
            data = await _at_most(self._left, self._read)
        else:
            data = await self._read(min(count, self._left + 1))
        self._left -= len(data)
        if self._left < 0:
            raise ValueError(f"its answer has more than {self._most:,} bytes")
        return data


@functools.cache
def _of_sessions() -> dict[str, Any]:
    """Options of a session of ``aiohttp`` whose answers have at most as many bytes as was asked for."""
    import aiohttp

    class Answer(aiohttp.ClientResponse):
        content: Any

        async def start(self, connection: Any) -> Any:
            await super().start(connection)
            _refuse_compressed(str(self.url.with_query(None)), self.headers)
            wanted = self.request_info.headers
            part = RANGE.fullmatch(wanted.get("x-ms-range") or wanted.get("Range", "")) if self.ok else None
            self.content = _Body(self.content, int(part[2]) - int(part[1]) + 1 if part else MOST_OF_A_LISTING)
            return self

    headers = {"Accept-Encoding": "identity"}
    return {"response_class": Answer, "auto_decompress": False, "headers": headers}


class Direct:
    """How plain requests bring the objects of one server or bucket, without its package.

    Args:
        urls_of: The URLs to request, with signatures if the server asks for them, given the names of objects.
            It may raise anything.

    Attributes:
        asked: How many requests were made.
        in_vain: How many of them failed, although the package then fetched the object.
    """

    def __init__(self, urls_of: Callable[[list[str]], list[str]]) -> None:
        self.urls_of = urls_of
        self.asked = self.in_vain = 0

    @property
    def is_off(self) -> bool:
        """Whether plain requests are of no use here: now and then one may fail."""
        return self.in_vain >= LEAST_IN_VAIN and self.in_vain > MOST_IN_VAIN * self.asked


class Store:
    """All objects of one scheme, by ``fsspec``.

    Args:
        scheme: A key of :data:`PACKAGES`.

    Raises:
        SourceError: The package for it is not installed.
    """

    def __init__(self, scheme: str) -> None:
        self.scheme = scheme
        package = PACKAGES[scheme]
        try:
            import fsspec

            kind = fsspec.get_filesystem_class(scheme)
        except ImportError as error:
            raise SourceError(
                f"{scheme}:// needs the package {package}: pip install {package} ({error})"
            ) from None
        # No instance of the user's: its cache of listings would hide changes.
        self.fs = kind(skip_instance_cache=True, use_listings_cache=False, **self._options())

    def _options(self) -> dict[str, Any]:
        return {}

    def path(self, url: str) -> str:
        """The file system's name for a URL."""
        return str(self.fs._strip_protocol(url))

    def found(self, url: str, waiting: Waiting) -> Found:
        """The object at a URL."""
        return _as_found(url, self._call(waiting, STARTS_S, "info", self.path(url)))

    def below(self, url: str, waiting: Waiting) -> list[Found]:
        """All objects whose names begin with a URL, which ends with a slash."""
        listed = self._call(waiting, 3600.0, "find", self.path(url), detail=True)
        return [_as_found(f"{self.scheme}://{name.lstrip('/')}", about) for name, about in listed.items()]

    def get(self, found: Found, start: int, end: int, waiting: Waiting) -> tuple[Any, str]:
        """Bytes of an object, as a buffer, and its etag.

        The etag is asked for afterwards. Therefore what came is of this etag, or of an older one.
        """
        where = self.path(found.url)
        data = self._call(waiting, seconds_for(end - start), "cat_file", where, start=start, end=end)
        return data, self.found(found.url, waiting).etag

    def direct(self, found: Found) -> tuple[Direct, str] | None:
        """How a plain request brings an object, and its name for that; None: only :meth:`get` brings it."""
        return None

    def _call(self, waiting: Waiting, seconds: float, name: str, *args: Any, **options: Any) -> Any:
        if self.fs.async_impl:
            return waiting.run(getattr(self.fs, f"_{name}")(*args, **options), seconds)
        return getattr(self.fs, name)(*args, **options)


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

    def get(self, found: Found, start: int, end: int, waiting: Waiting) -> tuple[Any, str]:
        bucket, key, _ = self.fs.split_path(self.path(found.url))
        wanted = {} if (start, end) == (0, found.size) else {"Range": f"bytes={start}-{end - 1}"}

        async def answered() -> tuple[bytes, str]:
            answer = await self.fs._call_s3(
                "get_object", Bucket=bucket, Key=key, IfMatch=found.etag, **wanted
            )
            body = answer["Body"]
            async with body:
                return await _at_most(end - start, body.read), answer["ETag"]

        return waiting.run(answered(), seconds_for(end - start))


class _Web(Store):
    """Likewise. A weak etag is compared here: servers compare them with nothing."""

    def _options(self) -> dict[str, Any]:
        import aiohttp

        self._direct: dict[str, Direct] = {}  # of each server
        timeouts = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=SILENT_S)
        # trust_env: proxies, and ~/.netrc
        return {"client_kwargs": {"timeout": timeouts, "trust_env": True, "auto_decompress": False}}

    def below(self, url: str, waiting: Waiting) -> list[Found]:
        raise SourceError(f"{url}: a web server does not list what it has; give the URL of a .tar")

    def found(self, url: str, waiting: Waiting) -> Found:
        return waiting.run(self._range(url, 0, 1, {}))[1]  # its size comes with any part of it

    def get(self, found: Found, start: int, end: int, waiting: Waiting) -> tuple[Any, str]:
        condition = {"If-Match": found.etag} if found.etag.startswith('"') else {}
        data, now = waiting.run(self._range(found.url, start, end, condition), seconds_for(end - start))
        return data, now.etag

    def direct(self, found: Found) -> tuple[Direct, str] | None:
        if not found.etag.startswith('"'):
            return None
        server = found.url.split("/", 3)[2]
        return self._direct.get(server) or self._direct.setdefault(server, Direct(self._encoded)), found.url

    def _encoded(self, urls: list[str]) -> list[str]:
        return [str(self.fs.encode_url(url)) for url in urls]

    async def _range(self, url: str, start: int, end: int, condition: dict[str, str]) -> tuple[bytes, Found]:
        """A part of a file, and what the file is now."""
        session = await self.fs.set_session()
        headers = {"Accept-Encoding": "identity", "Range": f"bytes={start}-{end - 1}", **condition}
        at = self.fs.encode_url(url)
        for _ in range(1 + MOST_REDIRECTS):
            async with session.get(at, headers=headers, allow_redirects=False) as answer:
                if answer.status not in REDIRECTS:
                    return await self._answered(answer, url, end - start)
                at = _redirected(url, answer)
        raise SourceError(f"{url}: its server redirects in a circle; give the URL where the file lies")

    async def _answered(self, answer: Any, url: str, length: int) -> tuple[bytes, Found]:
        answer.raise_for_status()
        if answer.status != 206:
            raise SourceError(f"{url}: its server gives no parts of files; copy it to one that does")
        _refuse_compressed(url, answer.headers)
        total = answer.headers.get("Content-Range", "").rpartition("/")[2]
        about = {name: answer.headers.get(name) for name in (*ETAGS, *TIMES)}
        about["size"] = int(total) if total.isdigit() else None
        return await _at_most(length, answer.content.read), _as_found(url, about)


def _refuse_compressed(url: str, headers: Any) -> None:
    encoding = headers.get("Content-Encoding", "identity")
    if encoding.strip().lower() != "identity":
        raise SourceError(
            f"{url}: its server compresses it ({printable(encoding)}) though it was asked not to; turn "
            "that off for this file, or copy it to another server"
        )


def _redirected(url: str, answer: Any) -> Any:
    """The URL to which an answer redirects, without a name or a password."""
    from yarl import URL

    to = answer.headers.get("Location", "")
    try:
        target = answer.url.join(URL(to)).with_user(None)
        is_allowed = target.scheme == ELSEWHERE or target.origin() == answer.url.origin()
    except ValueError:
        is_allowed = False
    if not is_allowed:
        raise SourceError(
            f"{url}: its server redirects to {printable(to.partition('?')[0])}, which is another server and "
            f"not {ELSEWHERE}://; give the URL where the file lies, if you trust that server"
        )
    return target


class _Google(Store):
    """The answers of its package's session are bounded."""

    def __init__(self, scheme: str) -> None:
        super().__init__(scheme)
        self.fs.session_kwargs = {**self.fs.session_kwargs, **_of_sessions()}


class _Azure(Store):
    """Likewise. Its package passes no session on; therefore its client's own is replaced."""

    def __init__(self, scheme: str) -> None:
        import aiohttp
        from fsspec.asyn import sync

        super().__init__(scheme)

        async def session() -> Any:
            jar = aiohttp.DummyCookieJar()
            return aiohttp.ClientSession(trust_env=True, cookie_jar=jar, **_of_sessions())

        self.fs.service_client._pipeline._transport.session = sync(self.fs.loop, session)


class _Hub(Store):
    """Repositories of the Hugging Face hub.

    What is listed is named by its commit, and a commit never changes.
    """

    def _pinned(self, url: str) -> str:
        """The URL with the commit that its revision is now."""
        at = self.fs.resolve_path(self.path(url))
        about = self.fs._api.repo_info(at.repo_id, repo_type=at.repo_type, revision=at.revision)
        kind = {"dataset": "datasets/", "space": "spaces/"}.get(at.repo_type, "")
        inside = f"/{at.path_in_repo}" if at.path_in_repo else ""
        return f"hf://{kind}{at.repo_id}@{about.sha}{inside}"

    def found(self, url: str, waiting: Waiting) -> Found:
        return super().found(self._pinned(url), waiting)

    def below(self, url: str, waiting: Waiting) -> list[Found]:
        return super().below(self._pinned(url) + "/", waiting)

    def get(self, found: Found, start: int, end: int, waiting: Waiting) -> tuple[Any, str]:
        import huggingface_hub
        from huggingface_hub import get_session, hf_hub_url

        if not hasattr(huggingface_hub, "set_client_factory"):  # by requests, without the calls below
            return self.fs.cat_file(self.path(found.url), start=start, end=end), found.etag
        at = self.fs.resolve_path(self.path(found.url))
        file = {"repo_id": at.repo_id, "filename": at.path_in_repo, "repo_type": at.repo_type}
        headers = self.fs._api._build_hf_headers()
        headers |= {"Accept-Encoding": "identity", "Range": f"bytes={start}-{end - 1}"}
        session = get_session()
        request = session.build_request(
            "GET",
            hf_hub_url(**file, revision=at.revision, endpoint=self.fs.endpoint),
            headers=headers,
            timeout=SILENT_S,
        )
        for _ in range(1 + MOST_REDIRECTS):
            with contextlib.closing(session.send(request, stream=True, follow_redirects=False)) as answer:
                if answer.next_request is None:
                    answer.raise_for_status()
                    _refuse_compressed(found.url, answer.headers)
                    return next(answer.iter_raw(end - start + 1), b""), found.etag
                next(answer.iter_raw(MOST_OF_A_REDIRECT), b"")
                request = answer.next_request
        raise SourceError(f"{found.url}: its server redirects in a circle; ask the hub to mend that")


class _Refused(Exception):
    """An error of ``obstore``: its text, with the status of the answer."""

    def __init__(self, status: int, error: Exception) -> None:
        super().__init__(str(error).split("\n")[0])
        self.status = status


class _Bucket(NamedTuple):
    """A bucket's store of ``obstore``, and plain requests with its signatures; None: there are none."""

    store: Any
    direct: Direct | None


class _Obstore(Store):
    """The same by ``obstore``, whose threads are not Python's.

    Its requests end when they are answered, or late.
    """

    def __init__(self, scheme: str) -> None:
        self.scheme = scheme
        self._buckets: dict[str, _Bucket] = {}
        self._making = threading.Lock()

    def _bucket(self, url: str) -> tuple[_Bucket, str]:
        """The bucket of a URL, and the name in it."""
        from obstore.store import from_url

        name, _, key = url.partition("://")[2].partition("/")
        with self._making:
            if name not in self._buckets:
                client: dict[str, Any] = {
                    "connect_timeout": f"{CONNECT_S}s",
                    "timeout": f"{seconds_for(2**26):.0f}s",
                }
                options: dict[str, Any] = {"client_options": client, "retry_config": {"max_retries": 0}}
                if self.scheme == "s3":
                    client |= {"allow_http": os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://")}
                    options |= _of_boto3()
                store = from_url(f"{self.scheme}://{name}", **options)
                direct = Direct(functools.partial(_signed, store)) if self.scheme in BY_SIGNED_URLS else None
                self._buckets[name] = _Bucket(store, direct)
            return self._buckets[name], key

    def found(self, url: str, waiting: Waiting) -> Found:
        import obstore

        bucket, key = self._bucket(url)
        return _as_found(url, dict(self._asked(lambda: obstore.head(bucket.store, key))))

    def below(self, url: str, waiting: Waiting) -> list[Found]:
        import obstore

        bucket, prefix = self._bucket(url)
        root = url[: len(url) - len(prefix)]
        every = self._asked(
            lambda: [one for some in obstore.list(bucket.store, prefix or None) for one in some]
        )
        return [_as_found(root + one["path"], dict(one)) for one in every]

    def get(self, found: Found, start: int, end: int, waiting: Waiting) -> tuple[Any, str]:
        import obstore

        bucket, key = self._bucket(found.url)
        options: dict[str, Any] = {"if_match": found.etag}
        if (start, end) != (0, found.size):
            options["range"] = (start, end)

        def answered() -> tuple[Any, str]:
            answer = obstore.get(bucket.store, key, options=options)
            # The first chunk is all that was asked for, or more.
            data = next(iter(answer.stream(min_chunk_size=end - start + 1)), b"")
            return data, str(answer.meta["e_tag"])

        return self._asked(answered)  # type: ignore[no-any-return]

    def direct(self, found: Found) -> tuple[Direct, str] | None:
        bucket, key = self._bucket(found.url)
        return None if bucket.direct is None else (bucket.direct, key)

    def _asked(self, ask: Any) -> Any:
        try:
            return ask()
        except Exception as error:
            status = STATUSES.get(type(error).__name__)
            code = re.search(r"status code: (\d{3})", str(error))
            if status is None and code is None:
                raise
            raise _Refused(status or int(code[1]), error) from None  # type: ignore[index]


def _signed(store: Any, names: list[str]) -> list[str]:
    """The URLs of objects in a bucket, with signatures."""
    import obstore

    return list(obstore.sign(store, "GET", names, SIGNED_FOR))


def _of_boto3() -> dict[str, Any]:
    """Credentials as ``s3fs`` finds them, if boto3 is there. By itself obstore reads the environment only."""
    if importlib.util.find_spec("boto3") is None:
        return {}
    import boto3

    session = boto3.session.Session()
    if session.get_credentials() is None:
        return {}
    from obstore.auth.boto3 import Boto3CredentialProvider

    region = session.region_name
    return {"credential_provider": Boto3CredentialProvider(session)} | ({"region": region} if region else {})


def _kind(scheme: str) -> type[Store]:
    is_there = scheme in BY_OBSTORE and importlib.util.find_spec("obstore") is not None
    if is_there and not _is_configured(scheme) and not _lost_threads:
        return _Obstore
    return KINDS.get(scheme, Store)


def _is_configured(scheme: str) -> bool:
    """Whether the user has configured ``fsspec`` for a scheme, as by ``FSSPEC_S3_ANON``."""
    import fsspec.config

    return bool(fsspec.config.conf.get(scheme))


KINDS: dict[str, type[Store]] = {
    "s3": _S3,
    "gs": _Google,
    "az": _Azure,
    "hf": _Hub,
    "http": _Web,
    "https": _Web,
}

_stores: dict[str, Store] = {}
_making = threading.Lock()
_lost_threads = False  # this process was forked from one that used obstore, whose threads are not here


def _forget() -> None:
    """In a forked child: the connections are the parent's, and a thread of it may have held the lock."""
    global _making, _lost_threads
    _lost_threads = _lost_threads or any(isinstance(store, _Obstore) for store in _stores.values())
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
            _stores[scheme] = _kind(scheme)(scheme)
        return _stores[scheme]
