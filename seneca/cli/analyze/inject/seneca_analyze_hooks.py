"""Hooks in torch's loader, and the trace that they write. It runs inside the user's script.

The script may have another Python than the command, without Seneca. Therefore this imports the standard
library alone, and torch's modules only after the script has.

Each process writes two files in the trace's folder:

* ``PID.jsonl`` has rare events, one JSON object a line.
* ``PID.records`` has a :data:`RECORD` for each step and each batch. It is mapped into memory. Therefore a
  record costs a microsecond, and what a killed process wrote is there.
"""

import atexit
import importlib.abc
import importlib.util
import itertools
import json
import mmap
import os
import random
import struct
import sys
import threading
import time
import weakref
from typing import Any

RECORD = struct.Struct("<iiqddddqd")
"""Kind, iterator, samples, begin, wall, cpu, delay, read bytes, other threads' cpu.

Times are seconds, ``begin`` of CLOCK_MONOTONIC. ``delay`` is the time that the thread waited for a core.
``read bytes`` are those that storage gave. The iterator of a batch that a worker makes is 0: the worker has
one. A step has -1 samples, and 0 if it found the end of its epoch. Its two fields of CPU have another
meaning: all that the process has ever used, before the wait and after it. They are NaN where the clock was
not read. Batches that were not measured have no record. :class:`Sparse` says which those are.
"""
STEP, BATCH, IDLE = 1, 2, 3
"""Kinds: the training loop asked for a batch; a batch was made; the GPU idled for ``wall`` in a step."""

LOADER = "torch.utils.data.dataloader"
NAN = float("nan")
PIECE = 1 << 20  # bytes, of whole records
APART_S = 10e-3  # of events that are measured one by one; of quicker ones some are
UNNOTICED_S = 20e-6  # a thread that was off its core for less has not waited
HOST_EVERY_S = 1.0  # how often the host's CPU time is noted
MOST_BYTES = 1 << 28  # of one process; 3 million records


class Trace:
    """The files of this process. After a fork the child makes its own."""

    def __init__(self, folder):
        self.folder = folder
        self._lock = threading.Lock()
        self._renew()
        os.register_at_fork(after_in_child=self._renew)

    def _renew(self):
        self._lock = threading.Lock()
        self._memory: Any = None
        self._size = 0
        self._places = itertools.count()
        self.full = False

    def event(self, what, **fields):
        line = json.dumps({"what": what, "at": time.monotonic(), **fields}) + "\n"
        with open(os.path.join(self.folder, f"{os.getpid()}.jsonl"), "a", encoding="utf-8") as file:
            file.write(line)

    def record(self, *fields):
        """Write a record. Threads need no lock for that: each gets a place of its own."""
        at = next(self._places) * RECORD.size
        if at < self._size or self._grow(at):
            RECORD.pack_into(self._memory, at, *fields)

    def _grow(self, at):
        """Make room for the record there, unless the trace is full.

        Another thread may still write by the old map.
        """
        with self._lock:
            while at >= self._size:
                if self._size >= MOST_BYTES:
                    if not self.full:
                        self.full = True
                        self.event("full")
                    return False
                path = os.path.join(self.folder, f"{os.getpid()}.records")
                file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                try:
                    os.ftruncate(file, self._size + PIECE)
                    self._memory = mmap.mmap(file, self._size + PIECE)
                finally:
                    os.close(file)
                self._size += PIECE  # last: another thread that sees it writes by the new map
            return True


class Sparse:
    """Chooses by chance which events are measured: all, but of quick ones only about one each ``APART_S``.

    The chance depends on the pace of the events before. Therefore it is the same for quick and slow events,
    and means over those that are measured are means over all.
    """

    def __init__(self):
        self._apart, self._last = APART_S, time.monotonic()
        self._random = random.Random().random  # the script's own numbers stay what they are

    def due(self, now):
        """Whether the event that begins now is measured."""
        self._apart += 0.1 * (now - self._last - self._apart)
        self._last = now
        return self._apart > APART_S * self._random()


class Thread(threading.local):
    """One thread's use of CPU and storage. Its files stay open: opening them costs more than reading.

    A thread that has not left its core since they were read has waited for none, and storage gave it nothing
    that it waited for. Then they are not read again: that would take most of the time of a record.
    """

    def __init__(self):
        self.iterator = 0  # whose batches this thread asks for
        self.batches = Sparse()
        self._off = -1.0  # how long the thread had been off a core as the files were read; -1: they were not

    def renew(self):
        """Begin anew: a forked child has the files of its parent's thread, and makes batches for another."""
        self._off, self.iterator = -1.0, 0

    def read(self):
        """The time, CPU and delay of the thread, CPU of the process, bytes that storage gave the thread."""
        now, cpu = time.monotonic(), time.thread_time()
        if now - cpu > self._off + UNNOTICED_S or self._off < 0.0:
            self._read_files()
            self._off = now - cpu
        return now, cpu, self._delay, time.process_time(), self._bytes

    def _read_files(self):
        if self._off < 0.0:
            self._scheduled = _opened("/proc/thread-self/schedstat")
            self._io = _opened("/proc/thread-self/io")
            self._delay, self._bytes = 0.0, 0
        if self._scheduled is not None:
            self._delay = int(os.pread(self._scheduled, 96, 0).split()[1]) / 1e9
        if self._io is not None:
            for line in os.pread(self._io, 512, 0).split(b"\n"):
                if line.startswith(b"read_bytes:"):
                    self._bytes = int(line[11:])


def _opened(path):
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # a kernel or a container without it
        return None


class GpuClock:
    """How long the GPU had nothing to do while the training loop waited for a batch.

    The loop runs ahead of the GPU. Therefore the time that it waits says little of the GPU. An event of CUDA
    is recorded as the wait begins, and another as it ends. The GPU passes the first when it has done all
    earlier work. The time between the two is the time that it had nothing to do.
    """

    def __init__(self, trace, cuda):
        self._trace, self._cuda = trace, cuda
        self._pending = []

    def mark(self):
        event = self._cuda.Event(enable_timing=True)
        event.record()
        return event

    def waited(self, iterator, begin, first, last):
        self._pending.append((iterator, begin, first, last))
        while self._pending and (len(self._pending) > 1000 or self._pending[0][3].query()):
            self.write(self._pending.pop(0))

    def write(self, pending):
        iterator, begin, first, last = pending
        last.synchronize()
        self._trace.record(IDLE, iterator, -1, begin, first.elapsed_time(last) / 1e3, 0.0, 0.0, 0, 0.0)


class Datasets:
    """Numbers the datasets of this process that are alike, as those of training and of validation may.

    A dataset that takes the place of one that is gone has its number. Thus a dataset that a script makes anew
    for each epoch is one.
    """

    def __init__(self):
        self._alike: Any = {}  # for each type and length: weak references, whose places are the numbers

    def number(self, dataset):
        """The number of a dataset among those that resemble it. It is the same in all ranks."""
        found = self._alike.setdefault((type(dataset), _length(dataset)), [])
        free = len(found)
        for number, one in reversed(list(enumerate(found))):
            if one() is dataset:
                return number
            if one() is None:
                free = number
        try:
            found[free : free + 1] = [weakref.ref(dataset)]
        except TypeError:  # a list has no weak references
            return 0
        return free


class Hooks:
    """Takes the place of the functions of torch's loader that are timed."""

    def __init__(self, trace, phases=None, datasets=None, parts=None):
        self.trace = trace
        self.parts = parts
        self.datasets = datasets or Datasets()
        self.phases = phases
        self.thread = Thread()
        os.register_at_fork(after_in_child=self.thread.renew)
        self.numbers = itertools.count(1)
        self.iterators: Any = weakref.WeakKeyDictionary()
        self.amid_epoch: Any = weakref.WeakSet()  # Seneca's iterators that are amid an epoch
        self.last: Any = (_none, 0)  # the iterator of the last step, and its number
        self.gpu = None
        self.host_written = 0.0
        self.steps = Sparse()
        self.measures = False  # whether the CPU of the step that the script computes now is measured

    def install(self, module):
        import torch

        missing = []
        base: Any = getattr(module, "_BaseDataLoaderIter", None)
        if hasattr(base, "__next__"):
            plain_next = base.__next__
            base.__next__ = self.timed_next(plain_next)
            if self.phases is not None:
                self.phases.install(base, plain_next)
        else:
            missing.append("_BaseDataLoaderIter.__next__")
        fetch = getattr(getattr(module, "_utils", None), "fetch", None)
        for name in ("_MapDatasetFetcher", "_IterableDatasetFetcher"):
            fetcher: Any = getattr(fetch, name, None)
            if hasattr(fetcher, "fetch"):
                fetcher.fetch = self.timed_fetch(fetcher.fetch)
            else:
                missing.append(f"{name}.fetch")
        atexit.register(self.end)
        self.trace.event(
            "torch",
            version=torch.__version__,
            missing=missing,
            python=sys.version.split()[0],
            arguments=sys.argv,
            rank=_number("RANK"),
            ranks=_number("WORLD_SIZE"),
            parent=os.getppid(),
            schedstat=os.path.exists("/proc/thread-self/schedstat"),
        )

    def timed_next(self, inner):
        monotonic, process_time, record = time.monotonic, time.process_time, self.trace.record

        def __next__(iterator):
            known, number = self.last
            if known() is not iterator:
                number = self.begin_epoch(iterator)
            begin, samples = monotonic(), -1
            cpu = process_time() if self.measures else NAN
            self.measures = self.steps.due(begin)
            gpu = self.gpu or (self.gpu_clock() if self.measures else None)
            first = gpu.mark() if gpu else None
            if begin > self.host_written + HOST_EVERY_S:
                self.write_host(begin)
            try:
                return inner(iterator)
            except StopIteration:
                samples, self.last = 0, (_none, 0)
                self.trace.event("end", iterator=number)
                self.write_causes(iterator)
                raise
            finally:
                wall = monotonic() - begin
                after = process_time() if self.measures else NAN
                record(STEP, number, samples, begin, wall, cpu, 0.0, 0, after)
                if gpu:
                    gpu.waited(number, begin, first, gpu.mark())

        return __next__

    def timed_fetch(self, inner):
        monotonic, thread, parts = time.monotonic, self.thread, self.parts

        def fetch(fetcher, indices):
            now = monotonic()
            if not thread.batches.due(now):
                return inner(fetcher, indices)
            iterator = thread.iterator  # the dataset may have loaders of its own
            of_parts = parts is not None and parts.due(now)
            make = parts.fetch if of_parts else _made_by
            begin, cpu, delay, all_cpu, read = thread.read()
            try:
                return make(inner, fetcher, indices)
            finally:
                end, cpu_2, delay_2, all_cpu_2, read_2 = thread.read()
                others = (all_cpu_2 - all_cpu) - (cpu_2 - cpu)
                samples = len(indices) if hasattr(indices, "__len__") else 1
                self.trace.record(
                    *(BATCH, iterator, samples, begin, end - begin, cpu_2 - cpu),
                    *(delay_2 - delay, read_2 - read, others),
                )
                if of_parts:
                    parts.write(iterator)

        return fetch

    def begin_epoch(self, iterator):
        """Note whose steps follow, and give its number."""
        number = self.iterators.get(iterator)
        if number is None:
            number = self.meet(iterator)
        self.last = weakref.ref(iterator), number
        self.thread.iterator = number
        if type(iterator).__module__ == "seneca.native.iterator":
            self.amid_epoch.add(iterator)
        return number

    def meet(self, iterator):
        """Note an iterator that is new."""
        number = self.iterators[iterator] = next(self.numbers)
        dataset = getattr(iterator, "_dataset", None)
        self.trace.event(
            "iterator",
            number=number,
            kind=f"{type(iterator).__module__}.{type(iterator).__qualname__}",
            dataset=type(dataset).__qualname__,
            samples=_length(dataset),
            dataset_number=self.datasets.number(dataset),
            batch_size=getattr(getattr(iterator, "_index_sampler", None), "batch_size", None),
            num_workers=getattr(iterator, "_num_workers", 0),
            prefetch_factor=getattr(iterator, "_prefetch_factor", None),
            workers=[worker.pid for worker in getattr(iterator, "_workers", ())],
            rank=group_rank(),
        )
        return number

    def write_causes(self, iterator):
        """Record the waits of an epoch by cause, as Seneca's native path knows them."""
        if iterator not in self.amid_epoch:
            return
        self.amid_epoch.discard(iterator)
        found = iterator._session.diagnosis(may_measure=False)
        if found is not None:
            self.trace.event(
                "causes",
                iterator=self.iterators[iterator],
                seconds={cause: share * found.seconds for cause, share in found.causes.items()},
                remedies=[(one.what, one.removes) for one in found.remedies],
                advice=found.advice,
            )

    def write_host(self, now):
        """Note the CPU time that all processes had, and that the hypervisor took from them."""
        self.host_written = now
        try:
            with open("/proc/stat") as file:
                user, nice, system, _, _, irq, softirq, stolen = map(int, file.readline().split()[1:9])
        except (OSError, ValueError):  # a container without it
            return
        self.trace.event("host", busy=user + nice + system + irq + softirq, stolen=stolen)

    def gpu_clock(self):
        """The clock of the GPU; None: the script uses none."""
        if self.gpu is None:
            cuda = sys.modules["torch"].cuda
            if cuda.is_initialized():
                self.gpu = GpuClock(self.trace, cuda)
        return self.gpu

    def end(self):
        if self.iterators:
            self.write_host(time.monotonic())
        for iterator in list(self.amid_epoch):
            self.write_causes(iterator)
        if self.gpu is not None:
            for pending in self.gpu._pending:
                self.gpu.write(pending)


def _none():
    return None


def _made_by(fetch, fetcher, indices):
    return fetch(fetcher, indices)


def group_rank():
    """The rank in the script's process group; None: there is none. Not all launchers set RANK."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed.get_rank()


def rank():
    """The rank of this process, in its group or by its launcher; None: it has none."""
    in_group = group_rank()
    return _number("RANK") if in_group is None else in_group


def _number(name):
    value = os.environ.get(name, "")
    return int(value) if value.isdigit() else None


def _length(dataset):
    try:
        return len(dataset)
    except Exception:  # a stream has none, and a user's __len__ may raise anything
        return None


class Finder(importlib.abc.MetaPathFinder):
    """Finds torch's loader as the others do, and sets up the hooks once it is imported."""

    def __init__(self, hooks):
        self.hooks = hooks

    def find_spec(self, name, path=None, target=None):
        if name != LOADER:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        loader: Any = spec.loader
        run = loader.exec_module

        def exec_module(module):
            run(module)
            self.hooks.install(module)

        loader.exec_module = exec_module
        return spec


def begin(folder):
    """Set up the hooks in this process, and in those that it starts."""
    trace = Trace(folder)
    trace.event("python")
    import seneca_analyze_parts

    phases, datasets = None, Datasets()
    if os.environ.get("SENECA_ANALYZE_DEEP"):  # the number of cores
        import seneca_analyze_deep

        phases = seneca_analyze_deep.Phases(trace, rank, datasets.number)
    sys.meta_path.insert(0, Finder(Hooks(trace, phases, datasets, seneca_analyze_parts.Parts(trace))))
