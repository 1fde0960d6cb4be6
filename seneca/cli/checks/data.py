"""The check of the file system from which a dataset is read."""

from __future__ import annotations

import os
from pathlib import Path

from seneca.cli.checks.finding import Finding, ok, unknown, warning
from seneca.cli.checks.host import Host
from seneca.cli.planning.what_if import show_bytes

__all__ = ["storage"]

NETWORKS = ("nfs", "nfs4", "cifs", "smb3", "lustre", "ceph", "gpfs", "beegfs", "afs", "9p")
MEMORY = ("tmpfs", "ramfs")
LEAST_READ_AHEAD_KIB = 1024  # for a network: Linux 5.4 and later begin with 128
FORGETFUL = {"noac", "actimeo=0"}  # options of NFS


def storage(host: Host, data: Path) -> Finding:
    """Whether the file system of a folder has settings that make reading slow."""
    mount = host.mount_of(os.path.realpath(data))
    if mount is None:
        return unknown("the kernel does not say what is mounted")
    found, bdi = f"{mount.kind} at {mount.point}", f"/sys/class/bdi/{mount.device}/read_ahead_kb"
    ahead = host.read(bdi)
    if ahead is not None:
        found += f", read-ahead {show_bytes(int(ahead) * 1024)}"
    if mount.kind.partition(".")[0] in ("fuse", "fuseblk"):
        return warning(
            f"{found}: a program answers every open and every read",
            f"cp -r {data} /var/tmp/  # or mount it without FUSE, or give the loader more num_workers",
        )
    if FORGETFUL & mount.options:
        option = min(FORGETFUL & mount.options)
        return warning(
            f"{found}, {option}: each epoch asks the server for every file's size and time",
            f"sudo mount -o remount,ac,actimeo=600 {mount.point}",
        )
    if mount.kind in NETWORKS and ahead is not None and int(ahead) < LEAST_READ_AHEAD_KIB:
        return warning(f"{found}: each file takes several round trips", f"echo 15360 | sudo tee {bdi}")
    if mount.kind == "overlay":
        return ok(
            f"{found}: a layer of a container", "docker run -v /the/data:/data:ro ..., which reads directly"
        )
    if mount.kind in MEMORY:
        return ok(f"{found}: the files are in memory, and encoded samples in the cache are there twice")
    return ok(found)
