"""Draw what ``bench_sampling`` measured: efficiency by jobs, hits by cache size, efficiency by overlap.

python bench/plot_sampling.py sampling.json sampling.png
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def plot(results: dict[str, Any], path: Path) -> None:
    """Write the picture; parts that were not measured stay empty."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    policies = list(dict.fromkeys(row["policy"] for part in results.values() for row in part))
    colours = {policy: f"C{number}" for number, policy in enumerate(policies)}
    figure, (jobs, equal, unequal, subsets) = pyplot.subplots(
        1, 4, figsize=(20, 5), width_ratios=(2, 1, 1, 1)
    )

    names = list(dict.fromkeys(row["speeds"] for row in results["rows"]))
    for number, policy in enumerate(policies):
        rows = [row for row in results["rows"] if row["policy"] == policy]
        places = [
            names.index(row["speeds"]) + (number - len(policies) / 2) * 0.8 / len(policies) for row in rows
        ]
        jobs.bar(
            places,
            [row["efficiency"] for row in rows],
            0.8 / len(policies),
            align="edge",
            color=colours[policy],
            label=policy,
        )
    jobs.set_xticks(range(len(names)), names, rotation=45, ha="right")
    jobs.axhline(0.98, color="black", linewidth=0.8, linestyle=":")
    jobs.set_title("Sharing efficiency, a stage of 1 %")

    for axes, speeds in ((equal, "1:1:1"), (unequal, "4:2:1")):
        found = [row for row in results["by_cache_size"] if row["speeds"] == speeds]
        for policy in policies:
            rows = [row for row in found if row["policy"] == policy]
            line(axes, rows, "cached", "hits", policy, colours[policy])
        bounds = sorted({row["cached"]: row for row in found}.values(), key=lambda row: row["cached"])
        axes.plot(
            [100 * row["cached"] for row in bounds], [row["bound"] for row in bounds], "k:", label="bound"
        )
        axes.set_title(f"Served without storage, {speeds}")
        axes.set_xlabel("cached, % of the dataset")

    for count, style in ((2, "-"), (4, "--")):
        for policy in policies:
            rows = [
                row for row in results.get("overlap", []) if (row["policy"], row["jobs"]) == (policy, count)
            ]
            line(subsets, rows, "overlap", "efficiency", f"{policy}, {count} jobs", colours[policy], style)
    subsets.set_title("Sharing efficiency of subsets")
    subsets.set_xlabel("overlap, %")
    for axes in (jobs, equal, unequal, subsets):
        axes.set_ylim(0, 1.05)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def line(
    axes: Any, rows: list[dict], over: str, value: str, label: str, colour: str, style: str = "-"
) -> None:
    if rows:
        points = sorted((100 * row[over], row[value]) for row in rows)
        axes.plot(*zip(*points, strict=True), style, marker="o", color=colour, label=label)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="plot_sampling", description=__doc__.splitlines()[0])
    parser.add_argument("json", type=Path, help="as bench_sampling --json writes it")
    parser.add_argument("png", type=Path)
    options = parser.parse_args(arguments)
    try:
        plot(json.loads(options.json.read_text()), options.png)
    except ImportError:
        sys.exit("plot_sampling draws with matplotlib; install it: pip install 'seneca-loader[plot]'")


if __name__ == "__main__":
    main()
