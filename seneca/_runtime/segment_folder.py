"""Where the segments of caches are stored: in ``/dev/shm``, or in the folder that ``SENECA_DIR`` names.

Everything that makes, joins, lists or removes segments asks here. Whoever joins remembers the answer.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from seneca._runtime.mounts import mount_of

__all__ = ["FIT", "SHM", "VARIABLE", "Fault", "fault_of", "larger", "lies_in_memory", "segment_folder"]

SHM = "/dev/shm"
VARIABLE = "SENECA_DIR"

IN_MEMORY = ("tmpfs", "devtmpfs")
FIT = ("tmpfs", "ext4", "xfs")

_NETWORK = "hosts do not see what others change in a mapped file there, and its locks may be lost"
_PROGRAM = "a program serves it, and other containers or hosts may not see its locks and mapped pages"
_REWRITES = (
    "it writes what changes to another place, so the room that a cache has reserved may be missing, and jobs "
    "would die of a bus error"
)
# Why segments cannot be stored on a file system, by its kind; FUSE's kinds are fuse.sshfs and the like.
UNFIT = {
    **dict.fromkeys(("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "glusterfs"), _NETWORK),
    **dict.fromkeys(("lustre", "gpfs", "ceph", "beegfs", "pvfs2", "ocfs2", "gfs2", "wekafs"), _NETWORK),
    **dict.fromkeys(("fuse", "fuseblk", "virtiofs"), _PROGRAM),
    **dict.fromkeys(("btrfs", "zfs", "bcachefs", "nilfs2"), _REWRITES),
    "overlay": "it is the layer of one container, which no other container sees",
}


class Fault(NamedTuple):
    """Why a folder cannot hold segments, and what to do. As a text it is one line."""

    found: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.found}; {self.remedy}"


def segment_folder() -> str:
    """The folder of segments, as the environment names it now. It may be unfit: see :func:`fault_of`.

    Example:
        >>> import os
        >>> os.environ["SENECA_DIR"] = "/mnt/nvme/"
        >>> segment_folder()
        '/mnt/nvme'
        >>> del os.environ["SENECA_DIR"]
        >>> segment_folder()
        '/dev/shm'
    """
    named = os.environ.get(VARIABLE, "")
    return named.rstrip("/") or "/" if named else SHM


def larger(folder: str) -> str:
    """How a folder of segments gets more room, as a text."""
    elsewhere = f"let {VARIABLE} name a folder with more room"
    if folder == SHM:
        return f"make it larger (mount -o remount,size=... {SHM}; in Docker --shm-size=...), or {elsewhere}"
    return f"free some of it, or {elsewhere}"


def lies_in_memory(folder: str, root: Path | None = None) -> bool:
    """Whether the files in this folder of segments are memory, and not pages of a file on a disk.

    Args:
        folder: The folder.
        root: A folder that stands for ``/``; None: this host's own.
    """
    if folder == SHM:
        return True
    mount = mount_of(folder, root)
    return mount is not None and mount.kind in IN_MEMORY


def fault_of(folder: str, root: Path | None = None) -> Fault | None:
    """Why segments cannot be stored in this folder; None: they can. ``/dev/shm`` is not checked.

    Args:
        folder: The folder.
        root: A folder that stands for ``/``; None: this host's own.
    """
    if folder == SHM:
        return None
    named = f"{VARIABLE}={folder!r}"
    unset = f"or unset {VARIABLE} for {SHM}"
    if not os.path.isabs(folder):
        return Fault(f"{named} is no absolute path", f"give one that begins with / {unset}")
    here = folder if root is None else str(root / folder.lstrip("/"))
    try:
        os.stat(here)
    except FileNotFoundError:
        return Fault(f"{named}: there is no such folder", f"mkdir -m 700 it, {unset}")
    except OSError as error:
        return Fault(f"{named} cannot be used: {error.strerror}", f"give another folder, {unset}")
    if not os.path.isdir(here):
        return Fault(f"{named} is no folder", f"give a folder, {unset}")
    mount = mount_of(folder, root)
    if mount is None:
        return Fault(f"{named}: the kernel does not say which file system it is on", f"mount /proc, {unset}")
    if mount.kind not in FIT:
        why = UNFIT.get(mount.kind.partition(".")[0], "Seneca is not known to work there")
        fit = f"give a folder on {', '.join(FIT[:-1])} or {FIT[-1]}"
        if mount.kind == "overlay":
            fit = "mount a folder of the host there (docker run -v /mnt/cache:/cache)"
        return Fault(f"{named} is on {mount.kind} ({mount.point}): {why}", f"{fit}, {unset}")
    if "ro" in mount.options:
        return Fault(
            f"{named} is on a file system that is mounted read-only", f"give another folder, {unset}"
        )
    if not os.access(here, os.R_OK | os.W_OK | os.X_OK, effective_ids=True):
        who = f"user {os.geteuid()} may not list it and make files in it"
        return Fault(f"{named}: {who}", f"have its owner give it to that user, {unset}")
    return None
