"""How one sample of a dataset is made, and the forms on the way that others can take up.

::

    ENCODED --decode--> DECODED --augment--> AUGMENTED --present--> what dataset[index] is

Three kinds of datasets: :class:`Pictures` (files of pictures with any transform), :class:`ByStages`
(a dataset that offers its own stages), :class:`Opaque` (anything else: only whole items). They are
used in worker processes, hold nothing that is open, and pickle.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from PIL import Image

from seneca._pipeline import items, sample
from seneca._pipeline.plan import MAX_PIXELS, Pipeline
from seneca.regular import read_regular

__all__ = ["ByStages", "KeptStages", "Opaque", "Payload", "Pictures", "StagedDataset", "Stages", "number_of"]


def number_of(*parts: bytes) -> int:
    """64 bits that name these bytes, as records in shared memory hold them; never 0."""
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return int.from_bytes(digest.digest(), "little") | 1


class Payload(NamedTuple):
    """DECODED bytes, and their height and width where they are the pixels of a picture (else 0)."""

    data: Any
    height: int
    width: int


class Stages(ABC):
    """The stages of one dataset.

    Attributes:
        source: Names the samples: 16 bytes.
        decoded: Names what DECODED payloads hold; 0 where nothing but whole items is shared.
        augmented: Names what AUGMENTED copies hold.
        same: Whether all AUGMENTED copies of a sample are alike, and DECODED but for little: there is
            nothing in them to share.
    """

    source: bytes
    decoded: int
    augmented: int
    same: bool = False

    @abstractmethod
    def make(self, indices: Sequence[int]) -> list[Any]:
        """AUGMENTED, straight from storage, where nothing on the way is to be kept."""

    def present(self, index: int, augmented: Any) -> Any:
        """What ``dataset[index]`` is, from AUGMENTED: the label is put to it."""
        return augmented


class KeptStages(Stages):
    """Stages whose ENCODED and DECODED can be kept: ``decoded`` is not 0."""

    @abstractmethod
    def read(self, index: int) -> bytes:
        """ENCODED, from storage."""

    @abstractmethod
    def decode(self, index: int, data: bytes) -> Payload:
        """DECODED, from ENCODED."""

    @abstractmethod
    def augment(self, index: int, decoded: Payload) -> Any:
        """AUGMENTED, from DECODED."""

    @abstractmethod
    def augment_encoded(self, index: int, data: bytes) -> Any:
        """AUGMENTED, from ENCODED."""

    def make(self, indices: Sequence[int]) -> list[Any]:
        return [self.augment_encoded(index, self.read(index)) for index in indices]


class Opaque(Stages):
    """Any dataset: what it returns is AUGMENTED, and the forms before it are its own business.

    Args:
        dataset: Map-style; its ``__getitems__`` is used where it has one.
        source: See :class:`Stages`.
        augmented: Likewise.
    """

    def __init__(self, dataset: Any, source: bytes, augmented: int) -> None:
        self.dataset = dataset
        self.source = source
        self.decoded = 0
        self.augmented = augmented

    def make(self, indices: Sequence[int]) -> list[Any]:
        if getattr(self.dataset, "__getitems__", None):
            return list(self.dataset.__getitems__(list(indices)))
        return [self.dataset[index] for index in indices]


@runtime_checkable
class StagedDataset(Protocol):
    """What a dataset of anything offers so that ENCODED, DECODED and AUGMENTED are shared.

    ``read`` and ``decode`` give the same each time; what is random is in ``augment``, and takes
    its random numbers from ``rng`` alone. With a method ``label(index)`` besides, samples are
    ``(sample, label)``, and the label is never shared. Datasets that differ in nothing but their
    ``transform`` share ENCODED and DECODED, as long as ``augment`` alone uses it.

    A class with these methods is one by itself. If it has a ``__getitem__`` too, derive it from this one:
    that says that the stages make the same items.

    Example:
        >>> import numpy as np
        >>> class Sounds:
        ...     def __len__(self): return 3
        ...     def read(self, index): return bytes([index] * 4)
        ...     def decode(self, data): return np.frombuffer(data, np.uint8).astype(np.float32)
        ...     def augment(self, array, rng): return array * rng.uniform(0.5, 1)
        >>> isinstance(Sounds(), StagedDataset)
        True
    """

    def __len__(self) -> int: ...

    def read(self, index: int, /) -> bytes:
        """The bytes of one sample, as storage has them."""

    def decode(self, data: bytes, /) -> Any:
        """What they mean: an array, or anything of arrays, tensors, numbers, strings, tuples, dicts."""

    def augment(self, array: Any, rng: np.random.Generator, /) -> Any:
        """A sample of what was decoded, which must be left as it is."""


class ByStages(KeptStages):
    """A :class:`StagedDataset`. Arguments as :class:`Opaque`'s; ``decoded`` names what ``decode`` makes."""

    def __init__(self, dataset: Any, source: bytes, decoded: int, augmented: int) -> None:
        self.dataset = dataset
        self.source = source
        self.decoded = decoded
        self.augmented = augmented

    def present(self, index: int, augmented: Any) -> Any:
        label = getattr(self.dataset, "label", None)
        return (augmented, label(index)) if callable(label) else augmented

    def read(self, index: int) -> bytes:
        data = self.dataset.read(index)
        if type(data) is not bytes:  # who takes it up from shared memory is given bytes
            name, kind = type(self.dataset).__name__, type(data).__name__
            raise TypeError(f"{name}.read({index}) is to return bytes, but returned {kind}")
        return data

    def decode(self, index: int, data: bytes) -> Payload:
        return _laid_out(self.dataset.decode(data))

    def augment(self, index: int, decoded: Payload) -> Any:
        return self._augment(items.read(decoded.data))

    def augment_encoded(self, index: int, data: bytes) -> Any:
        return self._augment(self.dataset.decode(data))

    def _augment(self, array: Any) -> Any:
        seed = int(torch.randint(2**63 - 1, ()).item())  # of the worker's generator, as torch seeds it
        return self.dataset.augment(array, np.random.default_rng(seed))


class Pictures(KeptStages):
    """Files of pictures. DECODED is pixels, shared with the jobs that run natively.

    Args:
        samples: ``(path, label)`` of every picture.
        source: See :class:`Stages`.
        pipeline: Runs natively: all there is to do to a picture, or the beginning of it.
        static: What is done next to the PIL image that the pipeline made, the same each time.
        then: What is done next. None, as ``static``: the pipeline is all, and makes a tensor.
        keys: Name what ``static`` and ``then`` do.
        same: See :class:`Stages`.
        target_transform: Of the label.
        max_pixels: Of a picture.
    """

    def __init__(
        self,
        samples: Sequence[tuple[str, Any]],
        source: bytes,
        pipeline: Pipeline,
        *,
        static: Callable[[Any], Any] | None = None,
        then: Callable[[Any], Any] | None = None,
        keys: tuple[bytes, bytes] = (b"", b""),
        same: bool = False,
        target_transform: Callable[[Any], Any] | None = None,
        max_pixels: int = MAX_PIXELS,
    ) -> None:
        self.samples = samples
        self.source = source
        self.pipeline = pipeline
        self.static = static
        self.then = then
        self.target_transform = target_transform
        self.max_pixels = max_pixels
        self.same = same
        head = pipeline.head_fingerprint
        self.decoded = head if static is None else number_of(head.to_bytes(8, "little"), keys[0])
        if then is None:  # a tensor, not the pixels that native jobs stage
            ending = (pipeline.mean, pipeline.std, pipeline.dtype, pipeline.scale, pipeline.erase)
            keys = (b"", repr(ending).encode())
        self.augmented = number_of(pipeline.augmented_fingerprint.to_bytes(8, "little"), *keys)

    def present(self, index: int, augmented: Any) -> Any:
        label = self.samples[index][1]
        return augmented, label if self.target_transform is None else self.target_transform(label)

    def read(self, index: int) -> bytes:
        return read_regular(self.samples[index][0])

    def decode(self, index: int, data: bytes) -> Payload:
        pixels = self._pixels(index, data)
        if self.static is None:
            return Payload(pixels.reshape(-1), *pixels.shape[:2])
        return _laid_out(self.static(Image.fromarray(pixels)))

    def augment(self, index: int, decoded: Payload) -> Any:
        if self.static is not None:
            return self._then(items.read(decoded.data))
        if len(decoded.data) != decoded.height * decoded.width * 3:
            raise items.DamagedItem(
                f"{len(decoded.data)} bytes are no {decoded.height} x {decoded.width} pixels"
            )
        pixels = np.frombuffer(decoded.data, np.uint8).reshape(decoded.height, decoded.width, 3)
        if self.then is None:
            return sample.augment_decoded(self.pipeline, pixels, self.max_pixels)
        return self.then(Image.fromarray(pixels))

    def augment_encoded(self, index: int, data: bytes) -> Any:
        if self.then is None and self.static is None:
            return sample.augment_encoded(self.pipeline, data, self.samples[index][0], self.max_pixels)
        picture = Image.fromarray(self._pixels(index, data))
        return self._then(picture if self.static is None else self.static(picture))

    def _pixels(self, index: int, data: bytes) -> np.ndarray:
        return sample.decode_head(self.pipeline, data, self.samples[index][0], self.max_pixels)

    def _then(self, value: Any) -> Any:
        return value if self.then is None else self.then(value)


def _laid_out(value: Any) -> Payload:
    layout = items.lay_out(value)
    buffer = bytearray(layout.size_bytes)
    layout.write(memoryview(buffer))
    return Payload(buffer, 0, 0)
