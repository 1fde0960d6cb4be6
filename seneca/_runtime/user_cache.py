"""The folder in which Seneca keeps what it found out for a user, from one run to the next."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["user_cache"]


def user_cache() -> Path:
    """``$XDG_CACHE_HOME/seneca``, else ``~/.cache/seneca``. The folder may not exist."""
    folder = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(folder) / "seneca"
