"""Does ``seneca plan`` predict what a change of a training script gives?

Question. ``seneca analyze --deep`` measures a script once. ``seneca plan --what-if`` says from that what
another number of workers, other storage, a faster GPU, more jobs, or Seneca's loader would give. Is it so?

Method. Two scripts run under ``seneca analyze --deep``, both with torch's own loader: one whose samples read
a file and use CPU for a known time, and one that decodes real pictures with torchvision. Their storage is
really held back (``slow_reads.py``), below any page cache. Then each change is made, and its samples/s are
measured: those of all jobs together, over the same seconds, after the first epochs, and within epochs. The
error is ``predicted / measured - 1``. With Seneca, the measured jobs have the split that the plan has chosen.

Run it on a quiet machine. What was disturbed is measured again (quiet.py).

    python -m bench.bench_what_if --data train/
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import links
import report
import slow_reads
from quiet import least_disturbed

from seneca.testing import make_pictures

SCRIPT = Path(__file__).parent / "what_if_job.py"
FILES, FILE_BYTES = 64, 110_000  # ImageNet's mean
LINKS = 3000  # pictures of an epoch: they take turns
START_S = 8.0  # in which jobs start
PAPER_ERROR = 0.04  # at most, of CoorDL's DS-Analyzer


@dataclass(frozen=True)
class World:
    """A script and what it runs on.

    Args:
        dataset: As the script names it.
        storage: Megabytes a second.
        cpu: Milliseconds of a planted sample.
        step: Milliseconds of a step.
        workers: Of each job.
        jobs: Their number.
        loader: ``torch`` or ``seneca``.
        kept: The share of the files that Seneca's cache has room for.
    """

    dataset: str
    storage: float
    cpu: float
    step: float
    workers: int
    jobs: int = 1
    loader: str = "torch"
    kept: float | None = None


PLANTED = World("planted", storage=20, cpu=3, step=40, workers=1)
PICTURES = World("pictures", storage=40, cpu=0, step=40, workers=1)
# What is asked of `seneca plan`, and the world in which it is so.
CHANGES: tuple[tuple[World, str, World], ...] = (
    (PLANTED, "workers=2", replace(PLANTED, workers=2)),
    (PLANTED, "workers=0", replace(PLANTED, workers=0)),
    (PLANTED, "storage=2x", replace(PLANTED, storage=40)),
    (PLANTED, "storage=4x", replace(PLANTED, storage=80)),
    (PLANTED, "storage=4x workers=2", replace(PLANTED, storage=80, workers=2)),
    (PLANTED, "gpu=0.5x", replace(PLANTED, step=80)),
    (PLANTED, "gpu=2x workers=4 storage=4x", replace(PLANTED, step=20, workers=4, storage=80)),
    (PLANTED, "jobs=3", replace(PLANTED, jobs=3)),
    (PICTURES, "workers=2", replace(PICTURES, workers=2)),
    (PICTURES, "storage=4x", replace(PICTURES, storage=160)),
    (PICTURES, "jobs=3", replace(PICTURES, jobs=3)),
    (PICTURES, "loader=seneca", replace(PICTURES, loader="seneca")),
    (PICTURES, "loader=seneca jobs=3", replace(PICTURES, loader="seneca", jobs=3)),
    (PICTURES, "loader=seneca gpu=4x", replace(PICTURES, loader="seneca", step=10, kept=0.25)),
    (PICTURES, "loader=seneca gpu=4x", replace(PICTURES, loader="seneca", step=10, kept=0.5)),
    (PICTURES, "loader=seneca gpu=4x", replace(PICTURES, loader="seneca", step=10, kept=0.75)),
)


class Bench:
    """The folders that the scripts read, and the storage that holds them back."""

    def __init__(self, place: Path, data: Path, pictures: Path, seconds: float) -> None:
        self.place, self.data, self.seconds = place, data, seconds
        self.folders = {"planted": place / "files", "pictures": pictures}
        self.folders["planted"].mkdir()
        for number in range(FILES):
            (self.folders["planted"] / f"{number:02d}").write_bytes(os.urandom(FILE_BYTES))
        self.files_bytes = sum(path.stat().st_size for path in links.pictures_of(pictures))

    def environment(self, world: World) -> dict[str, str]:
        """Of a script in this world."""
        files = self.data if world.dataset == "pictures" else self.folders["planted"]
        slow = slow_reads.environment(self.place, files, int(world.storage * 1e6))
        return {**os.environ, **slow}

    def line(self, world: World) -> list[str]:
        """The script of a world."""
        return [
            *(sys.executable, str(SCRIPT), f"--dataset={world.dataset}", f"--loader={world.loader}"),
            *(f"--folder={self.folders[world.dataset]}", f"--cpu={world.cpu}", f"--step={world.step}"),
            f"--workers={world.workers}",
        ]

    def profile(self, world: World) -> Path:
        """What ``seneca analyze --deep`` writes of a script."""
        file = self.place / f"{world.dataset}.json"
        analyze = [sys.executable, "-m", "seneca.cli", "analyze", "--deep", f"--json={file}"]
        ran = subprocess.run(
            [*analyze, *self.line(world)], env=self.environment(world), capture_output=True, text=True
        )
        if ran.returncode:
            raise RuntimeError(ran.stderr)
        print(ran.stderr)
        return file

    def predicted(self, profile: Path, text: str, after: World) -> dict[str, Any]:
        """What ``seneca plan`` says."""
        if after.kept is not None:
            text += f" memory={round(after.kept * self.files_bytes)}B"
        plan = [sys.executable, "-m", "seneca.cli", "plan", f"--profile={profile}", "--json"]
        ran = subprocess.run([*plan, f"--what-if={text}"], capture_output=True, text=True)
        if ran.returncode:
            raise RuntimeError(ran.stderr)
        found: dict[str, Any] = json.loads(ran.stdout)["instead"]
        return found

    def measured(self, world: World, plan: dict[str, Any]) -> float:
        """Samples a second of all jobs together."""
        line = self.line(world)
        begin = time.monotonic() + START_S + self.warm_s(world)
        line += [f"--begin={begin}", f"--end={begin + self.seconds}"]
        if world.loader == "seneca":
            cache = {
                "cache": f"what-if-{os.getpid()}",
                "cache_bytes": plan["cache_bytes"],
                "split": plan["split"],
            }
            line.append(f"--seneca={json.dumps(cache)}")
        jobs = [
            subprocess.Popen(line, env=self.environment(world), stdout=subprocess.PIPE, text=True)
            for _ in range(world.jobs)
        ]
        printed = [job.communicate()[0] for job in jobs]
        if any(job.returncode for job in jobs):
            raise RuntimeError(f"{' '.join(line)}: status {[job.returncode for job in jobs]}")
        return sum(map(float, printed))

    def warm_s(self, world: World) -> float:
        """The seconds in which a cache has read all files, and some more."""
        return 1.3 * self.files_bytes / (world.storage * 1e6) if world.loader == "seneca" else 0.0


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, help="class folders of pictures; default: 600 that are made up")
    parser.add_argument("--seconds", type=float, default=10.0, help="for which each change is measured")
    parser.add_argument("--only", default="", help="the changes whose text has this in it")
    parser.add_argument("--json", type=Path, help="also write what was found to this file")
    options = parser.parse_args()
    print(report.machine(("torch", "torchvision", "pillow", "pillow-simd")))
    lines, errors, found = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        data = options.data or make_pictures(place / "made", count=600)
        links.make_links(data, place / "pictures", LINKS)
        bench = Bench(place, data, place / "pictures", options.seconds)
        profiles: dict[World, Path] = {}
        for before, text, after in CHANGES:
            if options.only not in text:
                continue
            if before not in profiles:
                profiles[before], _ = least_disturbed(lambda before=before: bench.profile(before))
            plan = bench.predicted(profiles[before], text, after)
            measured, others = least_disturbed(lambda after=after, plan=plan: bench.measured(after, plan))
            errors.append(plan["samples_per_s"] / measured - 1)
            kept = "" if after.kept is None else f" cache={after.kept:.0%}"
            found.append({"before": vars(before), "change": text + kept, "plan": plan, "measured": measured})
            lines.append(
                [
                    f"{before.dataset}: {text}{kept}",
                    plan["split"] if after.loader == "seneca" else "-",
                    plan["limited_by"],
                    *(f"{value:,.1f}" for value in (plan["samples_per_s"], measured)),
                    f"{errors[-1]:+.1%}",
                    f"{others:.1%}",
                ]
            )
            print(*lines[-1], flush=True)
    head = ["change", "split", "limited by", "predicted", "measured", "error", "others"]
    report.print_table("samples/s of all jobs, predicted from one run and measured", head, lines)
    worst = max(map(abs, errors))
    mean = statistics.fmean(map(abs, errors))
    print(f"{len(errors)} changes: mean error {mean:.1%}, worst {worst:.1%} (paper: {PAPER_ERROR:.0%})")
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
