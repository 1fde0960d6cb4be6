"""Sounds beside torchaudio, and beside its formulas in plain torch: resampling, and what is drawn at random.

torchaudio is no part of the test environment: tests that need it are left out where it is not installed. What
is drawn is compared by Kolmogorov and Smirnov's test, or Pearson's. Seeds are fixed, so each test passes or
fails for good.
"""

import numpy as np
import pytest
import sizes
import torch
from oracle import sounds as portable
from scipy.stats import binomtest, chisquare, kstest
from sound_files import encoded, tones

from seneca._core import sound
from seneca._core.codec import Codec
from seneca._core.plan import Plan

DRAWS = sizes.size(2000, 20_000)
LUCK = 1e-3
RATES = [
    (44_100, 8000),
    (44_100, 16_000),
    (48_000, 16_000),
    (22_050, 16_000),
    (8000, 44_100),
    (16_000, 48_000),
    (401, 80),
    (3, 7),
    (160, 159),
]
HANN, KAISER = "sinc_interp_hann", "sinc_interp_kaiser"
OPTIONS = {
    "plain": {},
    "hann": {"lowpass_filter_width": 16, "rolloff": 0.85, "resampling_method": HANN},
    "kaiser": {"resampling_method": KAISER},
    "kaiser, best": {"lowpass_filter_width": 64, "rolloff": 0.9475937167399596, "resampling_method": KAISER},
    "kaiser, steep": {"resampling_method": KAISER, "beta": 5.5, "lowpass_filter_width": 9},
}


def resampled(frames, rate, new_rate, **options):
    plan = Plan.of_sounds([("resample", {"rate": new_rate, **options})], 1)
    return torch.from_numpy(sound.head(Codec(), plan, frames, rate))


def augmented(ops, frames, index):
    """What the ops make of ``frames``, with the random numbers of this index."""
    whole = ("time_crop", {"frames": frames.shape[1]})
    plan = Plan.of_sounds([whole, *ops], 1, channels=len(frames))
    return sound.augment_decoded(Codec(), plan, frames, 1, 0, 0, index)


# -- Resampling --


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("rates", RATES, ids=str)
def test_a_sound_is_resampled_by_torchaudios_formula(rates, name):
    frames = tones(3000, 2)
    theirs = portable.resample(torch.from_numpy(frames), *rates, **OPTIONS[name])
    torch.testing.assert_close(resampled(frames, *rates, **OPTIONS[name]), theirs, rtol=0, atol=2e-6)


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("rates", RATES, ids=str)
def test_a_sound_is_resampled_as_by_torchaudio(rates, name):
    torchaudio = pytest.importorskip("torchaudio")
    frames, options = tones(3000, 2), OPTIONS[name]
    ours, given = resampled(frames, *rates, **options), torch.from_numpy(frames)
    transform = torchaudio.transforms.Resample(*rates, **options)
    torch.testing.assert_close(ours, transform(given), rtol=0, atol=2e-6)
    # Its function computes the weights in single floats, and differs as much from its own transform.
    theirs = torchaudio.functional.resample(given, *rates, **options)
    apart = float((theirs - transform(given)).abs().max())
    torch.testing.assert_close(ours, theirs, rtol=0, atol=2e-6 + apart)


def test_a_sound_of_any_length_becomes_as_long_as_torchaudio_makes_it():
    rng = np.random.default_rng(0)
    rates = [160, 441, 8000, 16_000, 22_050, 44_100, 48_000]
    for _ in range(sizes.size(20, 600)):
        rate, new_rate = (int(rng.choice(rates)) for _ in range(2))
        frames = np.zeros((1, int(rng.integers(0, 3000))), np.float32)
        wanted = portable.resample(torch.from_numpy(frames), rate, new_rate).shape
        assert resampled(frames, rate, new_rate).shape == wanted, (rate, new_rate, frames.shape)


@pytest.mark.parametrize("frames", [1_300_057, 2_600_001, 9_000_000])
def test_a_long_sound_lacks_the_frame_that_torchaudio_drops(frames):
    """It rounds the length to a float before it rounds up: a small fraction may get lost."""
    wanted = int(np.ceil(np.float32(160 * frames / 441)))
    assert resampled(np.zeros((1, frames), np.float32), 44_100, 16_000).shape == (1, wanted)
    assert wanted == -(-160 * frames // 441) - 1


def test_a_sound_of_the_same_rate_is_left_as_it_is():
    frames = tones(100)
    np.testing.assert_array_equal(resampled(frames, 16_000, 16_000), frames)


# -- What is drawn --


def test_crops_begin_everywhere_alike():
    ramp = np.arange(1000, dtype=np.float32)[None]
    crops = [augmented([("random_time_crop", {"frames": 990})], ramp, index) for index in range(DRAWS)]
    for made in crops[:50]:
        np.testing.assert_array_equal(made, ramp[:, int(made[0, 0]) :][:, :990])
    counts = np.bincount([int(made[0, 0]) for made in crops], minlength=11)
    assert len(counts) == 11 and chisquare(counts).pvalue > LUCK


def test_gains_are_uniform_in_decibels():
    ones, op = np.ones((1, 4), np.float32), ("random_gain", {"p": 0.7, "gain": (-18, 6)})
    made = [augmented([op], ones, index) for index in range(DRAWS)]
    decibels = [20 * np.log10(float(frames[0, 0])) for frames in made if frames[0, 0] != 1]
    assert binomtest(len(decibels), DRAWS, 0.7).pvalue > LUCK
    assert kstest(decibels, "uniform", (-18, 24)).pvalue > LUCK


def test_a_gain_is_torchaudios():
    frames = tones(300, 2)
    made = augmented([("random_gain", {"p": 1, "gain": (4.5, 4.5)})], frames, 0)
    np.testing.assert_array_equal(made, (torch.from_numpy(frames) * 10 ** (4.5 / 20)).numpy())


def test_polarity_turns_with_its_probability():
    frames = tones(5)
    made = [augmented([("random_polarity", {"p": 0.3})], frames, index) for index in range(DRAWS)]
    turned = [bool((found == -frames).all()) for found in made]
    assert all(here or (found == frames).all() for here, found in zip(turned, made, strict=True))
    assert binomtest(sum(turned), DRAWS, 0.3).pvalue > LUCK


def test_noise_has_the_drawn_ratio_in_each_channel():
    frames = tones(2000, 2) * np.float32([[1], [0.01]])
    found = []
    for index in range(DRAWS // 10):
        noisy = augmented([("random_noise", {"p": 0.8, "snr": (3, 20)})], frames, index)
        if not np.array_equal(noisy, frames):
            ratios = portable.signal_to_noise(torch.from_numpy(frames), torch.from_numpy(noisy))
            assert abs(ratios[0] - ratios[1]) < 1e-3
            found.append(float(ratios[0]))
    assert binomtest(len(found), DRAWS // 10, 0.8).pvalue > LUCK
    assert kstest(found, "uniform", (3, 17)).pvalue > LUCK


def test_noise_is_normal_white_and_different_in_each_channel():
    frames, op = np.full((2, 50_000), 0.5, np.float32), ("random_noise", {"p": 1, "snr": (0, 0)})
    noise, other = (augmented([op], frames, index).astype(float) - frames for index in (0, 1))
    for channel in noise:
        assert kstest(channel / 0.5, "norm").pvalue > LUCK
    shifted = [(noise[0, lag:], noise[0, :-lag]) for lag in (1, 2, 3, 4, 8)]
    for one, two in [(noise[0], noise[1]), (noise[0], other[0]), *shifted]:
        assert abs(np.corrcoef(one, two)[0, 1]) < 4 / np.sqrt(len(one))


def test_noise_at_a_ratio_is_torchaudios():
    functional = pytest.importorskip("torchaudio").functional
    frames = tones(3000, 2)
    noisy = torch.from_numpy(augmented([("random_noise", {"p": 1, "snr": (7, 7)})], frames, 0))
    given = torch.from_numpy(frames)
    again = functional.add_noise(given, noisy - given, torch.full((2,), 7.0))
    torch.testing.assert_close(noisy, again, rtol=0, atol=1e-6)


@pytest.mark.parametrize("rollover", [True, False])
def test_shifts_are_uniform_over_whole_frames(rollover):
    ramp = np.arange(1, 41, dtype=np.float32)[None]
    op = ("random_time_shift", {"p": 0.9, "shift": (-0.25, 0.1), "rollover": rollover})
    moved = {by: portable.shift(torch.from_numpy(ramp), by, rollover).numpy() for by in range(-10, 5)}
    counts = np.zeros(15)
    for index in range(DRAWS):
        made = augmented([op], ramp, index)
        counts[next(by for by, wanted in moved.items() if np.array_equal(wanted, made)) + 10] += 1
    expected = np.full(15, 0.9 / 15)
    expected[10] += 0.1
    assert chisquare(counts, expected * DRAWS).pvalue > LUCK


def test_what_is_drawn_for_a_file_is_drawn_for_decoded():
    data = encoded(tones(5000, 2), "flac")
    ops = [("random_time_shift", {"p": 1, "shift": (-1, 1)}), ("random_time_crop", {"frames": 1000})]
    plan, codec = Plan.of_sounds(ops, 0, channels=2), Codec()
    whole = sound.decode(codec, Plan.of_sounds([], 0), data)
    for index in range(20):
        direct = sound.augment_encoded(codec, plan, data, 1, 0, 0, index)
        np.testing.assert_array_equal(direct, sound.augment_decoded(codec, plan, whole, 1, 0, 0, index))
