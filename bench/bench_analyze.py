"""Does ``seneca analyze`` find the stalls that were planted, and what does it cost the script?

Question. A training script waits for storage, for preparing or for nothing, and it is known how long,
because the dataset was made so. Does ``seneca analyze`` find these shares? And how much slower is the script
under it?

Method. The script is ``planted_stalls.py``: each sample sleeps (storage) and then uses CPU (preparing), and
the step sleeps. The shares that it plants follow from these times by DS-Analyzer's definitions, which
``seneca/cli/analyze/stalls.py`` has. A setting is right if the bottleneck that is named is the planted one.
``off`` is the largest difference of a share from the planted one, in points. For the cost, the script runs in
turns with ``seneca analyze`` and without, and times its own epochs. Run it on a quiet machine: a core that
something else takes, a hypervisor included, is a stall that was not planted.

    python -m bench.bench_analyze
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import report

SCRIPT = Path(__file__).parent / "planted_stalls.py"
NAMES = ("compute", "fetch", "prep", "cores")
NO_MATTER = 0.05  # as the command: a smaller wait is none


@dataclass(frozen=True)
class Setting:
    """What is planted: milliseconds of a batch's sleep and CPU, and of a step's sleep; worker processes."""

    loader: str
    sleep: float
    cpu: float
    step: float
    workers: int

    def shares(self) -> dict[str, float]:
        """The planted shares of the time."""
        if self.workers == 0:
            fetch, prep, whole = self.sleep, self.cpu, self.sleep + self.cpu + self.step
        else:
            prepared = self.cpu / self.workers
            whole = max(self.step, (self.sleep + self.cpu) / self.workers)
            prep = max(0.0, prepared - self.step)
            fetch = max(0.0, whole - max(self.step, prepared))
        return {
            "compute": 1 - (fetch + prep) / whole,
            "fetch": fetch / whole,
            "prep": prep / whole,
            "cores": 0,
        }

    def bottleneck(self) -> str:
        """The planted bottleneck."""
        shares = self.shares()
        return max(NAMES[1:], key=shares.__getitem__) if shares["compute"] < 1 - NO_MATTER else "compute"

    def arguments(self) -> list[str]:
        """For the script."""
        parts = ("loader", "sleep", "cpu", "step", "workers")
        return [f"--{name}={getattr(self, name)}" for name in parts]


PLANTED = (
    # sleep, cpu, step, workers: for storage, preparing, both, the step
    (40, 2, 10, 0), (4, 40, 10, 0), (15, 25, 20, 0), (3, 9, 90, 0),
    (60, 2, 20, 1), (4, 60, 20, 1), (40, 30, 20, 1), (5, 5, 50, 1),
    (120, 4, 20, 2), (8, 60, 10, 2), (80, 40, 10, 2), (10, 10, 50, 2),
    (160, 4, 10, 4), (100, 8, 40, 4), (120, 8, 10, 4), (20, 4, 50, 4),
)  # fmt: skip
OF_TORCH = tuple(Setting("torch", *one) for one in PLANTED)
OF_SENECA = tuple(Setting("seneca", *one) for one in PLANTED[::2])


def found(setting: Setting, steps: int, folder: Path) -> dict:
    """What the command finds."""
    to = folder / "found.json"
    line = [sys.executable, "-m", "seneca.cli", "analyze", f"--json={to}", sys.executable, str(SCRIPT)]
    subprocess.run([*line, f"--steps={steps}", *setting.arguments()], check=True, capture_output=True)
    return json.loads(to.read_text())


def cost(rounds: int, steps: int) -> list[float]:
    """For each round, the seconds of the epochs under the command, divided by those without."""
    own = [sys.executable, str(SCRIPT), f"--steps={steps}", "--batch=8", "--cpu=3.5", "--workers=1"]
    under = [sys.executable, "-m", "seneca.cli", "analyze", *own]

    def seconds(line: list[str]) -> float:
        return float(subprocess.run(line, check=True, capture_output=True, text=True).stdout)

    ratios = []
    for _ in range(rounds):
        before, with_it, without = seconds(own), seconds(under), seconds(own)
        ratios.append(with_it / ((before + without) / 2))
    return ratios


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--steps", type=int, default=100, help="steps of each setting")
    parser.add_argument(
        "--rounds", type=int, default=5, help="rounds of the measurement of the cost; 0: none"
    )
    parser.add_argument("--json", type=Path, help="also write what was found to this file")
    options = parser.parse_args()
    print(report.machine(("torch",)))
    lines, all_found, right, worst = [], [], 0, 0.0
    with tempfile.TemporaryDirectory() as folder:
        for setting in (*OF_TORCH, *OF_SENECA):
            answer, planted = found(setting, options.steps, Path(folder)), setting.shares()
            off = 100 * max(abs(answer["shares"][name] - planted[name]) for name in NAMES)
            right += answer["bottleneck"] == setting.bottleneck()
            worst = max(worst, off)
            all_found.append({"setting": vars(setting), "planted": planted, "found": answer["shares"]})
            lines.append(
                [
                    setting.loader,
                    *(f"{value:g}" for value in (setting.sleep, setting.cpu, setting.step, setting.workers)),
                    *(f"{planted[name]:.0%} {answer['shares'][name]:.0%}" for name in NAMES),
                    f"{off:.1f}",
                    answer["bottleneck"] + ("" if answer["bottleneck"] == setting.bottleneck() else " WRONG"),
                ]
            )
    head = ["loader", "sleep", "cpu", "step", "W", *NAMES, "off", "bottleneck"]
    report.print_table(
        "milliseconds of a batch and a step; planted and found shares of the time", head, lines
    )
    print(f"bottleneck right in {right} of {len(lines)}; a share is off by at most {worst:.1f} points")
    if options.rounds:
        ratios = cost(options.rounds, 10 * options.steps)
        text = f"{statistics.median(ratios) - 1:+.2%} ({min(ratios) - 1:+.2%} to {max(ratios) - 1:+.2%})"
        print(f"time of an epoch under the command, at about 2,000 samples/s: {text}")
    if options.json is not None:
        options.json.write_text(json.dumps(all_found, indent=2) + "\n")


if __name__ == "__main__":
    main()
