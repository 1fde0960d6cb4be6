"""``seneca plan``, from its options to the printed text. :mod:`seneca.cli.planning.plan` has the parts."""

from __future__ import annotations

import dataclasses
import json as json_module
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from seneca.cli.paths import in_a_line
from seneca.cli.planning.plan import curve_of, plan_json, plan_of, reads_ahead, show_plan
from seneca.cli.planning.profile import BadProfiling, measured
from seneca.cli.planning.what_if import BadWhatIf, WhatIf, parse_what_if
from seneca.options import parse_bytes
from seneca.partition import BOTTLENECK, PAPER, TORCH, Jobs, Profile, ProfileError

__all__ = ["BadPlan", "Wanted", "run"]

MODELS = {model.name: model for model in (BOTTLENECK, PAPER, TORCH)}
OF_LOADERS = {"seneca": BOTTLENECK, "torch": TORCH}
DEFAULT_BATCH = 256


class BadPlan(ValueError):
    """The plan cannot be made. The message is one line that says why."""


@dataclass(frozen=True)
class Wanted:
    """The options of ``seneca plan``, as they were written."""

    folder: Path | None
    profile: Path | None
    jobs: int
    step: str | None
    threads: int | None
    batch: int | None
    memory: str
    transform: str | None
    what_if: str | None
    model: str | None
    fresh: bool


def run(wanted: Wanted, *, json: bool) -> None:
    """Plan and print.

    The profile of a script says how many workers it has, how large its batches are, and which loader it uses.
    What the options say counts more.

    Raises:
        BadPlan: An option cannot be used, or a file cannot be read.
    """
    if wanted.model is not None and wanted.model not in MODELS:
        raise BadPlan(f"--model {wanted.model} is not {', '.join(list(MODELS)[:-1])} or {list(MODELS)[-1]}")
    try:
        what_if = None if wanted.what_if is None else parse_what_if(wanted.what_if)
        console = Console(stderr=json)  # keeps the progress bar out of the JSON
        profile = _profile(wanted, console)
        jobs = Jobs(
            wanted.jobs,
            step_per_s=profile.step_per_s,
            batch_size=wanted.batch or profile.batch_size or DEFAULT_BATCH,
            threads=profile.workers if wanted.threads is None else wanted.threads,
            reads_ahead=reads_ahead(profile),
        )
        model = MODELS[wanted.model or ("bottleneck" if profile.item is None else "torch")]
        now = plan_of(profile, jobs, model)
        instead = None
        of_other = OF_LOADERS[what_if.loader] if what_if is not None and what_if.loader else model
        if what_if is not None and (what_if.fixed or what_if.loader):
            instead = plan_of(*what_if.given(profile, jobs), of_other)
        points = curve_of(what_if or WhatIf({}), profile, jobs, of_other)
    except BadWhatIf as error:
        raise BadPlan(f"--what-if: {error}") from None
    except (BadProfiling, ProfileError, ValueError) as error:
        raise BadPlan(str(error)) from None
    if json:
        print(json_module.dumps(plan_json(now, instead, what_if, points), indent=2))
    else:
        show_plan(now, instead, what_if, points, console)


def _profile(wanted: Wanted, console: Console) -> Profile:
    """The profile, from the file or from the folder."""
    if (wanted.folder is None) == (wanted.profile is None):
        raise BadPlan("give either a folder of pictures or --profile FILE")
    if wanted.folder is not None:
        return measured(
            wanted.folder,
            console,
            transform=wanted.transform,
            step=wanted.step,
            batch=wanted.batch or DEFAULT_BATCH,
            memory=wanted.memory,
            fresh=wanted.fresh,
        )
    assert wanted.profile is not None
    try:
        profile = Profile.load(wanted.profile)
    except OSError as error:
        raise BadPlan(in_a_line(error)) from None
    if wanted.memory != "auto":
        profile = profile.with_memory(parse_bytes(wanted.memory))
    if wanted.step is not None:
        try:
            profile = dataclasses.replace(profile, step_per_s=float(wanted.step))
        except ValueError:
            raise BadPlan(f"--step {wanted.step}: with --profile it is samples a second, above 0") from None
    return profile
