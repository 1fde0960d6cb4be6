"""The checks of ``seneca doctor``: what is known to go wrong on hosts, each with the line that mends it.

::

    Host (what can be read) --> a check, one function each --> Finding (verdict, found, remedy)

A check only reads. It asks the host through :class:`seneca.cli.checks.host.Host` and ``seneca._runtime``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from seneca.cli.checks import cores, data, memory, pictures, process, shm
from seneca.cli.checks.finding import Finding, unknown
from seneca.cli.checks.host import SHM, Host

__all__ = ["CHECKS", "STORAGE", "examine"]

CHECKS: dict[str, Callable[[Host], Finding]] = {
    "seneca": process.enabled,
    "core": process.core,
    "SENECA_DIR": shm.folder,
    "/dev/shm size": shm.size,
    "/dev/shm room": shm.room,
    "/dev/shm shared": shm.shared_with,
    "kernel": shm.kernel,
    "leftovers": shm.leftovers,
    "RemoveIPC": shm.remove_ipc,
    "memory limit": memory.limit,
    "memory.high": memory.throttled,
    "out of memory": memory.kills,
    "swap": memory.swapped,
    "overcommit": memory.overcommit,
    "huge pages": memory.huge_pages,
    "pressure": memory.pressure,
    "CPU quota": cores.quota,
    "affinity": cores.affinity,
    "binding": cores.binding,
    "threads": cores.threads,
    "vectors": cores.vectors,
    "libjpeg-turbo": pictures.libjpeg,
    "PNG and WebP": pictures.formats,
    "Pillow": pictures.pillow,
    "torchvision": pictures.torchvision,
    "open files": process.open_files,
    "size limits": process.address_space,
    "core dumps": process.core_dumps,
    "start method": process.start_method,
    "TMPDIR": process.temporary_files,
    "cache folder": process.cache_folder,
}
STORAGE = "storage"  # the check that needs a folder of data


def examine(host: Host, folder: Path | None = None) -> Iterator[tuple[str, Finding]]:
    """Run all checks.

    Args:
        host: The host.
        folder: A folder of data, whose file system is also checked; None: there is none.

    Yields:
        The name of a check, and what it found. With ``SENECA_DIR`` the names have
        "folder" for "/dev/shm". If the host cannot be read, or the core cannot be
        loaded, it is unknown.
    """
    checks = dict(CHECKS)
    if folder is not None:
        checks[STORAGE] = lambda host: data.storage(host, folder)
    for name, check in checks.items():
        if host.folder != SHM:
            name = name.replace(SHM, "folder")
        try:
            yield name, check(host)
        except (OSError, ImportError) as error:
            yield name, unknown(f"it could not be found out: {error}")
