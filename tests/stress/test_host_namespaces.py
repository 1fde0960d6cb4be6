"""Three hosts that share slow storage and a network alone: from the second epoch on nobody reads storage.

Each host is a network namespace, with a server and a job. Links carry 200 Mb/s.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import subprocess
import sys
import time

import namespaces
import pytest
import ready
import slow_reads
from redis_servers import PROGRAM, needs_redis, put_first
from sizes import size

import seneca
from seneca import transforms as T
from seneca.testing import make_pictures

pytestmark = needs_redis
COUNT, EPOCHS, HOSTS = 60, size(2, 3), 3
STORAGE = 20_000_000

JOB = """
import ctypes, hashlib, json, sys
import numpy as np, torch
import seneca
from seneca import transforms as T

host, folder, remote, way = sys.argv[1:]
with open(f"/run/netns/{host}") as namespace:
    assert ctypes.CDLL(None).setns(namespace.fileno(), 0) == 0

def shrunk(picture):
    return torch.from_numpy(np.array(picture.resize((24, 24))))

if way == "native":
    data = seneca.ImageFolder(folder, T.Compose([T.Resize((24, 24)), T.ToTensor()]))
    own = {"cache": None}
else:
    data = seneca.ImageFolder(folder, shrunk)
    own = {"cache": "own", "cache_bytes": "1MiB", "split": "0-0-100", "check_every": None}
loader = seneca.DataLoader(
    data, 8, shuffle=True, num_workers=1, remote=remote, verify_files="run",
    multiprocessing_context="fork" if way == "workers" else None, **own,
)
print(loader.explain().partition(":")[0], flush=True)
for line in sys.stdin:
    before = loader.stats()["read_bytes"]
    items = (one.numpy().tobytes() for images, _ in loader for one in images)
    digests = sorted(hashlib.sha256(one).hexdigest() for one in items)
    stats = loader.stats()
    print(json.dumps([digests, stats["read_bytes"] - before, stats["remote"]]), flush=True)
"""


@pytest.fixture(scope="module")
def hosts():
    if why := namespaces.why_not():
        pytest.skip(why)
    with namespaces.network(HOSTS, megabits=200) as hosts:
        yield hosts


@pytest.fixture
def servers(hosts, tmp_path):
    """A server on each host; the paths of their sockets, by which this machine reaches them."""
    running, sockets = [], []
    for host in hosts:
        socket = tmp_path / f"{host.name}.socket"
        options = ["--bind", host.address, "--port", "6379", "--unixsocket", str(socket), "--save", ""]
        options += ["--protected-mode", "no", "--dir", str(tmp_path)]
        running.append(subprocess.Popen([*host.command, PROGRAM, *options], stdout=subprocess.DEVNULL))
        put_first(running[-1])
        sockets.append(socket)
    until = time.monotonic() + 60
    while not all(socket.exists() for socket in sockets):
        assert time.monotonic() < until
        time.sleep(0.01)
    yield sockets
    for process in running:
        process.kill()
        process.wait()


def held(path):
    """How many values a server has."""
    import socket

    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        connection.sendall(b"DBSIZE\r\n")
        return int(connection.recv(64)[1:])


def read_from_storage(place):
    """Bytes that all processes together have read there: the count of what holds their reads back."""
    return struct.unpack("=QQQ", (place / "bucket").read_bytes())[1]


def truth(folder, way):
    import numpy as np

    if way == "native":
        data = seneca.ImageFolder(folder, T.Compose([T.Resize((24, 24)), T.ToTensor()]))
        made = [data[index][0].numpy() for index in range(COUNT)]
    else:
        data = seneca.ImageFolder(folder)
        made = [np.array(data[index][0].resize((24, 24))) for index in range(COUNT)]
    return sorted(hashlib.sha256(one.tobytes()).hexdigest() for one in made)


@pytest.mark.small(1)
@pytest.mark.parametrize("way", ["native", "workers"])
def test_three_hosts_read_storage_in_the_first_epoch_alone(hosts, servers, tmp_path, way, request):
    folder, place = make_pictures(tmp_path / "pictures", count=COUNT, classes=2), tmp_path / "place"
    place.mkdir()
    slow = slow_reads.environment(place, folder, STORAGE)
    first, *others = (host.address for host in hosts)
    remote = ",".join([f"redis://{first}?insecure=true", *others])
    server = ready.Server(slow, modules=["seneca.loader"])
    request.addfinalizer(server.close)
    jobs = []
    for i, host in enumerate(hosts):
        own = tmp_path / f"host-{i}"
        own.mkdir(mode=0o700)
        environment = {**os.environ, **slow, "SENECA_DIR": str(own)}
        jobs.append(ready.Script("-c", JOB, host.name, folder, remote, way, env=environment, server=server))
    kinds = {job.stdout.readline().strip() for job in jobs}
    assert kinds == {"native" if way == "native" else "staged"}
    wanted = truth(folder, way)
    whole = sum(path.stat().st_size for path in folder.rglob("*.jpg"))
    for epoch in range(EPOCHS):
        before = read_from_storage(place)
        for job in jobs:
            job.stdin.write("\n")
            job.stdin.flush()
        found = [json.loads(job.stdout.readline()) for job in jobs]
        read = read_from_storage(place) - before
        assert [digests == wanted for digests, _, _ in found] == [True] * HOSTS
        of_stats = [bytes_ for _, bytes_, _ in found]
        if epoch == 0:
            assert whole <= sum(of_stats) <= read
            until = time.monotonic() + 60
            while sum(map(held, servers)) < COUNT and time.monotonic() < until:
                time.sleep(0.01)
            assert min(map(held, servers)) > COUNT // 10, "each server has its part"
        else:
            assert (of_stats, read) == ([0] * HOSTS, 0), f"epoch {epoch}"
    for job in jobs:
        _, err = job.communicate()
        assert job.returncode == 0, err
    for _, _, remote in found:
        assert sum(of["wrong"] + of["failures"] for of in remote.values()) == 0
        assert min(of["hits"] for of in remote.values()) > 0, "every host is asked by every other"


def test_links_carry_no_more_than_they_may(hosts):
    """At 200 Mb/s 12 MB take 0.48 s, less what the bucket holds."""
    sends = """if True:
        import socket, sys
        with socket.create_connection((sys.argv[1], 5001)) as one:
            one.sendall(bytes(12_000_000))
    """
    takes = """if True:
        import socket, sys, time
        with socket.create_server((sys.argv[1], 5001)) as listener:
            print("ready", flush=True)
            one, _ = listener.accept()
            began, n = time.perf_counter(), 0
            while got := len(one.recv(1 << 20)):
                n += got
            print(n, time.perf_counter() - began)
    """
    address = hosts[1].address
    listening = subprocess.Popen(
        [*hosts[1].command, sys.executable, "-c", takes, address], stdout=subprocess.PIPE, text=True
    )
    assert listening.stdout.readline() == "ready\n"
    subprocess.run([*hosts[0].command, sys.executable, "-c", sends, address], check=True)
    count, seconds = listening.communicate()[0].split()
    assert int(count) == 12_000_000 and float(seconds) > 0.4
