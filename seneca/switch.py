"""Whether Seneca is on in this process: not with ``SENECA_DISABLE=1``, and only on Linux."""

from __future__ import annotations

import os
import sys

__all__ = ["off_because"]


def off_because() -> str | None:
    """Why the loader is plain torch here, or ``None`` where it is Seneca's own.

    Example:
        >>> import os
        >>> os.environ["SENECA_DISABLE"] = "1"
        >>> off_because()
        'SENECA_DISABLE is set'
        >>> del os.environ["SENECA_DISABLE"]
    """
    if os.environ.get("SENECA_DISABLE", "0") not in ("", "0"):
        return "SENECA_DISABLE is set"
    if not sys.platform.startswith("linux"):
        return f"the shared cache needs Linux, and this is {sys.platform}"
    return None
