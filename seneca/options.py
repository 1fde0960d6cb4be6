"""Seneca's own arguments of the loader: read, checked, and named as the user writes them."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from seneca._runtime.cgroups import cores_allowed
from seneca._runtime.remote_servers import RemoteServer, parse_remote
from seneca.partition import Split

__all__ = [
    "CHECK_EVERY",
    "AutoWorkers",
    "CheckEvery",
    "OnError",
    "Options",
    "Share",
    "VerifyFiles",
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
        value: Seconds, or a number with a unit (s, min, h, d); True: until it is removed; None or False: it
            does not.

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
    if not 0 <= seconds < 2**32 - 1:
        raise ValueError(f'keep is a time such as "10min" or 90 (seconds), True or None, but got {value!r}')
    return seconds


def parse_split(value: str | Sequence[float] | Split) -> Split | Literal["auto"]:
    """Read the argument ``split``.

    Args:
        value: ``"auto"``, percents such as ``"58-42-0"``, three fractions, or a :class:`Split`.

    Returns:
        ``"auto"`` or the :class:`Split`.

    Raises:
        ValueError: The value is none of these, or the fractions do not sum to 1.

    Example:
        >>> parse_split((0.58, 0.42, 0))
        Split(encoded=0.58, decoded=0.42, augmented=0.0)
    """
    if isinstance(value, Split):
        return value
    if isinstance(value, str):
        return "auto" if value == "auto" else Split.parse(value)
    try:
        encoded, decoded, augmented = (float(fraction) for fraction in value)
    except (TypeError, ValueError):
        raise ValueError(
            f'split is "auto", percents such as "58-42-0", or three fractions, but got {value!r}'
        ) from None
    return Split(encoded, decoded, augmented)


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
        ValueError: The value is another text.
    """
    if isinstance(value, AutoWorkers) or value == "auto":
        cores = max(1, math.ceil(cores_allowed().number))
        return AutoWorkers(min(2 * cores, cores + 16))
    if isinstance(value, str):
        raise ValueError(f'num_workers is a number or "auto", but got {value!r}')
    return value


@dataclass(frozen=True)
class Options:
    """Seneca's keyword arguments, checked when an instance is made.

    Values stay as they were written. Therefore a loader can store them under their own names, and a framework
    can build an equal loader from them. The properties :attr:`bytes_wanted` and :attr:`split_wanted` have
    what they mean.

    Args:
        cache: ``"auto"`` (a segment named after the dataset), a name, a ``seneca.SampleCache``,
            or ``None`` for no sharing.
        cache_bytes: Memory for payloads, as :func:`parse_bytes` reads it, or ``"auto"``.
        split: Shares of the forms, as :func:`parse_split` reads it.
        share: The latest form that jobs share. ``"augmented"``: augmented copies too. ``"decoded"``: each
            job augments for itself. ``"exact"``: jobs of one seed share augmented copies, and each gets bit
            for bit what it would get alone. ``"none"``: the seed alone fixes order and randomness, bit for
            bit.
        on_error: What a damaged picture does: ``"raise"`` or ``"skip"``.
        memory_format: How images lie in memory: ``torch.contiguous_format`` or
            ``torch.channels_last``.
        key: Stands for what cannot be fingerprinted: the user vouches that items are equal. None: no key.
        job: The name of the training run, which all its processes give; None: no name.
        check_every: One of so many samples served from the cache is made again and compared; more of them
            until enough have agreed. ``"first"``: a sample is taken from the cache only after this job has
            made it itself once, and it agreed. None: no checks.
        keep: How long the cache outlives the last job that uses it, as :func:`parse_keep` reads it. None: as
            the environment variable ``SENECA_KEEP`` says.
        verify_files: When picture files are asked for their size and time: ``"epoch"``: as each epoch begins.
            ``"run"``: as the first epoch of a process begins.
        remote: Servers that keep files for several hosts, as :func:`parse_remote` reads them. None: as the
            environment variable ``SENECA_REMOTE`` says. False: none.

    Raises:
        ValueError: A value is not allowed; the message lists what is.

    Example:
        >>> options = Options(cache_bytes="8GiB", split="58-42-0")
        >>> options.bytes_wanted, options.split_wanted.encoded
        (8589934592, 0.58)
    """

    cache: Any = "auto"
    cache_bytes: int | str = "auto"
    split: str | Sequence[float] | Split = "auto"
    share: Share = "augmented"
    on_error: OnError = "raise"
    memory_format: Any = "torch.contiguous_format"
    key: str | None = None
    job: str | None = None
    check_every: CheckEvery = CHECK_EVERY
    keep: bool | float | str | None = None
    verify_files: VerifyFiles = "epoch"
    remote: str | Sequence[str] | Literal[False] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.cache, str):
            if not self.cache or "\0" in self.cache:
                raise ValueError(f'cache={self.cache!r} is not a name; write "auto" or a few letters')
        elif self.cache is not None and type(self.cache).__module__ == "builtins":
            # This module cannot import SampleCache, but it can tell that a number or a list is none.
            raise ValueError(f'cache is "auto", a name, a seneca.SampleCache or None, but got {self.cache!r}')
        words = {"share": Share, "on_error": OnError, "verify_files": VerifyFiles}
        for name, allowed in ((name, get_args(kind)) for name, kind in words.items()):
            if getattr(self, name) not in allowed:
                choices = " or ".join(f'"{choice}"' for choice in allowed)
                raise ValueError(f"{name} is {choices}, but got {getattr(self, name)!r}")
        if str(self.memory_format) not in MEMORY_FORMATS:
            choices = " or ".join(MEMORY_FORMATS)
            raise ValueError(f"memory_format is {choices}, but got {self.memory_format!r}")
        if not (self.key is None or (isinstance(self.key, str) and self.key)):
            raise ValueError(f"key is a few letters that name the samples, or None, but got {self.key!r}")
        if not (self.job is None or (isinstance(self.job, str) and self.job)):
            raise ValueError(
                f"job is a few letters that name the training run, or None, but got {self.job!r}"
            )
        number = self.check_every
        if number is not None and number != "first" and (type(number) is not int or number < 1):
            raise ValueError(
                'check_every is a whole number of samples, at least 1, or "first" to make each sample once '
                f"before it is taken from the cache, or None for no checks, but got {number!r}"
            )
        # These are read once, so that a wrong value raises here and not in the first epoch.
        _ = self.bytes_wanted, self.split_wanted, self.keep_wanted, self.remote_wanted

    @classmethod
    def of(cls, owner: Any) -> Options:
        """The options that ``owner`` has as instance attributes, and the defaults of all others."""
        held = [vars(owner), *map(vars, type(owner).__mro__)]  # a subclass may make one a property
        names = [one.name for one in fields(cls) if any(one.name in each for each in held)]
        return cls(**{name: getattr(owner, name) for name in names})

    @property
    def channels_last(self) -> bool:
        """Whether the channels of a pixel lie together in memory."""
        return str(self.memory_format) == "torch.channels_last"

    @property
    def bytes_wanted(self) -> int | Literal["auto"]:
        """``cache_bytes`` in bytes, or ``"auto"``."""
        if self.cache_bytes == "auto":
            return "auto"
        try:
            return parse_bytes(self.cache_bytes)
        except ValueError as error:
            raise ValueError(f"cache_bytes: {error}") from None

    @property
    def check_rate(self) -> int | None:
        """One of so many served samples is made again in any case; None: none is."""
        return CHECK_EVERY if self.check_every == "first" else self.check_every

    @property
    def keep_wanted(self) -> float:
        """``keep``, or what ``SENECA_KEEP`` says, in seconds; infinity: until the cache is removed."""
        if self.keep is not None:
            return parse_keep(self.keep)
        try:
            return parse_keep(os.environ.get("SENECA_KEEP") or None)
        except ValueError as error:
            raise ValueError(f"SENECA_KEEP: {error}") from None

    @property
    def split_wanted(self) -> Split | Literal["auto"]:
        """``split`` as a :class:`Split`, or ``"auto"``."""
        return parse_split(self.split)

    @property
    def remote_wanted(self) -> tuple[RemoteServer, ...]:
        """The servers that ``remote``, or ``SENECA_REMOTE``, names."""
        if self.remote is False:
            return ()
        if self.remote is not None:
            return parse_remote(self.remote)
        try:
            return parse_remote(os.environ.get("SENECA_REMOTE"))
        except ValueError as error:
            raise ValueError(f"SENECA_REMOTE: {error}") from None
