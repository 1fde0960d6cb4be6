"""The native client of Redis and Valkey with TLS, against real servers and against what is none."""

import collections
import itertools
import os
import random
import signal
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress

import pytest
from certificates import Authority
from redis_servers import TlsServer, needs_tls
from sizes import size

from seneca._core.remote import Remote

pytestmark = needs_tls
DATASET = bytes(range(16))
FILE = os.urandom(110_000)


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("certificates") / "ours")


@pytest.fixture(scope="module")
def server(tmp_path_factory, authority):
    with TlsServer(tmp_path_factory.mktemp("redis"), authority) as server:
        yield server


@pytest.fixture(autouse=True)
def empty(server):
    assert server.ask("FLUSHALL") == "+OK"


def client(port, host="127.0.0.1", ca=None, certificate=(None, None), password=None):
    files = (ca, *certificate)
    tls = (host, *(path and os.fspath(path) for path in files))
    return Remote([("it", None, "127.0.0.1", port, None, password, 0, *tls)])


def why(one):
    """Why a server does not serve."""
    assert not one.ping(0) and one.get(DATASET, 0) is None
    return one.counts(0)["message"]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_what_one_client_leaves_another_gets(server, authority, host):
    one, other = (client(server.tls_port, host, authority.file) for _ in range(2))
    assert one.get(DATASET, 3) is None
    one.put(DATASET, 3, FILE)
    assert one.get(DATASET, 3) == FILE and other.get(DATASET, 3) == FILE
    assert one.counts(0)["failures"] == other.counts(0)["failures"] == 0
    with socket.create_connection(("127.0.0.1", server.port)) as plain:
        plain.sendall(b"CLIENT LIST\r\n")
        assert plain.recv(10_000).count(b"laddr=127.0.0.1:%d" % server.tls_port) == 2, "they came by TLS"


# A record of TLS has 16 KiB, and 64 KiB are sent at a time.
@pytest.mark.small(3)
@pytest.mark.parametrize("length", [1, 16_000, 16_384, 65_000, 65_536, 65_600, 131_072, 5_000_000])
def test_files_of_any_length(server, authority, length):
    one, file = client(server.tls_port, ca=authority.file), os.urandom(length)
    one.put(DATASET, 0, file)
    assert one.get(DATASET, 0) == file


def test_many_threads_use_it_at_a_time(server, authority):
    one, wrong = client(server.tls_port, ca=authority.file), []
    files = [os.urandom(1000 + 997 * i) for i in range(40)]

    def use():
        for i in [*range(40), *reversed(range(40))]:
            found = one.get(DATASET, i)
            if found is None:
                one.put(DATASET, i, files[i])
            elif found != files[i]:
                wrong.append(i)

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and one.counts(0)["failures"] == 0, one.counts(0)["message"]
    assert [one.get(DATASET, i) for i in range(40)] == files


def test_a_server_whose_certificate_is_for_another_host(server, authority):
    for host in ("other.host", "127.0.0.2"):
        said = why(client(server.tls_port, host, authority.file))
        assert "mismatch" in said and f"the server's certificate is not for {host}" in said


def test_a_server_of_an_unknown_ca(server, tmp_path):
    other = Authority(tmp_path / "another")
    for ca in (other.file, None):
        said = why(client(server.tls_port, ca=ca))
        assert "TLS: " in said and "name the file of the server's CA with ?ssl_ca_certs=" in said


@pytest.mark.whole_size(shown_by="test_a_server_of_an_unknown_ca")
def test_a_server_whose_certificate_has_expired(tmp_path, authority):
    old = authority.issue("old", "IP:127.0.0.1", days=-1)
    with TlsServer(tmp_path / "redis", authority, certificate=old) as server:
        one = client(server.tls_port, ca=authority.file)
        assert why(one) == "TLS: certificate has expired; renew it, or set the clock of this host"


def test_a_renewed_file_of_cas_is_read_again(server, authority, tmp_path):
    file = tmp_path / "ca.crt"
    file.write_bytes(Authority(tmp_path / "another").file.read_bytes())
    one = client(server.tls_port, ca=file)
    assert "ssl_ca_certs" in why(one)
    file.write_bytes(authority.file.read_bytes())
    assert one.ping(0)


def test_a_server_that_wants_certificates_of_its_clients(tmp_path, authority):
    mine = authority.issue("client")
    with TlsServer(tmp_path / "redis", authority, "tls-auth-clients yes") as server:
        one = client(server.tls_port, ca=authority.file, certificate=mine)
        one.put(DATASET, 1, FILE)
        assert one.get(DATASET, 1) == FILE
        both = tmp_path / "both.pem"
        both.write_bytes(mine[0].read_bytes() + mine[1].read_bytes())
        assert client(server.tls_port, ca=authority.file, certificate=(both, None)).ping(0)
        said = why(client(server.tls_port, ca=authority.file))
        assert "certificate required" in said or "name one with ?ssl_certfile=" in said


def test_files_that_cannot_be_used(server, authority, tmp_path):
    rubbish, (mine, _), (_, key) = tmp_path / "rubbish", authority.issue("one"), authority.issue("other")
    rubbish.write_text("no certificate")
    nowhere = tmp_path / "nowhere"
    ours = {"ca": authority.file}
    for files, said in (
        ({"ca": nowhere}, f"TLS: ssl_ca_certs cannot be read (No such file or directory): {nowhere}"),
        ({"ca": rubbish}, f"TLS: ssl_ca_certs has no certificate in PEM: {rubbish}"),
        ({"certificate": (rubbish, key), **ours}, f"TLS: ssl_certfile has no certificate in PEM: {rubbish}"),
        (
            {"certificate": (mine, key), **ours},
            f"TLS: ssl_keyfile has no key of that certificate in PEM, without a password: {key}",
        ),
    ):
        assert why(client(server.tls_port, **files)) == said[:199]


def test_a_server_without_tls(server, authority):
    """It waits for the end of a line. If the random bytes of a handshake have one, it complains of it."""
    said = why(client(server.port, ca=authority.file))
    assert "as one that does not speak it" in said or "what answers there does not speak it" in said


def test_a_client_without_tls(server):
    one = Remote([("it", None, "127.0.0.1", server.tls_port, None, None, 0)])
    assert "wants TLS" in why(one) and "write rediss://" in why(one)


@contextmanager
def peer(answer):
    """Something that listens, and answers what each connection says first."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection, suppress(OSError):  # the client may close it first
                    connection.settimeout(5)
                    answer(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_what_answers_is_no_tls(authority):
    def answer(connection):
        connection.recv(4096)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        connection.recv(4096)

    with peer(answer) as port:
        assert "TLS: what answers there does not speak it" in why(client(port, ca=authority.file))


def test_what_answers_closes_the_connection(authority):
    with peer(lambda connection: connection.recv(4096)) as port:
        assert "closed the connection in the handshake" in why(client(port, ca=authority.file))


@pytest.mark.parametrize("says", [b"", b"\x16\x03\x03\x00\x7a\x02"])
def test_a_handshake_that_stalls_is_given_up_by_all_threads(authority, says):
    """One of them shakes hands. The others wait for it, and do not shake hands as well."""
    ended_by = set()

    def answer(connection):
        connection.recv(4096)
        connection.sendall(says)
        try:
            connection.recv(4096)
        except TimeoutError:
            ended_by.add("peer")
        except ConnectionError:
            ended_by.add("client")
        else:
            ended_by.add("client")

    with peer(answer) as port:
        one = client(port, ca=authority.file)

        def ask():
            for _ in range(20):
                assert one.get(DATASET, 0) is None

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seen = one.counts(0)
        assert seen["left_alone"] and seen["failures"] + seen["skipped"] == 160, seen
    assert ended_by == {"client"}


class Mangler:
    """Between a client and a server. What the server sends on a connection is spoiled somewhere, or is not.

    Args:
        port: The server's.
        seed: Of what is spoiled, and where.
    """

    def __init__(self, port, seed):
        self.to, self.random, self.spoiled = port, random.Random(seed), collections.Counter()
        self.ways = itertools.cycle(["flip", "cut", "none", "flip", "cut", "stall"])
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.sockets, self.threads = [self.listener], [threading.Thread(target=self.serve)]
        self.threads[0].start()

    def serve(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.to))
            self.sockets += [client, server]
            how = next(self.ways)
            left = self.random.randrange(self.random.choice([1500, 30_000]))  # in the handshake, or later
            for arguments in (
                (client, server, "none", 0),
                (server, client, how, left),
            ):
                self.threads.append(threading.Thread(target=self.pump, args=arguments))
                self.threads[-1].start()

    def pump(self, from_, to, how, left):
        with suppress(OSError):
            while chunk := from_.recv(4096):
                if how != "none" and left < len(chunk):
                    self.spoiled[how] += 1
                    if how != "flip":
                        to.sendall(chunk[:left])
                        break
                    chunk = chunk[:left] + bytes([chunk[left] ^ 1 << left % 8]) + chunk[left + 1 :]
                    how = "none"
                left -= len(chunk)
                to.sendall(chunk)
            if how == "stall":
                while from_.recv(4096):
                    pass
        self.end(from_, to)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end(self.listener)
        self.threads[0].join()
        self.end(*self.sockets)
        for thread in self.threads:
            thread.join()
        for one in self.sockets:
            one.close()

    @staticmethod
    def end(*sockets):
        for one in sockets:
            with suppress(OSError):  # the other end may have gone
                one.shutdown(socket.SHUT_RDWR)


def test_what_is_spoiled_on_the_way_is_missing_and_never_wrong(server, authority):
    seed = int.from_bytes(os.urandom(4), "big")
    print(f"seed {seed}")
    files = [os.urandom(3000 + 700 * i) for i in range(8)]
    whole = client(server.tls_port, ca=authority.file)
    for sample, file in enumerate(files):
        whole.put(DATASET, sample, file)
        assert whole.get(DATASET, sample) == file
    hits = 0
    with Mangler(server.tls_port, seed) as mangler:
        for _ in range(size(6, 60)):
            one = client(mangler.port, ca=authority.file)
            found = [one.get(DATASET, sample) for sample in range(8)]
            assert all(got in (None, file) for got, file in zip(found, files, strict=True))
            assert one.counts(0)["wrong"] == 0, "the checksum of TLS finds it before Seneca's does"
            hits += one.counts(0)["hits"]
    assert hits and mangler.spoiled.total() > 5, mangler.spoiled


SIGPIPE = """
import os, signal, sys
from seneca._core.remote import Remote
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
tls = ("127.0.0.1", sys.argv[2], None, None)
one = Remote([("it", None, "127.0.0.1", int(sys.argv[1]), None, None, 0, *tls)])
file = os.urandom(3_000_000)
one.put(bytes(16), 0, file)
assert one.get(bytes(16), 0) == file
os.kill(int(sys.argv[3]), signal.SIGKILL)
for sample in range(50):
    one.put(bytes(16), sample, file)
    assert one.get(bytes(16), sample) is None
print(one.counts(0)["left_alone"])
"""


def test_a_server_that_dies_raises_no_sigpipe(tmp_path, authority):
    with TlsServer(tmp_path / "redis", authority) as server:
        line = [sys.executable, "-c", SIGPIPE, server.tls_port, authority.file, server.process.pid]
        done = subprocess.run([*map(str, line)], capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (0, "True\n"), (done.returncode, done.stderr)
        assert server.process.wait() == -signal.SIGKILL


WITHOUT_OPENSSL = """
import sys
from seneca._runtime.remote_servers import parse_remote
from seneca.cache.remote import RemoteCache
one = RemoteCache(parse_remote(sys.argv[1]))
print(one.handle.ping(0), one.handle.counts(0)["message"])
"""


def test_without_openssl_the_message_says_what_to_install(server, tmp_path):
    """The loader of libraries finds files under these names, which are none."""
    for name in ("libssl.so.3", "libssl.so.1.1"):
        (tmp_path / name).write_text("none")
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_OPENSSL, server.url],
        capture_output=True,
        text=True,
        env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)},
    )
    assert done.stdout == (
        "False TLS needs OpenSSL, but neither libssl.so.3 nor libssl.so.1.1 can be loaded here; "
        "install openssl\n"
    ), done.stderr
