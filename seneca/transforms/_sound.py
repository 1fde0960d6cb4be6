"""Transforms of sounds: to mono, to another rate, crops in time, gain, polarity, noise, shifts.

Those that torchaudio has mean the same: :class:`Mono`, :class:`Resample`, and the noise of
:class:`RandomNoise`. The others are those that recipes of training write by hand.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from seneca.transforms._arguments import one_of, probability
from seneca.transforms._base import Step, Transform, step

__all__ = [
    "Mono",
    "RandomGain",
    "RandomNoise",
    "RandomPolarity",
    "RandomTimeCrop",
    "RandomTimeShift",
    "Resample",
    "SoundTransform",
    "TimeCrop",
]

# The limits of csrc/codec/sn_plan.h; a test compares them.
MOST_FRAMES = 0x10000000
MOST_RATE = 1_000_000
MOST_DECIBELS = 200.0
MOST_ZERO_CROSSINGS = 1024
MOST_BETA = 100.0

Method = Literal["sinc_interp_hann", "sinc_interp_kaiser"]


def _whole(name: str, value: Any, least: int, most: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: a whole number, but got {value!r}") from None
    if not least <= number <= most:
        raise ValueError(f"{name}: from {least} to {most}, but got {number}")
    return number


def _range(name: str, value: Any, least: float, most: float) -> tuple[float, float]:
    """One number, or the least and the greatest of a range."""
    pair = value if isinstance(value, (list, tuple)) else (value, value)
    try:
        low, high = (float(bound) for bound in pair)
    except (TypeError, ValueError):
        raise TypeError(f"{name}: a number, or a pair (least, greatest), but got {value!r}") from None
    if not least <= low <= high <= most:
        raise ValueError(f"{name}: (least, greatest) within {least:g} and {most:g}, but got {value!r}")
    return low, high


class SoundTransform(Transform):
    """The base class of transforms of sounds. They can be called on one sound, with its rate."""

    sound: ClassVar[bool] = True


@dataclass(frozen=True)
class Mono(SoundTransform):
    """Mix all channels into one: their mean, as ``waveform.mean(0, keepdim=True)``.

    Example:
        >>> import torch
        >>> from seneca import transforms as T
        >>> T.Mono()(torch.tensor([[1.0, 0.5], [0.0, 0.5]]))
        tensor([[0.5000, 0.5000]])
    """

    kinds = ("mono",)
    fixed_kinds = ("mono",)
    keeps_size = True


@dataclass(frozen=True)
class Resample(SoundTransform):
    """Change the rate to ``rate`` frames a second, as ``torchaudio.functional.resample`` does.

    The rate before is that of the file. Values differ from torchaudio's by at most 1e-5. A resample stands
    before the first random transform, because only a file says its rate.

    Args:
        rate: Frames a second of the result.
        lowpass_filter_width: Zero crossings of the filter to each side. More are sharper, and take longer.
        rolloff: Where the filter begins to cut, as a share of the lower rate's limit, in (0, 1].
        resampling_method: ``"sinc_interp_hann"`` or ``"sinc_interp_kaiser"``.
        beta: The shape of Kaiser's window; None: torchaudio's.

    Raises:
        TypeError, ValueError: An argument has a wrong type, or is out of range.

    Example:
        >>> import torch
        >>> from seneca import transforms as T
        >>> T.Resample(8000)(torch.zeros(2, 44100), 44100).shape
        torch.Size([2, 8000])
    """

    kinds = ("resample",)
    fixed_kinds = ("resample",)
    any_size = True

    rate: int
    lowpass_filter_width: int = 6
    rolloff: float = 0.99
    resampling_method: Method = "sinc_interp_hann"
    beta: float | None = None

    def __post_init__(self) -> None:
        rolloff, beta = float(self.rolloff), self.beta
        if not 0 < rolloff <= 1:
            raise ValueError(f"rolloff: in (0, 1], but got {self.rolloff!r}")
        if beta is not None and not 0 <= float(beta) <= MOST_BETA:
            raise ValueError(f"beta: from 0 to {MOST_BETA:g}, but got {beta!r}")
        methods = ("sinc_interp_hann", "sinc_interp_kaiser")
        self._set(
            rate=_whole("rate", self.rate, 1, MOST_RATE),
            lowpass_filter_width=_whole(
                "lowpass_filter_width", self.lowpass_filter_width, 1, MOST_ZERO_CROSSINGS
            ),
            rolloff=rolloff,
            resampling_method=one_of("resampling_method", methods, self.resampling_method),
            beta=None if beta is None else float(beta),
        )

    def steps(self) -> tuple[Step, ...]:
        given = {name: value for name, value in vars(self).items() if value is not None}
        return step("resample", **given)


@dataclass(frozen=True)
class TimeCrop(SoundTransform):
    """Cut out ``frames`` frames at a fixed place. Shorter sounds get zeros at their end.

    Args:
        frames: Frames of the result.
        start: The first frame that is kept.
        center: Whether to cut out the middle instead.

    Raises:
        TypeError, ValueError: An argument has a wrong type, or is out of range; or both ``start`` and
            ``center`` are given.

    Example:
        >>> import torch
        >>> from seneca import transforms as T
        >>> T.TimeCrop(3)(torch.ones(1, 2))
        tensor([[1., 1., 0.]])
    """

    kinds = ("time_crop",)
    fixed_kinds = ("time_crop",)

    frames: int
    start: int = 0
    center: bool = False

    def __post_init__(self) -> None:
        if self.center and self.start:
            raise ValueError("center and start exclude each other: give one of them")
        self._set(
            frames=_whole("frames", self.frames, 1, MOST_FRAMES),
            start=_whole("start", self.start, 0, MOST_FRAMES),
            center=bool(self.center),
        )


@dataclass(frozen=True)
class RandomTimeCrop(SoundTransform):
    """Cut out ``frames`` frames at a random place: each is equally probable. Shorter sounds get zeros at
    their end.

    Only the part of a file that is needed is decoded, where the format can be read from any place.

    Args:
        frames: Frames of the result.

    Raises:
        TypeError, ValueError: ``frames`` has a wrong type, or is out of range.

    Example:
        >>> import torch
        >>> from seneca import transforms as T
        >>> T.RandomTimeCrop(4)(torch.zeros(2, 9)).shape
        torch.Size([2, 4])
    """

    kinds = ("random_time_crop",)

    frames: int

    def __post_init__(self) -> None:
        self._set(frames=_whole("frames", self.frames, 1, MOST_FRAMES))


@dataclass(frozen=True)
class RandomGain(SoundTransform):
    """Make a sound louder or softer.

    Args:
        gain: In decibels: one number, or the range from which it is drawn uniformly.
        p: The probability, in [0, 1].

    Raises:
        TypeError, ValueError: An argument has a wrong type, or is out of range.

    Example:
        >>> import torch
        >>> from seneca import transforms as T
        >>> T.RandomGain(20, p=1)(torch.full((1, 2), 0.01))
        tensor([[0.1000, 0.1000]])
    """

    kinds = ("random_gain",)
    keeps_size = True

    gain: float | tuple[float, float]
    p: float = 0.5

    def __post_init__(self) -> None:
        self._set(gain=_range("gain", self.gain, -MOST_DECIBELS, MOST_DECIBELS), p=probability(self.p))


@dataclass(frozen=True)
class RandomPolarity(SoundTransform):
    """Turn a sound upside down: each value becomes its negative.

    Args:
        p: The probability, in [0, 1].

    Raises:
        ValueError: ``p`` is out of range.

    Example:
        >>> import torch
        >>> from seneca import transforms as T
        >>> T.RandomPolarity(p=1)(torch.ones(1, 2))
        tensor([[-1., -1.]])
    """

    kinds = ("random_polarity",)
    keeps_size = True

    p: float = 0.5

    def __post_init__(self) -> None:
        self._set(p=probability(self.p))


@dataclass(frozen=True)
class RandomNoise(SoundTransform):
    """Add white Gaussian noise, as ``torchaudio.functional.add_noise`` adds a given one. Silence stays
    silence.

    Args:
        snr: How much louder the sound is than the noise, in decibels: one number, or the range from which it
            is drawn uniformly.
        p: The probability, in [0, 1].

    Raises:
        TypeError, ValueError: An argument has a wrong type, or is out of range.

    Example:
        >>> import torch
        >>> from seneca import transforms as T
        >>> noisy = T.RandomNoise((10, 30))(torch.ones(1, 8000))
    """

    kinds = ("random_noise",)
    keeps_size = True

    snr: float | tuple[float, float]
    p: float = 0.5

    def __post_init__(self) -> None:
        self._set(snr=_range("snr", self.snr, -MOST_DECIBELS, MOST_DECIBELS), p=probability(self.p))


@dataclass(frozen=True)
class RandomTimeShift(SoundTransform):
    """Move a sound in time. What leaves at one end comes back at the other, or zeros do.

    Args:
        shift: As a share of the length, from -1 (towards the beginning) to 1: one number, or the range from
            which it is drawn uniformly.
        rollover: Whether what leaves comes back; else zeros do.
        p: The probability, in [0, 1].

    Raises:
        TypeError, ValueError: An argument has a wrong type, or is out of range.

    Example:
        >>> import torch
        >>> from seneca import transforms as T
        >>> T.RandomTimeShift(0.25, p=1)(torch.arange(4.0)[None])
        tensor([[3., 0., 1., 2.]])
    """

    kinds = ("random_time_shift",)
    keeps_size = True

    shift: float | tuple[float, float]
    rollover: bool = True
    p: float = 0.5

    def __post_init__(self) -> None:
        self._set(
            shift=_range("shift", self.shift, -1, 1), rollover=bool(self.rollover), p=probability(self.p)
        )
