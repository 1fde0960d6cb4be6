"""A recording as one HTML page that needs nothing else: no network, no script; light and dark."""

from __future__ import annotations

import html
import math
from collections import Counter
from collections.abc import Callable, Sequence

from seneca.cli.rates import FORMS, Done
from seneca.cli.recording import CAUSES, KEPT_FORMS, JobTrack, Recording
from seneca.cli.what_if import show_bytes

__all__ = ["page", "sentence"]

JOB_COLOURS = (
    "#4e79a7", "#f28e2b", "#e15759", "#59a14f", "#b07aa1", "#edc948", "#76b7b2", "#ff9da7", "#9c755f",
    "#8c8c8c",
)  # fmt: skip
DASHES = ("", "6 3", "2 3", "9 3 2 3")  # of the jobs beyond the colours
FORM_COLOURS = {"storage": "#e15759", "encoded": "#edc948", "decoded": "#59a14f", "augmented": "#4e79a7"}
CAUSE_COLOURS = {
    "storage": "#e15759", "decode": "#59a14f", "augment": "#4e79a7", "item": "#b07aa1", "batch": "#76b7b2",
    "cores": "#f28e2b", "other": "#8c8c8c",
}  # fmt: skip
MEANWHILE = {
    "storage": "for storage",
    "decode": "for decoding",
    "augment": "for augmenting",
    "item": "for the dataset's own code",
    "batch": "for batches to be put together",
    "cores": "for a free core",
    "other": "for what was not seen",
}
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


def page(recording: Recording, *, title: str, when: str) -> str:
    """The page of a recording, of which at least one job has got samples.

    Args:
        recording: What was seen. It is finished.
        title: The heading.
        when: When that was, in words.
    """
    names = _names(list(recording.jobs.values()))
    parts = [
        f"<h1>{_text(title)}</h1>",
        f'<p class="sum">{_text(sentence(recording))}</p>',
        f'<p class="faint">{_text(when)}</p>',
        _table(recording, names),
        '<p class="faint">storage, encoded, decoded, augmented: the forms that samples came from.</p>',
        "<h2>Throughput</h2>",
        '<p class="faint">Samples/s of each job.</p>',
        _throughput(recording, names),
        "<h2>Served by form</h2>",
        '<p class="faint">Samples/s of all jobs together, by the form that they came from.</p>',
        _stacked(recording, _served(recording), FORM_COLOURS, _count),
        "<h2>Stalls by cause</h2>",
        '<p class="faint">The share of the time that a training loop waited for samples, by what was done '
        "meanwhile; the mean of the jobs.</p>",
        _stacked(recording, _stalls(recording), CAUSE_COLOURS, _percent, most=1.0),
        "<h2>Memory by form</h2>",
        *_memory(recording),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_text(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body>\n</html>\n"
    )


def sentence(recording: Recording) -> str:
    """The recording in a few words, the numbers first."""
    total, seconds = recording.total, recording.seconds
    jobs = f"{len(recording.jobs):,} job{'' if len(recording.jobs) == 1 else 's'}"
    rate = f", {_count(total.delivered / seconds)} samples/s together" if seconds > 0 else ""
    told = f"{jobs} got {total.delivered:,} samples in {_time(seconds)}{rate}."
    if total.prepared:
        told += f" Each preparation gave {total.delivered / total.prepared:.2f} deliveries."
    if total.ns:
        told += f" The training loops waited {_percent(total.stalled)} of the time"
        if total.stalled >= 0.01:
            cause, share = next(iter(total.stalled_by.items()))
            told += f", {_percent(share / total.stalled)} of that {MEANWHILE.get(cause, f'for {cause}')}"
        told += "."
    return told


def _names(tracks: Sequence[JobTrack]) -> list[str]:
    """A name for each job. Jobs that tell the same one have a process's number as well."""
    told = [track.last.name or "a job without a name" for track in tracks]
    often = Counter(told)
    return [
        name if often[name] == 1 else f"{name} (process {track.last.pids[0] if track.last.pids else '?'})"
        for name, track in zip(told, tracks, strict=True)
    ]


# --- parts of the page


def _table(recording: Recording, names: Sequence[str]) -> str:
    heads = ("time", "samples", "samples/s", "stalled", *FORMS, "prepared", "read")
    several = len(recording.caches) > 1
    rows = []
    for name, track in zip(names, recording.jobs.values(), strict=True):
        done = track.last.watched
        seconds = track.last_s - track.first_s
        shares = done.served_shares
        cells = [
            _time(seconds),
            f"{done.delivered:,}",
            _count(done.delivered / seconds) if seconds > 0 else "",
            _stalled(done),
            *(_percent(shares[form]) if form in shares else "" for form in FORMS),
            f"{done.prepared:,}",
            show_bytes(done.read_bytes),
        ]
        whose = (
            f'{_text(name)}<br><span class="faint">{_text(track.last.cache)}</span>'
            if several
            else _text(name)
        )
        lost = [f"{n:,} {what}" for n, what in ((done.skipped, "skipped"), (done.damaged, "damaged")) if n]
        if lost:
            whose += f'<br><span class="faint">{", ".join(lost)}</span>'
        rows.append(
            f'<tr><td class="name">{whose}</td>{"".join(f"<td>{_text(cell)}</td>" for cell in cells)}</tr>'
        )
    head = f'<tr><th class="name">job</th>{"".join(f"<th>{head}</th>" for head in heads)}</tr>'
    return f'<div class="scroll"><table>\n{head}\n{chr(10).join(rows)}\n</table></div>'


def _stalled(done: Done) -> str:
    if not done.ns:
        return ""
    cause = next(iter(done.stalled_by), "")
    return f"{_percent(done.stalled)} {cause}" if done.stalled >= 0.01 else _percent(done.stalled)


def _throughput(recording: Recording, names: Sequence[str]) -> str:
    values = [track.values(0) for track in recording.jobs.values()]
    axes = _Axes(recording.times, max((v for row in values for v in row if v is not None), default=0.0))
    looks = [
        (JOB_COLOURS[i % len(JOB_COLOURS)], DASHES[i // len(JOB_COLOURS) % len(DASHES)])
        for i in range(len(names))
    ]
    paths = [
        f'<path class="line" stroke="{colour}"{_dash(dash)} d="{axes.line(row)}">'
        f"<title>{_text(name)}</title></path>"
        for name, row, (colour, dash) in zip(names, values, looks, strict=True)
    ]
    swatches = [
        (name, f'<path d="M0 5H20" stroke="{colour}" stroke-width="3"{_dash(dash)}/>')
        for name, (colour, dash) in zip(names, looks, strict=True)
    ]
    return axes.svg(paths, _count) + _legend(swatches)


def _stacked(
    recording: Recording,
    layers: dict[str, list[float]],
    colours: dict[str, str],
    show: Callable[[float], str],
    most: float | None = None,
    in_bytes: bool = False,
) -> str:
    """Areas one upon the other, of layers that are not all zeros. ``most``: the greatest possible value."""
    layers = {name: values for name, values in layers.items() if any(values)}
    sums = [sum(values) for values in zip(*layers.values(), strict=True)]
    axes = _Axes(recording.times, max(sums, default=0.0), most, in_bytes=in_bytes)
    below = [0.0] * len(recording.times)
    paths = []
    for name, values in layers.items():
        above = [a + b for a, b in zip(below, values, strict=True)]
        paths.append(
            f'<path fill="{colours[name]}" d="{axes.area(below, above)}"><title>{_text(name)}</title></path>'
        )
        below = above
    swatches = [(name, f'<rect width="20" height="10" fill="{colours[name]}"/>') for name in layers]
    return axes.svg(paths, show) + _legend(swatches)


def _served(recording: Recording) -> dict[str, list[float]]:
    return {form: _sums(recording, 1 + i) for i, form in enumerate(FORMS)}


def _stalls(recording: Recording) -> dict[str, list[float]]:
    known = [
        sum(track.points[i] is not None for track in recording.jobs.values())
        for i in range(len(recording.times))
    ]
    first = 1 + len(FORMS)
    return {
        cause: [value / n if n else 0.0 for value, n in zip(_sums(recording, first + i), known, strict=True)]
        for i, cause in enumerate(CAUSES)
    }


def _sums(recording: Recording, index: int) -> list[float]:
    rows = [track.values(index) for track in recording.jobs.values()]
    return [sum(value or 0.0 for value in column) for column in zip(*rows, strict=True)]


def _memory(recording: Recording) -> list[str]:
    parts = []
    for track in recording.caches.values():
        layers = {form: [value or 0.0 for value in track.values(i)] for i, form in enumerate(KEPT_FORMS)}
        most = max((value for value in track.values(len(KEPT_FORMS)) if value is not None), default=0.0)
        parts.append(f'<p class="faint">Cache {_text(track.name)}, with {show_bytes(most)} for payloads.</p>')
        parts.append(_stacked(recording, layers, FORM_COLOURS, show_bytes, most=most or None, in_bytes=True))
    return parts


def _legend(swatches: Sequence[tuple[str, str]]) -> str:
    items = [
        f'<li><svg viewBox="0 0 20 10" aria-hidden="true">{shape}</svg>{_text(name)}</li>'
        for name, shape in swatches
    ]
    return f'<ul class="legend">{"".join(items)}</ul>'


def _dash(dash: str) -> str:
    return f' stroke-dasharray="{dash}"' if dash else ""


class _Axes:
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

    def svg(self, paths: Sequence[str], show: Callable[[float], str]) -> str:
        grid = []
        for i in range(math.floor(self.top / self.step + 1e-9) + 1):
            y = self.y(i * self.step)
            grid.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
            grid.append(
                f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{_text(show(i * self.step))}</text>'
            )
        span = self.last - self.first
        step = _time_step(span / 6)
        for i in range(math.floor(span / step + 1e-9) + 1):
            x = self.x(self.first + i * step)
            anchor = "start" if i == 0 else "end" if x > WIDTH - RIGHT - 30 else "middle"
            grid.append(f'<text x="{x:.1f}" y="{HEIGHT - 8}" text-anchor="{anchor}">{_time(i * step)}</text>')
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


# --- numbers and names as texts


def _text(text: str) -> str:
    """Text for HTML. What cannot be shown, as escape sequences, is replaced."""
    shown = "".join(c if c.isprintable() else "\ufffd" for c in text)
    return html.escape(shown, quote=True)


def _count(value: float) -> str:
    return f"{value:,.0f}" if value >= 9.95 or value == 0 else f"{value:.2g}"


def _percent(share: float) -> str:
    return f"{share:.0%}"


def _time(seconds: float) -> str:
    """``12 s``, ``3 min 20 s``, ``2 h 5 min``."""
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours:,} h {minutes} min" if minutes else f"{hours:,} h"
    return f"{minutes} min {rest} s" if rest else f"{minutes} min"
