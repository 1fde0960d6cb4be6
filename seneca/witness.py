"""Opens the log of an epoch's deliveries, where ``SENECA_AUDIT`` wants it, and says what they should be."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler

from seneca.audit import Header, Log, audit_folder, next_turn, part_name
from seneca.cache import SampleCache
from seneca.lengths import length_of
from seneca.ranks import job_key
from seneca.resume import Epoch
from seneca.shared import SharedDataset
from seneca.walks import dealt_by

__all__ = ["open_log_of"]


def open_log_of(
    owner: Any,
    batches: Any,
    dataset: Any,
    epoch: Epoch,
    *,
    cache: SampleCache | None = None,
    own: np.ndarray | None = None,
    count: int | None = None,
) -> Log | None:
    """A log for an epoch that has begun; None: nobody wants it.

    Args:
        owner: The loader or batch sampler whose epoch it is.
        batches: The sampler that its batches come from.
        dataset: Whose indices these are.
        epoch: What is under way.
        cache: Where copies that it delivers were staged; None: workers tell, or nothing is shared.
        own: The sample there of each index; None: it is the index.
        count: How many samples it will deliver, where that is known better than by the sampler.

    Raises:
        OSError: As :class:`Log`'s.
    """
    folder = audit_folder()
    samples = None if folder is None else length_of(dataset)
    if folder is None or samples is None:
        return None
    sampler, size, drop_last = batches, 1, False  # one by one, or batches of the user's
    # A subclass may make other batches than its samples say; ours does not.
    if type(batches) is BatchSampler or hasattr(batches, "batches_ahead"):
        sampler, size, drop_last = batches.sampler, batches.batch_size, batches.drop_last
    dealt = dealt_by(sampler, samples, epoch)
    shuffled = type(sampler) is RandomSampler
    whole = type(sampler) in (RandomSampler, SequentialSampler) and len(sampler) == samples
    if dealt is not None:
        shuffled, whole = dealt.portion.shuffle, True
    elif shuffled and sampler.replacement:
        whole = False
    if whole and count is None:
        mine = samples if dealt is None else len(dealt.indices)
        count = mine - int(np.count_nonzero(epoch.before[:mine]))
        count -= count % size if drop_last else 0
    if isinstance(dataset, SharedDataset):
        own = None if dataset.terms is None else dataset.terms.own
        job, name = job_key(dataset.job), b"" if dataset.terms is None else dataset.terms.source
    else:
        job, name = job_key(owner.job), b"" if cache is None else cache.segment.fingerprint
    number, turn = next_turn(owner)
    segment, attached = (None, []) if cache is None else cache.segment.attachments()
    return Log(
        folder,
        Header(
            kind="delivered",
            job=f"{job:016x}",
            dataset=name.hex(),
            samples=samples,
            part=part_name(own),
            loader=number,
            turn=turn,
            epoch=epoch.number,
            count=count if whole else None,
            batch_size=size if whole else None,
            drop_last=drop_last,
            shuffled=shuffled,
            rank=0 if dealt is None else dealt.portion.rank,
            ranks=1 if dealt is None else dealt.portion.ranks,
            padded=dealt is not None and not dealt.portion.drop_last,
            in_order=getattr(owner, "in_order", True),
            resumed=epoch.written_before(),
            segment=segment,
            attached=attached,
        ),
    )
