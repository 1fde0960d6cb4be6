"""Web servers and stores that answer more than they were asked for, or send a reader elsewhere."""

from __future__ import annotations

import contextlib
import gzip
import http.server
import threading

import pytest

pytest.importorskip("aiohttp", reason="aiohttp is not here; `make test-frameworks` installs it")

from seneca.data.sources import buckets, stores
from seneca.data.sources.stores import Found, store_of
from seneca.data.sources.waiting import Waiting
from seneca.errors import SourceError

MOST_SENT = 32 << 20  # into the buffers of sockets and packages, before the reader hangs up
ETAG = '"x"'


class Hostile:
    """A server, whose answer a test chooses; ``sent`` bytes of bodies so far; ``asked``, the headers."""

    def __init__(self, answer):
        self.sent, self.asked = 0, []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                """Nothing is printed."""

            def do_GET(self):
                outer.asked.append((self.path, dict(self.headers)))
                status, headers, body = answer(self.path)
                self.send_response(status)
                for name, value in {"ETag": ETAG, "Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT"}.items():
                    self.send_header(name, value)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.close_connection = True
                with contextlib.suppress(OSError):
                    for part in body:
                        self.wfile.write(part)
                        outer.sent += len(part)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def endless():
    """A gibibyte: a test that fails must end."""
    return (bytes(1 << 20) for _ in range(1024))


def part_of(total, **headers):
    return {"Content-Range": f"bytes 0-0/{total}", "Connection": "close", **headers}


@pytest.fixture(autouse=True)
def own_stores(monkeypatch):
    monkeypatch.setattr(stores, "_stores", {})
    monkeypatch.setattr(buckets, "PAUSES_S", (0.0,))


def test_a_web_server_that_never_ends_is_hung_up_on():
    with Hostile(lambda path: (206, part_of(100), endless())) as server:
        found = store_of(server.url).found(f"{server.url}/a.tar", Waiting())
        assert found.size == 100
        data, _ = store_of(server.url).get(found, 0, 10, Waiting())
        assert len(data) == 11
        with pytest.raises(OSError, match="its answer has 11 of 10 bytes"):
            buckets._piece(found, 0, 10, Waiting())
        assert server.sent < MOST_SENT


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "x-\x1bodd"])
def test_a_compressed_answer_is_refused_and_not_inflated(encoding):
    bomb = gzip.compress(bytes(1 << 20))
    headers = part_of(100, **{"Content-Encoding": encoding, "Content-Length": str(len(bomb))})
    with Hostile(lambda path: (206, headers, [bomb])) as server:
        with pytest.raises(SourceError, match="its server compresses it") as refused:
            store_of(server.url).found(f"{server.url}/a.tar", Waiting())
        assert str(refused.value).isprintable()
        assert server.asked[0][1]["Accept-Encoding"] == "identity"


def redirect(to):
    return 302, {"Location": to, "Content-Length": "0"}, []


def test_a_redirect_to_another_server_is_refused_and_that_one_is_not_asked(tmp_path, monkeypatch):
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password secret")
    (tmp_path / "netrc").chmod(0o600)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    other = Hostile(lambda path: (206, part_of(1), [b"x"]))
    server = Hostile(lambda path: redirect(f"{other.url}/b?signature=1"))
    with other, server:
        with pytest.raises(SourceError, match=f"redirects to {other.url}/b, which is another"):
            store_of(server.url).found(f"{server.url}/a.tar", Waiting())
        assert other.asked == []


def test_a_redirect_to_another_server_that_may_be_followed_has_no_credentials(monkeypatch):
    monkeypatch.setattr(stores, "ELSEWHERE", "http")
    other = Hostile(lambda path: (206, part_of(7), [b"x"]))
    with other, Hostile(lambda path: redirect(f"{other.url.replace('//', '//you:secret@')}/b")) as server:
        url = f"{server.url.replace('//', '//me:password@')}/a.tar"
        assert store_of(url).found(url, Waiting()).size == 7
    assert "Authorization" in server.asked[0][1] and "Authorization" not in other.asked[0][1]


def test_a_redirect_within_a_server_is_followed_and_a_circle_is_not():
    answers = {"/a.tar": redirect("/c/b.tar"), "/c/b.tar": (206, part_of(7), [b"x"]), "/o": redirect("/o")}
    with Hostile(answers.__getitem__) as server:
        found = store_of(server.url).found(f"{server.url}/a.tar", Waiting())
        assert found == Found(f"{server.url}/a.tar", 7, ETAG)
        with pytest.raises(SourceError, match="redirects in a circle"):
            store_of(server.url).found(f"{server.url}/o", Waiting())
        assert len(server.asked) < 12


@pytest.mark.parametrize("package", ["s3fs", "obstore"])
@pytest.mark.parametrize("part", [True, False])
def test_a_store_that_never_ends_is_hung_up_on(package, part, monkeypatch):
    pytest.importorskip(package)
    if package == "s3fs":
        monkeypatch.setattr(stores, "BY_OBSTORE", ())
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "me")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    size = 1 << 30
    headers = {"Content-Length": f"{size}", "Connection": "close"}
    status, start, end = (206, 0, 10) if part else (200, 0, 20)
    if part:
        headers["Content-Range"] = f"bytes 0-9/{size}" if package == "s3fs" else f"bytes 0-9/{20}"
    with Hostile(lambda path: (status, headers, endless())) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        found = Found("s3://bucket/a.jpg", 20, ETAG)
        data, etag = store_of(found.url).get(found, start, end, Waiting())
        assert len(data) > end - start and etag == ETAG
        assert len(data) < MOST_SENT and server.sent < MOST_SENT
