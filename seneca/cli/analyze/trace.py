"""The trace of a script, as :mod:`seneca.cli.analyze.inject` writes it, read and put together."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from seneca.cli.analyze.inject.seneca_analyze_hooks import BATCH, IDLE, RECORD, STEP

__all__ = ["Deep", "Epochs", "LoaderAlone", "Run", "read_trace"]

RECORDS = np.dtype(
    [
        ("kind", "<i4"),
        ("iterator", "<i4"),
        ("samples", "<i8"),
        ("begin", "<f8"),
        ("wall", "<f8"),
        ("cpu", "<f8"),
        ("delay", "<f8"),
        ("read", "<i8"),
        ("others", "<f8"),
    ]
)
assert RECORDS.itemsize == RECORD.size

ABOUT = ("kind", "dataset", "samples", "dataset_number", "batch_size", "num_workers", "prefetch_factor")


@dataclass
class Epochs:
    """The work of one loader of one process: one epoch, or several that are alike.

    Attributes:
        pid: The process of the training loop.
        rank: Of that process in its run; None: it has none.
        about: The loader: ``kind``, ``dataset``, ``samples``, ``dataset_number`` (among datasets that look
            alike), ``batch_size``, ``num_workers``, ``prefetch_factor``.
        steps: The records of the steps, one array an epoch.
        batches: The records of the batches, of all epochs together.
        idle: The records of how long the GPU had nothing to do, one array an epoch.
        causes: The seconds that Seneca's native path waited, by cause; None: the loader is not native.
        parts: The CPU seconds of each function that makes batches, by its name, in the batches that were
            timed; empty: none was.
        remedies: What would help it, by its own model, with the share that this would remove.
        advice: What helps in general, where its model cannot be asked.
        together: Whether that process is in a group with the other ranks, whose steps wait for each other.
    """

    pid: int
    rank: int | None
    about: dict[str, Any]
    steps: list[np.ndarray] = field(default_factory=list)
    batches: np.ndarray = field(default_factory=lambda: np.zeros(0, RECORDS))
    idle: list[np.ndarray] = field(default_factory=list)
    causes: dict[str, float] | None = None
    parts: dict[str, float] = field(default_factory=dict)
    remedies: list[tuple[str, float]] = field(default_factory=list)
    advice: str = ""
    together: bool = True


@dataclass
class LoaderAlone:
    """A loader that was measured alone.

    Attributes:
        workers: Its workers.
        batch_s: From one batch to the next.
        loop_cpu_s: CPU of a batch in the process of the training loop, which takes it from a worker.
        batches: The records of the batches that the workers made.
    """

    workers: int
    batch_s: float
    loop_cpu_s: float
    batches: np.ndarray


@dataclass
class Deep:
    """The measurements of the phases of ``--deep``.

    Attributes:
        event: As :mod:`seneca.cli.analyze.inject.seneca_analyze_deep` writes it.
        alone: The loader alone, with rising numbers of workers.
    """

    event: dict[str, Any]
    alone: list[LoaderAlone]


@dataclass
class Run:
    """All that a trace says.

    Attributes:
        python: The number of Python processes that were seen.
        torch: What each process wrote that has torch's loader: its version, what could not be hooked.
        epochs: The loaders that were used.
        full: Whether a process had more to write than a trace holds.
        stolen: The share of the CPU time that the hypervisor took, while processes wanted it.
        deep: What the phases of ``--deep`` measured; None: they did not come so far, or were not wanted.
        undeep: Why they failed; empty: they did not.
    """

    python: int
    torch: list[dict[str, Any]]
    epochs: list[Epochs]
    full: bool
    stolen: float = 0.0
    deep: Deep | None = None
    undeep: str = ""


def read_trace(folder: Path) -> Run:
    """Read the files of all processes. What a killed process has begun to write is left out."""
    events = {int(path.stem): list(_events(path)) for path in sorted(folder.glob("*.jsonl"))}
    records = {pid: _records(folder / f"{pid}.records") for pid in events}
    for path in folder.glob("*.records"):  # a worker may have written no event
        records.setdefault(int(path.stem), _records(path))
    written = [event for one in events.values() for event in one]
    epochs: dict[Any, Epochs] = {}
    for pid, of_process in events.items():
        rank = next((event["rank"] for event in of_process if event["what"] == "torch"), None)
        for event in of_process:
            if event["what"] == "iterator":
                _add(epochs, pid, rank, event, events=events, records=records)
    return Run(
        python=sum(event["what"] == "python" for event in written),
        torch=[event for event in written if event["what"] == "torch"],
        epochs=list(epochs.values()),
        full=any(event["what"] == "full" for event in written),
        stolen=_stolen([event for event in written if event["what"] == "host"]),
        deep=next((_deep(event, records) for event in written if event["what"] == "deep"), None),
        undeep=next((event["why"] for event in written if event["what"] == "undeep"), ""),
    )


def _deep(event: dict[str, Any], records: dict[int, np.ndarray]) -> Deep:
    nothing = np.zeros(0, RECORDS)
    return Deep(
        event,
        [
            LoaderAlone(
                one["workers"],
                one["batch_s"],
                one["loop_cpu_s"],
                np.concatenate([nothing, *(records.get(pid, nothing) for pid in one["pids"])]),
            )
            for one in event["alone"]
        ],
    )


def _stolen(written: list[dict[str, Any]]) -> float:
    if not written:
        return 0.0
    first, last = min(written, key=lambda event: event["at"]), max(written, key=lambda event: event["at"])
    busy, stolen = last["busy"] - first["busy"], last["stolen"] - first["stolen"]
    return stolen / (busy + stolen) if stolen > 0 else 0.0


def _add(
    epochs: dict[Any, Epochs],
    pid: int,
    rank: int | None,
    event: dict[str, Any],
    *,
    events: dict[int, list[dict[str, Any]]],
    records: dict[int, np.ndarray],
) -> None:
    """Add what an iterator did to what the others of its loader did: those that are alike."""
    about = {name: event[name] for name in ABOUT}
    one = epochs.setdefault((pid, *about.values()), Epochs(pid, rank, about, together=False))
    if event["rank"] is not None:
        one.rank, one.together = event["rank"], True
    number, own, of_process = event["number"], records[pid], events[pid]
    steps = own[own["kind"] == STEP]
    own = own[own["iterator"] == number]
    ends = [end["at"] for end in of_process if end["what"] == "end" and end["iterator"] == number]
    ends = sorted(ends + _pauses(steps, number))
    one.steps += _by_epoch(own[own["kind"] == STEP], ends)
    one.idle += _by_epoch(own[own["kind"] == IDLE], ends)
    made = [own[own["kind"] == BATCH]]
    for worker in event["workers"]:
        made.append(records.get(worker, np.zeros(0, RECORDS)))
    one.batches = np.concatenate([one.batches, *made])
    for source, iterator in [(pid, number), *((worker, 0) for worker in event["workers"])]:
        for name, seconds in _parts(events.get(source, []), iterator).items():
            one.parts[name] = one.parts.get(name, 0.0) + seconds
    for cause in of_process:
        if cause["what"] == "causes" and cause["iterator"] == number:
            one.causes = one.causes or {}
            for name, seconds in cause["seconds"].items():
                one.causes[name] = one.causes.get(name, 0.0) + seconds
            one.remedies = [(what, removes) for what, removes in cause["remedies"]]
            one.advice = cause["advice"]


def _parts(written: list[dict[str, Any]], iterator: int) -> dict[str, float]:
    """What a process wrote last of the functions that make an iterator's batches: sums of all batches."""
    parts = [
        event["parts"] for event in written if event["what"] == "parts" and event["iterator"] == iterator
    ]
    return parts[-1] if parts else {}


def _pauses(steps: np.ndarray, number: int) -> list[float]:
    """When a loop took up an iterator again, after it had gone through another loader.

    That is validation amid an epoch, or after an epoch if the iterator never ends. Its time is no part of a
    step. A pause is the time between two steps in which another iterator has several. If most of the steps
    have that between them, each step uses both loaders, and there are no pauses.
    """
    begins = steps["begin"][steps["iterator"] == number]
    others = steps[steps["iterator"] != number]
    after = np.searchsorted(begins, others["begin"])  # how many of the own steps came before each
    amid = (after > 0) & (after < len(begins))
    went, times = np.unique(np.stack([others["iterator"][amid], after[amid]]), axis=1, return_counts=True)
    taken_up = np.unique(went[1][times > 1])
    return begins[taken_up].tolist() if 2 * len(taken_up) < len(begins) else []


def _by_epoch(records: np.ndarray, ends: list[float]) -> list[np.ndarray]:
    """The records of each epoch. Persistent workers' iterator has several, and a pause divides one."""
    parts = np.split(records, np.searchsorted(records["begin"], ends))
    return [part for part in parts if len(part)]


def _events(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            return  # the process was killed while it wrote this line


def _records(path: Path) -> np.ndarray:
    if not path.exists():
        return np.zeros(0, RECORDS)
    data = path.read_bytes()
    records = np.frombuffer(data[: len(data) // RECORD.size * RECORD.size], RECORDS)
    return records[records["kind"] != 0]
