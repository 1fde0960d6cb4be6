"""The length of a user's dataset, which torch asks for only if no sampler is given."""

from __future__ import annotations

from typing import Any

__all__ = ["length_of"]


def length_of(dataset: Any) -> int | None:
    """The length of a dataset; None: it has none.

    Example:
        >>> length_of([3, 4]), length_of(iter([3, 4]))
        (2, None)
    """
    try:
        return len(dataset)
    except (TypeError, NotImplementedError):  # a class may define __len__ to say that it has no length
        return None
