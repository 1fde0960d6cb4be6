"""``memory=64GiB cores=16 jobs=1..8``: another host or other jobs, described in a text."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from seneca.options import parse_bytes
from seneca.partition import Jobs, Profile

__all__ = ["QUANTITIES", "BadWhatIf", "WhatIf", "parse_what_if", "show_bytes", "span"]

POINTS = 9  # points of a curve over more values


class Times(float):
    """A factor, written ``2x``, in place of an amount."""


class BadWhatIf(ValueError):
    """The text cannot be read as a what-if. The message is one line."""


@dataclass(frozen=True)
class Quantity:
    """A quantity that a what-if can change.

    Args:
        read: Makes a value of the text after the ``=``.
        show: Makes a text for people of a value.
        put: Puts a value into profile and jobs.
        whole: Whether the quantity has whole numbers only.
        example: An example for messages.
    """

    read: Callable[[str], float]
    show: Callable[[float], str]
    put: Callable[[Profile, Jobs, Any], tuple[Profile, Jobs]]
    whole: bool
    example: str


def _count(text: str) -> float:
    if not text.isdigit() or int(text) < 1:
        raise ValueError
    return int(text)


def _times(text: str) -> Times:
    if not text.endswith("x"):
        raise ValueError
    return Times(_pace(text[:-1]))


def _rate(text: str) -> float:
    return _times(text) if text.endswith("x") else parse_bytes(text.removesuffix("/s"))


def _network(text: str) -> float:
    """A rate as networks are sold, in bits, ``10Gb/s``; or in bytes, ``1.25GB/s``."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kMGT])(?:b/s|bit/s)", text)
    if match is None:
        return parse_bytes(text.removesuffix("/s"))
    return _pace(match[1]) * 1000.0 ** (1 + "kMGT".index(match[2])) / 8


def _show_network(bytes_per_s: float) -> str:
    return f"{bytes_per_s * 8e-9:.3g} Gb/s"


def _workers(text: str) -> float:
    return 0 if text == "0" else _count(text)


def _pace(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise ValueError
    return value


def show_bytes(amount: float) -> str:
    """Bytes as people write them, in powers of 1024: 8 GiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 999.5:
            return f"{amount:.3g} {unit}"
        amount /= 1024
    return f"{_three_digits(amount)} TiB"


def show_rate(bytes_per_s: float) -> str:
    """A rate as people write it, in powers of 1000: 120 MB/s. A factor is shown as it is written: 2x."""
    if isinstance(bytes_per_s, Times):
        return _show_times(bytes_per_s)
    for unit in ("B/s", "kB/s", "MB/s"):
        if bytes_per_s < 999.5:
            return f"{bytes_per_s:.3g} {unit}"
        bytes_per_s /= 1000
    return f"{_three_digits(bytes_per_s)} GB/s"


def _three_digits(value: float) -> str:
    """A number with three digits or more, never as a power of ten."""
    return f"{value:,.0f}" if value >= 99.95 else f"{value:.3g}"


def _show_count(value: float) -> str:
    return f"{value:,.0f}"


def _show_times(value: float) -> str:
    return f"{value:.3g}x"


def _storage(profile: Profile, jobs: Jobs, value: float) -> tuple[Profile, Jobs]:
    wanted = value * profile.storage_bytes_per_s if isinstance(value, Times) else value
    return profile.with_storage(wanted), jobs


def _gpu(profile: Profile, jobs: Jobs, value: float) -> tuple[Profile, Jobs]:
    if not all(map(math.isfinite, jobs.paces)):
        raise ValueError("the pace of the training step is not known; give it with --step")
    return profile, dataclasses.replace(jobs, step_per_s=tuple(value * pace for pace in jobs.paces))


def _threads(profile: Profile, jobs: Jobs, value: float) -> tuple[Profile, Jobs]:
    return profile, dataclasses.replace(jobs, threads=int(value))


def _jobs(profile: Profile, jobs: Jobs, count: int) -> tuple[Profile, Jobs]:
    paces = set(jobs.paces)
    if len(paces) > 1:
        raise ValueError("the jobs have different paces")
    return profile, dataclasses.replace(jobs, count=count, step_per_s=paces.pop())


def _hosts(name: str) -> Callable[[Profile, Jobs, Any], tuple[Profile, Jobs]]:
    def put(profile: Profile, jobs: Jobs, value: Any) -> tuple[Profile, Jobs]:
        return profile, dataclasses.replace(jobs, hosts=dataclasses.replace(jobs.hosts, **{name: value}))

    return put


QUANTITIES = {
    "memory": Quantity(parse_bytes, show_bytes, lambda p, j, v: (p.with_memory(int(v)), j), True, "64GiB"),
    "cores": Quantity(
        _count, _show_count, lambda p, j, v: (dataclasses.replace(p, cores=int(v)), j), True, "16"
    ),
    "jobs": Quantity(_count, _show_count, lambda p, j, v: _jobs(p, j, int(v)), True, "4"),
    "storage": Quantity(_rate, show_rate, _storage, True, "1GB/s"),
    "gpu": Quantity(_times, _show_times, _gpu, False, "2x"),
    "step": Quantity(
        _pace, _show_count, lambda p, j, v: (p, dataclasses.replace(j, step_per_s=v)), False, "2400"
    ),
    "threads": Quantity(_count, _show_count, _threads, True, "8"),
    "workers": Quantity(_workers, _show_count, _threads, True, "8"),
    "batch": Quantity(
        _count, _show_count, lambda p, j, v: (p, dataclasses.replace(j, batch_size=int(v))), True, "128"
    ),
    "samples": Quantity(
        _count, _show_count, lambda p, j, v: (dataclasses.replace(p, samples=int(v)), j), True, "1281167"
    ),
    "hosts": Quantity(_count, _show_count, _hosts("count"), True, "4"),
    "nic": Quantity(_network, _show_network, _hosts("nic_bytes_per_s"), False, "10Gb/s"),
    "remote": Quantity(parse_bytes, show_bytes, _hosts("remote_bytes"), True, "64GiB"),
}
"""``memory``: for payloads. ``samples``: of the whole dataset, if the profile is of a part of it. ``step``:
samples a second that each job takes. ``hosts``: equal ones on one storage. ``nic``: of each host. ``remote``:
memory of the server on each. ``gpu``: how many times as fast the steps are. ``threads``, ``workers``:
``num_workers`` of each job."""
LOADERS = ("seneca", "torch")


@dataclass(frozen=True)
class WhatIf:
    """The quantities that would be different.

    Args:
        fixed: From quantity to value.
        over: A quantity that takes several values, or None.
        values: The values of ``over``, rising.
        loader: The loader that is used instead, of ``LOADERS``; None: the same.
    """

    fixed: dict[str, float]
    over: str | None = None
    values: tuple[float, ...] = ()
    loader: str | None = None

    def given(self, profile: Profile, jobs: Jobs, value: float | None = None) -> tuple[Profile, Jobs]:
        """Profile and jobs with the changed quantities. ``value`` is the value of ``over``.

        Raises:
            BadWhatIf: Jobs cannot have such a value.
        """
        changes = dict(self.fixed)
        if self.over is not None and value is not None:
            changes[self.over] = value
        for name, changed in changes.items():
            try:
                profile, jobs = QUANTITIES[name].put(profile, jobs, changed)
            except ValueError as error:
                raise BadWhatIf(f"{name}={QUANTITIES[name].show(changed)}: {error}") from None
        return profile, jobs


def parse_what_if(text: str) -> WhatIf:
    """Read ``"memory=8GiB..64GiB cores=16"``.

    Args:
        text: Pairs of quantity and value, separated by spaces or commas. One of the values may be a range:
            the first and the last value, with two dots between.

    Raises:
        BadWhatIf: The text cannot be read so.

    Example:
        >>> parse_what_if("cores=16 jobs=1..4")
        WhatIf(fixed={'cores': 16}, over='jobs', values=(1, 2, 3, 4), loader=None)
    """
    fixed: dict[str, float] = {}
    over: str | None = None
    values: tuple[float, ...] = ()
    loader: str | None = None
    for pair in text.replace(",", " ").split():
        name, equals, written = pair.partition("=")
        if name not in (*QUANTITIES, "loader") or not equals:
            names = ", ".join(f"{name}=" for name in (*QUANTITIES, "loader"))
            raise BadWhatIf(f"{pair!r} is not one of {names}")
        if name in fixed or name == over or (name == "loader" and loader is not None):
            raise BadWhatIf(f"{name} is there twice; leave one of them out")
        if name == "loader":
            if written not in LOADERS:
                raise BadWhatIf(
                    f"loader={written} is no loader that is known; write one of {', '.join(LOADERS)}"
                )
            loader = written
            continue
        first, dots, last = written.partition("..")
        if not dots:
            fixed[name] = _read(name, written)
        elif over is not None:
            raise BadWhatIf(
                f"{over} and {name} are both ranges, and a curve is over one; give one of them a single value"
            )
        else:
            over, values = name, span(name, _read(name, first), _read(name, last))
    if not fixed and over is None and loader is None:
        raise BadWhatIf('it is empty; write for example "memory=64GiB cores=16"')
    return WhatIf(fixed, over, values, loader)


def _read(name: str, written: str) -> float:
    try:
        return QUANTITIES[name].read(written)
    except ValueError:
        raise BadWhatIf(
            f"{name}={written} is no such amount; write for example {name}={QUANTITIES[name].example}"
        ) from None


def span(name: str, first: float, last: float) -> tuple[float, ...]:
    """Values of a quantity from first to last: all whole numbers if they are few, else values in equal
    ratios."""
    if isinstance(first, Times) != isinstance(last, Times):
        raise BadWhatIf(f"{name}: both ends of a range are amounts, or both are factors as 2x")
    if last < first:
        show = QUANTITIES[name].show
        raise BadWhatIf(f"{name}={show(first)}..{show(last)} falls; write the smaller value first")
    whole = QUANTITIES[name].whole and not isinstance(first, Times)
    if whole and last - first < POINTS:
        return tuple(range(int(first), int(last) + 1))
    make = round if whole else type(first)
    return tuple(sorted({make(float(value)) for value in np.geomspace(first, last, POINTS)}))
