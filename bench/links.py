"""A large folder out of a small one: many symbolic links to a few pictures.

A benchmark of loaders needs an epoch that lasts, and pictures that do not change what is
measured. Links have both: each is a sample of its own to every loader, while the files behind
them are few enough to stay in the page cache, so that decoding is measured and not the disk.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".webp"})


def pictures_of(data: Path) -> list[Path]:
    """The pictures in the class folders of ``data``, sorted.

    Raises:
        FileNotFoundError: ``data`` is no folder, or none of its folders holds a picture.
    """
    if not data.is_dir():
        raise FileNotFoundError(f"no such folder: {data}")
    found = sorted(path for path in data.glob("*/**/*") if path.suffix.lower() in SUFFIXES)
    if not found:
        raise FileNotFoundError(f"no pictures in the class folders of {data}")
    return found


def make_links(data: Path, folder: Path, count: int, pictures: Sequence[Path] | None = None) -> int:
    """Fill ``folder`` with ``count`` links to the pictures of ``data``, in its class folders.

    ``pictures`` takes the place of all that are there.

    The pictures take turns, so each gets as many links as any other, give or take one.

    Returns:
        How many links were made: ``count``.

    Raises:
        FileNotFoundError: ``data`` holds no pictures.
        ValueError: ``count`` is below 1.
    """
    if count < 1:
        raise ValueError(f"count must be at least 1, not {count}")
    pictures = [path.absolute() for path in pictures or pictures_of(data)]
    top = data.absolute()
    for number, picture in enumerate(islice(cycle(pictures), count)):
        class_folder = folder / picture.relative_to(top).parts[0]
        if number < len(pictures):
            class_folder.mkdir(parents=True, exist_ok=True)
        (class_folder / f"{number:07d}-{picture.name}").symlink_to(picture)
    return count


@contextmanager
def linked(data: Path, count: int) -> Iterator[tuple[Path, int]]:
    """A temporary folder of ``count`` links, and the number of samples in it; removed at the end.

    With ``count`` 0 it is ``data`` itself, and nothing is made or removed.
    """
    if count == 0:
        yield data, len(pictures_of(data))
        return
    folder = Path(tempfile.mkdtemp(prefix="seneca-bench-"))
    try:
        yield folder, make_links(data, folder, count)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
