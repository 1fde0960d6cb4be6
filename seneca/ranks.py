"""Which processes train one model together: the key that all of a job say, and no other process."""

from __future__ import annotations

import hashlib
import os
import secrets
import sys

__all__ = ["belong_to_job", "job_key", "world"]

_own: dict[int, int] = {}  # by process: a forked one is a job of its own
_told: dict[int, int] = {}


def world() -> tuple[int, int]:
    """``(rank, ranks)`` of this process among those that train together; ``(0, 1)``: it is alone.

    As ``torch.distributed`` says once it is initialized; before, as a launcher's RANK and WORLD_SIZE do.
    """
    distributed = sys.modules.get("torch.distributed")  # whoever initialized it has imported it
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    rank, ranks = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
    if not ranks.isdecimal() or int(ranks) < 2:
        return 0, 1
    return int(rank) if rank.isdecimal() else 0, int(ranks)


def job_key(job: str | None = None) -> int:
    """64 bits that name the training run which this process is of.

    A worker process is of the run that it was told. Else ``job`` names the run; else, where several processes
    train together, where they meet: torchelastic's run id, MASTER_ADDR and MASTER_PORT. Who is restarted
    goes on as the same run where they meet again there, and is a new one where torchelastic takes another
    port: all ranks restart together. A process that is none of these is a run by itself, not its parent's.
    """
    pid = os.getpid()
    if pid in _told:
        return _told[pid]
    if job is not None:
        return _key("job", job)
    meeting = _rendezvous()
    return _own.setdefault(pid, secrets.randbits(64) | 1) if meeting is None else _key("rendezvous", *meeting)


def belong_to_job(key: int) -> None:
    """Say which training run this worker process is of."""
    _told[os.getpid()] = key


def _rendezvous() -> tuple[str, str, str] | None:
    """Where the ranks of this process's job meet, as they all say it; None: it is alone, or nobody says."""
    if world()[1] < 2:
        return None
    run, address, port = (
        os.environ.get(name, "") for name in ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT")
    )
    run = "" if run == "none" else run  # which torchrun says where nobody gave one
    return (run, address, port) if run or port else None


def _key(*parts: str) -> int:
    return int.from_bytes(hashlib.blake2b("\0".join(parts).encode(), digest_size=8).digest(), "little") | 1
