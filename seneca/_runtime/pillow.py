"""Settings of Pillow that change what a file gives."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

__all__ = ["Settings", "settings"]


class Settings(NamedTuple):
    """Settings of a process, by default those of an unchanged Pillow.

    Attributes:
        takes_truncated: Whether Pillow accepts truncated pictures (``LOAD_TRUNCATED_IMAGES``).
        max_pixels: Pillow warns of a picture with more pixels, and refuses one with more than twice as many
            (``MAX_IMAGE_PIXELS``). None: it opens all.
    """

    takes_truncated: bool = False
    max_pixels: int | None = 1024**3 // 4 // 3


def settings() -> Settings:
    """How Pillow is set in this process now."""
    default = Settings()
    truncated = getattr(sys.modules.get("PIL.ImageFile"), "LOAD_TRUNCATED_IMAGES", default.takes_truncated)
    limit: Any = getattr(sys.modules.get("PIL.Image"), "MAX_IMAGE_PIXELS", default.max_pixels)
    # Scripts also set float("inf"). No picture has more pixels than 63 bits can count.
    return Settings(bool(truncated), None if limit is None or limit >= 2**63 else int(limit))
