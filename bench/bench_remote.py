"""What do servers that keep files for several hosts give, and what does asking them cost?

Method. redis-server or valkey-server runs on this machine, on the loopback and on a Unix socket. Nothing is
simulated, but "hosts" are processes that share no memory, on the cores of one machine. Therefore the decoding
of all hosts, and the servers, share those cores.

* ``get``: the CPU time that the client and the server take for a GET of 110 KB (ImageNet's mean), on one
  connection: by TCP, with TLS on top of it, and by a Unix socket. Files are asked for one by one, and four
  at once, as loaders do. Rounds take turns.
* ``one``: one job whose files all lie on a server, beside the same job whose files all lie in its own cache
  as ENCODED. Their epochs take turns; the ratios are of each round. Each picture is there four times, by
  another name: an epoch takes some seconds. The server takes its time from the same cores. Therefore the CPU
  time of the job is compared too: it is what a server on another host would leave. In the last two rows the
  server has a core to itself, and the job, with one thread, has another: alone and beside the server. The
  last row is a second job with its own cache: so much do equal jobs differ, whose pages lie elsewhere.
* ``hosts``: storage that gives so many megabytes a second to all hosts together (``slow_reads.py``), and 1, 2
  and 3 hosts, each with a server of its own. The servers together have room for the dataset. Epochs after the
  first are timed. Beside it one host without servers. ``cores`` is the CPU time of hosts and servers for a
  second of these epochs: where it is all that the machine has, the cores limit, and no network or storage.
  With ``--namespaces 1000`` each host and its server have a network namespace of their own, and links that
  carry 1,000 Mb/s each way (``namespaces.py``). Bytes then go through the kernel's network, as between hosts.
* ``copies``: two hosts whose jobs have one seed, on one server that has all files, with ``share="exact"``:
  a host takes copies that the other has left there. Beside it the same jobs with ``share="none"``, where each
  host prepares all. No cache keeps anything from epoch to epoch. The pictures are those of ``one``.
  Rounds take turns.

    python -m bench.bench_remote --data train/
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "bench"), str(ROOT)]

import namespaces  # noqa: E402
import slow_reads  # noqa: E402
from compiled import compile_program  # noqa: E402
from report import machine, print_table  # noqa: E402

PROGRAM = shutil.which("valkey-server") or shutil.which("redis-server")
FILE_BYTES = 110_000
EPOCHS = 4
EPOCHS_OF_ONE = 6  # of a job whose CPU time is compared, which the kernel counts in hundredths of a second
GETS = 20_000
AT_ONCE = 4  # SN_REMOTE_AT_ONCE
APART = "TCP, a core each"
EQUAL = "its own cache again"

HOST = """
import sys, time, torch, seneca
from seneca import transforms as T

folder, remote, kind, workers, size, epochs = sys.argv[1:]
data = seneca.ImageFolder(folder, T.Compose([T.RandomResizedCrop(int(size)), T.ToTensor()]))
caches = {
    "none": {"cache": None},
    "encoded": {"cache": "host", "split": "100-0-0", "cache_bytes": "1GiB", "share": "none"},
    "alone": {"cache": "host", "split": "0-0-100", "cache_bytes": "128MiB", "share": "none"},
    "exact": {"cache": "host", "split": "0-0-100", "cache_bytes": "128MiB", "share": "exact"},
}
loader = seneca.DataLoader(
    data, 32, shuffle=True, num_workers=int(workers), persistent_workers=True, remote=remote or False,
    generator=torch.Generator().manual_seed(1), **caches[kind],
)
for epoch in range(int(epochs)):
    print("ready", flush=True)
    sys.stdin.readline()
    before = loader.stats()["read_bytes"]
    for _ in loader:
        pass
    print(len(data), loader.stats()["read_bytes"] - before, flush=True)
sys.stdin.readline()  # ending takes half a second of a core, which others may need
"""


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def certificate(folder: Path) -> str:
    """The file of a certificate for 127.0.0.1, whose key is beside it."""
    line = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=bench"]
    files = ["-keyout", str(folder / "key"), "-out", str(folder / "crt")]
    subprocess.run(
        [*line, "-addext", "subjectAltName=IP:127.0.0.1", *files], check=True, stderr=subprocess.DEVNULL
    )
    return str(folder / "crt")


@contextmanager
def server(
    folder: Path, megabytes: int, tls: int = 0, host: namespaces.Namespace | None = None
) -> Iterator[tuple[str, str, int]]:
    """A server: its URL on the loopback, or on its host, and on a Unix socket, and its process. ``tls`` is a
    port besides."""
    folder.mkdir()
    port, address = free_port(), "127.0.0.1" if host is None else host.address
    options = ["--port", str(port), "--bind", address, "--unixsocket", str(folder / "s"), "--save", ""]
    options += [] if host is None else ["--protected-mode", "no"]
    if tls:
        options += ["--tls-port", str(tls), "--tls-auth-clients", "no"]
        options += ["--tls-cert-file", certificate(folder), "--tls-key-file", str(folder / "key")]
    options += ["--dir", str(folder), "--maxmemory", f"{megabytes}mb", "--maxmemory-policy", "volatile-ttl"]
    prefix = [] if host is None else host.command
    process = subprocess.Popen([*prefix, str(PROGRAM), *options], stdout=subprocess.DEVNULL)
    try:
        while True:
            try:
                with socket.socket(socket.AF_UNIX) as asked:
                    asked.connect(str(folder / "s"))
                break
            except OSError:
                time.sleep(0.02)
        yield f"redis://{address}:{port}", f"unix:{folder / 's'}", process.pid
    finally:
        process.kill()
        process.wait()


class Host:
    """A process that loads epoch after epoch, when it is asked to."""

    def __init__(
        self,
        data: Path,
        remote: str,
        folder: Path,
        *,
        kind: str,
        workers: int,
        size: int,
        host: namespaces.Namespace | None = None,
        epochs: int = EPOCHS,
        core: int | None = None,
        **more: str,
    ) -> None:
        self.epochs = epochs
        folder.mkdir(mode=0o700, exist_ok=True)
        arguments = [str(data), remote, kind, str(workers), str(size), str(epochs)]
        self.process = subprocess.Popen(
            [*([] if host is None else host.command), sys.executable, "-c", HOST, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), "SENECA_DIR": str(folder), **more},
        )
        if core is not None:
            os.sched_setaffinity(self.process.pid, {core})

    def line(self) -> str:
        assert self.process.stdout is not None
        text = self.process.stdout.readline()
        if not text:
            raise SystemExit("a host has ended")
        return text

    def begin(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self) -> None:
        self.process.communicate()


class Rates(NamedTuple):
    """Samples/s of all hosts together in the first epoch and in the later ones; of the later, bytes read from
    storage, and CPU time for a second."""

    first: float
    later: float
    read: int
    cores: float


def rates(hosts: Sequence[Host], servers: Sequence[int] = ()) -> Rates:
    """Run hosts, which have equally many epochs, and whose servers are these processes."""
    first, samples, seconds, read, used = 0.0, 0, 0.0, 0, 0.0
    processes = [*(host.process.pid for host in hosts), *servers]
    for epoch in range(hosts[0].epochs):
        for host in hosts:
            assert host.line() == "ready\n"
        began, before = time.perf_counter(), sum(map(cpu_of, processes))
        for host in hosts:
            host.begin()
        done = [tuple(map(int, host.line().split())) for host in hosts]
        took = time.perf_counter() - began
        if epoch == 0:
            first = sum(n for n, _ in done) / took
        else:
            samples, seconds = samples + sum(n for n, _ in done), seconds + took
            read += sum(bytes_ for _, bytes_ in done)
            used += sum(map(cpu_of, processes)) - before
    for host in hosts:
        host.end()
    return Rates(first, samples / seconds, read, used / seconds)


def cpu_of(process: int) -> float:
    """Seconds that a process has computed."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def get_costs(scratch: Path, rounds: int) -> list[list[str]]:
    program = compile_program("remote_loop", scratch)
    tls = free_port()
    with server(scratch / "get", 200, tls) as (url, unix, process):
        ways = {
            "TCP": ["127.0.0.1", url.rpartition(":")[2]],
            "TLS": ["127.0.0.1", str(tls)],
            "Unix socket": [unix[5:], "0"],
        }
        found: dict[tuple[str, int], list[tuple[float, ...]]] = {
            (way, at_once): [] for way in ways for at_once in (1, AT_ONCE)
        }
        for _ in range(rounds):
            for way, at_once in found:
                line = [str(program), *ways[way], str(FILE_BYTES), "100", str(GETS), str(at_once)]
                line += [str(scratch / "get" / "crt")] if way == "TLS" else []
                before = cpu_of(process)
                out = subprocess.run(line, capture_output=True, text=True, check=True).stdout
                served_us = (
                    1e6 * (cpu_of(process) - before) / (GETS + 200)
                )  # the files are put, and got, at first
                client_us, wall_us = map(float, out.split())
                found[way, at_once].append((client_us, served_us, wall_us))
    return [
        [way, str(at_once), *(f"{statistics.median(one):.1f}" for one in zip(*of, strict=True))]
        for (way, at_once), of in found.items()
    ]


def by_turns(hosts: Sequence[Host]) -> list[tuple[float, float]]:
    """Of each host: samples/s, and CPU seconds a sample, in its epochs after the first. Only one loads at a
    time, an epoch each: what slows the machine for a while slows all."""
    samples, seconds, used = ([0.0] * len(hosts) for _ in range(3))
    for epoch in range(hosts[0].epochs):
        for i, host in enumerate(hosts):
            assert host.line() == "ready\n"
            began, before = time.perf_counter(), cpu_of(host.process.pid)
            host.begin()
            count = int(host.line().split()[0])
            if epoch > 0:
                samples[i] += count
                seconds[i] += time.perf_counter() - began
                used[i] += cpu_of(host.process.pid) - before
    for host in hosts:
        host.end()
    return [(n / s, u / n) for n, s, u in zip(samples, seconds, used, strict=True)]


def one_job(
    pictures: Path, scratch: Path, rounds: int, size: int
) -> tuple[list[float], dict[str, list[tuple[float, float]]]]:
    """Samples/s of a job with its own ENCODED cache. With servers: samples/s, and the CPU time of the job for
    a sample, each divided by that of its own cache."""
    own: list[float] = []
    ratios: dict[str, list[tuple[float, float]]] = {"TCP": [], "Unix socket": [], APART: [], EQUAL: []}
    options: dict[str, Any] = {"size": size, "epochs": EPOCHS_OF_ONE}
    cores = sorted(os.sched_getaffinity(0))[:2]

    def beside(ways: dict[str, str], **more: Any) -> float:
        """Compare with a cache of the job's own, whose samples/s this is. Where no server is named, the other
        has its own cache too."""
        names = ["own", *ways]
        hosts = [
            Host(pictures, remote, scratch / name, kind="none" if remote else "encoded", **options, **more)
            for name, remote in zip(names, ["", *ways.values()], strict=True)
        ]
        (speed, cpu_s), *others = by_turns(hosts)
        for name in names:
            shutil.rmtree(scratch / name)
        for way, (its_speed, its_cpu_s) in zip(ways, others, strict=True):
            ratios[way].append((its_speed / speed, its_cpu_s / cpu_s))
        return speed

    with server(scratch / "one", 1000) as (url, unix, process):
        for _ in range(rounds):
            own.append(beside({"TCP": url, "Unix socket": unix}, workers=2))
            if len(cores) == 2:
                os.sched_setaffinity(process, {cores[1]})
                beside({APART: url, EQUAL: ""}, workers=1, core=cores[0])
                os.sched_setaffinity(process, cores)
    return own, ratios


def of_rounds(ratios: Sequence[tuple[float, float]]) -> list[str]:
    """The median and the range of each of the two ratios."""
    both = list(zip(*ratios, strict=True))
    return [
        text for of in both for text in (f"{statistics.median(of):.2f}", f"{min(of):.2f} to {max(of):.2f}")
    ]


def four_times(data: Path, folder: Path) -> Path:
    """A folder in which each picture has four names."""
    for path in sorted(data.rglob("*")):
        if not path.is_file():
            continue
        for number in range(4):
            other = folder / path.parent.name / f"{number}-{path.name}"
            other.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, other)
    return folder


def copies(pictures: Path, scratch: Path, rounds: int, size: int) -> dict[str, list[Rates]]:
    """Two hosts that prepare all pictures each, and that share copies."""
    found: dict[str, list[Rates]] = {"alone": [], "exact": []}
    for number in range(rounds):
        for kind, of in found.items():
            with server(scratch / f"copies-{kind}-{number}", 4000) as (url, _, process):
                hosts = [
                    Host(pictures, url, scratch / f"{kind}-{number}-{i}", kind=kind, workers=1, size=size)
                    for i in range(2)
                ]
                of.append(rates(hosts, [process]))
    return found


def several(data: Path, scratch: Path, megabytes: int, size: int, megabits: int = 0) -> list[list[str]]:
    """Rows of the table of hosts. ``megabits``: they have namespaces of their own, and such links."""
    slow = slow_reads.environment(scratch, data, megabytes * 1_000_000)
    whole = sum(path.stat().st_size for path in data.rglob("*") if path.is_file()) / 1e6
    rows, base = [], 0.0
    for hosts, servers in ((1, 0), (1, 1), (2, 2), (3, 3)):
        with ExitStack() as open_:
            room = int(whole / max(1, servers) * 1.25) + 8
            where: Sequence[namespaces.Namespace | None] = [None] * hosts
            if megabits:
                where = open_.enter_context(namespaces.network(hosts, megabits=megabits))
            there = [
                open_.enter_context(server(scratch / f"{hosts}-{servers}-{i}", room, host=where[i]))
                for i in range(servers)
            ]
            ending = "?insecure=true" if megabits else ""
            urls = ",".join(url + ending for url, _, _ in there)
            options = {"kind": "none", "workers": 1, "size": size}
            all_ = [
                Host(data, urls, scratch / f"host-{i}", **options, host=where[i], **slow)  # type: ignore[arg-type]
                for i in range(hosts)
            ]
            did = rates(all_, [process for _, _, process in there])
        base = base or did.later
        rows.append(
            [
                *(f"{hosts}", f"{servers}", f"{did.first:,.0f}", f"{did.later:,.0f}"),
                *(f"{did.later / base:.2f}", f"{did.read / 1e6:,.1f}", f"{did.cores:.2f}"),
            ]
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench_remote", description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="a folder of class folders of JPEGs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", type=int, default=224, help="of the crops")
    parser.add_argument("--megabytes", type=int, default=40, help="a second, of storage")
    parser.add_argument(
        "--namespaces", type=int, default=0, metavar="MEGABITS", help="a namespace for each host; needs root"
    )
    parser.add_argument("--only-hosts", action="store_true", help="leave out what one server costs")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    if PROGRAM is None:
        raise SystemExit("bench_remote: no server; apt-get install redis-server")
    if args.namespaces and (why := namespaces.why_not()):
        raise SystemExit(f"bench_remote: --namespaces: {why}")

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended
    print(machine(["torch"]))
    with tempfile.TemporaryDirectory(prefix="seneca-bench-") as folder:
        scratch = Path(folder)
        found: dict[str, Any] = {}
        if not args.only_hosts:
            found["get"] = get_costs(scratch, args.rounds)
            pictures = four_times(args.data, scratch / "four-times")
            found["own"], found["ratios"] = one_job(pictures, scratch, args.rounds, args.size)
            found["copies"] = copies(pictures, scratch, args.rounds, args.size)
        found["hosts"] = several(args.data.resolve(), scratch, args.megabytes, args.size, args.namespaces)
    if not args.only_hosts:
        print_table(
            f"a GET of {FILE_BYTES:,} bytes, microseconds",
            ["way", "at once", "CPU of the client", "CPU of the server", "wall"],
            found["get"],
        )
        print_table(
            f"one job: of {statistics.median(found['own']):,.0f} samples/s with its files in its own cache",
            ["way", "of that", "rounds", "CPU of the job for a sample", "rounds"],
            [[way, *of_rounds(of)] for way, of in found["ratios"].items() if of],
        )
        alone, exact = ([did.later for did in found["copies"][kind]] for kind in ("alone", "exact"))
        ratios = [shared / own for shared, own in zip(exact, alone, strict=True)]
        print_table(
            "two hosts of one seed and one thread each, on one server, later epochs",
            ["each prepares all, samples/s", "they share copies", "ratio", "rounds"],
            [
                [
                    *(f"{statistics.median(one):,.0f}" for one in (alone, exact)),
                    f"{statistics.median(ratios):.2f}",
                    f"{min(ratios):.2f} to {max(ratios):.2f}",
                ]
            ],
        )
    links = f", links of {args.namespaces:,} Mb/s" if args.namespaces else ""
    print_table(
        f"hosts on storage of {args.megabytes} MB/s, one thread each{links}",
        [
            "hosts",
            "servers",
            "epoch 1",
            "later, samples/s",
            "of one without",
            "MB from storage later",
            "cores",
        ],
        found["hosts"],
    )
    if args.json:
        args.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
