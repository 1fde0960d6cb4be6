"""``seneca report``: jobs are watched until they have left, and a page is written."""

import os
import signal
from pathlib import Path

import pytest
from engine import Place
from typer.testing import CliRunner
from watched_jobs import training

from seneca.cli.app import app
from seneca.cli.watch import report

RUN = CliRunner()


@pytest.mark.small(2)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["/nowhere/report.html"], "there is no folder /nowhere; make it, or give another file"),
        (["/tmp"], "/tmp is a folder; give a file in it"),
        (["x.html", "--for", "soon"], '--for takes a time such as "90s" or "10min", and not \'soon\''),
        (["x.html", "--for", "0"], '--for takes a time such as "90s" or "10min", and not \'0\''),
        (["x.html", "--cache", "a/b"], "a cache's name has letters, digits, '_', '-' and '.', but got 'a/b'"),
    ],
)
def test_bad_use_is_one_line_and_status_2(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = RUN.invoke(app, ["report", *arguments])
    assert (result.exit_code, result.stderr) == (2, f"seneca report: {message}\n")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_in_the_end_is_named(tmp_path):
    with pytest.raises(report.BadUse, match=f"{tmp_path} cannot be written: Is a directory"):
        report._write(tmp_path, "")


def test_where_no_job_got_a_sample_nothing_is_written(tmp_path):
    with Place(100) as place:
        place.attach()
        name = place.name.removeprefix(f"/seneca-{os.geteuid()}-")
        result = RUN.invoke(app, ["report", str(tmp_path / "x.html"), "--cache", name, "--for", "0.4s"])
    assert result.exit_code == 1 and list(tmp_path.iterdir()) == []
    assert result.stderr.splitlines()[-1] == (
        f"seneca report: no job got a sample meanwhile; {tmp_path / 'x.html'} is not written"
    )


def test_a_cache_that_is_being_made_is_waited_for_and_what_is_none_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "MADE_S", 0.1)
    with Place(100) as place:
        place.attach()
        name = place.name.removeprefix(f"/seneca-{os.geteuid()}-")
        whole = Path(f"/dev/shm{place.name}").read_bytes()
        (no_cache := Path(f"/dev/shm/{place.name[1:]}-begun")).write_bytes(b"")
        try:
            arguments = ["report", str(tmp_path / "x.html"), "--cache", f"{name}-begun", "--for", "0.4s"]
            result = RUN.invoke(app, arguments)
            assert result.exit_code == 2 and "it was not made by Seneca" in result.stderr
            monkeypatch.setattr(report, "MADE_S", 60)
            monkeypatch.setattr(report.time, "sleep", lambda _: no_cache.write_bytes(whole))
            report._check(f"{name}-begun")
        finally:
            no_cache.unlink()


@pytest.mark.parametrize(
    ("of", "waits"),
    [
        ([], "no job has a cache yet; waiting for the first"),
        (
            ["--cache", "later"],
            "no job uses the cache 'later' yet; waiting for one (`seneca ls` lists the caches there are)",
        ),
    ],
    ids=["all", "one"],
)
def test_that_it_waits_is_said_at_once(tmp_path, segment_folder, of, waits):
    result = RUN.invoke(app, ["report", str(tmp_path / "x.html"), *of, "--for", "0.2s"])
    assert (result.exit_code, result.stderr.splitlines()[0]) == (1, f"seneca report: {waits}")


@pytest.fixture
def when_seen(monkeypatch):
    """Has something done once so many jobs were seen at work."""

    def arrange(jobs, do):
        snapshot = report.snapshot

        def watched(watch, name):
            seen = snapshot(watch, name)
            known = [job for cache in seen for job in cache.jobs]
            if len(known) == jobs and all(job.samples_per_s and job.watched.delivered for job in known):
                do()
            return seen

        monkeypatch.setattr(report, "snapshot", watched)

    return arrange


def test_jobs_are_watched_until_all_have_left(picture_folder, tmp_path, when_seen):
    page = tmp_path / "page.html"
    with training(tmp_path, picture_folder) as (name, over):
        when_seen(2, over.touch)
        result = RUN.invoke(app, ["report", str(page), "--cache", name])
        assert result.exit_code == 0, result.output
    text = page.read_text()
    assert f"<h1>Seneca: the cache {name}</h1>" in text and text.count('class="line"') == 2
    printed = result.stdout.splitlines()
    assert printed[0].startswith("2 jobs got ") and printed[0] in text and printed[1].startswith(f"{page}: ")


def test_ctrl_c_writes_the_page(picture_folder, tmp_path, when_seen):
    page = tmp_path / "page.html"
    with training(tmp_path, picture_folder, jobs=1) as (name, _):
        when_seen(1, lambda: signal.raise_signal(signal.SIGINT))
        result = RUN.invoke(app, ["report", str(page), "--cache", name])
    assert result.exit_code == 0 and result.stdout.startswith("1 job got ")
    assert result.stderr.endswith("seneca report: watching; Ctrl-C ends it and writes the page\n")
    assert page.stat().st_size > 5000
