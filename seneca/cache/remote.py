"""The memory of other hosts: Redis or Valkey servers that keep the files of samples.

::

    RemoteServer, ... ──RemoteCache──> addresses ──> the native core's handle, one for this process

A sample that is not there, or whose server fails, comes from storage. Therefore nothing here raises. One
warning says what does not work.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import socket
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from seneca._core.remote import Remote
from seneca._runtime.printable import printable
from seneca._runtime.remote_servers import RemoteServer
from seneca._runtime.warn import warn

__all__ = ["RemoteCache", "remote_cache"]

NOWHERE = "255.255.255.255"  # for a name that has no address: connecting fails at once


class RemoteCache:
    """The servers of one process. Make it with :func:`remote_cache`.

    Args:
        servers: The servers.

    Attributes:
        handle: The native core's.
    """

    def __init__(self, servers: Sequence[RemoteServer]) -> None:
        self.servers = tuple(servers)
        if any(one.tls is not None for one in self.servers):
            _load_openssl()
        self.handle = Remote([_as_the_core_has_it(one) for one in self.servers])
        self._warned = False
        self._resolving: threading.Thread | None = None

    def begin(self) -> None:
        """An epoch begins. The first time, ask each server whether it serves, and warn if one does not.

        Later, look up the addresses of servers that do not serve, in a thread. A server may have another
        address after a restart.
        """
        if not self._warned:
            self._warned = True
            self._report_failures()
        else:
            self.find_again()

    def find_again(self) -> None:
        """Look up the addresses of servers that do not serve, in a thread."""
        gone = [i for i in range(len(self.servers)) if self.handle.counts(i)["left_alone"]]
        if gone and (self._resolving is None or not self._resolving.is_alive()):
            self._resolving = threading.Thread(target=self._find, args=(gone,), daemon=True)
            self._resolving.start()

    def stats(self) -> dict[str, dict[str, Any]]:
        """The counts of this process's requests to each server, by its name."""
        return {one.name: self._seen(i) for i, one in enumerate(self.servers)}

    @property
    def stored(self) -> int:
        """The files of this process that the servers have kept, at the least."""
        seen = [self.handle.counts(i) for i in range(len(self.servers))]
        return sum(max(0, one["stored"] - one["short_lived"]) for one in seen)

    def _report_failures(self) -> None:
        with ThreadPoolExecutor(len(self.servers)) as threads:
            serving = list(threads.map(self.handle.ping, range(len(self.servers))))
        failing = [
            f"{one.name} ({self._seen(i)['message']})"
            for i, (one, serves) in enumerate(zip(self.servers, serving, strict=True))
            if not serves
        ]
        if failing:
            warn(f"remote: {', '.join(failing)} does not serve; until it does, its samples come from storage")

    def _seen(self, server: int) -> dict[str, Any]:
        """The counts of one server. Its message may quote the server, which may say anything."""
        seen = self.handle.counts(server)
        return {**seen, "message": printable(seen["message"])}

    def _find(self, gone: Sequence[int]) -> None:
        for i in gone:
            if self.servers[i].host is not None and (address := _address(self.servers[i])) != NOWHERE:
                assert address is not None
                self.handle.move(i, address)


def _as_the_core_has_it(one: RemoteServer) -> tuple[Any, ...]:
    plain = (one.name, one.path, _address(one), one.port, one.user, one.password, one.database)
    if one.tls is None:
        return plain
    return (*plain, one.host, one.tls.ca_file, one.tls.cert_file, one.tls.key_file)


def _load_openssl() -> None:
    """Load OpenSSL as Python does, before the core does it by name.

    A process has one library of a name. If the core were first, it would get the system's, and Python's own
    module might not fit to that one. A Python without that module leaves it to the core.
    """
    with contextlib.suppress(ImportError):
        importlib.import_module("ssl")


def _address(server: RemoteServer) -> str | None:
    """The numeric address of a server; None: it is reached by a Unix socket."""
    if server.host is None:
        return None
    try:
        found = socket.getaddrinfo(server.host, server.port, type=socket.SOCK_STREAM)
    except OSError:
        return NOWHERE
    return str(found[0][4][0])


def remote_cache(servers: Sequence[RemoteServer]) -> RemoteCache | None:
    """This process's cache on these servers; None: there are none."""
    if not servers:
        return None
    key = (os.getpid(), tuple(servers))  # a forked child has connections of its own
    with _making:
        if key not in _made:
            _made[key] = RemoteCache(servers)
        return _made[key]


def _forget() -> None:
    """In a forked child: a thread of the parent may have held the lock."""
    global _making
    _making = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)

_making = threading.Lock()
_made: dict[tuple[int, tuple[RemoteServer, ...]], RemoteCache] = {}
