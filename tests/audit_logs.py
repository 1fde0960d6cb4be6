"""Logs of members, written by hand."""

from __future__ import annotations

import numpy as np

from seneca.audit.check import check
from seneca.audit.log import NO_SLOT, Header, Log

SAMPLES, BATCH, EPOCHS = 403, 16, 4

STORAGE, AUGMENTED = 0, 3

JOB, OTHER = f"{1:016x}", f"{2:016x}"


class Member:
    """One epoch of one member, as a list of batches that a test may spoil before it is written."""

    def __init__(self, header, order, copies=None):
        self.header = header
        size = header.batch_size or BATCH
        order = np.asarray(order)
        self.batches = [order[k : k + size].copy() for k in range(0, len(order), size)]
        self.copies = {} if copies is None else copies  # index: slot, generation, form
        self.failed, self.skipped = [], []
        self.done = True
        self.out_of_turn = sum(form == AUGMENTED for _, _, form in self.copies.values())

    def write(self, folder):
        log = Log(folder, self.header)
        for batch in self.batches:
            copies = [self.copies.get(int(i), (NO_SLOT, 0, STORAGE)) for i in batch]
            log.gave(batch, np.array(copies, np.uint32).reshape(-1, 3))
        for batch in self.failed:
            log.failed(batch)
        if len(self.skipped):
            log.skipped(self.skipped)
        if self.done:
            log.done(self.out_of_turn)
        return log


def header(job=JOB, turn=0, **options):
    defaults = {
        "kind": "delivered", "job": job, "dataset": "d0", "samples": SAMPLES, "turn": turn, "epoch": turn,
        "count": SAMPLES, "batch_size": BATCH, "shuffled": True, "segment": 77, "attached": [int(job, 16)],
        "began": float(turn),
    }  # fmt: skip
    return Header(**(defaults | options))


def clean(seed=0, jobs=(JOB, OTHER), **options):
    """Members by job and epoch. Jobs make copies for each other: each index has a slot of its own in
    an epoch, whose generation is the epoch's."""
    rng = np.random.default_rng(seed)
    members = {}
    count = options.get("count", SAMPLES)
    for turn in range(EPOCHS):
        makes = rng.integers(0, len(jobs), SAMPLES)
        for number, job in enumerate(jobs):
            copies = {
                i: (i, turn, STORAGE if makes[i] == number else AUGMENTED) for i in range(0, SAMPLES, 2)
            }
            order = rng.permutation(SAMPLES)[:count]
            members[job, turn] = Member(header(job, turn, **options), order, copies)
    return members


def ranks(padded, seed=0, count=3):
    """Two epochs of a job of several ranks, uneven: as DistributedSampler shares them out."""
    rng = np.random.default_rng(seed)
    share = -(-SAMPLES // count) if padded else SAMPLES // count
    members = {}
    for turn in range(2):
        order = rng.permutation(SAMPLES)
        order = np.concatenate([order, order])[: share * count]
        for rank in range(count):
            about = header(
                turn=turn, rank=rank, ranks=count, padded=padded, count=share, attached=[rank + 1, 1]
            )
            members[rank, turn] = Member(about, order[rank::count])
    return members


def resumed(seed=0, first=160, second=96):
    """An epoch that was killed, resumed, killed and resumed: each time the state is older than what was
    delivered last."""
    order = np.random.default_rng(seed).permutation(SAMPLES)
    a = Member(header(epoch=3), order[: first + 48])
    parts = [{"log": a.header.log, "batches": first // BATCH}]
    rest = order[first:][::-1]  # exact as a set
    b = Member(
        header(epoch=3, resumed=parts, count=SAMPLES - first, began=1.0, attached=[5]), rest[: second + 10]
    )
    parts = [*parts, {"log": b.header.log, "batches": second // BATCH}]
    rest = rest[second:]
    c = Member(header(epoch=3, resumed=parts, count=len(rest), began=2.0, attached=[6]), rest)
    a.done = b.done = False
    a.batches, b.batches = a.batches[:-1], b.batches[:-1]
    return {"killed": a, "again": b, "last": c}


def found(folder, members, **expected):
    """The kinds of violation that are found, and where."""
    for member in members.values():
        member.write(folder)
    return check(folder)


def kinds(report):
    return {(v.invariant, v.kind) for v in report.violations}


# Planted: what is spoilt, and what is said of it


def plant_missing(members):
    spoilt = members[JOB, 2]
    lost = int(spoilt.batches[-1][-1])
    spoilt.batches[-1] = spoilt.batches[-1][:-1]
    return lost
