"""``seneca ls``, ``stat``, ``rm``, ``prune``, ``shrink``: the segments of this host, shown and removed."""

from __future__ import annotations

import dataclasses
import datetime
import json
import time
from collections.abc import Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from seneca import confidence
from seneca._runtime.printable import printable
from seneca.cli.planning.what_if import show_bytes
from seneca.cli.watch.rates import JobRates
from seneca.data.kept_lists import kept_lists
from seneca.errors import SegmentError, SenecaError
from seneca.forms import UNRECODED, unrecoded_text
from seneca.options import parse_bytes
from seneca.segments import JobSeen, Segment, State, View, find, remove, segments, worth
from seneca.segments import shrink as shrink_segment

__all__ = [
    "BadUse",
    "NoSuchCache",
    "as_json",
    "cannot_list",
    "dataset_text",
    "ls",
    "prune",
    "readable",
    "rm",
    "shrink",
    "stat",
]


WHOLE_NAME = 21  # columns of names that people copy: of "auto-" and 16 digits


class BadUse(Exception):
    """A command cannot be carried out. The text names the problem and the remedy."""


class NoSuchCache(BadUse):
    """Nobody has a cache of this name."""


def cannot_list(error: OSError) -> BadUse:
    """The error for segments that cannot be listed."""
    if isinstance(error, SenecaError):
        return BadUse(str(error))
    return BadUse(f"{error.filename}: {error.strerror}; `seneca doctor` says what mends it")


def ls(*, as_text: bool, console: Console | None = None) -> int:
    """Print all segments of this host, as a table or as JSON. Returns the status."""
    found = _all()
    if as_text:
        print(json.dumps([as_json(one) for one in found], indent=1))
        return 0
    console = console or Console()
    if not found:
        console.print("no job of this host has a cache, and none was left behind")
        _print_lists(console)
        return 0
    table = Table(box=None, pad_edge=False, header_style="bold")
    whole = min(WHOLE_NAME, max(cell_len(printable(one.name)) for one in found))
    for name in ("name", "dataset", "state"):
        least = whole if name == "name" else None
        table.add_column(name, no_wrap=name == "state", overflow="fold", min_width=least)
    for name in ("memory", "held", "jobs", "samples"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for one in found:
        held, jobs, samples, dataset = "", "", "", ""
        if (view := one.view) is not None:
            dataset = view.dataset
            held = show_bytes(view.payload_bytes - view.free_bytes)
            jobs, samples = f"{len(view.jobs)}", f"{view.samples:,}"
        table.add_row(
            Text(printable(one.name)),
            Text(printable(dataset)),
            one.state.value,
            show_bytes(one.memory_bytes),
            held,
            jobs,
            samples,
            Text(printable(_note(one))),
        )
    console.print(table)
    if any(one.state is State.DEAD for one in found):
        console.print("\n`seneca prune` frees the memory of what is dead.")
    _print_lists(console)
    return 0


def _print_lists(console: Console) -> None:
    """Print how many lists of samples are kept in files, if there are any."""
    lists = kept_lists()
    if lists:
        what = f"{len(lists):,} lists of samples" if len(lists) > 1 else "1 list of samples"
        size, used = show_bytes(sum(one.size_bytes for one in lists)), lists[0].used_at
        last = datetime.datetime.fromtimestamp(used).strftime("%Y-%m-%d %H:%M:%S")
        text = f"{what} on disk ({size} in {lists[0].path.parent.parent}), used last at {last}"
        console.print()
        console.print(printable(text), highlight=False, markup=False)


def stat(name: str | None, *, as_text: bool, console: Console | None = None) -> int:
    """Print what one segment holds and which jobs use it, as text or as JSON. Returns the status.

    Args:
        name: The cache's; None: this user has one cache alone.

    Raises:
        BadUse: There is no such segment, or it cannot be read; or a name is needed.
    """
    one, view = readable(_only_name() if name is None else name)
    if as_text:
        print(json.dumps(as_json(one), indent=1))
        return 0
    console = console or Console()
    head = f"{printable(one.name)}: {dataset_text(view)}; {one.state.value}{_kept(view)}"
    console.print(head, highlight=False, markup=False)
    held = view.payload_bytes - view.free_bytes
    lacking = view.reserved_bytes < view.payload_bytes
    so_far = f" (reserved so far: {show_bytes(view.reserved_bytes)})" if lacking else ""
    console.print(
        f"memory {show_bytes(one.memory_bytes)}, for payloads {show_bytes(view.payload_bytes)}{so_far}, "
        f"of which {show_bytes(held)} are held; split {view.split}",
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
    if view.jobs:
        console.print()
        console.print(_jobs_table(view))
    for job in view.jobs:
        unrecoded = unrecoded_text({why: sum(work.unrecoded[why] for work in job.work) for why in UNRECODED})
        for line in [*said_of_sharing(job, view.samples), *([unrecoded] if unrecoded else [])]:
            who = f"{_name_of(job)}, process {job.pids[0]}" if job.pids else _name_of(job)
            console.print(f"{printable(who)}: {line}", highlight=False, markup=False)
    if view.split_changes:
        console.print()
    for change in view.split_changes[-3:]:
        when = datetime.datetime.fromtimestamp(change["when"]).strftime("%Y-%m-%d %H:%M:%S")
        changed = printable(f"{when} split {change['split']}: {change['why']}")
        console.print(changed, highlight=False, markup=False)
    return 0


def _jobs_table(view: View) -> Table:
    """The jobs that use a cache, a row each."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("job", overflow="fold")
    for name in ("epoch", "samples", "prepared", "step"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in ("run", "processes"):
        table.add_column(name, overflow="fold")
    for job in view.jobs:
        has_begun = bool(job.work)
        epochs = {work.epoch for work in job.work}
        table.add_row(
            Text(printable(_name_of(job))),
            f"{min(epochs)}" if epochs and job.iterators else "",
            f"{sum(work.delivered for work in job.work):,}" if has_begun else "",
            f"{sum(work.prepared for work in job.work):,}" if has_begun else "",
            "" if job.pace is None else f"{job.pace:,}/s",
            job.key,
            " ".join(map(str, job.pids)),
        )
    return table


def _name_of(job: JobSeen) -> str:
    return job.work[0].name if job.work else "has not begun"


def rm(names: Sequence[str], *, force: bool) -> int:
    """Remove segments by name. Returns the status.

    Raises:
        BadUse: There is no such segment, it is in use, it cannot be read, or this user may not remove it.
            Those before it are removed.
    """
    for name in names:
        one = _named(name)
        users = _users(one)
        try:
            removed = remove(one, in_use=force)
        except IsADirectoryError:
            raise BadUse(f"{one.path} is a folder, which Seneca did not make; remove it yourself") from None
        except OSError as error:
            raise BadUse(_not_removed(one, error)) from None
        if not removed:
            how = "--force removes its name, and frees its memory once they have ended"
            raise BadUse(f"{name} is in use by {users or 'a process'}; {how}")
        later = f", used by {users}: its memory is free once they have ended" if users else ""
        print(f"removed {name} ({show_bytes(one.memory_bytes)}){later}")
    return 0


def prune(*, kept: bool, to: str | None, dry_run: bool) -> int:
    """Remove the segments whose users are dead, and the lists of samples that nobody needs.

    Returns the status: 1 if one could not be removed.

    Args:
        kept: Whether to remove also those that are to be kept, if nobody uses them.
        to: Remove of those only as many as it takes until the others have this much memory, ``"8GiB"``; those
            first that are worth least for their memory, see :func:`seneca.segments.worth`. None: no limit.
        dry_run: Whether only to print what would be removed.

    Raises:
        BadUse: ``to`` is no amount of memory, or the segments cannot be listed.
    """
    found = _all()
    idle = [one for one in found if one.state is State.KEPT]
    if to is not None:
        idle = _beyond(idle, to)
    found = [one for one in found if one.state is State.DEAD] + (idle if kept or to is not None else [])
    freed = status = 0
    for one in found:
        try:
            gone = dry_run or remove(one)
        except OSError as error:
            print(f"{printable(one.name)}: not removed: {_reason(error)}")
            status = 1
            continue
        if not gone:
            print(f"{printable(one.name)}: a job has come to use it")
            continue
        print(f"{'would remove' if dry_run else 'removed'} {printable(one.name)} ({one.state.value}, "
              f"{show_bytes(one.memory_bytes)})")  # fmt: skip
        freed += one.memory_bytes
    for needless in [one for one in kept_lists() if one.needless]:
        what = f"the list of {needless.of}" if needless.of else f"{needless.path}"
        try:
            if not dry_run:
                needless.path.unlink(missing_ok=True)
        except OSError as error:
            print(f"{printable(str(needless.path))}: not removed: {_reason(error)}")
            status = 1
            continue
        done = "would remove" if dry_run else "removed"
        print(printable(f"{done} {what} ({show_bytes(needless.size_bytes)} on disk): {needless.needless}"))
        freed += needless.size_bytes
    what = show_bytes(freed) if freed else "nothing"
    print(f"{what} {'would be' if dry_run else 'was'} {'freed' if freed else 'removed'}")
    return status


def _beyond(idle: list[Segment], to: str) -> list[Segment]:
    """The segments to remove, if all others of these may have so much memory; the least worthy first."""
    try:
        limit = 0 if to.strip() == "0" else parse_bytes(to)
    except ValueError as error:
        raise BadUse(f"--to: {error}") from None
    now, left = time.time(), sum(one.memory_bytes for one in idle)
    beyond = []
    for one in sorted(idle, key=lambda one: worth(one, now)):
        if left <= limit:
            break
        beyond.append(one)
        left -= one.memory_bytes
    return beyond


def shrink(name: str, size: str) -> int:
    """Leave less memory to the payloads of a segment. Returns the status: 1 if some of it is in use still.

    Raises:
        BadUse: There is no such segment, it cannot be read, or its jobs need more.
    """
    one, view = readable(name)
    try:
        payload_bytes = parse_bytes(size)
    except ValueError as error:
        raise BadUse(str(error)) from None
    if payload_bytes > view.payload_bytes:  # at the same size, another pass gives back what was in use
        print(f"{name} has {show_bytes(view.payload_bytes)} for payloads, and no more")
        return 0
    try:
        left = shrink_segment(one, payload_bytes)
    except OSError as error:
        raise BadUse(f"{name}: {_reason(error)}") from None
    now = _named(name)
    freed = max(0, one.memory_bytes - now.memory_bytes)
    was = show_bytes(view.payload_bytes)
    print(
        f"{name} has {show_bytes(payload_bytes)} for payloads, instead of {was}: "
        f"{show_bytes(freed)} are given back"
    )
    if left:
        print(f"{left:,} payloads behind that are in use; type this again for their memory")
    return 1 if left else 0


def as_json(one: Segment) -> dict[str, Any]:
    """A segment as ``--json`` prints it: the fields of :class:`seneca.segments.Segment`.

    A job has ``apart`` in place of ``datasets``, and ``differing_at_most`` besides. The work of a process has
    ``told_ms`` in place of ``published_ms``.
    """
    found = dataclasses.asdict(one) | {"path": str(one.path), "state": one.state.value}
    if one.view is not None:
        for job, job_json in zip(one.view.jobs, found["view"]["jobs"], strict=True):
            del job_json["datasets"]
            for work in job_json["work"]:
                work["told_ms"] = work.pop("published_ms")
            job_json |= sharing_as_json(job.compared, job.apart)
    return found


def sharing_as_json(compared: dict[str, int], apart: str) -> dict[str, Any]:
    """The samples that a job has compared, and the jobs that do not share with it, for ``--json``.

    Returns:
        A dict: ``compared`` by form; ``differing_at_most``, the share of samples that may differ with 95 %
        confidence, by form; and ``apart``.
    """
    at_most = {form: confidence.differing_at_most(n) for form, n in compared.items()}
    return {"compared": compared, "differing_at_most": at_most, "apart": apart}


def dataset_text(view: View) -> str:
    """The dataset that a cache is of, for people: its name, if that is known, and its length."""
    samples = f"{view.samples:,} samples"
    return f"{printable(view.dataset)}, {samples}" if view.dataset else samples


def said_of_sharing(job: JobSeen | JobRates, samples: int) -> list[str]:
    """The same for people. ``samples`` is the number of samples of the dataset."""
    lines = [f"{form}: {confidence.in_words(n, samples)}" for form, n in job.compared.items()]
    return [*lines, printable(job.apart)] if job.apart else lines


def _all() -> list[Segment]:
    try:
        return segments()
    except OSError as error:
        raise cannot_list(error) from None


def _named(name: str) -> Segment:
    try:
        return find(name)
    except FileNotFoundError as error:
        raise NoSuchCache(str(error)) from None
    except (SegmentError, ValueError) as error:
        raise BadUse(str(error)) from None


def _only_name() -> str:
    """The name of this user's only cache."""
    own = [one for one in _all() if one.why != "another user's"]
    if not own:
        raise NoSuchCache("this user has no cache")
    if len(own) > 1:
        names = [
            f"{one.name} ({one.view.dataset})" if one.view and one.view.dataset else one.name for one in own
        ]
        raise BadUse(f"give a name, because there are several caches: {', '.join(map(printable, names))}")
    return own[0].name


def readable(name: str) -> tuple[Segment, View]:
    """This user's segment of this name, and what it holds.

    Raises:
        NoSuchCache: There is none.
        BadUse: It belongs to another user, or cannot be read; or no cache can have this name.
    """
    one = _named(name)
    if one.view is not None:
        return one, one.view
    if one.why == "another user's":
        raise BadUse(_of_another(one))
    remedy = f"`seneca rm --force {name}` removes it"
    if one.path.is_dir() and not one.path.is_symlink():
        remedy = "remove it yourself, or give another name"
    raise BadUse(f"{one.path}: {one.why}; {remedy}")


def _of_another(one: Segment) -> str:
    return f"{one.path} belongs to another user, {one.owner}; have its owner remove it, or give another name"


def _not_removed(one: Segment, error: OSError) -> str:
    """Why a segment is still there, and what to do."""
    if one.why == "another user's":
        return _of_another(one)
    if isinstance(error, SegmentError):
        return f"{one.path}: {error}; --force removes it all the same"
    return f"{one.path}: {error.strerror}; you need the right to write in {one.path.parent}"


def _reason(error: OSError) -> str:
    return error.strerror or str(error)


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
    """Remarks about a segment in a list."""
    if one.why is not None:
        return one.why if one.why != "another user's" else f"of {one.owner}"
    if one.state is State.KEPT and one.view is not None:
        return _kept(one.view).removeprefix("; it ")
    return _users(one)
