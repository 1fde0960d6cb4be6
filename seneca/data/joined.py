"""Several folders of pictures as one: what ``ConcatDataset`` makes of them.

The pictures of all parts are listed one after the other. A part may be a ``Subset``.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Sequence
from operator import is_
from typing import Any

from torch.utils.data import ConcatDataset, Subset

from seneca.data.pictures import PictureDataset
from seneca.transforms._pipeline import NativeTransform, compile_transform
from seneca.transforms._recognise import recognise

__all__ = ["JoinedFolders", "joined"]

OPTIONS: dict[str, Any] = {
    "decode": "exact",
    "apply_exif_orientation": False,
    "max_pixels": None,
}  # torchvision's


class JoinedFolders(PictureDataset):
    """The pictures of several folders, which have one transform.

    Args:
        like: One of the folders. The others have the same options.
        root: The folder that contains all of them.
    """

    def __init__(self, like: Any, root: str) -> None:
        options: Any = {name: getattr(like, name, value) for name, value in OPTIONS.items()}
        super().__init__(like.transform, **options)
        self.target_transform = getattr(like, "target_transform", None)
        self.root = root
        self.samples: Sequence[tuple[str, Any]] = []


_known: dict[int, tuple[weakref.ref[Any], tuple[Any, ...], JoinedFolders]] = {}


def joined(dataset: Any, is_folder: Callable[[Any], bool]) -> JoinedFolders | None:
    """The pictures of a ``ConcatDataset``; None: it has other parts, or they differ in more than their files.

    For a dataset that has not changed this is the same object each time.

    Args:
        dataset: Any dataset.
        is_folder: Says whether a dataset is a folder of pictures.
    """
    if type(dataset) is not ConcatDataset or not dataset.datasets:
        return None
    if dataset.cumulative_sizes != ConcatDataset.cumsum(dataset.datasets):
        return None  # a part has changed since: torch's indices are not those of the parts any more
    parts = [_without_subsets(part) for part in dataset.datasets]
    folders = [folder for folder, _ in parts]
    if not all(is_folder(one) and getattr(one, "listing", None) is None for one in folders):
        return None
    options = [_options_of(one) for one in folders]
    if options[0] is None or any(one != options[0] for one in options[1:]):
        return None
    samples = [
        sample
        for folder, indices in parts
        for sample in (folder.samples if indices is None else [folder.samples[index] for index in indices])
    ]
    key = (*map(id, folders), options[0])
    known = _known.get(id(dataset))
    if known is None or known[0]() is not dataset or known[1] != key:
        root = os.path.commonpath([os.path.abspath(one.root) for one in folders])
        number = id(dataset)
        gone = weakref.ref(dataset, lambda _: _known.pop(number, None))
        known = _known[number] = gone, key, JoinedFolders(folders[0], root)
    whole = known[2]
    if len(whole.samples) != len(samples) or not all(map(is_, whole.samples, samples)):
        whole.samples, whole.targets = samples, [label for _, label in samples]
    return whole


def _without_subsets(part: Any) -> tuple[Any, Sequence[int] | None]:
    """The dataset beneath ``Subset``, and the indices of it that are left; None: all."""
    indices: Sequence[int] | None = None
    while type(part) is Subset:
        indices = part.indices if indices is None else [part.indices[index] for index in indices]
        part = part.dataset
    return part, indices


def _options_of(folder: Any) -> tuple[Any, ...] | None:
    """The options that decide how a picture is made; None: it is not all native."""
    known = recognise(folder.transform)
    if not isinstance(known, NativeTransform):
        return None
    decode, orientation, max_pixels = (getattr(folder, name, value) for name, value in OPTIONS.items())
    pipeline = compile_transform(
        known, decode=decode, apply_orientation=orientation, channels_last=False, max_pixels=max_pixels
    )
    return pipeline, getattr(folder, "target_transform", None)
