"""The native client of Redis and Valkey, against servers that lie. No server is believed."""

import contextlib
import os
import socket
import threading

import pytest

from seneca._core.remote import Remote

DATASET = bytes(range(16))
MiB = 2**20
GiB = 2**30
FILE = 100_000  # bytes that the file of each sample has
MOST_WRONG = 64  # values, see csrc/remote/sn_server.c


class Hostile:
    """A server whose answer to each GET is what ``answer`` yields, in pieces ``every`` seconds apart."""

    def __init__(self, answer, every=0.0):
        self._answer, self._every = answer, every
        self._ends = threading.Event()
        self.gets = self.deletes = self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads = [threading.Thread(target=self._accept)]

    def __enter__(self):
        self._threads[0].start()
        return self

    def __exit__(self, *_):
        self._ends.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join()

    def remote(self):
        port = self._listener.getsockname()[1]
        return Remote([(f"127.0.0.1:{port}", None, "127.0.0.1", port, None, None, 0)])

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.connections += 1
                self._threads.append(threading.Thread(target=self._serve, args=(connection,)))
                self._threads[-1].start()

    def _serve(self, connection):
        with connection, contextlib.suppress(OSError):
            connection.settimeout(0.1)
            while not self._ends.is_set():
                try:
                    commands = connection.recv(4096)
                except TimeoutError:
                    continue
                if not commands:
                    return
                for _ in range(commands.count(b"\r\nDEL\r\n")):
                    self.deletes += 1
                    connection.sendall(b":1\r\n")
                for _ in range(commands.count(b"\r\nGET\r\n")):
                    self.gets += 1
                    for piece in self._answer():
                        connection.sendall(piece)
                        if self._ends.wait(self._every):
                            return


def announces(length, piece=b"", pieces=0):
    def answer():
        yield b"$%d\r\n" % length
        for _ in range(pieces):
            yield piece

    return answer


@pytest.mark.parametrize("most, announced", [(FILE, GiB), (FILE, FILE + 1000), (0, 65 * MiB), (0, GiB)])
def test_a_value_longer_than_the_file_is_not_received(most, announced):
    """Neither memory for it is taken, nor time; and soon the server is left alone."""
    with Hostile(announces(announced, b"x" * 1000, pieces=3)) as server:
        remote = server.remote()
        for sample in range(10):
            assert remote.get(DATASET, sample, most) is None
        seen = remote.counts(0)
        assert (seen["wrong"], seen["failures"], seen["left_alone"]) == (3, 3, True)
        assert seen["skipped"] == 7 and server.gets == 3
        limit = most or 64 * MiB
        assert f"a value of {announced} bytes" in seen["message"] and f"has {limit} at" in seen["message"]


def test_a_value_that_trickles_is_given_up_whatever_its_length():
    with Hostile(announces(GiB - 100, b"x", pieces=10**9), every=0.005) as server:
        remote = server.remote()
        got = []
        asked = threading.Thread(target=lambda: got.append(remote.get(DATASET, 0, GiB)), daemon=True)
        asked.start()
        asked.join(120)  # by its length it would be waited for three hours
        assert got == [None]
        assert remote.counts(0)["failures"] == 1 and "timed out" in remote.counts(0)["message"]


def wrong_bytes():
    yield b"$%d\r\n%s\r\n" % (FILE, os.urandom(FILE))


def another_type():
    yield b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"


@pytest.mark.small(1)
@pytest.mark.parametrize("answer", [wrong_bytes, another_type])
def test_a_server_whose_values_are_all_wrong_is_left_alone(answer):
    with Hostile(answer) as server:
        remote = server.remote()
        for sample in range(MOST_WRONG - 1):
            assert remote.get(DATASET, sample, FILE) is None
        assert not remote.counts(0)["left_alone"], "a few wrong values are deleted, others take their place"
        for sample in range(10):
            assert remote.get(DATASET, sample, FILE) is None
        seen = remote.counts(0)
        assert (seen["wrong"], seen["skipped"], seen["left_alone"]) == (MOST_WRONG, 9, True)
        assert "its values are not what hosts have left there" in seen["message"]
        assert server.connections == 1 and server.deletes >= MOST_WRONG - 1


def test_wrong_values_that_take_long_count_more():
    def slow():
        yield b"$3000\r\n"
        for _ in range(3):
            yield b"x" * 1000
        yield b"\r\n"

    with Hostile(slow, every=0.08) as server:
        remote = server.remote()
        for sample in range(MOST_WRONG):
            remote.get(DATASET, sample, FILE)
        assert remote.counts(0)["left_alone"] and server.gets < MOST_WRONG


def test_misses_between_wrong_values_are_forgiven():
    """An honest server has values that were damaged, and others that nobody has stored."""
    turns = iter(range(10**6))

    def every_second():
        yield b"$3\r\nbad\r\n" if next(turns) % 2 else b"$-1\r\n"

    with Hostile(every_second) as server:
        remote = server.remote()
        for sample in range(4 * MOST_WRONG):
            assert remote.get(DATASET, sample, FILE) is None
        seen = remote.counts(0)
        assert not seen["left_alone"] and seen["wrong"] == 2 * MOST_WRONG and seen["misses"] == 4 * MOST_WRONG
