"""Objects are fetched by libcurl from a real server. What it cannot bring, the package is asked for."""

import contextlib
import gc
import http.server
import io
import multiprocessing
import os
import socket
import tarfile
import threading

import numpy as np
import pytest
import torch
from bucket_in_memory import Bucket
from engine import Process

import seneca
from seneca import transforms as T
from seneca._core.fetches import Connections
from seneca.data.sources import buckets, stores
from seneca.errors import SourceError
from seneca.native import fetchers

CROP = T.Compose([T.RandomResizedCrop(32), T.ToTensor()])


class Server(http.server.ThreadingHTTPServer):
    daemon_threads, block_on_close = True, False
    request_queue_size = 128  # with fewer, a connection may wait for seconds


class Served(Bucket):
    """A bucket whose objects a web server of this process has too. ``faults``: how it fails, for each URL.

    Answers that hang come after ``released``; ``hanging`` counts them.
    """

    def __init__(self):
        super().__init__()
        self.faults, self.served, self.clients = {}, [], set()
        self.how, self.hanging = stores.Direct(self.urls_of), threading.Semaphore(0)
        self.server = Server(("127.0.0.1", 0), handler_of(self))
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def etag(self, url):
        return f'"{super().etag(url)}"'

    def urls_of(self, names):
        return [f"http://127.0.0.1:{self.server.server_address[1]}/{name[5:]}?signed" for name in names]

    def direct(self, found):
        return self.how, found.url


def handler_of(bucket):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version, wbufsize = "HTTP/1.1", -1  # a head and its body go together

        def log_message(self, *_):
            """Nothing is printed."""

        def do_GET(self):
            url = f"gs://{self.path[1:].removesuffix('?signed')}"
            data, etag, fault = bucket.content[url], bucket.etag(url), bucket.faults.get(url)
            assert self.headers["If-Match"] == etag
            bucket.served.append(url)
            bucket.clients.add(self.client_address)
            headers, status, whole = {"ETag": etag}, 200, len(data)
            if wanted := self.headers["Range"]:
                first, _, last = wanted.removeprefix("bytes=").partition("-")
                data, status = data[int(first) : int(last) + 1], 206
                headers["Content-Range"] = f"bytes {first}-{last}/{whole}"
            if isinstance(fault, int):
                data, status = b"as asked", fault
            elif fault == "another etag":
                headers["ETag"] = '"another"'
            elif fault == "no etag":
                del headers["ETag"]
            elif fault == "longer":
                data += b"!"
            elif fault == "shorter":
                data = data[:-1]
            elif fault == "all of it":
                data, status = bucket.content[url], 200
            elif fault == "another part":
                headers["Content-Range"] = f"bytes {int(first) + 1}-{int(last) + 1}/{whole}"
            elif fault == "hang":
                bucket.hanging.release()
                bucket.released.wait()
            elif fault == "no answer":
                self.close_connection = True
                return
            elif fault == "rubbish":
                self.wfile.write(b"\0\xff no HTTP\r\n\r\n")
                self.close_connection = True
                return
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(data))}.items():
                self.send_header(name, value)
            self.end_headers()
            cut = fault == "cut"
            self.wfile.write(data[: len(data) // 2] if cut else data)
            self.close_connection = cut or fault == "one answer a connection"

    return Handler


@pytest.fixture
def bucket(monkeypatch, picture_folder):
    try:
        Connections()
    except OSError as error:
        pytest.skip(f"{error}; `apt-get install libcurl4` installs it")
    bucket = Served.made(monkeypatch, picture_folder)
    yield bucket
    bucket.released.set()
    bucket.server.shutdown()
    bucket.server.server_close()
    gc.collect()  # a loader that an error's traceback holds would go on, and ask the next test's bucket
    for thread in threading.enumerate():
        if thread.name == "seneca-fetch":
            thread.join(10)


def loader_of(dataset, batch_size=8):
    options = {"batch_size": batch_size, "num_workers": 2, "shuffle": True, "cache": None}
    return seneca.DataLoader(dataset, **options, generator=torch.Generator().manual_seed(3))


def both(picture_folder):
    return loader_of(seneca.open("gs://bucket/train/", CROP)), loader_of(seneca.open(picture_folder, CROP))


def pixels(loader):
    return torch.cat([images for images, _ in loader])


def test_the_package_is_asked_for_nothing(bucket, picture_folder):
    """In the second epoch too, which uses the connections of the first."""
    loader, folder = both(picture_folder)
    for _ in range(2):
        assert torch.equal(pixels(loader), pixels(folder))
    assert sorted(bucket.served) == sorted([*bucket.content, *bucket.content])
    assert not any(bucket.asked[url] for url in bucket.content)
    assert len(bucket.clients) <= len(bucket.content)


@pytest.mark.small(5)
@pytest.mark.parametrize(
    "fault",
    [301, 403, 404, 429, 503, "another etag", "no etag", "longer", "shorter", "cut", "no answer", "rubbish"],
)
def test_what_fails_is_asked_of_the_package(bucket, picture_folder, fault):
    dataset = seneca.open("gs://bucket/train/", CROP)
    url = sorted(bucket.content)[-1]
    loader, folder = loader_of(dataset), loader_of(seneca.open(picture_folder, CROP))
    assert torch.equal(pixels(loader), pixels(folder))  # connections work
    bucket.faults[url] = fault
    assert torch.equal(pixels(loader), pixels(folder))
    assert bucket.asked[url] == 1
    assert not bucket.how.is_off


@pytest.mark.small(1)
@pytest.mark.parametrize("fault", ["another part", "all of it"])
def test_another_part_is_not_taken(bucket, picture_folder, fault):
    """It has the length that was asked for, or begins with what lies at the archive's beginning."""
    packed, url = io.BytesIO(), "gs://bucket/train.tar"
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.add(picture_folder, "train")
    bucket.content[url] = packed.getvalue()
    dataset = seneca.open(url, CROP)
    loader, folder = loader_of(dataset), loader_of(seneca.open(picture_folder, CROP))
    assert torch.equal(pixels(loader), pixels(folder))
    assert bucket.served and not bucket.how.is_off
    bucket.faults[url] = fault
    assert torch.equal(pixels(loader), pixels(folder))
    assert bucket.how.is_off


def test_a_server_that_hangs_holds_up_no_closing(bucket, monkeypatch):
    """Not even when as many requests are under way as there may be."""
    monkeypatch.setattr(fetchers, "SILENT_S", 10**6)
    monkeypatch.setattr(buckets, "seconds_for", lambda _: 1e6)
    for url, data in list(bucket.content.items()):
        bucket.content[url.replace("class_", "class_9")] = data
    bucket.faults = dict.fromkeys(bucket.content, "hang")
    epoch, came = iter(loader_of(seneca.open("gs://bucket/train/", CROP), 16)), []
    consumer = threading.Thread(target=lambda: came.append(next(epoch, None)))
    consumer.start()
    for _ in range(64):
        assert bucket.hanging.acquire(timeout=60)
    assert not bucket.hanging.acquire(timeout=0.1), "there are no more requests than connections"
    epoch._close()
    consumer.join()
    assert came == [None]
    assert not [thread for thread in threading.enumerate() if thread.name == "seneca-fetch"]


def test_a_forked_child_has_connections_of_its_own(bucket, picture_folder):
    loader, folder = both(picture_folder)
    assert torch.equal(pixels(loader), pixels(folder))
    wanted = [images.numpy() for images, _ in folder]

    def fetch():  # without torch's own threads, which a child does not have
        stores._stores["gs"] = bucket
        found = [images.numpy() for images, _ in loader]
        raise SystemExit(0 if all(map(np.array_equal, found, wanted)) else 3)

    child = multiprocessing.get_context("fork").Process(target=fetch)
    before = set(bucket.clients)
    child.start()
    child.join()
    assert child.exitcode == 0
    assert len(bucket.served) == 2 * len(bucket.content) and bucket.clients > before
    bucket.clients.clear()
    assert all(map(np.array_equal, [images.numpy() for images, _ in loader], wanted))
    assert bucket.clients & before, "the connections of this process are open still"


@pytest.mark.small(1)
@pytest.mark.parametrize("fault", [403, "no etag", "no answer"])
def test_a_server_that_never_works_is_left(bucket, picture_folder, fault):
    bucket.faults = dict.fromkeys(bucket.content, fault)
    loader, folder = both(picture_folder)
    assert torch.equal(pixels(loader), pixels(folder))
    assert bucket.how.is_off
    asked, bucket.served[:] = bucket.asked.total(), []
    assert torch.equal(pixels(loader), pixels(folder))
    assert not bucket.served and bucket.asked.total() == asked + len(bucket.content)


def test_without_a_url_the_package_is_asked(bucket, picture_folder, monkeypatch):
    def no_key(names):
        raise RuntimeError("no credentials")

    bucket.how.urls_of = no_key
    loader, folder = both(picture_folder)
    assert torch.equal(pixels(loader), pixels(folder))
    assert not bucket.served and all(bucket.asked[url] == 1 for url in bucket.content)


def test_what_both_refuse_is_named(bucket):
    dataset = seneca.open("gs://bucket/train/", CROP)
    url = dataset.samples[3][0]
    bucket.faults[url] = 404
    bucket.first[url] = [FileNotFoundError("no such object")] * 4
    with pytest.raises(FileNotFoundError, match="is not there") as error:
        pixels(loader_of(dataset))
    assert error.value.filename == url


def test_a_server_that_is_overloaded_is_not_left(bucket, picture_folder):
    bucket.faults = dict.fromkeys(bucket.content, 503)
    loader, folder = both(picture_folder)
    assert torch.equal(pixels(loader), pixels(folder))
    how = bucket.how
    assert how.in_vain <= how.asked - len(bucket.served), "only what this machine was too busy to connect"


def test_a_container_without_a_store_is_named(bucket, monkeypatch):
    """As where its package is not installed, and the first container has another."""
    dataset = seneca.open("gs://bucket/train/", CROP)
    url = dataset.samples[3][0]

    def direct(found):
        if found.url == url:
            raise SourceError("no package")
        return bucket.how, found.url

    monkeypatch.setattr(bucket, "direct", direct)
    bucket.first[url] = [SourceError("no package")]
    with pytest.raises(OSError, match="no package"):
        pixels(loader_of(dataset))


def peers_of_standard_streams():
    """What is behind the descriptors 0 to 2 that are open connections by internet."""
    found = set()
    for stream in range(3):
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(stream)) as one:
            if one.family == socket.AF_INET:
                found.add(one.getpeername())
    return found


def test_no_connection_takes_the_place_of_a_closed_standard_stream(bucket):
    """What a library prints would go to the server."""
    bucket.faults = dict.fromkeys(bucket.content, "one answer a connection")

    def fetch(pipe):
        stores._stores["gs"] = bucket
        loader, found = loader_of(seneca.open("gs://bucket/train/", CROP)), set()
        list(loader)  # libcurl opens what it needs for itself
        for stream in range(3):
            os.close(stream)
        for _ in loader:
            found |= peers_of_standard_streams()
        pipe.send(found)

    with Process(fetch) as child:
        assert child.receive() == set()
