"""The pictures of ``seneca plan --plot``: throughput over the shares, and over memory, cores and jobs."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

from seneca.cli.what_if import span
from seneca.partition import Jobs, Model, Profile, curve, solve
from seneca.partition.solve import shares_grid

__all__ = ["draw"]

GIB = 1 << 30


def draw(profile: Profile, jobs: Jobs, model: Model, file: Path) -> None:
    """Write the four pictures into one file. Its ending says the format.

    Raises:
        ImportError: matplotlib is not installed.
        OSError, ValueError: The file cannot be written, or not in this format.
    """
    from matplotlib.figure import Figure  # not pyplot, because there is no screen

    figure = Figure(figsize=(11, 8.5), layout="constrained")
    kinds = figure.canvas.get_supported_filetypes()
    if file.suffix.lower().removeprefix(".") not in kinds:
        raise ValueError(f"it draws {', '.join(kinds)}, and knows the kind by the file's ending")
    best = solve(profile, jobs, model=model)
    axes = figure.subplots(2, 2)
    _triangle(axes[0, 0], profile, jobs, model)
    axes[0, 0].set_title(f"best: {best.split}, {best.samples_per_s:,.0f} samples/s")

    memories = span("memory", max(1 << 20, profile.cache_bytes // 16), profile.cache_bytes * 16)
    _curve(
        axes[0, 1],
        "memory for the cache, GiB",
        [value / GIB for value in memories],
        curve(memories, lambda value: (profile.with_memory(int(value)), jobs), model=model),
    )
    axes[0, 1].set_xscale("log")
    cores = span("cores", 1, max(9, 4 * profile.cores))
    _curve(
        axes[1, 0],
        "cores",
        cores,
        curve(cores, lambda value: (dataclasses.replace(profile, cores=int(value)), jobs), model=model),
    )
    # If the paces differ, one more job would have no pace. Therefore all jobs get the mean.
    finite = [pace for pace in jobs.paces if np.isfinite(pace)]
    pace = sum(finite) / len(finite) if finite else None
    counts = tuple(range(1, max(8, jobs.count) + 1))
    _curve(
        axes[1, 1],
        "jobs",
        counts,
        curve(
            counts,
            lambda value: (profile, dataclasses.replace(jobs, count=int(value), step_per_s=pace)),
            model=model,
        ),
    )
    figure.savefig(file)


def _triangle(axes, profile: Profile, jobs: Jobs, model: Model) -> None:  # type: ignore[no-untyped-def]
    shares = shares_grid(0.01)
    rates = model.estimate(profile, shares, jobs).samples_per_s
    # Corners: encoded to the left, decoded to the right, augmented on top.
    drawn = axes.tripcolor(
        shares[:, 1] + shares[:, 2] / 2, shares[:, 2] * np.sqrt(3) / 2, rates, shading="gouraud"
    )
    axes.figure.colorbar(drawn, ax=axes, label="samples/s of all jobs", format="{x:,.0f}")
    for x, y, name, side in (
        (0, -0.02, "encoded", "top"),
        (1, -0.02, "decoded", "top"),
        (0.5, 0.89, "augmented", "bottom"),
    ):
        axes.text(x, y, name, ha="center", va=side)
    axes.set_aspect("equal")
    axes.set_axis_off()


def _curve(axes, name, values, points) -> None:  # type: ignore[no-untyped-def]
    axes.plot(values, [best.samples_per_s for _, best in points], marker="o", markersize=4)
    axes.set_xlabel(name)
    axes.set_ylabel("samples/s of all jobs")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
