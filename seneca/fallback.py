"""The loader where Seneca is off: torch's own, which takes Seneca's arguments and says so once."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from typing import Any

import torch
import torch.utils.data

from seneca.options import OnError, Options, Share
from seneca.partition import Split
from seneca.switch import off_because

__all__ = ["DataLoader"]


class DataLoader(torch.utils.data.DataLoader):
    """``torch.utils.data.DataLoader`` that also takes Seneca's arguments.

    They are checked and stored under their own names, as the real loader does, and have no
    effect: nothing is shared, kept or substituted. The first loader of a process gives notice.

    Args:
        *args: Torch's.
        cache: No effect.
        cache_bytes: No effect.
        split: No effect.
        share: No effect.
        on_error: No effect: a damaged picture raises.
        memory_format: No effect: batches are contiguous.
        **kwargs: Torch's.

    Raises:
        ValueError: What torch or :class:`seneca.options.Options` refuses.
    """

    def __init__(
        self,
        *args: Any,
        cache: Any = "auto",
        cache_bytes: int | str = "auto",
        split: str | Sequence[float] | Split = "auto",
        share: Share = "augmented",
        on_error: OnError = "raise",
        memory_format: torch.memory_format = torch.contiguous_format,
        **kwargs: Any,
    ) -> None:
        Options(cache, cache_bytes, split, share, on_error, memory_format)
        super().__init__(*args, **kwargs)
        self.cache = cache
        self.cache_bytes = cache_bytes
        self.split = split
        self.share = share
        self.on_error = on_error
        self.memory_format = memory_format
        _give_notice()

    def stats(self) -> dict[str, Any]:
        """Empty: torch's loader counts nothing. Here so that a script that asks still runs."""
        return {}


@functools.cache
def _give_notice() -> None:
    """Say once a process why nothing is shared."""
    reason = off_because() or "seneca.fallback was asked for"
    warnings.warn(f"seneca: {reason}; loading with plain torch, nothing is shared", stacklevel=3)
