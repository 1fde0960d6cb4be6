"""The measurements of a host and a dataset: the numbers that the models take.

A :class:`Profile` holds plain values with units in their names. ``seneca.profile`` measures it and saves it
as JSON, and the models read it. This module reads no clock and asks no host.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["PROFILE_VERSION", "Cost", "Profile", "ProfileError", "Reading", "Size"]

PROFILE_VERSION = 4  # raise it when a field is added or removed, or its meaning changes


class ProfileError(ValueError):
    """A file is no profile, or a profile of another version. The message is one line."""


@dataclass(frozen=True)
class Cost:
    """The CPU seconds that one sample takes of the thread that prepares it.

    Args:
        one_s: The seconds while one thread works.
        all_s: The seconds while as many threads work as there are cores. It is more than ``one_s`` if cores
            share what they need (memory, caches, the two threads of a core).
    """

    one_s: float
    all_s: float

    @property
    def scaling(self) -> float:
        """The worth of another core, as a share of the first: 1 if work scales. 0 if there is no work at
        all."""
        return self.one_s / self.all_s if self.all_s else 0.0


@dataclass(frozen=True)
class Size:
    """Bytes of the samples of one form.

    Args:
        mean_bytes: Their mean.
        std_bytes: Their standard deviation.
    """

    mean_bytes: float
    std_bytes: float = 0.0


@dataclass(frozen=True)
class Reading:
    """How fast whole files come from storage while a number of threads read.

    Args:
        readers: The number of threads. Each reads one file after the other.
        bytes_per_s: The bytes a second of all threads together.
        latency_s: The median time from opening a file to having all of it.
    """

    readers: int
    bytes_per_s: float
    latency_s: float


@dataclass(frozen=True)
class Profile:
    """The rates of a host with a dataset and a transform.

    If the paper has a symbol for a field, it stands in parentheses (Desai et al., FAST '26, Table 3).

    Args:
        host: Fingerprint of the machine on which the profile was measured.
        dataset: Fingerprint of the files.
        pipeline: Fingerprint of the transform and of what the batch makes of its pictures.
        samples: The number of pictures in the dataset (N_total).
        cores: The number of cores that this process may use.
        cache_bytes: Memory for payloads: what ``cache_bytes="auto"`` would have reserved then (S_cache).
        free_memory_bytes: The memory that was free on the host, as the kernel and the control group allow.
            The part that the cache does not take holds files in the page cache.
        storage: One reading for each number of readers, rising (B_storage).
        storage_cold: Whether the files had been dropped from the page cache. If not, ``storage`` has rates
            of memory, and storage is slower.
        fetch: Reading a file that is in the page cache.
        decode: From ENCODED to DECODED: the whole picture, and the deterministic steps.
        augment: From DECODED to AUGMENTED (1 / T_A of a core).
        prepare: From ENCODED to AUGMENTED in one go, which decodes no more than the crop needs (1 / T_D+A
            of a core).
        recode: From ENCODED to RECODED and to AUGMENTED in one go. It is paid once for each payload that is
            kept.
        redraw: From RECODED to AUGMENTED in one go.
        batch: From AUGMENTED into the batch: normalised, cast, laid out.
        memory_bytes_per_s: The memory's bandwidth, reading and writing together, with all cores at work.
        encoded: Sizes of files (S_data).
        recoded: Sizes of RECODED payloads, of the pictures that have one.
        recodable: The share of the pictures that have a RECODED payload, in [0, 1]. If it is 0, ``recoded``,
            ``recode`` and ``redraw`` have no meaning.
        decoded: Sizes of pictures as they would be kept (M x S_data).
        augmented: Sizes of copies as they would be staged.
        batch_bytes: The bytes of one sample in a batch.
        deterministic: Whether the transform draws no random numbers. Its copies are then not staged.
        staged: Whether samples are made in stages: read, decoded, augmented. If not, they are made by the
            dataset's own Python in one go, and no stage of theirs is kept.
        step_per_s: The samples a second that a training job takes by itself (T_GPU); None: any number.
        step_cpu_s: The CPU seconds of a step in the process of the training loop, for one sample.
        take_s: The CPU seconds in which the training loop gets a batch that is ready from Seneca's loader,
            for one sample.
        item_take_s: The same for torch's loader, whose workers hand batches over.
        served_spread: The squared coefficient of variation of the times in which storage serves a request.
            None: workers read whole files, and the times differ as the sizes do.
        item: What a worker of torch's loader takes for a sample whose file is in the page cache: making it,
            putting it into a batch, handing it over; None: that was not measured.
        workers: The workers of the script that was measured; None: it was no script.
        batch_size: The samples of a batch of that script; None: it was no script.
        measured_samples: The number of pictures that were measured.
        took_s: The seconds that the measurement took.
        notes: What the reader must know about the measurement, one sentence each.
        version: The version of this format.

    Example:
        >>> Profile.from_json("{}")
        Traceback (most recent call last):
        seneca.partition.profile.ProfileError: no profile of Seneca's: it has no version
    """

    host: str
    dataset: str
    pipeline: str
    samples: int
    cores: int
    cache_bytes: int
    free_memory_bytes: int
    storage: tuple[Reading, ...]
    storage_cold: bool
    fetch: Cost
    decode: Cost
    augment: Cost
    prepare: Cost
    batch: Cost
    memory_bytes_per_s: float
    encoded: Size
    decoded: Size
    augmented: Size
    batch_bytes: int
    deterministic: bool = False
    staged: bool = True
    recoded: Size = Size(0.0)
    recode: Cost = Cost(0.0, 0.0)
    redraw: Cost = Cost(0.0, 0.0)
    recodable: float = 0.0
    step_per_s: float | None = None
    step_cpu_s: float = 0.0
    take_s: float = 0.0
    item_take_s: float = 0.0
    served_spread: float | None = None
    item: Cost | None = None
    workers: int | None = None
    batch_size: int | None = None
    measured_samples: int = 0
    took_s: float = 0.0
    notes: tuple[str, ...] = ()
    version: int = PROFILE_VERSION

    def __post_init__(self) -> None:
        if not self.storage:
            raise ProfileError("a profile has at least one reading of storage")
        if self.version != PROFILE_VERSION:
            raise ProfileError(_other_version(self.version))
        readers = [reading.readers for reading in self.storage]
        if readers != sorted(set(readers)):
            raise ProfileError("the readings of storage rise in their number of readers")
        if not 0 <= self.recodable <= 1:  # NaN fails here too
            raise ProfileError(f"a profile's recodable lies in [0, 1], but got {self.recodable!r}")
        for name, value in (
            ("samples", self.samples),
            ("cores", self.cores),
            ("memory_bytes_per_s", self.memory_bytes_per_s),
            ("encoded.mean_bytes", self.encoded.mean_bytes),
            ("decoded.mean_bytes", self.decoded.mean_bytes),
            ("augmented.mean_bytes", self.augmented.mean_bytes),
            *((f"storage[{i}].readers", reading.readers) for i, reading in enumerate(self.storage)),
            *((f"storage[{i}].bytes_per_s", reading.bytes_per_s) for i, reading in enumerate(self.storage)),
            ("prepare.all_s", self.prepare.all_s),
            *(
                [("recoded.mean_bytes", self.recoded.mean_bytes), ("redraw.all_s", self.redraw.all_s)]
                if self.recodable > 0
                else []
            ),
            *([] if self.item is None else [("item.all_s", self.item.all_s)]),
            *([] if self.step_per_s is None else [("step_per_s", self.step_per_s)]),
        ):
            if not (math.isfinite(value) and value > 0):
                raise ProfileError(f"a profile's {name} is more than 0, but got {value!r}")
        for name in ("step_cpu_s", "take_s", "item_take_s"):
            seconds = getattr(self, name)
            if not (math.isfinite(seconds) and seconds >= 0):
                raise ProfileError(f"a profile's {name} is 0 or more, but got {seconds!r}")
        for name in _COSTS:
            cost = getattr(self, name)
            for field, value in () if cost is None else dataclasses.asdict(cost).items():
                if not (math.isfinite(value) and value >= 0):
                    raise ProfileError(f"a profile's {name}.{field} is 0 or more, but got {value!r}")

    @property
    def inflation(self) -> float:
        """The size of a decoded picture divided by that of its file (M)."""
        return self.decoded.mean_bytes / self.encoded.mean_bytes

    @property
    def storage_bytes_per_s(self) -> float:
        """The most bytes a second that storage gave with any number of readers (B_storage)."""
        return max(reading.bytes_per_s for reading in self.storage)

    def storage_at(self, readers: float) -> float:
        """Bytes a second for at most so many readers. It is linear between two readings, and never falls."""
        best = 0.0
        last = Reading(0, 0.0, 0.0)
        for reading in self.storage:
            if reading.readers >= readers:
                part = (readers - last.readers) / (reading.readers - last.readers)
                return max(best, last.bytes_per_s + part * (reading.bytes_per_s - last.bytes_per_s))
            best, last = max(best, reading.bytes_per_s), reading
        return best

    def with_storage(self, bytes_per_s: float) -> Profile:
        """The same host with storage that gives at most ``bytes_per_s``. Its latency changes by the inverse
        factor."""
        factor = bytes_per_s / self.storage_bytes_per_s
        return dataclasses.replace(
            self,
            storage=tuple(
                Reading(one.readers, one.bytes_per_s * factor, one.latency_s / factor) for one in self.storage
            ),
        )

    def with_memory(self, cache_bytes: int) -> Profile:
        """The same host with a cache of this size. A larger cache also adds as much free memory."""
        free = self.free_memory_bytes + max(0, cache_bytes - self.cache_bytes)
        return dataclasses.replace(self, cache_bytes=cache_bytes, free_memory_bytes=free)

    def to_json(self) -> str:
        """The profile as text that :meth:`from_json` reads."""
        return json.dumps(dataclasses.asdict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Profile:
        """Read what :meth:`to_json` wrote, or the profile in what ``seneca analyze --deep --json`` wrote.

        Raises:
            ProfileError: The text is no profile, or is of another version.
        """
        try:
            fields = json.loads(text)
        except ValueError as error:
            raise ProfileError(
                f"no profile of Seneca's: {error}; `seneca profile --json` makes one"
            ) from None
        if isinstance(fields, dict) and "bottleneck" in fields:
            fields = fields.get("profile")
            if fields is None:
                raise ProfileError(
                    "there is no profile in it: `seneca analyze` was run without --deep, or --deep measured "
                    "nothing, and the `notes` in it say why"
                )
        if not isinstance(fields, dict) or "version" not in fields:
            raise ProfileError("no profile of Seneca's: it has no version")
        if fields["version"] != PROFILE_VERSION:
            raise ProfileError(_other_version(fields["version"]))
        try:
            return cls(**{name: _read(name, value) for name, value in fields.items()})
        except (TypeError, KeyError) as error:
            raise ProfileError(f"not the fields of version {PROFILE_VERSION}: {error}") from None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the profile to a file, whole or not at all. Missing folders are made."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")  # nobody can plant a link there
        try:
            draft.write_text(self.to_json())
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)  # left by a write that failed

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Profile:
        """Read a profile from a file.

        Raises:
            ProfileError: The file is no profile, or is of another version. The message names the file.
            OSError: The file cannot be read.
        """
        try:
            return cls.from_json(Path(path).read_text())
        except (ProfileError, UnicodeDecodeError) as error:
            raise ProfileError(f"{os.fspath(path)}: {error}") from None


_COSTS = ("fetch", "decode", "augment", "prepare", "recode", "redraw", "batch", "item")
_SIZES = ("encoded", "recoded", "decoded", "augmented")


def _read(name: str, value: Any) -> Any:
    if name in _COSTS:
        return None if value is None else Cost(**value)
    if name in _SIZES:
        return Size(**value)
    if name == "storage":
        return tuple(Reading(**one) for one in value)
    return tuple(value) if name == "notes" else value


def _other_version(version: object) -> str:
    return (
        f"a profile of version {version!r}, and this Seneca reads version {PROFILE_VERSION}: "
        "measure again with `seneca profile`"
    )
