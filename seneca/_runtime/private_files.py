"""Folders and files that no other user of the host has made or can change.

::

    private_folder(path) --made if it is missing, and checked---> a folder of this user's alone
        open_private(path), write_private(path, text) -----------> files of this user's alone

In ``/tmp`` and ``/dev/shm`` any user may make a file first, if its name can be guessed. Whoever made it can
change it later.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import stat
from pathlib import Path

from seneca._runtime.regular_files import above_standard, kind_of

__all__ = ["NotPrivate", "open_private", "private_folder", "user_name", "write_private"]

OTHERS_WRITE = 0o022
OTHERS = 0o077


class NotPrivate(PermissionError):
    """Another user made a file or folder, or can change it. The text names it and says what to do."""


def private_folder(path: Path) -> Path:
    """Make a folder, with those that lead to it, or check whether the one that is there is private.

    A private folder is no link, belongs to this user, and no other user may write in it. No other user can
    exchange it: the folders and links that lead to it belong to this user or to root, and where others may
    write, the sticky bit is set.

    Returns:
        The absolute path.

    Raises:
        NotPrivate: It is not private.
        OSError: It cannot be made.
    """
    path = path.absolute()
    for step in (*reversed(path.parents), path):
        if not os.path.lexists(step):
            with contextlib.suppress(FileExistsError):  # another process of this user was first
                os.mkdir(step, 0o700)
        if step != path:
            _check_way(step, path)
    about = os.lstat(path)
    kind = kind_of(about.st_mode)
    if kind != "a directory":
        raise _not_private(path, f"is {kind or 'a file'} and not a folder", path)
    if about.st_uid != os.geteuid():
        raise _not_private(path, f"belongs to another user, {user_name(about.st_uid)}", path)
    if about.st_mode & OTHERS_WRITE:
        mode = stat.S_IMODE(about.st_mode)
        raise _not_private(path, f"may be changed by other users: its mode is {mode:04o}", path)
    return path


def _check_way(step: Path, path: Path) -> None:
    """Raise unless no other user can exchange what a folder or a link leads to on the way to ``path``."""
    about = os.lstat(step)
    # Whoever owns / may change everything. In a user namespace that number may differ from 0.
    if about.st_uid not in (0, os.geteuid(), os.stat("/").st_uid):
        raise _not_private(step, f"belongs to another user, {user_name(about.st_uid)}", path)
    if stat.S_ISLNK(about.st_mode):
        os.stat(step)  # raises if the links lead round in a circle
        target = step.parent / os.readlink(step)
        for one in (*reversed(target.parents), target):
            _check_way(one, path)
    elif stat.S_ISDIR(about.st_mode) and about.st_mode & OTHERS_WRITE and not about.st_mode & stat.S_ISVTX:
        mode = stat.S_IMODE(about.st_mode)
        raise _not_private(step, f"may be changed by other users: its mode is {mode:04o}", path)


def _not_private(step: Path, fault: str, path: Path) -> NotPrivate:
    leads = "" if step == path else f", and {path} lies in it"
    return NotPrivate(
        f"{step} {fault}{leads}; give a folder that only you can change, as `mktemp -d` makes it"
    )


def open_private(path: str | os.PathLike[str], flags: int) -> int:
    """Open a regular file of this user's that nobody else may open. It never blocks and follows no link.

    Args:
        path: The file.
        flags: As for ``os.open``. With ``O_CREAT`` it is made if it is missing.

    Returns:
        The file descriptor.

    Raises:
        NotPrivate: It is no regular file, belongs to another user, may be opened by others, or has a
            second name.
        OSError: It cannot be opened.
    """
    try:
        fd = above_standard(os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600))
    except OSError:
        with contextlib.suppress(FileNotFoundError):
            _check_file(path, os.lstat(path))  # says more than the kernel
        raise
    try:
        _check_file(path, os.fstat(fd))
    except BaseException:
        os.close(fd)
        raise
    return fd


def _check_file(path: str | os.PathLike[str], about: os.stat_result) -> None:
    kind, mine = kind_of(about.st_mode), about.st_uid == os.geteuid()
    if kind is not None:
        fault = f"is {kind} and not a regular file"
    elif not mine:
        fault = f"belongs to another user, {user_name(about.st_uid)}"
    elif about.st_mode & OTHERS:
        fault = f"may be opened by other users: its mode is {stat.S_IMODE(about.st_mode):04o} and not 0600"
    elif about.st_nlink > 1:
        fault = "has another name (a hard link), so it may be any file"
    else:
        return
    raise NotPrivate(f"{os.fspath(path)} {fault}; {'remove it' if mine else 'have its owner remove it'}")


def write_private(path: Path, text: str) -> None:
    """Write a file that only this user may read, whole or not at all. What had its name is not written to."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = above_standard(os.open(draft, flags, 0o600))
    try:
        with os.fdopen(fd, "w") as file:
            file.write(text)
        os.replace(draft, path)
    except BaseException:
        os.unlink(draft)
        raise


def user_name(uid: int) -> str:
    """A user, for people: the name if there is one, and the number."""
    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"
