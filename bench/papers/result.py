"""What an experiment found, beside what its paper says and what was asked of us."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

PAPER, OURS, PEER = "paper", "ours", "peer"
Who = Literal["paper", "ours", "peer"]


@dataclass(frozen=True)
class Row:
    """One number.

    Args:
        measure: What was measured, and under which condition: rows with the same one are bars of one plot.
        name: The loader, or the system that the paper names.
        value: The number.
        unit: Of the number: ``s``, ``%``, ``samples/s``.
        who: Whose number it is: a figure of the paper, ours, or a peer's that was measured here.
    """

    measure: str
    name: str
    value: float
    unit: str
    who: Who


@dataclass(frozen=True)
class Goal:
    """What was to be reached, and what was reached.

    Args:
        what: The quantity, in words.
        reached: Measured here.
        to_reach: What was asked.
        unit: Of both.
        at_most: Whether less is better.
    """

    what: str
    reached: float
    to_reach: float
    unit: str
    at_most: bool = False

    @property
    def met(self) -> bool:
        return self.reached <= self.to_reach if self.at_most else self.reached >= self.to_reach


@dataclass
class Result:
    """One experiment.

    Args:
        name: Its module.
        title: With the paper's figure.
        question: In one or two sentences.
        conditions: How it was measured, seeds included: a sentence each.
        rows: All numbers.
        goals: What was asked.
        took_s: Set by the runner.
    """

    name: str
    title: str
    question: str
    conditions: Sequence[str]
    rows: list[Row]
    goals: list[Goal]
    took_s: float = field(default=0.0)

    def measures(self) -> dict[str, list[Row]]:
        """The rows of each measure, in the order in which they were found."""
        found: dict[str, list[Row]] = {}
        for row in self.rows:
            found.setdefault(row.measure, []).append(row)
        return found


def less(than: float, value: float) -> float:
    """By how many per cent ``value`` is less than ``than``."""
    return 100 * (1 - value / than)


def number(value: float) -> str:
    """Three digits that count, or all before the point."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
