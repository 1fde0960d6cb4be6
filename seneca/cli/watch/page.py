"""A recording as one HTML page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from seneca.cli.planning.what_if import show_bytes
from seneca.cli.watch.charts import (
    Axes,
    count,
    dash,
    document,
    legend,
    percent,
    stacked,
    table,
    text,
    time_text,
)
from seneca.cli.watch.rates import FORMS, Done
from seneca.cli.watch.recording import CAUSES, HELD_FORMS, JobTrack, Recording

__all__ = ["page", "sentence"]

JOB_COLOURS = (
    "#4e79a7", "#f28e2b", "#e15759", "#59a14f", "#b07aa1", "#edc948", "#76b7b2", "#ff9da7", "#9c755f",
    "#8c8c8c",
)  # fmt: skip
DASHES = ("", "6 3", "2 3", "9 3 2 3")  # of the jobs beyond the colours
FORM_COLOURS = {
    "storage": "#e15759",
    "encoded": "#edc948",
    "recoded": "#f28e2b",
    "decoded": "#59a14f",
    "augmented": "#4e79a7",
}
CAUSE_COLOURS = {
    "storage": "#e15759", "decode": "#59a14f", "augment": "#4e79a7", "item": "#b07aa1", "batch": "#76b7b2",
    "cores": "#f28e2b", "peers": "#9c755f", "other": "#8c8c8c",
}  # fmt: skip
MEANWHILE = {
    "storage": "for storage",
    "decode": "for decoding",
    "augment": "for augmenting",
    "item": "for the dataset's own code",
    "batch": "for batches to be put together",
    "cores": "for a free core",
    "peers": "for other jobs",
    "other": "for what was not seen",
}


def page(recording: Recording, *, title: str, when: str) -> str:
    """The page of a recording, of which at least one job has got samples.

    Args:
        recording: What was seen. It is finished.
        title: The heading.
        when: When that was, in words.
    """
    names = _names(list(recording.jobs.values()))
    parts = [
        f'<p class="sum">{text(sentence(recording))}</p>',
        f'<p class="faint">{text(when)}</p>',
        _table(recording, names),
        '<p class="faint">storage, encoded, decoded, augmented: the forms that samples came from.</p>',
        "<h2>Throughput</h2>",
        '<p class="faint">Samples/s of each job.</p>',
        _throughput(recording, names),
        "<h2>Served by form</h2>",
        '<p class="faint">Samples/s of all jobs together, by the form that they came from.</p>',
        stacked(recording.times, _served(recording), FORM_COLOURS, count),
        "<h2>Stalls by cause</h2>",
        '<p class="faint">The share of the time that a training loop waited for samples, by what was done '
        "meanwhile; the mean of the jobs.</p>",
        stacked(recording.times, _stalls(recording), CAUSE_COLOURS, percent, most=1.0),
        "<h2>Memory by form</h2>",
        *_memory(recording),
    ]
    return document(title, parts)


def sentence(recording: Recording) -> str:
    """The recording in a few words, the numbers first."""
    total, seconds = recording.total, recording.seconds
    jobs = f"{len(recording.jobs):,} job{'' if len(recording.jobs) == 1 else 's'}"
    rate = f", {count(total.delivered / seconds)} samples/s together" if seconds > 0 else ""
    text = f"{jobs} got {total.delivered:,} samples in {time_text(seconds)}{rate}."
    if total.prepared and len(recording.jobs) > 1:
        text += f" Each preparation gave {total.delivered / total.prepared:.2f} deliveries."
    if total.ns:
        text += f" The training loops waited {percent(total.stalled)} of the time"
        if total.stalled >= 0.01:
            cause, share = next(iter(total.stalled_by.items()))
            text += f", {percent(share / total.stalled)} of that {MEANWHILE.get(cause, f'for {cause}')}"
        text += "."
    return text


def _names(tracks: Sequence[JobTrack]) -> list[str]:
    """A name for each job. Jobs that publish the same one have a process's number as well."""
    names = [track.last.name or "a job without a name" for track in tracks]
    often = Counter(names)
    return [
        name if often[name] == 1 else f"{name} (process {track.last.pids[0] if track.last.pids else '?'})"
        for name, track in zip(names, tracks, strict=True)
    ]


# --- parts of the page


def _table(recording: Recording, names: Sequence[str]) -> str:
    heads = ("time", "samples", "samples/s", "stalled", *FORMS, "prepared", "read")
    several = len(recording.caches) > 1
    rows = []
    for name, ((path, _), track) in zip(names, recording.jobs.items(), strict=True):
        done = track.last.watched
        seconds = track.last_s - track.first_s
        shares = done.served_shares
        cells = [
            time_text(seconds),
            f"{done.delivered:,}",
            count(done.delivered / seconds) if seconds > 0 else "",
            _stalled(done),
            *(percent(shares[form]) if form in shares else "" for form in FORMS),
            f"{done.prepared:,}",
            show_bytes(done.read_bytes),
        ]
        whose = text(name)
        if several:
            of = f" ({recording.caches[path].dataset})" if path in recording.caches else ""
            whose += f'<br><span class="faint">{text(track.last.cache + of)}</span>'
        lost = [f"{n:,} {what}" for n, what in ((done.skipped, "skipped"), (done.damaged, "damaged")) if n]
        if lost:
            whose += f'<br><span class="faint">{", ".join(lost)}</span>'
        rows.append([whose, *cells])
    return table(("job", *heads), rows)


def _stalled(done: Done) -> str:
    if not done.ns:
        return ""
    cause = next(iter(done.stalled_by), "")
    return f"{percent(done.stalled)} {cause}" if done.stalled >= 0.01 else percent(done.stalled)


def _throughput(recording: Recording, names: Sequence[str]) -> str:
    values = [track.values(0) for track in recording.jobs.values()]
    axes = Axes(recording.times, max((v for row in values for v in row if v is not None), default=0.0))
    styles = [
        (JOB_COLOURS[i % len(JOB_COLOURS)], DASHES[i // len(JOB_COLOURS) % len(DASHES)])
        for i in range(len(names))
    ]
    paths = [
        f'<path class="line" stroke="{colour}"{dash(pattern)} d="{axes.line(row)}">'
        f"<title>{text(name)}</title></path>"
        for name, row, (colour, pattern) in zip(names, values, styles, strict=True)
    ]
    swatches = [
        (name, f'<path d="M0 5H20" stroke="{colour}" stroke-width="3"{dash(pattern)}/>')
        for name, (colour, pattern) in zip(names, styles, strict=True)
    ]
    return axes.svg(paths, count) + legend(swatches)


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
        layers = {form: [value or 0.0 for value in track.values(i)] for i, form in enumerate(HELD_FORMS)}
        most = max((value for value in track.values(len(HELD_FORMS)) if value is not None), default=0.0)
        of = f"Cache {track.name} ({track.dataset}), with {show_bytes(most)} for payloads."
        parts.append(f'<p class="faint">{text(of)}</p>')
        parts.append(
            stacked(recording.times, layers, FORM_COLOURS, show_bytes, most=most or None, in_bytes=True)
        )
    return parts
