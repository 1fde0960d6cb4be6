"""Charts and tables of an HTML page that needs nothing else: no network, no script; light and dark."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence

__all__ = ["Axes", "count", "dash", "document", "legend", "percent", "stacked", "table", "text", "time_text"]

WIDTH, HEIGHT = 900, 230
LEFT, RIGHT, TOP, BOTTOM = 64, 10, 10, 26
STYLE = """
:root { color-scheme: light dark; --ink: #1d2129; --faint: #667085; --line: #d9dde5; --paper: #ffffff;
        --card: #f6f7f9; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e8ec; --faint: #98a1b0; --line: #363c47; --paper: #15181d; --card: #1d2127; }
}
body { margin: 0 auto; padding: 2rem 1rem 4rem; max-width: 60rem; background: var(--paper); color: var(--ink);
       font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.4rem; margin: 0 0 .5rem; }
h2 { font-size: 1.05rem; margin: 2.2rem 0 .1rem; }
p { margin: .2rem 0 .6rem; }
.sum { font-size: 1.15rem; }
.faint { color: var(--faint); }
svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--faint); font-size: 12px; }
svg .grid { stroke: var(--line); stroke-width: 1; }
svg .mark { stroke: var(--faint); stroke-width: 1; stroke-dasharray: 2 3; }
svg .line { fill: none; stroke-width: 1.8; stroke-linejoin: round; }
ul.legend { list-style: none; display: flex; flex-wrap: wrap; gap: .1rem 1.2rem; margin: .3rem 0 0;
            padding: 0; font-size: .85rem; }
ul.legend li { overflow-wrap: anywhere; }
ul.legend svg { display: inline-block; width: 1.5em; height: .7em; margin-right: .4em;
                vertical-align: baseline; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .88rem; }
th, td { text-align: right; padding: .3rem .6rem .3rem 0; border-bottom: 1px solid var(--line);
         font-variant-numeric: tabular-nums; white-space: nowrap; }
th { color: var(--faint); font-weight: 500; }
th.name, td.name { text-align: left; white-space: normal; overflow-wrap: anywhere; min-width: 9rem; }
"""


def document(title: str, parts: Sequence[str]) -> str:
    """A whole page with this heading above its parts."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{text(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{text(title)}</h1>\n"
        + "\n".join(parts)
        + "\n</body>\n</html>\n"
    )


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose first column has names, as HTML; the other cells are texts."""

    def cells(tag: str, name: str, others: Sequence[str]) -> str:
        rest = "".join(f"<{tag}>{text(cell)}</{tag}>" for cell in others)
        return f'<tr><{tag} class="name">{name}</{tag}>{rest}</tr>'

    lines = [cells("th", text(heads[0]), heads[1:]), *(cells("td", row[0], row[1:]) for row in rows)]
    return f'<div class="scroll"><table>\n{chr(10).join(lines)}\n</table></div>'


def stacked(
    times: Sequence[float],
    layers: dict[str, list[float]],
    colours: dict[str, str],
    show: Callable[[float], str],
    *,
    most: float | None = None,
    in_bytes: bool = False,
    marks: Sequence[tuple[float, str]] = (),
) -> str:
    """Areas one upon the other, of layers that are not all zeros.

    Args:
        times: Of the points, in seconds.
        layers: The values of each layer, one a point.
        colours: Of the layers.
        show: Makes a text of a value.
        most: The greatest value that is possible.
        in_bytes: Whether the steps of the axis are powers of two.
        marks: Times that get a line across the chart, with what it means.
    """
    layers = {name: values for name, values in layers.items() if any(values)}
    sums = [sum(values) for values in zip(*layers.values(), strict=True)]
    axes = Axes(times, max(sums, default=0.0), most, in_bytes=in_bytes)
    below = [0.0] * len(times)
    paths = []
    for name, values in layers.items():
        above = [a + b for a, b in zip(below, values, strict=True)]
        paths.append(
            f'<path fill="{colours[name]}" d="{axes.area(below, above)}"><title>{text(name)}</title></path>'
        )
        below = above
    paths += [axes.mark(time, meaning) for time, meaning in marks]
    swatches = [(name, f'<rect width="20" height="10" fill="{colours[name]}"/>') for name in layers]
    return axes.svg(paths, show) + legend(swatches)


def legend(swatches: Sequence[tuple[str, str]]) -> str:
    """The names of what a chart shows, each beside a shape of 20 by 10."""
    items = [
        f'<li><svg viewBox="0 0 20 10" aria-hidden="true">{shape}</svg>{text(name)}</li>'
        for name, shape in swatches
    ]
    return f'<ul class="legend">{"".join(items)}</ul>'


def dash(pattern: str) -> str:
    """The attribute of a line that is drawn in dashes; "": of one that is not."""
    return f' stroke-dasharray="{pattern}"' if pattern else ""


class Axes:
    """Where points lie on a chart.

    Args:
        times: Of the points, in seconds.
        highest: The greatest value that is shown.
        most: The greatest value that is possible: the axis ends there, if it would end above it.
        in_bytes: Whether steps are powers of two.
    """

    def __init__(
        self, times: Sequence[float], highest: float, most: float | None = None, *, in_bytes: bool = False
    ) -> None:
        self.times = times
        self.step = (
            2.0 ** math.ceil(math.log2(max(4.0, highest) / 4)) if in_bytes else _round_step(highest / 4)
        )
        self.top = self.step * max(1, math.ceil(highest / self.step - 1e-9))
        if most is not None and self.top > most:
            self.top = most
        self.first = times[0] if times else 0.0
        self.last = max(times[-1] if times else 0.0, self.first + 1e-9)

    def x(self, time: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (time - self.first) / (self.last - self.first)

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * min(value, self.top) / self.top

    def line(self, values: Sequence[float | None]) -> str:
        """A path through the points, with a gap where there is none. One by itself is a dot."""
        path, drawing = [], False
        for time, value in zip(self.times, values, strict=True):
            if value is None:
                drawing = False
                continue
            at = f"{self.x(time):.1f} {self.y(value):.1f}"
            path.append(f"L{at}" if drawing else f"M{at}h.1")
            drawing = True
        return "".join(path)

    def area(self, below: Sequence[float], above: Sequence[float]) -> str:
        there = [f"{self.x(t):.1f} {self.y(v):.1f}" for t, v in zip(self.times, above, strict=True)]
        back = [f"{self.x(t):.1f} {self.y(v):.1f}" for t, v in zip(self.times, below, strict=True)]
        return f"M{'L'.join([*there, *reversed(back)])}Z" if there else ""

    def mark(self, time: float, meaning: str) -> str:
        """A line across the chart at a time."""
        x = f"{self.x(time):.1f}"
        return f'<path class="mark" d="M{x} {TOP}V{HEIGHT - BOTTOM}"><title>{text(meaning)}</title></path>'

    def svg(self, paths: Sequence[str], show: Callable[[float], str]) -> str:
        grid = []
        for i in range(math.floor(self.top / self.step + 1e-9) + 1):
            y = self.y(i * self.step)
            grid.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
            grid.append(
                f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{text(show(i * self.step))}</text>'
            )
        span = self.last - self.first
        step = _time_step(span / 6)
        for i in range(math.floor(span / step + 1e-9) + 1):
            x = self.x(self.first + i * step)
            anchor = "start" if i == 0 else "end" if x > WIDTH - RIGHT - 30 else "middle"
            grid.append(
                f'<text x="{x:.1f}" y="{HEIGHT - 8}" text-anchor="{anchor}">{time_text(i * step)}</text>'
            )
        return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">{"".join(grid)}{"".join(paths)}</svg>'


def _round_step(value: float) -> float:
    """1, 2 or 5 times a power of ten, no less than the value."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value * (1 - 1e-9))


def _time_step(seconds: float) -> float:
    """A step of a clock, no less than the value."""
    steps = (
        0.1,
        0.2,
        0.5,
        1,
        2,
        5,
        10,
        15,
        30,
        60,
        120,
        300,
        600,
        900,
        1800,
        3600,
        7200,
        14_400,
        21_600,
        43_200,
    )
    return next((step for step in steps if step >= seconds), 86_400.0 * max(1, math.ceil(seconds / 86_400)))


def text(written: str) -> str:
    """Text for HTML. What cannot be shown, as escape sequences, is replaced."""
    shown = "".join(c if c.isprintable() else "\ufffd" for c in written)
    return html.escape(shown, quote=True)


def count(value: float) -> str:
    """A number with two digits or more."""
    return f"{value:,.0f}" if value >= 9.95 or value == 0 else f"{value:.2g}"


def percent(share: float) -> str:
    """A share from 0 to 1 in whole percents."""
    return f"{share:.0%}"


def time_text(seconds: float) -> str:
    """``12 s``, ``3 min 20 s``, ``2 h 5 min``."""
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours:,} h {minutes} min" if minutes else f"{hours:,} h"
    return f"{minutes} min {rest} s" if rest else f"{minutes} min"
