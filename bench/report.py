"""What every benchmark prints: the machine, the versions, and a table.

Numbers mean little without the machine that they were measured on, and how busy it was: each run
begins with one line about it.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path


def machine(distributions: Sequence[str]) -> str:
    """One line: cores, processor, Python, those of ``distributions`` that are installed, the load."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    cpu = platform.processor() or "unknown CPU"
    for line in lines_of(Path("/proc/cpuinfo")):
        if line.startswith("model name"):
            cpu = line.partition(":")[2].strip()
            break
    load = f"load {os.getloadavg()[0]:.1f} before" if hasattr(os, "getloadavg") else ""
    parts = [f"{cores} cores", cpu, f"Python {platform.python_version()}", *versions(distributions), load]
    return ", ".join(parts)


def versions(distributions: Sequence[str]) -> list[str]:
    """``"torch 2.9.0"`` for each of them that is installed."""
    found = []
    for name in distributions:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    return found


def print_table(title: str, head: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
    """Print a table, numbers to the right: with rich where it is installed, else in plain columns."""
    try:
        from rich.console import Console
        from rich.measure import Measurement
        from rich.table import Table
    except ImportError:
        widths = [max(len(line[column]) for line in [head, *lines]) for column in range(len(head))]
        print(title)
        for line in [head, *lines]:
            print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))
        return
    table = Table(title=title, title_justify="left")
    for column, name in enumerate(head):
        table.add_column(name, justify="left" if column == 0 else "right")
    for line in lines:
        table.add_row(*line)
    console = Console()
    whole = Measurement.get(console, console.options.update(width=1000), table).maximum
    console.width = max(console.width, whole)  # no number is cut off
    console.print(table)


def lines_of(path: Path) -> list[str]:
    """The lines of a text file; none where it cannot be read."""
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
