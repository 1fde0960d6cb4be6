"""The page: a plot for each measure, a bar for each row, nothing from elsewhere."""

import re

from papers.page import page, plot
from papers.printed import show
from papers.result import OURS, PAPER, PEER, Goal, Result, Row, less, number


def result() -> Result:
    rows = [
        Row("time", "the <paper>", 40.0, "s", PAPER),
        Row("time", "Seneca", 10.0, "s", OURS),
        Row("less", "torch", -5.0, "%", PEER),
    ]
    goals = [Goal("time", 10.0, 20.0, "s", at_most=True), Goal("less", 1.0, 2.0, "%")]
    return Result("example", "An <example>", "How long?", ["Seed 45."], rows, goals)


def test_a_page_has_a_plot_for_each_measure_and_a_line_for_each_row():
    text = page([result()], "two cores")
    assert text.count("<svg") == len(result().measures()) == 2
    assert text.count("<rect") == text.count("<tr><td>") == 3
    assert "An &lt;example&gt;" in text and "the &lt;paper&gt;" in text and "<paper>" not in text
    assert "1 of 2 goals reached" in text and "Seed 45." in text and "two cores" in text


def test_a_page_takes_nothing_from_elsewhere():
    assert not re.search(r"https?:|src=|<script|@import|url\(", page([result()], "two cores"))


def test_bars_are_as_long_as_their_numbers_and_none_is_negative():
    def widths(text):
        return [float(width) for width in re.findall(r'<rect [^>]*width="([\d.]+)"', text)]

    first, second, third = result().rows
    paper, ours = widths(plot("time", [first, second]))
    assert paper == 4 * ours
    assert widths(plot("less", [third])) == [0]


def test_a_goal_is_met_from_its_side():
    assert Goal("", 2, 2, "").met and Goal("", 3, 2, "").met and not Goal("", 1, 2, "").met
    assert Goal("", 1, 2, "", at_most=True).met and not Goal("", 3, 2, "", at_most=True).met


def test_a_result_is_printed_with_what_was_asked(capsys):
    show(result())
    printed = capsys.readouterr().out
    assert "Seed 45." in printed and "the <paper>" in printed
    assert "  reached: time: 10 s, to reach at most 20 s" in printed
    assert "  NOT reached: less: 1 %, to reach at least 2 %" in printed


def test_numbers_have_three_digits_that_count():
    assert [number(value) for value in (1234.5, 123.4, 12.34, 1.234, 0.1234)] == [
        "1,234",
        "123",
        "12.3",
        "1.23",
        "0.123",
    ]
    assert less(200, 50) == 75
