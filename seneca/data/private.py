"""Items that a dataset keeps to itself, because it made them in trouble."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

__all__ = ["Private", "do_not_share", "times_asked"]

T = TypeVar("T")

_asked = 0


class Private(NamedTuple):
    """An item that no other job may be given."""

    item: Any


def do_not_share(item: T) -> T:
    """Keep the item that is being made from other jobs. Call this inside a dataset's ``__getitem__``.

    Some datasets deliver a stand-in if a sample cannot be made, because of an error that may not occur
    again: too many open files, a server that does not answer. Without this call, the stand-in would be shared
    like any other item. Items that other jobs have made of the sample may still be delivered.

    The call is about the sample that this process is making, wherever in the dataset's code it stands: in
    ``__getitem__``, ``__getitems__``, or in ``read``, ``decode`` or ``augment`` of a
    :class:`seneca.StagedDataset`. What ``__getitems__`` makes together is kept together.

    Args:
        item: Anything.

    Returns:
        The same item.

    Example:
        >>> import seneca, torch
        >>> class Files(torch.utils.data.Dataset):
        ...     def __len__(self): return 2
        ...     def __getitem__(self, index):
        ...         try:
        ...             return torch.load("no such file")
        ...         except OSError:
        ...             return seneca.do_not_share(torch.zeros(3))
        >>> Files()[0]
        tensor([0., 0., 0.])
    """
    global _asked
    _asked += 1
    return item


def times_asked() -> int:
    """How often this process has called :func:`do_not_share`."""
    return _asked
