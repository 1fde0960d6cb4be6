"""A thread that prepares pictures asks other hosts for the next files, and does not wait for them."""

from __future__ import annotations

import contextlib
import socket
import threading

import pytest
import torch
from redis_servers import RedisServer, needs_redis

import seneca
from seneca import transforms as T
from seneca.testing import make_pictures

pytestmark = needs_redis
COUNT = 12
TRANSFORM = T.Compose([T.Resize((32, 32)), T.ToTensor()])
DRIBBLE_S = 0.02  # a client gives a server up after 100 ms without a byte


class Gate:
    """Stands before a server. It passes on the first GET, and what comes later only once it is open."""

    def __init__(self, server: RedisServer) -> None:
        self.server, self.open, self.is_asked, self.gets = server, threading.Event(), threading.Event(), 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # it is closed
            while True:
                client, _ = self.listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", self.server.port)) as server:
            while commands := client.recv(65536):
                is_held = b"GET" in commands and self.gets > 0 and not self.open.is_set()
                self.gets += commands.count(b"GET")
                if is_held:
                    self._hold(client)
                server.sendall(commands)
                answers = server.makefile("rb")
                for i in range(commands.count(b"*")):
                    answer = answers.readline()
                    if answer[:1] == b"$" and answer != b"$-1\r\n":
                        answer += answers.read(int(answer[1:]) + 2)
                    client.sendall(answer[1:] if is_held and i == 0 else answer)

    def _hold(self, client: socket.socket) -> None:
        """Begin with an answer, which has a length with many zeros, until the gate is open."""
        self.is_asked.set()
        client.sendall(b"$")
        while not self.open.wait(DRIBBLE_S):
            client.sendall(b"0")

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


@pytest.fixture
def server(tmp_path):
    with RedisServer(tmp_path / "redis") as server:
        yield server


def loader(folder, remote):
    return seneca.DataLoader(
        seneca.ImageFolder(folder, TRANSFORM), 1, num_workers=1, cache=None, remote=remote, prefetch_factor=8
    )


def test_a_picture_is_delivered_while_a_server_has_yet_to_answer_for_the_next(server, tmp_path):
    folder = make_pictures(tmp_path / "pictures", count=COUNT, classes=2)
    wanted = [images.clone() for images, _ in loader(folder, server.url)]  # the server has them all
    gate = Gate(server)
    one = loader(folder, gate.url)
    given = iter(one)
    got = [next(given)[0].clone()]
    (counts,) = one.stats()["remote"].values()
    assert gate.is_asked.wait(10) and not gate.open.is_set()
    assert (counts["hits"], counts["failures"]) == (1, 0)
    gate.open.set()
    got += [images.clone() for images, _ in given]
    (counts,) = one.stats()["remote"].values()
    assert (counts["hits"], counts["failures"]) == (COUNT, 0)
    assert all(torch.equal(a, b) for a, b in zip(got, wanted, strict=True))
    gate.close()
