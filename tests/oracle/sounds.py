"""Operations on sounds in plain torch: what the native core must do, after torchaudio's formulas."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["resample", "shift", "signal_to_noise"]

_BETA = 14.769656459379492


def resample(
    sound: Tensor,
    rate: int,
    new_rate: int,
    lowpass_filter_width: int = 6,
    rolloff: float = 0.99,
    resampling_method: str = "sinc_interp_hann",
    beta: float = _BETA,
) -> Tensor:
    """float32 ``(channels, frames)`` at another rate, as torchaudio.transforms.Resample makes it.

    All weights are used, zeros too, and sums are those of doubles.
    """
    if rate == new_rate:
        return sound
    divisor = math.gcd(rate, new_rate)
    before, after = rate // divisor, new_rate // divisor
    cutoff = min(before, after) * rolloff
    reach = math.ceil(lowpass_filter_width * before / cutoff)
    # Where each phase is goes through a float, and all else is in doubles: see csrc/codec/sound/sinc.h.
    phases = (torch.arange(0, -after, -1, dtype=torch.float32) / after).double()
    places = torch.arange(-reach, reach + before, dtype=torch.float64) / before
    t = ((phases[:, None] + places) * cutoff).clamp(-lowpass_filter_width, lowpass_filter_width)
    if resampling_method == "sinc_interp_hann":
        window = torch.cos(t * math.pi / lowpass_filter_width / 2) ** 2
    else:
        steep = torch.tensor(beta, dtype=torch.float32)
        window = torch.i0(steep * torch.sqrt(1 - (t / lowpass_filter_width) ** 2)) / torch.i0(steep)
    weights = (torch.sinc(t) * window * (cutoff / before)).float().double()
    padded = torch.nn.functional.pad(sound.double(), (reach, reach + before))
    made = padded.unfold(-1, weights.shape[1], before) @ weights.T
    frames = math.ceil(float(torch.tensor(after * sound.shape[-1] / before, dtype=torch.float32)))
    return made.flatten(-2)[..., :frames].float()


def shift(sound: Tensor, by: int, rollover: bool) -> Tensor:
    """torch-audiomentations' Shift by so many frames."""
    moved = torch.roll(sound, by, -1)
    if not rollover and by > 0:
        moved[..., :by] = 0
    elif not rollover and by < 0:
        moved[..., by:] = 0
    return moved


def signal_to_noise(sound: Tensor, noisy: Tensor) -> Tensor:
    """In decibels, of each channel."""
    energy, of_noise = sound.double().square().sum(-1), (noisy.double() - sound.double()).square().sum(-1)
    return 10 * torch.log10(energy / of_noise)
