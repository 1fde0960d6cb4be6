"""Seneca's own arguments of the loader: one record of their names, defaults, checks and meanings.

The constructors in :mod:`seneca.faces` and the table in README.md are written from this record:
``make generated``. See docs/contributing/add-an-option.md.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, get_args

from seneca._runtime.cgroups import cores_allowed
from seneca._runtime.remote_servers import RemoteServer, parse_remote
from seneca.partition import Split, split_as_written

if TYPE_CHECKING:
    import torch

__all__ = [
    "CHECK_EVERY",
    "AutoWorkers",
    "CheckEvery",
    "OnError",
    "Options",
    "Share",
    "VerifyFiles",
    "option",
    "parse_bytes",
    "parse_keep",
    "parse_split",
    "workers_of",
]

Share = Literal["augmented", "decoded", "exact", "none"]
CheckEvery = int | Literal["first"] | None
OnError = Literal["raise", "skip"]
VerifyFiles = Literal["epoch", "run"]
CHECK_EVERY = 4096  # samples: costs some thousandths of the time, and finds wrong samples within seconds
MEMORY_FORMATS = ("torch.contiguous_format", "torch.channels_last")  # by name: this module imports no torch

_UNITS = {
    "": 1,
    "B": 1,
    **{f"{prefix}B": 1000 ** (i + 1) for i, prefix in enumerate("KMGT")},
    **{f"{prefix}IB": 1024 ** (i + 1) for i, prefix in enumerate("KMGT")},
}


def parse_bytes(value: int | str) -> int:
    """Read an amount of memory.

    Args:
        value: A positive count of bytes, or a number with a unit: B; kB, MB, GB, TB (powers of
            1000); KiB, MiB, GiB, TiB (powers of 1024). Case, and spaces around number and unit, do not
            matter.

    Returns:
        The amount in bytes, rounded down.

    Raises:
        ValueError: The value is no such amount, or less than one byte; or it is a text without a unit, and
            less than 1 KiB, where the unit was most likely forgotten.

    Example:
        >>> parse_bytes("8GiB"), parse_bytes("1.5 MB"), parse_bytes(4096)
        (8589934592, 1500000, 4096)
    """
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError(f'an amount of memory is an int or a text such as "8GiB", but got {value!r}')
    if isinstance(value, int):
        amount = value
    else:
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", value, re.ASCII)
        if match is None or match[2].upper() not in _UNITS:
            raise ValueError(f'{value!r} is not an amount of memory; write it as "8GiB", "512MB" or an int')
        unit = _UNITS[match[2].upper()]
        # Whole numbers stay integers: a float cannot hold every count of bytes.
        amount = int(match[1]) * unit if match[1].isdigit() else int(float(match[1]) * unit)
    if amount < 1:
        raise ValueError(f"an amount of memory is at least one byte, but got {value!r}")
    if amount < 1024 and isinstance(value, str) and (number := value.strip())[-1].isdigit():
        raise ValueError(f'{value!r} means bytes; write "{number}GiB", or "{number}B" if bytes are meant')
    return amount


_SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86400}


def parse_keep(value: bool | float | str | None) -> float:
    """Read the argument ``keep``: how long a cache outlives the last job that uses it.

    Args:
        value: Seconds, or a number with a unit (s, min, h, d); True or infinity: until it is removed; None or
            False: it does not.

    Returns:
        The time in seconds; infinity: until it is removed.

    Raises:
        ValueError: The value is no such time.

    Example:
        >>> parse_keep("10min"), parse_keep(90), parse_keep(True), parse_keep(None)
        (600.0, 90.0, inf, 0.0)
    """
    if value is None or isinstance(value, bool):
        return math.inf if value else 0.0
    try:
        if isinstance(value, str):
            match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|min|h|d)\s*", value, re.ASCII)
            seconds = float(match[1]) * _SECONDS[match[2]] if match else math.nan
        else:
            seconds = float(value)
    except (TypeError, ValueError):
        seconds = math.nan
    if not (0 <= seconds < 2**32 - 1 or seconds == math.inf):
        raise ValueError(f'keep is a time such as "10min" or 90 (seconds), True or None, but got {value!r}')
    return seconds


def parse_split(value: str | Sequence[float] | Split) -> Split | Literal["auto"]:
    """Read the argument ``split``.

    Args:
        value: ``"auto"``, percents such as ``"58-42-0"`` or ``"20-38-42-0"``, three or four fractions in the
            same order, or a :class:`Split`.

    Returns:
        ``"auto"`` or the :class:`Split`.

    Raises:
        ValueError: The value is none of these, or the fractions do not sum to 1.

    Example:
        >>> parse_split((0.58, 0.42, 0))
        Split(encoded=0.58, decoded=0.42, augmented=0.0, recoded=0.0)
    """
    if isinstance(value, Split):
        return value
    if isinstance(value, str):
        return "auto" if value == "auto" else Split.parse(value)
    try:
        fractions = [float(fraction) for fraction in value]
    except (TypeError, ValueError):
        fractions = []
    if len(fractions) not in (3, 4):
        raise ValueError(
            'split is "auto", percents such as "58-42-0" or "20-38-42-0", or three or four fractions, '
            f"but got {value!r}"
        )
    return split_as_written(fractions)


class AutoWorkers(int):
    """The attribute ``num_workers`` of a loader that was given ``"auto"``: the most that there can be.

    Frameworks that read the attribute find an int. A loader that they build from it is ``"auto"`` as well.
    """


def workers_of(value: Any) -> int:
    """Read the argument ``num_workers``.

    Args:
        value: A number, which torch checks; or ``"auto"``, or what this has returned for it.

    Returns:
        The number; for ``"auto"`` an :class:`AutoWorkers`: twice as many as there are cores, and at most 16
        more than cores, because workers of torch that wait for storage use none.

    Raises:
        ValueError: The value is a text other than ``"auto"``.
    """
    if isinstance(value, AutoWorkers) or value == "auto":
        cores = max(1, math.ceil(cores_allowed().number))
        return AutoWorkers(min(2 * cores, cores + 16))
    if isinstance(value, str):
        raise ValueError(f'num_workers is a number or "auto", but got {value!r}')
    return value


def option(
    default: Any,
    *,
    doc: str,
    row: str,
    check: Callable[[Any], object] | None = None,
    of_dataset: bool | str = False,
) -> Any:
    """One option: a field of :class:`Options`.

    Args:
        default: Its default. A text that begins with ``torch.`` names a value of torch's.
        doc: Its entry in the docstring of :class:`seneca.DataLoader`.
        row: Its meaning in the table of README.md, in Markdown.
        check: Reads a value, and raises ``ValueError`` if it is not allowed. None: any value is.
        of_dataset: Whether :class:`seneca.SharedDataset` takes it too; a text: it does, with this annotation.
    """
    texts = {"doc": " ".join(doc.split()), "row": " ".join(row.split())}
    return field(default=default, metadata={**texts, "check": check, "of_dataset": of_dataset})


def _one_of(name: str, allowed: Any) -> Callable[[Any], None]:
    def check(value: Any) -> None:
        if value not in get_args(allowed):
            choices = " or ".join(f'"{choice}"' for choice in get_args(allowed))
            raise ValueError(f"{name} is {choices}, but got {value!r}")

    return check


def _letters(name: str, named: str) -> Callable[[Any], None]:
    def check(value: Any) -> None:
        if not (value is None or (isinstance(value, str) and value)):
            raise ValueError(f"{name} is a few letters that name the {named}, or None, but got {value!r}")

    return check


def _check_cache(value: Any) -> None:
    if isinstance(value, str):
        if not value or "\0" in value:
            raise ValueError(f'cache={value!r} is not a name; write "auto" or a few letters')
    elif value is not None and type(value).__module__ == "builtins":
        # This module cannot import SampleCache, but it can refuse a number or a list.
        raise ValueError(f'cache is "auto", a name, a seneca.SampleCache or None, but got {value!r}')


def _check_memory_format(value: Any) -> None:
    if str(value) not in MEMORY_FORMATS:
        raise ValueError(f"memory_format is {' or '.join(MEMORY_FORMATS)}, but got {value!r}")


def _check_uint8_batches(value: Any) -> None:
    if value is not None and not isinstance(value, bool):
        raise ValueError(
            f"uint8_batches is True, False, or None for uint8 batches on a GPU if possible, but got {value!r}"
        )


def _check_check_every(value: Any) -> None:
    if value is not None and value != "first" and (type(value) is not int or value < 1):
        raise ValueError(
            'check_every is a whole number of samples, at least 1, or "first" to make each sample once '
            f"before it is taken from the cache, or None for no checks, but got {value!r}"
        )


def _bytes_of(value: Any) -> int | Literal["auto"]:
    if value == "auto":
        return "auto"
    try:
        return parse_bytes(value)
    except ValueError as error:
        raise ValueError(f"cache_bytes: {error}") from None


def _keep_of(value: Any) -> float:
    if value is not None:
        return parse_keep(value)
    try:
        return parse_keep(os.environ.get("SENECA_KEEP") or None)
    except ValueError as error:
        raise ValueError(f"SENECA_KEEP: {error}") from None


def _servers_of(value: Any) -> tuple[RemoteServer, ...]:
    if value is False:
        return ()
    if value is not None:
        return parse_remote(value)
    try:
        return parse_remote(os.environ.get("SENECA_REMOTE"))
    except ValueError as error:
        raise ValueError(f"SENECA_REMOTE: {error}") from None


@dataclass(frozen=True)
class Options:
    """Seneca's keyword arguments, checked when an instance is made.

    Values stay as they were written. Therefore a loader can store them under their own names, and a framework
    can build an equal loader from them. The properties, such as :attr:`bytes_wanted`, have what they mean.

    Raises:
        ValueError: A value is not allowed; the message lists what is.

    Example:
        >>> options = Options(cache_bytes="8GiB", split="58-42-0")
        >>> options.bytes_wanted, options.split_wanted.encoded
        (8589934592, 0.58)
    """

    cache: Any = option(
        "auto",
        doc="""Which jobs share. ``"auto"``: all jobs on the same files. A name: the jobs that give the
            same name. A :class:`seneca.SampleCache`: the jobs of that cache. ``None``: nobody.""",
        row="""`"auto"`: share with all jobs on the same dataset; a name: share with jobs that give the
            same name; a `seneca.SampleCache`; `None`: share nothing""",
        check=_check_cache,
        of_dataset="str | None",
    )
    cache_bytes: int | str = option(
        "auto",
        doc="""Memory for payloads if this job makes the cache, as ``"8GiB"`` or an int. ``"auto"``: half
            of the free memory, at most what the dataset can use.""",
        row="""memory of the cache, as `"8GiB"` or an int; `"auto"`: half of the free memory, at most what
            the dataset can use""",
        check=_bytes_of,
        of_dataset=True,
    )
    split: Any = option(
        "auto",
        doc="""Shares of the forms if this job makes the cache. ``"58-42-0"``: percent for encoded,
            decoded and augmented samples. ``"20-38-42-0"``: the second number is for recoded JPEGs.
            ``"auto"``: Seneca measures and chooses.""",
        row="""percent of the cache for encoded, decoded and augmented samples, as `"58-42-0"`, or with
            recoded JPEGs in the second place, as `"20-38-42-0"`; `"auto"`: [measured](docs/split.md)""",
        check=parse_split,
        of_dataset=True,
    )
    share: Any = option(
        "augmented",
        doc="""The latest form that jobs share. ``"augmented"``: augmented copies too. ``"decoded"``:
            every job augments for itself. ``"none"``: the seed alone fixes order and randomness; kept
            payloads still serve. ``"exact"``: as ``"none"``, but jobs of one seed share augmented copies.
            Give each of them ``generator=torch.Generator().manual_seed(seed)``, the same
            ``persistent_workers``, and samplers that draw the same.""",
        row="""`"augmented"`: jobs also share augmented copies; `"decoded"`: each job augments for itself;
            `"none"`: the seed alone fixes order and augmentation; `"exact"`: the same, but [jobs with one
            seed share copies](docs/training-stays-correct.md#one-seed-for-several-jobs)""",
        check=_one_of("share", Share),
        of_dataset=True,
    )
    on_error: Any = option(
        "raise",
        doc="""What happens if a file cannot be decoded. ``"raise"``: the loader raises an error that
            names the file, and iterating may go on with the next batch. ``"skip"``: the next sample takes
            its place, and one warning reports it.""",
        row='`"skip"`: another sample takes the place of a picture that cannot be decoded',
        check=_one_of("on_error", OnError),
    )
    memory_format: torch.memory_format = option(
        "torch.contiguous_format",
        doc="""``torch.channels_last``: the three channels of a pixel lie together in memory, which
            convolutions on GPUs prefer. The shape stays ``(B, 3, height, width)``. If torch loads,
            batches are ``torch.contiguous_format``, and a warning says so.""",
        row="`torch.channels_last`: the layout that convolutions on GPUs prefer",
        check=_check_memory_format,
    )
    key: str | None = option(
        None,
        doc="""Stands for each part of the dataset that cannot be fingerprinted. Jobs share if they give
            the same key and their datasets are equal in all other parts. The user vouches that their
            items are interchangeable.""",
        row="stands for the parts of a dataset that [cannot be fingerprinted](docs/sharing.md#key)",
        check=_letters("key", "samples"),
        of_dataset=True,
    )
    job: str | None = option(
        None,
        doc="""Names the training run of this process. All processes of a run give the same name. None:
            the processes that meet by the environment of torchrun or torch.distributed are one run, and
            any other process is a run by itself. Each copy made for other jobs reaches a run once.""",
        row="""name of a training run of [several processes](docs/distributed.md), where neither
            `torchrun` nor `MASTER_PORT` gives one""",
        check=_letters("job", "training run"),
        of_dataset=True,
    )
    device: str | torch.device | None = option(
        None,
        doc="""Where batches go, for example ``"cuda"``. Each batch is copied while the one before is in
            use. None: batches stay where they are made.""",
        row='`"cuda"`: copy each batch there, from page-locked memory, while the batch before is in use',
    )
    uint8_batches: bool | None = option(
        None,
        doc="""Whether the native path makes uint8 batches, a quarter of float32's bytes, which are normalised
            later. With ``device`` this happens on the device, in the same numbers. Without it,
            :attr:`normalizer` does it in the training step. None: on a GPU, if the transform and
            ``collate_fn`` permit; :meth:`explain` says why not. True: always, or a ``ValueError``.""",
        row="""copy pixels to the device and [normalise them there](docs/tuning.md#uint8_batches); `None`: on
            a GPU, if possible""",
        check=_check_uint8_batches,
    )
    check_every: CheckEvery = option(
        CHECK_EVERY,
        doc="""One of so many samples served from the cache is made again and compared; more of them until
            enough samples have agreed. If one differs, the jobs of the cache stop sharing, and one
            warning names it. ``stats()`` counts checks and differences. ``"first"``: a sample is taken
            from the cache only after this job has made it itself once, and it agreed. None: no checks.""",
        row="""out of this many samples taken from the cache, make one again and [compare
            it](docs/sharing.md#proof); `"first"`: take a sample only after this job has made it once
            itself; `None`: never""",
        check=_check_check_every,
        of_dataset=True,
    )
    keep: bool | float | str | None = option(
        None,
        doc="""How long the cache outlives the last job that uses it: seconds, or a time such as
            ``"10min"``. A job that starts within that time finds it warm. True: until ``seneca rm``.
            None: as the environment variable ``SENECA_KEEP`` says, else not at all. The longest time that
            any of its jobs has asked for counts.""",
        row='how long the cache [outlives its last job](docs/inspect.md#keep), as `"10min"`',
        check=_keep_of,
        of_dataset=True,
    )
    verify_files: Any = option(
        "epoch",
        doc="""When the files of a folder of pictures are asked for their size and time, which shows
            whether they have changed. ``"epoch"``: as each epoch begins. ``"run"``: as the first epoch of
            this process begins, and again if the dataset's list of files has changed. The user vouches
            that no file is rewritten while the job runs. Use it if storage takes seconds to answer for
            all files.""",
        row="""when Seneca [checks whether picture files have changed](docs/tuning.md#verify_files): as
            each epoch begins, or with `"run"` once a process""",
        check=_one_of("verify_files", VerifyFiles),
        of_dataset=True,
    )
    remote: Any = option(
        None,
        doc="""Redis or Valkey servers that keep the files of pictures for several hosts:
            ``"redis://:password@host1,host2"`` or ``"unix:/path/of/socket"``. A sample that a server
            lacks comes from storage, and is left there for the others. With ``share="exact"`` the servers
            also pass augmented copies from host to host. None: as the environment variable
            ``SENECA_REMOTE`` says. False: none.""",
        row="""Redis or Valkey servers that keep files for [several hosts](docs/remote.md), as
            `"redis://host1,host2"`""",
        check=_servers_of,
        of_dataset="str | Sequence[str] | Literal[False] | None",
    )
    snapshot_every_n_steps: int | None = option(
        1,
        doc="""No effect. torchdata's ``StatefulDataLoader`` has this argument. The state of this loader
            is exact after every batch.""",
        row="no effect, because the state is exact after every batch; torchdata's loader has this argument",
    )

    def __post_init__(self) -> None:
        for one in fields(self):
            if one.metadata["check"] is not None:
                one.metadata["check"](getattr(self, one.name))

    @classmethod
    def of_dataset(cls) -> list[str]:
        """The names of the options that a :class:`seneca.SharedDataset` takes too."""
        return [one.name for one in fields(cls) if one.metadata["of_dataset"]]

    @classmethod
    def of(cls, owner: Any) -> Options:
        """The options that ``owner`` has as instance attributes, and the defaults of all others."""
        held = [vars(owner), *map(vars, type(owner).__mro__)]  # a subclass may make one a property
        names = [one.name for one in fields(cls) if any(one.name in each for each in held)]
        return cls(**{name: getattr(owner, name) for name in names})

    @property
    def channels_last(self) -> bool:
        """Whether the channels of a pixel are adjacent in memory."""
        return str(self.memory_format) == "torch.channels_last"

    @property
    def bytes_wanted(self) -> int | Literal["auto"]:
        """``cache_bytes`` in bytes, or ``"auto"``."""
        return _bytes_of(self.cache_bytes)

    @property
    def check_rate(self) -> int | None:
        """One of so many served samples is made again in any case; None: none is."""
        return CHECK_EVERY if self.check_every == "first" else self.check_every

    @property
    def keep_wanted(self) -> float:
        """``keep``, or what ``SENECA_KEEP`` says, in seconds; infinity: until the cache is removed."""
        return _keep_of(self.keep)

    @property
    def split_wanted(self) -> Split | Literal["auto"]:
        """``split`` as a :class:`Split`, or ``"auto"``."""
        return parse_split(self.split)

    @property
    def remote_wanted(self) -> tuple[RemoteServer, ...]:
        """The servers that ``remote``, or ``SENECA_REMOTE``, names."""
        return _servers_of(self.remote)
