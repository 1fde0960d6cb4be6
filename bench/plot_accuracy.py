"""Draws what ``bench_accuracy.py`` has measured: test accuracy by epoch, a line a loader.

    python bench/plot_accuracy.py accuracy.json accuracy.png

Needs matplotlib, which nothing else does.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def plot(rows: Sequence[dict[str, Any]], file: Path) -> None:
    """The mean curve of each loader over seeds and jobs, and between which values the middle half lies.

    Raises:
        SystemExit: matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise SystemExit("the plot needs matplotlib: pip install matplotlib") from None
    import numpy as np

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for loader, colour in (("torch", "tab:gray"), ("seneca", "tab:blue"), ("seneca apart", "tab:orange")):
        curves = 100 * np.array([row["curve"] for row in rows if row["loader"] == loader])
        if not len(curves):
            continue
        epochs = np.arange(1, curves.shape[1] + 1)
        axes.plot(epochs, curves.mean(0), color=colour, label=f"{loader}, mean of {len(curves)} jobs")
        low, high = np.quantile(curves, (0.25, 0.75), axis=0)
        axes.fill_between(epochs, low, high, color=colour, alpha=0.2, linewidth=0)
    axes.set(
        xlabel="epoch",
        ylabel="test accuracy, %",
        title="Trained alone (torch) and with shared samples (Seneca)",
    )
    axes.legend(loc="lower right")
    axes.grid(alpha=0.3)
    figure.savefig(file, dpi=150)


if __name__ == "__main__":
    plot(json.loads(Path(sys.argv[1]).read_text())["rows"], Path(sys.argv[2]))
