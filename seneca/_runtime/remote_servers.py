"""The servers that keep samples' files for several hosts, as a user or the environment names them.

::

    "redis://:secret@h1,h2:6380"  ──parse_remote()──>  (RemoteServer(h1:6379), RemoteServer(h2:6380))
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

__all__ = ["RemoteServer", "Tls", "parse_remote"]

PORT = 6379
PASSWORD = "SENECA_REMOTE_PASSWORD"
FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")  # as redis-py calls them


@dataclass(frozen=True)
class Tls:
    """How a client and a server prove to each other who they are. The server always has to.

    Args:
        ca_file: The certificates of the CAs that are trusted, PEM; None: those that OpenSSL trusts here.
        cert_file: The certificate of the client, PEM; None: it has none.
        key_file: The key of that certificate; None: it is in the same file.
    """

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None


@dataclass(frozen=True)
class RemoteServer:
    """A Redis or Valkey server.

    Args:
        host: Its name or address; None: it is reached by a Unix socket.
        port: Of the host.
        path: The path of the Unix socket; None: it has a host.
        user: The user as which to log in; None: the server's default user.
        password: The password; None: the server asks for none.
        database: The number of the database.
        tls: Its certificate is for ``host``, and is checked; None: there is no TLS.
    """

    host: str | None = None
    port: int = PORT
    path: str | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    database: int = 0
    tls: Tls | None = None

    @property
    def name(self) -> str:
        """The server's name, without secrets. It decides which samples are there."""
        place = f"unix:{self.path}" if self.host is None else f"{self.host}:{self.port}"
        return f"{place}/{self.database}" if self.database else place


def parse_remote(value: str | Sequence[str] | None) -> tuple[RemoteServer, ...]:
    """Read the argument ``remote``.

    Args:
        value: URLs, in a text with commas or as a sequence: ``redis://user:password@host:6379/0`` or
            ``unix:/path/of/socket``. What a URL after a comma leaves out is as in the first. If there is no
            password in the URL, the environment variable ``SENECA_REMOTE_PASSWORD`` has it.
            ``?insecure=true``: the server may be reached without one. ``rediss://`` is with TLS;
            ``?ssl_ca_certs=/path&ssl_certfile=/path&ssl_keyfile=/path`` are the files of :class:`Tls`.

    Returns:
        The servers, in a fixed order; none for None or an empty text.

    Raises:
        ValueError: A URL is invalid, is named twice, or leads to another host without a password or a
            certificate of the client.

    Example:
        >>> [server.name for server in parse_remote("redis://:secret@h1,h2:6380")]
        ['h1:6379', 'h2:6380']
    """
    if value is not None and not isinstance(value, (str, list, tuple)):
        raise ValueError(f'remote is "redis://host", several of these, or None, but got {value!r}')
    texts = [
        text.strip()
        for part in ([value] if isinstance(value, str) else value or ())
        for text in str(part).split(",")
        if text.strip()
    ]
    servers: list[RemoteServer] = []
    first = None
    for text in texts:
        url = urlsplit(text if ":/" in text or first is None else f"{first.scheme}://{text}")
        first = first or url
        servers.append(_server(url, first))
    names = [server.name for server in servers]
    if len(set(names)) < len(names):
        raise ValueError(f"remote names a server twice: {', '.join(names)}")
    return tuple(sorted(servers, key=lambda server: server.name))


def _server(url: SplitResult, first: SplitResult) -> RemoteServer:
    shown = f"{url.scheme}://{url.netloc.rpartition('@')[2]}{url.path}"  # without a password
    try:
        port = url.port or first.port or PORT
    except ValueError:
        raise ValueError(f"remote: {shown} has no port from 1 to 65535") from None
    number = url.path.strip("/")
    options = {name: values[-1] for name, values in parse_qs(url.query or first.query).items()}
    insecure = options.pop("insecure", "false")
    files = [options.pop(name, None) for name in (FILES if url.scheme == "rediss" or not url.query else ())]
    if options or insecure not in ("true", "false"):
        raise ValueError(
            f"remote: {shown} may end with ?insecure=true, rediss:// with ssl_ca_certs=, ssl_certfile= and "
            "ssl_keyfile= as well, and with nothing else"
        )
    password = _unquoted(url.password or first.password) or os.environ.get(PASSWORD) or None
    user = _unquoted(url.username or first.username)
    if url.scheme == "unix" and url.path and not url.netloc:
        return RemoteServer(path=url.path, user=user, password=password)
    if url.scheme not in ("redis", "rediss") or not url.hostname or not (number.isdecimal() or not number):
        raise ValueError(
            f'remote: {shown} is no server; write "redis://host", "redis://:password@host:6379/0", '
            '"rediss://host" (with TLS) or "unix:/path/of/socket"'
        )
    tls = Tls(*(path and os.path.abspath(path) for path in files)) if url.scheme == "rediss" else None
    if tls is not None and tls.key_file is not None and tls.cert_file is None:
        raise ValueError(f"remote: {shown} has an ssl_keyfile, but no ssl_certfile")
    is_known = password is not None or (tls is not None and tls.cert_file is not None)
    if not is_known and insecure == "false" and not _is_here(url.hostname):
        raise ValueError(
            f"remote: {shown} is another host and has no password: whoever reaches it can change samples. "
            f"Give a password in {PASSWORD} or in the URL, or write {shown}?insecure=true"
        )
    return RemoteServer(url.hostname, port, None, user, password, int(number or 0), tls)


def _unquoted(text: str | None) -> str | None:
    return unquote(text) if text else None


def _is_here(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
