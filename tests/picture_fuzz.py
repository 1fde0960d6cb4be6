"""Pictures that are damaged by chance: a loader reads or refuses each as Pillow does, to the bit.

Each file is read by Pillow in this process, as torchvision's folders read it, and by loaders of Seneca's:
natively with several crops, natively from what a cache keeps RECODED, in stages with a transform in Python,
and with on_error="skip".

    python tests/picture_fuzz.py --count 20000               files of all formats
    python tests/picture_fuzz.py --seed 7 --first 4711 --count 1 --keep folder      one again, kept there

Each file has a number. The seed and the number make the same file again. Those of the whole size
need SENECA_TEST_ALL=1.
"""

from __future__ import annotations

import argparse
import functools
import io
import os
import random
import secrets
import shutil
import struct
import sys
import tempfile
import time
import warnings
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image, ImageFile
from PIL import __version__ as pillow_version

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parent / "fidelity")]

from awkward_files import FILES
from jpeg_surgery import after_soi, picture, saved, segment, without

import seneca
from seneca import transforms as T

__all__ = [
    "Difference",
    "PythonCrop",
    "compare",
    "crop_by_pillow",
    "pillows_settings",
    "read_by_pillow",
    "run",
    "sources",
]

BUILT_HERE = "post" in pillow_version  # pillow-simd comes as source, and finds the system's libjpeg
CROPS = (12, 33, 96)  # sides; most pictures are 40 x 50
MAX_PIXELS = 1 << 20  # that damaged headers may promise: Pillow refuses twice as many
AT_ONCE = 200  # files, of one folder
MODES = ("RGB", "L", "1", "P", "LA", "RGBA", "CMYK", "YCbCr", "LAB", "HSV", "I", "I;16", "F", "RGBX", "PA")
RUNS_PROGRAMS = ("EPS",)  # Pillow starts Ghostscript to read it
SHARES = {"JPEG": 50, "PNG": 20, "WEBP": 10}  # of a hundred; all others have the rest together


# Other jobs have no part in it, and nothing is compared that may differ.
RECODED = {"split": "0-100-0-0", "cache_bytes": "64MiB", "share": "none", "check_every": None}


class Difference(NamedTuple):
    """What a loader does with a file and Pillow does not."""

    path: str
    way: str
    what: str


# -- Files --


@functools.cache
def sources() -> dict[str, list[bytes]]:
    """Sound files by format: what Pillow can save and read again here, and the awkward ones that it reads."""
    Image.init()
    base = picture()
    made: dict[str, list[bytes]] = {}
    for kind in sorted(set(Image.SAVE) & set(Image.OPEN) - set(RUNS_PROGRAMS)):
        for mode in MODES:
            data = _saved_in_mode(base, kind, mode)
            if data is not None:
                made.setdefault(kind, []).append(data)
    made["JPEG"] += [_rich_jpeg(base)] * 20
    for file in FILES:
        data = file.bytes if isinstance(file.data, bytes) else b""
        if 0 < len(data) < 20_000 and (kind := _format_read(data)):
            made.setdefault(kind, []).append(data)
    return made


def _rich_jpeg(base: Image.Image) -> bytes:
    """A JPEG that has all that Pillow reads of a header: EXIF, XMP, a profile, resolution, an index."""
    tags = Image.Exif()
    tags[0x0112], tags[0x010F], tags[0x011A], tags[0x0128] = 6, "maker", 72.0, 2
    blocks = b"Photoshop 3.0\x008BIM\x03\xed\0\0\0\0\0\x10" + bytes(16) + b"8BIM\x04\x04\0\0\0\0\0\x02ab"
    data = saved(
        base, "MPO", save_all=True, append_images=[base], exif=tags, icc_profile=bytes(range(200)), quality=90
    )
    return after_soi(
        without(data, 0xE0), segment(0xED, blocks), segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0<x/>")
    )


def _saved_in_mode(base: Image.Image, kind: str, mode: str) -> bytes | None:
    """What Pillow writes of the picture in this mode; None: it cannot, or cannot read it again."""
    try:
        data = saved(base.convert("L").convert(mode) if mode == "I;16" else base.convert(mode), kind)
    except Exception:  # one for each format and mode that do not go together
        return None
    return data if _format_read(data) else None


def _format_read(data: bytes) -> str | None:
    """The format as which Pillow reads it; None: it refuses it."""
    try:
        with Image.open(io.BytesIO(data)) as file:
            if file.width * file.height > MAX_PIXELS:
                return None
            file.convert("RGB")
            return "JPEG" if file.format == "MPO" else file.format
    except Exception:  # damage has many names
        return None


def damaged(chance: random.Random, sound: bytes, other: bytes) -> bytes:
    """The same with some damage. Beginnings, where headers are, are hit more often."""
    if sound[:3] == b"\xff\xd8\xff" and chance.random() < 0.3:
        return with_damaged_segment(chance, sound)
    data = bytearray(sound)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        kind = chance.random()
        at = chance.randrange(len(data)) if chance.random() < 0.6 else chance.randrange(min(len(data), 700))
        size = chance.choice((1, 2, 4, 16, 64, 300, 1 + chance.randrange(len(data))))
        if kind < 0.25:
            data[at] = chance.choice((0, 1, 2, 8, 127, 128, 254, 255, chance.randrange(256)))
        elif kind < 0.4:
            data[at] ^= 1 << chance.randrange(8)
        elif kind < 0.5:
            del data[at:]
        elif kind < 0.6:  # from there to the end, or a part
            part = data[at:] if chance.random() < 0.5 else data[at : at + size]
            data[at : at + len(part)] = bytes([chance.choice((0, 0, 255))]) * len(part)
        elif kind < 0.7:
            data[at:at] = data[at : at + size]
        elif kind < 0.8:
            del data[at : at + size]
        elif kind < 0.9:  # a number of two or four bytes
            width = chance.choice((2, 4))
            number = chance.choice((0, 1, len(data) % 65536, (1 << 8 * width) - 1, chance.randrange(65536)))
            data[at : at + width] = number.to_bytes(width, chance.choice(("little", "big")))
        elif kind < 0.97:
            begin = chance.randrange(len(other))
            data[at : at + size] = other[begin : begin + size]
        else:  # it was written over by another one
            data[:size] = other[:size]
        data = data or bytearray(1)
    if data[:4] == b"\x89PNG" and chance.random() < 0.6:
        data = bytearray(with_checksums(bytes(data)))
    return bytes(data)


def with_damaged_segment(chance: random.Random, jpeg: bytes) -> bytes:
    """The JPEG with one segment of its header shortened, changed or doubled; all others are still found."""
    begin, at = jpeg.index(b"\xff\xda"), 2
    parts = []  # where each segment begins and ends
    while at < begin and jpeg[at] == 0xFF and at + 4 <= len(jpeg):
        end = at + 2 + int.from_bytes(jpeg[at + 2 : at + 4], "big")
        parts.append((at, end))
        at = end
    if not parts:
        return jpeg
    at, end = chance.choice(parts)
    content = bytearray(jpeg[at + 4 : end])
    kind = chance.random()
    if kind < 0.4 and content:
        del content[chance.randrange(min(len(content), 40)) :]
    elif kind < 0.8 and content:
        for _ in range(chance.randint(1, 3)):
            content[chance.randrange(min(len(content), 120))] = chance.choice(
                (0, 1, 2, 7, 255, chance.randrange(256))
            )
    else:
        content += content[: chance.randrange(20)]
    made = jpeg[at : at + 2] + min(len(content) + 2, 65535).to_bytes(2, "big") + content
    return jpeg[:at] + made * chance.choice((1, 1, 1, 2)) + jpeg[end:]


def with_checksums(png: bytes) -> bytes:
    """The PNG with the checksum of each chunk made right, as far as its lengths lead."""
    data, at = bytearray(png), 8
    while at + 12 <= len(data):
        end = at + 8 + int.from_bytes(data[at : at + 4], "big")
        if end + 4 > len(data):
            break
        data[end : end + 4] = struct.pack(">I", zlib.crc32(data[at + 4 : end]))
        at = end + 4
    return bytes(data)


def file_of(seed: int, number: int, sound: dict[str, list[bytes]]) -> bytes:
    """The file of a number."""
    chance = random.Random(seed << 40 | number)
    kinds = [kind for kind in SHARES if kind in sound]
    rest = [kind for kind in sorted(sound) if kind not in SHARES]
    pick = chance.randrange(100)
    for kind in kinds:
        if pick < SHARES[kind]:
            break
        pick -= SHARES[kind]
    else:
        kind = chance.choice(rest)
    other = chance.choice(sound[kind if chance.random() < 0.6 else chance.choice(sorted(sound))])
    return damaged(chance, chance.choice(sound[kind]), other)


# -- What becomes of them --


@contextmanager
def pillows_settings(*, takes_truncated: bool = False, max_pixels: int | None = MAX_PIXELS) -> Iterator[None]:
    """Pillow with these settings, and without its warnings."""
    before = ImageFile.LOAD_TRUNCATED_IMAGES, Image.MAX_IMAGE_PIXELS
    ImageFile.LOAD_TRUNCATED_IMAGES, Image.MAX_IMAGE_PIXELS = takes_truncated, max_pixels
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        ImageFile.LOAD_TRUNCATED_IMAGES, Image.MAX_IMAGE_PIXELS = before


class Reference(torch.utils.data.Dataset):
    """A plain dataset of torch's: opened with Pillow, converted to RGB, and cropped."""

    def __init__(self, paths: Sequence[str], side: int) -> None:
        self.paths, self.side = paths, side

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> np.ndarray:
        return crop_by_pillow(read_by_pillow(self.paths[index]), self.side)


def read_by_pillow(path: str | os.PathLike[str]) -> Image.Image:
    """An RGB image, as torchvision's ``pil_loader`` opens it."""
    with open(path, "rb") as file:
        return Image.open(file).convert("RGB")


def crop_by_pillow(image: Image.Image, side: int) -> np.ndarray:
    """The middle of an image as torchvision's CenterCrop takes it, black where there is none."""
    sides = (image.width, image.height)
    left, top = (round((it - side) / 2) if it >= side else -((side - it) // 2) for it in sides)
    return np.asarray(image.crop((left, top, left + side, top + side)))


class PythonCrop:
    """The same as a transform in Python, which no native core can run."""

    def __init__(self, side: int) -> None:
        self.side = side

    def __call__(self, image: Image.Image) -> torch.Tensor:
        return torch.from_numpy(crop_by_pillow(image, self.side).copy()).permute(2, 0, 1)


def compare(paths: Sequence[str], sides: Sequence[int] = CROPS) -> tuple[list[Difference], Counter[str]]:
    """Read these files by Pillow and by Seneca's loaders; what differs, and how many Pillow reads."""
    differences: list[Difference] = []
    theirs: list[np.ndarray | Exception] = []
    for side in sides:
        theirs = [_outcome(Reference(paths, side), index) for index in range(len(paths))]
        native = seneca.PictureList(list(zip(paths, range(len(paths)), strict=True)), T.CenterCrop(side))
        differences += _compared(native, theirs, f"native, crop of {side}")
    differences += _compared(
        native, theirs, "recoded", **RECODED, cache=f"picture-fuzz-{secrets.token_hex(6)}"
    )
    staged = seneca.PictureList(list(zip(paths, range(len(paths)), strict=True)), PythonCrop(sides[-1]))
    differences += _compared(staged, theirs, "staged")
    differences += _skipped(native, theirs)
    refused = sum(isinstance(it, Exception) for it in theirs)
    return differences, Counter(read=len(paths) - refused, refused=refused)


def _outcome(dataset: Reference, index: int) -> np.ndarray | Exception:
    try:
        return dataset[index]
    except Exception as error:  # Pillow has many for damage
        return error


def _compared(
    dataset: seneca.PictureList, theirs: Sequence[np.ndarray | Exception], way: str, **options: Any
) -> Iterator[Difference]:
    """What differs, file by file, in an epoch that goes on after each error. With a cache: in the second."""
    loader = seneca.DataLoader(dataset, batch_size=1, num_workers=0, **{"cache": None} | options)
    if loader.cache is not None:
        _fill(loader)
    batches = iter(loader)
    for number, (path, expected) in enumerate(zip(dataset.samples, theirs, strict=True)):
        path = path[0]
        try:
            images, targets = next(batches)
        except StopIteration:
            yield Difference(path, way, "the epoch ends before it")
            return
        except Exception as error:
            if not isinstance(error, OSError) or path not in str(error):
                yield Difference(path, way, f"the error is no OSError, or does not name the file: {error!r}")
            elif not isinstance(expected, Exception):
                yield Difference(path, way, f"Pillow reads it, but Seneca says: {error}")
            continue
        if targets.tolist() != [number]:
            yield Difference(path, way, f"in its place comes {targets.tolist()}")
        elif isinstance(expected, Exception):
            yield Difference(path, way, f"Seneca reads it, but Pillow says: {expected!r}")
        elif (apart := _apart(images[0], expected, path)) > 0:
            yield Difference(path, way, f"its pixels differ by up to {apart}")
    if next(batches, None) is not None:
        yield Difference("", way, "the epoch has more batches than files")


def _fill(loader: seneca.DataLoader) -> None:
    """An epoch that goes on after each error."""
    batches = iter(loader)
    while True:
        try:
            next(batches)
        except StopIteration:
            return
        except OSError:
            continue


def _apart(ours: torch.Tensor, theirs: np.ndarray, path: str) -> float:
    """How far the pixels are apart; 0 also for what two libjpegs may round otherwise."""
    if ours.is_floating_point():
        ours = (ours * 255).round().to(torch.uint8)
    apart = np.abs(ours.permute(1, 2, 0).numpy().astype(np.int16) - theirs)
    if not BUILT_HERE and Path(path).read_bytes()[:2] == b"\xff\xd8" and apart.mean() < 1:
        return 0
    return float(apart.max())


def _skipped(dataset: seneca.PictureList, theirs: Sequence[np.ndarray | Exception]) -> Iterator[Difference]:
    """With on_error="skip" an epoch has exactly the files that Pillow reads, each once."""
    loader = seneca.DataLoader(dataset, batch_size=5, num_workers=0, cache=None, on_error="skip")
    came = Counter(target for _, targets in loader for target in targets.tolist())
    for number, ((path, _), expected) in enumerate(zip(dataset.samples, theirs, strict=True)):
        if came[number] != (not isinstance(expected, Exception)):
            what = f"it comes {came[number]} times, but Pillow's outcome is {expected!r:.99}"
            yield Difference(path, "skip", what)


def run(
    count: int, seed: int, first: int = 0, keep: str | None = None
) -> Iterator[tuple[list[Difference], Counter[str]]]:
    """Damage and read so many files: for each folder of them what differs, and how many Pillow reads.

    In place of a path a difference has what makes its file again.
    """
    sound = sources()
    for begin in range(first, first + count, AT_ONCE):
        with tempfile.TemporaryDirectory() as folder:
            paths = []
            for number in range(begin, min(begin + AT_ONCE, first + count)):
                paths.append(os.path.join(folder, f"{number}.jpg"))
                Path(paths[-1]).write_bytes(file_of(seed, number, sound))
            for takes_truncated in (False, True):
                with pillows_settings(takes_truncated=takes_truncated):
                    found, counts = compare(paths)
                setting = "LOAD_TRUNCATED_IMAGES, " * takes_truncated
                for path in {difference.path for difference in found if keep is not None and difference.path}:
                    shutil.copy(path, keep)
                yield (
                    [
                        Difference(f"--seed {seed} --first {Path(path).stem} --count 1", setting + way, what)
                        for path, way, what in found
                    ],
                    counts,
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=2_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**20))
    parser.add_argument("--keep", help="a folder for the files that are read otherwise")
    args = parser.parse_args()
    print(f"seed {args.seed}", flush=True)
    began = time.perf_counter()
    differences, counts = 0, Counter[str]()
    for found, counted in run(args.count, args.seed, args.first, args.keep):
        for difference in found:
            print(*difference, sep=": ", flush=True)
        differences += len(found)
        counts += counted
    took = time.perf_counter() - began
    print(f"{args.count:,} files, each with both values of LOAD_TRUNCATED_IMAGES, in {took:.1f} s: ", end="")
    print(f"{counts['read']:,} read, {counts['refused']:,} refused, {differences:,} differences")
    sys.exit(differences > 0)


if __name__ == "__main__":
    main()
