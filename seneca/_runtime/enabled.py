"""Whether Seneca is on in this process. It is on only on Linux, and ``SENECA_DISABLE=1`` turns it off."""

from __future__ import annotations

import os
import sys

__all__ = ["off_because"]


def off_because() -> str | None:
    """The reason why the loader is plain torch here; ``None`` if it is Seneca's own.

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
