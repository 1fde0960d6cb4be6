"""``seneca report``: one HTML page of what jobs did while they were watched."""

from __future__ import annotations

import datetime
import math
import os
import platform
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.text import Text

from seneca._runtime.printable import printable
from seneca.cli.caches.segments import BadUse, NoSuchCache, readable
from seneca.cli.interrupts import Interrupts
from seneca.cli.paths import cannot_write
from seneca.cli.watch.page import page, sentence
from seneca.cli.watch.rates import CacheRates, RateMeter
from seneca.cli.watch.recording import Recording
from seneca.cli.watch.top import snapshot
from seneca.options import parse_keep

__all__ = ["run"]

EVERY_S = 0.5
WINDOW_S = 1.0
MADE_S = 1.0  # a cache that cannot be read for so long is not being made


def run(to: Path, name: str | None, *, duration: str | None) -> int:
    """Watch all jobs, or those of one cache, until all have left, and write the page.

    It also ends after ``duration``, and by Ctrl-C. Where there is no job yet, it says so and waits for one.

    Args:
        to: The file.
        name: The cache; None: all.
        duration: The longest time, such as ``"10min"``; None: as long as jobs run.

    Returns:
        The status. 0: the page is written. 1: no job got a sample meanwhile, and it is not.

    Raises:
        BadUse: The file cannot be written, there are no such times, the cache cannot be read, or the
            segments cannot be listed.
    """
    most_s = _seconds(duration)
    if (why := cannot_write(to)) is not None:
        raise BadUse(why)
    watch, recording = RateMeter(WINDOW_S), Recording()
    if name is not None:
        _check(name)
    some = any(cache.jobs for cache in snapshot(watch, name))  # what is wrong is said before anything else
    console = Console(stderr=True)
    began_at, began = datetime.datetime.now().astimezone(), time.monotonic()
    without_jobs = 0  # snapshots, one after the other
    with Interrupts() as interrupts, console.status("", refresh_per_second=2) as status:
        if not some:
            print(f"seneca report: {_waiting(name)}", file=sys.stderr, flush=True)
        if not console.is_terminal:
            print("seneca report: watching; Ctrl-C ends it and writes the page", file=sys.stderr, flush=True)
        while True:
            passed_s = time.monotonic() - began
            seen = snapshot(watch, name)
            recording.add(seen, passed_s)
            without_jobs = 0 if any(cache.jobs for cache in seen) else without_jobs + 1
            if (recording.jobs and without_jobs > 1) or passed_s >= most_s:
                break
            status.update(Text(_so_far(seen, passed_s)))
            if interrupts.wait(min(EVERY_S, most_s - passed_s)):
                break
    recording.finish()
    if not recording.working:
        print(f"seneca report: no job got a sample meanwhile; {to} is not written", file=sys.stderr)
        return 1
    of = "the jobs of this host" if name is None else f"the cache {name}"
    when = f"{began_at:%Y-%m-%d %H:%M:%S %Z}, {platform.node() or 'this host'}"
    _write(to, page(recording, title=f"Seneca: {of}", when=when))
    print(printable(sentence(recording)))
    print(f"{to}: {os.path.getsize(to) / 1024:,.0f} KiB")
    return 0


def _check(name: str) -> None:
    """Refuse a cache that cannot be read. One that a job is just making can be, a moment later."""
    until = time.monotonic() + MADE_S
    while True:
        try:
            readable(name)
        except NoSuchCache:  # a job may make it yet
            return
        except BadUse:
            if time.monotonic() >= until:
                raise
            time.sleep(MADE_S / 20)
        else:
            return


def _seconds(duration: str | None) -> float:
    if duration is None:
        return math.inf
    try:
        seconds = parse_keep(int(duration) if duration.isdecimal() else duration)
    except ValueError:
        seconds = 0.0
    if seconds <= 0:
        raise BadUse(f'--for takes a time such as "90s" or "10min", and not {duration!r}')
    return seconds


def _write(to: Path, text: str) -> None:
    try:
        to.write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        raise BadUse(f"{to} cannot be written: {error.strerror}; give another file") from None


def _waiting(name: str | None) -> str:
    if name is None:
        return "no job has a cache yet; waiting for the first"
    return f"no job uses the cache {name!r} yet; waiting for one (`seneca ls` lists the caches there are)"


def _so_far(seen: list[CacheRates], passed_s: float) -> str:
    jobs = [job for cache in seen for job in cache.jobs]
    if not jobs:
        return "waiting for a job; Ctrl-C ends this"
    per_s = sum(job.samples_per_s or 0.0 for job in jobs)
    names = ", ".join(dict.fromkeys(printable(job.cache) for job in jobs))
    return f"{names}: {len(jobs)} running, {per_s:,.0f} samples/s; {passed_s:,.0f} s; Ctrl-C writes the page"
