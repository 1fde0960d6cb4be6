"""One try with a store: what fsspec's file systems list and give, as objects with etags. Real servers are in
tests/frameworks/test_buckets.py."""

import asyncio
import os
import sys

import fsspec
import pytest

from seneca.data.sources import stores
from seneca.data.sources.stores import Found, Store, scheme_of, store_of
from seneca.data.sources.waiting import Waiting
from seneca.errors import SourceError


@pytest.fixture
def memory(monkeypatch):
    """fsspec's own file system in memory, which is not asynchronous, by a scheme of its own."""
    monkeypatch.setitem(stores.PACKAGES, "memory", "fsspec")
    monkeypatch.setattr(stores, "_stores", {})
    files = fsspec.filesystem("memory")
    for name in ("a/1.jpg", "a/2.jpg", "b.jpg"):
        files.pipe(f"/bucket/train/{name}", name.encode() * 3)
    yield files
    files.rm("/bucket", recursive=True)


def test_schemes():
    assert [scheme_of(one) for one in ("s3://b", "HTTPS://h/x", "a/b", "no scheme://x")] == [
        "s3",
        "https",
        None,
        None,
    ]


def test_what_lies_below_a_prefix_and_at_a_url(memory):
    store = store_of("memory://bucket/train/")
    assert store is store_of("memory://other")
    every = {found.url: found for found in store.below("memory://bucket/train/", Waiting())}
    assert sorted(every) == [f"memory://bucket/train/{name}" for name in ("a/1.jpg", "a/2.jpg", "b.jpg")]
    one = every["memory://bucket/train/b.jpg"]
    assert one.size == 15 and store.found(one.url, Waiting()) == one


def test_bytes_come_with_the_etag_that_they_are_of(memory):
    store = store_of("memory://bucket")
    found = store.found("memory://bucket/train/b.jpg", Waiting())
    assert store.get(found, 0, 15, Waiting()) == (b"b.jpg" * 3, found.etag)
    assert store.get(found, 1, 4, Waiting()) == (b".jp", found.etag)
    memory.pipe("/bucket/train/b.jpg", b"B.JPG" * 3)
    data, etag = store.get(found, 0, 15, Waiting())
    assert data == b"B.JPG" * 3 and etag != found.etag


@pytest.mark.parametrize(
    ("about", "etag"),
    [
        ({"size": 3, "ETag": '"x"', "LastModified": 5}, '"x"'),
        ({"size": 3, "etag": "y"}, "y"),
        ({"size": 3, "Last-Modified": "Mon"}, "3 Mon"),
    ],
)
def test_an_etag_is_the_server_s_or_size_and_time(memory, about, etag):
    assert stores._as_found("u", about) == Found("u", 3, etag)


@pytest.mark.parametrize(
    ("about", "says"),
    [({"ETag": "x"}, "does not say how many bytes"), ({"size": 3}, "neither an etag nor a time of change")],
)
def test_what_would_look_the_same_after_a_change_is_refused(memory, about, says):
    with pytest.raises(SourceError, match=says):
        stores._as_found("u", about)


@pytest.mark.parametrize("code", ["\r\nX-Injected: 1", "\n", "\0", "\x1b[31m", "\x7f"])
def test_what_would_become_a_header_has_no_control_characters(code):
    with pytest.raises(SourceError, match="u: its etag has control characters"):
        stores._as_found("u", {"size": 3, "ETag": f'"x{code}"'})
    with pytest.raises(SourceError, match="its name has control characters") as refused:
        stores._as_found(f"s3://b/u{code}", {"size": 3, "ETag": '"x"'})
    assert str(refused.value).isprintable()


@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_of_an_answer_one_byte_more_is_read_than_was_asked_for(chunk):
    async def endless(most):
        return bytes(min(most, chunk))

    assert len(asyncio.run(stores._at_most(10, endless))) == 11


def test_a_package_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setattr(stores, "_stores", {})
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    fsspec.registry  # noqa: B018
    monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, "gs", raising=False)
    with pytest.raises(SourceError, match="gs:// needs the package gcsfs: pip install gcsfs"):
        store_of("gs://bucket/x")


def test_a_child_has_stores_of_its_own(memory):
    ours = store_of("memory://b")
    child = os.fork()
    if child == 0:
        os._exit(0 if store_of("memory://b") is not ours else 1)
    assert os.waitpid(child, 0)[1] == 0


class Hub:
    """What of Hugging Face's file system is used, with two commits of a repository."""

    class _Api:
        sha = "1" * 40

        def repo_info(self, repo_id, *, repo_type, revision):
            assert (repo_id, repo_type, revision) == ("me/pics", "dataset", "main")
            return type("Info", (), {"sha": self.sha})()

    async_impl = False

    def __init__(self):
        self._api = self._Api()

    @staticmethod
    def _strip_protocol(url):
        return url.removeprefix("hf://").rstrip("/")

    def resolve_path(self, path):
        assert path.startswith("datasets/me/pics")
        inside = path.removeprefix("datasets/me/pics").lstrip("/")
        names = {"repo_id": "me/pics", "repo_type": "dataset", "revision": "main", "path_in_repo": inside}
        return type("At", (), names)()

    def find(self, path, detail):
        return {f"{path}/a/1.jpg": {"size": 3, "blob_id": "x"}}

    def info(self, path):
        return {"size": 3, "blob_id": "x"}


def test_a_repository_of_the_hub_is_named_by_its_commit():
    store = Store.__new__(stores._Hub)
    store.scheme, store.fs = "hf", Hub()
    commit = "1" * 40
    [found] = store.below("hf://datasets/me/pics/train/", Waiting())
    assert found == Found(f"hf://datasets/me/pics@{commit}/train/a/1.jpg", 3, "x")
    assert (
        store.found("hf://datasets/me/pics/t.tar", Waiting()).url == f"hf://datasets/me/pics@{commit}/t.tar"
    )
