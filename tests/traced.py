"""Traces that tests write, and scripts that they analyze."""

from __future__ import annotations

import json
import os
import subprocess
import textwrap
from pathlib import Path

import numpy as np
import ready

import seneca.cli.analyze.inject
from seneca.cli.analyze.inject.seneca_analyze_hooks import BATCH, STEP
from seneca.cli.analyze.trace import RECORDS, Epochs

ABOUT = {
    "kind": "torch",
    "dataset": "Rows",
    "samples": 40,
    "dataset_number": 0,
    "batch_size": 4,
    "num_workers": 1,
    "prefetch_factor": 2,
}


def steps(waits, compute, cpu=0.0, begin=100.0):
    """The records of an epoch whose steps wait so long, and then compute so long with so much CPU."""
    rows = np.zeros(len(waits), RECORDS)
    rows["kind"], rows["iterator"], rows["samples"] = STEP, 1, -1
    rows["wall"] = waits
    rows["begin"] = begin + np.concatenate([[0.0], np.cumsum(np.asarray(waits) + compute)[:-1]])
    rows["cpu"] = rows["others"] = cpu * np.arange(len(waits))
    return rows


def batches(count, cpu, blocked=0.0, delay=0.0, others=0.0, samples=4):
    """The records of batches that are alike."""
    rows = np.zeros(count, RECORDS)
    rows["kind"], rows["samples"] = BATCH, samples
    rows["cpu"], rows["delay"], rows["others"] = cpu, delay, others
    rows["wall"] = cpu + blocked + delay + others
    return rows


def epochs(*of_steps, made=None, **about):
    """What a loader did."""
    made = batches(0, 0.0) if made is None else made
    return Epochs(1, about.pop("rank", None), ABOUT | about, list(of_steps), made)


def write(folder, pid, records=None, *events):
    """The files of one process in a trace."""
    if events:
        (folder / f"{pid}.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    if records is not None:
        (folder / f"{pid}.records").write_bytes(records.tobytes() + bytes(RECORDS.itemsize * 3))


def iterator(number=1, workers=(), **about):
    """The event of an iterator that is new."""
    event = {"what": "iterator", "at": 0.0, "number": number, "workers": list(workers), "rank": None}
    return {**event, **ABOUT, **about}


TORCH = {"what": "torch", "at": 0.0, "version": "2.13", "missing": [], "rank": None, "schedstat": True}
PYTHON = {"what": "python", "at": 0.0}

INJECTED = os.path.dirname(seneca.cli.analyze.inject.__file__)
# A fork of ready.py has torch's loader already. The hooks wait for a script that imports it.
BEGIN = f"""\
import runpy, sys
if "seneca_analyze_hooks" not in sys.modules:
    for name in [name for name in sys.modules if name.startswith("torch.utils.data")]:
        del sys.modules[name]
    runpy.run_path({INJECTED + "/sitecustomize.py"!r}, run_name="sitecustomize")
"""


def environment_of_trace(folder: Path, **more: str) -> dict[str, str]:
    """That in which Python sets up the hooks as it starts; the trace goes to ``folder / "trace"``."""
    return {**os.environ, "PYTHONPATH": INJECTED, "SENECA_ANALYZE_TRACE": str(folder / "trace"), **more}


def run_traced(folder: Path, script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ``script`` in ``folder`` as ``seneca analyze`` does."""
    (folder / "script.py").write_text(BEGIN + textwrap.dedent(script))
    (folder / "trace").mkdir()
    environment = environment_of_trace(folder, **environment)
    return ready.run("script.py", env=environment, cwd=folder, fresh=True)
