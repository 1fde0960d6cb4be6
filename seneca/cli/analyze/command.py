"""Starts the script with the hooks, passes signals on, and says what was seen."""

from __future__ import annotations

import datetime
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

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
SI_KERNEL = 0x80  # siginfo(2): no process has sent the signal


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
        The status of the script, as a shell has it: 128 more than the signal that ended it.

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
        found = find(read_trace(trace), _cores(), deep=deep, status=status)
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
    path = os.environ.get("PYTHONPATH")
    environment = {
        **os.environ,
        "PYTHONPATH": folder if not path else os.pathsep.join((folder, path)),
        "SENECA_ANALYZE_TRACE": str(trace),
    }
    environment.pop(CORES, None)
    if deep:
        environment[CORES] = str(host.cores())
    handled = {*PASSED_ON, *FROM_TERMINAL, signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, handled)
    try:
        script = subprocess.Popen(
            command, env=environment, preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, before)
        )
        while script.poll() is None:
            info = signal.sigwaitinfo(handled)
            if _is_for_script(info):
                script.send_signal(info.si_signo)
    except OSError as error:
        raise CannotAnalyze(
            f"cannot start {command[0]!r}: {error.strerror}; give the whole command, as `python train.py`"
        ) from None
    finally:
        while signal.sigtimedwait(handled, 0) is not None:
            pass  # they were for the script, which has ended
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return 128 - script.returncode if script.returncode < 0 else script.returncode


def _is_for_script(info: signal.struct_siginfo) -> bool:
    """Whether a signal has to be passed on to the script.

    A terminal gives Ctrl-C and Ctrl-\\ to the script too. A program of this process group may signal the
    whole group, as GNU ``timeout`` does. The rule is that of ``sudo``.
    """
    if info.si_signo in PASSED_ON:
        return True
    if info.si_signo not in FROM_TERMINAL or info.si_code == SI_KERNEL:
        return False
    try:
        return info.si_pid == 0 or os.getpgid(info.si_pid) != os.getpgid(0)
    except ProcessLookupError:  # the sender has ended
        return True


def _cores() -> float:
    own = len(os.sched_getaffinity(0))
    quota = cpu_quota()
    return own if quota is None else min(own, quota)
