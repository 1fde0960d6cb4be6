"""What all experiments get: the folders, the storage, the loaders that are there, and seeds."""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import job_loaders
from bench_jobs import left_behind

from papers.result import OURS, PEER, Who
from papers.slow_storage import Storage
from papers.training import Training

SEED = 45
NAMES = {
    "torch": "torch",
    "dali": "DALI",
    "minio": "like MinIO",
    "seneca": "Seneca",
    "seneca-keep": "Seneca, keep",
}
"""How the page calls a loader."""
WITH_CACHE = ("minio", "seneca", "seneca-keep")
NONE_SHARED = {"split": "100-0-0", "share": "none"}
"""Jobs keep files for each other and share nothing else, as with MinIO. Unlike MinIO Seneca then knows the
orders of all jobs beforehand, and evicts what is needed last: this peer has more hits than MinIO."""


@dataclass(frozen=True)
class Setup:
    """What an experiment gets.

    Args:
        storage: The slow storage, with a folder of class folders.
        pictures: A folder of class folders in memory.
        samples: Of that folder.
        cifar: A folder with ``train/`` and ``test/``; None: pictures are made up.
        loaders: The keys of :data:`NAMES` that are there.
        peer_python: The interpreter that has DALI; None: this one.
        workers: Threads or processes of a job.
        batch: Samples of a batch.
        sound: A folder of WAVs of one channel; None: tones are made up.
    """

    storage: Storage
    pictures: Path
    samples: int
    cifar: Path | None
    loaders: tuple[str, ...]
    peer_python: str | None
    workers: int = 2
    batch: int = 64
    sound: Path | None = None

    @property
    def peers(self) -> tuple[str, ...]:
        """The loaders that compare with Seneca: those of other projects, and MinIO."""
        return tuple(name for name in self.loaders if name != "seneca")

    def python_of(self, name: str) -> str | None:
        """The interpreter of a loader's jobs; None: this one."""
        return self.peer_python if name == "dali" else None

    @contextmanager
    def cache(self, name: str) -> Iterator[str | None]:
        """The name of a cache for jobs of loader ``name``, of which nothing is left afterwards.

        None: the loader has no cache.
        """
        cache = f"papers-{os.getpid()}"
        try:
            yield cache if name in WITH_CACHE else None
        finally:
            left_behind(cache)

    @contextmanager
    def on_slow_storage(self, name: str, cached: float) -> Iterator[Callable[..., Training]]:
        """Memory for a part of the files of the slow storage, page cache and cache together.

        What is yielded makes jobs of loader ``name`` there, of :meth:`training`'s other arguments.
        """
        storage = self.storage
        memory = round(cached * storage.files_bytes)
        with self.cache(name) as cache, storage.held(memory, cache):
            yield functools.partial(
                self.training,
                name,
                cache,
                folder=storage.folder,
                samples=storage.samples,
                cache_bytes=memory,
                seed=SEED,
            )

    def training(
        self, name: str, cache: str | None, *, folder: Path, samples: int, cache_bytes: int, **more: Any
    ) -> Training:
        """A job of loader ``name`` whose cache, where it has one, gets so much memory."""
        of_job = {field: more.pop(field) for field in ("part", "shard", "crop") if field in more}
        batch, workers = more.pop("batch", self.batch), more.pop("workers", self.workers)
        options: dict[str, Any] = {"cache_bytes": cache_bytes, "split": "auto"}
        if name == "minio":
            options |= NONE_SHARED
        if name == "seneca-keep":
            options["keep"] = "10min"
        options |= more.pop("options", {})
        loader = "seneca" if name in WITH_CACHE else name
        setup = job_loaders.Setup(folder, samples, batch, workers, cache, **of_job)
        join = () if folder == self.pictures else self.storage.join
        return Training(loader, setup, options if cache else {}, join=join, **more)


def whose(name: str) -> Who:
    """Whose number a loader's is."""
    return OURS if name.startswith("seneca") else PEER


def loaders_here(storage: Storage, peer_python: str | None) -> tuple[tuple[str, ...], list[str]]:
    """The loaders that can run, and a line for each that cannot."""
    here, lines = ["seneca", "minio"], []
    for name, module in (("torch", "torchvision"), ("dali", "nvidia.dali")):
        python = peer_python if name == "dali" else None
        if name == "dali" and not storage.holds_mappings:
            lines.append("DALI is left out: it maps files, which the token bucket does not hold back")
        elif not has(module, python):
            lines.append(f"{NAMES[name]} is left out: {python or 'this interpreter'} has no {module}")
        else:
            here.append(name)
    return tuple(here), lines


def has(module: str, python: str | None) -> bool:
    """Whether an interpreter can import a module."""
    if python is None:
        return job_loaders.missing("dali" if module == "nvidia.dali" else "torch") is None
    return subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode == 0
