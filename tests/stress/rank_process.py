"""A process of a training run of several, or a run by itself beside these: writes what it was given.

``torchrun rank_process.py FOLDER CACHE PICTURES`` trains on each of :data:`CASES` in turn, in step with
the other ranks as DistributedDataParallel is, and leaves FOLDER/rank<RANK>.json. At the first attempt of two
the last rank is killed in the midst of the first.
"""

from __future__ import annotations

import datetime
import json
import os
import signal
import sys
import time
from pathlib import Path

import torch
from torch.utils.data import Dataset, DistributedSampler, Subset

import seneca
from seneca import transforms as T
from seneca._runtime import distributed as ranks

WHOLE = bool(os.environ.get("SENECA_TEST_ALL"))  # as in sizes.py
PICTURES, OPAQUE = 299, 899 if WHOLE else 299  # no multiples of 2 or 3
EPOCHS = 2
ATTEMPTS = 2 if WHOLE else 1  # of two, the first ends as a rank is killed
BATCH_SIZE = 8
TIME_OUT_S = 300

KILLED = "killed, and begun again"
ALL = {
    KILLED: {"native": False, "count": OPAQUE, "drop": False, "workers": 1},
    "native": {"native": True, "count": PICTURES, "drop": False, "workers": 0},
    "native, dropping, a thread": {"native": True, "count": PICTURES, "drop": True, "workers": 1},
    "opaque, dropping": {"native": False, "count": OPAQUE, "drop": True, "workers": 0},
    "opaque, workers": {"native": False, "count": OPAQUE, "drop": False, "workers": 2},
}
SOME = (KILLED, "native, dropping, a thread")
CASES = ALL if WHOLE else {case: ALL[case] for case in SOME}


class Drawn(Dataset):
    """Each item with a random number, which distinguishes one copy from another."""

    def __len__(self):
        return OPAQUE

    def __getitem__(self, index):
        return index, float(torch.rand((), dtype=torch.float64))


def meet(folder: Path, what: str, who: str, parties: int) -> None:
    """Go on when so many have come here."""
    (folder / f"{what}.{who}").touch()
    deadline = time.monotonic() + TIME_OUT_S
    while sum(name.startswith(f"{what}.") for name in os.listdir(folder)) < parties:
        assert time.monotonic() < deadline, f"{who} was alone at {what}"
        time.sleep(0.002)


def train(
    case: str,
    *,
    folder: Path,
    cache: str,
    pictures: str,
    who: str,
    parties: int,
    rank=None,
    size=None,
    fatal=None,
):
    """Train on a case; what this process was given, and what it made.

    Args:
        case: One of :data:`CASES`.
        folder: Where processes meet; ``parties`` of them, under names ``who``.
        cache, pictures: What they share, and of what.
        rank, size: Of the ranks; None: a job by itself.
        fatal: The batch of the first epoch in which this process ends, killed.
    """
    terms = CASES[case]
    if terms["native"]:
        dataset = Subset(seneca.ImageFolder(pictures, T.RandomResizedCrop(16)), range(PICTURES))
    else:
        dataset = Drawn()
    sampler = None if rank is None else DistributedSampler(dataset, size, rank, drop_last=terms["drop"])
    loader = seneca.DataLoader(
        dataset,
        BATCH_SIZE,
        shuffle=sampler is None,
        sampler=sampler,
        num_workers=terms["workers"],
        persistent_workers=terms["workers"] == 2,
        collate_fn=None if terms["native"] else list,
        cache=cache,
        cache_bytes="8MiB",
        split="0-0-100",
    )
    given, seen = [], {}
    for epoch in range(EPOCHS):
        given.append([])
        if sampler is not None:
            sampler.set_epoch(epoch)
        for k, batch in enumerate(loader):
            if k == 0:
                meet(folder, f"{case} {epoch}", who, parties)
                seen = loader.stats()["cache"]
                seen["segments"] = sum(cache in entry for entry in os.listdir("/dev/shm"))
            if sampler is not None:
                torch.distributed.all_reduce(torch.ones(1))  # waits for ever where the others have no batch
            if k == fatal:
                os.kill(os.getpid(), signal.SIGKILL)
            given[-1].append(loader.last_indices.tolist() if terms["native"] else batch)
    meet(folder, f"{case} done", who, parties)  # a cache of its own for each case
    stats = loader.stats()
    loader._iterator = None
    return {
        "epochs": given,
        "prepared": stats["prepared"],
        "delivered": stats["delivered"],
        "job": ranks.job_key(),
        "jobs": seen["jobs"],
        "segments": seen["segments"],
    }


def main(folder: str, cache: str, pictures: str) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", timeout=datetime.timedelta(seconds=TIME_OUT_S))
    rank, size = ranks.world()
    attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
    found = {
        case: train(
            case,
            folder=Path(folder) / attempt,
            cache=f"{cache}-{k}",
            pictures=pictures,
            who=f"rank{rank}",
            parties=size + 1,
            rank=rank,
            size=size,
            fatal=3 if rank == size - 1 and int(attempt) < ATTEMPTS - 1 else None,
        )
        for k, case in enumerate(CASES)
    }
    (Path(folder) / f"rank{rank}.json").write_text(json.dumps(found))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
