"""``seneca check``: which pictures below a folder are broken, and why."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import sys
import threading
import time
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from seneca._runtime.enabled import off_because
from seneca._runtime.user_cache import user_cache
from seneca.cli.paths import cannot_list, cannot_write
from seneca.cli.planning.what_if import show_bytes, show_rate
from seneca.data.file_verdicts import FileVerdicts
from seneca.tuning.host import cores

if TYPE_CHECKING:
    from seneca.data.broken import Found

__all__ = ["BadCheck", "Tally", "as_json", "lines", "run", "verdicts_path"]

SAVE_EVERY_S = 2.0  # so much work is lost if the process is killed
SHOW_EVERY_S = 0.1
LARGE_PIXELS = 1_000_000  # a picture with more is named as large: models take some 224 x 224 of it


class BadCheck(ValueError):
    """The folder cannot be checked. The message is one line that says why."""


@dataclass
class Tally:
    """The findings so far. ``checked`` files were read now; the others were known."""

    began: float = field(default_factory=time.monotonic)
    took_s: float = 0.0
    files: int = 0
    checked: int = 0
    checked_bytes: int = 0
    formats: Counter[str] = field(default_factory=Counter)
    pixels: int = 0
    progressive: int = 0
    large: int = 0
    large_pixels: int = 0
    broken: list[Found] = field(default_factory=list)

    def add(self, found: Found) -> None:
        """Count one finding of :func:`seneca.data.broken.judge_all`."""
        self.files += 1
        if not found.known:
            self.checked += 1
            self.checked_bytes += found.size_bytes
        verdict = found.verdict
        if verdict.reason is not None:
            self.broken.append(found)
            return
        self.formats[verdict.format or "unknown"] += 1
        self.pixels += verdict.pixels
        self.progressive += verdict.progressive
        if verdict.pixels > LARGE_PIXELS:
            self.large += 1
            self.large_pixels += verdict.pixels

    def read_clock(self) -> float:
        """Take the time since the beginning, and return the seconds."""
        self.took_s = time.monotonic() - self.began
        return self.took_s

    @property
    def files_per_s(self) -> float:
        """How many files were read a second."""
        return self.checked / self.took_s if self.took_s else 0.0

    @property
    def bytes_per_s(self) -> float:
        """How many bytes of files were read a second."""
        return self.checked_bytes / self.took_s if self.took_s else 0.0


def verdicts_path(folder: Path) -> Path:
    """The file that keeps what was found below a folder, under every name of that folder."""
    name = hashlib.blake2b(os.fsencode(folder.resolve()), digest_size=8).hexdigest()
    return user_cache() / "checks" / f"{name}.db"


def run(folder: Path, *, workers: int | None, max_pixels: int | None, fresh: bool, to: Path | None) -> int:
    """Check every picture below a folder, and print the broken ones in the order of their paths.

    Args:
        folder: Any tree of picture files.
        workers: Threads that decode; None: as many as this process may use cores.
        max_pixels: A picture with more pixels is broken. None: only one that is beyond Pillow's limit.
        fresh: Whether to forget what earlier checks found.
        to: A file to which :func:`as_json` is written; None: no file.

    Returns:
        The status. 0: no picture is broken. 1: some are. 130: Ctrl-C was pressed.

    Raises:
        BadCheck: The folder or ``to`` cannot be used.
        OSError: ``to`` cannot be written.
    """
    _refuse_bad_use(folder, to)
    tally = Tally()
    verdicts = FileVerdicts(verdicts_path(folder), _terms(max_pixels), fresh=fresh)
    try:
        _judge(folder, verdicts, tally, workers, max_pixels)
    except KeyboardInterrupt:
        verdicts.close()
        print(_interrupted(tally, verdicts.problem), file=sys.stderr)
        return 130
    except MemoryError:
        raise BadCheck("there is no memory to decode a picture; try fewer --workers") from None
    finally:
        verdicts.close()
    if verdicts.problem is not None:
        print(f"seneca check: the next check begins anew: {verdicts.problem}", file=sys.stderr)
    if tally.files == 0:
        raise BadCheck(f"no pictures or sounds below {folder}: no file has the name of one, as .jpg or .flac")
    if to is not None:
        to.write_text(json.dumps(as_json(tally), indent=1) + "\n")
    for line in lines(tally):
        print(line)
    return 1 if tally.broken else 0


def _refuse_bad_use(folder: Path, to: Path | None) -> None:
    if (why := off_because()) is not None:
        raise BadCheck(f"there is nothing to check with here: {why}")
    if (why := cannot_list(folder)) is not None:
        raise BadCheck(why)
    if to is not None and (why := cannot_write(to)) is not None:
        raise BadCheck(f"--json: {why}")


def _terms(max_pixels: int | None) -> str:
    """The versions and limits on which a verdict depends, besides the file."""
    from PIL import __version__ as pillow

    return f"seneca {importlib.metadata.version('seneca-loader')}, Pillow {pillow}, {max_pixels} pixels"


def _judge(
    folder: Path, verdicts: FileVerdicts, tally: Tally, workers: int | None, max_pixels: int | None
) -> None:
    # Imported here only: where Seneca is off, there may be no native core.
    from seneca.data.broken import judge_all, picture_files

    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
    task = progress.add_task("", total=None)

    def count() -> None:
        progress.update(task, total=sum(error is None for _, error in picture_files(str(folder))))

    if not progress.disable:  # the time that is left is known when all files are counted
        threading.Thread(target=count, daemon=True).start()
    saved = shown = time.monotonic()
    with progress, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow's: they name no file
        for found in judge_all(str(folder), verdicts, workers=workers or cores(), max_pixels=max_pixels):
            tally.add(found)
            now = time.monotonic()
            if now - shown > SHOW_EVERY_S:
                shown = now
                tally.read_clock()
                progress.update(task, completed=tally.files, description=_so_far(tally))
            if now - saved > SAVE_EVERY_S:
                saved = now
                verdicts.save()
    tally.read_clock()


def _so_far(tally: Tally) -> str:
    return (
        f"{_count(tally.files, 'file')}, {len(tally.broken):,} broken; "
        f"{tally.files_per_s:,.0f} files/s, {show_rate(tally.bytes_per_s)}"
    )


def _interrupted(tally: Tally, problem: str | None) -> str:
    rest = "the same command goes on from there" if problem is None else f"nothing is kept: {problem}"
    return (
        f"seneca check: interrupted after {_count(tally.files, 'file')}, {len(tally.broken):,} broken; {rest}"
    )


def as_json(tally: Tally) -> dict[str, Any]:
    """The result, as ``--json`` writes it.

    Returns:
        A dict with these keys:

        * ``files``: how many there are. ``checked`` of them were read now; ``known`` are unchanged since an
          earlier check.
        * ``took_s``, ``checked_bytes``, ``files_per_s``, ``bytes_per_s``: of the files that were read now.
        * ``formats``: the number of good pictures of each format.
        * ``progressive``: the number of good progressive JPEGs.
        * ``mean_pixels``: of good pictures.
        * ``large``: the number of good pictures above a million pixels. ``large_mean_pixels``: of these.
        * ``broken``: a dict of ``path``, ``reason`` and ``size`` in bytes for each, ordered by path.
    """
    good = tally.formats.total()
    return {
        "files": tally.files,
        "checked": tally.checked,
        "known": tally.files - tally.checked,
        "took_s": tally.took_s,
        "checked_bytes": tally.checked_bytes,
        "files_per_s": tally.files_per_s,
        "bytes_per_s": tally.bytes_per_s,
        "formats": dict(sorted(tally.formats.items())),
        "progressive": tally.progressive,
        "mean_pixels": tally.pixels / good if good else 0.0,
        "large": tally.large,
        "large_mean_pixels": tally.large_pixels / tally.large if tally.large else 0.0,
        "broken": [
            {"path": one.path, "reason": one.verdict.reason, "size": one.size_bytes}
            for one in _in_order(tally.broken)
        ],
    }


def lines(tally: Tally) -> list[str]:
    """The result, for people: a line for each broken file, and a summary."""
    shown = [
        f"{_printable(one.path)}: {_printable(one.verdict.reason or '')}" for one in _in_order(tally.broken)
    ]
    shown.append(f"{_count(tally.files, 'file')}, {len(tally.broken):,} broken")
    shown.append(
        f"  read now     {tally.checked:,} with {show_bytes(tally.checked_bytes)} in {tally.took_s:,.1f} s: "
        f"{tally.files_per_s:,.0f} files/s, {show_rate(tally.bytes_per_s)}"
    )
    if known := tally.files - tally.checked:
        shown.append(f"  not read     {known:,}, unchanged since they were read; --fresh reads all")
    if good := tally.formats.total():
        formats = ", ".join(f"{name} {count:,}" for name, count in tally.formats.most_common())
        pixels = f"; {_millions(tally.pixels / good)} pixels on average" if tally.pixels else ""
        shown.append(f"  formats      {formats}{pixels}")
    if tally.progressive:
        shown.append(f"  progressive  {_count(tally.progressive, 'JPEG')}, several times slower to decode")
    if tally.large:
        mean = _millions(tally.large_pixels / tally.large)
        shown.append(
            f"  large        {_count(tally.large, 'picture')} above a million pixels, {mean} on average; "
            "smaller ones decode faster"
        )
    return shown


def _in_order(broken: list[Found]) -> list[Found]:
    """By folder, then by name: the order of a dataset's samples."""
    return sorted(broken, key=lambda one: os.path.split(one.path))


def _printable(text: str) -> str:
    """Text on one line. A name may hold anything: line feeds, escape sequences, bytes that are no UTF-8."""
    return text if text.isprintable() else ascii(text)


def _millions(pixels: float) -> str:
    return f"{pixels / 1e6:.3g} million"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
