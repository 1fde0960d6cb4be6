"""This host: who it is, how many cores it gives, how fast its memory is."""

from __future__ import annotations

import hashlib
import math
import os
import platform
import threading
import time
from pathlib import Path

import numpy as np

from seneca.groups import groups_of
from seneca.memory import free_memory

__all__ = ["cores", "fingerprint", "memory_bytes_per_s"]

COPIED_BYTES = 32 << 20  # more than caches hold


def cores() -> int:
    """Cores that this process may use, as its affinity and its control groups allow."""
    allowed = len(os.sched_getaffinity(0))
    for group, version in groups_of("cpu"):
        try:
            quota, period = _quota(group, version)
        except OSError:
            continue  # no such controller here
        if quota not in ("max", "-1"):
            allowed = min(allowed, math.ceil(int(quota) / int(period)))
    return max(1, allowed)


def _quota(group: Path, version: int) -> list[str]:
    """What a group may take of the cores in a period, and the period, as they are written."""
    if version == 2:
        return (group / "cpu.max").read_text().split()
    return [(group / f"cpu.cfs_{name}_us").read_text().strip() for name in ("quota", "period")]


def fingerprint() -> str:
    """Tells this host from others whose rates are not its own."""
    model = ""
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith(("model name", "CPU part")):
                model = line.split(":", 1)[1].strip()
                break
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    description = "\n".join([platform.node(), platform.machine(), model, str(cores()), str(memory)])
    return hashlib.blake2b(description.encode(), digest_size=8).hexdigest()


def memory_bytes_per_s(threads: int, seconds: float, bytes_each: int = COPIED_BYTES) -> float:
    """Bytes a second that so many threads read and write, copying arrays that no cache holds.

    By the clock of each thread, as the stages are measured: what other processes take is not counted.

    Args:
        threads: That copy at once.
        seconds: When to stop; each thread copies once at least.
        bytes_each: That a thread copies at a time. It takes twice as many while it does; fewer where all
            threads would take more than half of the memory that is free.

    Raises:
        MemoryError: There is no room for the arrays.
        RuntimeError: There cannot be so many threads.
    """
    rates = [0.0] * threads
    failed: list[Exception] = []
    here = threading.Barrier(threads)
    each = max(1, min(bytes_each, free_memory() // (4 * threads)))
    # Asked for here, where that can fail before anybody waits for anybody.
    arrays = [(np.empty(each, np.uint8), np.empty(each, np.uint8)) for _ in range(threads)]

    def copy(number: int) -> None:
        source, target = arrays[number]
        source.fill(1)  # the pages are there before the clock starts, in the memory next to this thread
        target.fill(0)
        here.wait()
        until, began, copied = time.perf_counter() + seconds, time.thread_time(), 0
        while copied == 0 or time.perf_counter() < until:
            np.copyto(target, source)
            copied += 2 * source.nbytes
        rates[number] = copied / (time.thread_time() - began)

    def copy_or_tell(number: int) -> None:
        try:
            copy(number)
        except Exception as error:
            failed.append(error)
            here.abort()  # nobody waits for one that will not come

    at_work: list[threading.Thread] = []
    try:
        for number in range(threads):
            one = threading.Thread(target=copy_or_tell, args=(number,))
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
