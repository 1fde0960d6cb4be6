"""``seneca ls``, ``stat``, ``rm`` and ``prune``: the segments of this host, shown and removed."""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from seneca.cli.what_if import show_bytes
from seneca.errors import SegmentError
from seneca.segments import Segment, State, View, find, remove, segments

__all__ = ["BadUse", "as_json", "ls", "prune", "rm", "stat"]


class BadUse(Exception):
    """What was asked for cannot be done. The text names the thing and the remedy."""


def ls(*, as_text: bool, console: Console | None = None) -> int:
    """Print all segments of this host, as a table or as JSON. Returns the status."""
    found = _all()
    if as_text:
        print(json.dumps([as_json(one) for one in found], indent=1))
        return 0
    console = console or Console()
    if not found:
        console.print("no job of this host has a cache, and none was left behind")
        return 0
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("name", "state"):
        table.add_column(name, no_wrap=name == "state", overflow="fold")
    for name in ("memory", "held", "jobs", "samples"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for one in found:
        held, jobs, samples = "", "", ""
        if (view := one.view) is not None:
            held = show_bytes(view.payload_bytes - view.free_bytes)
            jobs, samples = f"{len(view.jobs)}", f"{view.samples:,}"
        table.add_row(
            one.name, one.state.value, show_bytes(one.memory_bytes), held, jobs, samples, _note(one)
        )
    console.print(table)
    if any(one.state is State.DEAD for one in found):
        console.print("\n`seneca prune` frees the memory of what is dead.")
    return 0


def stat(name: str, *, as_text: bool, console: Console | None = None) -> int:
    """Print what one segment holds and which jobs use it, as text or as JSON. Returns the status.

    Raises:
        BadUse: There is no such segment, or it cannot be read.
    """
    one = _named(name)
    if as_text:
        print(json.dumps(as_json(one), indent=1))
        return 0
    view = one.view
    if view is None:
        raise BadUse(f"{one.path}: {one.why}")
    console = console or Console()
    console.print(f"{one.name}: {one.state.value}{_kept(view)}", highlight=False)
    held = view.payload_bytes - view.free_bytes
    console.print(
        f"memory {show_bytes(one.memory_bytes)}, for payloads {show_bytes(view.payload_bytes)}, "
        f"of which {show_bytes(held)} are held; {view.samples:,} samples; split {view.split}",
        highlight=False,
    )
    if view.torn:
        console.print("these numbers changed while they were read, and may not fit each other")
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("form")
    for column in ("payloads", "of all", "memory", "may take"):
        table.add_column(column, justify="right")
    for form, count in view.payloads.items():
        sizes = show_bytes(view.bytes[form]), show_bytes(view.budget_bytes[form])
        table.add_row(form, f"{count:,}", f"{count / view.samples:.0%}", *sizes)
    console.print(table)
    for job in view.jobs:
        pids = ", ".join(map(str, job.pids))
        pace = "" if job.pace is None else f", whose step takes {job.pace:,} samples/s"
        console.print(f"job {job.key}: {job.iterators} drawing, processes {pids}{pace}", highlight=False)
    for change in view.split_changes[-3:]:
        when = datetime.datetime.fromtimestamp(change["when"]).strftime("%Y-%m-%d %H:%M:%S")
        console.print(f"{when} split {change['split']}: {change['why']}", highlight=False, markup=False)
    return 0


def rm(names: Sequence[str], *, force: bool) -> int:
    """Remove segments by name. Returns the status.

    Raises:
        BadUse: There is no such segment, it is in use, or it cannot be read. Those before it are removed.
    """
    for name in names:
        one = _named(name)
        users = _users(one)
        try:
            removed = remove(one, in_use=force)
        except SegmentError as error:
            raise BadUse(f"{one.path}: {error}; --force removes it all the same") from None
        if not removed:
            how = "--force removes its name, and frees its memory once they have ended"
            raise BadUse(f"{name} is in use by {users or 'a process'}; {how}")
        later = f", used by {users}: its memory is free once they have ended" if users else ""
        print(f"removed {name} ({show_bytes(one.memory_bytes)}){later}")
    return 0


def prune(*, kept: bool, dry_run: bool) -> int:
    """Remove the segments whose users are dead. Returns the status: 1 if one could not be removed.

    Args:
        kept: Whether to remove also those that are to be kept, if nobody uses them.
        dry_run: Whether only to print what would be removed.
    """
    states = {State.DEAD, State.KEPT} if kept else {State.DEAD}
    found = [one for one in _all() if one.state in states]
    freed = status = 0
    for one in found:
        try:
            gone = dry_run or remove(one)
        except SegmentError as error:
            print(f"{one.name}: not removed: {error}")
            status = 1
            continue
        if not gone:
            print(f"{one.name}: a job has come to use it")
            continue
        print(f"{'would remove' if dry_run else 'removed'} {one.name} ({one.state.value}, "
              f"{show_bytes(one.memory_bytes)})")  # fmt: skip
        freed += one.memory_bytes
    print(f"{show_bytes(freed)} {'would be' if dry_run else 'are'} free")
    return status


def as_json(one: Segment) -> dict[str, Any]:
    """A segment as ``--json`` prints it: the fields of :class:`seneca.segments.Segment`."""
    return dataclasses.asdict(one) | {"path": str(one.path), "state": one.state.value}


def _all() -> list[Segment]:
    try:
        return segments()
    except OSError as error:
        raise BadUse(f"{error.filename}: {error.strerror}") from None


def _named(name: str) -> Segment:
    try:
        return find(name)
    except (FileNotFoundError, ValueError) as error:
        raise BadUse(str(error)) from None


def _users(one: Segment) -> str:
    """The processes that use a segment, as a text; empty: none, or it cannot be read."""
    pids = [] if one.view is None else [str(pid) for job in one.view.jobs for pid in job.pids]
    return f"process{'es' if len(pids) > 1 else ''} {', '.join(pids)}" if pids else ""


def _kept(view: View) -> str:
    """How long a segment outlives its users, as a text; empty: it does not."""
    if view.keep_s is None:
        return "; it stays until `seneca rm`"
    if view.keep_s == 0:
        return ""
    if view.left_at is None:
        return f"; it stays {datetime.timedelta(seconds=view.keep_s)} after its last user"
    return f"; it stays until {datetime.datetime.fromtimestamp(view.left_at + view.keep_s):%Y-%m-%d %H:%M:%S}"


def _note(one: Segment) -> str:
    """What else there is to say of a segment in a list."""
    if one.why is not None:
        return one.why if one.why != "another user's" else f"of {one.owner}"
    if one.state is State.KEPT and one.view is not None:
        return _kept(one.view).removeprefix("; it ")
    return _users(one)
