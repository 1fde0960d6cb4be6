"""What does comparing cost a job, while samples are still being compared and after?

Method: two jobs, each a process, load epochs together from one cache. The CPU time of both processes counts,
by epoch. Rounds of this checkout and of another one (``--against``) take turns. The other one is of a version
that does not compare, because no option turns all comparisons off.

The items cost what their name says: opaque ones 0.3 or 3 ms, staged ones the same, four fifths of it before
what is kept. ``native`` is a folder of pictures.

::

    git worktree add /tmp/before 0a4ec0f && (cd /tmp/before && make build)
    python -m bench.bench_evidence --against /tmp/before --data train/
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "bench")]
sys.path.append(str(ROOT))  # behind PYTHONPATH, which names the checkout that is measured

import numpy as np  # noqa: E402
import torch  # noqa: E402

import seneca  # noqa: E402
from seneca import transforms as T  # noqa: E402

KINDS = {"opaque-0.3": 4000, "opaque-3": 500, "staged-0.3": 4000, "staged-3": 500, "native": 0}  # samples
FLOATS_A_MS = 4096 * 12


def work(ms: float) -> None:
    """Use the processor for so long."""
    until = time.thread_time_ns() + int(1e6 * ms)
    while time.thread_time_ns() < until:
        pass


class Opaque(torch.utils.data.Dataset[Any]):
    """Items that take the processor for a time."""

    def __init__(self, samples: int, ms: float) -> None:
        self.samples, self.ms = samples, ms

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> torch.Tensor:
        work(self.ms)
        return torch.full((int(self.ms * FLOATS_A_MS),), float(index))


class Staged(seneca.StagedDataset):
    """The same, with stages."""

    def __init__(self, samples: int, ms: float) -> None:
        self.samples, self.ms = samples, ms

    def __len__(self) -> int:
        return self.samples

    def read(self, index: int) -> bytes:
        return np.full(int(self.ms * 800), index, np.int64).tobytes()

    def decode(self, data: bytes) -> np.ndarray:
        work(0.8 * self.ms)
        return np.repeat(np.frombuffer(data, np.int64), 8)

    def augment(self, array: np.ndarray, rng: np.random.Generator) -> torch.Tensor:
        work(0.2 * self.ms)
        return torch.from_numpy(array + rng.integers(0, 9))

    def label(self, index: int) -> int:
        return index


def dataset(kind: str, folder: str) -> Any:
    """The dataset of a kind."""
    if kind == "native":
        return seneca.ImageFolder(folder, T.Compose([T.RandomResizedCrop(224), T.RandomHorizontalFlip()]))
    name, _, ms = kind.partition("-")
    return (Opaque if name == "opaque" else Staged)(KINDS[kind], float(ms))


def train(kind: str, folder: str, epochs: int, cache: str, together: Any, answers: Any) -> None:
    """One of two jobs: the CPU seconds of each epoch, and how many samples were compared by its end."""
    torch.set_num_threads(1)
    torch.manual_seed(os.getpid())
    loader = seneca.DataLoader(
        dataset(kind, folder), 32, shuffle=True, cache=cache, cache_bytes="1GiB",
        split="0-70-30" if kind.startswith("staged") else "auto", num_workers=int(kind == "native"),
    )  # fmt: skip
    found = []
    for _ in range(epochs):
        together.wait()
        began = time.process_time()
        for _ in loader:
            pass
        together.wait()
        compared = max((loader.stats().get("compared") or {"none": 0}).values())
        found.append((time.process_time() - began, compared))
    answers.put(found)


def pair(kind: str, folder: str, epochs: int) -> list[tuple[float, int]]:
    """Both jobs together, by epoch."""
    fork = multiprocessing.get_context("fork")
    together, answers, cache = fork.Barrier(2), fork.SimpleQueue(), f"bench-evidence-{os.getpid()}"
    jobs = [fork.Process(target=train, args=(kind, folder, epochs, cache, together, answers)) for _ in "AB"]
    for job in jobs:
        job.start()
    both = [answers.get() for _ in jobs]
    for job in jobs:
        job.join()
    return [(a[0] + b[0], min(a[1], b[1])) for a, b in zip(*both, strict=True)]


def measured(checkout: Path, kind: str, folder: str, epochs: int) -> list[tuple[float, int]]:
    """A round of another checkout, or of this one, in processes of its own."""
    command = [sys.executable, __file__, "--round", kind, "--data", folder, "--epochs", str(epochs)]
    found = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(checkout)}, check=True, capture_output=True, text=True
    )
    return [tuple(one) for one in json.loads(found.stdout.splitlines()[-1])]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--against", type=Path, help="a built checkout of the version to compare with")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--data", default="", help="folder of class folders of pictures, for native")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--round", choices=KINDS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.round:
        print(json.dumps(pair(options.round, options.data, options.epochs)))
        return
    import report

    print(report.machine(["seneca-loader", "torch"]))
    if options.against is None:
        parser.error("--against names a built checkout to compare with")
    lines = []
    for kind in options.kinds:
        if kind == "native" and not options.data:
            continue
        ratios: dict[str, list[float]] = {"until": [], "after": []}
        for _ in range(options.rounds):
            before = measured(options.against, kind, options.data, options.epochs)
            now = measured(ROOT, kind, options.data, options.epochs)
            enough = 0 if kind == "native" else min(3000, KINDS[kind])
            done = next((k for k, (_, n) in enumerate(now) if n >= enough), len(now))
            for name, part in (("until", slice(0, done + 1)), ("after", slice(done + 1, None))):
                if seconds := sum(one[0] for one in before[part]):
                    ratios[name].append(sum(one[0] for one in now[part]) / seconds - 1)
        cells = [f"{statistics.median(one):+.1%}" if one else "-" for one in ratios.values()]
        spread = [f"{min(one):+.1%} to {max(one):+.1%}" if one else "-" for one in ratios.values()]
        lines.append((kind, cells[0], spread[0], cells[1], spread[1]))
    head = ["", "until enough agreed", "", "after", ""]
    report.print_table(f"CPU time of two jobs, median and extremes of {options.rounds} rounds", head, lines)


if __name__ == "__main__":
    main()
