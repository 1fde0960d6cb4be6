"""The findings of a trace: the answer in a sentence, the table of loaders, and what could not be seen."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from seneca._runtime.printable import printable
from seneca.cli.analyze.deep import predictions, profile_of_run
from seneca.cli.analyze.inject.seneca_analyze_deep import WANTED
from seneca.cli.analyze.stalls import (
    NO_MATTER,
    Rates,
    Remedy,
    Stalls,
    late_ranks,
    rates_of,
    remedies,
    stalls,
    waited_amid,
)
from seneca.cli.analyze.trace import Epochs, Run
from seneca.partition import Profile
from seneca.tuning.diagnosis import WITHOUT_MODEL

__all__ = ["Findings", "LoaderFindings", "find", "say"]

WAITS_FOR = {
    "fetch": "storage",
    "prep": "preparing",
    "cores": "a free core",
    "handover": "taking batches that are ready",
}
FORMAT = 1
LEAST_STOLEN = 0.02  # a smaller share of the CPU time that a hypervisor takes is not reported
SHORT_S = 1.0  # of a loop: what happens by chance in less time is a large share of it
MOST_PARTS, LEAST_PART = 4, 0.05  # functions that are named, and the share of preparing that one has
LEAST_LEFT = 0.001  # of the time, by the best remedy
LEAST_LATE = 0.05  # a rank that is late in a smaller share of the steps is not reported


@dataclass(frozen=True)
class LoaderFindings:
    """Findings about one loader of one process: its work, why its step waited, and what would change it."""

    epochs: Epochs
    rates: Rates
    stalls: Stalls
    remedies: list[Remedy]

    @property
    def key(self) -> tuple[Any, ...]:
        """A key that the same loader has in all ranks."""
        return tuple(self.epochs.about.values())

    @property
    def name(self) -> str:
        """The loader, as a text."""
        return _name(self.epochs)

    @property
    def is_unseen(self) -> bool:
        """Whether the loop waits for an unknown reason: no batch was traced."""
        is_traced = len(self.epochs.batches) > 0 or bool(self.rates.causes)
        return self.stalls.bottleneck != "compute" and not is_traced

    def helps(self, remedy: Remedy) -> str:
        """What a remedy would change, as a sentence."""
        now, then = self.stalls.waited, max(0.0, self.stalls.waited - remedy.removes)
        per_s = self.rates.samples_per_s
        cut = f"would cut the wait from {now:.0%} to {then:.0%} of this time"
        faster = per_s / max(LEAST_LEFT, 1.0 - remedy.removes)
        return f"{_begun(remedy.what)} {cut}: {faster:,.0f} samples/s instead of {per_s:,.0f}."

    @property
    def parts(self) -> dict[str, float]:
        """The share of preparing that each function has, from 0 to 1, the largest first."""
        total = sum(self.epochs.parts.values())
        parts = sorted(self.epochs.parts.items(), key=lambda item: -item[1])
        return {name: seconds / total for name, seconds in parts} if total else {}

    def of_preparing(self) -> str:
        """The functions that take most of preparing, as a sentence; "": not known, or it does not matter."""
        if self.stalls.prep + self.stalls.cores < NO_MATTER or self.stalls.bottleneck == "compute":
            return ""
        parts = [f"{name} {share:.0%}" for name, share in self.parts.items() if share >= LEAST_PART]
        return f"Of preparing: {', '.join(parts[:MOST_PARTS])}." if parts else ""

    @property
    def bottleneck(self) -> str | None:
        """The cause that limits its loop; None: that was not seen."""
        return None if self.is_unseen else self.stalls.bottleneck


@dataclass(frozen=True)
class Findings:
    """Findings of the trace of a script.

    Args:
        loaders: The loaders. The first is the one that took most of the time, in the rank that waited most.
        late: The share of the steps in which each rank was late; empty: there is one rank.
        notes: What could not be seen, one sentence each.
        nothing: Why there are no loaders, and what to do.
        profile: What ``--deep`` measured; None: nothing.
        also_waits: For which other loaders the same steps wait, by name, and for what share of their time.
    """

    loaders: list[LoaderFindings]
    late: dict[int, float]
    notes: list[str]
    nothing: str = ""
    profile: Profile | None = None
    also_waits: dict[str, float] = field(default_factory=dict)

    def sentence(self) -> str:
        """The answer. It is about the first loader, and names it if there are others."""
        first = self.loaders[0]
        waited = first.stalls.waited
        is_alone = len({one.name for one in self.loaders}) == 1
        step = "training step" if is_alone else f"step over {first.name}"
        if first.stalls.bottleneck == "compute":
            return f"The {step} is the limit: it waits {waited:.0%} of the time for its samples."
        ranks = {one.epochs.rank for one in self.loaders}
        where = f" of rank {first.epochs.rank}" if len(ranks) > 1 else ""
        parts = ", ".join(
            f"{getattr(first.stalls, name):.0%} for {WAITS_FOR[name]}"
            for name in sorted(WAITS_FOR, key=lambda name: -getattr(first.stalls, name))
            if getattr(first.stalls, name) >= 0.005
        )
        text = f"{waited:.0%} of the time the {step}{where} waits: {parts}."
        if first.is_unseen:
            text = f"{waited:.0%} of the time the {step}{where} waits; for what was not seen."
        for name, share in self.also_waits.items():
            text += f" It also waits {share:.0%} of the time for {name}."
        advice = "" if first.remedies else first.epochs.advice
        if first.bottleneck == "cores":
            advice = WITHOUT_MODEL["cores"]
        if advice:
            text += f" {_begun(advice)}."
        if first.remedies:
            text += f" {first.helps(first.remedies[0])}"
        return text

    def predicted(self) -> list[str]:
        """Predictions of the models from the measurements of ``--deep``, one line each."""
        if self.profile is None:
            return []
        now = self.loaders[0].rates.samples_per_s
        lines = [f"As it is {now:,.0f} samples/s; the step alone takes {self.profile.step_per_s:,.0f}."]
        for count, torch, seneca in predictions(self.profile):
            jobs = "1 job" if count == 1 else f"{count} jobs at once, together"
            lines.append(
                f"Predicted for {jobs}: {torch.samples_per_s:,.0f} with torch's loader, "
                f"{seneca.samples_per_s:,.0f} with Seneca."
            )
        return lines

    def to_json(self, command: Sequence[str], status: int) -> str:
        """The findings as text, for programs."""
        first = self.loaders[0]
        content: dict[str, Any] = {
            "version": FORMAT,
            "command": list(command),
            "status": status,
            "sentence": self.sentence(),
            "bottleneck": first.bottleneck,
            "shares": dataclasses.asdict(first.stalls),
            "also_waits": self.also_waits,
            "loaders": [
                {
                    **one.epochs.about,
                    "pid": one.epochs.pid,
                    "rank": one.epochs.rank,
                    "bottleneck": one.bottleneck,
                    "shares": dataclasses.asdict(one.stalls),
                    "samples_per_s": one.rates.samples_per_s,
                    "rates": dataclasses.asdict(one.rates),
                    "parts": one.parts,
                    "remedies": [dataclasses.asdict(remedy) for remedy in one.remedies],
                }
                for one in self.loaders
            ],
            "late_ranks": {str(rank): share for rank, share in self.late.items()},
            "notes": self.notes,
            "profile": None if self.profile is None else dataclasses.asdict(self.profile),
        }
        return json.dumps(content, indent=2) + "\n"


def find(run: Run, cores: float, *, deep: bool = False, status: int = 0) -> Findings:
    """Find why the loops of a script waited.

    Args:
        run: The trace.
        cores: The number of cores that the script may use.
        deep: Whether the phases of ``--deep`` were wanted.
        status: The status of the script.
    """
    loaders, notes = [], _notes(run)
    measured = run.deep
    for epochs in run.epochs:
        if measured is not None and _is_of(epochs, measured.event):
            epochs = _warm(epochs, measured.event["warm_at"])
        rates = rates_of(epochs, cores, run.stolen)
        if rates is not None:
            is_short = rates.seconds < SHORT_S
            loaders.append(LoaderFindings(epochs, rates, stalls(rates), [] if is_short else remedies(rates)))
        else:
            size = epochs.about["batch_size"]
            which = _name(epochs) + ("" if size is None else f", {size} sample{'s' * (size != 1)} a batch,")
            notes.append(f"a loader of {which} gave no second batch in an epoch: its steps were not timed")
    for one in loaders:
        is_torchs = one.epochs.about["kind"].startswith("torch")
        if one.is_unseen and is_torchs and not any(torch["missing"] for torch in run.torch):
            notes.append(
                f"the workers of {one.name}: they have no hooks, as if the script clears PYTHONPATH before "
                "it starts them; let it stay"
            )
    longest: dict[Any, float] = {}  # of all ranks
    for one in loaders:
        longest[one.key] = max(longest.get(one.key, 0.0), one.rates.seconds)
    loaders.sort(key=lambda one: (-longest[one.key], -one.stalls.waited))
    if loaders:
        used = [loaders[0], *(one for one, _ in _also_used(loaders))]
        most = max(used, key=lambda one: one.stalls.waited)
        loaders.sort(key=lambda one: one is not most)
    if loaders and loaders[0].rates.seconds < SHORT_S:
        notes.append(
            f"more than {loaders[0].rates.seconds:.2g} s of the loop over {loaders[0].name}: "
            "shares of so short a time say little; let the script run longer"
        )
    profile = None
    if measured is not None and loaders:
        loaders.sort(key=lambda one: not _is_of(one.epochs, measured.event))
        profile = profile_of_run(measured, loaders[0].name)
        notes += profile.notes
    elif deep:
        why = run.undeep or (
            f"no loader gave the {WANTED} batches that it needs, in all epochs together; "
            "let the script run longer, or make smaller batches"
        )
        notes.append(f"--deep measured nothing: {why}")
    nothing = "" if loaders else _why_nothing(run, status)
    also_waits: dict[str, float] = {}
    for one, share in _also_used(loaders):
        also_waits[one.name] = also_waits.get(one.name, 0.0) + share
    return Findings(loaders, _late(loaders), list(dict.fromkeys(notes)), nothing, profile, also_waits)


def _also_used(loaders: list[LoaderFindings]) -> list[tuple[LoaderFindings, float]]:
    """The other loaders that the first one's steps wait for, and the share of their time."""
    if not loaders:
        return []
    first = loaders[0]
    pairs = [
        (one, waited_amid(first.epochs, one.epochs) / first.rates.seconds)
        for one in loaders[1:]
        if one.epochs.pid == first.epochs.pid
    ]
    return [(one, share) for one, share in pairs if share >= NO_MATTER]


def _is_of(epochs: Epochs, event: dict[str, Any]) -> bool:
    """Whether they are those of the loader that ``--deep`` measured."""
    return all(epochs.about[name] == event[name] for name in ("dataset", "samples", "dataset_number"))


def _warm(epochs: Epochs, warm_at: float) -> Epochs:
    """The epochs, without the steps of the warm-up."""

    def later(parts: list[np.ndarray]) -> list[np.ndarray]:
        return [part for one in parts if len(part := one[one["begin"] >= warm_at])]

    return dataclasses.replace(epochs, steps=later(epochs.steps), idle=later(epochs.idle))


def _begun(sentence: str) -> str:
    return sentence[0].upper() + sentence[1:]


def _name(epochs: Epochs) -> str:
    about = epochs.about
    size = "" if about["samples"] is None else f" of {about['samples']:,}"
    number = f", the {_nth(about['dataset_number'] + 1)}" if about["dataset_number"] else ""
    return f"{about['dataset']}{size}{number}"


def _nth(number: int) -> str:
    last = 0 if number % 100 in (11, 12, 13) else number % 10
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(last, 'th') }"


def _late(loaders: list[LoaderFindings]) -> dict[int, float]:
    """The share of late batches of each rank, for the loader that took most of the time."""
    alike: dict[int, Epochs] = {}
    for one in loaders:
        if one.epochs.rank is not None and one.epochs.together and one.key == loaders[0].key:
            alike.setdefault(one.epochs.rank, one.epochs)
    return late_ranks(alike) if len(alike) > 1 else {}


def _notes(run: Run) -> list[str]:
    notes = []
    missing = sorted({name for one in run.torch for name in one["missing"]})
    if missing:
        version = run.torch[0]["version"]
        notes.append(f"torch {version} has no {', '.join(missing)}: what workers do was not seen")
    if any(not one["schedstat"] for one in run.torch):
        notes.append("there is no /proc/thread-self/schedstat: waiting for a core counts as storage")
    if run.stolen >= LEAST_STOLEN:
        notes.append(
            f"the hypervisor took {run.stolen:.0%} of the CPU time, for whom is not known: it counts as cores"
        )
    if run.full:
        notes.append("the run was longer than a trace holds: its end was not seen")
    return notes


def _why_nothing(run: Run, status: int) -> str:
    if run.python == 0:
        return (
            "no Python of the script was seen: python -S, -E and -I, and programs that clear PYTHONPATH, "
            "leave out the hooks; start it without"
        )
    if not run.torch:
        return "the script did not import torch.utils.data: there is no loader to analyze"
    if not run.epochs:
        return "the script iterated over no torch.utils.data.DataLoader: there is no loader to analyze"
    why = "no loader gave more than one batch in an epoch"
    return f"{why}: let the script run longer" if status == 0 else f"{why} before the script failed"


def say(found: Findings) -> None:
    """Print the findings to stderr, where they do not mix with the script's own output."""
    console = Console(stderr=True, highlight=False, markup=False)
    if not console.is_terminal:
        console.width = 200  # a file has no edge
    console.print(f"\nseneca analyze: {printable(found.sentence())}")
    first = found.loaders[0]
    for line in [*map(first.helps, first.remedies[1:]), first.of_preparing()]:
        if line:
            console.print(f"  {printable(line)}")
    table = Table(box=None, pad_edge=False)
    ranked = any(one.epochs.rank is not None for one in found.loaders)
    columns = ("loader", *(("rank",) if ranked else ()), "workers", "steps", "samples/s")
    for column in (*columns, "waits", "storage", "preparing", "cores", "handover", "cpu ms", "blocked ms"):
        table.add_column(column, justify="left" if column == "loader" else "right", no_wrap=True)
    for one in found.loaders:
        rates, shares = one.rates, one.stalls
        unseen = not rates.cpu_s + rates.blocked_s
        table.add_row(
            printable(one.name),
            *((str(one.epochs.rank),) if ranked else ()),
            str(rates.workers),
            str(rates.steps),
            f"{rates.samples_per_s:,.0f}",
            *(f"{share:.0%}" for share in (shares.waited, *(getattr(shares, name) for name in WAITS_FOR))),
            "-" if unseen else f"{rates.cpu_s * 1e3:.1f}",
            "-" if unseen else f"{rates.blocked_s * 1e3:.1f}",
        )
    console.print(table)
    for rank, share in found.late.items():
        if share >= LEAST_LATE:
            console.print(f"Rank {rank} is late in {share:.0%} of the steps; the others wait for it.")
    for line in found.predicted():
        console.print(printable(line))
    for note in found.notes:
        console.print(f"Not seen: {printable(note)}.")
