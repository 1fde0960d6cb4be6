"""``seneca plan``: the best split, what then limits, and what more of a resource would be worth.

::

    Profile, Jobs --> solve --> now --------+
    --what-if     --> solve --> instead      +--> tables and answers, or JSON
                  --> solve ... --> curve --+
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from seneca._core.pool import READS_AHEAD
from seneca.cli.planning.what_if import QUANTITIES, WhatIf, show_bytes, show_rate
from seneca.forms import KEPT_FORMS
from seneca.partition import (
    ALONE,
    TORCH,
    Jobs,
    Model,
    Prediction,
    Profile,
    Worth,
    cores_that_help,
    curve,
    least_memory,
    refine,
    solve,
    worth,
)

__all__ = ["Plan", "answers", "plan_json", "plan_of", "reads_ahead", "show_plan"]

# The words for a resource that is the limit.
LIMITS = {
    "storage": "storage",
    "cpu": "the cores",
    "threads": "the threads that prepare",
    "workers": "the workers, which prepare and wait for storage",
    "memory bandwidth": "memory bandwidth",
    "step": "the training step",
    "cache": "the cache's bandwidth",
    "network": "the network",
    "pcie": "PCIe",
}
NOTHING = 0.005  # relative: a smaller gain counts as none
LEAST_FILLED = 0.005  # of what is filled; less is not named


def reads_ahead(profile: Profile) -> int:
    """The files that a job reads ahead: the native path's, for what it prepares in stages."""
    return READS_AHEAD if profile.staged else 0


@dataclass(frozen=True)
class Plan:
    """The answers for one host and some jobs.

    Args:
        profile: The profile of the host.
        jobs: The jobs that run at once.
        model: The name of the model that answers.
        best: The best split in whole percents.
        refined: The best split to two thousandths of a percent.
        worth: What more of each resource adds.
        least_memory: The least cache in bytes with which jobs no longer wait for storage; None: they do not
            wait now.
        cores_that_help: The number of cores beyond which one more adds nothing.
    """

    profile: Profile
    jobs: Jobs
    model: str
    best: Prediction
    refined: Prediction
    worth: Worth
    least_memory: int | None
    cores_that_help: int


def plan_of(profile: Profile, jobs: Jobs, model: Model) -> Plan:
    """Answer all questions with a model."""
    return Plan(
        profile,
        jobs,
        model.name,
        solve(profile, jobs, model=model),
        refine(profile, jobs, model=model),
        worth(profile, jobs, model=model),
        least_memory(profile, jobs, model=model),
        cores_that_help(profile, jobs, model=model),
    )


def curve_of(what_if: WhatIf, profile: Profile, jobs: Jobs, model: Model) -> list[tuple[float, Prediction]]:
    """The best split for each value of the quantity that is a range."""
    return curve(what_if.values, lambda value: what_if.given(profile, jobs, value), model=model)


def answers(plan: Plan) -> list[str]:
    """Answers in sentences to DS-Analyzer's questions: do jobs wait for storage, would more cores help?"""
    best, now, kind, more = plan.best, plan.profile.cache_bytes, "cache", 0
    if plan.model == TORCH.name:  # its only cache is the page cache, which has all free memory
        now, kind, more = plan.profile.free_memory_bytes, "free memory", plan.profile.free_memory_bytes - now
    said = [f"The limit: {LIMITS[best.limited_by]}."]
    if plan.least_memory is None:
        said.append(f"Jobs do not wait for storage with {show_bytes(now)} of {kind}.")
    else:
        said.append(
            f"Jobs wait for storage with {show_bytes(now)} of {kind}; "
            f"with {show_bytes(plan.least_memory + more)} they would not."
        )
    if best.page_cache > NOTHING and best.mix["storage"] > NOTHING:
        said.append(
            f"Of the reads from files the page cache serves {best.page_cache:.0%}, "
            "as long as nothing else takes that memory."
        )
    gain = plan.worth.core / best.samples_per_s
    if best.limited_by in ("threads", "workers"):
        said.append(f"More {best.limited_by} (num_workers) would help, before more cores do.")
    elif gain > NOTHING:
        said.append(
            f"More cores would help: one more adds {gain:.0%}; "
            f"beyond {plan.cores_that_help} another adds nothing."
        )
    else:
        said.append("More cores would not help.")
    gain = plan.worth.gb_memory / best.samples_per_s
    if gain > NOTHING:
        said.append(f"More memory would help: one GB more adds {gain:.0%}.")
    return said


def show_plan(
    plan: Plan,
    instead: Plan | None,
    what_if: WhatIf | None,
    points: list[tuple[float, Prediction]],
    console: Console,
) -> None:
    """Show sentences and tables to people, with ``instead`` beside the present state."""
    plans = [("now", plan)] + ([("instead", instead)] if instead is not None else [])
    for name, one in plans:
        for sentence in answers(one):
            lead = "" if instead is None else f"{name}: "
            console.print(lead + sentence, markup=False, highlight=False, soft_wrap=True)
        console.print()
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), show_header=instead is not None)
    table.add_column("")
    for name, _ in plans:
        table.add_column(name, justify="right", no_wrap=True)
    of_hosts = OF_HOSTS if any(one.jobs.hosts != ALONE for _, one in plans) else {}
    for name, text in (ROWS | of_hosts).items():
        table.add_row(name, *(text(one) for _, one in plans))
    console.print(table)
    if what_if is not None and what_if.over is not None:
        console.print()
        _show_curve(what_if.over, points, what_if.loader or plan.model, console)


def _show_curve(over: str, points: list[tuple[float, Prediction]], model: str, console: Console) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for name in (over, "split", "samples/s", "a job"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("limited by", no_wrap=True)
    for value, best in points:
        table.add_row(
            QUANTITIES[over].show(value),
            _split_text(model, best),
            f"{best.samples_per_s:,.0f}",
            _per_job(best),
            best.limited_by,
        )
    console.print(table)


def _per_job(best: Prediction) -> str:
    return " ".join(dict.fromkeys(f"{rate:,.0f}" for rate in best.per_job))


def _split_text(model: str, best: Prediction) -> str:
    return "-" if model == TORCH.name else str(best.split)


def _step_text(jobs: Jobs) -> str:
    paces = " ".join(dict.fromkeys("" if math.isinf(pace) else f"{pace:,.0f}" for pace in jobs.paces)).strip()
    return paces or "any"


def _filled_text(best: Prediction) -> str:
    """What the cache would hold, a line for each form, as ``345 MiB recoded``."""
    filled = [
        f"{show_bytes(best.filled_bytes[form])} {form}"
        for form in ("encoded", "recoded", "decoded", "augmented")
        if best.filled_bytes.get(form, 0.0) >= LEAST_FILLED * best.memory_bytes > 0
    ]
    return "\n".join(filled) or "nothing"


ROWS = {
    "samples of the dataset": lambda one: f"{one.profile.samples:,}",
    "cores": lambda one: f"{one.profile.cores}",
    "memory for the cache": lambda one: show_bytes(one.profile.cache_bytes),
    "storage": lambda one: show_rate(one.profile.storage_bytes_per_s),
    "jobs": lambda one: f"{one.jobs.count}",
    "training step, samples/s": lambda one: _step_text(one.jobs),
    "model": lambda one: one.model,
    "split, encoded-(recoded-)decoded-augmented": lambda one: _split_text(one.model, one.best),
    "all jobs together, samples/s": lambda one: f"{one.best.samples_per_s:,.0f}",
    "each job, samples/s": lambda one: _per_job(one.best),
    "limited by": lambda one: one.best.limited_by,
    "prepared from storage": lambda one: f"{one.best.mix['storage']:.0%}",
    "  of these in the page cache": lambda one: (
        f"{one.best.page_cache:.0%}" if one.best.mix["storage"] > 0 else "-"
    ),
    "prepared from encoded, recoded, decoded": lambda one: ", ".join(
        f"{one.best.mix[form.name.lower()]:.0%}" for form in KEPT_FORMS
    ),
    "taken from copies of other jobs": lambda one: f"{1 - one.best.prepared:.0%}",
    "the cache is filled with": lambda one: _filled_text(one.best),
    "a GB of memory more adds, samples/s": lambda one: f"{one.worth.gb_memory:,.0f}",
    "a core more adds, samples/s": lambda one: f"{one.worth.core:,.0f}",
    "100 MB/s of storage more add, samples/s": lambda one: f"{one.worth.storage_100mb_per_s:,.0f}",
}
OF_HOSTS = {
    "hosts": lambda one: f"{one.jobs.hosts.count}",
    "files that servers have room for": lambda one: f"{_served(one):.0%}",
    "all hosts together, samples/s": lambda one: f"{one.jobs.hosts.count * one.best.samples_per_s:,.0f}",
}


def _served(plan: Plan) -> float:
    return plan.jobs.hosts.served(plan.profile.samples * plan.profile.encoded.mean_bytes)


def plan_json(
    plan: Plan,
    instead: Plan | None,
    what_if: WhatIf | None,
    points: list[tuple[float, Prediction]],
) -> dict[str, Any]:
    """The whole plan for programs. Rates are in samples a second, memory in bytes, and None is no limit."""
    return {
        "model": plan.model,
        "now": _one_json(plan),
        "instead": None if instead is None else _one_json(instead),
        "curve": None
        if what_if is None or what_if.over is None
        else {
            "over": what_if.over,
            "points": [{"value": value, **_prediction_json(best)} for value, best in points],
        },
    }


def _one_json(plan: Plan) -> dict[str, Any]:
    refined = plan.refined.split
    return {
        "model": plan.model,
        "cores": plan.profile.cores,
        "cache_bytes": plan.profile.cache_bytes,
        "storage_bytes_per_s": plan.profile.storage_bytes_per_s,
        "jobs": plan.jobs.count,
        "hosts": plan.jobs.hosts.count,
        "samples_per_s_of_all_hosts": plan.jobs.hosts.count * plan.best.samples_per_s,
        "step_per_s": [_finite(pace) for pace in plan.jobs.paces],
        **_prediction_json(plan.best),
        "refined": {
            "split": dataclasses.asdict(refined),
            "samples_per_s": plan.refined.samples_per_s,
        },
        "worth": dataclasses.asdict(plan.worth),
        "least_memory_bytes": plan.least_memory,
        "cores_that_help": plan.cores_that_help,
        "answers": answers(plan),
    }


def _prediction_json(best: Prediction) -> dict[str, Any]:
    return {
        "split": str(best.split),
        "samples_per_s": best.samples_per_s,
        "per_job": list(best.per_job),
        "limited_by": best.limited_by,
        "ceilings": {name: _finite(value) for name, value in best.ceilings.items()},
        "mix": best.mix,
        "prepared": best.prepared,
        "page_cache": best.page_cache,
        "memory_bytes": best.memory_bytes,
        "filled_bytes": best.filled_bytes,
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
