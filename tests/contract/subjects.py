"""The loaders under test, the differences that are meant, and how a row examines a loader."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch.utils.data

import seneca

SAMPLES = 12  # of the datasets that most rows load
PATIENCE_S = 300  # what takes so long has hung, however loaded the machine is

# What CPython from 3.12 on says where a worker is forked and pytest has a thread that watches for hangs.
FORKS_WITH_THREADS = r"This process \(pid=\d+\) is multi-threaded, use of fork\(\)"

MEANT = {
    "arguments": "Seneca's own arguments, keyword-only and behind torch's.",
    "order": "With a cache and shuffle=True the order is Seneca's where a copy that another job has just "
    "made can take a sample's place: with share='augmented', and unless all copies of a picture are the "
    "same anyhow. It is random, whole in every epoch, and the seed's alone on the host. All other orders "
    "are torch's.",
    "pixels": "The random numbers of a transform of seneca.transforms are Seneca's on the native path: of "
    "(seed, epoch, index), and so the same for every number of workers. Torch's are of the worker.",
    "threads": "On the native path num_workers counts threads of this process. There are no worker processes "
    "to have pids, to be started by a method, to share tensors with, or to be named by an exception. No "
    "worker_init_fn is called.",
    "hang": "What a worker cannot pickle is an error; with torch the run hangs for ever.",
    "reason": "The error that a worker has died says besides how: the signal or exit status, and how often "
    "the kernel has killed in this control group for want of memory.",
    "notice": "What Seneca does not serve itself is torch's, and one SenecaWarning a loader says why; of an "
    "IterableDataset, which nobody can share, a line of the log.",
}
"""Every difference from torch that is meant, and why.

Rows with ``@pytest.mark.meant(...)`` hold torch to the one behaviour and Seneca to the other;
test_rows_meant.py sees to it that each line here has such a row.
"""


@dataclass(frozen=True)
class Subject:
    """A loader class, and the options that make it the one under test."""

    cls: type[torch.utils.data.DataLoader]
    options: Mapping[str, Any] = field(default_factory=dict)
    met: list[Any] = field(default_factory=list)

    def __call__(self, dataset: Any, *args: Any, **kwargs: Any) -> torch.utils.data.DataLoader:
        return self.cls(dataset, *args, **{**self.of(dataset), **kwargs})

    def of(self, dataset: Any) -> dict[str, Any]:
        """The options for this dataset: a cache that has a name holds one dataset."""
        options = dict(self.options)
        if self.shares:
            number = next((n for n, other in enumerate(self.met) if other is dataset), len(self.met))
            self.met[number:] = [dataset, *self.met[number + 1 :]]
            options["cache"] += f"-{number}"
        return options

    @property
    def is_torch(self) -> bool:
        return self.cls is torch.utils.data.DataLoader

    def has_threads(self, dataset: Any) -> bool:
        """Whether threads of this process prepare the samples, and no workers."""
        return not self.is_torch and isinstance(dataset, seneca.ImageFolder)

    @property
    def shares(self) -> bool:
        """Whether samples may come from a cache, and then in Seneca's order."""
        return self.options.get("cache") is not None

    def substitutes(self, dataset: Any) -> bool:
        """Whether what another job has made may take a sample's place; not where all make the same."""
        transform = getattr(dataset, "transform", None)
        return self.shares and not isinstance(transform, seneca.transforms.Resize)


class Stock(Subject):
    """Torch's own class, over a ``SharedDataset`` and the batch sampler that goes with it."""

    def __call__(
        self, dataset: Any, batch_size: int | None = 1, **kwargs: Any
    ) -> torch.utils.data.DataLoader:
        own = {name: kwargs.pop(name) for name in ("share", "key") if name in kwargs}
        shared = seneca.SharedDataset(dataset, **self.of(dataset), **own)
        if batch_size is None or not kwargs.keys().isdisjoint({"sampler", "batch_sampler"}):
            return self.cls(shared, batch_size, **kwargs)
        sampler: Any = torch.utils.data.SequentialSampler(shared)
        if kwargs.pop("shuffle", None):
            sampler = torch.utils.data.RandomSampler(shared, generator=kwargs.get("generator"))
        ahead = 1 + kwargs.get("num_workers", 0) * kwargs.get("prefetch_factor", 2)
        batches = seneca.OpportunisticBatchSampler(
            sampler, batch_size, kwargs.pop("drop_last", False), batches_ahead=ahead
        )
        return self.cls(shared, batch_sampler=batches, **kwargs)


TORCH = Subject(torch.utils.data.DataLoader)


def labels(batch: Any) -> list[int]:
    """The second of ``(inputs, labels)``, which in these datasets is the sample's index."""
    return batch[1].tolist()


def epoch(loader: Any) -> list[list[int]]:
    """The indices of every batch of one epoch."""
    return [labels(batch) for batch in loader]


def flat(batches: list[list[int]]) -> list[int]:
    return [index for batch in batches for index in batch]


def seeded(seed: int, function: Callable[[], Any]) -> Any:
    """What ``function`` returns where torch's global generator begins with ``seed``."""
    torch.manual_seed(seed)
    return function()


@contextlib.contextmanager
def torchs_warnings() -> Iterator[list[str]]:
    """The texts of what is warned in the block, without Seneca's notices and CPython's of threads."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", FORKS_WITH_THREADS, DeprecationWarning)
        texts: list[str] = []
        yield texts
    texts += [str(warning.message) for warning in caught if not str(warning.message).startswith("seneca: ")]


def outcomes(iterator: Any, count: int | None = None, see: Callable[[Any], Any] = labels) -> list[Any]:
    """What is seen of each batch, or the exception in its place; all, or ``count`` of them."""
    seen: list[Any] = []
    while len(seen) != count:
        try:
            seen.append(see(next(iterator)))
        except StopIteration:
            break
        except Exception as error:
            # A traceback holds the iterator, whose workers end slowly where the garbage collector ends it.
            error.__traceback__ = error.__cause__ = error.__context__ = None
            seen.append(error)
    return seen


def await_true(condition: Callable[[], bool], what: str) -> None:
    """Return once ``condition`` holds; fail when it does not within PATIENCE_S."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S} s: {what}"
        time.sleep(0.01)


def gone(pid: int) -> bool:
    """Whether there is no such process any more, or only what is left of one until its parent looks."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True
