"""A result as text: the one place that prints."""

from __future__ import annotations

import report

from papers.result import Goal, Result, number


def show(result: Result) -> None:
    """Print a result: its conditions, a table, and what was asked."""
    print(f"\n{result.title} ({result.took_s:.0f} s)\n{result.question}")
    for condition in result.conditions:
        print(f"  * {condition}")
    lines = [[row.measure, row.name, row.who, number(row.value), row.unit] for row in result.rows]
    report.print_table(result.name, ["what", "name", "who", "value", "unit"], lines)
    for goal in result.goals:
        print(f"  {verdict(goal.met)}: {goal_words(goal)}")


def verdict(met: bool) -> str:
    return "reached" if met else "NOT reached"


def goal_words(goal: Goal) -> str:
    """``what: 72.5 %, to reach at least 72 %``."""
    bound = "at most" if goal.at_most else "at least"
    asked = f"to reach {bound} {number(goal.to_reach)} {goal.unit}"
    return f"{goal.what}: {number(goal.reached)} {goal.unit}, {asked}"
