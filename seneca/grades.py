"""What of a dataset can be shared, found by looking at it; and the reasons, in plain words.

* **native**: pictures in folders with transforms that the native core runs: prepared there.
* **staged**: ENCODED and DECODED are shared besides whole items, though the work is Python.
* **opaque**: any other dataset: its items are shared as they are.
* **unshared**: what it makes cannot be told from what another makes; torch loads it.
"""

from __future__ import annotations

import functools
import hashlib
import sys
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any, Literal

import numpy as np
from torch.utils.data import IterableDataset, Subset

from seneca._pipeline.plan import (
    MAX_PIXELS,
    ONES,
    ZEROS,
    Decode,
    NativeTransform,
    Pipeline,
    Step,
    compile_transform,
)
from seneca.errors import NotFingerprinted
from seneca.fingerprint import fingerprint
from seneca.lengths import length_of
from seneca.sources import ImageFolder
from seneca.sources.files import PictureFiles, files_of
from seneca.stages import ByStages, Opaque, Pictures, StagedDataset, Stages, number_of
from seneca.stateful import has_state
from seneca.transforms._recognise import recognise, run_steps, split_static, steps_on_pictures

__all__ = ["Grade", "grade_of"]

# What samples of unknown size are taken to have in storage, which decides how much memory "auto" is:
# some 64 KiB a sample and 256 MiB for whole items, up to 1 MiB a sample where earlier forms are kept.
BYTES_OPAQUE = 16 * 2**20
BYTES_PER_STAGED = 64 * 2**10
OF_THE_TRANSFORM = ("transform", "target_transform", "transforms")  # attributes, by torchvision's convention


@dataclass(frozen=True)
class Grade:
    """How a dataset can be loaded.

    Attributes:
        name: The grade.
        why: The reasons, each a sentence without its stop.
        base: The dataset beneath ``Subset``.
        own: Indices of ``base`` that are the dataset's, uint32; None: all, in their order.
        files: Of pictures.
        pipeline: Where the whole transform is native.
        stages: What worker processes do; None where nothing can be shared.
        total_bytes: What the samples take in storage, about.
        max_pixels: Of a picture.
    """

    name: Literal["native", "staged", "opaque", "unshared"]
    why: tuple[str, ...]
    base: Any
    own: np.ndarray | None = None
    files: PictureFiles | None = None
    pipeline: Pipeline | None = None
    stages: Stages | None = None
    total_bytes: int = 0
    max_pixels: int = MAX_PIXELS

    def identity(self) -> str | None:
        """Names the dataset's samples in their order, in hexadecimal: pictures by their paths, others by
        what their items are made of. None: that cannot be told."""
        if self.files is not None:
            name = self.files.names()
        elif self.stages is not None:
            name = self.stages.source
        else:
            return None
        own = b"" if self.own is None else self.own.tobytes()
        return hashlib.blake2b(name + own, digest_size=16).hexdigest()


def grade_of(
    dataset: Any, *, key: str | None = None, channels_last: bool = False, shares: bool = True
) -> Grade:
    """Look at a dataset as it is now. Files are asked for their size and time of change.

    Args:
        dataset: Any.
        key: Stands for what cannot be fingerprinted.
        channels_last: As the pipeline will lay out its batches.
        shares: Whether anything is to be shared; else only what can run natively is found out.

    Raises:
        OSError: A file of pictures has gone.
        PlanError: A transform of seneca.transforms cannot be run as it stands.
    """
    if isinstance(dataset, IterableDataset):
        return Grade("unshared", ("an IterableDataset has no indices by which jobs could share",), dataset)
    base, own = dataset, None
    while type(base) is Subset:
        indices = np.asarray(base.indices)
        base = base.dataset
        if indices.size and indices.dtype.kind not in "iu":
            return Grade("unshared", ("the Subset's indices are not whole numbers",), base)
        own = indices.astype(np.int64, copy=False) if own is None else indices[own]
        count = length_of(base)
        if count is not None and not _are_samples(own, count):
            return Grade("unshared", ("the Subset's indices are not each once and within the dataset",), base)
    if length_of(base) is None:
        return Grade("unshared", (f"{_name(base)} has no length",), base)
    if len(dataset) == 0:
        return Grade("unshared", (f"{_name(dataset)} is empty",), base)
    if has_state(base) and key is None:
        why = f"{_name(base)} keeps a state, which its items may depend on; if they do not, say so with key="
        return Grade("unshared", (why,), base)
    if own is not None:
        own = own.astype(np.uint32)
    try:
        if _is_picture_folder(base):
            return _of_pictures(base, own, key, channels_last, shares)
        if not shares:
            return Grade("unshared", ("cache=None",), base, own)
        return _of_any(base, own, key)
    except NotFingerprinted as error:
        return Grade("unshared", (str(error),), base, own)


def _are_samples(indices: np.ndarray, count: int) -> bool:
    """Whether these are indices of so many samples, each at most once."""
    if indices.size == 0:
        return True
    if indices.min() < 0 or indices.max() >= count:
        return False
    met = np.zeros(count, bool)  # marking takes a twentieth of the time that sorting out doubles does
    met[indices] = True
    return int(np.count_nonzero(met)) == len(indices)


def _is_picture_folder(dataset: Any) -> bool:
    """Seneca's, or one of torchvision's whose items are made as its DatasetFolder makes them."""
    if type(dataset) is ImageFolder:
        return True
    folder = sys.modules.get("torchvision.datasets.folder")
    return (
        folder is not None
        and isinstance(dataset, folder.DatasetFolder)
        and type(dataset).__getitem__ is folder.DatasetFolder.__getitem__
        and getattr(type(dataset), "__getitems__", None) is None
        and vars(dataset).get("loader") in (folder.default_loader, folder.pil_loader)
        and sys.modules["torchvision"].get_image_backend() == "PIL"
        and all(type(path) is str for path, _ in dataset.samples)
    )


def _of_pictures(
    base: Any, own: np.ndarray | None, key: str | None, channels_last: bool, shares: bool
) -> Grade:
    files, source, total_bytes = files_of(base), b"", 0
    if shares:
        files.look()
        source, total_bytes = files.fingerprint(), files.total_bytes()
    # torchvision's ImageFolder has none of these.
    decode: Decode = getattr(base, "decode", "exact")
    orientation = getattr(base, "apply_exif_orientation", False)
    max_pixels = getattr(base, "max_pixels", MAX_PIXELS)
    target_transform = getattr(base, "target_transform", None)

    known = recognise(base.transform)
    if isinstance(known, NativeTransform):
        pipeline = compile_transform(
            known, decode=decode, apply_orientation=orientation, channels_last=channels_last
        )
        stages = Pictures(
            files.samples,
            source,
            pipeline,
            same=pipeline.deterministic,
            target_transform=target_transform,
            max_pixels=max_pixels,
        )
        if target_transform is not None:
            why = f"{_name(base)} has a target_transform"
        elif has_state(base):
            why = f"{_name(base)} keeps a state"
        elif not all(type(label) is int for _, label in files.samples):
            why = f"the labels of {_name(base)} are not whole numbers"
        else:
            why = f"{_name(base)} and its transform run in the native core"
            return Grade("native", (why,), base, own, files, pipeline, stages, total_bytes, max_pixels)
        return Grade("staged", (why,), base, own, files, None, stages, total_bytes)

    head, tail = split_static(base.transform)
    steps: tuple[Step, ...] = ()
    while head and (step := steps_on_pictures(head[0])) is not None:
        steps += step
        head = head[1:]
    pipeline = Pipeline(
        steps, ZEROS, ONES, (0, 0), "uint8", decode=decode, apply_orientation=orientation
    )  # of pictures of any size: it only decodes
    if not shares:
        return Grade("unshared", ("cache=None",), base, own, files)
    code = (
        [key.encode()] * 2
        if key is not None
        else [fingerprint(part, name="the transform") for part in (head, tail)]
    )
    stages = Pictures(
        files.samples,
        source,
        pipeline,
        static=functools.partial(run_steps, head) if head else None,
        then=functools.partial(run_steps, tail),
        keys=(code[0], code[1]),
        same=not tail,
        target_transform=target_transform,
        max_pixels=max_pixels,
    )
    kept = f", kept after {', '.join(map(_name, [*steps, *head]))}" if steps or head else ""
    why = f"the transform runs as Python, because {known}; pictures are decoded natively{kept}"
    return Grade("staged", (why,), base, own, files, None, stages, total_bytes)


def _of_any(base: Any, own: np.ndarray | None, key: str | None) -> Grade:
    if key is None:
        whole = fingerprint(base, name=_name(base))
        source = _source(_without_transform(base) or whole, base)
    else:
        whole = key.encode()
        source = _source(whole, base)
    augmented = number_of(b"items", whole)
    if isinstance(base, StagedDataset):
        why = f"{_name(base)} offers read, decode and augment"
        by_stages = ByStages(base, source, number_of(b"decoded", source), augmented)
        return Grade("staged", (why,), base, own, stages=by_stages, total_bytes=BYTES_PER_STAGED * len(base))
    why = f"{_name(base)} is shared by whole items: what is in between is not known"
    return Grade(
        "opaque", (why,), base, own, stages=Opaque(base, source, augmented), total_bytes=BYTES_OPAQUE
    )


def _without_transform(dataset: Any) -> bytes | None:
    """A fingerprint of the samples alone, which jobs with other transforms have too."""
    state = getattr(dataset, "__dict__", None)
    says_itself = any(
        {"__fingerprint__", "__getstate__", "__reduce__", "__reduce_ex__"} & vars(kind).keys()
        for kind in type(dataset).__mro__[:-1]
    )
    if not isinstance(state, dict) or says_itself or not any(name in state for name in OF_THE_TRANSFORM):
        return None
    if isinstance(dataset, StagedDataset) and _uses_transform_early(type(dataset)):
        return None
    return fingerprint((type(dataset), {k: v for k, v in state.items() if k not in OF_THE_TRANSFORM}))


def _uses_transform_early(kind: type) -> bool:
    """Whether a method that may have a part in reading or decoding speaks of a transform."""
    methods = {name: method for base in reversed(kind.__mro__) for name, method in vars(base).items()}
    return any(
        _speaks_of_transform(method.__code__)
        for name, method in methods.items()
        if isinstance(method, FunctionType) and not name.startswith("__") and name not in ("augment", "label")
    )


def _speaks_of_transform(code: CodeType) -> bool:
    words = {*code.co_names, *(constant for constant in code.co_consts if isinstance(constant, str))}
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return not words.isdisjoint(OF_THE_TRANSFORM) or any(map(_speaks_of_transform, inner))


def _source(name: bytes, dataset: Any) -> bytes:
    return hashlib.blake2b(name + len(dataset).to_bytes(8, "little"), digest_size=16).digest()


def _name(thing: Any) -> str:
    return thing.kind if isinstance(thing, Step) else type(thing).__name__
