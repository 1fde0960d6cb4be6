"""Starts the script with the hooks, passes signals on, and says what was seen."""

from __future__ import annotations

import contextlib
import datetime
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType

from seneca._runtime.cgroups import cpu_quota
from seneca.cli.analyze import inject
from seneca.cli.analyze.inject.seneca_analyze_deep import CORES
from seneca.cli.analyze.report import find, say
from seneca.cli.analyze.timeline import timeline_page
from seneca.cli.analyze.trace import read_trace
from seneca.cli.paths import cannot_write
from seneca.tuning import host

__all__ = ["CannotAnalyze", "run"]

PASSED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
FROM_TERMINAL = (signal.SIGINT, signal.SIGQUIT)


class CannotAnalyze(Exception):
    """The script cannot be started, or shows nothing to analyze. The message is one line."""


def run(command: Sequence[str], json: Path | None, html: Path | None = None, *, deep: bool = False) -> int:
    """Run a script, and say why its training loop waits.

    Args:
        command: The script with its arguments, as it is typed.
        json: A file that gets the findings too; None: none.
        html: A file that gets them as a page with a timeline of the steps; None: none.
        deep: Whether to measure step and loader apart after some steps, which ends the run.

    Returns:
        The status of the script, as a shell tells it: 128 more than the signal that ended it.

    Raises:
        CannotAnalyze: The script cannot be started, the file cannot be written, or the script ended well and
            had no loader that was seen.
        OSError: The file cannot be written after all.
    """
    for file in (json, html):
        if file is not None and (why := cannot_write(file)) is not None:
            raise CannotAnalyze(why)
    began = datetime.datetime.now().astimezone()
    trace = Path(tempfile.mkdtemp(prefix="seneca-analyze-"))
    try:
        status = _status_of(command, trace, deep=deep)
        found = find(read_trace(trace), _cores(), deep=deep)
        if not found.loaders:
            if status == 0:
                raise CannotAnalyze(found.nothing)
            print(f"seneca analyze: {found.nothing}", file=sys.stderr)
            return status
        say(found)
        if json is not None:
            json.write_text(found.to_json(command, status))
        if html is not None:
            when = f"{began:%Y-%m-%d %H:%M:%S %Z}, {platform.node() or 'this host'}"
            html.write_text(timeline_page(found, command, when), encoding="utf-8", errors="replace")
        return status
    finally:
        shutil.rmtree(trace, ignore_errors=True)


def _status_of(command: Sequence[str], trace: Path, *, deep: bool) -> int:
    folder = os.path.dirname(os.path.abspath(inject.__file__))
    before = os.environ.get("PYTHONPATH")
    environment = {
        **os.environ,
        "PYTHONPATH": folder if not before else os.pathsep.join((folder, before)),
        "SENECA_ANALYZE_TRACE": str(trace),
    }
    environment.pop(CORES, None)
    if deep:
        environment[CORES] = str(host.cores())
    try:
        script = subprocess.Popen(command, env=environment)
    except OSError as error:
        raise CannotAnalyze(
            f"cannot start {command[0]!r}: {error.strerror}; give the whole command, as `python train.py`"
        ) from None
    with _signals_passed_on(script):
        status = script.wait()
    return 128 - status if status < 0 else status


@contextlib.contextmanager
def _signals_passed_on(script: subprocess.Popen[bytes]) -> Iterator[None]:
    """A terminal gives Ctrl-C and Ctrl-\\ to the script itself. The command waits for what it makes of it."""

    def pass_on(number: int, frame: FrameType | None) -> None:
        if script.poll() is None:
            script.send_signal(number)

    before = {number: signal.signal(number, pass_on) for number in PASSED_ON}
    for number in FROM_TERMINAL:
        before[number] = signal.signal(number, lambda number, frame: None)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _cores() -> float:
    own = len(os.sched_getaffinity(0))
    quota = cpu_quota()
    return own if quota is None else min(own, quota)
