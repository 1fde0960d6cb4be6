"""What the demo shows."""

from __future__ import annotations

import os

from rich.console import Console

from seneca.cli import demo
from seneca.cli.verdict import Verdict
from seneca.cli.view import JobState, View, summary_lines

# --- what is shown


def test_the_summary_says_what_independent_jobs_would_have_prepared():
    states = [
        JobState(0, 2, 10, delivered=20, prepared=12, began=1.0, ended=4.0),
        JobState(1, 2, 10, delivered=20, prepared=9, began=2.0, ended=5.0),
    ]
    summary = demo.summarise(demo.Options(), 10, states, Verdict(epochs=4, ids=40))
    assert (summary["per_s"], summary["prepared"], summary["alone"]) == (10.0, 21, 40)
    text = "\n".join(summary_lines(summary))
    assert "21; independent jobs would have prepared 40" in text
    assert "yes, by 40 ids in 4 epochs" in text


def test_the_summary_of_a_bad_verdict_says_what_was_wrong():
    states = [JobState(0, 3, 10, failure="was killed by SIGKILL")]
    summary = demo.summarise(
        demo.Options(jobs=1), 10, states, Verdict(epochs=1, ids=10, missing=2, repeated=2)
    )
    text = "\n".join(summary_lines(summary))
    assert "NO, by 10 ids in 1 epoch: 2 missing, 2 repeated, 0 not of the dataset" in text
    assert "job 0 was killed by SIGKILL" in text
    nothing = demo.summarise(demo.Options(jobs=1), 10, states, Verdict())
    assert "unknown: no job finished an epoch" in summary_lines(nothing)[-1]


def test_a_terminal_gets_a_table_with_a_row_a_job():
    console = Console(force_terminal=True, width=100, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    states = [JobState(number, 2, 100) for number in range(2)]
    view = View(console, states)
    with view.shown():
        states[0].hear({"event": "progress", "epoch": 1, "delivered": 50, "per_s": 1234.5, "loss": 0.5})
        view.changed(states[0], "progress")
        states[1].hear({"event": "done", "stats": {"served": {"storage": 1, "augmented": 3}, "prepared": 1}})
        view.changed(states[1], "done")
    text = console.export_text()
    assert "1 of 2" in text and "25%" in text and "1,234" in text and "0.50" in text
    assert "storage 25%, augmented 75%" in text
