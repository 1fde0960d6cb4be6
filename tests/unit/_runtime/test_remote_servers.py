"""How users and the environment name servers."""

import pytest

from seneca._runtime.remote_servers import RemoteServer, Tls, parse_remote
from seneca.options import Options


@pytest.fixture(autouse=True)
def no_password(monkeypatch):
    monkeypatch.delenv("SENECA_REMOTE_PASSWORD", raising=False)


@pytest.mark.parametrize(
    ("value", "servers"),
    [
        (None, []),
        ("", []),
        ([], []),
        ("redis://localhost", [RemoteServer("localhost")]),
        ("redis://127.0.0.1:7000/3", [RemoteServer("127.0.0.1", 7000, database=3)]),
        ("redis://[::1]:7000", [RemoteServer("::1", 7000)]),
        ("unix:/run/redis.sock", [RemoteServer(path="/run/redis.sock")]),
        ("redis://:p%40ss@h1", [RemoteServer("h1", password="p@ss")]),
        ("redis://me:pass@h1", [RemoteServer("h1", user="me", password="pass")]),
        ("redis://h1?insecure=true", [RemoteServer("h1")]),
        (
            "redis://me:pass@h2:7000, h1",
            [RemoteServer("h1", 7000, None, "me", "pass"), RemoteServer("h2", 7000, None, "me", "pass")],
        ),
        (
            ["redis://:a@h1", "redis://:b@h2:1"],
            [RemoteServer("h1", password="a"), RemoteServer("h2", 1, password="b")],
        ),
        ("redis://:a@h1,unix:/s", [RemoteServer("h1", password="a"), RemoteServer(path="/s", password="a")]),
        ("rediss://localhost", [RemoteServer("localhost", tls=Tls())]),
        ("rediss://:a@H1:7000/2", [RemoteServer("h1", 7000, None, None, "a", 2, Tls())]),
        (
            "rediss://:a@h1?ssl_ca_certs=/etc/our%20ca.pem,h2,redis://h3,unix:/s",
            [
                RemoteServer("h1", password="a", tls=Tls("/etc/our ca.pem")),
                RemoteServer("h2", password="a", tls=Tls("/etc/our ca.pem")),
                RemoteServer("h3", password="a"),
                RemoteServer(path="/s", password="a"),
            ],
        ),
        (
            "rediss://h1?ssl_certfile=/my.crt&ssl_keyfile=/my.key",
            [RemoteServer("h1", tls=Tls(None, "/my.crt", "/my.key"))],
        ),
    ],
)
def test_urls(value, servers):
    assert parse_remote(value) == tuple(servers)


def test_the_order_of_the_list_does_not_matter():
    assert parse_remote("redis://:p@b,a,c") == parse_remote("redis://:p@c,b,a")


def test_names_have_no_secrets():
    (server,) = parse_remote("redis://me:secret@h1/2")
    assert server.name == "h1:6379/2"
    assert "secret" not in repr(server)


def test_a_password_may_be_in_the_environment(monkeypatch):
    monkeypatch.setenv("SENECA_REMOTE_PASSWORD", "hidden")
    assert parse_remote("redis://me@h1,h2")[1] == RemoteServer("h2", user="me", password="hidden")
    assert parse_remote("redis://:own@h1")[0].password == "own"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (3, 'remote is "redis://host", several of these, or None, but got 3'),
        ("h1", "is no server; write"),
        ("http://localhost", "is no server; write"),
        ("redis://", "is no server; write"),
        ("redis://localhost/first", "is no server; write"),
        ("unix:", "is no server; write"),
        ("redis://localhost:99999", "has no port from 1 to 65535"),
        ("redis://localhost?timeout=3", "may end with .insecure=true, rediss:// with"),
        ("redis://localhost?insecure=maybe", "may end with .insecure=true, rediss:// with"),
        ("rediss://:p@h1?ssl_cert_reqs=none", "ssl_keyfile= as well, and with nothing else"),
        ("rediss://:p@h1?ssl_keyfile=/my.key", "has an ssl_keyfile, but no ssl_certfile"),
        ("redis://:p@h1?ssl_ca_certs=/ca.pem", "ssl_keyfile= as well, and with nothing else"),
        ("rediss://h1?ssl_ca_certs=/ca.pem", "is another host and has no password"),
        ("redis://10.0.0.1", "is another host and has no password"),
        ("redis://h1", "write redis://h1.insecure=true"),
        ("redis://:secret@h1,h1:6379", "names a server twice: h1:6379, h1:6379"),
    ],
)
def test_what_is_none(value, message):
    with pytest.raises(ValueError, match=message) as error:
        parse_remote(value)
    assert "secret" not in str(error.value)


def test_the_option_the_environment_and_neither(monkeypatch):
    assert Options().remote_wanted == ()
    monkeypatch.setenv("SENECA_REMOTE", "unix:/a")
    assert Options().remote_wanted == (RemoteServer(path="/a"),)
    assert Options(remote="unix:/b").remote_wanted == (RemoteServer(path="/b"),)
    assert Options(remote=False).remote_wanted == ()
    monkeypatch.setenv("SENECA_REMOTE", "redis://h1")
    with pytest.raises(ValueError, match="SENECA_REMOTE: remote: redis://h1 is another host"):
        Options()


def test_a_file_is_named_from_where_the_job_began(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (server,) = parse_remote("rediss://localhost?ssl_ca_certs=ca.pem")
    assert server.tls == Tls(str(tmp_path / "ca.pem"))
