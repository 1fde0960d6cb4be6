"""Web servers and stores that answer more than they were asked for, or send a reader elsewhere."""

from __future__ import annotations

import contextlib
import gzip
import http.server
import json
import threading

import pytest

pytest.importorskip("aiohttp", reason="aiohttp is not here; `make test-frameworks` installs it")

from seneca.data.sources import buckets, stores
from seneca.data.sources.stores import Found, store_of
from seneca.data.sources.waiting import Waiting
from seneca.errors import SourceError

MOST_SENT = 32 << 20  # into the buffers of sockets and packages, before the reader hangs up
ETAG = '"x"'
TIME = "Mon, 01 Jan 2024 00:00:00 GMT"


class Hostile:
    """A server, whose answer a test chooses; ``sent`` bytes of bodies so far; ``asked``, the headers."""

    def __init__(self, answer):
        self.sent, self.asked = 0, []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                """Nothing is printed."""

            def do_HEAD(self):
                self.answer(is_head=True)

            def do_GET(self):
                self.answer()

            def answer(self, is_head=False):
                outer.asked.append((self.path, dict(self.headers)))
                status, headers, body = answer(self.path)
                if is_head:
                    body = []
                    if status == 206:  # it has the size of the whole
                        size = headers["Content-Range"].rpartition("/")[2]
                        status, headers = 200, {"Content-Length": size}
                self.send_response(status)
                for name, value in {"ETag": ETAG, "Last-Modified": TIME}.items():
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
    return 302, {"Location": to, "Content-Length": "0", "Connection": "close"}, []


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


PACKAGES = {"gs": "gcsfs", "az": "adlfs", "hf": "huggingface_hub"}
ROOTS = {"gs": "gs://pics", "az": "az://pics", "hf": "hf://datasets/me/pics"}
COMMIT, SIZE = "1" * 40, 20
NOT_THERE = 404, {"Content-Length": "0", "Connection": "close"}, []
PAGE = f"""<?xml version="1.0"?><EnumerationResults ContainerName="pics"><Blobs><Blob>
<Name>train/a.jpg</Name><Properties><Etag>x</Etag><Last-Modified>{TIME}</Last-Modified>
<Content-Length>{SIZE}</Content-Length><BlobType>BlockBlob</BlobType></Properties></Blob></Blobs>
</EnumerationResults>"""


def other_stores(answered, listing=None):
    """Answers of the servers of three packages. They have ``train/a.jpg``, for which ``answered`` comes."""
    object_ = {"name": "train/a.jpg", "size": SIZE, "etag": ETAG}
    file = {"type": "file", "path": "train/a.jpg", "size": SIZE, "oid": "x"}
    repository = {"id": "me/pics", "sha": COMMIT}
    pages = {
        "/storage/v1/b/pics/o/train%2Fa.jpg": json.dumps(object_),
        "/storage/v1/b/pics/o": json.dumps({"items": [object_]}),
        "/me/pics": PAGE,
        "/api/datasets/me/pics": json.dumps(repository),
        "/api/datasets/me/pics/revision/main": json.dumps(repository),
        f"/api/datasets/me/pics/revision/{COMMIT}": json.dumps(repository),
        f"/api/datasets/me/pics/tree/{COMMIT}/train": json.dumps([file]),
    }

    def answer(path):
        path = path.partition("?")[0]
        if path in pages:
            kind = "application/xml" if pages[path] == PAGE else "application/json"
            headers = {"Content-Type": kind, "Connection": "close"}
            return 200, headers, listing() if listing else [pages[path].encode()]
        return answered() if path.endswith("a.jpg") else NOT_THERE

    return answer


@pytest.fixture(params=PACKAGES)
def root(request, monkeypatch):
    """The URL of a bucket or repository, which is read by the package of its scheme."""
    monkeypatch.setenv("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")  # it would ask by gRPC what bucket it is
    pytest.importorskip(PACKAGES[request.param])
    monkeypatch.setattr(stores, "BY_OBSTORE", ())
    return ROOTS[request.param]


@pytest.fixture
def found(root):
    commit = f"@{COMMIT}" if root.startswith("hf:") else ""
    return Found(f"{root}{commit}/train/a.jpg", SIZE, ETAG)


@contextlib.contextmanager
def served(monkeypatch, answer):
    """A server that all three packages ask."""
    import fsspec.config

    account = "DefaultEndpointsProtocol=http;AccountName=me;AccountKey=c2VjcmV0"
    with Hostile(answer) as server:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
        monkeypatch.setitem(fsspec.config.conf, "gs", {"token": "anon"})
        monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", f"{account};BlobEndpoint={server.url}/me")
        monkeypatch.setitem(fsspec.config.conf, "hf", {"endpoint": server.url, "token": "secret"})
        yield server


@pytest.mark.parametrize(("start", "end"), [(2, 5), (0, SIZE)])
def test_other_stores_are_asked_for_a_part_that_is_not_compressed(root, found, start, end, monkeypatch):
    data = bytes(range(start, end))
    headers = part_of(SIZE, **{"Content-Length": f"{end - start}"})
    headers["Content-Range"] = f"bytes {start}-{end - 1}/{SIZE}"
    with served(monkeypatch, other_stores(lambda: (206, headers, [data]))) as server:
        [listed] = store_of(root).below(f"{root}/train/", Waiting())
        assert (listed.url, listed.size) == (found.url, SIZE)
        assert store_of(root).found(f"{root}/train/a.jpg", Waiting()).size == SIZE
        assert store_of(root).get(listed, start, end, Waiting())[0] == data
    asked = [{name.lower(): value for name, value in headers.items()} for _, headers in server.asked]
    parts = [one for one in asked if "range" in one or "x-ms-range" in one]
    assert {one.get("x-ms-range") or one["range"] for one in parts} == {f"bytes={start}-{end - 1}"}
    assert {one["accept-encoding"] for one in parts} == {"identity"}


@pytest.mark.parametrize(("start", "end"), [(0, 10), (0, SIZE)])
@pytest.mark.parametrize("status", [206, 404])
def test_other_stores_that_never_end_are_hung_up_on(root, found, start, end, status, monkeypatch):
    monkeypatch.setattr(stores, "MOST_OF_A_LISTING", 1 << 20, raising=False)
    headers = part_of(SIZE, **{"Content-Length": f"{1 << 30}"})
    with served(monkeypatch, other_stores(lambda: (status, headers, endless()))) as server:
        with pytest.raises(OSError, match=r"answer has \d+ of|has more than|is not there") as error:
            buckets._piece(found, start, end, Waiting())
        assert error.value.filename == found.url
        assert server.sent < MOST_SENT


def test_compressed_answers_of_other_stores_are_refused_and_not_inflated(root, found, monkeypatch):
    bomb = gzip.compress(bytes(1 << 20))
    headers = part_of(SIZE, **{"Content-Encoding": "gzip", "Content-Length": f"{len(bomb)}"})
    answer = other_stores(lambda: (206, headers, [bomb]))
    with served(monkeypatch, answer), pytest.raises(SourceError, match="its server compresses it"):
        store_of(root).get(found, 0, 10, Waiting())


@pytest.mark.parametrize("root", ["gs", "az"], indirect=True)
def test_a_listing_that_never_ends_is_hung_up_on(root, monkeypatch):
    monkeypatch.setattr(stores, "MOST_OF_A_LISTING", 1 << 20, raising=False)
    with served(monkeypatch, other_stores(None, endless)) as server:
        with pytest.raises(ValueError, match="its answer has more than 1,048,576 bytes"):
            store_of(root).below(f"{root}/train/", Waiting())
        assert server.sent < MOST_SENT


@pytest.mark.parametrize("root", ["hf"], indirect=True)
def test_a_redirect_of_the_hub_that_never_ends_is_followed_without_credentials(root, found, monkeypatch):
    headers = part_of(SIZE, **{"Content-Length": "10"})
    with Hostile(lambda path: (206, headers, [bytes(10)])) as other:
        to = {"Location": f"{other.url}/b", "Content-Length": f"{1 << 30}"}
        with served(monkeypatch, other_stores(lambda: (302, to, endless()))) as server:
            assert store_of(root).get(found, 0, 10, Waiting())[0] == bytes(10)
            assert server.sent < MOST_SENT
    assert any("authorization" in {name.lower() for name in headers} for _, headers in server.asked)
    [(_, asked)] = other.asked
    assert "authorization" not in {name.lower() for name in asked}


@pytest.mark.parametrize("root", ["hf"], indirect=True)
def test_a_hub_that_redirects_in_a_circle_is_named(root, found, monkeypatch):
    answer = other_stores(lambda: redirect("/datasets/me/pics/resolve/a.jpg"))
    with served(monkeypatch, answer), pytest.raises(SourceError, match="redirects in a circle"):
        store_of(root).get(found, 0, 10, Waiting())
