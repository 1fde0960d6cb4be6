"""The page with a timeline of the steps."""

import re
import xml.etree.ElementTree

import numpy as np
import pytest
from html_pages import tags
from traced import TORCH, batches, epochs, steps

from seneca.cli.analyze.report import find
from seneca.cli.analyze.timeline import POINTS, _batches, _steps, timeline_page
from seneca.cli.analyze.trace import Run


def found(*of_loaders, torch=(TORCH,)):
    return find(Run(1, list(torch), list(of_loaders), False, 0.0), cores=4)


def written(*of_loaders, command=("python", "train.py"), **options):
    return timeline_page(found(*of_loaders, **options), command, "2030-01-01 12:00:00 UTC, host")


def made(count=10):
    rows = batches(count, 0.1, blocked=0.2, delay=0.05)
    rows["begin"] = 100 + 0.4 * np.arange(count)
    return rows


def charts(page):
    return [
        xml.etree.ElementTree.fromstring(one)
        for one in re.findall(r'<svg viewBox="0 0 900 230".*?</svg>', page)
    ]


def test_the_page_has_the_answer_the_loaders_and_two_charts_and_needs_nothing_else():
    page = written(epochs(steps([3.0] + [0.3] * 10, 0.1), made=made()))
    read = tags(page)
    assert read.loads == [] and not {"script", "link", "img", "iframe"} & read.names
    assert "seneca analyze: python train.py" in read.text
    assert any(text.startswith("75% of the time the training step waits") for text in read.text)
    assert {"Rows of 40", "working", "waiting for storage", "waiting for a core"} <= set(read.text)
    assert len(charts(page)) == 2


def test_the_steps_are_those_after_the_first_of_each_epoch():
    """The first step waits for workers to start, and the last has no end."""
    first, second = steps([3.0, 0.3, 0.2, 0.1], 0.5), steps([2.0, 0.4, 0.4], 0.5, begin=200.0)
    (one,) = found(epochs(first, second)).loaders
    at, waits, computes = _steps(one, 100.0)
    assert at == pytest.approx([3.5, 3.5, 4.3, 5.0, 102.5, 102.5, 103.4])
    assert waits == pytest.approx([0, 0.3, 0.2, 0, 0, 0.4, 0]), "nothing is drawn between epochs"
    assert computes == pytest.approx([0, 0.5, 0.5, 0, 0, 0.5, 0])


def test_many_epochs_are_drawn_as_one():
    many = [steps([3.0, 0.3, 0.2, 0.1], 0.5, begin=100.0 + 10 * i) for i in range(1000)]
    page = written(epochs(*many))
    (chart,) = charts(page)
    assert not [path for path in chart.iter("path") if path.get("class") == "mark"]
    _, waits, _ = _steps(found(epochs(*many)).loaders[0], 100.0)
    assert len(waits) == POINTS and np.mean(waits) == pytest.approx(0.25, abs=0.01)


def test_each_epoch_has_a_mark_that_shows_its_first_batch():
    page = written(epochs(steps([3.0] + [0.3] * 5, 0.1), steps([0.04] + [0.3] * 5, 0.1, begin=200.0)))
    (chart,) = charts(page)
    marks = [path.find("title").text for path in chart.iter("path") if path.get("class") == "mark"]
    assert marks == ["epoch 1: its first batch came after 3 s", "epoch 2: its first batch came after 40 ms"]


def test_with_a_gpu_a_step_waits_as_long_as_that_had_nothing_to_do():
    one = epochs(steps([3.0] + [0.3] * 5, 0.1))
    one.idle = [one.steps[0].copy()]
    one.idle[0]["wall"] = 0.15
    _, waits, computes = _steps(found(one).loaders[0], 100.0)
    assert waits == pytest.approx([0, *[0.15] * 4, 0]) and computes == pytest.approx([0, *[0.25] * 4, 0])


def test_the_parts_of_a_batch_are_its_time():
    (one,) = found(epochs(steps([0.3] * 5, 0.1), made=made(4)[::-1])).loaders
    at, parts = _batches(one, 100.0)
    assert at == pytest.approx([0.0, 0.4, 0.8, 1.2])
    assert {name: part[0] for name, part in parts.items()} == pytest.approx(
        {"working": 0.1, "waiting for storage": 0.2, "waiting for a core": 0.05}
    )


def test_a_long_run_is_drawn_as_means():
    waits = np.tile([0.1, 0.3], 50_000)
    page = written(epochs(steps(waits, 0.1), made=made(100_000)))
    assert len(page) < 200_000
    _, shown, _ = _steps(found(epochs(steps(waits, 0.1))).loaders[0], 100.0)
    assert len(shown) == POINTS + 2 and np.mean(shown[1:-1]) == pytest.approx(0.2, rel=1e-3)


def test_charts_are_drawn_within_their_frames():
    for chart in charts(written(epochs(steps([3.0] + [0.3] * 10, 0.1), made=made()))):
        for path in chart.iter("path"):
            for x, y in re.findall(r"[ML]([-\d.]+) ([-\d.]+)", path.get("d")):
                assert 0 <= float(x) <= 900 and 0 <= float(y) <= 230


def test_too_few_steps_and_too_many_loaders_are_said():
    assert "There are too few steps for a timeline." in written(epochs(steps([0.3, 0.3], 0.1)))
    page = written(*(epochs(steps([0.3] * 5, 0.1), dataset=f"D{i}") for i in range(10)))
    assert len(charts(page)) == 8 and "The other 2 loaders are in the table alone." in page


def test_ranks_say_how_often_they_are_late():
    quick, slow = (
        epochs(steps([wait] * 11, 0.5), made=made(), rank=rank) for rank, wait in ((0, 0.1), (1, 0.6))
    )
    slow.steps[0]["begin"] = quick.steps[0]["begin"]
    page = written(quick, slow)
    assert "<td>1</td><td>100%</td>" in page and "<td>0</td><td>0%</td>" in page
    assert "Rows of 40, rank 1" in page


def test_names_are_text_and_no_html_and_what_was_not_seen_is_said():
    page = written(
        epochs(steps([0.3] * 5, 0.1), dataset="<b>\x1b"),
        command=["python", "<script>"],
        torch=[TORCH | {"missing": ["fetch"]}],
    )
    read = tags(page)
    assert not {"b", "script"} & read.names and "\x1b" not in page
    assert "Not seen: torch 2.13 has no fetch: what workers do was not seen." in page
