"""Warnings to the user, which point to the user's own line."""

from __future__ import annotations

import sys
import warnings

__all__ = ["SenecaWarning", "warn"]

OURS = ("seneca", "torch")


class SenecaWarning(UserWarning):
    """The category of all of Seneca's warnings. A filter can select them by it.

    Example:
        >>> import warnings, seneca
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore", seneca.SenecaWarning)
    """


def warn(text: str) -> None:
    """Warn with ``SenecaWarning``, at the innermost line that is neither Seneca's nor torch's."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in OURS:
        level, frame = level + 1, frame.f_back
    warnings.warn(f"seneca: {text}", SenecaWarning, stacklevel=level)
