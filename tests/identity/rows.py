"""Pairs of jobs in one line each: a dataset as source, and what differs. Each job is a process of its own."""

from __future__ import annotations

import os
import textwrap
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine import Process
from pairs import Side

from seneca.data.support import inspect_dataset
from seneca.data.traits import Traits

HEAD = """
    import argparse, dataclasses, datetime, functools, os, pathlib, random, sys, threading, time, types
    import numpy as np, torch
    from pathlib import Path
"""


@dataclass(frozen=True)
class Row:
    """A pair of jobs.

    Args:
        name: Of the row.
        source: The module of both jobs, which defines ``D``. It may name ``FILE``, a path that both have, and
            ``K``, ``LR`` and ``SIZE`` if the job sets them.
        a, b: Statements that job A, or B, runs before it imports the module.
        named: A part of the name by which people learn what differs; None: any will do.
        prepare: Called in each job before that.
    """

    name: str
    source: str
    a: str = ""
    b: str = ""
    named: str | None = None
    prepare: Callable[[Side], Any] = lambda side: None

    def __str__(self) -> str:
        return self.name.replace(" ", "-")


def dataset(item: str, init: str = "", more: str = "", before: str = "") -> str:
    """The source of a dataset: what ``__getitem__`` does with ``i``, ``__init__``, other methods, a head."""
    lines = [
        textwrap.dedent(before),
        "class D(torch.utils.data.Dataset):",
        "    def __len__(self): return 96",
    ]
    if init:
        lines += ["    def __init__(self):", textwrap.indent(textwrap.dedent(init), " " * 8)]
    lines += [textwrap.indent(textwrap.dedent(more), " " * 4), "    def __getitem__(self, i):"]
    return "\n".join([*lines, textwrap.indent(textwrap.dedent(item), " " * 8), ""])


def compare_jobs(row: Row, folder: Path) -> tuple[bool, set[str], str]:
    """Let both jobs inspect their datasets.

    Returns:
        Whether they would share all, the names of the parts that differ, and how B's differs from others.
    """
    (folder / "both").mkdir()
    found = []
    for name in "AB":
        (folder / name).mkdir()
        with Process(_job, row, Side(name, folder / name, folder / "both")) as job:
            found.append(job.receive())
            job.join()
    (a, _), (b, text) = found
    differ = {part for part in {**a.parts, **b.parts} if a.parts.get(part) != b.parts.get(part)}
    assert a.like == b.like
    return a.kind == b.kind, differ, text


def _job(pipe: Process, row: Row, side: Side) -> None:
    os.chdir(side.both)
    warnings.simplefilter("ignore")
    row.prepare(side)
    values: dict[str, Any] = {}
    statements = side.pick(row.a, row.b)
    if statements:
        exec(textwrap.dedent(HEAD) + statements, values)
    constants = "".join(f"{name} = {values[name]!r}\n" for name in ("K", "LR", "SIZE") if name in values)
    file = f"FILE = {str(side.both / 'f.txt')!r}\n"
    side.module("data", textwrap.dedent(HEAD) + constants + file + textwrap.dedent(row.source))
    import data

    support = inspect_dataset(data.D())
    traits = Traits.of(support)
    assert traits is not None, support.why
    pipe.send((traits, support.describe_fingerprint()))
