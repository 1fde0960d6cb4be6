"""The findings as one HTML page: the answer, the loaders, and a timeline of the steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from seneca.cli.analyze.report import WAITS_FOR, Findings, LoaderFindings
from seneca.cli.analyze.stalls import parts_of_batches
from seneca.cli.watch.charts import count, document, percent, stacked, table, text

__all__ = ["timeline_page"]

POINTS = 300  # of a chart; more steps than that are means of some steps each
MOST_EPOCHS = 50  # that are drawn apart
MOST_LOADERS = 8  # that get charts; the table has all
STEP_COLOURS = {"training step": "#59a14f", "waiting": "#e15759"}
BATCH_COLOURS = {"working": "#4e79a7", "waiting for storage": "#e15759", "waiting for a core": "#f28e2b"}


def timeline_page(found: Findings, command: Sequence[str], when: str) -> str:
    """The page, which needs nothing else: no network, no script.

    Args:
        found: What was found; it has a loader.
        command: The script with its arguments.
        when: When it ran and where, in words.
    """
    first = found.loaders[0]
    more = [*map(first.helps, first.remedies[1:]), first.of_preparing()]
    listed = "".join(f"<li>{text(one)}</li>" for one in more if one)
    parts = [
        f'<p class="sum">{text(found.sentence())}</p>',
        f"<ul>{listed}</ul>" if listed else "",
        f'<p class="faint">{text(when)}</p>',
        _table(found),
    ]
    for one in found.loaders[:MOST_LOADERS]:
        parts += _charts(one)
    if len(found.loaders) > MOST_LOADERS:
        parts.append(f"<p>The other {len(found.loaders) - MOST_LOADERS} loaders are in the table alone.</p>")
    parts += [f'<p class="faint">Not seen: {text(note)}.</p>' for note in found.notes]
    return document(f"seneca analyze: {' '.join(command)}", [part for part in parts if part])


def _table(found: Findings) -> str:
    ranked = any(one.epochs.rank is not None for one in found.loaders)
    heads = ["loader", *(["rank", "late"] if ranked else []), "workers", "steps", "samples/s", "waits"]
    rows = []
    for one in found.loaders:
        rank = one.epochs.rank
        late = found.late.get(rank) if rank is not None else None
        rows.append(
            [
                text(one.name),
                *(
                    ["" if rank is None else str(rank), "" if late is None else percent(late)]
                    if ranked
                    else []
                ),
                str(one.rates.workers),
                f"{one.rates.steps:,}",
                count(one.rates.samples_per_s),
                percent(one.stalls.waited),
                *(percent(getattr(one.stalls, name)) for name in WAITS_FOR),
            ]
        )
    return table([*heads, *(f"for {what}" for what in WAITS_FOR.values())], rows)


def _charts(one: LoaderFindings) -> list[str]:
    began = float(one.epochs.steps[0][0]["begin"])
    rank = "" if one.epochs.rank is None else f", rank {one.epochs.rank}"
    parts = [f"<h2>{text(one.name + rank)}</h2>"]
    times, waits, computes = _steps(one, began)
    if not len(times):
        return [*parts, '<p class="faint">There are too few steps for a timeline.</p>']
    marks = [
        (
            min(max(float(epoch[0]["begin"]) - began, times[0]), times[-1]),
            f"epoch {number}: its first batch came after {_seconds(float(epoch[0]['wall']))}",
        )
        for number, epoch in enumerate(one.epochs.steps, 1)
        if len(one.epochs.steps) <= MOST_EPOCHS
    ]
    parts += [
        '<p class="faint">How long each step took, and how much of that it waited. A dotted line is the '
        "begin of an epoch, whose first step is left out.</p>",
        stacked(times, {"training step": computes, "waiting": waits}, STEP_COLOURS, _seconds, marks=marks),
    ]
    made, layers = _batches(one, began)
    if len(made):
        parts += [
            '<p class="faint">Time in which a batch was made, and what its worker did in it.</p>',
            stacked(made, layers, BATCH_COLOURS, _seconds),
        ]
    return parts


def _steps(one: LoaderFindings, began: float) -> tuple[list[float], list[float], list[float]]:
    """When the steps began; what each waited; and the rest of it. The last of an epoch has no end.

    Between epochs there are zeros, unless there are too many epochs to see them.
    """
    epochs = []
    for number, epoch in enumerate(one.epochs.steps):
        whole = np.diff(epoch["begin"])[1:]
        waited = epoch["wall"][1:-1]
        if number < len(one.epochs.idle):
            idle = one.epochs.idle[number]["wall"][1:]  # of the GPU; the last ones may not have been written
            whole, waited = whole[: len(idle)], idle[: len(whole)]
        at = epoch["begin"][1 : 1 + len(whole)] - began
        if len(at):
            epochs.append([at, np.minimum(waited, whole), whole])
    if not epochs:
        return [], [], []
    if len(epochs) > MOST_EPOCHS:
        columns = _means([np.concatenate(parts) for parts in zip(*epochs, strict=True)], POINTS)
    else:
        each = [_between_zeros(epoch, POINTS // len(epochs)) for epoch in epochs]
        columns = [np.concatenate(parts) for parts in zip(*each, strict=True)]
    at, wait, whole = columns
    return at.tolist(), wait.tolist(), (whole - wait).tolist()


def _between_zeros(epoch: list[np.ndarray], points: int) -> list[np.ndarray]:
    at, wait, whole = epoch
    ends = at[:1], at[-1:] + whole[-1:]
    at, wait, whole = _means(epoch, points)
    return [np.concatenate([ends[0], at, ends[1]]), np.pad(wait, 1), np.pad(whole, 1)]


def _batches(one: LoaderFindings, began: float) -> tuple[list[float], dict[str, list[float]]]:
    """When batches were begun, and the parts of their time."""
    made = one.epochs.batches[np.argsort(one.epochs.batches["begin"], kind="stable")]
    at, *parts = _means([made["begin"] - began, *parts_of_batches(made)], POINTS)
    return at.tolist(), {name: part.tolist() for name, part in zip(BATCH_COLOURS, parts, strict=True)}


def _means(columns: list[np.ndarray], points: int) -> list[np.ndarray]:
    """Columns of at most so many values: means of neighbours, if there are more."""
    groups = min(points, len(columns[0]))
    return [
        np.array([part.mean() for part in np.array_split(column, groups)]) if groups else column
        for column in columns
    ]


def _seconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:,.3g} s"
