"""A thread that prepares pictures asks other hosts for the next files, and does not wait for them."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time

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
SLOW_S = 0.06
LARGE = (900, 1200)  # preparing takes longer than what the gate does with an answer


class Gate:
    """Stands before a server. It passes on the first GETs after a while, later ones only once it is open."""

    def __init__(self, server: RedisServer, first_takes_s: float = 0.0) -> None:
        self.server, self.open, self.is_asked, self.gets = server, threading.Event(), threading.Event(), 0
        self.first_takes_s = first_takes_s
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
                if b"GET" in commands and self.gets == 0:
                    time.sleep(self.first_takes_s)
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
    assert counts["hits"] >= COUNT  # the next epoch is prepared already
    assert counts["failures"] == 0
    assert all(torch.equal(a, b) for a, b in zip(got, wanted, strict=True))
    gate.close()


def native_threads() -> set[int]:
    """The threads of this process that Python has not started."""
    return set(map(int, os.listdir("/proc/self/task"))) - {one.native_id for one in threading.enumerate()}


def test_no_thread_is_started_to_wait_for_what_comes_while_pictures_are_prepared(server, tmp_path):
    folder = make_pictures(tmp_path / "pictures", count=COUNT, classes=2, sides=LARGE)
    for _ in loader(folder, server.url):
        pass
    gate = Gate(server, first_takes_s=SLOW_S)  # readers are started for so much
    gate.open.set()
    before = native_threads()
    given = iter(loader(folder, gate.url))
    for _ in range(COUNT - 1):
        next(given)
    assert len(native_threads() - before) == 1, "one prepares, and no reader asks for it"
    assert sum(1 for _ in given) == 1
    gate.close()
