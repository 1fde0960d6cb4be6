"""Several folders of pictures, or of sounds, as one: what ``ConcatDataset`` makes of them.

The files of all parts are listed one after the other. A part may be a ``Subset``.
"""

from __future__ import annotations

import bisect
import itertools
import os
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import is_
from typing import Any, TypeAlias, overload

import numpy as np
from torch.utils.data import ConcatDataset, Subset

from seneca._runtime.lazy_list import LazyList
from seneca.data.files import unchanged
from seneca.data.pictures import PictureDataset
from seneca.data.sounds import SoundDataset
from seneca.data.sources import Samples
from seneca.data.sources.labels import Labels
from seneca.transforms._pipeline import NativeTransform, compile_transform
from seneca.transforms._recognise import recognise

__all__ = ["JoinedFolders", "JoinedSounds", "joined"]

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

    @staticmethod
    def options_of(folder: Any) -> tuple[Any, ...] | None:
        """The options that decide how a picture is made; None: it is not all native."""
        known = recognise(folder.transform)
        if not isinstance(known, NativeTransform):
            return None
        decode, orientation, max_pixels = (getattr(folder, name, value) for name, value in OPTIONS.items())
        pipeline = compile_transform(
            known, decode=decode, apply_orientation=orientation, channels_last=False, max_pixels=max_pixels
        )
        return pipeline, getattr(folder, "target_transform", None)


class JoinedSounds(SoundDataset):
    """The sounds of several folders or lists, which have one transform.

    Args:
        like: One of them. The others have the same options.
        root: The folder that contains all of them.
    """

    def __init__(self, like: SoundDataset, root: str) -> None:
        super().__init__(like.transform, rate=like.rate, mono=like.mono, channels=like.channels)
        self.target_transform = like.target_transform
        self.root = root
        self.samples = []

    @staticmethod
    def options_of(sounds: SoundDataset) -> tuple[Any, ...] | None:
        """The options that decide how a sound is made; None: it is not all native."""
        if sounds.transform is not None and not isinstance(sounds.transform, NativeTransform):
            return None
        return sounds.pipeline(), sounds.target_transform


Joined: TypeAlias = "JoinedFolders | JoinedSounds"

_known: dict[int, tuple[weakref.ref[Any], tuple[Any, ...], Joined]] = {}


def joined(dataset: Any, kinds: Mapping[type[Joined], Callable[[Any], bool]]) -> Joined | None:
    """The files of a ``ConcatDataset``; None: it has other parts, or they differ in more than their files.

    For a dataset that has not changed this is the same object each time.

    Args:
        dataset: Any dataset.
        kinds: For what joins datasets of a kind, a function that says whether a dataset is of it.
    """
    if type(dataset) is not ConcatDataset or not dataset.datasets:
        return None
    if dataset.cumulative_sizes != ConcatDataset.cumsum(dataset.datasets):
        return None  # a part has changed since: torch's indices are not those of the parts any more
    parts = [_without_subsets(part) for part in dataset.datasets]
    folders = [folder for folder, _ in parts]
    kind = next((kind for kind, is_of_it in kinds.items() if all(map(is_of_it, folders))), None)
    if kind is None or any(getattr(one, "listing", None) is not None for one in folders):
        return None
    options = [kind.options_of(one) for one in folders]
    if options[0] is None or any(one != options[0] for one in options[1:]):
        return None
    samples = _samples_of(parts)
    key = (*map(id, folders), options[0])
    known = _known.get(id(dataset))
    if known is None or known[0]() is not dataset or known[1] != key:
        root = os.path.commonpath([os.path.abspath(one.root) for one in folders])
        number = id(dataset)
        gone = weakref.ref(dataset, lambda _: _known.pop(number, None))
        known = _known[number] = gone, key, kind(folders[0], root)
    whole = known[2]
    if not _are_same(whole.samples, samples):
        whole.samples = samples
        if isinstance(samples, Samples):
            whole.targets = LazyList(samples.labels)
        else:
            whole.targets = [label for _, label in samples]
    return whole


class _Chained(Sequence[str]):
    """The paths of all parts, one part after the other.

    Args:
        parts: The paths of each, and which of them count; None: all do.
    """

    def __init__(self, parts: Sequence[tuple[Sequence[str], np.ndarray | None]]) -> None:
        self.parts = parts
        lengths = [len(paths) if indices is None else len(indices) for paths, indices in parts]
        self._ends = list(itertools.accumulate(lengths))

    def __len__(self) -> int:
        return self._ends[-1]

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[place] for place in range(len(self))[index]]
        place = range(len(self))[index]
        number = bisect.bisect_right(self._ends, place)
        paths, indices = self.parts[number]
        place -= self._ends[number - 1] if number else 0
        return paths[place if indices is None else int(indices[place])]

    def __eq__(self, other: object) -> bool:
        """Whether these are the same parts."""
        return isinstance(other, _Chained) and all(
            paths is its and _are_equal(indices, others)
            for (paths, indices), (its, others) in zip(self.parts, other.parts, strict=True)
        )

    __hash__ = None  # type: ignore[assignment]

    def __iter__(self) -> Iterator[str]:
        for paths, indices in self.parts:
            yield from paths if indices is None else map(paths.__getitem__, indices.tolist())


def _are_equal(one: np.ndarray | None, other: np.ndarray | None) -> bool:
    return one is other or (one is not None and other is not None and np.array_equal(one, other))


def _samples_of(parts: Sequence[tuple[Any, Sequence[int] | None]]) -> Sequence[tuple[str, Any]]:
    """The samples of all parts. If nobody has changed those of any, each is made when it is asked for."""
    paths, labels = [], []
    for folder, indices in parts:
        samples = unchanged(folder.samples)
        if not isinstance(samples, Samples) or not isinstance(samples.labels, Labels):
            return _listed(parts)
        array = None if indices is None else np.array(indices, np.int64)  # its own
        paths.append((samples.paths, array))
        labels.append(samples.labels.array if array is None else samples.labels.array[array])
    return Samples(_Chained(paths), Labels(np.concatenate(labels)))


def _listed(parts: Sequence[tuple[Any, Sequence[int] | None]]) -> list[tuple[str, Any]]:
    """The same as a list. It holds the objects that the parts hold, which shows whether they are the same."""
    found: list[tuple[str, Any]] = []
    for folder, indices in parts:
        samples = folder.samples.as_list() if isinstance(folder.samples, LazyList) else folder.samples
        found += samples if indices is None else [samples[index] for index in indices]
    return found


def _are_same(before: Sequence[Any], now: Sequence[Any]) -> bool:
    """Whether these are the same samples."""
    if isinstance(before, Samples) and isinstance(now, Samples):
        return before.paths == now.paths
    return type(before) is type(now) and len(before) == len(now) and all(map(is_, before, now))


def _without_subsets(part: Any) -> tuple[Any, Sequence[int] | None]:
    """The dataset beneath ``Subset``, and the indices of it that are left; None: all."""
    indices: Sequence[int] | None = None
    while type(part) is Subset:
        indices = part.indices if indices is None else [part.indices[index] for index in indices]
        part = part.dataset
    return part, indices
