"""A training script whose stalls are known, for ``bench_analyze.py`` and ``bench_cores.py``.

It prints the seconds of its epoch and the CPU seconds, or how many steps came late.

Each sample reads a file, which slow storage may hold back (``slow_reads.py``), sleeps, and uses CPU. Each
step sleeps, as if a GPU computed. With ranks, all of them wait for each other after each step.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

LATE = 0.1  # of a step; a step that waits longer for its batch is late


class Planted(torch.utils.data.Dataset):
    """Samples that read, sleep and use CPU.

    Args:
        samples: Their number.
        files: One of them is read for each sample, whole.
        sleep_s: What each sleeps.
        cpu_s: The CPU that each uses.
    """

    def __init__(self, samples: int, files: list[Path], sleep_s: float, cpu_s: float) -> None:
        self.samples, self.files, self.sleep_s, self.cpu_s = samples, files, sleep_s, cpu_s

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.files:
            with open(self.files[index % len(self.files)], "rb", buffering=0) as file:
                file.read()
        if self.sleep_s:
            time.sleep(self.sleep_s)
        until = time.thread_time() + self.cpu_s
        while time.thread_time() < until:
            pass
        return torch.zeros(8)


def loader_of(options: argparse.Namespace, rank: int) -> torch.utils.data.DataLoader:
    """The loader that the options name."""
    if options.loader == "pictures":
        import seneca
        from seneca import transforms as T

        pictures = seneca.ImageFolder(options.folder, T.Compose([T.RandomResizedCrop(224), T.ToTensor()]))
        return seneca.DataLoader(pictures, options.batch, num_workers=options.workers, cache=None)
    slow = 1.0 if options.slow_rank in (None, rank) else 0.1
    a_sample = 1e3 * options.batch
    files = sorted(options.folder.glob("*")) if options.folder else []
    data = Planted(
        options.steps * options.batch, files, slow * options.sleep / a_sample, slow * options.cpu / a_sample
    )
    if options.loader == "torch":
        return torch.utils.data.DataLoader(data, options.batch, num_workers=options.workers)
    import seneca

    return seneca.DataLoader(data, options.batch, num_workers=options.workers, cache=None)


def cpu_s() -> float:
    """The CPU seconds of this process and of its workers that have ended."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def workers(text: str) -> int | str:
    """The argument ``--workers``."""
    return text if text == "auto" else int(text)


def main() -> None:
    """Train for one epoch."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loader", choices=("torch", "seneca", "pictures"), default="torch")
    parser.add_argument("--folder", type=Path, help="its files are read; of pictures: class folders")
    for name, default in (("sleep", 0.0), ("cpu", 0.0), ("step", 0.0)):
        parser.add_argument(
            f"--{name}", type=float, default=default, help="milliseconds of a batch, or a step"
        )
    parser.add_argument("--workers", type=workers, default=0, help='a number, or "auto" with Seneca')
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--slow-rank", type=int, help="the others take a tenth for a batch")
    parser.add_argument(
        "--count-late", action="store_true", help="print the share of steps that wait, by rank"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    ranked = "RANK" in os.environ
    if ranked:
        dist.init_process_group("gloo")
    loader = loader_of(options, dist.get_rank() if ranked else 0)
    began, asked, late, used_s = None, time.perf_counter(), [], cpu_s()
    for _ in loader:
        late.append(time.perf_counter() - asked > LATE * options.step / 1e3)
        began = began or time.perf_counter()
        if options.step:
            time.sleep(options.step / 1e3)
        if ranked:
            dist.barrier()
        asked = time.perf_counter()
    assert began is not None
    if options.count_late:
        counted = late[len(late) // 3 :]  # until then the numbers of workers have settled
        line = json.dumps({"rank": dist.get_rank() if ranked else 0, "late": sum(counted) / len(counted)})
        sys.stdout.write(f"{line}\n")  # in one piece: the other rank writes to the same pipe
    else:
        print(time.perf_counter() - began, cpu_s() - used_s)
    if ranked:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
