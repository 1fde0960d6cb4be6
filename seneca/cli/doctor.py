"""``seneca doctor``: what is wrong with this host, and the line that mends it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from seneca._runtime.printable import printable
from seneca.cli.checks import examine
from seneca.cli.checks.finding import CheckStatus, Finding
from seneca.cli.checks.host import Host
from seneca.cli.paths import cannot_list

__all__ = ["CannotExamine", "as_json", "lines", "run"]

COLOURS = {
    CheckStatus.OK: "green",
    CheckStatus.WARNING: "yellow",
    CheckStatus.PROBLEM: "red",
    CheckStatus.UNKNOWN: "blue",
}
BAD = (CheckStatus.WARNING, CheckStatus.PROBLEM)


class CannotExamine(ValueError):
    """There is nothing to examine. The message is one line that says why."""


def run(folder: Path | None, *, as_json_text: bool = False) -> int:
    """Check the host on which this process runs, and print what was found.

    Args:
        folder: A folder of data, or None.
        as_json_text: Whether to print :func:`as_json` instead of lines.

    Returns:
        The status. 0: nothing is wrong. 1: there is a warning or a problem.

    Raises:
        CannotExamine: The folder is not there, or the system is not Linux.
    """
    if not sys.platform.startswith("linux"):
        raise CannotExamine(f"it examines Linux, and this is {sys.platform}: the loader is torch's own here")
    if folder is not None and (why := cannot_list(folder)) is not None:
        raise CannotExamine(f"--data: {why}")
    found = dict(examine(Host(), folder))
    if as_json_text:
        print(json.dumps(as_json(found), indent=1))
    else:
        console = Console()
        for line in lines(found):
            console.print(line, soft_wrap=True)
    return 1 if any(finding.verdict in BAD for finding in found.values()) else 0


def as_json(found: dict[str, Finding]) -> dict[str, Any]:
    """The findings, as ``--json`` prints them.

    Returns:
        A dict. ``good`` is whether nothing is wrong. ``checks`` has a dict for each check: its name
        (``check``), ``verdict``, ``found`` and ``remedy``, which is None where nothing needs to be done.
    """
    return {
        "good": not any(finding.verdict in BAD for finding in found.values()),
        "checks": [
            {
                "check": name,
                "verdict": finding.verdict.value,
                "found": finding.found,
                "remedy": finding.remedy or None,
            }
            for name, finding in found.items()
        ],
    }


def lines(found: dict[str, Finding]) -> list[Text]:
    """The findings for people: a line each, a line for each remedy, and the sum."""
    told = []
    for name, finding in found.items():
        told.append(
            Text.assemble(
                (f"{finding.verdict.value:<8}", COLOURS[finding.verdict]),
                f" {name:<16} {printable(finding.found)}",
            )
        )
        if finding.remedy:
            told.append(Text(f"{'':<25} -> {printable(finding.remedy)}"))
    counts = {verdict: sum(one.verdict is verdict for one in found.values()) for verdict in CheckStatus}
    told.append(Text(", ".join(f"{count} {verdict.value}" for verdict, count in counts.items() if count)))
    return told
