"""``seneca top``: its table at several widths, its JSON, and jobs that really run."""

import json
import os
import pty
import signal
import subprocess
import sys
import time

import pytest
import seen_jobs
from engine import PATIENCE_S, Place
from rich.cells import cell_len
from seen_jobs import BEGAN_MS, job, segment, unreadable, work
from typer.testing import CliRunner
from watched_jobs import training

from seneca.cli.app import app
from seneca.cli.watch import top
from seneca.cli.watch.rates import RateMeter
from seneca.segments import DatasetSeen, State

RUN = CliRunner()
S = 1_000_000_000
NAME = "train.py --data /mnt/fast/imagenet/train --arch resnet50 --lr 0.1"


def seen(*snapshots):
    watch = RateMeter()
    for number, found in enumerate(snapshots):
        rates = watch.update(found, BEGAN_MS + number * 1000)
    return rates


def updates(**changes):
    """What a process publishes at two snapshots, a second apart."""
    served = {"storage": 20, "encoded": 80, "recoded": 0, "decoded": 400, "augmented": 1500}
    stall_ns = {"decode": 240_000_000, "cores": 50_000_000, "storage": 20_000_000, "augment": 4_000_000}
    return (
        work(BEGAN_MS, **changes),
        work(
            BEGAN_MS + 1000, 2000, served=served, stall_ns=stall_ns, prepared=1000,
            **{"epoch": 12, "place": 450, **changes},
        ),
    )  # fmt: skip


def two_jobs(**changes):
    first = updates(name=NAME, threads=4)
    second = updates(name="run", pid=4_194_303)
    return [
        [segment(job(one, key="a"), job(two, key="b"), **changes)]
        for one, two in zip(first, second, strict=True)
    ]


def shown(snapshots, width=80, name=None):
    return [line.plain for line in top.lines(seen(*snapshots), width, name)]


# --- the table


def test_a_cache_has_a_line_and_below_it_each_of_its_jobs():
    head, cache, dataset, second, first, *legend = shown(two_jobs())
    assert head.split() == ["job", "pid", "samples/s", "stalled", "served", "from", "epoch", "thr"]
    assert cache.split()[:3] == ["demo", "in", "use"] and "[EEEEDDDDAAAA....]" in cache
    assert dataset == "  photos, 1,000 samples"
    assert "48 MiB of 64 MiB" in cache and cache.endswith("sharing 2.00") and len(cache) == 80
    assert second.split() == [
        "run",
        "4194303",
        "2,000",
        "31%",
        "decode",
        "24",
        "S1",
        "E4",
        "D20",
        "A75",
        "12",
        "45%",
        "1",
    ]
    assert first.startswith("train.py --dat… ") and first.endswith(" 4")
    assert "A augmented" in " ".join(legend)


COMMON = "train.py --data /mnt/fast/imagenet/train --arch resnet50"


@pytest.mark.parametrize(
    ("names", "room", "expected"),
    [
        (["train.py", "eval.py"], 19, ["train.py", "eval.py"]),
        (["train.py --lr 0.1", "train.py --lr 0.2"], 19, ["train.py --lr 0.1", "train.py --lr 0.2"]),
        (
            [f"{COMMON} --lr 0.1", f"{COMMON} --lr 0.2", "eval.py"],
            19,
            ["train.py …--lr 0.1", "train.py …--lr 0.2", "eval.py"],
        ),
        ([f"{COMMON} --lr 0.1", f"{COMMON} --lr 0.2"], 10, ["…--lr 0.1", "…--lr 0.2"]),
        (
            [f"train.py --lr {lr} --data /mnt/fast/imagenet --arch a" for lr in (0.1, 0.2)],
            19,
            ["train.py --lr 0.1…", "train.py --lr 0.2…"],
        ),
        (
            [
                f"{COMMON} --lr {lr} --momentum 0.9 --wd {wd} --epochs 90"
                for lr, wd in ((1, 2), (1, 3), (2, 3))
            ],
            30,
            [f"…--lr {lr} --momentum 0.9 --wd {wd}…" for lr, wd in ((1, 2), (1, 3), (2, 3))],
        ),
        ([COMMON, f"{COMMON} --amp"], 19, ["…--arch resnet50", "…--arch resnet50 --amp"]),
        ([COMMON, COMMON], 19, [COMMON, COMMON]),
        ([], 19, []),
    ],
)
def test_names_that_do_not_fit_show_in_what_they_differ(names, room, expected):
    assert top.apart(names, room) == expected


def test_two_jobs_of_one_script_are_told_apart_at_80_columns():
    snapshots = [
        [segment(*(job(one, key=lr) for lr, one in works))]
        for works in zip(
            *([(lr, one) for one in updates(name=f"{COMMON} --lr {lr}")] for lr in ("0.1", "0.2")),
            strict=True,
        )
    ]
    lines = shown(snapshots)
    assert [line.split()[:2] for line in lines[3:5]] == [["…--lr", "0.1"], ["…--lr", "0.2"]]


def test_a_wide_terminal_has_room_for_names_and_causes():
    first = shown(two_jobs(), 120)[4]
    assert first.startswith("train.py --data /mnt") and "31% decode 24, cores 5, storage 2  " in first, (
        "what is below a percent has no room"
    )


def test_a_job_by_itself_shares_with_nobody():
    assert "sharing" not in shown([[segment(job(one))] for one in updates()])[1]


def test_as_many_causes_are_named_as_have_room():
    by = {"decode": 0.2, "cores": 0.06, "item": 0.04, "other": 0.004}
    assert [top._causes(0.304, by, room) for room in (4, 16, 23, 90)] == [
        "30%", "30% decode 20", "30% decode 20, cores 6", "30% decode 20, cores 6, item 4"
    ]  # fmt: skip


@pytest.mark.parametrize("width", [40, 60, 80, 109, 110, 120, 200])
def test_no_line_is_longer_than_the_terminal(width):
    snapshots = two_jobs(name="auto-0123456789abcdef0123456789abcdef" * 2)
    for found in snapshots:
        found += [
            unreadable(name="x" * 100, why="because " * 30),
            segment(job(pids=(4_000_000,)), name="数据" * 40),
        ]
    lines = shown(snapshots, width)
    assert max(map(cell_len, lines)) <= width, lines


@pytest.mark.parametrize(
    ("running", "expected"),
    [
        (job(pids=(77, 78)), "process 77 has not begun"),
        (job(work(BEGAN_MS - 11_000, 9, place=9)), "train.py 100 0 idle 12 s 0 1% 1"),
        (job(work(BEGAN_MS + 900, 9, places=0)), "train.py 100 0 1"),
        (job(work(BEGAN_MS + 900, rank=1), work(BEGAN_MS + 900, pid=5)), "2x train.py 5 0 0% 2"),
    ],
)
def test_a_job_without_rates_says_why(running, expected):
    assert " ".join(shown([[segment(running)]] * 2)[3].split()) == expected


def test_what_cannot_be_read_is_listed_with_the_reason():
    lines = shown([[unreadable(), unreadable("old", "another version of Seneca made it", State.IN_USE)]])
    assert "theirs" in lines[1] and "unknown" in lines[1] and lines[1].endswith("70 MiB, of ann")
    assert lines[2].split()[:3] == ["old", "in", "use"] and lines[2].endswith(
        "another version of Seneca made it"
    )


def test_where_there_is_nothing_a_line_says_so():
    assert shown([[]]) == ["no job of this host has a cache"]
    assert shown([[]], name="demo") == ["there is no cache demo any more"]


def test_names_cannot_write_to_the_terminal():
    wild = updates(name="\x1b[2Jtrain\n[red].py")
    text = "\n".join(shown([[segment(job(one))] for one in wild], 120))
    assert "\x1b" not in text and "\ufffd[2Jtrain\ufffd[red].py" in text


def test_the_bar_has_every_form_in_proportion():
    mib = 1 << 20
    for held, expected in [
        ((0, 0, 0), "[........]"),
        ((64, 0, 0), "[EEEEEEEE]"),
        ((8, 40, 16), "[EDDDDDAA]"),
        ((1, 1, 1), "[........]"),
        ((3, 3, 3), "[D.......]"),
        ((40, 40, 40), "[EEEEEDDD]"),
    ]:
        forms = dict(zip(("encoded", "decoded", "augmented"), (mib * n for n in held), strict=True))
        assert top._bar(forms, 64 * mib, 8).plain == expected
    assert top._bar({}, 0, 4).plain == "[....]"


def test_what_has_no_room_is_counted():
    lines = top.lines(seen([segment(name=str(n)) for n in range(30)]), 80)
    fitting = top._fitting(lines, 10)
    assert len(fitting) == 10 and fitting[-1].plain == f"and {len(lines) - 9} more lines"
    assert top._fitting(lines, 100) == lines


def test_below_a_job_stands_what_it_compared_and_with_whom_it_does_not_share():
    apart = "not shared with other jobs' datasets of the same class and length: process 7 (b): size differs"
    dataset = DatasetSeen(pid=100, like=1, source=2, kind=3, traits={}, apart=apart)
    found = job(work(), compared={"augmented": 300}, datasets=(dataset,))
    lines = shown([[segment(found)]], width=200)
    at = next(i for i, line in enumerate(lines) if line.startswith("train.py"))
    assert lines[at + 1 : at + 3] == [
        "  augmented: 300 samples compared, none differed: with 95 % confidence fewer than 1 % do",
        f"  {apart}",
    ]
    (as_json,) = top.as_json(seen([segment(found)]))["jobs"]
    assert as_json["compared"] == {"augmented": 300} and as_json["apart"] == apart
    assert as_json["differing_at_most"]["augmented"] == pytest.approx(0.01, abs=0.001)


# --- JSON


def test_json_has_an_entry_for_each_job_and_each_cache():
    printed = json.loads(json.dumps(top.as_json(seen(*two_jobs()))))
    (cache,) = printed["segments"]
    assert (cache["name"], cache["state"], cache["jobs"], cache["deliveries_per_preparation"]) == (
        "demo",
        "in use",
        2,
        2.0,
    )
    second, first = printed["jobs"]
    assert (first["name"], first["key"], first["cache"], first["pids"]) == (NAME, "a", "demo", [100])
    assert first["samples_per_s"] == 2000 and first["stalled"] == pytest.approx(0.314)
    assert first["stalled_by"] == pytest.approx(
        {"decode": 0.24, "cores": 0.05, "storage": 0.02, "augment": 0.004}
    )
    assert first["served"] == pytest.approx(
        {"storage": 0.01, "encoded": 0.04, "decoded": 0.2, "augmented": 0.75}
    )
    assert (first["epoch"], first["place"], first["places"], first["threads"]) == (12, 450, 1000, 4)
    assert (second["name"], second["delivered"], second["prepared"], second["idle"]) == (
        "run",
        2000,
        1000,
        False,
    )


def test_json_of_what_is_not_known_is_null():
    (one,) = top.as_json(seen([segment(job(pids=(3,)))]))["jobs"]
    assert [one[name] for name in ("name", "samples_per_s", "stalled", "served", "told_s")] == [None] * 5
    (theirs,) = top.as_json(seen([unreadable()]))["segments"]
    assert (theirs["why"], theirs["bytes"], theirs["owner"]) == ("another user's", None, "ann")


# --- the command


@pytest.mark.small(1)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no-such"], "there is no cache 'no-such'; `seneca ls` lists those that are there"),
        (["--every", "0"], "--every takes seconds, from 0.1 to 86,400, and not 0"),
        (["--every", "nan"], "--every takes seconds, from 0.1 to 86,400, and not nan"),
    ],
)
def test_bad_use_is_one_line_and_status_2(arguments, message):
    result = RUN.invoke(app, ["top", *arguments])
    assert (result.exit_code, result.stderr, result.stdout) == (2, f"seneca top: {message}\n", "")


def test_a_folder_that_cannot_be_listed_is_named(monkeypatch):
    def refused():
        raise PermissionError(13, "Permission denied", "/dev/shm")

    monkeypatch.setattr(top, "segments", refused)
    result = RUN.invoke(app, ["top", "--once"])
    assert (result.exit_code, result.stderr) == (
        2,
        "seneca top: /dev/shm: Permission denied; `seneca doctor` says what mends it\n",
    )


def started(place, *arguments, **options):
    """``seneca top`` of one cache, in a process of its own."""
    name = place.name.removeprefix(f"/seneca-{os.geteuid()}-")
    command = [sys.executable, "-m", "seneca.cli", "top", name, "--every", "0.1", *arguments]
    return name, subprocess.Popen(command, **options)


def line_of(watching):
    """What it prints next."""
    line = watching.stdout.readline()
    assert line, "it has ended"
    return line


def ended_well(watching):
    watching.send_signal(signal.SIGINT)
    assert watching.wait(PATIENCE_S) == 0


@pytest.mark.whole_size(shown_by="test_jobs_that_run_are_shown")
def test_where_there_is_no_terminal_the_table_is_printed_again_and_again():
    with Place(100) as place:
        place.attach()
        name, watching = started(place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        with watching:
            heads = 0
            while heads < 3:
                heads += line_of(watching).startswith("job ")
            ended_well(watching)
            assert name[:20] in watching.stdout.read() + name and watching.stderr.read() == ""


def test_live_json_is_an_object_a_line_until_the_cache_has_gone():
    with Place(100) as place:
        place.attach()
        name, watching = started(place, "--json", stdout=subprocess.PIPE, text=True)
        with watching:
            first = json.loads(line_of(watching))
            assert [one["name"] for one in first["segments"]] == [name]
            assert [one["pids"] for one in first["jobs"]] == [[os.getpid()]]
            place.close(place.handles.pop())
            while json.loads(line_of(watching))["segments"]:
                pass
            ended_well(watching)


def test_ctrl_c_leaves_a_clean_terminal():
    with Place(100) as place:
        place.attach()
        here, there = pty.openpty()
        _, watching = started(
            place, stdin=there, stdout=there, stderr=there, env={**os.environ, "TERM": "xterm"}
        )
        os.close(there)
        text = b""
        with watching:
            while text.count(b"samples/s") < 3:
                text += os.read(here, 65536)  # it raises where the other side is closed
            watching.send_signal(signal.SIGINT)
            while True:
                try:
                    text += os.read(here, 65536)
                except OSError:  # the other side is closed
                    break
            assert watching.wait(PATIENCE_S) == 0
        os.close(here)
        assert b"\x1b[?1049h" in text and b"\x1b[?25l" in text, "a screen of its own, without a cursor"
        assert text.rindex(b"\x1b[?1049l") > text.rindex(b"\x1b[?1049h")
        assert text.rindex(b"\x1b[?25h") > text.rindex(b"\x1b[?25l")
        assert b"Traceback" not in text


# --- jobs that run


def test_jobs_that_run_are_shown(picture_folder, tmp_path):
    with training(tmp_path, picture_folder) as (name, _):
        deadline = time.monotonic() + PATIENCE_S
        jobs = []
        while not (len(jobs) == 2 and all(one["samples_per_s"] for one in jobs)):
            assert time.monotonic() < deadline, jobs
            result = RUN.invoke(app, ["top", name, "--once", "--json", "--every", "0.5"])
            jobs = json.loads(result.stdout)["jobs"] if result.exit_code == 0 else []
        table = RUN.invoke(app, ["top", name, "--once", "--every", "0.5"], env={"COLUMNS": "80"}).stdout
    assert len({one["key"] for one in jobs}) == 2 and all(one["cache"] == name for one in jobs)
    for one in jobs:
        assert sum(one["served"].values()) == pytest.approx(1) and 0 <= one["stalled"] <= 1
        assert one["places"] == 48 and one["threads"] == 1 and one["batch_size"] == 8
    assert name in table and table.count("%") >= 2


def test_seen_jobs_are_as_the_core_shows_them():
    """The names by which a snapshot gives counters; seen_jobs.py has them by hand."""
    from seneca._core.telemetry import CAUSES
    from seneca.cli.watch.recording import CAUSES as RECORDED

    assert seen_jobs.CAUSES == tuple(CAUSES) == RECORDED
