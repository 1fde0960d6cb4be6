"""The parts of bench/ that are not speed: links, rows, ratios, the command line, how jobs end."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"
sys.path.insert(0, str(BENCH))

import bench_jobs  # noqa: E402
import job_loaders  # noqa: E402
import jobs  # noqa: E402
import links  # noqa: E402
import sharing  # noqa: E402


def test_links_keep_the_class_and_take_turns(picture_folder, tmp_path):
    assert links.make_links(picture_folder, tmp_path / "links", 100) == 100
    made = sorted((tmp_path / "links").glob("*/*"))
    assert len(made) == 100
    targets: dict[Path, int] = {}
    for link in made:
        assert link.is_symlink() and link.resolve().is_file()
        assert link.resolve().parent.name == link.parent.name
        targets[link.resolve()] = targets.get(link.resolve(), 0) + 1
    assert len(targets) == 48 and set(targets.values()) == {2, 3}


def test_fewer_links_than_pictures(picture_folder, tmp_path):
    assert links.make_links(picture_folder, tmp_path / "links", 5) == 5
    assert len(list((tmp_path / "links").glob("*/*"))) == 5


def test_links_to_a_relative_folder_lead_somewhere(picture_folder, tmp_path, monkeypatch):
    monkeypatch.chdir(picture_folder.parent)
    links.make_links(Path(picture_folder.name), tmp_path / "links", 3)
    assert all(link.resolve().is_file() for link in (tmp_path / "links").glob("*/*"))


def test_the_folder_of_links_is_gone_afterwards_and_the_pictures_are_not(picture_folder):
    with pytest.raises(KeyError), links.linked(picture_folder, 10) as (folder, samples):
        assert samples == 10 and folder.is_dir()
        raise KeyError
    assert not folder.exists()
    assert len(links.pictures_of(picture_folder)) == 48


def test_no_links_is_the_folder_itself(picture_folder):
    with links.linked(picture_folder, 0) as (folder, samples):
        assert (folder, samples) == (picture_folder, 48)
    assert picture_folder.is_dir()


def test_links_to_nothing_are_refused(tmp_path, picture_folder):
    with pytest.raises(FileNotFoundError, match="no pictures"):
        links.make_links(tmp_path / "pictures" / "class_0", tmp_path / "links", 1)
    with pytest.raises(FileNotFoundError, match="no such folder"):
        links.make_links(tmp_path / "nowhere", tmp_path / "links", 1)
    with pytest.raises(ValueError, match="at least 1"):
        links.make_links(picture_folder, tmp_path / "links", 0)


def test_a_row_adds_up_the_rates_of_its_jobs():
    results = [
        {"samples": 100, "elapsed_s": 2.0, "cpu_s": 0.1, "stats": {}},
        {"samples": 90, "elapsed_s": 3.0, "cpu_s": 0.28, "stats": {}},
    ]
    expected = {"loader": "torch", "jobs": 2, "per_s": 80.0, "cpu_ms": 2.0}
    assert bench_jobs.row_of("torch", results) == expected


def test_a_row_of_seneca_tells_how_much_was_shared():
    result = {"samples": 100, "elapsed_s": 1.0, "cpu_s": 0.1, "stats": {"delivered": 200, "prepared": 110}}
    assert bench_jobs.row_of("seneca", [result] * 2)["prepared_per_delivered"] == 0.55


def test_ratios_are_to_torch_with_as_many_jobs():
    rows = [
        {"loader": "seneca", "jobs": 1, "per_s": 300.0},
        {"loader": "torch", "jobs": 1, "per_s": 200.0},
        {"loader": "torch", "jobs": 2, "per_s": 100.0},
        {"loader": "seneca", "jobs": 2, "per_s": 400.0},
        {"loader": "seneca", "jobs": 4, "per_s": 500.0},
    ]
    assert [row["vs_torch"] for row in bench_jobs.with_ratios(rows)] == [1.5, 1.0, 1.0, 4.0, None]


def test_the_best_round_of_each_row_is_kept():
    rows = [
        {"loader": name, "jobs": count, "per_s": per_s}
        for name, count, per_s in [("a", 1, 5.0), ("b", 1, 9.0), ("a", 1, 7.0), ("a", 2, 1.0), ("b", 1, 8.0)]
    ]
    assert [(row["loader"], row["jobs"], row["per_s"]) for row in bench_jobs.best_of(rows)] == [
        ("a", 1, 7.0),
        ("b", 1, 9.0),
        ("a", 2, 1.0),
    ]


def test_the_stage_is_a_twentieth_of_the_dataset_in_whole_pages(tmp_path):
    setup = job_loaders.Setup(tmp_path, samples=10_000, batch=64, workers=2, cache="x")
    assert setup.cache_bytes == 500 * 37 * 4096


def test_the_bound_of_jobs_that_start_apart():
    assert sharing.lower_bound(3) == pytest.approx(3.2 / 3)
    assert sharing.lower_bound(3, jobs=1) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "/nowhere"], "no such folder: /nowhere"),
        (["--jobs", "1,x"], "--jobs takes numbers"),
        (["--jobs", "0"], "at least 1"),
        (["--loaders", "seneca,tf"], "no loader tf"),
        (["--seconds", "0"], "nor --seconds 0"),
        (["--links", "-1"], "cannot be negative"),
    ],
)
def test_a_mistake_on_the_command_line_ends_with_status_2(arguments, message, capsys):
    with pytest.raises(SystemExit) as ended:
        bench_jobs.parse(arguments)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_the_plain_table_needs_no_rich(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "rich.console", None)
    bench_jobs.show(
        [{"loader": "torch", "jobs": 4, "per_s": 1234.5, "cpu_ms": 2.345, "vs_torch": 1.0}], "title"
    )
    title, head, row = capsys.readouterr().out.splitlines()
    assert title == "title" and head.split()[:2] == ["loader", "jobs"]
    assert row.split() == ["torch", "4", "1,234", "1.00", "x", "2.35"]


def add(voice: jobs.Voice, number: int, more: int) -> int:
    voice.say("ready")
    voice.wait()
    return number + more


def stumble(voice: jobs.Voice, number: int) -> None:
    voice.say("ready")
    voice.wait()
    if number == 1:
        raise ValueError("what went wrong")
    if number == 2:
        os._exit(7)


def linger(voice: jobs.Voice, number: int) -> None:
    voice.say("ready", os.getpid())
    time.sleep(600)


def test_results_come_in_the_order_of_the_jobs():
    assert jobs.together(3, add, 10) == [10, 11, 12]


def test_a_job_that_fails_says_why():
    with pytest.raises(jobs.JobFailed, match=r"job 1 failed:(.|\n)*what went wrong"):
        jobs.together(2, stumble)


def test_a_job_that_dies_is_named_with_its_status():
    with jobs.started([(stumble, ())] * 3) as running:
        for job in running:
            job.hear("ready")
        running[2].tell()
        with pytest.raises(jobs.JobFailed, match="job 2 ended with status 7"):
            running[2].hear("done")


def test_no_job_outlives_the_block():
    with pytest.raises(KeyError), jobs.started([(linger, ())] * 2) as running:
        pids = [job.hear("ready") for job in running]
        raise KeyError
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_it_opens_with_its_question():
    told = subprocess.run(
        [sys.executable, BENCH / "bench_jobs.py", "--help"], capture_output=True, text=True, check=True
    )
    assert "How many samples a second" in told.stdout
