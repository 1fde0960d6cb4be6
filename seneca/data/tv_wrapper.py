"""Datasets in torchvision's wrapper for transforms of v2, and the pictures that were found in them.

torchvision is known by the names of its types, and never imported.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Sequence
from typing import Any, TypeVar

from seneca.transforms._genuine import is_library_code

__all__ = ["WRAP", "known_name", "remembered", "unwrapped"]

WRAPPERS = "torchvision.tv_tensors._dataset_wrapper"
WRAP = "wrap it with torchvision.datasets.wrap_dataset_for_transforms_v2"

T = TypeVar("T")

_known: dict[int, tuple[weakref.ref[Any], Any]] = {}


def unwrapped(dataset: Any) -> Any:
    """The dataset in torchvision's wrapper; None: it is not wrapped, or the wrapper was changed."""
    kind = type(dataset)
    wrapper = getattr(sys.modules.get(WRAPPERS), "VisionDatasetTVTensorWrapper", None)
    bases: Sequence[Any] = kind.__bases__
    if wrapper is None or len(bases) != 2 or bases[0] is not wrapper:
        return None
    inner = vars(dataset).get("_dataset")
    own = {name for name in vars(kind) if name not in ("__module__", "__doc__", "__parameters__")}
    changed = (
        own or not is_library_code(wrapper.__getitem__) or inner is None or vars(inner).get("transforms")
    )
    of_wrapper = getattr(vars(dataset).get("_wrapper"), "__module__", None)
    if changed or type(inner) is not bases[1] or of_wrapper != WRAPPERS:
        return None
    return inner


def known_name(dataset: Any) -> str | None:
    """The name of the dataset's type, or of that of the dataset in the wrapper; None: it is not that type."""
    inner = unwrapped(dataset)
    kind: type = type(dataset if inner is None else inner)
    is_it = getattr(sys.modules.get(kind.__module__), kind.__qualname__, None) is kind
    return f"{kind.__module__}.{kind.__qualname__}" if is_it else None


def remembered(dataset: Any, now: T) -> T:
    """The object that was made of this dataset before, which becomes what ``now`` is."""
    known = _known.get(id(dataset))
    if known is None or known[0]() is not dataset:
        number = id(dataset)
        gone = weakref.ref(dataset, lambda _: _known.pop(number, None))
        known = _known[number] = gone, now
    before: Any = known[1]
    samples = vars(now)["samples"]
    if before.samples != samples:
        before.samples = samples
    vars(before).update({**vars(now), "samples": before.samples})
    return before  # type: ignore[no-any-return]
