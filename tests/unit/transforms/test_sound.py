"""Transforms of sounds: their arguments, and what they make of a sound that is called."""

import numpy as np
import pytest
import torch

from seneca import transforms as T
from seneca._core import op
from seneca.errors import PlanError
from seneca.transforms import _sound
from seneca.transforms._pipeline import compile_sound, compile_transform

WRONG = [
    (lambda: T.Resample(0), ValueError, "rate"),
    (lambda: T.Resample(8000.5), TypeError, "rate"),
    (lambda: T.Resample(8000, rolloff=0), ValueError, "rolloff"),
    (lambda: T.Resample(8000, rolloff=1.5), ValueError, "rolloff"),
    (lambda: T.Resample(8000, lowpass_filter_width=0), ValueError, "lowpass_filter_width"),
    (lambda: T.Resample(8000, resampling_method="kaiser"), ValueError, "resampling_method"),
    (lambda: T.Resample(8000, beta=-1), ValueError, "beta"),
    (lambda: T.TimeCrop(0), ValueError, "frames"),
    (lambda: T.TimeCrop(10, start=1, center=True), ValueError, "exclude"),
    (lambda: T.RandomTimeCrop("10"), TypeError, "frames"),
    (lambda: T.RandomGain((6, -6)), ValueError, "gain"),
    (lambda: T.RandomGain("loud"), TypeError, "gain"),
    (lambda: T.RandomGain(float("nan")), ValueError, "gain"),
    (lambda: T.RandomNoise((10, 500)), ValueError, "snr"),
    (lambda: T.RandomPolarity(1.5), ValueError, "p is"),
    (lambda: T.RandomTimeShift((-2, 0)), ValueError, "shift"),
]


@pytest.mark.parametrize(("make", "error", "text"), WRONG)
def test_wrong_arguments_are_named(make, error, text):
    with pytest.raises(error, match=text):
        make()


def test_the_limits_are_those_of_the_core():
    limits = {(kind, name): most for kind, name, most in op.limits_of_sounds()}
    assert limits["time_crop", "frames"] == _sound.MOST_FRAMES
    assert limits["resample", "rate"] == _sound.MOST_RATE
    assert limits["resample", "lowpass_filter_width"] == _sound.MOST_ZERO_CROSSINGS
    assert limits["resample", "beta"] == _sound.MOST_BETA
    assert limits["random_gain", "gain"] == limits["random_noise", "snr"] == _sound.MOST_DECIBELS


def waves(channels=2, frames=1000):
    return torch.randn(channels, frames, generator=torch.Generator().manual_seed(3)) / 4


def test_crops():
    waveform = waves()
    assert torch.equal(T.TimeCrop(100, start=7)(waveform), waveform[:, 7:107])
    assert torch.equal(T.TimeCrop(100, center=True)(waveform), waveform[:, 450:550])
    longer = T.TimeCrop(1200)(waveform)
    assert torch.equal(longer[:, :1000], waveform) and not longer[:, 1000:].any()
    torch.manual_seed(0)
    starts = set()
    for _ in range(400):
        crop = T.RandomTimeCrop(998)(waveform)
        starts.add(next(k for k in range(3) if torch.equal(crop, waveform[:, k : k + 998])))
    assert starts == {0, 1, 2}


def test_mono_gain_polarity_and_shift():
    waveform = waves()
    assert torch.allclose(T.Mono()(waveform), waveform.mean(0, keepdim=True), atol=1e-7)
    assert torch.allclose(T.RandomGain(-20, p=1)(waveform), waveform / 10, atol=1e-7)
    assert torch.equal(T.RandomPolarity(p=1)(waveform), -waveform)
    assert torch.equal(T.RandomTimeShift(0.25, p=1)(waveform), waveform.roll(250, 1))
    moved = T.RandomTimeShift(-0.25, rollover=False, p=1)(waveform)
    assert torch.equal(moved[:, :750], waveform[:, 250:]) and not moved[:, 750:].any()


def test_noise_has_the_power_that_snr_says():
    waveform = waves(1, 100_000)
    for snr in (0, 10, 30):
        noise = T.RandomNoise(snr, p=1)(waveform) - waveform
        found = 10 * np.log10(float((waveform**2).mean() / (noise**2).mean()))
        assert abs(found - snr) < 0.1
    assert not T.RandomNoise(10, p=1)(torch.zeros(1, 50)).any()


def test_random_numbers_come_from_torchs_generator():
    transform = T.Compose([T.RandomTimeCrop(300), T.RandomGain((-6, 6)), T.RandomNoise((5, 20))])
    made = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        made.append(transform(waves()))
    assert torch.equal(made[0], made[1]) and not torch.equal(made[0], made[2])


def test_what_is_no_sound_is_refused():
    for wrong in (torch.zeros(5), torch.zeros(1, 5, dtype=torch.float64), np.zeros((1, 5), np.int16), "x"):
        with pytest.raises(TypeError, match="a sound is float32"):
            T.Mono()(wrong)
    with pytest.raises(PlanError, match="rate of the sound"):
        T.Resample(8000)(waves())


def test_pictures_and_sounds_do_not_mix():
    with pytest.raises(PlanError, match="RandomTimeCrop changes sounds"):
        compile_transform(T.Compose([T.CenterCrop(3), T.RandomTimeCrop(3)]))
    with pytest.raises(PlanError, match="CenterCrop does not change sounds"):
        compile_sound(T.Compose([T.Mono(), T.CenterCrop(3)]))
    with pytest.raises(PlanError, match="Resample stands behind RandomGain"):
        compile_sound(T.Compose([T.RandomGain(3), T.Resample(8000)]))
    with pytest.raises(PlanError, match="uint8"):
        compile_sound(T.Compose([T.Mono(), T.ToDtype("uint8")]))


def test_a_pipeline_knows_its_head_and_its_shape():
    pipeline = compile_sound(T.Compose([T.Mono(), T.Resample(8000), T.TimeCrop(10), T.RandomGain(3)]))
    assert pipeline.n_head == 3 and pipeline.output_size == pipeline.item_shape == (1, 10)
    assert not pipeline.recodes and not pipeline.deterministic
    assert compile_sound(T.TimeCrop(10)).output_size == (0, 0)
    assert compile_sound(T.TimeCrop(10), channels=2).output_size == (2, 10)
    assert compile_sound(T.Compose([T.Mono(), T.Resample(8000)])).output_size == (0, 0)
    half = compile_sound(T.Compose([T.Mono(), T.TimeCrop(10), T.ToDtype("float16")]))
    assert half.dtype == "float16" and half.head_fingerprint != pipeline.head_fingerprint
