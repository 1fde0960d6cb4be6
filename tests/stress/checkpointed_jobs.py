"""A training that survives its jobs: each logs what it gets, saves checkpoints, and may be killed anywhere.

::

    job 0  -- batches --> 0.log           killed
              |  checkpoint: state, job 0, 5 batches
              v
    job 1  -- batches --> 1.log           killed: begins where the checkpoint was, and not where job 0 died

A log is 32-bit numbers: the job and the number of its batches that the checkpoint names, then each batch as
its length and its ids. A length of 0 ends an epoch.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import random
import signal
import time
from collections.abc import Mapping
from multiprocessing.forkserver import _forkserver
from pathlib import Path
from typing import Any

import numpy as np
import torch
from subjects_of_storms import SAMPLES, SUBJECTS

import seneca

__all__ = ["NOTHING", "Training"]

BATCH = 8
STEP_S = 0.001  # of training: without it most kills would come while a job begins
NOTHING = 0xFFFFFFFF  # the job of a checkpoint, before there is one


def work(folder: Path, number: int, kind: str, options: Mapping[str, Any], dataset: Any = None) -> None:
    """What a job does: go on from the checkpoint, in whole epochs, until the file ``end`` exists."""
    torch.set_num_threads(1)  # OpenMP's threads are those of the process that forked it
    rng = random.Random(os.getpid())
    subject = SUBJECTS[kind]
    dataset = dataset or subject.open(None)
    loader = seneca.DataLoader(dataset, BATCH, shuffle=True, **subject.options, **options)
    begins = (NOTHING, 0)
    with contextlib.suppress(FileNotFoundError), open(folder / "checkpoint", "rb") as file:
        state, *begins = pickle.load(file)
        loader.load_state_dict(state)
    logged = 0
    with open(folder / f"{number}.log", "wb", buffering=0) as log:
        log.write(np.uint32(begins).tobytes())
        while not logged or not (folder / "end").exists():
            for batch in loader:
                ids = batch[1].tolist() if loader.last_indices is None else loader.last_indices
                subject.check(batch, ids)
                log.write(np.uint32([len(ids), *ids]).tobytes())
                logged += 1
                if rng.random() < 0.3:
                    save(folder, (loader.state_dict(), number, logged))
                time.sleep(STEP_S)
            log.write(np.uint32([0]).tobytes())
            logged += 1
            if rng.random() < 0.5:
                save(folder, (loader.state_dict(), number, logged))


def save(folder: Path, checkpoint: tuple[Any, int, int]) -> None:
    (folder / "checkpoint.new").write_bytes(pickle.dumps(checkpoint))
    os.rename(folder / "checkpoint.new", folder / "checkpoint")


class Training:
    """One training, of which one job after the other is killed; and what its checkpoints have to lead to.

    Attributes:
        whole: Epochs that were delivered to their ends, by whatever jobs.
        resumed: Jobs that went on amid an epoch.
    """

    def __init__(
        self, folder: Path, method: str, kind: str, options: Mapping[str, Any], dataset: Any
    ) -> None:
        folder.mkdir()
        self.folder = folder
        self.whole = self.resumed = 0
        self._context = multiprocessing.get_context(method)
        if method == "forkserver":
            self._context.set_forkserver_preload(["pytest", "warm_server", __name__])
        # Whatever is not forked from here opens its dataset itself.
        self._arguments = (kind, options, dataset if method == "fork" else None)
        self._number = -1
        self._taken: dict[tuple[int, int], frozenset[int]] = {(NOTHING, 0): frozenset()}
        self.begin()

    def begin(self) -> None:
        """Begin the next job."""
        self._number += 1
        self._job = self._context.Process(target=work, args=(self.folder, self._number, *self._arguments))
        self._job.start()

    def runs(self) -> bool:
        return self._job.is_alive()

    def has_delivered(self) -> bool:
        with contextlib.suppress(FileNotFoundError):
            return os.stat(self._log).st_size > 8
        return False

    def kill(self) -> None:
        """Kill the job with SIGKILL, and look at what it has delivered."""
        self._job.kill()
        self._join()
        assert self._job.exitcode == -signal.SIGKILL, f"{self._log} ended by itself: {self._job.exitcode}"
        self._examine()

    def end(self) -> None:
        """Let the job end."""
        self._join()
        assert self._job.exitcode == 0, self._log
        self._examine()

    def close(self) -> None:
        with contextlib.suppress(ValueError):  # it is closed
            self._job.kill()
            self._join()
        _forkserver._stop()

    @property
    def _log(self) -> Path:
        return self.folder / f"{self._number}.log"

    def _join(self) -> None:
        self._job.join(300)
        assert self._job.exitcode is not None, f"{self._log} hangs"

    def _examine(self) -> None:
        """Each epoch has each sample once: until the checkpoint from the jobs before, then from this one.

        Nothing here is Seneca's: neither its states nor its audit are asked.
        """
        if not self._log.exists():
            return  # it was killed before it came to that
        words = np.fromfile(self._log, np.uint32).tolist()
        if len(words) < 2:
            return
        taken = set(self._taken[words[0], words[1]])
        self.resumed += bool(taken)
        at, batches, of_this = 2, 0, {}
        while at < len(words) and at + 1 + words[at] <= len(words):
            ids = words[at + 1 : at + 1 + words[at]]
            if not ids:
                assert taken in (set(), set(range(SAMPLES))), f"{SAMPLES - len(taken)} lost: {self._log}"
                self.whole += bool(taken)
                taken = set()
            again = taken.intersection(ids)
            assert not again and len(set(ids)) == len(ids), f"repeated: {sorted(again)}, {self._log}"
            taken.update(ids)
            at, batches = at + 1 + len(ids), batches + 1
            of_this[self._number, batches] = frozenset(taken)
        self._log.unlink()
        self._forget(of_this)

    def _forget(self, of_this: dict[tuple[int, int], frozenset[int]]) -> None:
        """Keep what the next job may begin with: where the checkpoint is that this job has made or found."""
        self._taken = {**self._taken, **of_this}
        with contextlib.suppress(FileNotFoundError):
            _, *begins = pickle.loads((self.folder / "checkpoint").read_bytes())
            self._taken = {tuple(begins): self._taken[tuple(begins)]}
