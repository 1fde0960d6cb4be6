"""A bucket in this process's memory, of which tests change what it answers. Its URLs begin with ``gs://``."""

from __future__ import annotations

import collections
import hashlib
import threading
from pathlib import Path

from seneca.data.sources import stores
from seneca.data.sources.stores import Found
from seneca.data.sources.waiting import Waiting

__all__ = ["Bucket", "Refused"]


class Refused(Exception):
    """As an HTTP library's: it has a status."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.status = status


class Bucket(stores.Store):
    """What is at each URL; and the exceptions, or functions of what would be answered, that come first."""

    def __init__(self) -> None:
        self.scheme = "gs"
        self.content: dict[str, bytes] = {}
        self.first: dict[str, list] = collections.defaultdict(list)
        self.asked: collections.Counter[str] = collections.Counter()
        self.ranges: list[tuple[str, int, int]] = []
        self.at_a_time = self.most_at_a_time = 0
        self.hangs: bool | str = False
        self.released = threading.Event()
        self._lock = threading.Lock()

    @classmethod
    def made(cls, monkeypatch, folder: Path | None = None, prefix: str = "gs://bucket/train/") -> Bucket:
        """The store of ``gs://`` from now on, with the files of a folder below a prefix."""
        bucket = cls()
        monkeypatch.setitem(stores._stores, "gs", bucket)
        if folder is not None:
            for path in folder.rglob("*"):
                if path.is_file():
                    bucket.content[prefix + path.relative_to(folder).as_posix()] = path.read_bytes()
        return bucket

    def etag(self, url: str) -> str:
        return hashlib.md5(self.content[url]).hexdigest()

    def found(self, url: str, waiting: Waiting) -> Found:
        if url not in self.content:
            raise Refused(404)
        return Found(url, len(self.content[url]), self.etag(url))

    def below(self, url: str, waiting: Waiting) -> list[Found]:
        self.asked[url] += 1
        for error in self.first.pop(url, []):
            raise error
        return [self.found(one, waiting) for one in self.content if one.startswith(url)]

    def get(self, found: Found, start: int, end: int, waiting: Waiting) -> tuple[bytes, str]:
        with self._lock:
            self.asked[found.url] += 1
            self.ranges.append((found.url, start, end))
            self.at_a_time += 1
            self.most_at_a_time = max(self.at_a_time, self.most_at_a_time)
        try:
            if self.hangs == "for ever":
                self.released.wait()
            else:
                waiting.pause(1e6 if self.hangs else 0.001)
        finally:
            with self._lock:
                self.at_a_time -= 1
        then = self.first[found.url].pop(0) if self.first[found.url] else None
        if isinstance(then, BaseException):
            raise then
        if found.url not in self.content:
            raise Refused(404)
        data, etag = self.content[found.url][start:end], self.etag(found.url)
        return (then(data) if then else data), etag
