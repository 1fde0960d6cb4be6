"""A training script whose stalls are known, for ``bench_analyze.py``. It prints the seconds of its epoch.

Each batch sleeps, as if it waited for storage, and uses CPU, as if it prepared. Each step sleeps, as if a GPU
computed.
"""

from __future__ import annotations

import argparse
import time

import torch


class Planted(torch.utils.data.Dataset):
    """Samples that sleep and use CPU.

    Args:
        samples: Their number.
        sleep_s: What each sleeps.
        cpu_s: The CPU that each uses.
    """

    def __init__(self, samples: int, sleep_s: float, cpu_s: float) -> None:
        self.samples, self.sleep_s, self.cpu_s = samples, sleep_s, cpu_s

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.sleep_s:
            time.sleep(self.sleep_s)
        until = time.thread_time() + self.cpu_s
        while time.thread_time() < until:
            pass
        return torch.zeros(8)


def main() -> None:
    """Train for one epoch."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loader", choices=("torch", "seneca"), default="torch")
    for name, default in (("sleep", 0.0), ("cpu", 0.0), ("step", 0.0)):
        parser.add_argument(
            f"--{name}", type=float, default=default, help="milliseconds of a batch, or a step"
        )
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args()
    torch.set_num_threads(1)
    a_sample = 1e3 * options.batch
    data = Planted(options.steps * options.batch, options.sleep / a_sample, options.cpu / a_sample)
    if options.loader == "torch":
        loader = torch.utils.data.DataLoader(data, options.batch, num_workers=options.workers)
    else:
        import seneca

        loader = seneca.DataLoader(data, options.batch, num_workers=options.workers, cache=None)
    began = None
    for _ in loader:
        began = began or time.perf_counter()
        if options.step:
            time.sleep(options.step / 1e3)
    assert began is not None
    print(time.perf_counter() - began)


if __name__ == "__main__":
    main()
