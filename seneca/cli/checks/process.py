"""Checks of the process that a shell here would start: its limits, its workers, its environment."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import resource
import tempfile

from seneca._runtime.enabled import off_because
from seneca._runtime.memory import free_memory
from seneca.cli.checks.finding import Finding, ok, problem, unknown, warning
from seneca.cli.checks.host import Host
from seneca.cli.planning.what_if import show_bytes

__all__ = [
    "address_space",
    "cache_folder",
    "core",
    "core_dumps",
    "enabled",
    "open_files",
    "start_method",
    "temporary_files",
]

FEWEST_FILES, MANY_FILES = 1024, 65536
SOCKET_BYTES = 107  # the longest path that the kernel takes for a socket
OF_MULTIPROCESSING = "/pymp-12345678/listener-12345678"  # what Python puts into the folder
SHARED_FILES = 1 << 3  # of /proc/self/coredump_filter: mappings of files that processes share


def enabled(host: Host) -> Finding:
    """Whether Seneca is on."""
    if (why := off_because()) is None:
        return ok("the loader shares")
    return problem(f"the loader is torch's own: {why}", "unset SENECA_DISABLE")


def core(host: Host) -> Finding:
    """Whether the native core is there, and finds the libraries that it needs."""
    try:
        for name in ("codec", "segment", "pool"):
            importlib.import_module(f"seneca._core.{name}")
    except ImportError as error:
        return problem(
            f"the native core cannot be loaded: {error}",
            "sudo apt-get install libjpeg62-turbo  # if that is missing; else build anew: pip install .",
        )
    return ok("it is built, and its libraries are there")


def open_files(host: Host) -> Finding:
    """Whether a process may open enough files: torch's workers pass one for each tensor."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)  # Linux allows no unlimited number
    if soft >= FEWEST_FILES:
        return ok(f"a process may open {soft:,} files")
    if hard >= FEWEST_FILES:
        remedy = f"ulimit -n {min(hard, MANY_FILES)}"
    else:
        remedy = (
            f"echo '* - nofile {MANY_FILES}' | sudo tee -a /etc/security/limits.conf  # now at most {hard:,}"
        )
    return warning(f"a process may open {soft:,} files only: workers may fail with EMFILE", remedy)


def address_space(host: Host) -> Finding:
    """Whether limits on files or on address space are below the size of a cache."""
    wanted = host.space(host.folder).free_bytes // 2  # cache_bytes="auto"
    if host.caches_in_memory:
        wanted = min(wanted, free_memory(host.root) // 2)
    for what, letter, which in (
        ("a file", "f", resource.RLIMIT_FSIZE),
        ("a process's address space", "v", resource.RLIMIT_AS),
    ):
        soft, _ = resource.getrlimit(which)
        if 0 <= soft < wanted:
            return problem(
                f"{what} may have {show_bytes(soft)}, and a cache here {show_bytes(wanted)}",
                f"ulimit -{letter} unlimited",
            )
    return ok(f"no limit is below a cache of {show_bytes(wanted)}")


def core_dumps(host: Host) -> Finding:
    """Whether a job that crashes writes the whole cache to a file."""
    soft, _ = resource.getrlimit(resource.RLIMIT_CORE)
    chosen = host.read("/proc/self/coredump_filter")
    if soft == 0:
        return ok("a crash writes no core")
    if chosen is None:
        return unknown("a crash writes a core; the kernel does not say whether with the cache", "ulimit -c 0")
    if int(chosen, 16) & SHARED_FILES:
        return warning("a crash writes the whole cache into a core", "echo 0x33 > /proc/self/coredump_filter")
    return ok("a crash writes a core without the cache")


def start_method(host: Host) -> Finding:
    """How torch's workers start, and what that costs."""
    method = multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]
    if method == "fork":
        return ok("fork: workers start at once, and share what the job has loaded")
    return ok(
        f"{method}: each worker imports torch and unpickles the dataset when an epoch begins",
        "persistent_workers=True, which pays for that once",
    )


def temporary_files(host: Host) -> Finding:
    """Whether torch's workers can send tensors: Python makes a socket in the folder of temporary files."""
    folder = tempfile.gettempdir()
    most = SOCKET_BYTES - len(OF_MULTIPROCESSING)
    if (length := len(os.fsencode(folder))) <= most:
        return ok(f"workers can make sockets in {folder}")
    return problem(
        f"the name of {folder} has {length} bytes, which leaves no room for a socket's: workers send no "
        "batches, and torch's loader waits for ever",
        f"export TMPDIR=/tmp  # at most {most} bytes",
    )


def cache_folder(host: Host) -> Finding:
    """Whether measurements and verdicts can be kept from one run to the next."""
    from seneca._runtime.private_files import NotPrivate, private_folder
    from seneca._runtime.user_cache import user_cache

    folder = user_cache()
    try:
        if folder.exists():
            private_folder(folder)
    except NotPrivate as error:
        fault, _, _ = str(error).partition(";")
        return warning(f"{fault}: nothing is kept there", "export XDG_CACHE_HOME=$HOME/.cache")
    except OSError:
        pass  # said below
    there = folder
    while not os.path.lexists(there):
        there = there.parent
    if there.is_dir() and os.access(there, os.W_OK | os.X_OK):
        return ok(f"what Seneca finds out is kept in {folder}")
    return warning(
        f"{there} is no folder in which user {host.uid} may write: each start measures the host anew",
        "export XDG_CACHE_HOME=/tmp/cache-$USER",
    )
