"""``seneca metrics``, as Prometheus' own parser reads it, and the dashboard that asks for it."""

import dataclasses
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import pytest
from engine import PATIENCE_S, Place
from pages import ROOT
from prometheus_client.parser import text_string_to_metric_families
from seen_jobs import BEGAN_MS, job, segment, unreadable, work
from typer.testing import CliRunner
from watched_jobs import training

from seneca.cli.app import app
from seneca.cli.watch import metrics
from seneca.segments import State

RUN = CliRunner()
S = 1_000_000_000
WORK = work(
    BEGAN_MS + 2500, 100, served={"storage": 25, "augmented": 75}, prepared=25, staged=20, skipped=1,
    damaged=2, read_bytes=12345, stall_ns={"decode": 3 * S // 2}, spent_ns={"cores": S // 4}, epoch=3,
    place=40, places=1000, threads=4, batch_size=32, name="train.py", rank=1,
)  # fmt: skip
WHOSE = {"cache": "demo", "job": "train.py", "run": "00000000000000aa", "rank": "1", "pid": "100"}


def parsed(text):
    """Every sample as the parser has it, by its name and labels, each of which is there once."""
    found = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation.endswith(".") and family.type in ("counter", "gauge")
        for one in family.samples:
            assert one.name.endswith("_total") == (family.type == "counter")
            key = (one.name, frozenset(one.labels.items()))
            assert key not in found, f"{key} is there twice"
            found[key] = one.value
    return found


def read(*segments):
    return parsed(metrics.text_of(segments))


def value(found, name, **labels):
    return found[name, frozenset(labels.items())]


def test_what_a_process_publishes_is_there_with_its_labels():
    found = read(segment(job(WORK)))
    for name, expected in {
        "seneca_delivered_samples_total": 100,
        "seneca_prepared_samples_total": 25,
        "seneca_staged_samples_total": 20,
        "seneca_skipped_samples_total": 1,
        "seneca_damaged_samples_total": 2,
        "seneca_read_bytes_total": 12345,
        "seneca_epoch": 3,
        "seneca_place": 40,
        "seneca_places": 1000,
        "seneca_threads": 4,
        "seneca_batch_size": 32,
        "seneca_start_time_seconds": BEGAN_MS / 1000,
        "seneca_told_time_seconds": BEGAN_MS / 1000 + 2.5,
    }.items():
        assert value(found, name, **WHOSE) == expected, name
    assert value(found, "seneca_served_samples_total", **WHOSE, form="augmented") == 75
    assert value(found, "seneca_stall_seconds_total", **WHOSE, cause="decode") == 1.5
    assert value(found, "seneca_stall_seconds_total", **WHOSE, cause="cores") == 0
    assert value(found, "seneca_spent_seconds_total", **WHOSE, cause="cores") == 0.25


def test_what_a_cache_holds_is_there():
    found = read(segment(job(WORK, pids=(1, 2, 3))))
    mib = 1 << 20
    for name, expected in {
        "seneca_cache_payload_bytes": 64 * mib,
        "seneca_cache_free_bytes": 16 * mib,
        "seneca_cache_jobs": 1,
        "seneca_cache_processes": 3,
    }.items():
        assert value(found, name, cache="demo") == expected, name
    assert value(found, "seneca_cache_dataset_samples", cache="demo", dataset="photos") == 1000
    assert value(found, "seneca_cache_memory_bytes", cache="demo", owner="root") == 70 * mib
    assert value(found, "seneca_cache_form_bytes", cache="demo", form="decoded") == 16 * mib
    assert value(found, "seneca_cache_form_budget_bytes", cache="demo", form="decoded") == 32 * mib
    assert value(found, "seneca_cache_form_payloads", cache="demo", form="augmented") == 30


def test_a_dataset_of_which_no_job_has_said_the_name_has_no_label():
    one = segment()
    found = read(dataclasses.replace(one, view=dataclasses.replace(one.view, dataset="")))
    assert value(found, "seneca_cache_dataset_samples", cache="demo") == 1000


def test_one_state_of_all_is_1():
    found = read(segment(state=State.KEPT))
    states = {
        state.value: value(found, "seneca_cache_state", cache="demo", owner="root", state=state.value)
        for state in State
    }
    assert states == dict.fromkeys(states, 0) | {"kept": 1}


def test_labels_are_escaped():
    wild = 'a "quoted" C:\\name\nof two lines, {braces}=1'
    found = read(segment(job(work(name=wild))))
    assert any(dict(labels).get("job") == wild for _, labels in found)


def test_what_is_no_utf_8_is_replaced():
    text = metrics._bytes(metrics.text_of([segment(job(work(name="\udcff.py")))])).decode()
    assert any(dict(labels).get("job") == "?.py" for _, labels in parsed(text))


def test_codes_that_a_terminal_obeys_are_replaced_and_nothing_is_there_twice():
    """``seneca metrics --once`` may go to a terminal, and Prometheus refuses a series that is there twice."""
    names = ("a\x1b[31m", "a\x07[31m", "a\udcff", "a\udcfe", "a\r", "a\x9b31m")
    foreign = [unreadable(name, "another user's", owner="ann") for name in names]
    text = metrics._bytes(metrics.text_of([*foreign, segment(job(work(name="\x1b]0;title\x07")))])).decode()
    assert all(line.isprintable() for line in text.split("\n"))
    found = parsed(text)
    assert value(found, "seneca_cache_state", cache="a\ufffd[31m", owner="ann", state="unknown") == 1
    assert any(dict(labels).get("job") == "\ufffd]0;title\ufffd" for _, labels in found)


def test_two_runs_of_one_name_are_distinguished():
    found = read(segment(job(WORK, key="a"), job(WORK, key="b")))
    for run in "ab":
        assert value(found, "seneca_delivered_samples_total", **WHOSE | {"run": run}) == 100


def test_two_processes_of_one_run_and_rank_are_distinguished():
    """As two that give one ``job=``. What one has counted does not fall when the other ends."""
    other = work(BEGAN_MS, 11, name="train.py", rank=1, pid=101)
    found = read(segment(job(WORK, other)))
    assert value(found, "seneca_delivered_samples_total", **WHOSE | {"pid": "101"}) == 11
    for values in (found, read(segment(job(WORK)))):
        assert value(values, "seneca_delivered_samples_total", **WHOSE) == 100


def test_two_loaders_of_one_process_are_added_up():
    """They are rows of one run, rank and process."""
    other = work(BEGAN_MS + 500, 11, name="train.py", rank=1, since_ms=BEGAN_MS - 1000, epoch=7, threads=2)
    found = read(segment(job(WORK, other)))
    assert value(found, "seneca_delivered_samples_total", **WHOSE) == 111
    assert value(found, "seneca_threads", **WHOSE) == 6
    assert value(found, "seneca_epoch", **WHOSE) == 7
    assert value(found, "seneca_start_time_seconds", **WHOSE) == BEGAN_MS / 1000 - 1
    assert value(found, "seneca_told_time_seconds", **WHOSE) == BEGAN_MS / 1000 + 2.5


def test_what_cannot_be_read_has_its_state_and_memory_alone():
    found = read(unreadable("demo", "it is a FIFO", owner="root"), unreadable("demo"), segment(job(WORK)))
    assert value(found, "seneca_cache_state", cache="demo", owner="ann", state="unknown") == 1
    assert value(found, "seneca_cache_state", cache="demo", owner="root", state="in use") == 1
    assert value(found, "seneca_cache_memory_bytes", cache="demo", owner="root") == 70 << 20, (
        "it is there once"
    )
    assert value(found, "seneca_cache_state", cache="demo", owner="root", state="unknown") == 0
    assert value(found, "seneca_cache_jobs", cache="demo") == 1


def test_up_says_whether_there_was_anything_to_read():
    assert read() == {("seneca_up", frozenset()): 1}
    assert parsed(metrics.text_of(None)) == {("seneca_up", frozenset()): 0}


# --- the server


@pytest.fixture(scope="module")
def exporter():
    """The address of an exporter in a process of its own."""
    command = [sys.executable, "-m", "seneca.cli", "metrics", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        url, more, _ = process.stderr.readline().partition("; ")
        assert more, url
        yield url
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0
        assert (process.stdout.read(), process.stderr.read()) == ("", "")


def test_each_answer_is_a_snapshot(exporter):
    with Place(100) as place:
        name = place.name.removeprefix(f"/seneca-{os.geteuid()}-")
        for jobs in (1, 2):
            place.attach(jobs)
            with urllib.request.urlopen(exporter) as answer:
                assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
                found = parsed(answer.read().decode())
            assert value(found, "seneca_cache_jobs", cache=name) == jobs
            assert value(found, "seneca_up") == 1


def test_it_answers_others_while_a_client_is_silent(exporter):
    host, port = re.match(r"http://(.*):(\d+)/metrics", exporter).groups()
    with socket.create_connection((host, int(port))) as silent:
        with urllib.request.urlopen(exporter) as answer:
            assert answer.status == 200
        silent.setblocking(False)
        with pytest.raises(BlockingIOError):
            silent.recv(1)  # nobody has hung up


@pytest.fixture
def threads():
    """A server in this process, whose threads can be counted."""
    with metrics.listening("127.0.0.1", 0) as server:
        answers = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        answers.start()
        yield server
        server.shutdown()
        answers.join()


def test_clients_that_ask_for_nothing_take_few_threads_and_others_are_answered(threads):
    before = threading.active_count()
    silent = [socket.create_connection(threads.server_address) for _ in range(10 * metrics.MOST_AT_A_TIME)]
    for _ in range(3):
        with urllib.request.urlopen(metrics._url(threads), timeout=PATIENCE_S) as answer:
            assert answer.status == 200
    assert threading.active_count() - before <= metrics.MOST_AT_A_TIME
    for one in silent:
        one.close()


def test_a_client_that_asks_a_byte_at_a_time_is_hung_up_on(threads, monkeypatch):
    monkeypatch.setattr(metrics, "ANSWER_WITHIN_S", 0.5)
    until = time.monotonic() + PATIENCE_S
    with socket.create_connection(threads.server_address) as slow, pytest.raises(OSError):
        while True:
            slow.sendall(b"G")
            assert time.monotonic() < until
            time.sleep(0.05)


def test_a_client_that_does_not_take_its_answer_is_hung_up_on(threads, monkeypatch):
    monkeypatch.setattr(metrics, "ANSWER_WITHIN_S", 2.0)
    monkeypatch.setattr(metrics, "text_of", lambda found: "x" * (64 << 20))
    before = threading.active_count()
    with socket.create_connection(threads.server_address) as slow:
        slow.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        assert slow.recv(1) == b"H"
        until = time.monotonic() + PATIENCE_S
        while threading.active_count() > before:
            assert time.monotonic() < until
            time.sleep(0.05)


def test_other_paths_say_where_the_metrics_are(exporter):
    with urllib.request.urlopen(exporter.removesuffix("metrics")) as answer:
        assert b"/metrics" in answer.read()
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(exporter + "x")
    assert refused.value.code == 404 and b"/metrics" in refused.value.read()


def test_an_exporter_of_ipv6_names_its_address():
    if not socket.has_ipv6:
        pytest.skip("this Python knows no IPv6")
    try:
        server = metrics.listening("::1", 0)
    except metrics.BadUse:
        pytest.skip("this host has no IPv6")
    with server:
        assert re.fullmatch(r"http://\[::1\]:\d+/metrics", metrics._url(server))


@pytest.mark.small(1)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--port", "70000"], "--port is a number from 0 to 65535, and not 70000"),
        (["--host", "no.such.host.invalid"], "--host no.such.host.invalid is no address; 127.0.0.1 is "),
        (["--host", "192.0.2.1"], "192.0.2.1: this host has no such address; give its own as --host"),
    ],
)
def test_bad_use_is_one_line_and_status_2(arguments, message):
    result = RUN.invoke(app, ["metrics", *arguments])
    assert result.exit_code == 2 and result.stdout == ""
    assert result.stderr.startswith(f"seneca metrics: {message}") and result.stderr.count("\n") == 1


def test_a_port_in_use_is_named_with_the_remedy():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = RUN.invoke(app, ["metrics", "--port", str(port)])
    assert (result.exit_code, result.stderr) == (
        2,
        f"seneca metrics: 127.0.0.1: port {port} is in use; another exporter may run, else give another "
        "--port\n",
    )  # fmt: skip


def test_a_port_of_root_s_is_named_with_the_remedy(monkeypatch):
    def refused(self):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(metrics._Server, "server_bind", refused)
    result = RUN.invoke(app, ["metrics", "--port", "80"])
    assert (result.exit_code, result.stderr) == (
        2, "seneca metrics: 127.0.0.1: port 80 is for root alone; give a --port from 1024 on\n",
    )  # fmt: skip


def test_jobs_that_run_are_published(picture_folder, tmp_path):
    with training(tmp_path, picture_folder) as (name, _):
        deadline, delivered = time.monotonic() + PATIENCE_S, {}
        while not (len(delivered) == 2 and all(delivered.values())):
            assert time.monotonic() < deadline, delivered
            found = parsed(RUN.invoke(app, ["metrics", "--once"]).stdout)
            delivered = {
                labels: number
                for (metric, labels), number in found.items()
                if metric == "seneca_delivered_samples_total" and ("cache", name) in labels
            }
            time.sleep(0.05)
    for labels, number in delivered.items():
        served = [
            n
            for (metric, more), n in found.items()
            if metric == "seneca_served_samples_total" and labels < more
        ]
        assert len(served) == 5 and sum(served) == number


# --- what asks for them


def all_names():
    return {family.name for family in metrics.families([])}


def test_the_dashboard_asks_for_metrics_and_labels_that_there_are():
    text = (ROOT / "docs" / "grafana.json").read_text()
    board = json.loads(text)
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    asked += [variable["definition"] for variable in board["templating"]["list"] if "definition" in variable]
    named = {name for expression in asked for name in re.findall(r"\bseneca_\w+", expression)}
    assert named <= all_names() and len(named) > 10
    known = {name for (_, labels) in read(segment(job(WORK))) for name, _ in labels}
    for expression in asked:
        for grouped in re.findall(r"\bby \(([^)]*)\)", expression):
            assert set(grouped.split(", ")) <= known, expression
    legends = [target["legendFormat"] for panel in board["panels"] for target in panel["targets"]]
    assert {name for legend in legends for name in re.findall(r"{{(\w+)}}", legend)} <= known
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


def test_the_page_has_every_metric():
    text = (ROOT / "docs" / "watch.md").read_text()
    assert set(re.findall(r"`(seneca_\w+)`", text)) == all_names()
    of_a_process = [labels for _, labels in read(segment(job(WORK))) if ("pid", "100") in labels]
    assert f"A training process has {len(of_a_process)} series in each cache" in text
