"""How many threads, or worker processes, prepare a loader's samples: ``num_workers="auto"``.

::

    what this loader did --every 2 s--> its need --> the host's table --> the needs of all --> its share
                                                                                                 |
                                  threads are started or parked, workers are fed or paused <-----+

Every loader computes its own share, from what all have published (``seneca.partition.cores``). There is no
daemon and no leader. A loader with a number of its user's publishes its need as well, if another has made a
table, and stays as it is. If the table cannot be used, a loader takes the cores that there are, as if it were
alone.

There is no thread. The work is done between two batches. A loader withdraws its need when its epoch ends. One
that stands still publishes nothing, and the others count it as gone after ``SILENT_S``. Reading ahead has its
own rule, in C (``csrc/pool/sn_readahead.h``): who reads sleeps, and needs no core.
"""

from __future__ import annotations

import logging
import os
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from seneca._runtime.cgroups import cores_allowed
from seneca._runtime.finalizers import LAST, finalize
from seneca._runtime.private_files import NotPrivate
from seneca._runtime.warn import warn
from seneca.partition.cores import Need, Threads, shares
from seneca.tuning.core_table import CoreNeed, CoreTable, core_table_path

__all__ = ["CoreShare"]

SAMPLE_EVERY_S = 2.0
SAMPLES = 3  # of which rates are means
LEAST_WORK = 0.05  # share of the time; a training step that takes less takes all that it is given
OF_PREPARERS = ("decode", "augment", "item", "batch")  # causes of the telemetry that are CPU time

logger = logging.getLogger("seneca.cores")  # the name that users filter by


class _Interval(NamedTuple):
    """The work of some time, all in seconds."""

    seconds: float = 0.0
    stall: float = 0.0
    cpu: float = 0.0
    blocked: float = 0.0
    process: float = 0.0
    prepared_here: float = 0.0

    def plus(self, other: _Interval) -> _Interval:
        return _Interval(*(a + b for a, b in zip(self, other, strict=True)))

    def since(self, before: _Interval) -> _Interval:
        return _Interval(*(a - b for a, b in zip(self, before, strict=True)))

    def need(self) -> Need:
        """The need of the training step if it never waited."""
        loop = max(0.0, self.process - self.prepared_here)
        worked = self.seconds - self.stall
        if worked <= LEAST_WORK * self.seconds:
            return Need(self.cpu / self.seconds, loop / self.seconds, takes_all=True)
        return Need(self.cpu / worked, loop / worked)


class CoreShare:
    """One loader's share of this host's cores.

    Args:
        most: The most threads, or workers.
        is_auto: Whether their number follows the share; else it stays ``most``.
        here: Whether they are threads of this process.

    Attributes:
        is_auto: As given.
        threads: How many there are now.
    """

    def __init__(self, most: int, *, is_auto: bool, here: bool) -> None:
        self._most, self.is_auto, self._here = most, is_auto, here
        self._table: CoreTable | None = None
        self._owner = os.getpid()
        self._apply: Callable[[], Callable[[int], None] | None] = _nobody
        self._need = Need(0.0, 0.0, takes_all=True)  # until it is known
        self._last = _Interval()  # the clocks at the last tick
        self._now = _Interval()
        self._samples: deque[_Interval] = deque(maxlen=SAMPLES)
        self._counted = 0.0  # of the CPU time of threads, what _prepared has
        self._threads = Threads(most, most)
        _withdraw_abandoned()
        _in_this_process.add(self)
        if is_auto:
            if self._in_table():
                self._publish()
            share, _ = self._share()
            self._threads = Threads(round(share), most)

    @property
    def threads(self) -> int:
        return self._threads.now

    def suits(self, most: int, *, is_auto: bool) -> bool:
        """Whether this also serves an epoch of a loader with these."""
        return (most, is_auto, os.getpid()) == (self._most, self.is_auto, self._owner)

    def applied_by(self, apply: Callable[[int], None]) -> None:
        """Before an epoch, with as many threads as there are now.

        Args:
            apply: A method that changes their number. Its object is not kept alive.
        """
        self._apply = weakref.WeakMethod(apply)

    def begin(self, stall_s: float, spent_ns: dict[str, int]) -> None:
        """Begin an epoch.

        Args:
            stall_s, spent_ns: As for :meth:`tick`.
        """
        _withdraw_abandoned()
        self._last = self._snapshot(stall_s, spent_ns)
        if self._in_table():
            self._publish()

    def tick(self, stall_s: float, spent_ns: dict[str, int], *, ended: bool = False) -> None:
        """Called between two batches: sample the shares every two seconds of work.

        Args:
            stall_s: Seconds that the training loop has waited in all.
            spent_ns: What those who prepare have spent in all, by cause, as the telemetry has it.
            ended: Whether the epoch has ended.
        """
        now = self._snapshot(stall_s, spent_ns)
        self._now = self._now.plus(now.since(self._last))
        self._last = now
        if self._now.seconds >= SAMPLE_EVERY_S:
            self._sample()
        if ended and self._table is not None:
            self._table.withdraw()

    def _sample(self) -> None:
        self._samples.append(self._now)
        self._now = _Interval()
        recent = _Interval()
        for sample in self._samples:
            recent = recent.plus(sample)
        self._need = recent.need()
        if self._in_table():
            self._publish()
        if self.is_auto:
            share, full = self._share()
            longer = 1.0 if self._here else (recent.cpu + recent.blocked) / max(recent.cpu, 1e-9)
            self._follow(min(share * longer, self._most), full)

    def _follow(self, share: float, full: bool) -> None:
        before = self._threads.now
        after = self._threads.follow(share, full=full)
        if after != before:
            logger.info("%d threads or workers prepare, instead of %d", after, before)
            if (apply := self._apply()) is not None:
                apply(after)
            self._samples.clear()

    def _snapshot(self, stall_s: float, spent_ns: dict[str, int]) -> _Interval:
        cpu = sum(spent_ns[cause] for cause in OF_PREPARERS) * 1e-9
        if self._here:
            _prepared.seconds += cpu - self._counted
            self._counted = cpu
        return _Interval(
            time.monotonic(),
            stall_s,
            cpu,
            spent_ns["storage"] * 1e-9,
            time.process_time(),
            _prepared.seconds,
        )

    def _in_table(self) -> bool:
        """Join the table, if this loader needs it or another has made it. Whether it is there."""
        if self._table is None and (self.is_auto or os.path.exists(core_table_path())):
            try:
                self._table = CoreTable()
            except OSError as error:
                self._do_without(error)
                return False
            finalize(self, self._table.close, order=LAST)
        return self._table is not None

    def _publish(self) -> None:
        assert self._table is not None
        need = self._need
        try:
            self._table.publish(CoreNeed(cores_allowed().group, need.prepare, need.loop, need.takes_all))
        except OSError as error:  # no room for the file's page
            table, self._table = self._table, None
            table.close()
            self._do_without(error)

    def _do_without(self, error: OSError) -> None:
        """The table cannot be used. A loader whose number of threads depends on it warns, once a process."""
        path = core_table_path()
        if not self.is_auto or path in _warned_of:
            logger.info("no table of cores: %s", error)
            return
        _warned_of.add(path)
        why = str(error)
        if not isinstance(error, NotPrivate):
            why = f"{path}: {error.strerror or error}; let SENECA_DIR name a folder where it can be used"
        warn(
            "a loader takes the cores of the host as if it were alone, because the table of cores cannot be "
            f"used: {why}"
        )

    def _share(self) -> tuple[float, bool]:
        """This loader's share, and whether all cores are given away."""
        cores = cores_allowed()
        others = self._table.others(cores.group) if self._table is not None else []
        needs = [self._need, *(Need(one.prepare, one.loop, one.takes_all) for one in others)]
        given = shares(needs, cores.number)
        full = any(need.takes_all for need in needs) or sum(n.prepare + n.loop for n in needs) >= cores.number
        return given[0], full


_in_this_process: weakref.WeakSet[CoreShare] = weakref.WeakSet()
_warned_of: set[str] = set()  # tables that this process could not use


def _withdraw_abandoned() -> None:
    """Withdraw what loaders of this process have published whose iterators were dropped within an epoch."""
    for one in list(_in_this_process):
        if one._table is not None and one._apply() is None:
            one._table.withdraw()


def _nobody() -> None:
    """Before the first epoch there are no threads."""


class _Prepared:
    """The CPU time of all threads of this process that have prepared samples. The rest is the loops'."""

    seconds = 0.0


_prepared = _Prepared()
