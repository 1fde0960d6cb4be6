"""Text of others for people: on one line, and without codes that a terminal obeys."""

from __future__ import annotations

__all__ = ["printable"]


def printable(text: str) -> str:
    """Text without line feeds, escape sequences, and bytes that are no UTF-8: each becomes U+FFFD.

    The names of jobs and files may hold anything, and so may what a server says.

    Example:
        >>> printable("a\\x1b[31mb")
        'a�[31mb'
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else "\ufffd" for c in text)
