"""``seneca verify``: whether jobs' deliveries hold the invariants of sampling, and which are broken."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from rich.console import Console

from seneca._runtime.printable import printable
from seneca.audit.check import INVARIANTS, Report, check
from seneca.audit.log import BadLog
from seneca.cli.paths import cannot_write

__all__ = ["as_json", "lines", "run"]

SHOWN = 20  # violations of one invariant that are printed; --json has all


def run(folder: Path, to: Path | None, console: Console | None = None) -> int:
    """Check the logs in a folder, and print the report.

    Args:
        folder: The folder that ``SENECA_AUDIT`` named. Nothing in it is changed.
        to: A file to which :func:`as_json` is also written; None: no file.
        console: Where :func:`lines` are printed; None: standard output.

    Returns:
        The status. 0: all invariants hold. 1: one does not.

    Raises:
        BadLog: There is no log, a log cannot be read, or ``to`` cannot be written.
        OSError: A file cannot be read or written.
    """
    if folder.is_file():
        raise BadLog(f"{folder} is a file; give the folder that SENECA_AUDIT named when the jobs ran")
    if to is not None and (why := cannot_write(to)) is not None:
        raise BadLog(f"--json: {why}")
    report = check(folder)
    if to is not None:
        to.write_text(json.dumps(as_json(report), indent=1) + "\n")
    console = console or Console()
    for line in lines(report):
        console.print(printable(line), markup=False, highlight=False, soft_wrap=True)
    return 1 if report.violations else 0


def as_json(report: Report) -> dict[str, Any]:
    """The report, as ``--json`` writes it.

    Returns:
        A dict with these keys:

        * ``holds``: whether no invariant is violated.
        * ``files``, ``torn_files``, ``jobs``, ``samples``: how many there are.
        * ``epochs``, ``incomplete``, ``own_order``: the numbers of whole epochs, of incomplete ones, and of
          those in an order of the user's.
        * ``served``: samples by the form from which they were served.
        * ``checked``: how much was checked, by invariant.
        * ``unchecked``: how many of what were not checked, by invariant.
        * ``violations``: a dict for each violation.
    """
    return {"holds": not report.violations, **dataclasses.asdict(report)}


def lines(report: Report) -> list[str]:
    """The report, for people."""
    r = report
    shown = [
        f"{_count(r.jobs, 'job')}, {_count(r.epochs, 'whole epoch')}, {r.incomplete:,} incomplete, "
        f"{_count(r.samples, 'sample')} delivered"
    ]
    forms = [f"{name} {count:,}" for name, count in r.served.items() if count]
    if forms:
        shown.append(f"  served from  {', '.join(forms)}")
    if r.own_order:
        shown.append(f"  {_count(r.own_order, 'epoch')} in an order of the user's: not held to 1, 3 and 4")
    if r.torn_files:
        shown.append(f"  {_count(r.torn_files, 'log')} broke off in a record, which is left out")
    units = {1: "epoch", 2: "copy", 3: "test", 4: "batch", 5: "resumed epoch"}
    for invariant, what in INVARIANTS.items():
        broken = [violation for violation in r.violations if violation.invariant == invariant]
        checked = r.checked[invariant]
        answer = f"NO, {_count(len(broken), 'violation')}" if broken else "yes" if checked else "not checked"
        shown.append(f"{invariant} {what:<43} {answer}, by {_count(checked, units[invariant])}")
        shown += [f"    not checked: {count:,} {text}" for text, count in r.unchecked[invariant].items()]
        shown += [f"    {violation.text}" for violation in broken[:SHOWN]]
        if len(broken) > SHOWN:
            shown.append(f"    ... and {len(broken) - SHOWN:,} more; --json FILE has them")
    return shown


def _count(number: int, noun: str) -> str:
    plural = {"copy": "copies", "batch": "batches"}.get(noun, noun + "s")
    return f"{number:,} {noun if number == 1 else plural}"
