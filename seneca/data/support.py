"""How much of a dataset can be shared, found by inspecting it, and the reasons in plain words.

* **native**: pictures in folders, pairs of a picture and a mask, or pictures with boxes, with transforms that
  the native core runs. C threads prepare them.
* **staged**: ENCODED and DECODED are shared besides whole items. Python does the work.
* **opaque**: any other dataset. Its items are shared as they are.
* **unshared**: nothing of it can be shared. torch loads it.

::

    dataset --_sharable_part()--> base, indices --Request--> the first of KINDS that matches --> Support
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from torch.utils.data import IterableDataset, Subset

from seneca.data.file_lists import Seen
from seneca.data.joined import JoinedFolders, JoinedSounds, joined
from seneca.data.kinds import KINDS, pictures, sounds
from seneca.data.kinds.advice import advice_for
from seneca.data.kinds.kind import Request, Support, class_name
from seneca.epochs.dataset_state import has_state
from seneca.epochs.lengths import length_of
from seneca.errors import NotFingerprinted
from seneca.identity import Fingerprinter, Memory
from seneca.options import VerifyFiles

__all__ = ["Support", "inspect_dataset"]


def inspect_dataset(
    dataset: Any,
    *,
    key: str | None = None,
    channels_last: bool = False,
    shares: bool = True,
    worker_init_fn: Callable[[int], None] | None = None,
    memory: Memory | None = None,
    files_found: Seen | None = None,
    verify_files: VerifyFiles = "epoch",
    for_workers: bool = True,
) -> Support:
    """Inspect a dataset as it is now. Picture files are asked for their size and time of modification.

    Args:
        dataset: Any dataset.
        key: A text that stands for each part that cannot be fingerprinted.
        channels_last: Whether the pipeline will lay out its batches as channels last.
        shares: Whether anything is to be shared. If not, this only finds out what can run natively.
        worker_init_fn: The function that worker processes run first. Items may depend on what it does.
        memory: What earlier calls have remembered. It makes this one faster.
        files_found: What another process has just found about the picture files. They are not asked then.
        verify_files: ``"run"``: files are not asked if this process has asked before.
        for_workers: Whether to find out what workers can share of pictures with masks or boxes, also if these
            run natively. That takes a walk over all annotations.

    Raises:
        OSError: A file of pictures has gone.
        PlanError: A transform of seneca.transforms cannot run as it stands.
    """
    found = _sharable_part(dataset, key)
    if isinstance(found, Support):
        return found
    base, own = found
    fingerprinter = Fingerprinter(key, memory, reads_only=True)
    request = Request(
        base,
        own,
        fingerprinter,
        worker_init_fn,
        channels_last,
        shares,
        files_found,
        verify_files,
        for_workers,
    )
    try:
        return next(kind for kind in KINDS if kind.matches(base)).support(request)
    except NotFingerprinted as error:
        return request.support("unshared", f"{error}{advice_for(base)}")
    finally:
        fingerprinter.end()


def _sharable_part(dataset: Any, key: str | None) -> tuple[Any, np.ndarray | None] | Support:
    """The dataset beneath ``Subset``, and which of its samples belong to it; or why nothing can be shared."""
    if isinstance(dataset, IterableDataset):
        return _unshared(dataset, "an IterableDataset has no indices by which jobs could share")
    base, own = dataset, None
    while type(base) is Subset:
        indices = np.asarray(base.indices)
        base = base.dataset
        if indices.size and indices.dtype.kind not in "iu":
            return _unshared(base, "the Subset's indices are not whole numbers")
        own = indices.astype(np.int64, copy=False) if own is None else indices[own]
        count = length_of(base)
        if count is not None and not _are_samples(own, count):
            return _unshared(base, "the Subset's indices are not each once and within the dataset")
    base = joined(base, {JoinedFolders: pictures.matches, JoinedSounds: sounds.matches}) or base
    if length_of(base) is None:
        return _unshared(base, f"{class_name(base)} has no length")
    if len(dataset) == 0:
        return _unshared(base, f"{class_name(dataset)} is empty")
    if has_state(base) and key is None:
        why = "keeps a state, which its items may depend on; if they do not, say so with key="
        return _unshared(base, f"{class_name(base)} {why}")
    return base, None if own is None else own.astype(np.uint32)


def _unshared(base: Any, why: str) -> Support:
    return Support("unshared", (why,), base)


def _are_samples(indices: np.ndarray, count: int) -> bool:
    """Whether these are indices below ``count``, each at most once."""
    if indices.size == 0:
        return True
    if indices.min() < 0 or indices.max() >= count:
        return False
    met = np.zeros(count, bool)  # marking takes a twentieth of the time of sorting
    met[indices] = True
    return int(np.count_nonzero(met)) == len(indices)
