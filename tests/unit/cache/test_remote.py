"""The servers of a process: found, greeted, and warned of."""

import os
import socket
import subprocess
import sys
import threading
import time
import warnings

import pytest
from redis_servers import RedisServer, needs_redis

from seneca._runtime.remote_servers import parse_remote
from seneca.cache.remote import NOWHERE, RemoteCache, remote_cache

DATASET = bytes(16)


def test_without_servers_there_is_none():
    assert remote_cache(()) is None


def test_a_process_has_one_for_the_same_servers():
    one = remote_cache(parse_remote("unix:/nowhere/1"))
    assert one is remote_cache(parse_remote(["unix:/nowhere/1"]))
    assert one is not remote_cache(parse_remote("unix:/nowhere/2"))
    child = os.fork()
    if child == 0:
        os._exit(0 if remote_cache(parse_remote("unix:/nowhere/1")) is not one else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_one_warning_names_all_that_do_not_serve(monkeypatch):
    monkeypatch.setattr(socket, "getaddrinfo", lookup_of({}))
    one = RemoteCache(parse_remote("redis://:p@no.such.host,unix:/nowhere/3"))
    with pytest.warns(UserWarning, match="remote: no.such.host:6379 .*, unix:/nowhere/3 .*No such file"):
        one.begin()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one.begin()


def test_what_a_server_says_gives_a_terminal_no_orders():
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def refuse():
            while True:
                try:
                    one = listening.accept()[0]
                except OSError:
                    return
                with one:
                    one.recv(4096)
                    one.sendall(b"-ERR \x1b[31mgo\x07 away\r\n" * 4)

        threading.Thread(target=refuse, daemon=True).start()
        one = RemoteCache(parse_remote(f"redis://127.0.0.1:{listening.getsockname()[1]}"))
        with pytest.warns(UserWarning, match="\ufffd\\[31mgo\ufffd away.* does not serve"):
            one.begin()
        ((_, seen),) = one.stats().items()
        assert seen["failures"] and seen["message"].isprintable()


def lookup_of(addresses):
    def getaddrinfo(host, port, **_):
        if host not in addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (addresses[host], port))]

    return getaddrinfo


@needs_redis
def test_a_name_is_looked_up_again_once_its_server_is_gone(tmp_path, monkeypatch):
    with RedisServer(tmp_path) as server:
        addresses = {}
        monkeypatch.setattr(socket, "getaddrinfo", lookup_of(addresses))
        one = RemoteCache(parse_remote(f"redis://server:{server.port}?insecure=true"))
        with pytest.warns(UserWarning, match="does not serve"):
            one.begin()
        while not one.handle.counts(0)["left_alone"]:
            assert not one.handle.ping(0)
        addresses["server"] = "127.0.0.1"
        one.begin()
        until = time.monotonic() + 60
        while not one.handle.ping(0):
            assert time.monotonic() < until
            time.sleep(0.01)
        assert one.stats() == {f"server:{server.port}": one.handle.counts(0)}


def test_nowhere_is_refused_at_once():
    began = time.monotonic()
    with socket.socket() as one, pytest.raises(OSError, match=r"unreachable|denied"):
        one.settimeout(30)
        one.connect((NOWHERE, 80))
    assert time.monotonic() - began < 15, "and was not waited for"


TLS = """
import sys
from seneca._runtime.remote_servers import parse_remote
from seneca.cache.remote import RemoteCache
assert "ssl" not in sys.modules
RemoteCache(parse_remote("redis://127.0.0.1:1"))
assert "ssl" not in sys.modules
RemoteCache(parse_remote("rediss://127.0.0.1:1"))
assert "ssl" in sys.modules
"""


def test_python_loads_openssl_before_the_core_does():
    """Otherwise a later ``import ssl`` might meet a library that does not fit."""
    subprocess.run([sys.executable, "-c", TLS], check=True)
