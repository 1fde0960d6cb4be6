"""``seneca metrics``: what the jobs of this host publish, for Prometheus.

::

    Prometheus --GET /metrics--> this process --a snapshot, as `seneca ls` has it--> the segments of this user

Each answer is one snapshot. In between nothing runs. Clients that are slow, or many, take a bounded number of
threads for a bounded time, and the next one is answered. The server of ``prometheus_client`` has no such
bounds, and its text format would replace twenty lines.
"""

from __future__ import annotations

import contextlib
import errno
import operator
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from seneca._runtime.printable import printable
from seneca.cli.caches.segments import BadUse, cannot_list
from seneca.cli.interrupts import Interrupts
from seneca.segments import JobSeen, Segment, State, View, Work, segments

__all__ = ["CONTENT_TYPE", "Family", "families", "listening", "run", "text_of"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
ANSWER_WITHIN_S = 10.0  # a client that has not got its answer by then is hung up on
MOST_AT_A_TIME = 16  # clients; one more takes the place of one that has not asked for anything yet
BACKLOG = 128  # clients that wait to be accepted
AN_HOUR_S = 3600.0
NS_PER_S = 1_000_000_000


@dataclass
class Family:
    """One metric: its samples by their labels."""

    name: str
    kind: str
    help: str
    samples: dict[tuple[tuple[str, str], ...], float] = field(default_factory=dict)

    def put(
        self, value: float, labels: dict[str, str], combine: Callable[[float, float], float] = operator.add
    ) -> None:
        """Take a value. ``combine`` makes one of those with equal labels, as they are shown."""
        key = tuple((name, _shown(text)) for name, text in labels.items())
        self.samples[key] = combine(self.samples[key], value) if key in self.samples else value

    def lines(self) -> Iterator[str]:
        """The family in Prometheus' text format."""
        yield f"# HELP {self.name} {self.help}"
        yield f"# TYPE {self.name} {self.kind}"
        for labels, value in self.samples.items():
            pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels)
            yield f"{self.name}{{{pairs}}} {_written(value)}" if pairs else f"{self.name} {_written(value)}"


# Of a process: name, help, what it is of its work. Of gauges also how many of it are one unit, and what makes
# one of the values of a process that uses a cache twice.
COUNTERS: list[tuple[str, str, str]] = [
    ("seneca_delivered_samples_total", "Samples that the training loop has got.", "delivered"),
    ("seneca_prepared_samples_total", "Augmented copies that were made.", "prepared"),
    ("seneca_staged_samples_total", "Augmented copies that were made for other jobs too.", "staged"),
    ("seneca_skipped_samples_total", "Samples that could not be prepared.", "skipped"),
    ("seneca_damaged_samples_total", "Samples whose payload in the cache was damaged.", "damaged"),
    ("seneca_read_bytes_total", "Bytes read from storage.", "read_bytes"),
]
GAUGES: list[tuple[str, str, str, int, Callable[[float, float], float]]] = [
    ("seneca_epoch", "The number of the last epoch.", "epoch", 1, max),
    ("seneca_place", "Samples of the last epoch that are delivered.", "place", 1, max),
    ("seneca_places", "Samples that the last epoch has. 0: not known.", "places", 1, max),
    ("seneca_threads", "Threads, or worker processes, that prepare samples.", "threads", 1, operator.add),
    ("seneca_batch_size", "Samples of a batch. 0: not known.", "batch_size", 1, max),
    ("seneca_start_time_seconds", "When it began to publish, in seconds since 1970.", "since_ms", 1000, min),
    ("seneca_told_time_seconds", "When it last published, in seconds since 1970.", "published_ms", 1000, max),
]
# With one more label: name, help, the label, what it is of a process's work, how many of it are one unit.
BY_LABEL: list[tuple[str, str, str, str, int]] = [
    ("seneca_served_samples_total", "Samples by the form that they came from.", "form", "served", 1),
    (
        "seneca_unrecoded_files_total",
        "Files that could not be kept RECODED, by the cause.",
        "cause",
        "unrecoded",
        1,
    ),
    (
        "seneca_stall_seconds_total",
        "Seconds that the training loop waited for samples, by cause.",
        "cause",
        "stall_ns",
        NS_PER_S,
    ),
    (
        "seneca_spent_seconds_total",
        "Seconds that preparing samples took: of storage and cores by the clock, else CPU time.",
        "cause",
        "spent_ns",
        NS_PER_S,
    ),
]
OF_CACHE: list[tuple[str, str, Callable[[View], int]]] = [
    ("seneca_cache_payload_bytes", "Memory for payloads.", lambda view: view.payload_bytes),
    ("seneca_cache_free_bytes", "Memory for payloads that holds none.", lambda view: view.free_bytes),
    (
        "seneca_cache_dataset_samples",
        "Samples of the dataset, which a label names.",
        lambda view: view.samples,
    ),
    ("seneca_cache_jobs", "Jobs that use the cache.", lambda view: len(view.jobs)),
    (
        "seneca_cache_processes",
        "Processes that use the cache.",
        lambda view: sum(len(job.pids) for job in view.jobs),
    ),
]
NAMES_DATASET = "seneca_cache_dataset_samples"  # has the dataset's name as a label, once it is known
BY_FORM: list[tuple[str, str, Callable[[View], dict[str, int]]]] = [
    ("seneca_cache_form_bytes", "Memory of the payloads of a form.", lambda view: view.bytes),
    ("seneca_cache_form_budget_bytes", "Memory that a form may take.", lambda view: view.budget_bytes),
    ("seneca_cache_form_payloads", "Payloads of a form.", lambda view: view.payloads),
]


def families(found: Iterable[Segment] | None) -> list[Family]:
    """All metrics of these segments. None: they could not be listed.

    The labels of what a process publishes are the name of its cache, of its job, of its training run
    (:attr:`seneca.segments.JobSeen.key`: two jobs may have one name), its rank, and its number. Processes of
    one run may have one rank. A sum of their counters would fall when one of them ends.
    """
    up = Family("seneca_up", "gauge", "Whether the caches of the host could be listed.")
    up.put(found is not None, {})
    state = Family("seneca_cache_state", "gauge", "1 for the state that a cache is in, 0 for the others.")
    memory = Family("seneca_cache_memory_bytes", "gauge", "All memory that a cache takes.")
    known: dict[str, Family] = {}
    for kind, tables in (("gauge", (OF_CACHE, BY_FORM, GAUGES)), ("counter", (COUNTERS, BY_LABEL))):
        known |= {row[0]: Family(row[0], kind, row[1]) for table in tables for row in table}
    named: set[tuple[str, str]] = set()
    # Of files with one name and owner, of which one is no segment, the segment comes first.
    for one in sorted(found or (), key=lambda one: one.view is None):
        if (_shown(one.name), one.owner) in named:
            continue
        named.add((_shown(one.name), one.owner))
        whose = {"cache": one.name, "owner": one.owner}
        for possible in State:
            state.put(one.state is possible, {**whose, "state": possible.value})
        memory.put(one.memory_bytes, whose)
        if one.view is not None:
            _put_view(known, one.name, one.view)
    return [up, state, memory, *known.values()]


def _put_view(known: dict[str, Family], cache: str, view: View) -> None:
    for name, _, value in OF_CACHE:
        labels = {"dataset": view.dataset} if name == NAMES_DATASET and view.dataset else {}
        known[name].put(value(view), {"cache": cache, **labels})
    for name, _, by_form in BY_FORM:
        for form, amount in by_form(view).items():
            known[name].put(amount, {"cache": cache, "form": form})
    for job in view.jobs:
        for work in job.work:
            _put_work(known, {"cache": cache, **_labels(job, work)}, work)


def _labels(job: JobSeen, work: Work) -> dict[str, str]:
    return {"job": work.name, "run": job.key, "rank": str(work.rank), "pid": str(work.pid)}


def _put_work(known: dict[str, Family], labels: dict[str, str], work: Work) -> None:
    for name, _, counted in COUNTERS:
        known[name].put(getattr(work, counted), labels)
    for name, _, counted, unit, combine in GAUGES:
        known[name].put(getattr(work, counted) / unit, labels, combine)
    for name, _, label, counted, unit in BY_LABEL:
        for which, amount in getattr(work, counted).items():
            known[name].put(amount / unit, {**labels, label: which})


def text_of(found: Iterable[Segment] | None) -> str:
    """The metrics of :func:`families` in Prometheus' text format, version 0.0.4."""
    return "".join(f"{line}\n" for family in families(found) for line in family.lines())


def _shown(value: str) -> str:
    """A label without codes that a terminal obeys, and without bytes that are no UTF-8."""
    return "\n".join(map(printable, _bytes(value).decode().split("\n")))


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _written(value: float) -> str:
    return f"{int(value)}" if value == int(value) else repr(float(value))


def run(host: str, port: int, *, once: bool) -> int:
    """Answer Prometheus until Ctrl-C. Returns the status.

    Args:
        host: The address to listen at.
        port: The port; 0: one that is free.
        once: Whether only to print the metrics.

    Raises:
        BadUse: The segments cannot be listed, if ``once``; or the address cannot be listened on.
    """
    if once:
        try:
            found = segments()
        except OSError as error:
            raise cannot_list(error) from None
        sys.stdout.write(_bytes(text_of(found)).decode())
        return 0
    with listening(host, port) as server, Interrupts() as interrupts:
        answers = threading.Thread(target=server.serve_forever, daemon=True)
        answers.start()
        print(f"{_url(server)}; Ctrl-C ends it", file=sys.stderr, flush=True)
        while not interrupts.wait(AN_HOUR_S):
            pass
        server.shutdown()
        answers.join()
    return 0


def listening(host: str, port: int) -> ThreadingHTTPServer:
    """A server that listens and does not answer yet. The caller closes it.

    Raises:
        BadUse: The address cannot be listened on.
    """
    if not 0 <= port <= 65_535:
        raise BadUse(f"--port is a number from 0 to 65535, and not {port}")
    try:
        family, *_, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        kind = type("Server", (_Server,), {"address_family": family})
        return kind(address, _Answer)
    except (socket.gaierror, UnicodeError):
        raise BadUse(f"--host {host} is no address; 127.0.0.1 is that of this host alone") from None
    except OSError as error:
        remedy = {
            errno.EADDRINUSE: f"port {port} is in use; another exporter may run, else give another --port",
            errno.EACCES: f"port {port} is for root alone; give a --port from 1024 on",
            errno.EADDRNOTAVAIL: "this host has no such address; give its own as --host",
        }.get(error.errno or 0, f"{error.strerror}; give another --host or --port")
        raise BadUse(f"{host}: {remedy}") from None


class _Server(ThreadingHTTPServer):
    """Answers few clients at a time, each in a thread, and hangs up on those that take too long."""

    daemon_threads = True
    request_queue_size = BACKLOG

    def __init__(self, *args: Any, **options: Any) -> None:
        self._free = threading.BoundedSemaphore(MOST_AT_A_TIME)
        self._clients: dict[socket.socket, tuple[bool, float]] = {}  # whether it has asked; accepted when
        self._changing = threading.Lock()
        super().__init__(*args, **options)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            with self._changing:
                self._hang_up(sorted(self._clients, key=self._clients.__getitem__)[:1])
            self._free.acquire()  # soon: its thread ends, at the latest after one snapshot
        with self._changing:
            self._clients[request] = (False, time.monotonic())
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread could be started
            self._forget(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._forget(request)

    def service_actions(self) -> None:
        """Called twice a second, and after each client."""
        late = time.monotonic() - ANSWER_WITHIN_S
        with self._changing:
            self._hang_up([client for client, (_, accepted) in self._clients.items() if accepted < late])

    def has_asked(self, client: socket.socket) -> None:
        """A client's question is read. Others are hung up on before it is."""
        with self._changing:
            self._clients[client] = (True, self._clients[client][1])

    def _hang_up(self, clients: Iterable[socket.socket]) -> None:
        """The threads of these clients get an error where they wait for them, and end."""
        for client in clients:
            with contextlib.suppress(OSError):  # it has gone
                client.shutdown(socket.SHUT_RDWR)

    def _forget(self, client: socket.socket) -> None:
        with self._changing:
            del self._clients[client]
        self._free.release()

    def server_bind(self) -> None:
        # The standard library's own asks the name server for the name of this host, which may take seconds.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], OSError):  # else the client has gone, and nobody needs to know
            super().handle_error(request, client_address)


class _Answer(BaseHTTPRequestHandler):
    timeout = ANSWER_WITHIN_S

    server: _Server

    def do_GET(self) -> None:
        self.server.has_asked(self.connection)
        path = self.path.partition("?")[0]
        if path == "/metrics":
            try:
                found: list[Segment] | None = segments()
            except OSError:
                found = None  # seneca_up says so
            self._send(200, CONTENT_TYPE, text_of(found))
        elif path == "/":
            self._send(200, "text/plain; charset=utf-8", "seneca metrics: Prometheus asks for /metrics\n")
        else:
            self._send(404, "text/plain; charset=utf-8", "the metrics are at /metrics\n")

    def _send(self, status: int, kind: str, text: str) -> None:
        body = _bytes(text)
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing of each question."""


def _bytes(text: str) -> bytes:
    """Encode as UTF-8, and replace the invalid bytes that names of files may hold."""
    return text.encode(errors="replace")


def _url(server: ThreadingHTTPServer) -> str:
    host, port = server.server_address[:2]
    host = host if isinstance(host, str) else host.decode()
    return f"http://[{host}]:{port}/metrics" if ":" in host else f"http://{host}:{port}/metrics"
