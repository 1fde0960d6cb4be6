"""Worker processes ask the memory of other hosts before storage, and count what came of it for the loader.

::

    RemoteStages.read() --> another host's memory --miss--> storage, and then it is left for other hosts

    worker: what its own connections did --Tallies--> the loader's process: stats()["remote"]

Keys are those of the native path: the fingerprint of the dataset's files, and the sample. Therefore hosts on
either path serve each other.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from seneca._runtime.remote_servers import RemoteServer
from seneca.cache.remote import RemoteCache, remote_cache
from seneca.data.stages import Pictures
from seneca.workers.messages import shared_zeros
from seneca.workers.stages import TimedStages

__all__ = ["RemoteStages", "Tallies", "WorkersRemote"]

COUNTED = ("hits", "misses", "skipped", "stored", "refused", "failures", "wrong", "bytes")
GET_NS, LEFT_ALONE = len(COUNTED), len(COUNTED) + 1
COLUMNS = len(COUNTED) + 2
ROWS = 128  # one for each worker; the last is also for all workers beyond
MESSAGE_WORDS = 25  # of 8 bytes, at the end: the last message of any worker


class Tallies:
    """Counts of the requests of worker processes to each server, in memory that all of them see.

    Each server has a tensor of its own.

    Args:
        names: The names of the servers.
    """

    def __init__(self, names: Sequence[str]) -> None:
        size = ROWS * COLUMNS + MESSAGE_WORDS
        self.of = {name: shared_zeros(size) for name in names}

    def add(self, name: str, worker: int, now: dict[str, Any], before: dict[str, Any] | None) -> None:
        """Add what a worker has asked since it last reported: the difference of two :meth:`Remote.counts`."""
        words = self.of[name].numpy()
        row = words[: ROWS * COLUMNS].reshape(ROWS, COLUMNS)[min(worker, ROWS - 1)]
        for place, key in enumerate(COUNTED):
            row[place] += now[key] - (before[key] if before else 0)
        row[GET_NS] += int(1e9 * (now["get_s"] - (before["get_s"] if before else 0.0)))
        row[LEFT_ALONE] = now["left_alone"]
        if now["message"] and (before is None or now["failures"] != before["failures"]):
            text = now["message"].encode()[: 8 * MESSAGE_WORDS - 1]
            words[ROWS * COLUMNS :].view(np.uint8)[: len(text) + 1] = np.frombuffer(text + b"\0", np.uint8)

    def added_to(self, stats: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """The stats of this process's own servers, and what its workers have asked of them."""
        return {name: self._added(name, dict(own)) for name, own in stats.items()}

    def _added(self, name: str, own: dict[str, Any]) -> dict[str, Any]:
        if name not in self.of:
            return own
        words = self.of[name].numpy()
        rows = words[: ROWS * COLUMNS].reshape(ROWS, COLUMNS)
        sums = rows.sum(0).tolist()
        for place, key in enumerate(COUNTED):
            own[key] += sums[place]
        own["get_s"] += sums[GET_NS] * 1e-9
        own["left_alone"] = own["left_alone"] or sums[LEFT_ALONE] > 0
        text = words[ROWS * COLUMNS :].tobytes().partition(b"\0")[0]
        own["message"] = text.decode(errors="replace") or own["message"]
        return own


class WorkersRemote:
    """The servers as one process that makes items uses them. It opens its own connections when it first asks.

    Args:
        servers: The servers, of which there is one at least.
        tallies: Where a worker counts; None: this is the loader's process, whose own counts are used.
        worker: The number of this worker.
    """

    def __init__(self, servers: Sequence[RemoteServer], tallies: Tallies | None, worker: int) -> None:
        self._servers, self._tallies, self._worker = tuple(servers), tallies, worker
        self._cache: RemoteCache | None = None
        self._reported: dict[str, dict[str, Any]] = {}
        self._inspection = 0

    @property
    def cache(self) -> RemoteCache:
        """This process's connections."""
        if self._cache is None:
            self._cache = remote_cache(self._servers)
            assert self._cache is not None
            self._reported = self._cache.stats() if self._tallies is not None else {}
        return self._cache

    @contextlib.contextmanager
    def batch(self, inspection: int) -> Iterator[None]:
        """While a batch is made, and then what was asked for it is reported.

        The first batch of an epoch has another ``inspection``. Then the addresses of servers that do not
        serve are looked up again.
        """
        if inspection != self._inspection and self._cache is not None:
            self._cache.find_again()
        self._inspection = inspection
        try:
            yield
        finally:
            self._report()

    def _report(self) -> None:
        if self._cache is None or self._tallies is None:
            return
        now = self._cache.stats()
        for name, one in now.items():
            self._tallies.add(name, self._worker, one, self._reported.get(name))
        self._reported = now


class RemoteStages(TimedStages):
    """The stages of pictures, whose files are in the memory of other hosts, or in storage.

    Args:
        stages: The dataset's own.
        counts: As :class:`TimedStages` has them. What servers had is counted apart from what storage had.
        remote: The servers.
        source: The fingerprint of the dataset's files.
        are_older: Returns whether servers may have of a sample what its file was before. What storage has
            replaces that.
    """

    def __init__(
        self,
        stages: Pictures,
        counts: np.ndarray,
        remote: WorkersRemote,
        source: bytes,
        are_older: Callable[[int], bool] = lambda sample: False,
    ) -> None:
        super().__init__(stages, counts)
        self._remote, self._source, self._are_older = remote, source, are_older
        self._lengths, self._largest = stages.files.lengths(), stages.files.seen().largest
        self._came: bytes | None = None  # the last file that another host had

    def read(self, index: int) -> bytes:
        """The file as another host has left it; else from storage, and then it is left for other hosts."""
        handle, are_older = self._remote.cache.handle, self._are_older(index)
        if not are_older:
            began = time.perf_counter_ns()
            there = handle.get(self._source, index, self._most_bytes(index))
            if there is not None and (self._lengths is None or len(there) == int(self._lengths[index])):
                self.note("from_servers", "from_servers_ns", time.perf_counter_ns() - began)
                self._came = there
                return there
        data = self.read_stored(index)
        handle.put(self._source, index, data, replaces=are_older)
        return data

    def _most_bytes(self, index: int) -> int:
        """The most bytes that a sample's file has; 0: it is not known."""
        return self._largest if self._lengths is None else int(self._lengths[index])

    def read_stored(self, index: int) -> bytes:
        return super().read(index)

    def came_from_storage(self, data: bytes) -> bool:
        return data is not self._came
