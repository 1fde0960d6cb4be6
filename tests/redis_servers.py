"""Real Redis servers for tests, on this machine only."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from certificates import OPENSSL, Authority

__all__ = [
    "PROGRAM",
    "RedisServer",
    "TlsServer",
    "fill_up",
    "kill",
    "needs_redis",
    "needs_tls",
    "put_first",
    "restart_empty",
    "stop",
    "until_it_listens",
]

PROGRAM = shutil.which("redis-server") or shutil.which("valkey-server")

needs_redis = pytest.mark.skipif(PROGRAM is None, reason="no server; apt-get install redis-server")


def _speaks_tls() -> bool:
    """Whether the server knows the directive, whose value is none here."""
    if PROGRAM is None or OPENSSL is None:
        return False
    said = subprocess.run([PROGRAM, "--tls-port", "none"], capture_output=True, text=True)
    return "Bad directive" not in said.stdout + said.stderr


needs_tls = pytest.mark.skipif(not _speaks_tls(), reason="no server with TLS, or no command openssl")


def put_first(process: subprocess.Popen[Any]) -> None:
    """Let a server run before what else this machine does, where we may: clients wait 100 ms for an answer.

    Then they read storage, as they should, and a test that counts what is read there would fail on a busy
    machine.
    """
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, process.pid, -15)


def until_it_listens(process: subprocess.Popen[Any], port: int) -> None:
    """Wait until a server that was started takes connections on a port of the loopback."""
    until = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            assert process.poll() is None and time.monotonic() < until
            time.sleep(0.01)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


class RedisServer:
    """A server that listens on a free port of the loopback, and on a socket in its folder.

    Args:
        folder: An empty folder.
        *options: More lines of its configuration.
    """

    def __init__(self, folder: Path, *options: str) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.port = _free_port()
        self.path = folder / "socket"
        self.options = options
        self.url = f"redis://127.0.0.1:{self.port}"
        self.name = f"127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        """Start it, empty."""
        lines = [
            "bind 127.0.0.1",
            f"port {self.port}",
            f"unixsocket {self.path}",
            f"dir {self.folder}",
            'save ""',
            "appendonly no",
            *self.options,
        ]
        (self.folder / "redis.conf").write_text("\n".join(lines))
        self.process = subprocess.Popen(
            [str(PROGRAM), str(self.folder / "redis.conf")], stdout=subprocess.DEVNULL
        )
        put_first(self.process)
        until_it_listens(self.process, self.port)

    def ask(self, *words: str) -> str:
        """What it answers to a command, the first line."""
        with socket.create_connection(("127.0.0.1", self.port), 5) as connection:
            command = f"*{len(words)}\r\n" + "".join(f"${len(word)}\r\n{word}\r\n" for word in words)
            connection.sendall(command.encode())
            return connection.makefile().readline().strip()

    def kill(self) -> None:
        """End it as a crash would."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """Stop it: it answers nothing any more."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it go on."""
        self.process.send_signal(signal.SIGCONT)

    def __enter__(self) -> RedisServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


class TlsServer(RedisServer):
    """A server that speaks TLS on a port of its own. Tests still :meth:`ask` it without.

    Args:
        folder: An empty folder.
        authority: Whose clients it accepts, and whose certificate its URL names.
        certificate: Its own, and the key; None: the authority issues one for 127.0.0.1 and localhost.
        *options: More lines of its configuration.
    """

    def __init__(
        self,
        folder: Path,
        authority: Authority,
        *options: str,
        certificate: tuple[Path, Path] | None = None,
    ) -> None:
        one, key = certificate or authority.issue("server", "IP:127.0.0.1", "DNS:localhost")
        self.tls_port = _free_port()
        files = (f"tls-cert-file {one}", f"tls-key-file {key}", f"tls-ca-cert-file {authority.file}")
        super().__init__(folder, f"tls-port {self.tls_port}", *files, "tls-auth-clients no", *options)
        self.name = f"127.0.0.1:{self.tls_port}"
        self.url = f"rediss://{self.name}?ssl_ca_certs={authority.file}"

    def start(self) -> None:
        """Start it, empty."""
        super().start()
        until_it_listens(self.process, self.tls_port)


# How a server fails, for tests that are given it.


def kill(server):
    server.kill()


def stop(server):
    server.stop()


def restart_empty(server):
    server.kill()
    server.start()


def fill_up(server):
    assert server.ask("CONFIG", "SET", "maxmemory", "1mb") == "+OK"
