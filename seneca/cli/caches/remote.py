"""``seneca remote serve``: a server for several hosts, configured for files of samples and for nothing else.

::

    options ──Serving──> redis.conf, users.acl, password ──exec──> valkey-server or redis-server
    └──> --print: a systemd unit, manifests for Kubernetes or a script for Slurm, by the files of deploy/

The server is Redis's or Valkey's own. Its clients may read and write keys of Seneca's, and nothing else.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import os
import secrets
import shlex
import shutil
import socket
import string
import sys
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import NoReturn

from seneca._runtime.cgroups import cores_allowed
from seneca._runtime.private_files import open_private, private_folder, write_private
from seneca._runtime.remote_servers import PASSWORD, PORT
from seneca._runtime.user_cache import user_cache
from seneca.options import parse_bytes

__all__ = ["CannotServe", "Serving", "run"]

PROGRAMS = ("valkey-server", "redis-server")
RIGHTS = "~seneca:* resetchannels -@all +get +set +del +ping +auth +hello +select +info +dbsize"
SPARE = 1.15  # of the memory for values: keys, buffers and what the allocator loses


class CannotServe(Exception):
    """An option cannot be used, or there is no server to start."""


@dataclass(frozen=True)
class Serving:
    """How a server is to be started.

    Args:
        memory: For files of samples, in bytes.
        bind: The addresses that it listens on.
        port: The port that it listens on.
        folder: Where its configuration and its socket are stored.
        password: What clients have to say; None: nothing, which is possible on this host alone.
        tls: The files of its certificate and key, with which it speaks TLS; None: it does not.
    """

    memory: int
    bind: tuple[str, ...]
    port: int
    folder: Path
    password: str | None
    tls: tuple[Path, Path] | None = None

    def configuration(self) -> str:
        """The lines of ``redis.conf``. Nothing goes to disk. Copies make room for files, no file does."""
        threads = min(4, int(cores_allowed().number) // 2)
        lines = [
            f"bind {' '.join(self.bind)}",
            *([f"port {self.port}"] if self.tls is None else _tls_lines(self.port, self.tls)),
            f"unixsocket {self.folder / 'socket'}",
            "unixsocketperm 600",
            f"dir {self.folder}",
            f"aclfile {self.folder / 'users.acl'}",
            f"maxmemory {self.memory}",
            "maxmemory-policy volatile-ttl",
            'save ""',
            "appendonly no",
            *([f"io-threads {threads}"] if threads > 1 else []),
        ]
        return "\n".join(lines) + "\n"

    def users(self) -> str:
        """The line of ``users.acl``."""
        if self.password is None:
            return f"user default on nopass {RIGHTS}\n"
        return f"user default on #{hashlib.sha256(self.password.encode()).hexdigest()} {RIGHTS}\n"


def _tls_lines(port: int, tls: tuple[Path, Path]) -> list[str]:
    certificate, key = tls
    return [
        "port 0",
        f"tls-port {port}",
        f'tls-cert-file "{certificate}"',
        f'tls-key-file "{key}"',
        "tls-auth-clients no",
    ]


def run(
    memory: str,
    bind: list[str],
    port: int,
    folder: Path | None,
    *,
    insecure: bool,
    to_print: str | None,
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
) -> None:
    """Become a server, or print how one is started.

    Raises:
        CannotServe: An option cannot be used, or there is no server on the path.
        NotPrivate: Another user made the folder or the password's file, or can change it.
        OSError: The folder cannot be written to.
    """
    if to_print not in (None, "systemd", "k8s", "slurm"):
        raise CannotServe(f"--print is systemd, k8s or slurm, but got {to_print}")
    try:
        amount = parse_bytes(memory)
    except ValueError as error:
        raise CannotServe(f"--memory: {error}") from None
    if (tls_cert is None) != (tls_key is None):
        raise CannotServe("--tls-cert and --tls-key are given together")
    tls = None if tls_cert is None or tls_key is None else (tls_cert.absolute(), tls_key.absolute())
    if to_print == "k8s":
        print(_kubernetes(amount, tls), end="")
        return
    if to_print == "systemd":
        print(_systemd(memory, bind, port, folder, insecure=insecure, tls=tls), end="")
        return
    if to_print == "slurm":
        if tls is not None:
            raise CannotServe(
                "--print slurm takes no certificate; add --tls-cert and --tls-key to the script's `seneca "
                "remote serve`, and write rediss:// in its SENECA_REMOTE"
            )
        print(_slurm(memory, folder), end="")
        return
    for file in tls or ():
        file.open("rb").close()  # the server would complain without a word of what to change
    is_here = _is_here(bind)
    program = next((path for name in PROGRAMS if (path := shutil.which(name)) is not None), None)
    if program is None:
        raise CannotServe(
            f"neither {' nor '.join(PROGRAMS)} is installed; apt-get install redis-server, or valkey-server "
            "where there is one"
        )
    where = private_folder(folder or user_cache() / f"remote-{port}")
    password = None if insecure else _password(where, makes=not is_here)
    serving = Serving(amount, tuple(bind), port, where, password, tls)
    write_private(where / "redis.conf", serving.configuration())
    write_private(where / "users.acl", serving.users())
    _report(serving)
    _become(program, where / "redis.conf")


def _is_here(bind: list[str]) -> bool:
    try:
        return all(ipaddress.ip_address(one).is_loopback for one in bind)
    except ValueError as error:
        raise CannotServe(f"--bind: {error}; give numeric addresses of this host, such as 10.0.0.5") from None


def _password(folder: Path, *, makes: bool) -> str | None:
    """The password in the environment, or else the one in the folder, which this may make."""
    if (given := os.environ.get(PASSWORD)) or not makes:
        return given or None
    path = folder / "password"
    if not os.path.lexists(path):
        write_private(path, secrets.token_urlsafe(24) + "\n")
    with os.fdopen(open_private(path, os.O_RDONLY)) as file:
        return file.read().strip()


def _report(serving: Serving) -> None:
    """Print what clients have to set."""
    elsewhere = not _is_here(list(serving.bind))
    scheme = "redis" if serving.tls is None else "rediss"
    url = f"{scheme}://{socket.gethostname() if elsewhere else serving.bind[0]}:{serving.port}"
    if serving.password is None:
        secret = ""
        url += "?insecure=true" if elsewhere else ""
    elif os.environ.get(PASSWORD):
        secret = f", and {PASSWORD} as here"
    else:
        secret = f", and {PASSWORD} as in {serving.folder / 'password'}"
    print(f"on this host: SENECA_REMOTE=unix:{serving.folder / 'socket'}{secret}")
    print(f"{'on all hosts' if elsewhere else 'or'}: SENECA_REMOTE={url}{secret}", flush=True)
    if serving.tls is not None:
        more = "&" if "?" in url else "?"
        print(f"where its CA is not trusted: {url}{more}ssl_ca_certs=/path/of/ca.crt", flush=True)


def _become(program: str, configuration: Path) -> NoReturn:
    """This process is the server from now on; it ends by SIGTERM or Ctrl-C."""
    os.execv(program, [program, str(configuration)])


def _systemd(
    memory: str,
    bind: list[str],
    port: int,
    folder: Path | None,
    *,
    insecure: bool,
    tls: tuple[Path, Path] | None,
) -> str:
    _is_here(bind)
    seneca = shutil.which("seneca") or f"{sys.executable} -m seneca.cli"
    options = [f"--memory {memory}", *(f"--bind {one}" for one in bind), f"--port {port}"]
    # With DynamicUser, %S/seneca-remote is a link to this, and links are refused.
    options += [f"--folder {folder.absolute() if folder is not None else '%S/private/seneca-remote'}"]
    options += ["--insecure"] if insecure else []
    credentials = ""  # the unit's user may not read the files where they are
    for option, path in zip(("cert", "key"), tls or (), strict=False):
        options.append(f"--tls-{option} ${{CREDENTIALS_DIRECTORY}}/{option}")
        credentials += f"LoadCredential={option}:{path}\n"
    return _filled(
        "systemd.service",
        serve=f"{seneca} remote serve {' '.join(options)}",
        credentials=credentials,
        memory=round(parse_bytes(memory) * SPARE),
    )


def _slurm(memory: str, folder: Path | None) -> str:
    """A script for sbatch: a server on each node, and a training run that knows all of them."""
    serve = f'seneca remote serve --memory {shlex.quote(memory)} --bind 0.0.0.0 --port "$port"'
    if folder is None:  # on each node one of a name that nobody can guess
        serve = f"""bash -c 'folder=$(mktemp -d) && exec "$@" --folder "$folder"' - \\\n    {serve}"""
    else:
        serve = f"{serve} \\\n    --folder {shlex.quote(str(folder))}"
    return _filled("slurm.sh", serve=serve)


def _kubernetes(memory: int, tls: tuple[Path, Path] | None) -> str:
    """A Secret, a headless Service, a StatefulSet of servers on different nodes: JSON, which is YAML."""
    listening, scheme, more = f"--port {PORT}", "redis", ""
    if tls is not None:
        listening = (
            f"--port 0 --tls-port {PORT} --tls-cert-file /run/tls/tls.crt --tls-key-file /run/tls/tls.key "
            "--tls-auth-clients no"
        )
        scheme = "rediss"
        more = (
            "# The certificate has to name these hosts. ?ssl_ca_certs=/path names a CA that is not trusted.\n"
            f"#   kubectl create secret tls seneca-remote-tls --cert={tls[0]} --key={tls[1]}\n"
        )
    text = _filled(
        "kubernetes.json",
        password=secrets.token_urlsafe(24),
        rights=RIGHTS,
        listening=listening,
        port=PORT,
        memory=memory,
        limit=round(memory * SPARE),
    )
    documents = json.loads(text)
    if tls is not None:
        pod = documents[-1]["spec"]["template"]["spec"]
        secret = {"secretName": "seneca-remote-tls", "defaultMode": 0o440}
        pod["volumes"].append({"name": "tls", "secret": secret})
        mount = {"name": "tls", "mountPath": "/run/tls", "readOnly": True}
        pod["containers"][0]["volumeMounts"].append(mount)
    head = (
        "# Servers for files of samples: one for each node, replicas as many as you want. Training pods get\n"
        f"#   SENECA_REMOTE={scheme}://seneca-remote-0.seneca-remote,seneca-remote-1.seneca-remote\n"
        "#   SENECA_REMOTE_PASSWORD from the secret seneca-remote, key password\n"
        f"{more}"
    )
    return head + "---\n".join(json.dumps(document, indent=2) + "\n" for document in documents)


class _Template(string.Template):
    delimiter = "@"  # a shell's own is $


def _filled(name: str, **values: object) -> str:
    """A file of deploy/, with a value for each @name in it."""
    return _Template((files(__package__) / "deploy" / name).read_text()).substitute(values)
