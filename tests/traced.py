"""Traces that tests write, and scripts that they analyze."""

from __future__ import annotations

import json

import numpy as np

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
