"""Settings of Pillow that change what a file gives."""

from __future__ import annotations

import sys

__all__ = ["takes_truncated"]


def takes_truncated() -> bool:
    """Whether Pillow accepts truncated pictures, a setting of many scripts (``LOAD_TRUNCATED_IMAGES``)."""
    return bool(getattr(sys.modules.get("PIL.ImageFile"), "LOAD_TRUNCATED_IMAGES", False))
