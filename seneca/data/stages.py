"""How one sample of a dataset is made, and the forms on the way that other jobs can use.

::

    ENCODED --decode--> DECODED --augment--> AUGMENTED --present--> what dataset[index] is

There are three kinds of datasets:

* :class:`Pictures`: files of pictures with any transform; :class:`Sounds`: files of sounds.
* :class:`ByStages`: a dataset that offers its own stages.
* :class:`Opaque`: any other dataset. Only whole items are shared.

Worker processes use these objects. They pickle, and hold nothing that is open.
"""

from __future__ import annotations

import functools
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
import torch
from PIL import Image

from seneca.data import serialize as items
from seneca.data.files import PictureFiles
from seneca.data.private import Private, times_asked
from seneca.forms import Form
from seneca.transforms import _apply as sample
from seneca.transforms._pipeline import Pipeline

__all__ = [
    "ByStages",
    "KeptStages",
    "Opaque",
    "Payload",
    "Pictures",
    "Sounds",
    "StagedDataset",
    "Stages",
    "names_of_exact",
    "number_of",
]


T = TypeVar("T")


def number_of(*parts: bytes) -> int:
    """A 64-bit number that names these bytes in the records in shared memory; never 0."""
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return int.from_bytes(digest.digest(), "little") | 1


def names_of_exact(augmented: int, seed: int, epoch: int) -> tuple[int, int]:
    """The names of copies whose random numbers are named by seed, epoch and sample, whoever makes them.

    Args:
        augmented: The name of what such a copy holds, whatever its random numbers.
        seed, epoch: What, with the sample, names its random numbers.

    Returns:
        ``(family, name)``: the name of such copies of all seeds and epochs, and that of the copies of this
        seed and epoch.
    """
    own = augmented.to_bytes(8, "little")
    mask = 2**64 - 1
    which = (seed & mask).to_bytes(8, "little") + epoch.to_bytes(8, "little")
    return number_of(b"exact", own), number_of(b"exact", own, which)


class Payload(NamedTuple):
    """DECODED bytes. ``height`` and ``width`` are those of a picture if the bytes are its pixels, else 0."""

    data: Any
    height: int
    width: int


class Stages(ABC):
    """The stages of one dataset.

    Attributes:
        source: 16 bytes that name the samples.
        decoded: A number that names the content of DECODED payloads; 0 if only whole items are shared.
        augmented: A number that names the content of AUGMENTED copies.
        same: Whether all AUGMENTED copies of a sample are equal. They then differ little from DECODED, and
            sharing them gains nothing.
        users_forms: The forms that the user's own code makes. What Seneca's code makes of files is the same
            in all jobs that find the same files.
    """

    source: bytes
    decoded: int
    augmented: int
    same: bool = False
    users_forms: frozenset[Form] = frozenset()

    @abstractmethod
    def make(self, indices: Sequence[int]) -> list[Any]:
        """Make AUGMENTED samples straight from storage. No form on the way is kept.

        A sample that its dataset asks not to share is wrapped in :class:`Private`.
        """

    def kind(self, form: Form) -> int:
        """A number that names the content of payloads of this form."""
        if form == Form.ENCODED:
            return number_of(b"encoded", self.source)
        return self.decoded if form == Form.DECODED else self.augmented

    def present(self, index: int, augmented: Any) -> Any:
        """Make ``dataset[index]`` of an AUGMENTED sample: add the label."""
        return augmented


class KeptStages(Stages):
    """Stages whose ENCODED and DECODED forms can be kept. ``decoded`` is not 0."""

    @abstractmethod
    def read(self, index: int) -> bytes:
        """Read ENCODED from storage."""

    @abstractmethod
    def decode(self, index: int, data: bytes) -> Payload:
        """Make DECODED of ENCODED."""

    @abstractmethod
    def augment(self, index: int, decoded: Payload) -> Any:
        """Make AUGMENTED of DECODED."""

    @abstractmethod
    def augment_encoded(self, index: int, data: bytes) -> Any:
        """Make AUGMENTED of ENCODED."""

    def make(self, indices: Sequence[int]) -> list[Any]:
        return [
            _private_if_asked(self.from_file, index, functools.partial(self.augment_encoded, index))
            for index in indices
        ]

    def read_stored(self, index: int) -> bytes:
        """Read ENCODED from storage, where :meth:`read` may take what another host has left."""
        return self.read(index)

    def came_from_storage(self, data: bytes) -> bool:
        """Whether what :meth:`read` has returned last is from storage."""
        return True

    def from_file(self, index: int, made_of: Callable[[bytes], T]) -> T:
        """Call a function with ENCODED. If it fails on what another host has left, storage is read."""
        data = self.read(index)
        try:
            return made_of(data)
        except Exception:
            if self.came_from_storage(data) or (stored := self.read_stored(index)) == data:
                raise
        return made_of(stored)


class Opaque(Stages):
    """Any dataset. Its items are AUGMENTED, and Seneca does not see the forms before.

    Args:
        dataset: A map-style dataset. Its ``__getitems__`` is used if it has one.
        source, augmented: The names of samples and items, as in :class:`Stages`.
    """

    def __init__(self, dataset: Any, source: bytes, augmented: int) -> None:
        self.dataset = dataset
        self.source = source
        self.users_forms = frozenset({Form.AUGMENTED})
        self.decoded = 0
        self.augmented = augmented

    def make(self, indices: Sequence[int]) -> list[Any]:
        if getattr(self.dataset, "__getitems__", None):
            before = times_asked()
            made = list(self.dataset.__getitems__(list(indices)))
            return made if times_asked() == before else list(map(Private, made))
        made, dataset, before = [], self.dataset, times_asked()
        for index in indices:  # without a call for each, which is felt where items cost next to nothing
            item = dataset[index]
            if (now := times_asked()) != before:
                item, before = Private(item), now
            made.append(item)
        return made


@runtime_checkable
class StagedDataset(Protocol):
    """The methods that a dataset of anything offers to share ENCODED, DECODED and AUGMENTED.

    ``read`` and ``decode`` return the same on every call. ``augment`` does what is random, and takes its
    random numbers from ``rng`` alone. With a further method ``label(index)``, samples are ``(sample,
    label)``; labels are never shared. Datasets that differ only in their ``transform`` share ENCODED and
    DECODED, if ``augment`` alone uses it.

    A class with these methods is a staged dataset without deriving from this one. If it also has a
    ``__getitem__``, derive it from this class. That says that the stages make the same items.

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
        """Decode these bytes: to an array, or to arrays, tensors, numbers and strings in tuples and dicts."""

    def augment(self, array: Any, rng: np.random.Generator, /) -> Any:
        """Make a sample of the decoded ``array``, which must stay unchanged."""


class ByStages(KeptStages):
    """A :class:`StagedDataset`. ``source``, ``decoded`` and ``augmented`` are as in :class:`Stages`."""

    users_forms = frozenset({Form.ENCODED, Form.DECODED, Form.AUGMENTED})

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
        if type(data) is not bytes:  # jobs that take it from shared memory get bytes
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
        seed = int(torch.randint(2**63 - 1, ()).item())  # from the worker's generator, which torch seeds
        return self.dataset.augment(array, np.random.default_rng(seed))


class Pictures(KeptStages):
    """Files of pictures. DECODED is pixels, and is shared with the jobs of the native grade.

    Args:
        files: The files of pictures, and their labels.
        source: As in :class:`Stages`.
        pipeline: The native part of the transform: all of it, or its beginning.
        static: A function that runs next, on the PIL image that the pipeline made. It returns the same on
            every call.
        then: A function that runs last. If it and ``static`` are None, the pipeline is the whole transform
            and makes a tensor.
        keys: Names of what ``static`` and ``then`` do.
        same: As in :class:`Stages`.
        target_transform: The transform of the label.
        max_pixels: The most pixels that a picture may have. None: only Pillow's limit counts.
    """

    def __init__(
        self,
        files: PictureFiles,
        source: bytes,
        pipeline: Pipeline,
        *,
        static: Callable[[Any], Any] | None = None,
        then: Callable[[Any], Any] | None = None,
        keys: tuple[bytes, bytes] = (b"", b""),
        same: bool = False,
        target_transform: Callable[[Any], Any] | None = None,
        max_pixels: int | None = None,
    ) -> None:
        self.files = files
        self.source = source
        self.pipeline = pipeline
        self.static = static
        self.then = then
        self.target_transform = target_transform
        self.max_pixels = max_pixels
        self.same = same
        head = pipeline.head_fingerprint
        self.decoded = head if static is None else number_of(head.to_bytes(8, "little"), keys[0])
        if then is None:  # the copy is a tensor, not the pixels that native jobs stage
            ending = (pipeline.mean, pipeline.std, pipeline.dtype, pipeline.scale, pipeline.erase)
            keys = (b"", repr(ending).encode())
        self.augmented = number_of(pipeline.augmented_fingerprint.to_bytes(8, "little"), *keys)
        in_python = static is not None, static is not None or then is not None
        forms = zip((Form.DECODED, Form.AUGMENTED), in_python, strict=True)
        self.users_forms = frozenset(form for form, is_users in forms if is_users)

    def present(self, index: int, augmented: Any) -> Any:
        label = self.files.samples[index][1]
        return augmented, label if self.target_transform is None else self.target_transform(label)

    def read(self, index: int) -> bytes:
        return self.files.read(index)

    def decode(self, index: int, data: bytes) -> Payload:
        decoded = self._decoded(index, data)
        if self.static is None:
            return self._payload(decoded)
        return _laid_out(self.static(self._value(decoded)))

    def augment(self, index: int, decoded: Payload) -> Any:
        if self.static is not None:
            return self._then(items.read(decoded.data))
        array = self._array(decoded)
        if self.then is not None:
            return self.then(self._value(array))
        return sample.augment_decoded(self.pipeline, array, self.max_pixels)

    def augment_encoded(self, index: int, data: bytes) -> Any:
        if self.then is None and self.static is None:
            return sample.augment_encoded(self.pipeline, data, self._path(index), self.max_pixels)
        value = self._value(self._decoded(index, data))
        return self._then(value if self.static is None else self.static(value))

    def _then(self, value: Any) -> Any:
        return value if self.then is None else self.then(value)

    def _decoded(self, index: int, data: bytes) -> np.ndarray:
        """DECODED of a file."""
        return sample.decode_head(self.pipeline, data, self._path(index), self.max_pixels)

    def _path(self, index: int) -> str:
        return self.files.path_of(index)

    # What follows differs for sounds.

    def _payload(self, decoded: np.ndarray) -> Payload:
        return Payload(decoded.reshape(-1), *decoded.shape[:2])

    def _array(self, payload: Payload) -> np.ndarray:
        """What :meth:`_payload` was made of."""
        if len(payload.data) != payload.height * payload.width * 3:
            raise items.DamagedItem(
                f"{len(payload.data)} bytes are no {payload.height} x {payload.width} pixels"
            )
        return np.frombuffer(payload.data, np.uint8).reshape(payload.height, payload.width, 3)

    def _value(self, decoded: np.ndarray) -> Any:
        """What the user's functions get."""
        return Image.fromarray(decoded)


class Sounds(Pictures):
    """Files of sounds. DECODED is floats, and the user's functions get tensors (channels, frames)."""

    def _payload(self, decoded: np.ndarray) -> Payload:
        return Payload(decoded.reshape(-1).view(np.uint8), len(decoded), 0)  # frames follow from the length

    def _array(self, payload: Payload) -> np.ndarray:
        if payload.height == 0 or len(payload.data) % (4 * payload.height):
            raise items.DamagedItem(f"{len(payload.data)} bytes are no {payload.height} channels of floats")
        return np.frombuffer(payload.data, np.float32).reshape(payload.height, -1)

    def _value(self, decoded: np.ndarray) -> Any:
        return torch.tensor(decoded)  # a copy: functions may change it


def _private_if_asked(make: Callable[..., Any], *arguments: Any) -> Any:
    before = times_asked()
    made = make(*arguments)
    return made if times_asked() == before else Private(made)


def _laid_out(value: Any) -> Payload:
    layout = items.lay_out(value)
    buffer = bytearray(layout.size_bytes)
    layout.write(memoryview(buffer))
    return Payload(buffer, 0, 0)
