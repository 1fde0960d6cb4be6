"""Finds the processes that train one model together: they have a key that no other process has."""

from __future__ import annotations

import hashlib
import os
import secrets
import sys

__all__ = ["belong_to_job", "job_key", "world"]

_own: dict[int, int] = {}  # by process id: a forked process is a job of its own
_assigned: dict[int, int] = {}


def world() -> tuple[int, int]:
    """``(rank, ranks)`` of this process among those that train together; ``(0, 1)``: it is alone.

    ``torch.distributed`` says it once it is initialized. Before that, RANK and WORLD_SIZE of a launcher do.
    """
    distributed = sys.modules.get("torch.distributed")  # it is imported if it is initialized
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    rank, ranks = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
    if not ranks.isdecimal() or int(ranks) < 2:
        return 0, 1
    return int(rank) if rank.isdecimal() else 0, int(ranks)


def job_key(job: str | None = None) -> int:
    """64 bits that name the training run of this process.

    The first of these rules that fits names the run:

    * A worker process belongs to the run that its loader's process gave it.
    * ``job`` names the run.
    * Several processes that train together are named by where they meet: torchelastic's run id, MASTER_ADDR
      and MASTER_PORT.
    * Any other process is a run by itself, and not part of its parent's.

    All ranks restart together. If they meet at the same place again, they continue the same run. If
    torchelastic takes another port, they are a new run.
    """
    pid = os.getpid()
    if pid in _assigned:
        return _assigned[pid]
    if job is not None:
        return _key("job", job)
    meeting = _rendezvous()
    return _own.setdefault(pid, secrets.randbits(64) | 1) if meeting is None else _key("rendezvous", *meeting)


def belong_to_job(key: int) -> None:
    """Set the training run to which this worker process belongs."""
    _assigned[os.getpid()] = key


def _rendezvous() -> tuple[str, str, str] | None:
    """Where the ranks of this job meet, in the same words for all; None: it is alone, or nothing says it."""
    if world()[1] < 2:
        return None
    run, address, port = (
        os.environ.get(name, "") for name in ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT")
    )
    run = "" if run == "none" else run  # torchrun's word for a run without an id
    return (run, address, port) if run or port else None


def _key(*parts: str) -> int:
    return int.from_bytes(hashlib.blake2b("\0".join(parts).encode(), digest_size=8).digest(), "little") | 1
