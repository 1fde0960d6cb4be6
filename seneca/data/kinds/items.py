"""Any other dataset. Its items are shared as they are."""

from __future__ import annotations

from typing import Any

from seneca.data.kinds.advice import advice_for
from seneca.data.kinds.fingerprints import fingerprint_items
from seneca.data.kinds.kind import Request, Support, class_name
from seneca.data.kinds.staged import has_stages
from seneca.data.stages import Opaque

__all__ = ["matches", "support"]

# The assumed size of all items in storage. It decides how much memory "auto" is: 256 MiB.
TOTAL_BYTES = 16 * 2**20


def matches(dataset: Any) -> bool:
    """Any dataset is of this kind, if it is of no other."""
    return True


def support(request: Request) -> Support:
    """Support for any dataset: whole items are shared."""
    if not request.shares:
        return request.support("unshared", "cache=None")
    base = request.base
    source, augmented, found = fingerprint_items(request, is_staged=False)
    why = f"{class_name(base)} is shared by whole items"
    if has_stages(type(base)):
        why += (
            ", as its __getitem__ makes them; if read, decode and augment make the same, derive it from "
            "seneca.StagedDataset"
        )
    else:
        why += f": what is in between is not known{advice_for(base)}"
    return request.support(
        "opaque", why, stages=Opaque(base, source, augmented), total_bytes=TOTAL_BYTES, **found
    )
