"""A server with as much of S3's interface as reading needs, in a process of its own. Each answer waits for
a while.

It serves the files of a folder as the objects of one bucket, from memory, and does not look at signatures.

    with bucket_of(Path("train/"), wait_s=0.02) as url:
        os.environ["AWS_ENDPOINT_URL"] = url
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import multiprocessing
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

__all__ = ["BUCKET", "bucket_of"]

BUCKET = "bench"
LISTED = (
    "<Contents><Key>{}</Key><ETag>&quot;{}&quot;</ETag><Size>{}</Size>"
    "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
)


class _Connection(asyncio.Protocol):
    """One client's requests, one after the other."""

    def __init__(self, objects: dict[str, tuple[bytes, str]], wait_s: float) -> None:
        self._objects, self._wait_s = objects, wait_s
        self._rest = b""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._rest += data
        while b"\r\n\r\n" in self._rest:
            head, _, self._rest = self._rest.partition(b"\r\n\r\n")
            lines = head.decode().split("\r\n")
            headers = {name.lower(): value for name, _, value in (one.partition(": ") for one in lines[1:])}
            answer = self._answer(lines[0].split(" ")[1], headers)
            asyncio.get_running_loop().call_later(self._wait_s, self._transport.writelines, answer)

    def _answer(self, target: str, headers: dict[str, str]) -> list[bytes]:
        parts = urlsplit(target)
        key = unquote(parts.path).removeprefix(f"/{BUCKET}").lstrip("/")
        if not key:
            return self._whole(self._listed(parse_qs(parts.query)), "200 OK", "")
        if key not in self._objects:
            return self._whole(b"", "404 Not Found", "")
        data, etag = self._objects[key]
        if headers.get("if-match", f'"{etag}"').strip('"') != etag:
            return self._whole(b"", "412 Precondition Failed", "")
        extra, status = f'ETag: "{etag}"\r\n', "200 OK"
        if wanted := headers.get("range"):
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            extra += f"Content-Range: bytes {first}-{last}/{len(data)}\r\n"
            data, status = data[int(first) : int(last) + 1], "206 Partial Content"
        return self._whole(data, status, extra)

    def _whole(self, data: bytes, status: str, extra: str) -> list[bytes]:
        return [f"HTTP/1.1 {status}\r\n{extra}Content-Length: {len(data)}\r\n\r\n".encode(), data]

    def _listed(self, query: dict[str, list[str]]) -> bytes:
        prefix = query.get("prefix", [""])[0]
        rows = "".join(
            LISTED.format(escape(key), etag, len(data))
            for key, (data, etag) in self._objects.items()
            if key.startswith(prefix)
        )
        return f"<ListBucketResult><IsTruncated>false</IsTruncated>{rows}</ListBucketResult>".encode()


def _serve(folder: Path, wait_s: float, port: Any) -> None:
    objects = {}
    for path in sorted(one for one in folder.rglob("*") if one.is_file()):
        data = path.read_bytes()
        objects[path.relative_to(folder).as_posix()] = data, hashlib.md5(data).hexdigest()

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: _Connection(objects, wait_s), "127.0.0.1", 0, backlog=256)
        port.put(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(serve())


@contextlib.contextmanager
def bucket_of(folder: Path, wait_s: float) -> Iterator[str]:
    """The URL of a server that has the folder's files in a bucket called :data:`BUCKET`."""
    context = multiprocessing.get_context("spawn")
    port = context.SimpleQueue()
    process = context.Process(target=_serve, args=(folder, wait_s, port), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{port.get()}"
    finally:
        process.kill()
        process.join()
