"""The native client of Redis and Valkey, against real servers."""

import os
import threading
import time

import pytest
from redis_servers import RedisServer, needs_redis

from seneca._core.remote import Remote

pytestmark = needs_redis
DATASET = bytes(range(16))
FILE = os.urandom(110_000)


def at(server, **others):
    about = {"path": None, "address": "127.0.0.1", "port": server.port, "user": None, "password": None}
    about = {"name": server.name, **about, "database": 0, **others}
    return Remote([tuple(about.values())])


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture(autouse=True)
def empty(server):
    assert server.ask("FLUSHALL") == "+OK"


@pytest.mark.parametrize("way", ["address", "socket"])
def test_what_one_client_leaves_another_gets(server, way):
    others = {} if way == "address" else {"path": str(server.path), "address": None}
    one, other = at(server, **others), at(server, **others)
    assert one.get(DATASET, 3) is None
    one.put(DATASET, 3, FILE)
    assert one.get(DATASET, 3) == FILE, "the answer to the SET comes before"
    assert other.get(DATASET, 3) == FILE
    assert other.get(DATASET, 4) is None and other.get(bytes(16), 3) is None
    seen = one.counts(0)
    assert (seen["hits"], seen["misses"], seen["stored"], seen["bytes"]) == (1, 1, 1, len(FILE))
    assert not seen["left_alone"] and seen["message"] == ""


def test_what_is_there_is_not_replaced(server):
    one = at(server)
    one.put(DATASET, 3, b"first")
    one.put(DATASET, 3, b"second")
    assert one.get(DATASET, 3) == b"first" and one.counts(0)["stored"] == 1


@pytest.mark.parametrize("length", [1, 31, 32, 33, 4000, 4096, 5_000_000])
def test_files_of_any_length(server, length):
    one, file = at(server), os.urandom(length)
    one.put(DATASET, 0, file)
    assert one.get(DATASET, 0) == file


@pytest.mark.parametrize("value", ["", "x", "x" * 32, "y" * 1000])
def test_values_of_others_are_missing_and_deleted(server, value):
    key = f"seneca:{DATASET.hex()}:7"
    assert server.ask("SET", key, value) == "+OK"
    one = at(server)
    assert one.get(DATASET, 7) is None
    assert one.counts(0)["wrong"] == 1
    one.put(DATASET, 7, FILE)
    assert one.get(DATASET, 7) == FILE


def test_a_value_under_the_key_of_another_sample_is_missing(server):
    one = at(server)
    one.put(DATASET, 1, FILE)
    assert one.get(DATASET, 1) == FILE
    assert server.ask("COPY", f"seneca:{DATASET.hex()}:1", f"seneca:{DATASET.hex()}:2") == ":1"
    assert one.get(DATASET, 2) is None and one.counts(0)["wrong"] == 1


def test_a_user_of_the_server(server):
    rights = ["on", ">secret", "~seneca:*", "+get", "+set", "+del", "+ping", "+select"]
    assert server.ask("ACL", "SETUSER", "trainer", *rights) == "+OK"
    one = at(server, user="trainer", password="secret", database=2)
    assert one.ping(0)
    one.put(DATASET, 1, FILE)
    assert one.get(DATASET, 1) == FILE
    assert at(server).get(DATASET, 1) is None, "it is in another database"
    wrong = at(server, user="trainer", password="guessed")
    assert not wrong.ping(0)
    assert "WRONGPASS" in wrong.counts(0)["message"] and "guessed" not in wrong.counts(0)["message"]


def test_a_full_server_keeps_what_it_has_and_is_given_no_more(server):
    one = at(server)
    one.put(DATASET, 0, FILE)
    assert one.get(DATASET, 0) == FILE
    assert server.ask("CONFIG", "SET", "maxmemory", "1mb") == "+OK"
    try:
        for sample in range(1, 20):
            one.put(DATASET, sample, FILE)
            one.get(DATASET, sample)
        seen = one.counts(0)
        assert seen["refused"] == 1, "after the first refusal nothing is sent for a while"
        assert "OOM" in seen["message"] and not seen["left_alone"]
        assert one.get(DATASET, 0) == FILE
    finally:
        server.ask("CONFIG", "SET", "maxmemory", "0")


def test_a_server_that_restarts_is_used_again_at_once(tmp_path):
    with RedisServer(tmp_path) as server:
        one = at(server)
        one.put(DATASET, 0, FILE)
        assert one.get(DATASET, 0) == FILE
        server.kill()
        server.start()
        assert one.get(DATASET, 0) is None
        one.put(DATASET, 0, FILE)
        assert one.get(DATASET, 0) == FILE and one.counts(0)["failures"] == 0


def test_a_server_that_is_gone_is_left_alone_and_tried_again(tmp_path):
    with RedisServer(tmp_path) as server:
        one = at(server)
        one.put(DATASET, 0, FILE)
        server.kill()
        for _ in range(50):
            assert one.get(DATASET, 0) is None
        seen = one.counts(0)
        assert seen["left_alone"] and seen["failures"] == 3 and seen["skipped"] == 47
        server.start()
        until = time.monotonic() + 60
        while one.counts(0)["left_alone"]:
            one.get(DATASET, 0)
            assert time.monotonic() < until
            time.sleep(0.01)
        one.put(DATASET, 0, FILE)
        assert one.get(DATASET, 0) == FILE


def test_a_server_that_is_stopped_costs_three_short_waits(tmp_path):
    with RedisServer(tmp_path) as server:
        one = at(server)
        one.put(DATASET, 0, FILE)
        assert one.get(DATASET, 0) == FILE
        server.stop()
        waits = []
        for _ in range(20):
            began = time.monotonic()
            assert one.get(DATASET, 0) is None
            waits.append(time.monotonic() - began)
        server.go_on()
        assert one.counts(0)["failures"] == 3 and one.counts(0)["skipped"] == 17
        assert "timed out" in one.counts(0)["message"]
        assert sum(wait > 0.09 for wait in waits) == 3, waits


def test_many_threads_use_it_at_a_time(server):
    one, wrong = at(server), []
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
    assert not wrong
    assert [one.get(DATASET, i) for i in range(40)] == files


def test_in_a_forked_child_all_is_missing(server):
    one = at(server)
    one.put(DATASET, 0, FILE)
    assert one.get(DATASET, 0) == FILE
    child = os.fork()
    if child == 0:
        os._exit(0 if one.get(DATASET, 0) is None and not one.ping(0) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert one.get(DATASET, 0) == FILE, "the child has not used the connection"


def test_a_server_that_has_moved(server, tmp_path):
    one = at(server, address="127.0.0.9")  # nobody listens there
    assert not one.ping(0)
    one.move(0, "127.0.0.1")
    assert one.ping(0)
    with pytest.raises(ValueError, match="no address"):
        one.move(0, "somewhere")


def test_wrong_arguments(server):
    one = at(server)
    with pytest.raises(ValueError, match="16 bytes"):
        one.get(b"short", 0)
    with pytest.raises(IndexError):
        one.counts(1)
    with pytest.raises(ValueError, match="no address"):
        at(server, address="somewhere")
