"""This host: its fingerprint, its number of cores, the speed of its memory."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import math
import os
import platform
import threading
import time

import numpy as np

from seneca._runtime.cgroups import cores_allowed
from seneca._runtime.memory import free_memory

__all__ = ["cores", "fingerprint", "first_memory_bytes_per_s", "memory_bytes_per_s"]

COPIED_BYTES = 32 << 20  # more than the cores' caches hold


def cores() -> int:
    """The number of cores that this process may use, by its affinity and its control groups."""
    return max(1, math.ceil(cores_allowed().number))


def fingerprint() -> str:
    """A text that distinguishes this host from hosts with other rates."""
    model = ""
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as file:  # some sandboxes have no /proc
        for line in file:
            if line.startswith(("model name", "CPU part")):
                model = line.split(":", 1)[1].strip()
                break
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    description = "\n".join([platform.node(), platform.machine(), model, str(cores()), str(memory)])
    return hashlib.blake2b(description.encode(), digest_size=8).hexdigest()


def memory_bytes_per_s(threads: int, seconds: float, bytes_each: int = COPIED_BYTES) -> float:
    """Measure how many bytes a second some threads read and write when they copy arrays that no cache
    holds.

    Each thread's own clock measures the time, as for the stages. What other processes take is not counted.

    Args:
        threads: The number of threads that copy at once.
        seconds: When to stop. Each thread copies at least once.
        bytes_each: Bytes that a thread copies at a time; it needs twice as much memory. The number is
            reduced if all threads would need more than half of the free memory.

    Raises:
        MemoryError: There is no room for the arrays.
        RuntimeError: The system cannot start so many threads.
    """
    rates = [0.0] * threads
    failed: list[Exception] = []
    here = threading.Barrier(threads)
    each = max(1, min(bytes_each, free_memory() // (4 * threads)))
    # Allocated here: this may fail, and no thread waits for another yet.
    arrays = [(np.empty(each, np.uint8), np.empty(each, np.uint8)) for _ in range(threads)]

    def copy(number: int) -> None:
        source, target = arrays[number]
        source.fill(1)  # allocates the pages before the clock starts, in the memory next to this thread
        target.fill(0)
        here.wait()
        until, began, copied = time.perf_counter() + seconds, time.thread_time(), 0
        while copied == 0 or time.perf_counter() < until:
            np.copyto(target, source)
            copied += 2 * source.nbytes
        rates[number] = copied / (time.thread_time() - began)

    def copy_or_report(number: int) -> None:
        try:
            copy(number)
        except Exception as error:
            failed.append(error)
            here.abort()  # the others must not wait for this thread

    at_work: list[threading.Thread] = []
    try:
        for number in range(threads):
            one = threading.Thread(target=copy_or_report, args=(number,))
            one.start()
            at_work.append(one)
    except BaseException:
        here.abort()
        raise
    finally:
        for one in at_work:
            one.join()
    if failed:
        raise failed[0]
    return sum(rates)


@functools.cache
def first_memory_bytes_per_s(threads: int) -> float:
    """How many bytes a second some threads read and write, measured once in a process.

    Each thread copies one array: together as much as :data:`COPIED_BYTES`. To allocate the arrays takes far
    longer than to copy them.
    """
    return memory_bytes_per_s(threads, 0.0, COPIED_BYTES // threads)
