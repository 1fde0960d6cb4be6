"""``seneca remote serve``: a real server in its place, which lets in whom it should, to what it should."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

import pages
import pytest
from certificates import Authority
from redis_servers import PROGRAM, needs_redis, needs_tls, until_it_listens
from rights import as_root
from typer.testing import CliRunner

from seneca._core.remote import Remote
from seneca.cli.app import app

DATASET = bytes(16)


def command(*options):
    return [sys.executable, "-m", "seneca.cli", "remote", "serve", *map(str, options)]


def environment(**more):
    plain = {name: value for name, value in os.environ.items() if not name.startswith("SENECA_REMOTE")}
    return {**plain, **more}


def typed(*options, **variables):
    """The command where it does not begin to serve."""
    without = {name: None for name in os.environ.keys() - environment().keys()}
    return CliRunner().invoke(app, ["remote", "serve", *map(str, options)], env=without | variables)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Served:
    """The command while it serves; ``printed`` is what it printed before."""

    def __init__(self, folder, *options, **variables):
        self.port = free_port()
        line = command("--memory", "64MiB", "--folder", folder, "--port", self.port, *options)
        self.process = subprocess.Popen(line, stdout=subprocess.PIPE, text=True, env=environment(**variables))
        self.printed = self.process.stdout.readline() + self.process.stdout.readline()
        until_it_listens(self.process, self.port)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(60) == 0
        self.process.stdout.close()

    def client(self, password=None, path=None):
        address = None if path else "127.0.0.1"
        return Remote([("it", path, address, self.port, None, password, 0)])

    def says(self, *words):
        with socket.create_connection(("127.0.0.1", self.port), 5) as one:
            text = f"*{len(words)}\r\n" + "".join(f"${len(word)}\r\n{word}\r\n" for word in words)
            one.sendall(text.encode())
            return one.makefile().readline()


@needs_redis
def test_for_this_host_alone(tmp_path):
    with Served(tmp_path / "it") as served:
        assert f"SENECA_REMOTE=redis://127.0.0.1:{served.port}\n" in served.printed
        path = re.search(r"SENECA_REMOTE=unix:(\S+)", served.printed)[1]
        served.client().put(DATASET, 1, b"a file")
        one = served.client(path=path)
        until = time.monotonic() + 60
        while one.get(DATASET, 1) is None:  # no answer to the first client's SET was waited for
            assert time.monotonic() < until
        assert one.get(DATASET, 1) == b"a file"
        for words in (
            ("SET", "other", "x"),
            ("FLUSHALL",),
            ("CONFIG", "GET", "dir"),
            ("KEYS", "*"),
            ("SHUTDOWN",),
        ):
            assert served.says(*words).startswith("-NOPERM"), words
    assert os.stat(path.rpartition("/")[0]).st_mode & 0o077 == 0
    assert all(entry.stat().st_mode & 0o077 == 0 for entry in (tmp_path / "it").iterdir())


@needs_redis
def test_for_other_hosts_it_makes_a_password_and_keeps_it(tmp_path):
    passwords = []
    for _ in range(2):
        with Served(tmp_path, "--bind", "0.0.0.0") as served:
            assert f"and SENECA_REMOTE_PASSWORD as in {tmp_path / 'password'}" in served.printed
            passwords.append((tmp_path / "password").read_text().strip())
            assert passwords[-1] not in served.printed
            assert served.client(passwords[-1]).ping(0)
            assert not served.client().ping(0) and not served.client("guessed").ping(0)
    assert passwords[0] == passwords[1] and len(passwords[0]) > 20


@pytest.mark.whole_size(shown_by="test_for_this_host_alone")
@needs_redis
def test_files_that_were_there_are_closed_to_others(tmp_path):
    (tmp_path / "users.acl").touch(0o644)
    with Served(tmp_path, "--bind", "0.0.0.0"):
        assert (tmp_path / "users.acl").stat().st_mode & 0o077 == 0


@pytest.mark.whole_size(shown_by="test_for_other_hosts_it_makes_a_password_and_keeps_it")
@needs_redis
def test_a_password_of_the_users_and_none(tmp_path):
    with Served(tmp_path, "--bind", "0.0.0.0", SENECA_REMOTE_PASSWORD="mine") as served:
        assert "SENECA_REMOTE_PASSWORD as here" in served.printed and not (tmp_path / "password").exists()
        assert served.client("mine").ping(0) and not served.client().ping(0)
    with Served(tmp_path, "--bind", "0.0.0.0", "--insecure") as served:
        assert "?insecure=true" in served.printed and served.client().ping(0)


@needs_tls
def test_with_a_certificate_it_speaks_tls_and_nothing_else(tmp_path):
    authority = Authority(tmp_path / "ours")
    certificate, key = authority.issue("server", "IP:127.0.0.1")
    with Served(tmp_path / "it", "--tls-cert", certificate, "--tls-key", key) as served:
        assert f"or: SENECA_REMOTE=rediss://127.0.0.1:{served.port}\n" in served.printed
        assert "?ssl_ca_certs=/path/of/ca.crt" in served.process.stdout.readline()
        about = ("it", None, "127.0.0.1", served.port, None, None, 0)
        one = Remote([(*about, "127.0.0.1", str(authority.file), None, None)])
        one.put(DATASET, 1, b"a file")
        assert one.get(DATASET, 1) == b"a file"
        assert not served.client().ping(0)


@pytest.mark.whole_size(shown_by="test_copies_make_room_for_files_and_no_file_for_copies")
@needs_redis
def test_memory_is_what_was_asked_for(tmp_path):
    with Served(tmp_path) as served:
        one = served.client()
        for sample in range(100):
            one.put(DATASET, sample, bytes(1_000_000))
            one.get(DATASET, sample)
        assert 50 < one.counts(0)["stored"] < 68 and "OOM" in one.counts(0)["message"]


@needs_redis
def test_copies_make_room_for_files_and_no_file_for_copies(tmp_path):
    """Copies are left for some seconds, files for ever."""
    with Served(tmp_path) as served:
        for copy in range(80):
            served.says("SET", f"seneca:{'c' * 32}:{copy}", "x" * 1_000_000, "NX", "PX", "600000")
        one = served.client()
        for sample in range(40):
            one.put(DATASET, sample, bytes(1_000_000))
            assert one.get(DATASET, sample) is not None, "it has taken the place of a copy"
        for copy in range(80):
            served.says("SET", f"seneca:{'d' * 32}:{copy}", "x" * 1_000_000, "NX", "PX", "600000")
        assert all(one.get(DATASET, sample) is not None for sample in range(40))


def refused_by(folder, tmp_path):
    """What the command says of a folder that it does not take; a server that it found would write a file."""
    program = tmp_path / "valkey-server"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    program.chmod(0o755)
    line = command("--memory", "64MiB", "--bind", "0.0.0.0", "--folder", folder)
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = subprocess.run(line, capture_output=True, text=True, env=environment(PATH=path))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert not (tmp_path / "started").exists()
    return done.stderr


def test_a_folder_that_others_may_change_is_refused(tmp_path):
    folder = tmp_path / "planted"
    folder.mkdir()
    folder.chmod(0o777)
    said = refused_by(folder, tmp_path)
    assert f"{folder} may be changed by other users: its mode is 0777; give a folder that only you" in said
    assert not list(folder.iterdir())


@pytest.mark.whole_size(shown_by="test_a_folder_that_others_may_change_is_refused")
@as_root
def test_a_folder_and_a_password_of_another_user_are_refused(tmp_path):
    folder = tmp_path / "planted"
    folder.mkdir(0o755)
    os.chown(folder, 65534, 65534)
    assert f"{folder} belongs to another user, " in refused_by(folder, tmp_path)
    os.chown(folder, 0, 0)
    (folder / "password").write_text("known")
    os.chown(folder / "password", 65534, 65534)
    assert f"{folder}/password belongs to another user, " in refused_by(folder, tmp_path)


@pytest.mark.whole_size(shown_by="test_a_folder_that_others_may_change_is_refused")
@needs_redis
def test_a_planted_link_is_not_written_through(tmp_path):
    (tmp_path / "mine").write_text("precious")
    for name in ("redis.conf", "users.acl"):
        (tmp_path / name).symlink_to(tmp_path / "mine")
    with Served(tmp_path):
        assert (tmp_path / "mine").read_text() == "precious"


def test_without_a_server_it_says_what_to_install(tmp_path):
    done = typed("--memory", "1GiB", "--folder", tmp_path, PATH=str(tmp_path))
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "neither valkey-server nor redis-server is installed; apt-get install redis-server" in done.stderr


@pytest.mark.small(3)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--memory", "much"], "--memory: 'much' is not an amount of memory"),
        (
            ["--memory", "1GiB", "--bind", "my.host"],
            "--bind: 'my.host' does not appear to be an IPv4 or IPv6",
        ),
        (["--memory", "1GiB", "--print", "docker"], "--print is systemd, k8s or slurm, but got docker"),
        ([], "Missing option '--memory'"),
        (
            ["--memory", "1GiB", "--print", "slurm", "--tls-cert", "/a.crt", "--tls-key", "/a.key"],
            "--print slurm takes no certificate",
        ),
        (["--memory", "1GiB", "--tls-cert", "/a.crt"], "--tls-cert and --tls-key are given together"),
        (
            ["--memory", "1GiB", "--tls-cert", "/nowhere.crt", "--tls-key", "/a.key"],
            "/nowhere.crt: No such file or directory",
        ),
    ],
)
def test_options_that_cannot_be_used(tmp_path, options, message):
    done = typed(*options, "--folder", tmp_path, PATH=str(tmp_path))
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert message in done.stderr


def printed(*options):
    done = typed("--memory", "8GiB", "--bind", "0.0.0.0", "--print", *options)
    assert done.exit_code == 0, done.stderr
    return done.stdout


@pytest.mark.small(1)
@pytest.mark.parametrize("tls", [False, True])
def test_a_unit_of_systemd(tmp_path, tls):
    options = ("--tls-cert", "/etc/my.crt", "--tls-key", "/etc/my.key") if tls else ()
    unit = printed("systemd", *options)
    assert "remote serve --memory 8GiB --bind 0.0.0.0 --port 6379 --folder %S/private/seneca-remote" in unit
    assert ("LoadCredential=cert:/etc/my.crt\nLoadCredential=key:/etc/my.key\n" in unit) == tls
    assert ("--tls-cert ${CREDENTIALS_DIRECTORY}/cert" in unit) == tls
    assert f"MemoryMax={round(8 * 2**30 * 1.15)}\n" in unit
    if shutil.which("systemd-analyze"):
        (tmp_path / "seneca-remote.service").write_text(unit)
        done = subprocess.run(
            ["systemd-analyze", "verify", str(tmp_path / "seneca-remote.service")],
            capture_output=True,
            text=True,
        )
        assert "seneca-remote.service" not in done.stderr, done.stderr


def test_manifests_for_kubernetes():
    """tests/frameworks holds them against the schemas."""
    head, *documents = manifests()
    assert "SENECA_REMOTE=redis://seneca-remote-0.seneca-remote,seneca-remote-1.seneca-remote\n" in head
    assert [document["kind"] for document in documents] == ["Secret", "Service", "StatefulSet"]


def manifests(*options):
    text = printed("k8s", *options)
    head = "".join(line for line in text.splitlines(keepends=True) if line.startswith("#"))
    return [head, *map(json.loads, text[len(head) :].split("---\n"))]


@pytest.mark.small(1)
@pytest.mark.parametrize("tls", [False, pytest.param(True, marks=needs_tls)])
@needs_redis
def test_what_a_pod_runs_is_a_server_that_asks_for_the_secret(tmp_path, tls):
    authority = Authority(tmp_path / "ours") if tls else None
    options = ("--tls-cert", "my.crt", "--tls-key", "my.key") if tls else ()
    head, secret, _, servers = manifests(*options)
    spec = servers["spec"]["template"]["spec"]
    (server,) = spec["containers"]
    secured = ("127.0.0.1", str(authority.file), None, None) if tls else ()
    if tls:
        assert "SENECA_REMOTE=rediss://seneca-remote-0.seneca-remote,seneca-remote-1.seneca-remote\n" in head
        assert "kubectl create secret tls seneca-remote-tls --cert=/" in head
        assert {"name": "tls", "mountPath": "/run/tls", "readOnly": True} in server["volumeMounts"]
        assert [one["secret"]["secretName"] for one in spec["volumes"] if one["name"] == "tls"] == [
            "seneca-remote-tls"
        ]
        authority.issue("tls", "IP:127.0.0.1")
    port = free_port()
    script = server["command"][-1].replace("/run/seneca", str(tmp_path)).replace("6379", str(port))
    script = script.replace("/run/tls", str(tmp_path / "ours"))
    (tmp_path / "valkey-server").symlink_to(PROGRAM)
    password = secret["stringData"]["password"]
    path = f"{tmp_path}:{os.environ['PATH']}"
    pod = subprocess.Popen(
        [*server["command"][:-1], script], stdout=subprocess.DEVNULL, env={"PATH": path, "PASSWORD": password}
    )
    try:
        one, other = (
            Remote([("it", None, "127.0.0.1", port, None, said, 0, *secured)])
            for said in (password, "guessed")
        )
        until = time.monotonic() + 60
        while not one.ping(0):
            assert pod.poll() is None and time.monotonic() < until
            time.sleep(0.05)
        one.put(DATASET, 1, b"a file")
        assert one.get(DATASET, 1) == b"a file"
        assert not other.ping(0) and "WRONGPASS" in other.counts(0)["message"]
    finally:
        pod.terminate()
        pod.wait()


SRUN = """\
#!/bin/bash
# One node: what is left of the options is run here. Environment and options are written down.
options=()
while [[ $1 == --* ]]; do options+=("$1"); shift; done
printf '%s\\n' "${options[*]} : $*" >> "$LOG"
exec "$@"
"""
SCONTROL = """\
#!/bin/bash
[[ $* == "show hostnames node[1-3]" ]] && printf 'node1\\nnode2\\nnode3\\n' || echo 127.0.0.1
"""
TORCHRUN = """\
#!{python}
# What a process of the run knows: all servers, of which the first answers here.
import os, sys, time
from seneca._core.remote import Remote
from seneca._runtime.remote_servers import parse_remote
servers = parse_remote(os.environ["SENECA_REMOTE"])
print(os.environ["SENECA_REMOTE"], *sys.argv[1:])
if servers[0].host == "127.0.0.1":
    one = Remote([("it", None, server.host, server.port, None, server.password, 0) for server in servers])
    until = time.monotonic() + 60
    while one.get(bytes(16), 1) is None:
        one.put(bytes(16), 1, b"a file")
        assert time.monotonic() < until, one.counts(0)
        time.sleep(0.05)
    other = Remote([("it", None, "127.0.0.1", servers[0].port, None, "guessed", 0)])
    assert not other.ping(0)
sys.exit(int(os.environ.get("STATUS", "0")))
"""


@pytest.fixture
def slurm(tmp_path):
    """Runs a script with programs in place of Slurm's; answers with its process and the log of `srun`."""
    (tmp_path / "bin").mkdir()
    seneca = f'#!/bin/bash\nexec {sys.executable} -m seneca.cli "$@"\n'
    torchrun = TORCHRUN.format(python=sys.executable)
    for name, text in (("srun", SRUN), ("scontrol", SCONTROL), ("torchrun", torchrun), ("seneca", seneca)):
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)

    def run(script, nodes, **more):
        (tmp_path / "job.sh").write_text(script)
        variables = environment(
            PATH=f"{tmp_path / 'bin'}:{os.environ['PATH']}",
            PYTHONPATH=os.pathsep.join(path for path in sys.path if path),
            LOG=str(tmp_path / "log"),
            TMPDIR=str(tmp_path),
            SLURM_JOB_NODELIST=nodes,
            SLURM_NNODES="3",
            **more,
        )
        done = subprocess.run(["bash", tmp_path / "job.sh"], capture_output=True, text=True, env=variables)
        return done, (tmp_path / "log").read_text().splitlines()

    return run


@needs_redis
@pytest.mark.small(1)
@pytest.mark.parametrize("status", [0, 3])
def test_a_script_for_slurm_starts_a_server_that_the_run_reaches_and_ends_it(slurm, tmp_path, status):
    script = printed("slurm").replace("8GiB", "64MiB")
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)
    port = free_port()
    script = script.replace("port=$((20000 + SLURM_JOB_ID % 20000))", f"port={port}")
    assert f"port={port}\n" in script
    done, log = slurm(script, "node7", SLURM_JOB_ID="7", STATUS=str(status))
    assert done.returncode == status, done.stderr
    assert f"redis://127.0.0.1:{port} --nnodes 3" in done.stdout and "127.0.0.1:29500 train.py" in done.stdout
    assert sorted(line.partition(" : ")[0] for line in log) == ["--overlap --ntasks-per-node=1"] * 2
    (folder,) = tmp_path.glob("tmp.*")
    assert folder.stat().st_mode & 0o077 == (folder / "redis.conf").stat().st_mode & 0o077 == 0
    assert not (folder / "password").exists(), "it is in the environment"
    until = time.monotonic() + 60
    while True:  # the server ends with the script
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)):
                break
        assert time.monotonic() < until


def test_each_process_under_slurm_knows_the_servers_of_all_nodes(slurm):
    script = re.sub(r"seneca remote serve.*&", "true &", printed("slurm"))
    done, _ = slurm(script, "node[1-3]", SLURM_JOB_ID="20123")
    assert done.returncode == 0, done.stderr
    assert "redis://node1:20123,node2:20123,node3:20123 --nnodes 3" in done.stdout
    assert "--rdzv-endpoint node1:29500" in done.stdout


def test_the_page_shows_the_script_for_slurm():
    page = pages.ROOT / "docs" / "clusters.md"
    (shown,) = (block.text for block in pages.blocks(page) if block.heading == "Slurm")
    assert shown == printed("slurm").replace("8GiB", "64GiB")
