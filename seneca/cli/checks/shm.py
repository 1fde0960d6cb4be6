"""Checks of /dev/shm or SENECA_DIR, where the cache is stored: its size, who sees it, what it does."""

from __future__ import annotations

import configparser
import contextlib
import fcntl
import os
import pwd
import shlex
import stat
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

from seneca._runtime.memory import free_memory
from seneca._runtime.regular_files import open_regular
from seneca.cli.checks.finding import Finding, ok, problem, unknown, warning
from seneca.cli.checks.host import SHM, Host
from seneca.cli.planning.what_if import show_bytes
from seneca.errors import SegmentError

__all__ = ["folder", "kernel", "leftovers", "remove_ipc", "room", "shared_with", "size"]

DOCKERS_DEFAULT_BYTES = 64 << 20
IN_MEMORY = ("tmpfs", "devtmpfs")
LEAST_SHARE_OF_MEMORY = 1 / 4  # of the memory that jobs may use
LEAST_FREE = 1 / 10  # of /dev/shm, or of the file system in its place
LEAST_FREE_INODES = 100
FIRST_USER = 1000  # systemd spares the users before this one
LOCKED_ROW = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 1, 1, 0)  # struct flock: one byte


def folder(host: Host) -> Finding:
    """Whether SENECA_DIR is set, and names a folder that can hold caches."""
    if host.folder == SHM:
        return ok(f"not set: caches lie in {SHM}")
    if (fault := host.folder_fault) is not None:
        return problem(*fault)
    mount = host.mount_of(host.folder)
    kind = "an unknown file system" if mount is None else mount.kind
    where = "memory" if host.caches_in_memory else "a disk, which the kernel also writes"
    mode = stat.S_IMODE(os.stat(host.path(host.folder)).st_mode)
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        return warning(
            f"{host.folder} ({kind}): every user may remove what lies in it",
            f"chmod 1777 {host.folder}, or chmod 700 for one user alone",
        )
    return ok(f"caches lie in {host.folder} ({kind}: {where})")


def size(host: Host) -> Finding:
    """Whether the cache's folder is there, is memory, may be written, and is large enough."""
    if host.folder != SHM:
        return _size_elsewhere(host)
    mount = host.mount_of(SHM)
    make = f"sudo mount -t tmpfs -o size=50%,mode=1777 tmpfs {SHM}"
    if not host.path(SHM).is_dir():
        return problem("it is missing: no cache can be made", f"sudo mkdir -p {SHM} && {make}")
    if not os.access(host.path(SHM), os.W_OK | os.X_OK):
        return problem(f"user {host.uid} may not make files in it", f"sudo chmod 1777 {SHM}")
    if mount is not None and mount.kind not in IN_MEMORY:
        return problem(f"it is {mount.kind} and no tmpfs: the cache would lie on a disk", make)
    total, memory = host.space(SHM).total_bytes, free_memory(host.root)
    found = f"{show_bytes(total)}; jobs may use {show_bytes(memory)} of memory"
    if total <= DOCKERS_DEFAULT_BYTES:
        return problem(f"{found}. This is the size that Docker gives by default", _larger(host, memory // 2))
    if total < LEAST_SHARE_OF_MEMORY * memory:
        return warning(f"{found}: the cache can use only a small part of it", _larger(host, memory // 2))
    return ok(found)


def _size_elsewhere(host: Host) -> Finding:
    """The same for SENECA_DIR, whose file system may be a disk. What is wrong with it says :func:`folder`."""
    if host.folder_fault is not None:
        return unknown("SENECA_DIR cannot hold a cache")
    total = host.space(host.folder).total_bytes
    if not host.caches_in_memory:
        return ok(f"{show_bytes(total)} on a disk")
    memory = free_memory(host.root)
    found = f"{show_bytes(total)}; jobs may use {show_bytes(memory)} of memory"
    if total < LEAST_SHARE_OF_MEMORY * memory:
        mount = host.mount_of(host.folder)
        point = host.folder if mount is None else mount.point
        larger = f"sudo mount -o remount,size={max(1, memory >> 31)}G {point}"
        return warning(f"{found}: the cache can use only a small part of it", larger)
    return ok(found)


def _larger(host: Host, wanted_bytes: int) -> str:
    gib = max(1, wanted_bytes >> 30)
    if host.in_kubernetes:
        return f"in the pod, mount at {SHM} an emptyDir: {{medium: Memory, sizeLimit: {gib}Gi}}"
    if host.in_container:
        return f"docker run --shm-size={gib}g ..."
    return f"sudo mount -o remount,size={gib}G {SHM}"


def room(host: Host) -> Finding:
    """Whether there is room in the cache's folder, in bytes and in files."""
    if host.folder_fault is not None:
        return unknown("SENECA_DIR cannot hold a cache")
    total, free, inodes, free_inodes = host.space(host.folder)
    found = f"{show_bytes(free)} of {show_bytes(total)} are free"
    if inodes and free_inodes < LEAST_FREE_INODES:
        found = f"{free_inodes:,} of {inodes:,} files can still be made"
        if not host.caches_in_memory:
            return problem(found, f"remove files from the file system of {host.folder}")
        return problem(found, f"sudo mount -o remount,nr_inodes={max(10 * inodes, 100_000)} {host.folder}")
    if free < LEAST_FREE * total:
        return warning(f"only {found}", f"du -sh {host.folder}/* | sort -h  # then rm what no process uses")
    return ok(found)


def shared_with(host: Host) -> Finding:
    """Whether other containers, or the host outside a mount namespace, see the same /dev/shm."""
    if host.folder != SHM:
        return ok(f"by the jobs that name {host.folder}, and by the containers into which it is mounted")
    mount = host.mount_of(SHM)
    remedy = "docker run --ipc=host ..., or -v /dev/shm:/dev/shm, for each container that shares"
    if mount is None:
        return unknown("the kernel does not say what is mounted")
    if host.in_container:
        # Docker and containerd mount one for each container, or pod, from the source "shm".
        if mount.source == "shm":
            return ok("private to this container: jobs in other containers have caches of their own", remedy)
        return ok("not private to this container, as far as its mount shows")
    try:
        of_init = os.stat(host.path(f"/proc/1/root{SHM}")).st_dev
    except OSError:
        return unknown("not in a container; only root can see whether the mount namespace is private")
    if of_init == os.stat(host.path(SHM)).st_dev:
        return ok("shared by all processes of the host")
    return ok(
        "private to this mount namespace: jobs outside have caches of their own",
        f"start the job outside, or with: sudo mount --bind /proc/1/root{SHM} {SHM}",
    )


def kernel(host: Host) -> Finding:
    """Whether the kernel can do in the cache's folder what the core needs: tried on a file without a name."""
    if host.folder_fault is not None:
        return unknown("SENECA_DIR cannot hold a cache")
    remedy = "use Linux 3.15 or newer"
    if host.in_container:
        remedy = "docker run --runtime=runc ...: sandboxes such as gVisor lack system calls"
    with tempfile.TemporaryFile(dir=host.path(host.folder)) as file:
        fd = file.fileno()
        tries = {
            "reserving memory (posix_fallocate)": lambda: os.posix_fallocate(fd, 0, 4096),
            "the lock (flock)": lambda: fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB),
            "proof of life (F_OFD_SETLK)": lambda: fcntl.fcntl(fd, fcntl.F_OFD_SETLK, LOCKED_ROW),
            "asking for it (F_OFD_GETLK)": lambda: fcntl.fcntl(fd, fcntl.F_OFD_GETLK, LOCKED_ROW),
        }
        for what, attempt in tries.items():
            try:
                attempt()
            except OSError as error:
                return problem(f"{what} does not work in {host.folder}: {error.strerror}", remedy)
    return ok("reserves memory, locks, and finds which processes live")


def remove_ipc(host: Host) -> Finding:
    """Whether systemd removes this user's files in /dev/shm when the user logs out."""
    if host.folder != SHM:
        return ok(f"systemd removes nothing in {host.folder}")
    if host.uid < FIRST_USER:
        return ok(f"systemd removes nothing of user {host.uid}, a system user")
    if not host.path("/run/systemd/seats").is_dir():
        return ok("no systemd-logind runs here")
    if _logind_says_no(host):
        return ok("RemoveIPC=no: segments stay when the user logs out")
    try:
        name = pwd.getpwuid(host.uid).pw_name
    except KeyError:
        name = str(host.uid)
    if host.path(f"/var/lib/systemd/linger/{name}").exists():
        return ok(f"RemoveIPC=yes, but {name} lingers: segments stay when the user logs out")
    return warning(
        "RemoveIPC=yes: the cache loses its name when the user logs out, also under jobs in tmux or nohup",
        f"loginctl enable-linger {name}",
    )


def _logind_says_no(host: Host) -> bool:
    """Whether the last of logind's files that has the setting says no. systemd's own default is yes."""
    folders = ("/usr/lib/systemd", "/run/systemd", "/etc/systemd")
    dropped = {
        path.name: path  # the same name in a later folder replaces the file
        for folder in folders
        for path in host.path(f"{folder}/logind.conf.d").glob("*.conf")
    }
    main = [path for folder in folders if (path := host.path(f"{folder}/logind.conf")).is_file()]
    said = "yes"
    for path in [*main[-1:], *(dropped[name] for name in sorted(dropped))]:
        settings = configparser.ConfigParser(strict=False, interpolation=None, allow_no_value=True)
        with contextlib.suppress(configparser.Error):  # systemd ignores such lines too
            settings.read_string(path.read_text(errors="replace"))
        said = settings.get("Login", "RemoveIPC", fallback=said) or said
    return said.strip().lower() in ("no", "false", "off", "0", "n", "f")


def leftovers(host: Host) -> Finding:
    """This user's segments whose last user is dead, and what cannot be read. Nothing is removed."""
    if host.folder_fault is not None:
        return unknown("SENECA_DIR cannot hold a cache")
    left = list(_left_behind(host))
    dead = [path for path, is_dead in left if is_dead]
    unread = [path for path, is_dead in left if not is_dead]
    found, remedies = [], []
    if dead:
        frees = "The next job that joins any cache frees that"
        found.append(f"{_count(dead)} of dead jobs: {_held(dead)}. {frees}")
        remedies.append("seneca prune")
    if unread:
        found.append(f"{_count(unread)} that cannot be read and nobody uses: {_held(unread)}")
        remedies.append(f"rm {shlex.join(map(str, unread))}")
    if not found:
        return ok("no segment is left behind by jobs that died")
    return warning("; ".join(found), " && ".join(remedies))


def _count(paths: list[Path]) -> str:
    return f"{len(paths)} segments" if len(paths) > 1 else "1 segment"


def _held(paths: list[Path]) -> str:
    return show_bytes(sum(path.stat().st_blocks * 512 for path in paths))


def _left_behind(host: Host) -> Iterator[tuple[Path, bool]]:
    """Files that no living process uses, and whether each is a segment of dead jobs, or cannot be read."""
    from seneca._core.snapshot import anyone_alive, left_behind, snapshot

    for path in sorted(host.path(host.folder).glob(f"seneca-{host.uid}-*")):
        try:
            fd = open_regular(path)
        except OSError:
            continue  # gone meanwhile, or no segment in spite of its name
        try:
            if left_behind(fd):
                yield path, True
            elif not anyone_alive(fd):
                snapshot(fd)
        except SegmentError:
            with contextlib.suppress(BlockingIOError):  # it is being made
                fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
                yield path, False
        finally:
            os.close(fd)
