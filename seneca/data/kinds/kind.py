"""Interface of the kinds of dataset: each gets a :class:`Request`, and returns the :class:`Support`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from seneca.data.file_lists import Seen
from seneca.data.files import PictureFiles, files_of
from seneca.data.stages import Stages
from seneca.data.tv_boxes import Targets
from seneca.identity import Attributes, Fingerprinter, MadeOf, Watch
from seneca.options import VerifyFiles
from seneca.transforms._pipeline import Pipeline, Step

__all__ = ["Grade", "Kind", "Request", "Support", "class_name"]

Grade = Literal["native", "staged", "opaque", "unshared"]


@dataclass(frozen=True)
class Support:
    """How a dataset can be loaded.

    Attributes:
        name: The support.
        why: The reasons, each a sentence without its full stop.
        base: The dataset beneath ``Subset``.
        own: The indices of ``base`` that belong to the dataset, uint32; None: all, in their order.
        files: The files of pictures; None for other datasets.
        pipeline: The compiled transform, if the whole transform is native.
        stages: The work of worker processes; None if nothing can be shared.
        total_bytes: The approximate size of all samples in storage.
        max_pixels: The most pixels that a picture may have. None: only Pillow's limit counts.
        samples: 16 bytes that name the samples beneath ``Subset`` by state and code alone, on any host;
            None: not known.
        made_of: What the names of a dataset that is not native were made of.
        watch: Says whether any of that changes.
        attributes: Says which attributes of ``base`` were bound to something else; None: all count.
        targets: Of native pictures with boxes: what makes their targets; None of others.
    """

    name: Grade
    why: tuple[str, ...]
    base: Any
    own: np.ndarray | None = None
    files: PictureFiles | None = None
    pipeline: Pipeline | None = None
    stages: Stages | None = None
    total_bytes: int = 0
    max_pixels: int | None = None
    samples: bytes | None = None
    made_of: MadeOf | None = None
    watch: Watch | None = None
    attributes: Attributes | None = None
    targets: Targets | None = None

    def describe_fingerprint(self) -> str:
        """Describe what the fingerprint covers, and what it cannot see; "": there is no fingerprint."""
        parts = []
        if self.files is not None:
            parts.append(self.files.describe())
        if self.made_of is not None:
            parts.append(str(self.made_of))
        unseen = "network responses, and names that code looks up at run time"
        if self.files is None:
            unseen = f"the content of files, {unseen}"
        return f"Fingerprint: {'; '.join(parts)}. Not covered: {unseen}" if parts else ""

    def identity(self) -> str | None:
        """A name of the dataset's samples in their order, in hexadecimal; the same on another host.

        Pictures are named by their paths, other samples by what their items are made of. None: the samples
        cannot be named.
        """
        name = self.samples if self.files is None else self.files.names()
        if name is None:
            return None
        own = b"" if self.own is None else self.own.tobytes()
        return hashlib.blake2b(name + own, digest_size=16).hexdigest()


@dataclass(frozen=True)
class Request:
    """A dataset, and what is to be found out about it.

    Attributes:
        base: The dataset beneath ``Subset``.
        own: As in :class:`Support`.
        fingerprinter: Identifies what items are made of. The first object that it meets is the dataset's.
        worker_init_fn, channels_last, shares, files_found, verify_files, for_workers: See
            :func:`seneca.data.support.inspect_dataset`.
    """

    base: Any
    own: np.ndarray | None
    fingerprinter: Fingerprinter
    worker_init_fn: Callable[[int], None] | None
    channels_last: bool
    shares: bool
    files_found: Seen | None
    verify_files: VerifyFiles
    for_workers: bool

    def support(self, name: Grade, *why: str, **found: Any) -> Support:
        """The answer. ``found`` has the other attributes of :class:`Support`."""
        return Support(name, why, self.base, self.own, **found)

    def files_of(self, pictures: Any) -> PictureFiles:
        """The files of pictures. Storage is asked for their state now, if they are to be shared."""
        files = files_of(pictures)
        if self.files_found is not None:
            files.take(self.files_found)
        elif self.shares and self.verify_files == "epoch":
            files.stat()
        return files


class Kind(NamedTuple):
    """One kind of dataset, a row of :data:`seneca.data.kinds.KINDS`.

    Attributes:
        matches: Whether a dataset is of this kind. Cheap: it reads no file and goes over no samples.
        support: What of such a dataset can be shared, and why not more.
    """

    matches: Callable[[Any], bool]
    support: Callable[[Request], Support]


def class_name(thing: Any) -> str:
    """The name of its class, for messages; of a step of a pipeline its kind."""
    return thing.kind if isinstance(thing, Step) else type(thing).__name__
