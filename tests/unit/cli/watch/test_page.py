"""A recording as an HTML page: what it says, and that it needs nothing else."""

import re
import xml.etree.ElementTree

import pytest
from html_pages import tags
from seen_jobs import BEGAN_MS, job, segment, work

from seneca.cli.watch.page import page, sentence
from seneca.cli.watch.rates import RateMeter
from seneca.cli.watch.recording import Recording

S = 1_000_000_000


def recorded(jobs=2, seconds=12, caches=1, name="train.py --lr {}", **changes):
    watch, recording = RateMeter(), Recording()
    for s in range(seconds):
        found = [[] for _ in range(caches)]
        for i in range(jobs):
            n = s * (100 + 10 * i)
            done = work(
                BEGAN_MS + s * 1000, n, name=name.format(i), pid=100 + i, prepared=n // 2,
                served={"encoded": n // 4, "augmented": n - n // 4}, stall_ns={"decode": s * S // 4},
                read_bytes=n * 1000, **changes,
            )  # fmt: skip
            found[i % caches].append(job(done, key=f"{i:016x}"))
        segments = [segment(*one, name=f"demo{i}") for i, one in enumerate(found)]
        recording.add(watch.update(segments, BEGAN_MS + s * 1000), float(s))
    recording.finish()
    return recording


def written(recording, title="Seneca: the jobs of this host"):
    return page(recording, title=title, when="2030-01-01 12:00:00 UTC, host")


def test_the_sentence_has_the_numbers_first():
    assert sentence(recorded()) == (
        "2 jobs got 2,310 samples in 11 s, 210 samples/s together. Each preparation gave 2.00 deliveries. "
        "The training loops waited 25% of the time, 100% of that for decoding."
    )
    assert sentence(recorded(jobs=1)).startswith(
        "1 job got 1,100 samples in 11 s, 100 samples/s together. The training loops waited"
    ), "one job shares with nobody"


def test_the_page_needs_nothing_else():
    text = written(recorded())
    found = tags(text)
    assert found.loads == [] and not {"script", "link", "img", "iframe"} & found.names
    assert not re.search(r"https?:|url\(|@import", text)
    assert "prefers-color-scheme: dark" in text


@pytest.mark.small(2)
@pytest.mark.parametrize("jobs", [1, 2, 8, 25])
def test_each_job_has_a_line_a_row_and_a_name(jobs):
    text = written(recorded(jobs))
    tags(text)
    assert text.count('class="line"') == jobs and text.count("<tr>") == jobs + 1
    for i in range(jobs):
        assert text.count(f"train.py --lr {i}<") >= 2
    styles = re.findall(r'class="line" (stroke=.*?) d=', text)
    assert len(set(styles)) == jobs, "no two are alike"


def test_charts_are_drawn_within_their_frames():
    text = written(recorded(8))
    charts = [
        xml.etree.ElementTree.fromstring(one)
        for one in re.findall(r'<svg viewBox="0 0 900 230".*?</svg>', text)
    ]
    assert len(charts) == 4
    for chart in charts:
        for path in chart.iter("path"):
            for x, y in re.findall(r"[ML]([-\d.]+) ([-\d.]+)", path.get("d")):
                assert 0 <= float(x) <= 900 and 0 <= float(y) <= 230


def test_the_dataset_of_each_cache_is_named():
    text = written(recorded(jobs=2, caches=2))
    assert "Cache demo0 (photos, 1,000 samples), with 64 MiB for payloads." in text
    assert text.count('<span class="faint">demo1 (photos, 1,000 samples)</span>') == 1


def test_names_are_text_and_no_html():
    wild = '<script>alert("1")</script> & \x1b[31m <b> {}'
    text = written(recorded(name=wild, caches=2), title="<i>title</i>")
    found = tags(text)
    assert not {"script", "b", "i"} & found.names and "\x1b" not in text
    assert '<script>alert("1")</script> & \ufffd[31m <b> 0' in found.text


def test_jobs_of_one_name_have_a_process_s_number():
    text = written(recorded(name="train.py"))
    assert "train.py (process 100)" in text and "train.py (process 101)" in text


def test_each_cache_has_its_memory_and_rows_say_which():
    text = written(recorded(4, caches=2))
    assert text.count("with 64 MiB for payloads") == 2 and text.count(">demo1 (photos, 1,000 samples)<") == 2


def test_what_was_lost_is_said():
    watch, recording = RateMeter(), Recording()
    for s in range(3):
        done = work(BEGAN_MS + s * 1000, 10 * s, skipped=s, damaged=2 * s)
        recording.add(watch.update([segment(job(done))], BEGAN_MS + s * 1000), float(s))
    recording.finish()
    text = written(recording)
    assert "2 skipped, 4 damaged" in text
    assert "waited 0% of the time." in text and "preparation" not in sentence(recording)


def test_a_recording_of_one_point_is_drawn():
    tags(written(recorded(1, seconds=1)))
    tags(written(recorded(1, seconds=2)))
