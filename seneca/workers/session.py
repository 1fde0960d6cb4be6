"""The counters of the processes of one shared dataset, and what the loader's process makes of them.

::

    workers --counts--> WorkersSession --> the split of the cache, what watchers see, a diagnosis
                             ^
    loader's process --------+  how long the training loop waited, how far the epoch has come
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import weakref
from collections.abc import Iterator
from multiprocessing.context import get_spawning_popen
from typing import Any, cast

import numpy as np
from torch.utils.data import get_worker_info

from seneca._runtime.remote_servers import RemoteServer
from seneca.cache import SampleCache, note_user, same_job_text
from seneca.cache.remote import remote_cache
from seneca.data.stages import Pictures
from seneca.data.traits import Traits
from seneca.epochs.plan import EpochPlan
from seneca.epochs.progress import EpochProgress
from seneca.forms import Form
from seneca.partition import Jobs, Spent
from seneca.tuning.controller import SplitController, profile_kept
from seneca.tuning.controller import logger as logger_of_splits
from seneca.tuning.cores import CoreShare
from seneca.tuning.diagnosis import Diagnosis, diagnose, logger
from seneca.tuning.telemetry import Telemetry, WorkDone
from seneca.workers.messages import shared_zeros
from seneca.workers.remote import Tallies, WorkersRemote
from seneca.workers.stages import AT, COUNTERS, SPENT, TIMES, is_quicker_made
from seneca.workers.terms import Terms

__all__ = ["WorkersSession"]

# The first row is the loader's process's, the others are one worker's each, and the last one is also for all
# workers beyond.
COUNT_ROWS = 129


class WorkersSession:
    """The counters of one shared dataset, and what this process makes of them.

    When it is pickled for a worker, the counters go along, in shared memory. When it is pickled for another
    job, that job counts from 0.

    Attributes:
        stall_s: Seconds that the training loop waited; None: its loader does not say.
        copy_bytes: The room that an item takes, as far as is known; the next epoch begins with it.
        is_for_worker: Whether this is a worker's copy.
        servers: The memory of other hosts, which is asked for files; None: not known yet.
        cores: The loader's share of the host's cores; None: there are no workers.
    """

    def __init__(self) -> None:
        # None overwrites the counts of another. All processes see them.
        self._counts = shared_zeros(COUNT_ROWS * len(COUNTERS)).view(COUNT_ROWS, -1)
        self.stall_s: float | None = None
        self.copy_bytes = 0
        self._controller: SplitController | None = None
        self._telemetry: Telemetry | None = None
        self._epoch: weakref.ref[EpochProgress] | None = None
        self._preparers: tuple[int, ...] = ()
        self.cores: CoreShare | None = None
        self.is_for_worker = False
        self.servers: tuple[RemoteServer, ...] | None = None
        self._tallies: Tallies | None = None

    def counts_of(self, worker: int | None) -> np.ndarray:
        """The counters of a worker process, or of the loader's process (None), in the order of COUNTERS."""
        return self._counts[0 if worker is None else min(worker + 1, COUNT_ROWS - 1)].numpy()

    @contextlib.contextmanager
    def timed(self) -> Iterator[None]:
        """Count the time that the dataset's own code takes for a batch, in this worker or in the loader's
        process."""
        info = get_worker_info()
        counts = self.counts_of(None if info is None else info.id)
        began, cpu = time.perf_counter_ns(), time.thread_time_ns()
        try:
            yield
        finally:
            counts[AT["item_cpu_ns"]] += time.thread_time_ns() - cpu
            counts[AT["item_ns"]] += time.perf_counter_ns() - began

    def use_servers(self, servers: tuple[RemoteServer, ...]) -> None:
        """From now on ask these servers. A worker asks those of the loader's process, if it has set them."""
        is_worker = get_worker_info() is not None
        if is_worker and self.servers is not None:
            return
        self.servers = servers
        names = [one.name for one in servers]
        if not is_worker and names != list(self._tallies.of if self._tallies else ()):
            self._tallies = Tallies(names)

    def remote_here(self) -> WorkersRemote | None:
        """The servers as this process asks them; None: there are none."""
        if not self.servers:
            return None
        worker = get_worker_info()
        return WorkersRemote(self.servers, self._tallies if worker else None, worker.id if worker else 0)

    def remote_stats(self) -> dict[str, dict[str, Any]]:
        """Counts of the requests of this process and its workers to each server, by its name."""
        cache = remote_cache(self.servers or ())
        if cache is None:
            return {}
        return cache.stats() if self._tallies is None else self._tallies.added_to(cache.stats())

    def describe_job(self, cache: SampleCache | None) -> str:
        """See :func:`seneca.cache.same_job_text`."""
        return same_job_text(cache, self)

    def describe_servers(self) -> str:
        """Describe which servers share the files, as one more line; empty: none does."""
        names = ", ".join(one.name for one in self.servers or ())
        return f"\nfiles are shared with other hosts by {names}" if names else ""

    def stats(self) -> dict[str, Any]:
        """See :meth:`seneca.SharedDataset.stats`."""
        counts = self._sums()
        for name in TIMES:
            del counts[name]
        served = {form.name.lower(): counts.pop(form.name.lower()) for form in Form}
        return {"served": served, **counts, "delivered": sum(served.values())}

    def makes_quicker(self, terms: Terms) -> bool:
        """Whether each job makes its own items, by the counters of all processes."""
        return is_quicker_made(terms, self._counts.sum(0).numpy())

    def joined(self, terms: Terms, cache: SampleCache, job: Jobs | None, share: Any) -> None:
        """Take part in the choice of the split of a cache that was joined.

        Args:
            terms: By which it is shared.
            cache: The cache.
            job: The job whose epoch begins; None: no epoch begins.
            share: The user's ``share``.
        """
        if job is not None:
            note_user(cache, self, terms.exchanged)
        if self._controller is None or not self._controller.suits(cache):
            stages = terms.stages
            if stages.decoded == 0:
                logger_of_splits.info(
                    "cache %r: all of it is for whole items, the one form there is", cache.name
                )
            native = isinstance(stages, Pictures) and stages.then is None and stages.static is None
            known = profile_kept(terms.source, cast(Pictures, stages).pipeline if native else None)
            self._controller = SplitController(cache, known, job or Jobs(share=share), terms.n_samples)
        if job is not None:
            self._controller.begin(self._work_done, job)
        self._controller.tick(self._work_done)

    def begin(
        self,
        plan: EpochPlan,
        progress: EpochProgress,
        cache: SampleCache | None,
        traits: Traits | None,
        *,
        job: str | None,
        workers: int,
    ) -> None:
        """Begin to measure an epoch, and to publish it for those who watch the cache.

        Args:
            plan, progress: The plan of the epoch, and its progress.
            cache: The cache that it shares; None: none.
            traits: What its dataset is made of; None: nothing of it is shared.
            job: The name of the training run, if the user gave one.
            workers: The number of worker processes.
        """
        self._epoch = weakref.ref(progress)
        if (servers := remote_cache(self.servers or ())) is not None:
            servers.begin()
        if self._telemetry is None or not self._telemetry.suits(cache):
            self._telemetry = Telemetry(cache, job)
        self._telemetry.begin(
            self._work_done,
            traits,
            epoch=plan.number,
            places=plan.count or 0,
            threads=max(1, workers if self.cores is None else self.cores.threads),
            batch_size=plan.batch_size or 0,
        )
        if self.cores is not None:
            self.cores.begin(self.stall_s or 0.0, self._telemetry.spent_ns)

    def tick(self, *, drawn: bool = False) -> None:
        """Called between two batches: change the split, and publish what was done, if it is time to.

        Args:
            drawn: Whether all batches of the epoch are drawn.
        """
        if self._controller is not None:
            self._controller.tick(self._work_done, ended=drawn)
        if self._telemetry is not None:
            self._telemetry.tick(self._work_done)

    def waited(self, seconds: float, workers: tuple[int, ...], ended: bool) -> None:
        """Note that the training loop has waited for a batch, which these processes made."""
        self._preparers = workers
        self.stall_s = (self.stall_s or 0.0) + seconds
        telemetry = self._telemetry
        if telemetry is not None:
            if telemetry.tick(self._work_done, ended=ended) and self.cores is not None:
                self.cores.tick(telemetry.done.stall_s or 0.0, telemetry.spent_ns, ended=ended)
                telemetry.uses(self.cores.threads)
            if ended and logger.isEnabledFor(logging.INFO):
                logger.info("%s", self.diagnosis(may_measure=False))

    def core_share(self, workers: int, *, is_auto: bool) -> CoreShare | None:
        """The share of a loader with so many workers at the most; None: it has none."""
        if workers == 0:
            self.cores = None
        elif self.cores is None or not self.cores.suits(workers, is_auto=is_auto):
            self.cores = CoreShare(workers, is_auto=is_auto, here=False)
        return self.cores

    def diagnosis(self, *, may_measure: bool) -> Diagnosis | None:
        """As :meth:`seneca.native.session.Session.diagnosis`."""
        times = None if self._telemetry is None else self._telemetry.epoch_times()
        known = None if self._controller is None else self._controller.model_inputs(may_measure=may_measure)
        return None if times is None else diagnose(times, known)

    def _sums(self) -> dict[str, int]:
        return dict(zip(COUNTERS, self._counts.sum(0).tolist(), strict=True))

    def _work_done(self) -> WorkDone:
        counts = self._sums()
        n = len(SPENT) // 2
        nothing = (0, 0)  # is RECODED in Python
        times = (*(counts[name] for name in SPENT[:n]), *nothing)
        seconds = (*(counts[name] * 1e-9 for name in SPENT[n:]), *nothing)
        served = tuple(counts[form.name.lower()] for form in Form)
        progress = None if self._epoch is None else self._epoch()
        return WorkDone(
            Spent(
                times,
                seconds,
                counts["read_bytes"],
                counts["decoded_bytes"],
                blocked_s=seconds[0],
                from_servers=counts["from_servers"],
                from_servers_s=counts["from_servers_ns"] * 1e-9,
                to_servers=sum(one["stored"] for one in self.remote_stats().values()),
            ),
            sum(served),
            self.stall_s,
            reads_here=False,
            copy_bytes=self.copy_bytes,
            served=served,
            counts={name: counts[name] for name in ("prepared", "staged", "damaged")},
            items_s=(counts["item_cpu_ns"] * 1e-9, counts["item_ns"] * 1e-9),
            place=0 if progress is None else progress.yielded,
            preparers=self._preparers or (threading.get_native_id(),),
        )

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = {"_counts": self._counts}
        if get_spawning_popen() is not None:  # for a worker; else no password of theirs is pickled
            state |= {"servers": self.servers, "_tallies": self._tallies}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__()  # type: ignore[misc]
        counts = state["_counts"]
        if counts.is_shared():
            self._counts, self.is_for_worker = counts, True
            self.servers, self._tallies = state.get("servers"), state.get("_tallies")
