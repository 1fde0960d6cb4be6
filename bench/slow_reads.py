"""Slow storage without root: a benchmark that starts itself anew with native/slow_reads.c preloaded.

::

    run_anew() -- compiles, sets the environment --> the same program --> held_back(): checks that it is so

What is preloaded takes effect when a process starts, and so for all that the new one starts.
"""

from __future__ import annotations

import os
import shutil
import struct
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from compiled import compile_library

BUCKET, RATE, FOLDER = "SLOW_READS_BUCKET", "SLOW_READS_BYTES_PER_S", "SLOW_READS_FOLDER"
ANSWER = "SLOW_READS_ANSWER_US"
BUCKET_BYTES = 24


class NotHeldBack(RuntimeError):
    """Reads are as fast as ever; the message says what the reason may be."""


def environment(place: Path, folder: Path, bytes_per_s: int, *, answer_us: int = 0) -> dict[str, str]:
    """What a process needs in its environment for its reads beneath ``folder`` to be held back.

    ``bytes_per_s`` is for all reads together, and each read takes ``answer_us`` at least.

    Processes with the same ``place`` have one bucket. What is measured of such storage is kept in
    ``place`` as well: another day's loaders are not to take it for the folder's own.

    Raises:
        CompileError: no library could be made.
    """
    library = compile_library("slow_reads", place)
    (place / "bucket").write_bytes(bytes(BUCKET_BYTES))
    return {
        "LD_PRELOAD": ":".join(filter(None, [str(library), os.environ.get("LD_PRELOAD")])),
        BUCKET: str(place / "bucket"),
        RATE: str(bytes_per_s),
        FOLDER: str(folder.resolve()),
        ANSWER: str(answer_us),
        "XDG_CACHE_HOME": str(place),
    }


def run_anew(script: str, arguments: Sequence[str], folder: Path, bytes_per_s: int) -> NoReturn:
    """Become the same program with its reads beneath ``folder`` held back.

    Raises:
        CompileError: no library could be made.
    """
    place = Path(tempfile.mkdtemp(prefix="slow-reads-"))
    try:
        changed = environment(place, folder, bytes_per_s)
        sys.stdout.flush()
        os.execve(sys.executable, [sys.executable, script, *arguments], {**os.environ, **changed})
    except BaseException:
        shutil.rmtree(place)
        raise


def was_run_anew() -> bool:
    """Whether this is what :func:`run_anew` has become."""
    return BUCKET in os.environ


@contextmanager
def held_back(file: str) -> Iterator[None]:
    """Within, reads are held back, of which one of ``file`` is the proof; afterwards nothing of it is left.

    Raises:
        NotHeldBack: they are not.
    """
    try:
        before = bytes_paid()
        with open(file, "rb") as one:
            one.read(1)
        if bytes_paid() == before:
            raise NotHeldBack(
                f"reading {file} is not held back: slow_reads.so was not preloaded"
                f" (TMPDIR may forbid to run programs), or the file lies outside {os.environ[FOLDER]}"
            )
        yield
    finally:
        shutil.rmtree(Path(os.environ[BUCKET]).parent)


def bytes_paid() -> int:
    """Bytes that all processes of the bucket have read beneath the folder so far."""
    _, paid, _ = struct.unpack("=QQQ", Path(os.environ[BUCKET]).read_bytes())
    return int(paid)
