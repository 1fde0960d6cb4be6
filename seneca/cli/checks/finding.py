"""The finding of a check of ``seneca doctor``, and the line that mends it."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

__all__ = ["CheckStatus", "Finding", "ok", "problem", "unknown", "warning"]


class CheckStatus(str, Enum):
    """How bad it is.

    OK: nothing is wrong. WARNING: jobs run, but slower or less safely than they could. PROBLEM: jobs fail or
    do not share. UNKNOWN: the host does not say.
    """

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    UNKNOWN = "unknown"


class Finding(NamedTuple):
    """The result of one check.

    Args:
        verdict: How bad it is.
        found: What was found, in one line.
        remedy: A command, or a setting in words, that mends it; "": there is nothing to mend. A finding that
            is ok may have one, which is then an offer.
    """

    verdict: CheckStatus
    found: str
    remedy: str = ""


def ok(found: str, remedy: str = "") -> Finding:
    return Finding(CheckStatus.OK, found, remedy)


def warning(found: str, remedy: str) -> Finding:
    return Finding(CheckStatus.WARNING, found, remedy)


def problem(found: str, remedy: str) -> Finding:
    return Finding(CheckStatus.PROBLEM, found, remedy)


def unknown(found: str, remedy: str = "") -> Finding:
    return Finding(CheckStatus.UNKNOWN, found, remedy)
