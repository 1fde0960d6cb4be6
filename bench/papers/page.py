"""The results as one HTML page that needs nothing else: bars for each measure, a table, the goals."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from papers.printed import goal_words, verdict
from papers.result import Result, Row, number

COLOURS = {"paper": "#b07d2b", "ours": "#1f6f8b", "peer": "#9aa5ad"}
LEFT, RIGHT, BAR, GAP, LENGTH = 290, 130, 18, 6, 420
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1c2226; }
body { margin: 2rem auto; max-width: 60rem; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; font-size: 14px; }
th, td { text-align: left; padding: .15rem .8rem .15rem 0; border-bottom: 1px solid #dde2e5; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
section { border-top: 2px solid #1c2226; margin-top: 2.5rem; }
svg { max-width: 100%; } figure { margin: 1rem 0; } figcaption { font-weight: 600; }
.reached { color: #1b7a3d; } .missed { color: #b3261e; } .key span { margin-right: 1.2rem; }
"""


def page(results: Sequence[Result], machine: str) -> str:
    """The whole page."""
    key = "".join(f'<span style="color:{colour}">&#9632; {who}</span>' for who, colour in COLOURS.items())
    contents = "".join(
        f'<li><a href="#{escape(result.name)}">{escape(result.title)}</a>: {summary(result)}</li>'
        for result in results
    )
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>The papers, beside Seneca</title>'
        f"<style>{STYLE}</style><h1>The papers, beside Seneca</h1><p>{escape(machine)}</p>"
        f"<p class=\"key\">{key}</p><p>A paper's figures come from the paper's own machines and datasets."
        " Compare ratios and shares, not seconds.</p>"
        f"<ul>{contents}</ul>{''.join(section(result) for result in results)}</html>\n"
    )


def summary(result: Result) -> str:
    """How many goals were reached."""
    met = sum(goal.met for goal in result.goals)
    return f"{met} of {len(result.goals)} goals reached"


def section(result: Result) -> str:
    """One experiment."""
    conditions = "".join(f"<li>{escape(condition)}</li>" for condition in result.conditions)
    goals = "".join(
        f'<li class="{"reached" if goal.met else "missed"}">'
        f"{verdict(goal.met)}: {escape(goal_words(goal))}</li>"
        for goal in result.goals
    )
    plots = "".join(plot(measure, rows) for measure, rows in result.measures().items())
    rows = "".join(
        f"<tr><td>{escape(row.measure)}<td>{escape(row.name)}<td>{row.who}"
        f'<td class="number">{number(row.value)}<td>{escape(row.unit)}</tr>'
        for row in result.rows
    )
    return (
        f'<section id="{escape(result.name)}"><h2>{escape(result.title)}</h2><p>{escape(result.question)}</p>'
        f"<ul>{conditions}</ul>{plots}<ul>{goals}</ul><p>Took {result.took_s:.0f} s.</p>"
        f"<details><summary>All numbers</summary><table><tr><th>what<th>name<th>who<th>value<th>unit</tr>"
        f"{rows}</table></details></section>"
    )


def plot(measure: str, rows: Sequence[Row]) -> str:
    """The bars of one measure; below 0 there is no bar, only the number."""
    most = max([row.value for row in rows if row.value > 0], default=1.0)
    width = LEFT + LENGTH + RIGHT
    height = len(rows) * (BAR + GAP) + GAP
    parts = []
    for place, row in enumerate(rows):
        top, length = GAP + place * (BAR + GAP), max(row.value, 0.0) / most * LENGTH
        middle = top + BAR - 5
        parts.append(
            f'<text x="{LEFT - 8}" y="{middle}" text-anchor="end">{escape(row.name)}</text>'
            f'<rect x="{LEFT}" y="{top}" width="{length:.1f}" height="{BAR}" fill="{COLOURS[row.who]}"/>'
            f'<text x="{LEFT + length + 6:.1f}" y="{middle}">{number(row.value)} {escape(row.unit)}</text>'
        )
    return (
        f"<figure><figcaption>{escape(measure)}</figcaption>"
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        f' font-size="13" role="img" aria-label="{escape(measure)}">{"".join(parts)}</svg></figure>'
    )
