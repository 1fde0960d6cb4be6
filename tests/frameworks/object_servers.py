"""Servers of objects that run in this process, and fail as the test says: moto's S3, and a web server of
files.

Each fault is for paths that end with a text, for so many requests: a status, a body that is cut off, or an
answer that does not come until the test ends.
"""

from __future__ import annotations

import contextlib
import http.server
import socketserver
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

__all__ = ["Faults", "s3_server", "web_server"]

S3_ERROR = "<?xml version='1.0'?><Error><Code>{code}</Code><Message>as asked</Message></Error>"
CODES = {403: "AccessDenied", 404: "NoSuchKey", 503: "SlowDown"}


class Faults:
    """What fails, and what was asked for. ``wait_s``: how long each answer takes at least."""

    def __init__(self) -> None:
        self.of: list[list[Any]] = []
        self.asked: Counter[str] = Counter()
        self.released = threading.Event()
        self.hanging = threading.Semaphore(0)
        self._lock = threading.Lock()

    def add(self, ending: str, what: int | str, times: int = 10**9) -> None:
        self.of.append([ending, what, times])

    def met(self, method: str, path: str) -> int | str | None:
        """Count a request, and answer what of it fails: a status, "cut" or None. "hang" has been waited
        for."""
        with self._lock:
            self.asked[path] += method == "GET"
            found = next((one for one in self.of if path.endswith(one[0]) and one[2] > 0), None)
            if found is not None:
                found[2] -= 1
        if found is not None and found[1] == "hang":
            self.hanging.release()
            self.released.wait()
        return None if found is None else found[1]


class _QuietRequests:
    def log_message(self, *_: Any) -> None:
        """Nothing is printed: a test says what it has seen."""

    def log(self, *_: Any, **__: Any) -> None:
        """Likewise."""


@contextlib.contextmanager
def s3_server(faults: Faults) -> Iterator[str]:
    """The URL of a server that has S3's interface, without buckets."""
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Handler(_QuietRequests, WSGIRequestHandler):
        """Without a log."""

    inner = DomainDispatcherApplication(create_backend_app)

    def app(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        fault = faults.met(environ["REQUEST_METHOD"], environ["PATH_INFO"])
        if isinstance(fault, int):
            body = S3_ERROR.format(code=CODES.get(fault, "Other")).encode()
            start(
                f"{fault} as asked", [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))]
            )
            return [body]
        body = b"".join(inner(environ, start))
        return [body[: len(body) // 2]] if fault == "cut" else [body]

    with _served(make_server("127.0.0.1", 0, app, threaded=True, request_handler=Handler), faults) as port:
        yield f"http://127.0.0.1:{port}"


@contextlib.contextmanager
def web_server(folder: Path, faults: Faults) -> Iterator[str]:
    """The URL of a server of files: with etags, conditions and ranges, as large web servers have them."""

    class Handler(_QuietRequests, http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            fault = faults.met(self.command, self.path)
            path = folder / self.path.lstrip("/")
            if isinstance(fault, int) or not path.is_file():
                self._answer(fault if isinstance(fault, int) else 404, b"", {})
                return
            data, about = path.read_bytes(), path.stat()
            etag = f'"{about.st_mtime_ns:x}-{about.st_size:x}"'
            if self.headers.get("If-Match", etag) != etag:
                self._answer(412, b"", {})
                return
            headers, status, whole = {"ETag": etag, "Accept-Ranges": "bytes"}, 200, len(data)
            if wanted := self.headers.get("Range"):
                first, _, last = wanted.removeprefix("bytes=").partition("-")
                data, status = data[int(first) : int(last) + 1], 206
                headers["Content-Range"] = f"bytes {first}-{int(first) + len(data) - 1}/{whole}"
            self._answer(status, data, headers, cut=fault == "cut")

        def _answer(self, status: int, data: bytes, headers: dict[str, str], cut: bool = False) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(data))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(data[: len(data) // 2] if cut else data)
            self.close_connection = cut

    class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
        daemon_threads = True
        request_queue_size = 128

    with _served(Server(("127.0.0.1", 0), Handler), faults) as port:
        yield f"http://127.0.0.1:{port}"


@contextlib.contextmanager
def _served(server: Any, faults: Faults) -> Iterator[int]:
    server.daemon_threads, server.block_on_close = True, False
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        faults.released.set()
        server.shutdown()
        server.server_close()
        thread.join()
