"""``seneca profile``: measure this host with a folder of pictures, and show the result."""

from __future__ import annotations

import importlib
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from seneca._runtime.enabled import off_because
from seneca._runtime.printable import printable
from seneca.cli.paths import cannot_list, in_a_line
from seneca.cli.planning.what_if import show_bytes, show_rate
from seneca.errors import SenecaError
from seneca.partition import Cost, Profile, Size

__all__ = ["BadProfiling", "measured", "profile_table", "transform_named"]


class BadProfiling(ValueError):
    """The measurement cannot be made. The message is one line that says why."""


def measured(
    folder: Path,
    console: Console,
    *,
    transform: str | None = None,
    step: str | None = None,
    batch: int = 256,
    memory: str = "auto",
    fresh: bool = False,
) -> Profile:
    """The profile of a folder, recalled or measured, with a progress bar on a terminal.

    Args:
        folder: A folder of class folders of pictures.
        console: Where the progress bar is shown.
        transform: ``module:name`` or ``file.py:name``; None: the usual transform of image classifiers.
        step: A number of samples a second, or a script that defines ``step(images, labels)``; None: not
            known.
        batch: The size of the batches for ``step``.
        memory: Memory for payloads.
        fresh: Whether to measure even if there is an earlier measurement.

    Raises:
        BadProfiling: An argument is not as described, or a file cannot be read.
    """
    if (why := off_because()) is not None:
        raise BadProfiling(f"there is nothing to measure here: {why}")
    if (why := cannot_list(folder)) is not None:
        raise BadProfiling(why)
    from seneca.tuning.profile import profile

    progress = Progress(
        TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), console=console, transient=True
    )
    task = progress.add_task("", total=1.0)
    try:
        arguments = {"transform": transform_named(transform) if transform else None, "step": _step(step)}
        with progress:
            return profile(
                folder,
                **arguments,
                batch_size=batch,
                cache_bytes=memory,
                fresh=fresh,
                progress=lambda share, what: progress.update(task, completed=share, description=what),
            )
    except (OSError, ValueError, SenecaError) as error:
        raise BadProfiling(in_a_line(error)) from None


def _step(step: str | None) -> float | Callable[..., Any] | None:
    if step is None:
        return None
    try:
        return float(step)
    except ValueError:
        pass
    if not Path(step).is_file():
        raise BadProfiling(f"--step {step} is neither a number of samples a second nor a script")
    found = _run(Path(step), "--step").get("step")
    if not callable(found):
        raise BadProfiling(f"--step {step} defines no function step(images, labels)")
    return found


def transform_named(place: str) -> Any:
    """Load the object that ``--transform module:name`` or ``--transform file.py:name`` names.

    Raises:
        BadProfiling: It is neither, or there is no such thing.
    """
    where, _, name = place.rpartition(":")
    if not where:
        raise BadProfiling(f"--transform {place} is not file.py:name or module:name")
    if where.endswith(".py"):
        if not Path(where).is_file():
            raise BadProfiling(f"--transform {place}: there is no file {where}")
        found = _run(Path(where), "--transform")
    else:
        sys.path.insert(0, "")
        try:
            found = vars(importlib.import_module(where))
        except ImportError as error:
            raise BadProfiling(f"--transform {place}: {error}") from None
        except (Exception, SystemExit) as error:  # the module may raise anything
            raise BadProfiling(f"--transform {place}: {type(error).__name__}: {error}") from None
        finally:
            if "" in sys.path:  # the module may have changed it
                sys.path.remove("")
    if name not in found:
        raise BadProfiling(f"--transform {place}: {where} has no {name}")
    return found[name]


def _run(script: Path, option: str) -> dict[str, Any]:
    """The names that a user's script defines. It does not run as ``__main__``; therefore it need not
    train."""
    try:
        return runpy.run_path(str(script), run_name="__seneca__")
    except (Exception, SystemExit) as error:
        raise BadProfiling(f"{option} {script}: {type(error).__name__}: {error}") from None


def profile_table(profile: Profile, console: Console) -> None:
    """Print a profile as a table."""

    def line(name: str, text: str) -> None:
        console.print(f"  {name:<18}{printable(text)}", markup=False, highlight=False, soft_wrap=True)

    cores = "1 core" if profile.cores == 1 else f"{profile.cores} cores"
    console.print(
        f"{profile.samples:,} samples on {cores}, {profile.measured_samples:,} of them examined"
        f" in {profile.took_s:.1f} s",
        highlight=False,
    )
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 2))
    for name in ("CPU time of a sample", "one thread", f"{profile.cores} threads", "scales"):
        table.add_column(name, justify="left" if not table.columns else "right", no_wrap=True)
    stages = STAGES | (RECODED_STAGES if profile.recodable else {})
    for name, what in stages.items():
        cost: Cost = getattr(profile, name)
        table.add_row(f"  {what}", _ms(cost.one_s), _ms(cost.all_s), f"{cost.scaling:.0%}")
    console.print(table)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 2))
    for name in ("Storage, files at a time", "bytes", "one file takes"):
        table.add_column(name, justify="left" if not table.columns else "right", no_wrap=True)
    for reading in profile.storage:
        table.add_row(f"  {reading.readers}", show_rate(reading.bytes_per_s), _ms(reading.latency_s))
    console.print(table)
    line("encoded", _size(profile.encoded))
    if profile.recodable:
        line("recoded", f"{_size(profile.recoded)}, of {profile.recodable:.0%} of the pictures")
    line("decoded", f"{_size(profile.decoded)}, {profile.inflation:.2f} times as large")
    line("augmented", f"{_size(profile.augmented)}; in the batch {show_bytes(profile.batch_bytes)}")
    line("memory", f"{show_rate(profile.memory_bytes_per_s)}; {show_bytes(profile.free_memory_bytes)} free")
    line("cache", show_bytes(profile.cache_bytes))
    step = "not given" if profile.step_per_s is None else f"{profile.step_per_s:,.0f} samples/s"
    line("training step", step)
    for note in profile.notes:
        line("note", note)


STAGES = {
    "fetch": "fetch, from the page cache",
    "decode": "decode the whole",
    "augment": "augment what is decoded",
    "prepare": "decode and augment the crop",
    "batch": "batch",
}
RECODED_STAGES = {"recode": "decode, augment, recode once", "redraw": "augment what is recoded"}


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3f} ms"


def _size(size: Size) -> str:
    return f"{show_bytes(size.mean_bytes)} +- {show_bytes(size.std_bytes)}"
