"""Finds the broken pictures and sounds below a folder: those that a loader refuses, each with its reason.

::

    listing --path--> threads: an earlier check's verdict, else read and decode --Found--> the caller

The threads do all that touches storage. Therefore the caller can be interrupted while storage hangs.
"""

from __future__ import annotations

import errno
import io
import os
import queue
import threading
from collections.abc import Iterator
from typing import NamedTuple

from PIL import Image

from seneca._core import sound
from seneca._core.codec import Codec
from seneca._core.plan import Plan
from seneca._runtime.pillow import settings as pillow_settings
from seneca._runtime.regular_files import read_regular
from seneca.data.file_verdicts import FileVerdict, FileVerdicts
from seneca.data.folder import IMG_EXTENSIONS
from seneca.data.sounds import SOUND_EXTENSIONS
from seneca.errors import DecodeError, LeftToPillowError

__all__ = ["Found", "judge", "judge_all", "judge_sound", "picture_files"]

MAX_FILE_BYTES = 1 << 30  # the same as in csrc/pool/sn_prepare.c
AHEAD = 1024  # findings that wait for the caller, at most; more than there are threads

# The markers that begin a JPEG's frame (ITU-T T.81, table B.1), and those of them that say "progressive".
FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
PROGRESSIVE_FRAMES = frozenset({0xC2, 0xC6, 0xCA, 0xCE})


class Found(NamedTuple):
    """One file, or one folder that cannot be listed.

    Args:
        path: Begins with the folder that was given.
        size_bytes: The size of the file; 0 if it is not known.
        verdict: What it is.
        known: Whether the verdict is that of an earlier check.
    """

    path: str
    size_bytes: int
    verdict: FileVerdict
    known: bool = False


def picture_files(folder: str) -> Iterator[tuple[str, OSError | None]]:
    """List every file below a folder that is called like a picture or a sound, in no order, as it is found.

    Links are followed, but not back into a folder above.

    Yields:
        ``(path, None)`` for each file; ``(path, error)`` for each folder that cannot be listed.
    """
    waiting: list[tuple[str, frozenset[tuple[int, int]]]] = [(folder, frozenset())]
    while waiting:
        path, above = waiting.pop()
        try:
            status = os.stat(path)
            here = (status.st_dev, status.st_ino)
            if here in above:
                continue
            inside = above | {here}
            with os.scandir(path) as entries:
                for entry in entries:
                    if _is_folder(entry):
                        waiting.append((entry.path, inside))
                    elif entry.name.lower().endswith(IMG_EXTENSIONS + SOUND_EXTENSIONS):
                        yield entry.path, None
        except OSError as error:
            yield path, error


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that cannot be followed; reading it shows why
        return False


def judge_all(
    folder: str, verdicts: FileVerdicts, *, workers: int, max_pixels: int | None = None
) -> Iterator[Found]:
    """Judge every picture file below a folder, in threads. The order is not determined.

    Memory does not grow with the number of files. Each new verdict on the content of a file is added to
    ``verdicts``, which the caller saves. A file that cannot be read has no such verdict.

    Args:
        folder: Any tree of picture files.
        verdicts: Those of earlier checks. Such a file is not read again.
        workers: The number of threads.
        max_pixels: The most pixels that a picture may have. None: only Pillow's limit counts.

    Raises:
        MemoryError: A thread had no memory for a picture.
    """
    files = picture_files(folder)
    turn = threading.Lock()
    findings: queue.Queue[Found | BaseException | None] = queue.Queue(max(AHEAD, 2 * workers))
    ended = threading.Event()

    def work() -> None:
        try:
            codec = Codec(max_pixels)
            while not ended.is_set():
                with turn:
                    path, error = next(files, (None, None))
                if path is None:
                    break
                findings.put(
                    _check_file(path, verdicts, codec, max_pixels)
                    if error is None
                    else Found(path, 0, FileVerdict(f"cannot be listed: {error.strerror}"))
                )
            findings.put(None)
        except BaseException as error:
            findings.put(error)

    for _ in range(workers):
        threading.Thread(target=work, daemon=True).start()
    at_work = workers
    try:
        while at_work:
            found = findings.get()
            if isinstance(found, BaseException):
                raise found
            if found is None:
                at_work -= 1
            else:
                yield found
    finally:
        ended.set()
        while not findings.empty():  # makes room for those that wait to put their last ones
            findings.get_nowait()


def _check_file(path: str, verdicts: FileVerdicts, codec: Codec, max_pixels: int | None) -> Found:
    size = 0
    try:
        status = os.stat(path)
        size = status.st_size
        verdict = verdicts.of(status)
        if verdict is not None:
            return Found(path, size, verdict, known=True)
        if size > MAX_FILE_BYTES:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        data = read_regular(path)
    except OSError as error:  # is not kept, because it can pass without a change of the file
        return Found(path, size, FileVerdict(error.strerror or str(error)))
    if path.lower().endswith(SOUND_EXTENSIONS):
        verdict = judge_sound(data, codec, path.rpartition(".")[2].upper())
    else:
        verdict = judge(data, codec, max_pixels)
    verdicts.add(status, verdict)
    return Found(path, size, verdict)


def judge(data: bytes, codec: Codec, max_pixels: int | None = None) -> FileVerdict:
    """Decode a file's bytes as a loader does, to the end.

    Of a JPEG only the last row becomes pixels. The codec decodes all coefficients before it, and finds all
    damage there. It leaves out the inverse DCT and the colours, which cannot fail.

    Raises:
        MemoryError: There is no memory for the picture.
    """
    try:
        height, width = codec.probe(data)
        if (limit := pillow_settings().max_pixels) is not None and height * width > limit:
            return _judge_by_pillow(data, codec, max_pixels)
        codec.decode_region(data, height - 1, 0, 1, width)
        return FileVerdict(None, "JPEG", _is_progressive(data), height * width)
    except LeftToPillowError:
        return _judge_by_pillow(data, codec, max_pixels)
    except DecodeError as error:
        return FileVerdict(error.reason)


def judge_sound(data: bytes, codec: Codec, format_: str) -> FileVerdict:
    """The same of a sound. ``format_`` is what it is called if it is good."""
    try:
        try:
            sound.decode(codec, Plan.of_sounds([], 0), data)
        except LeftToPillowError:
            # Imported here only: this module imports torch.
            from seneca.transforms._apply import open_sound

            open_sound(data)
    except DecodeError as error:
        return FileVerdict(error.reason)
    return FileVerdict(None, format_)


def _judge_by_pillow(data: bytes, codec: Codec, max_pixels: int | None) -> FileVerdict:
    # Imported here only: this module imports torch, and a folder of JPEGs is checked without torch.
    from seneca.transforms._apply import open_picture

    try:
        picture = open_picture(data, max_pixels=max_pixels)
        with Image.open(io.BytesIO(data)) as file:
            return FileVerdict(None, file.format, pixels=picture.height * picture.width)
    except DecodeError as error:
        return _judge_by_core(data, codec) or FileVerdict(error.reason)


def _judge_by_core(data: bytes, codec: Codec) -> FileVerdict | None:
    """Good, if the core decodes what Pillow refuses: a WebP, where Pillow was built without. Else None."""
    most = pillow_settings().max_pixels
    whole = Plan([], 0, "uint8", True, (0, 0, 0), (1, 1, 1), leaves_above=most)  # decode, and do nothing else
    try:
        height, width, _ = codec.decode(whole, data).shape
    except DecodeError:
        return None
    return FileVerdict(None, "WEBP", pixels=height * width)


def _is_progressive(data: bytes) -> bool:
    """Whether the first frame of a JPEG is progressive. Bytes between segments are not understood: False."""
    at = 2
    while at + 4 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF:  # a fill byte
            at += 1
        elif marker in FRAMES:
            return marker in PROGRESSIVE_FRAMES
        else:
            at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return False
