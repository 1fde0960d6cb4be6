"""Checks of the cores: which of them this process may use, how many threads want them, and how well."""

from __future__ import annotations

import os

from seneca._runtime.cgroups import cpu_quota
from seneca.cli.checks.finding import Finding, ok, warning
from seneca.cli.checks.host import Host

__all__ = ["affinity", "binding", "quota", "threads", "vectors"]

# Variables with which OpenMP binds a thread to a core.
BINDS = ("OMP_PROC_BIND", "GOMP_CPU_AFFINITY", "KMP_AFFINITY")
UNBOUND = ("", "false", "disabled", "none")
COUNTS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
# Variables in which a launcher says how many processes it starts on this host.
PROCESSES = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_NTASKS_PER_NODE")


def quota(host: Host) -> Finding:
    """Whether control groups allow less CPU time than the cores that programs see would give."""
    allowed, seen = cpu_quota(host.root), len(host.affinity)
    if allowed is None or allowed >= seen:
        return ok(f"no control group allows less than all {_cores(seen)}")
    return warning(
        f"a control group allows the time of {allowed:g} cores, and programs see {seen}: "
        "they start too many threads, and the kernel stops all of them at times",
        f"export OMP_NUM_THREADS={host.cores}  # and num_workers={host.cores} at most, of all jobs together",
    )


def affinity(host: Host) -> Finding:
    """Whether this process is pinned to one core of many."""
    allowed, all_cores = len(host.affinity), host.machine_cores
    if allowed > 1 or all_cores == 1:
        return ok(f"this process may run on {allowed} of {_cores(all_cores)}")
    remedy = f"taskset -pc 0-{all_cores - 1} $$  # where a cpuset forbids that, have it enlarged"
    if "SLURM_JOB_ID" in os.environ:
        remedy = "srun --cpus-per-task=8 ..."
    core = next(iter(host.affinity))
    return warning(f"this shell is pinned to core {core} of {all_cores}: all threads share it", remedy)


def binding(host: Host) -> Finding:
    """Whether OpenMP pins the training loop's thread, from which all threads that it starts inherit."""
    bound = [name for name in BINDS if os.environ.get(name, "").lower().split(",")[-1] not in UNBOUND]
    if not bound:
        return ok("OpenMP binds no thread to a core")
    return warning(
        f"{bound[0]}={os.environ[bound[0]]}: importing torch may pin the training loop to one core, and "
        "the loader's threads and workers with it",
        f"unset {' '.join(bound)}",
    )


def threads(host: Host) -> Finding:
    """Whether numeric libraries start more threads than there are cores, in all processes of this host."""
    counts = {name: int(first) for name in COUNTS if (first := _first(os.environ.get(name, ""))).isdecimal()}
    for name, count in counts.items():
        if count > host.cores:
            return warning(
                f"{name}={count}, and this process has {_cores(host.cores)}", f"export {name}={host.cores}"
            )
    each = counts.get("OMP_NUM_THREADS", host.cores)
    said = f"OMP_NUM_THREADS={each}" if "OMP_NUM_THREADS" in counts else "OMP_NUM_THREADS is not set"
    for name in PROCESSES:
        processes = _first(os.environ.get(name, ""))
        if processes.isdecimal() and each > 1 and int(processes) > 1 and int(processes) * each > host.cores:
            return warning(
                f"{said}, {name}={processes}: they start {int(processes) * each} threads on "
                f"{_cores(host.cores)}",
                f"export OMP_NUM_THREADS={max(1, host.cores // int(processes))}",
            )
    if "OMP_NUM_THREADS" in counts or each == 1:
        return ok(f"{said}, {_cores(host.cores)}")
    return ok(
        f"{said}: torch starts {each} threads in each job",
        f"export OMP_NUM_THREADS={host.cores // 2}  # if two jobs run, and so on",
    )


def vectors(host: Host) -> Finding:
    """Whether the core uses vector instructions."""
    from seneca._core.codec import simd

    if (name := simd()) is not None:
        return ok(f"the core uses {name}")
    if os.environ.get("SENECA_SIMD") == "none":
        return warning("SENECA_SIMD=none: the core uses no vector instructions", "unset SENECA_SIMD")
    return warning(
        "this processor lacks one of AVX2, FMA, F16C, BMI2 and LZCNT: resizing is several times slower",
        "in a virtual machine, pass the host's processor through: qemu -cpu host",
    )


def _first(text: str) -> str:
    """The first number of a list for nested levels, as OpenMP has it, or of 4(x2), as Slurm has it."""
    return text.split(",")[0].split("(")[0].strip()


def _cores(count: int) -> str:
    return "1 core" if count == 1 else f"{count} cores"
