"""Pictures of OpenImages with their boxes, which a CSV file lists."""

from __future__ import annotations

import csv
import os
import warnings
from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple, TextIO

import numpy as np

from seneca.data.picture_list import check_files
from seneca.data.tv_boxes import BoxTable
from seneca.transforms._apply import naming, open_picture

__all__ = ["BACKGROUND", "OpenImagesDetection"]

BACKGROUND = "__background__"
SIDES = ("XMin", "YMin", "XMax", "YMax")
COLUMNS = ("ImageID", "LabelName", *SIDES)
CROWD = "IsGroupOf"
KEYS = ("image_id", "boxes", "labels", "iscrowd")
LONGEST = 128  # bytes of an ImageID or a LabelName; OpenImages' have at most 16
ROWS = 1 << 16  # are read at a time


class OpenImagesDetection:
    """The pictures of OpenImages with their boxes, for detection.

    Items are those of torchvision's wrapped ``VOCDetection``: a picture, and a dict with boxes in pixels.
    With ``transforms`` of ``torchvision.transforms.v2`` that the native core knows, the loader's threads
    prepare the pictures. The boxes are arrays of 20 bytes a box, which forked workers share.

    Args:
        root: The folder of the pictures, ``<ImageID>.jpg``.
        annotations: The CSV file of boxes, such as ``oidv6-train-annotations-bbox.csv``, with the columns
            ImageID, LabelName, XMin, XMax, YMin and YMax. Other columns are left alone.
        transforms: A function of a picture and its target, as torchvision's datasets have it. The attribute
            may be set later. None: an item is a PIL image and its target.
        classes: The CSV file of class descriptions, ``LabelName,DisplayName``. Labels are counted in its
            order. None: in the order of the LabelNames that ``annotations`` has. Give it where training and
            validation are to have equal labels.
        target_keys: What a target has, of ``"image_id"``, ``"boxes"``, ``"labels"`` and ``"iscrowd"``
            (IsGroupOf).
        max_pixels: A picture with more pixels is refused before it is decoded. None: only Pillow's limit
            counts, as in :class:`seneca.ImageFolder`.

    Attributes:
        samples: ``(path, number)`` of every picture that has boxes, in the order of ``annotations``. It may
            be set to some of these pairs.
        classes: The name of every label. Label 0 is the background, as in torchvision's models.

    Raises:
        FileNotFoundError: A picture or a CSV file is missing. The message names it.
        ValueError: A CSV file lacks a column, a number is damaged or outside [0, 1], or a LabelName has no
            description. The message names the file and the line.

    Example:
        >>> import tempfile, seneca
        >>> from PIL import Image
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Image.new("RGB", (40, 20)).save(f"{folder}/0a1b.jpg")
        ...     with open(f"{folder}/boxes.csv", "w") as file:
        ...         _ = file.write("ImageID,LabelName,XMin,XMax,YMin,YMax\\n0a1b,/m/0bt9lr,0.25,0.5,0,1\\n")
        ...     dataset = seneca.OpenImagesDetection(folder, f"{folder}/boxes.csv")
        >>> dataset, dataset.classes
        (OpenImagesDetection(1 pictures, 1 boxes), ['__background__', '/m/0bt9lr'])
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        annotations: str | os.PathLike[str],
        transforms: Callable[..., Any] | None = None,
        *,
        classes: str | os.PathLike[str] | None = None,
        target_keys: Collection[str] = ("image_id", "boxes", "labels"),
        max_pixels: int | None = None,
    ) -> None:
        if max_pixels is not None and max_pixels < 1:
            raise ValueError(f"max_pixels is at least 1 or None, but got {max_pixels!r}")
        if isinstance(target_keys, str) or (unknown := sorted(set(target_keys) - set(KEYS))):
            given = target_keys if isinstance(target_keys, str) else unknown
            raise ValueError(f"target_keys are of {', '.join(KEYS)}, but got {given!r}")
        self.root = os.path.expanduser(os.fspath(root))
        self.transforms = transforms
        self.max_pixels = max_pixels
        self.target_keys = tuple(key for key in KEYS if key in target_keys)
        path = os.path.expanduser(os.fspath(annotations))
        read = _read(path, CROWD if "iscrowd" in target_keys else None)
        self._begins, self._sides, self._crowd = read.begins, read.sides, read.crowd
        self._ids = read.ids
        known = {name: name for name in sorted(read.names)} if classes is None else _descriptions(classes)
        if missing := [name for name in read.names if name not in known]:
            raise ValueError(f"{path}: the LabelName {missing[0]!r} is not in classes={os.fspath(classes)!r}")  # type: ignore[arg-type]  # it is no None
        self.classes = [BACKGROUND, *known.values()]
        label_of = {name: label for label, name in enumerate(known, 1)}
        labels = np.array([label_of[name] for name in read.names], np.int32)
        self._labels = labels[read.numbers]
        self.samples = [
            (os.path.join(self.root, f"{name.decode()}.jpg"), number)
            for number, name in enumerate(self._ids.tolist())
        ]
        check_files(
            self,
            "seneca.ImageFolder",
            remedy="download it, or leave its rows out of the annotations; root= is the pictures' folder",
        )

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """Read, decode and transform one picture with its boxes in this process.

        Args:
            index: Place in ``samples``.

        Returns:
            What ``transforms`` makes of the RGB PIL image and the target; without it, these two. The target
            has ``"image_id"``, the ImageID; ``"boxes"``, ``tv_tensors.BoundingBoxes`` float32 ``(n, 4)`` of
            the format XYXY; ``"labels"``, int64 ``(n,)``; and ``"iscrowd"``, int64 ``(n,)``, if
            ``target_keys`` has it.

        Raises:
            DecodeError: The file is damaged, or its picture has more than ``max_pixels``. The message names
                the file.
            OSError: The file cannot be read.
        """
        path, number = self.samples[index]
        with naming(path), open(path, "rb") as file:
            picture = open_picture(file.read(), max_pixels=self.max_pixels)
        target = self.target(index, number, picture.height, picture.width)
        return (picture, target) if self.transforms is None else self.transforms(picture, target)

    def __repr__(self) -> str:
        return f"OpenImagesDetection({len(self)} pictures, {len(self._sides)} boxes)"

    # What the native path asks, as of seneca.data.tv_boxes.Boxed.

    @property
    def keys(self) -> list[int]:
        """The number of each sample's boxes."""
        return [number for _, number in self.samples]

    def table(self) -> BoxTable:
        """The boxes of all samples. They are shares: the core knows the size of each picture."""
        keys, at = np.array(self.keys, np.int64), self._begins.astype(np.int64)
        if len(keys) == len(self._ids) and (keys == np.arange(len(keys))).all():
            return BoxTable(self._sides, self._begins, True)
        lengths = at[keys + 1] - at[keys]
        begins = np.concatenate([[0], lengths.cumsum()])
        first = np.repeat(at[keys] - begins[:-1], lengths)
        return BoxTable(self._sides[first + np.arange(len(first))], begins.astype(np.uint64), True)

    def target(self, number: int, key: int, height: int, width: int) -> dict[str, Any]:
        """The target of a sample before transforms, whose picture has this size."""
        import torch
        from torchvision import tv_tensors

        mine = slice(*self._begins[key : key + 2].tolist())
        sides = self._sides[mine] * np.array([width, height, width, height], np.float32)
        target: dict[str, Any] = {"image_id": self._ids[key].decode()}
        target["boxes"] = tv_tensors.BoundingBoxes(
            torch.from_numpy(sides),
            format="XYXY",  # type: ignore[arg-type]  # torchvision takes names too
            canvas_size=(height, width),
        )
        target["labels"] = torch.from_numpy(self._labels[mine].astype(np.int64))
        if self._crowd is not None:
            target["iscrowd"] = torch.from_numpy(self._crowd[mine].astype(np.int64))
        return {name: target[name] for name in self.target_keys}


class _Read(NamedTuple):
    """The annotations of a file.

    Attributes:
        ids: The ImageID of every picture, in the order in which they come first.
        begins: Where each picture's boxes begin, uint64, with the end of the last.
        sides: Left, top, right and bottom of each box, shares of the picture's sides, float32 ``(n, 4)``.
        names: The LabelNames.
        numbers: Which of ``names`` each box has.
        crowd: Whether each box is of a group; None: not asked for.
    """

    ids: np.ndarray
    begins: np.ndarray
    sides: np.ndarray
    names: list[str]
    numbers: np.ndarray
    crowd: np.ndarray | None


def _read(path: str, crowd: str | None) -> _Read:
    """Read the boxes of a file, some rows at a time: all rows as Python's objects would take gigabytes."""
    ids, firsts, parts = [], [], []
    number_of: dict[bytes, int] = {}
    count, last = 0, b""
    for rows in _chunks(path, crowd):
        sides = np.stack([rows[side] for side in SIDES], axis=1)
        low, high = sides[:, :2], sides[:, 2:]
        if not ((low >= 0) & (low <= high) & (high <= 1)).all() or (rows["ImageID"] == b"").any():
            _refuse(path, crowd)
        names, inverse = np.unique(rows["LabelName"], return_inverse=True)
        numbers = [number_of.setdefault(name, len(number_of)) for name in names.tolist()]
        of_picture = rows["ImageID"]
        first = np.flatnonzero(np.concatenate([of_picture[:1] != last, of_picture[1:] != of_picture[:-1]]))
        ids.append(_short(of_picture[first]))
        firsts.append(first + count)
        parts.append((sides, np.array(numbers, np.int32)[inverse], rows[crowd] > 0 if crowd else None))
        count, last = count + len(rows), of_picture[-1]
    if not count:
        raise ValueError(f"{path} has no boxes: give the CSV file of OpenImages' boxes")
    all_ids, begins = np.concatenate(ids), np.append(np.concatenate(firsts), count)
    all_sides, all_numbers = (np.concatenate([part[k] for part in parts]) for k in (0, 1))
    of_groups = np.concatenate([part[2] for part in parts]) if crowd else None
    del ids, firsts, parts
    every = [name.decode() for name in number_of]
    read = _Read(all_ids, begins.astype(np.uint64), all_sides, every, all_numbers, of_groups)
    return read if len(np.unique(all_ids)) == len(all_ids) else _gathered(read)


def _short(texts: np.ndarray) -> np.ndarray:
    """The same in no more bytes than the longest needs."""
    return texts.astype(f"S{max(1, int(np.char.str_len(texts).max(initial=0)))}")


def _gathered(read: _Read) -> _Read:
    """The same with each picture once, of a file in which the boxes of a picture are not neighbours."""
    _, at, inverse = np.unique(read.ids, return_index=True, return_inverse=True)
    order = np.argsort(at)  # of pictures: by where they come first
    place = np.argsort(order)[inverse]
    at_box = read.begins.astype(np.int64)
    of_box = np.repeat(place, at_box[1:] - at_box[:-1])
    boxes = np.argsort(of_box, kind="stable")
    begins = np.searchsorted(of_box[boxes], np.arange(len(order) + 1)).astype(np.uint64)
    crowd = None if read.crowd is None else read.crowd[boxes]
    return _Read(read.ids[at[order]], begins, read.sides[boxes], read.names, read.numbers[boxes], crowd)


def _chunks(path: str, crowd: str | None) -> Iterator[np.ndarray]:
    """The rows of a file, some at a time.

    Raises:
        ValueError: As of :func:`_refuse`.
    """
    with open(path, encoding="utf-8-sig", newline="") as file:
        columns = _columns(path, file, crowd)
        texts = [(name, f"S{LONGEST + 1}") for name in COLUMNS[:2]]
        kinds = [*texts, *((side, np.float32) for side in SIDES), *([(crowd, np.int8)] if crowd else [])]
        while True:
            try:
                with warnings.catch_warnings():
                    warnings.filterwarnings("ignore", "loadtxt: input contained no data")
                    rows = np.loadtxt(
                        file, kinds, comments=None, delimiter=",", usecols=columns, max_rows=ROWS, ndmin=1,
                        quotechar='"',
                    )  # fmt: skip
            except (ValueError, UnicodeError) as error:
                _refuse(path, crowd, error)
            if not len(rows):
                return
            if any((np.char.str_len(rows[name]) > LONGEST).any() for name in COLUMNS[:2]):
                _refuse(path, crowd)
            yield rows


def _columns(path: str, file: TextIO, crowd: str | None) -> list[int]:
    """Which columns of a file are those that are read."""
    head = [name.strip() for name in next(csv.reader([file.readline()]), [])]
    wanted = [*COLUMNS, *([crowd] if crowd else [])]
    if missing := [name for name in wanted if name not in head]:
        raise ValueError(
            f"{path} has no column {missing[0]}, but {', '.join(head) or 'nothing'}: give the CSV file of "
            "OpenImages' boxes, with the line that names its columns"
        )
    return [head.index(name) for name in wanted]


def _refuse(path: str, crowd: str | None, error: Exception | None = None) -> None:
    """Find the first line that is damaged.

    Raises:
        ValueError: The message names it, and what is wrong.
    """
    with open(path, encoding="utf-8-sig", newline="") as file:
        columns = _columns(path, file, crowd)
        rows = csv.reader(file)
        for row in rows:
            if row and (why := _damage(row, columns)):
                raise ValueError(f"{path}, line {rows.line_num + 1}: {why}; correct it, or leave it out")
    raise ValueError(f"{path} cannot be read: {error}")


def _damage(row: list[str], columns: list[int]) -> str | None:
    """What is wrong with a row; None: nothing."""
    if len(row) <= max(columns):
        return f"it has {len(row)} columns, but {max(columns) + 1} are needed"
    texts = [row[column] for column in columns]
    for name, text in zip(COLUMNS[:2], texts, strict=False):
        if not text and name == "ImageID":
            return "ImageID is empty"
        if not text.isascii() or len(text) > LONGEST:
            return f"{name} is {text!r}, but it has at most {LONGEST} characters of ASCII"
    numbers = []
    for name, text in zip((*SIDES, CROWD), texts[2:], strict=False):
        try:
            numbers.append(float(text))
        except ValueError:
            return f"{name} is {text!r}, which is no number"
        if name in SIDES and not 0 <= numbers[-1] <= 1:
            return f"{name} is {text}, but it is a share of the picture's side, from 0 to 1"
    for low, high in ((0, 2), (1, 3)):
        if numbers[low] > numbers[high]:
            return f"{SIDES[low]} {texts[2 + low]} is greater than {SIDES[high]} {texts[2 + high]}"
    return None


def _descriptions(path: str | os.PathLike[str]) -> dict[str, str]:
    """The name of each LabelName, of a file of class descriptions, whose first line may name its columns."""
    path = os.path.expanduser(os.fspath(path))
    found: dict[str, str] = {}
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file)
        for row in filter(None, rows):
            if len(row) < 2 or row[0] in found:
                why = "it is no LabelName,DisplayName" if len(row) < 2 else f"{row[0]} is there twice"
                raise ValueError(f"{path}, line {rows.line_num}: {why}; correct it, or leave it out")
            if row[:2] != ["LabelName", "DisplayName"]:
                found[row[0]] = row[1]
    return found
