"""Jobs as real processes, each of which writes down what it was given."""

import multiprocessing
import multiprocessing.forkserver
import multiprocessing.util
import os
import secrets
import signal
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

import seneca
from seneca import transforms as T

SIZE = 32
TIME_OUT_S = 300.0  # what takes so long has hung, however loaded the machine is


def transform(size=SIZE):
    normalize = T.Normalize(T.IMAGENET_MEAN, T.IMAGENET_STD)
    return T.Compose([T.RandomResizedCrop(size), T.RandomHorizontalFlip(), normalize])


def in_step(jobs: int) -> Callable[[], object]:
    """What so many jobs call after each batch, to wait there for each other; made before they are."""
    barrier = multiprocessing.get_context("fork").Barrier(jobs)
    return lambda: barrier.wait(TIME_OUT_S)


class Job:
    """A forked process that trains, or would: it iterates a loader and logs the ids of each batch."""

    def __init__(self, log: Path, work) -> None:
        self.log = log
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                torch.set_num_threads(1)  # OpenMP's threads are the parent's and did not come along
                # Nor did the fork server that a test may have begun there.
                multiprocessing.forkserver._forkserver.__init__()
                multiprocessing.process._children.clear()
                with open(log, "wb", buffering=0) as file:
                    work(lambda epoch, ids: file.write(np.uint32([epoch, len(ids), *ids]).tobytes()))
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                # As at the end of a script: worker processes are ended, what holds the cache lets go of it.
                multiprocessing.util._exit_function()
                os._exit(status)

    def runs(self) -> bool:
        """Whether it has not ended."""
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    def wait(self, timeout_s: float = TIME_OUT_S) -> int:
        """Its exit status; negative, the signal that ended it."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if not self.runs():
                _, status = os.waitpid(self.pid, 0)
                self.pid = 0
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.005)
        os.kill(self.pid, signal.SIGABRT)  # pytest's faulthandler, which came along, prints where it is
        time.sleep(1)
        self.kill()
        raise AssertionError(f"the job that writes {self.log.name} did not end in {timeout_s} s")

    def kill(self) -> None:
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = 0

    def delivered(self) -> dict[int, list[np.ndarray]]:
        """Batches by epoch, as far as they were written."""
        if not self.log.exists():
            return {}  # it has not come so far
        words = np.fromfile(self.log, np.uint32)
        epochs: dict[int, list[np.ndarray]] = {}
        at = 0
        while at + 2 <= len(words):
            epoch, count = int(words[at]), int(words[at + 1])
            epochs.setdefault(epoch, []).append(words[at + 2 : at + 2 + count])
            at += 2 + count
        return epochs


class Host:
    """Starts jobs on one cache of a name of their own; ends whatever is left of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = "test-" + secrets.token_hex(6)
        self.jobs: list[Job] = []

    def start(self, work) -> Job:
        job = Job(self.folder / f"job{len(self.jobs)}.log", work)
        self.jobs.append(job)
        return job

    def segments(self) -> list[str]:
        return [entry for entry in os.listdir("/dev/shm") if self.name in entry]

    def close(self) -> None:
        for job in self.jobs:
            job.kill()
        for entry in self.segments():
            seneca.SampleCache.remove(entry.split("-", 2)[2])


def assert_exactly_once(job, epochs, samples, batch_size):
    delivered = job.delivered()
    assert sorted(delivered) == list(range(epochs))
    for epoch, batches in delivered.items():
        ids = np.concatenate(batches)
        assert len(ids) == samples and len(np.unique(ids)) == samples, f"epoch {epoch} of {job.log.name}"
        assert [len(batch) for batch in batches[:-1]] == [batch_size] * (len(batches) - 1)
