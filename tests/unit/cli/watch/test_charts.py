"""Charts: axes, gaps, marks and layers; numbers as texts."""

import xml.etree.ElementTree

import pytest
from html_pages import tags

from seneca.cli.watch.charts import Axes, _round_step, _time_step, document, stacked, table, text

COLOURS = {"a": "#111111", "b": "#222222", "none": "#333333"}


def drawn(layers, **options):
    times = [float(i) for i in range(len(layers["a"]))]
    return xml.etree.ElementTree.fromstring(f"<div>{stacked(times, layers, COLOURS, str, **options)}</div>")


def test_layers_lie_one_upon_the_other_and_zeros_are_left_out():
    chart = drawn({"a": [1.0, 1.0], "b": [2.0, 1.0], "none": [0.0, 0.0]})
    paths = {
        path.find("title").text: path.get("d")
        for path in chart.iter("path")
        if path.find("title") is not None
    }
    assert set(paths) == {"a", "b"}
    bottom, top = paths["a"], paths["b"]
    assert bottom[1:-1].split("L")[:2] == top[1:-1].split("L")[:1:-1], "b begins where a ends"


def test_a_mark_is_a_line_at_its_time_with_its_meaning():
    (mark,) = [
        path
        for path in drawn({"a": [1.0, 2.0, 3.0]}, marks=[(1.0, "epoch <2>")]).iter("path")
        if path.get("class") == "mark"
    ]
    axes = Axes([0.0, 1.0, 2.0], 3.0)
    assert mark.get("d").startswith(f"M{axes.x(1.0):.1f} ") and mark.find("title").text == "epoch <2>"


def test_names_of_a_table_are_html_and_cells_are_text():
    page = document("a <b>", [table(("name", "n"), [[text("<i>") + "<br>one", "<2>"]])])
    found = tags(page)
    assert not {"b", "i"} & found.names and {"a <b>", "<2>"} <= set(found.text)


def test_a_line_has_a_gap_where_nothing_was_seen():
    axes = Axes([0.0, 1.0, 2.0, 3.0], 10.0)
    assert axes.line([5.0, None, 5.0, 10.0]).count("M") == 2


@pytest.mark.parametrize(
    ("value", "step"), [(0, 1), (0.3, 0.5), (1, 1), (1.1, 2), (24, 50), (51, 100), (1000, 1000), (3e9, 5e9)]
)
def test_steps_of_an_axis_are_round(value, step):
    assert _round_step(value) == pytest.approx(step)


def test_steps_of_memory_are_powers_of_two():
    axes = Axes([0.0, 1.0], 58 * 2**20, 64 * 2**20, in_bytes=True)
    assert (axes.step, axes.top) == (16 * 2**20, 64 * 2**20)
    assert Axes([0.0, 1.0], 0.0, None, in_bytes=True).top == 1


@pytest.mark.parametrize(
    ("value", "step"), [(0, 0.1), (7, 10), (100, 120), (50_000, 86_400), (90_000, 172_800)]
)
def test_steps_of_time_are_those_of_a_clock(value, step):
    assert _time_step(value) == step
