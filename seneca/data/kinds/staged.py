"""Datasets that offer read, decode and augment. ENCODED and DECODED are shared besides items."""

from __future__ import annotations

from typing import Any

from torch.utils.data import Dataset

from seneca.data.kinds.fingerprints import fingerprint_items
from seneca.data.kinds.kind import Request, Support, class_name
from seneca.data.stages import ByStages, StagedDataset, number_of

__all__ = ["has_stages", "matches", "support"]

# The assumed size in storage of a sample. It decides how much memory "auto" is: up to 1 MiB a sample.
BYTES_PER_SAMPLE = 64 * 2**10


def matches(dataset: Any) -> bool:
    """Whether it is a :class:`StagedDataset`.

    The class is asked, because an object may answer for any name, or raise anything. torch does not ask
    objects either. A class with its own ``__getitem__`` defines its items there, whatever its other methods
    are called. Only deriving from :class:`StagedDataset` says otherwise.
    """
    kind = type(dataset)
    own = getattr(kind, "__getitem__", None) not in (None, Dataset.__getitem__)
    return has_stages(kind) and (StagedDataset in kind.__mro__ or not own)


def has_stages(kind: type) -> bool:
    """Whether a class has the methods of a :class:`StagedDataset`."""
    return all(callable(getattr(kind, name, None)) for name in ("__len__", "read", "decode", "augment"))


def support(request: Request) -> Support:
    """Support for a staged dataset: all forms are shared."""
    if not request.shares:
        return request.support("unshared", "cache=None")
    base = request.base
    source, augmented, found = fingerprint_items(request, is_staged=True)
    return request.support(
        "staged",
        f"{class_name(base)} offers read, decode and augment",
        stages=ByStages(base, source, number_of(b"decoded", source), augmented),
        total_bytes=BYTES_PER_SAMPLE * len(base),
        **found,
    )
