"""Folders and files that are given to a command: why one cannot be used, and what to give instead."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from seneca._runtime.printable import printable
from seneca.data.sources.buckets import is_bucket

__all__ = ["cannot_list", "cannot_write", "in_a_line"]


def cannot_list(folder: Path) -> str | None:
    """Why a folder of pictures or logs cannot be listed, in a line; None: it can."""
    try:
        os.scandir(folder).close()
    except FileNotFoundError:
        if is_bucket(str(folder).replace(":/", "://", 1)):
            return f"{folder} is no folder of this host, and this command reads folders"
        return f"there is no folder {folder}; give another"
    except NotADirectoryError:
        return f"{folder} is no folder; give the folder in which your files lie"
    except OSError as error:
        return f"{folder} cannot be listed: {error.strerror}; give another, or get the right to read it"
    return None


def in_a_line(error: Exception) -> str:
    """An error as a line. Where the kernel refuses a file, the line says what to do."""
    if not isinstance(error, OSError) or error.filename is None:
        return printable(" ".join(str(error).split()))
    remedy = "give another, or get the right to it"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        remedy = "free some room, or give another"
    return printable(f"{error.filename}: {error.strerror}; {remedy}")


def cannot_write(to: Path) -> str | None:
    """One line on why the file cannot be written; None: it can. Checked before any work."""
    if to.is_dir():
        return f"{to} is a folder; give a file in it"
    folder = to.absolute().parent
    if not folder.is_dir():
        return f"there is no folder {folder}; make it, or give another file"
    if not os.access(to if to.exists() else folder, os.W_OK):
        return f"{to} cannot be written; give another file"
    return None
