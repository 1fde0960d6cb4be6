"""The phases of ``seneca analyze --deep``. It runs inside the user's script, as the hooks do.

::

    warm-up  -->  as it is  -->  the same batches again  -->  the loader alone  -->  the end of the run
    steps         steps          steps without waiting        no steps at all

The phases are those of DS-Analyzer (Mohan et al., VLDB '21, section 3.2). They begin at fixed numbers of
steps. Therefore all ranks change together, and none has to signal the others. Then rank 0 measures the loader
alone, and the other ranks wait for it.
"""

import collections
import contextlib
import importlib
import itertools
import os
import stat
import statistics
import sys
import time
import weakref
from typing import Any

CORES = "SENECA_ANALYZE_DEEP"  # the environment's variable: how many cores the script may use
WARM_UP = 5  # steps, which do not count: a script's first steps also compile, tune and allocate
AS_IT_IS, REPLAYED, HELD = 30, 30, 8  # steps, steps, batches
WANTED = WARM_UP + AS_IT_IS + REPLAYED  # batches
SAMPLE_S, ALONE_S = 4.0, 4.0  # for the files of some samples; for each number of workers
TAKE_S, APART_S = 2.0, 10e-3  # for taking batches of Seneca's; between two of them
MOST_FILES = 4096
MEASURED = "measured"  # a file in the trace: rank 0 has measured


class Phases:
    """Counts the steps of the script's loaders, and takes over the first that gives enough batches.

    Args:
        trace: Gets what is measured.
        rank: Gives the rank of this process; None: it is alone.
        number_of: Gives the number of a dataset among those that resemble it.
    """

    def __init__(self, trace, rank, number_of):
        self.trace = trace
        self.rank = rank
        self.number_of = number_of
        self.loaders: Any = weakref.WeakKeyDictionary()  # of iterators
        self.given: Any = weakref.WeakKeyDictionary()  # batches in the epoch, of iterators
        self.steps = {}  # of each dataset, by its id
        self.warm_at = {}  # of each dataset: when its warm-up was over
        self.batches = []
        self.chosen = None  # the id of the dataset whose loader is taken over
        self.replayed = 0
        self.began: Any = None  # the clocks of used() as the replay began, in this epoch; None: it has not
        self.took: Any = collections.Counter()  # of the clocks, in the epochs of the replay
        self.alone = False

    def install(self, base, plain_next):
        """Wrap what the hooks have made of torch's base class of iterators.

        Args:
            base: The class.
            plain_next: Its ``__next__`` as torch has it.
        """
        init, timed_next = base.__init__, base.__next__

        def __init__(iterator, loader, *arguments, **options):
            init(iterator, loader, *arguments, **options)
            self.loaders[iterator] = loader

        def __next__(iterator):
            if self.alone:
                return plain_next(iterator)
            loader = self.loaders.get(iterator)
            if loader is None or sys.modules["torch"].utils.data.get_worker_info() is not None:
                return timed_next(iterator)
            number = id(loader.dataset)
            try:
                batch = self.held(iterator, loader) if self.chosen == number else timed_next(iterator)
            except StopIteration:
                self.given[iterator] = 0  # persistent workers' iterator has another epoch
                raise
            self.given[iterator] = self.given.get(iterator, 0) + 1
            if self.chosen is None:
                self.note(number, batch)
            return batch

        base.__init__, base.__next__ = __init__, __next__

    def note(self, number, batch):
        """Note a batch of the run as it is, of the dataset with that id. The first with enough is chosen."""
        self.steps[number] = count = self.steps.get(number, 0) + 1
        if count == WARM_UP:
            self.warm_at[number] = time.monotonic()
        if count > WARM_UP + AS_IT_IS - HELD:
            self.batches.append((number, batch))
        if count == WARM_UP + AS_IT_IS:
            self.batches = [one for dataset, one in self.batches if dataset == number]
            self.chosen = number

    def held(self, iterator, loader):
        """A batch that the step has had before. After enough of them, measure and end the run.

        An epoch has as many of them as it has batches. What the script does between two epochs is no step.
        """
        is_over = self.given.get(iterator, 0) == length(iterator)
        if self.replayed == REPLAYED or (is_over and self.began is not None):
            now = used()
            self.took.update({name: now[name] - self.began[name] for name in now})
            self.began = None
        if self.replayed == REPLAYED:
            self.end(loader, {name: self.took[name] / REPLAYED for name in self.took})
        if is_over:
            raise StopIteration
        if self.began is None:
            self.began = used()
        self.replayed += 1
        return self.batches[self.replayed % len(self.batches)]

    def end(self, loader, of_step):
        """Measure the loader alone, write that and what a step takes, and end the run with status 0."""
        measured = os.path.join(self.trace.folder, MEASURED)
        if not self.rank():
            self.alone = True
            try:
                warm_at = self.warm_at[self.chosen]
                number = self.number_of(loader.dataset)
                self.trace.event("deep", warm_at=warm_at, dataset_number=number, **of_step, **measure(loader))
            except Exception as error:  # the dataset is the user's, and may raise anything
                self.trace.event("undeep", why=f"{type(error).__name__}: {error}")
            with open(measured, "w"):
                pass
        while not os.path.exists(measured):
            time.sleep(0.05)
        raise SystemExit(0)


def used():
    """The time; the CPU time of the process; how long this thread has waited for a core.

    The GPU has then done what it was given.
    """
    cuda = sys.modules["torch"].cuda
    if cuda.is_initialized():
        cuda.synchronize()
    waited = 0.0
    with contextlib.suppress(OSError), open("/proc/thread-self/schedstat") as file:
        waited = int(file.read().split()[1]) / 1e9
    return {"step_s": time.monotonic(), "step_cpu_s": time.process_time(), "step_delay_s": waited}


def measure(loader):
    """Measure the time that a loader takes for its samples without any step."""
    seen = sample_batches(loader)
    drawn = seen.pop("drawn")
    cores = int(os.environ[CORES])
    return {
        **seen,
        "dataset": type(loader.dataset).__qualname__,
        "samples": length(loader.dataset),
        "workers": loader.num_workers,
        "alone": [speed(loader, drawn, workers) for workers in sorted({1, cores})],
        **with_seneca(loader),
    }


def length(sized):
    """The length of a dataset or of an iterator; None: it has none, or cannot say."""
    try:
        return len(sized)
    except Exception:  # a user's __len__ may raise anything
        return None


def sample_batches(loader):
    """Make some batches in this process, and see which files that opens.

    Returns:
        Attributes for the trace, and ``drawn``: what the sampler gave for the batches; None: there is no
        sampler.
    """
    sampler = None if is_stream(loader) else Drawn(forever(sampler_of(loader)))
    began, batches, size = time.monotonic(), 0, 0
    with files_opened() as files:
        for batch in plain_loader(loader, sampler, 0):
            batches, size = batches + 1, size + bytes_of(batch)
            if batches >= 2 and time.monotonic() > began + SAMPLE_S:
                break
    if not batches:
        raise ValueError("the loader gives no batches")
    drawn = None if sampler is None else sampler.given[:batches]
    samples = batches * (loader.batch_size or 1) if drawn is None else sum(map(count_of, drawn))
    return {
        "drawn": drawn,
        "batch_samples": samples / batches,
        "item_bytes": size / samples,
        "file_bytes": sum(size for _, size in files) / samples,
        "file_bytes_std": statistics.pstdev(size for _, size in files) if files else 0.0,
        "files_a_sample": len(files) / samples,
        "files": list(dict.fromkeys(path for path, _ in files))[:MOST_FILES],
    }


def speed(loader, drawn, workers):
    """How fast torch's own loader gives batches to a loop that does nothing else."""
    again = None if drawn is None else Drawn(itertools.cycle(drawn))
    batches = iter(plain_loader(loader, again, workers))
    pids = [worker.pid for worker in batches._workers]
    until, counted, began, ended, cpu = float("inf"), 0, 0.0, 0.0, 0.0
    for number, _ in enumerate(batches, 1):
        ended = time.monotonic()
        if number == 2 * workers:  # all workers are at work
            began, until, cpu = ended, ended + ALONE_S, time.process_time()
            if again is not None:
                again.until = until
        counted = number - 2 * workers
        if again is None and ended > until:
            break
    if counted < 1:
        raise ValueError("the dataset ends before its loader can be measured")
    return {
        "workers": workers,
        "batch_s": (ended - began) / counted,
        "loop_cpu_s": (time.process_time() - cpu) / counted,
        "pids": pids,
    }


def is_stream(loader):
    """Whether the dataset is iterated, and no sampler says which samples."""
    return isinstance(loader.dataset, sys.modules["torch"].utils.data.IterableDataset)


def sampler_of(loader):
    """The sampler that says which samples are in a batch; or that gives samples, if each is a batch."""
    if loader.batch_sampler is None:
        return loader.sampler
    if type(loader.batch_sampler).__module__.startswith("seneca."):  # it draws from the cache
        data = sys.modules["torch"].utils.data
        return data.BatchSampler(loader.sampler, loader.batch_size, loader.drop_last)
    return loader.batch_sampler


def forever(sampler):
    """The items of a sampler, epoch after epoch. It ends if an epoch is empty."""
    given = True
    while given:
        given = False
        for one in sampler:
            given = True
            yield one


class Drawn:
    """A sampler that gives what an iterator gives, and notes it.

    Args:
        source: The iterator.
    """

    def __init__(self, source):
        self.source = source
        self.given = []
        self.until = float("inf")  # it ends then

    def __iter__(self):
        for one in self.source:
            if time.monotonic() > self.until:
                return
            self.given.append(one)
            yield one


def plain_loader(loader, drawn, workers):
    """Torch's own loader of the same dataset, without a step and without a cache."""
    data = sys.modules["torch"].utils.data
    options = {"collate_fn": loader.collate_fn, "num_workers": workers}
    if workers:
        options["worker_init_fn"] = loader.worker_init_fn
        context = loader.multiprocessing_context  # it may be one of Seneca's
        options["multiprocessing_context"] = None if context is None else context.get_start_method()
    if drawn is None:
        options.update(batch_size=loader.batch_size, drop_last=loader.drop_last)
    elif loader.batch_sampler is None:
        options.update(batch_size=None, sampler=drawn)
    else:
        options.update(batch_sampler=drawn)
    return data.DataLoader(loader.dataset, **options)


def count_of(drawn):
    """The samples of a batch, by what the sampler gave for it."""
    return len(drawn) if isinstance(drawn, (list, tuple)) else 1


def bytes_of(batch):
    """The bytes of the tensors and arrays in a batch."""
    if isinstance(batch, dict):
        return sum(map(bytes_of, batch.values()))
    if isinstance(batch, (list, tuple)):
        return sum(map(bytes_of, batch))
    size = getattr(batch, "nbytes", None)
    return size if isinstance(size, int) else sys.getsizeof(batch)


_FILES: list[list[tuple[str, int]]] = []  # lists that get the files that are opened


@contextlib.contextmanager
def files_opened():
    """Within, a list gets path and bytes of each regular file that Python opens to read, but for its own."""
    files: list[tuple[str, int]] = []
    sys.addaudithook(_opened)  # it stays for ever; this is done once in a process
    _FILES.append(files)
    try:
        yield files
    finally:
        _FILES.remove(files)


def _opened(event, arguments):
    if event != "open" or not _FILES:
        return
    path, _, flags = arguments
    if isinstance(path, (str, bytes, os.PathLike)) and not (flags or 0) & (os.O_WRONLY | os.O_RDWR):
        path = os.path.abspath(os.fsdecode(path))
        if path.startswith((sys.prefix, sys.base_prefix, "/proc/", "/sys/", "/dev/")):
            return
        with contextlib.suppress(OSError):  # the dataset may search for files that are not there
            found = os.stat(path)
            if stat.S_ISREG(found.st_mode):
                for files in _FILES:
                    files.append((path, found.st_size))


def with_seneca(loader):
    """Measure Seneca's native path with the same samples, if it is installed here and can run them."""
    try:
        seneca = importlib.import_module("seneca")  # the script's, which may have none
        profile = seneca.profile(loader.dataset, batch_size=loader.batch_size or 1, fresh=True)
        take_s = time_to_take(seneca, loader)
    except Exception as error:  # it is not here, the dataset is no folder of pictures, or it is damaged
        return {"no_profile": str(error)}
    return {"profile": profile.to_json(), "take_s": take_s}


def time_to_take(seneca, loader):
    """The CPU time in which a loop takes a batch from Seneca's loader. It also draws the next one then.

    Between two batches the loop does something else, as with a step.
    """
    options = {"batch_size": loader.batch_size or 1, "shuffle": True, "num_workers": 1}
    batches = iter(seneca.DataLoader(loader.dataset, cache=None, collate_fn=loader.collate_fn, **options))
    took: list[float] = []
    until = time.monotonic() + TAKE_S
    next(batches)  # the epoch begins with it
    while time.monotonic() < until or not took:
        time.sleep(APART_S)
        began = time.thread_time()
        if next(batches, None) is None:
            break
        took.append(time.thread_time() - began)
    return statistics.fmean(took) if took else 0.0
