"""``seneca top``: what the jobs of this host do at present, a row a job, until Ctrl-C."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.live import Live
from rich.text import Text

from seneca._runtime.printable import printable
from seneca.cli.caches.segments import (
    BadUse,
    cannot_list,
    dataset_text,
    readable,
    said_of_sharing,
    sharing_as_json,
)
from seneca.cli.interrupts import Interrupts
from seneca.cli.planning.what_if import show_bytes
from seneca.cli.watch.rates import FORMS, CacheRates, JobRates, RateMeter
from seneca.errors import SegmentOwnerError
from seneca.segments import Segment, State, find, segments

__all__ = ["MOST_S", "apart", "as_json", "checked_every", "lines", "run", "snapshot"]

LEAST_S, MOST_S = 0.1, 86_400.0
SMOOTH_S = 1.0  # processes publish four times a second at most; rates of less time would jump
LETTERS = {form: form[0].upper() for form in FORMS}
COLOURS = {
    "storage": "red",
    "encoded": "yellow",
    "recoded": "magenta",
    "decoded": "green",
    "augmented": "cyan",
}
STATES = {State.IN_USE: "green", State.KEPT: "blue", State.DEAD: "red", State.GIVEN_UP: "yellow"}
WIDE = 110  # columns from which names and causes have more room
LEGEND = (
    f"{', '.join(f'{letter} {form}' for form, letter in LETTERS.items())}: forms in memory, and what was "
    "delivered from them in percent. stalled: of the time, and why. sharing: deliveries for each preparation."
)


def run(
    name: str | None, *, every_s: float, once: bool, as_text: bool, console: Console | None = None
) -> int:
    """Show all jobs, or those of one cache, again and again. Returns the status.

    Args:
        name: The cache; None: all.
        every_s: Seconds between two snapshots.
        once: Whether to take two snapshots, print what was done in between, and end. Else it ends by Ctrl-C.
        as_text: Whether to print JSON, an object a line, and no table.
        console: Where to print.

    Raises:
        BadUse: There is no such cache, or it cannot be read; the segments cannot be listed; or ``every_s``
            is out of range.
    """
    checked_every(every_s)
    console = console or Console()
    watch = RateMeter(max(every_s, SMOOTH_S))
    if name is not None:
        readable(name)
    snapshot(watch, name)
    with Interrupts() as interrupts:
        if console.is_terminal and not once and not as_text:
            with Live(console=console, screen=True, auto_refresh=False, vertical_overflow="crop") as live:
                while not interrupts.asked:
                    shown = lines(snapshot(watch, name), console.width, name)
                    live.update(Text("\n").join(_fitting(shown, console.height)), refresh=True)
                    interrupts.wait(every_s)
            return 0
        while not interrupts.wait(every_s):
            seen = snapshot(watch, name)
            if as_text:
                print(json.dumps(as_json(seen)), flush=True)
            else:
                for line in lines(seen, console.width, name):
                    console.print(line, no_wrap=True, crop=False, soft_wrap=True)
            if once:
                break
            if not as_text:
                console.print()
    return 0


def checked_every(every_s: float) -> None:
    """Refuse a time between two snapshots that is too short, or that nobody would wait for."""
    if not LEAST_S <= every_s <= MOST_S:
        raise BadUse(f"--every takes seconds, from {LEAST_S} to {MOST_S:,.0f}, and not {every_s:g}")


def snapshot(watch: RateMeter, name: str | None) -> list[CacheRates]:
    """All segments of this host at present, or this user's segment of a name, if there is one.

    Raises:
        BadUse: The segments cannot be listed, or no cache can have this name.
    """
    found: list[Segment] = []
    try:
        found = segments() if name is None else [find(name)]
    except OSError as error:
        if name is None or not isinstance(error, (FileNotFoundError, SegmentOwnerError)):
            raise cannot_list(error) from None
    except ValueError as error:
        raise BadUse(str(error)) from None
    return watch.update(found, time.time_ns() // 1_000_000)


def as_json(seen: Sequence[CacheRates]) -> dict[str, Any]:
    """The object that ``--json`` prints.

    Returns:
        A dict. ``jobs`` has a dict for each job: the fields of :class:`seneca.cli.watch.rates.JobRates`, with
        ``stalled`` (share of the time), ``stalled_by`` (cause) and ``served`` (form) in place of ``done``.
        These are None where they are not known yet. ``segments`` has a dict for each segment.
    """
    return {
        "segments": [_cache_as_json(one) for one in seen],
        "jobs": [_job_as_json(job) for one in seen for job in one.jobs],
    }


def _cache_as_json(cache: CacheRates) -> dict[str, Any]:
    one, view = cache.segment, cache.segment.view
    return {
        "name": one.name,
        "owner": one.owner,
        "dataset": None if view is None else view.dataset or None,
        "samples": None if view is None else view.samples,
        "state": one.state.value,
        "why": one.why,
        "memory_bytes": one.memory_bytes,
        "payload_bytes": None if view is None else view.payload_bytes,
        "free_bytes": None if view is None else view.free_bytes,
        "bytes": None if view is None else view.bytes,
        "jobs": len(cache.jobs),
        "delivered": cache.total.delivered,
        "prepared": cache.total.prepared,
        "deliveries_per_preparation": cache.deliveries_per_preparation,
    }


def _job_as_json(job: JobRates) -> dict[str, Any]:
    done = job.done
    return {
        "cache": job.cache,
        "key": job.key,
        "name": job.name,
        "pids": list(job.pids),
        "telling": job.publishing,
        "told_s": job.silent_s,
        "idle": job.idle,
        "samples_per_s": job.samples_per_s,
        "stalled": None if done is None else done.stalled,
        "stalled_by": None if done is None else done.stalled_by,
        "served": None if done is None else done.served_shares,
        "epoch": job.epoch,
        "place": job.place,
        "places": job.places,
        "threads": job.threads,
        "batch_size": job.batch_size,
        "delivered": job.total.delivered,
        "prepared": job.total.prepared,
        "staged": job.total.staged,
        "skipped": job.total.skipped,
        "damaged": job.total.damaged,
        "read_bytes": job.total.read_bytes,
        **sharing_as_json(job.compared, job.apart),
    }


# --- for people


def lines(seen: Sequence[CacheRates], width: int, name: str | None = None) -> list[Text]:
    """The table: for each cache a line, and below it one for each of its jobs. None is longer than ``width``.

    Args:
        seen: What was seen.
        width: The columns of the terminal.
        name: The cache that was asked for; None: all.
    """
    if not seen:
        none = "no job of this host has a cache" if name is None else f"there is no cache {name} any more"
        return [Text(none)]
    columns = _columns(width)
    jobs = [job for cache in seen for job in cache.jobs]
    names = dict(zip(map(id, jobs), apart([_label(job) for job in jobs], columns[0][1]), strict=True))
    shown = [Text(_row([title for title, _, _ in columns], columns), style="bold")]
    for cache in seen:
        shown.append(_cache_line(cache, width))
        view = cache.segment.view
        if view is not None:
            shown.append(Text(f"  {dataset_text(view)}", style="dim"))
        for job in cache.jobs:
            shown.append(_job_line(job, names[id(job)], columns))
            for said in said_of_sharing(job, 0 if view is None else view.samples):
                shown += [Text(f"  {part}", style="dim") for part in _wrapped(said, width - 2)]
    shown += [Text(line, style="dim") for line in _wrapped(LEGEND, width)]
    for line in shown:
        line.truncate(width)
    return shown


Column = tuple[str, int, str]  # title, width, side


def _columns(width: int) -> list[Column]:
    """The columns of the table of jobs. What a wide terminal has to spare goes to names and causes."""
    wide = width >= WIDE
    fixed: list[Column] = [
        ("pid", 7, ">"),
        ("samples/s", 9, ">"),
        ("stalled", 34 if wide else 17, "<"),
        ("served from", 15, "<"),
        ("epoch", 10 if wide else 8, ">"),
        ("threads" if wide else "thr", 7 if wide else 3, ">"),
    ]
    gaps = len(fixed) * _gap(wide)
    return [("job", max(6, width - gaps - sum(size for _, size, _ in fixed)), "<"), *fixed]


def _gap(wide: bool) -> int:
    return 2 if wide else 1


def _row(cells: Sequence[str], columns: Sequence[Column]) -> str:
    wide = columns[-1][0] == "threads"
    fitted = [_fit(cell, size, side) for cell, (_, size, side) in zip(cells, columns, strict=True)]
    return (" " * _gap(wide)).join(fitted).rstrip()


def _label(job: JobRates) -> str:
    """The name of a job, and how many of its processes there are."""
    name = printable(job.name) if job.name else "process" if job.name is None else "job"
    return f"{job.publishing}x {name}" if job.publishing > 1 else name


def apart(names: Sequence[str], room: int) -> list[str]:
    """Names for a column: if those of one program do not fit, what they have in common is left out.

    Args:
        names: Command lines, or other names. Those that begin with the same word are of one program.
        room: The columns of the terminal.

    Returns:
        The names. One that is still too long is not cut.
    """
    shown = list(names)
    for program in {name.partition(" ")[0] for name in names}:
        own = [i for i, name in enumerate(names) if name.partition(" ")[0] == program]
        words = [names[i].split(" ") for i in own]
        if _equal(words) == max(map(len, words)) or max(cell_len(names[i]) for i in own) <= room:
            continue
        shortest = min(map(len, words))
        begin = min(_equal(words), shortest - 1)
        if begin > 1 and words[0][begin - 1].startswith("-"):
            begin -= 1  # an option stays with its value
        end = min(_equal([one[begin:][::-1] for one in words]), shortest - begin - 1)
        differ = [" ".join(one[begin : len(one) - end]) + ("…" if end else "") for one in words]
        lead = ("", f"{program} ", f"{program} …")[min(begin, 2)]
        if begin and len(lead) + max(map(cell_len, differ)) > room:
            lead = "…"
        for i, text in zip(own, differ, strict=True):
            shown[i] = lead + text
    return shown


def _equal(texts: Sequence[Sequence[str]]) -> int:
    """How many words at the beginning are the same in all."""
    for n, words in enumerate(zip(*texts, strict=False)):
        if len(set(words)) > 1:
            return n
    return min(map(len, texts))


def _job_line(job: JobRates, name: str, columns: Sequence[Column]) -> Text:
    pid = f"{job.pids[0]}" if job.pids else ""
    if job.name is None:
        cells = [name, pid, "", "has not begun", "", "", ""]
    elif job.idle:
        idle = f"idle {_seconds(job.silent_s or 0.0)}"
        cells = [name, pid, "0", idle, "", _epoch(job), f"{job.threads}"]
    elif job.done is None or job.samples_per_s is None:
        cells = [name, pid, "", "", "", _epoch(job), f"{job.threads}"]
    else:
        causes = _causes(job.done.stalled, job.done.stalled_by, columns[3][1])
        served = " ".join(
            f"{LETTERS[form]}{share:.0%}"[:-1] for form, share in job.done.served_shares.items()
        )
        cells = [name, pid, _number(job.samples_per_s), causes, served, _epoch(job), f"{job.threads}"]
    text = Text(_row(cells, columns))
    if job.idle or job.name is None:
        text.stylize("dim")
    return text


def _cache_line(cache: CacheRates, width: int) -> Text:
    one, view = cache.segment, cache.segment.view
    cells = 30 if width >= WIDE else 16
    rest = 8 + 1 + cells + 2 + len(" 58.1 MiB of 64.1 MiB") + len("  sharing 1.94") + 1
    name = _fit(printable(one.name), max(8, width - rest), "<")
    line = Text.assemble((name, "bold"), " ", (f"{one.state.value:<8}", STATES.get(one.state, "")), " ")
    if view is None:
        why = f"of {one.owner}" if one.why == "another user's" else printable(one.why or "")
        line.append(_cut(f"{show_bytes(one.memory_bytes)}, {why}", width - line.cell_len))
        return line
    line.append_text(_bar(view.bytes, view.payload_bytes, cells))
    held = view.payload_bytes - view.free_bytes
    line.append(f" {show_bytes(held)} of {show_bytes(view.payload_bytes)}")
    sharing = cache.deliveries_per_preparation
    if sharing is not None and len(cache.jobs) > 1:  # one by itself shares with nobody
        text = f"sharing {sharing:.2f}"
        line.append(text.rjust(max(len(text) + 1, width - line.cell_len)))
    return line


def _bar(held: dict[str, int], of: int, cells: int) -> Text:
    """The memory of a cache as letters, each form in proportion."""
    bar, ends, total = Text("["), 0, 0
    for form, letter in LETTERS.items():
        total += held.get(form, 0)
        begins, ends = ends, min(cells, round(cells * total / of)) if of else 0
        bar.append(letter * (ends - begins), style=COLOURS[form])
    return bar.append("." * (cells - ends), style="dim").append("]")


def _causes(stalled: float, by: dict[str, float], room: int) -> str:
    """``31% decode 20, cores 11``: as many causes as there is room for, and of no less than a percent."""
    text = f"{stalled:.0%}"
    for cause, share in by.items():
        more = f"{text}{',' if text[-1] != '%' else ''} {cause} {share * 100:.0f}"
        if share < 0.01 or cell_len(more) > room:
            break
        text = more
    return text


def _epoch(job: JobRates) -> str:
    if not job.places:
        return f"{job.epoch}"
    return f"{job.epoch} {min(1.0, job.place / job.places):>4.0%}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 9.95 else f"{value:.2g}"


def _seconds(seconds: float) -> str:
    """A time in words, as ``12 s``, ``3 min`` or ``2 h``."""
    for limit, unit, size in ((100, "s", 1), (6000, "min", 60), (360_000, "h", 3600)):
        if seconds < limit:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86_400:.0f} d"


def _cut(text: str, size: int) -> str:
    return text if cell_len(text) <= size else set_cell_size(text, max(0, size - 1)) + "…"


def _fit(text: str, size: int, side: str) -> str:
    cut = _cut(text, size)
    spaces = " " * (size - cell_len(cut))
    return cut + spaces if side == "<" else spaces + cut


def _wrapped(text: str, width: int) -> list[str]:
    wrapped = [""]
    for word in text.split(" "):
        if len(wrapped[-1]) + len(word) + 1 > width:
            wrapped.append("")
        wrapped[-1] = f"{wrapped[-1]} {word}".strip()
    return wrapped


def _fitting(shown: list[Text], height: int) -> list[Text]:
    """The lines that fit; the last one counts the rest."""
    if len(shown) <= height:
        return shown
    return [*shown[: height - 1], Text(f"and {len(shown) - height + 1} more lines", style="dim")]
