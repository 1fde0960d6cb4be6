"""Plans of sounds: what soundfile reads, and the same numbers by every way through the codec."""

import io

import numpy as np
import pytest
import soundfile
import torch
from sizes import size
from sound_files import FORMATS, LOSSLESS, encoded, tones

from seneca._core import sound
from seneca._core.batch import batch_write
from seneca._core.codec import Codec
from seneca._core.plan import Plan
from seneca.errors import DecodeError, LeftToPillowError, PictureTooLargeError, PlanError

WHOLE = Plan.of_sounds([], 0)
MONO = ("mono", {})
TO_8000 = ("resample", {"rate": 8000})
CROP = ("random_time_crop", {"frames": 900})
CHANGES = [
    ("random_gain", {"p": 0.8, "gain": (-6, 6)}),
    ("random_polarity", {"p": 0.5}),
    ("random_noise", {"p": 0.8, "snr": (0, 20)}),
    ("random_time_shift", {"p": 0.8, "shift": (-0.4, 0.3)}),
]
PLANS = {
    "crop": Plan.of_sounds([MONO, TO_8000, CROP], 2),
    "changed": Plan.of_sounds([MONO, TO_8000, CROP, *CHANGES], 2),
    "changed, then cropped": Plan.of_sounds([MONO, TO_8000, *CHANGES, CROP], 2),
    "no head": Plan.of_sounds([CROP, *CHANGES], 0, channels=2),
    "upwards": Plan.of_sounds([("resample", {"rate": 44_100}), CROP], 1, channels=2),
    "cut": Plan.of_sounds([("time_crop", {"frames": 3000, "center": True}), TO_8000, MONO, CROP], 3),
}


def decoded(data, plan=WHOLE):
    return sound.decode(Codec(), plan, data)


def read(data):
    """What soundfile makes of it: ``(channels, frames)``."""
    return soundfile.read(io.BytesIO(data), dtype="float32", always_2d=True)[0].T


def of_output(plan, frames):
    return plan.output_size() == frames.shape


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("kind", FORMATS)
def test_a_sound_is_what_soundfile_reads(kind, channels):
    data = encoded(tones(7000, channels), kind)
    ours, theirs = decoded(data), read(data)
    if kind in LOSSLESS:
        np.testing.assert_array_equal(ours, theirs)
    else:  # soundfile may have brought another build of the decoders
        np.testing.assert_allclose(ours, theirs, atol=1e-4)
    assert sound.probe(Codec(), data) == (16_000, channels, ours.shape[1])


@pytest.mark.parametrize("channels", [1, 2, 3, 6])
def test_mono_is_torchs_mean(channels):
    data = encoded(tones(5000, channels), "floats")
    wanted = torch.from_numpy(np.ascontiguousarray(read(data))).mean(0, keepdim=True).numpy()
    found = decoded(data, Plan.of_sounds([MONO], 1))
    if channels < 4:
        np.testing.assert_array_equal(found, wanted)
    else:  # torch adds in an order that differs from frame to frame
        np.testing.assert_allclose(found, wanted, atol=1e-7)
    later = Plan.of_sounds([("time_crop", {"frames": 5000, "start": 1}), MONO], 2)
    np.testing.assert_array_equal(decoded(data, later)[:, :-1], found[:, 1:])


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("name", PLANS)
def test_from_the_file_or_from_decoded_the_result_is_the_same(name, kind):
    plan, codec = PLANS[name], Codec()
    for frames in (1, 800, 6000):
        data = encoded(tones(frames, 2, seed=frames), kind)
        head = sound.decode(codec, plan, data)
        np.testing.assert_array_equal(sound.head(codec, plan, decoded(data), 16_000), head)
        seen = set()
        for index in range(size(4, 30)):
            made = sound.augment_encoded(codec, plan, data, 9, 1, 2, index)
            assert of_output(plan, made)
            np.testing.assert_array_equal(sound.augment_decoded(codec, plan, head, 9, 1, 2, index), made)
            seen.add(made.tobytes())
        assert frames < 6000 or len(seen) > 1, "something is random"


@pytest.mark.parametrize("rates", [(44_100, 8000), (16_000, 44_100), (22_050, 16_000), (48_000, 16_000)])
def test_a_crop_of_what_is_resampled_is_that_part_of_the_whole(rates):
    rate, new_rate = rates
    data, resample = encoded(tones(20_000), "flac", rate), ("resample", {"rate": new_rate})
    whole = decoded(data, Plan.of_sounds([resample], 1))
    for start in (0, 1, 7, 400, 1999, whole.shape[1] - 300):
        plan = Plan.of_sounds([resample, ("time_crop", {"frames": 300, "start": start})], 2)
        np.testing.assert_array_equal(decoded(data, plan), whole[:, start : start + 300])


def test_a_short_sound_is_followed_by_zeros():
    data = encoded(tones(500), "flac")
    for op in (CROP, ("time_crop", {"frames": 900}), ("time_crop", {"frames": 900, "center": True})):
        made = sound.augment_encoded(Codec(), Plan.of_sounds([op], 0, channels=1), data, 0, 0, 0, 0)
        np.testing.assert_array_equal(made[:, :500], read(data))
        assert not made[:, 500:].any()


def test_a_crop_from_a_place_behind_the_end_is_zero():
    data = encoded(tones(500))
    assert not decoded(data, Plan.of_sounds([("time_crop", {"frames": 9, "start": 800})], 1)).any()


def test_a_file_without_frames_becomes_zeros():
    made = sound.augment_encoded(Codec(), PLANS["changed"], encoded(tones(0)), 0, 0, 0, 0)
    assert made.shape == (1, 900) and not made.any()


def test_silence_gets_no_noise():
    plan = Plan.of_sounds([CROP, ("random_noise", {"p": 1, "snr": (0, 0)})], 0, channels=2)
    made = sound.augment_decoded(Codec(), plan, np.zeros((2, 1000), np.float32), 0, 0, 0, 0)
    assert not made.any()


def test_noise_is_of_the_sound_that_it_is_added_to_and_not_of_the_crop():
    frames = tones(3000)
    frames[:, 1500:] = 0
    noise = ("random_noise", {"p": 1, "snr": (0, 0)})
    first, last = (("time_crop", {"frames": 1500, "start": start}) for start in (0, 1500))
    one, other = (
        sound.augment_decoded(Codec(), Plan.of_sounds([noise, crop], 0, channels=1), frames, 0, 0, 0, 0)
        for crop in (first, last)
    )
    ratio = (frames.astype(float) ** 2).sum() / ((one - frames[:, :1500]) ** 2).sum() / 2
    assert other.any() and 0.8 < ratio < 1.25, "half of the noise is where the sound is"


# -- Files that are not what they say --


@pytest.mark.parametrize("kind", ["vorbis", "mp3", "wav", "opus"])
def test_of_a_file_that_is_cut_off_comes_what_is_there(kind):
    if kind not in FORMATS:
        pytest.skip("soundfile writes none")
    data, codec, plan = encoded(tones(40_000, 1), kind), Codec(), PLANS["crop"]
    for share in (0.6, 0.8, 0.95):
        cut = data[: int(share * len(data))]
        there = decoded(cut)
        assert 0 < there.shape[1] < 40_000
        np.testing.assert_allclose(there, read(cut), atol=1e-5)
        head = sound.decode(codec, plan, cut)
        for index in range(5):
            made = sound.augment_encoded(codec, plan, cut, 1, 0, 0, index)
            np.testing.assert_array_equal(made, sound.augment_decoded(codec, plan, head, 1, 0, 0, index))


def test_a_flac_that_is_cut_off_fails_by_every_way():
    data, codec, plan = encoded(tones(40_000), "flac"), Codec(), PLANS["crop"]
    cut = data[: len(data) // 2]
    with pytest.raises(soundfile.LibsndfileError):
        read(cut)
    with pytest.raises(DecodeError, match=r"damaged: .*sync"):
        decoded(cut)
    for index in range(5):
        with pytest.raises(DecodeError, match=r"damaged: .*sync"):
            sound.augment_encoded(codec, plan, cut, 1, 0, 0, index)


@pytest.mark.parametrize("claimed", [(1 << 36) - 1, 1 << 28, 41_000, 0])
def test_the_frames_that_a_flac_claims_are_not_believed(claimed):
    data = bytearray(encoded(tones(40_000), "flac"))
    wanted = decoded(bytes(data))
    data[21] = (data[21] & 0xF0) | claimed >> 32
    data[22:26] = (claimed & 0xFFFFFFFF).to_bytes(4, "big")
    np.testing.assert_array_equal(decoded(bytes(data)), wanted)
    plan, codec = PLANS["crop"], Codec()
    head = sound.decode(codec, plan, bytes(data))
    for index in range(5):
        made = sound.augment_encoded(codec, plan, bytes(data), 1, 0, 0, index)
        np.testing.assert_array_equal(made, sound.augment_decoded(codec, plan, head, 1, 0, 0, index))


def test_what_is_no_sound_is_left_to_python():
    for data in (b"", b"RIFF", b"\x89PNG\r\n\x1a\n" + bytes(50), b"fLaC" + bytes(60), encoded(tones(9))[:30]):
        data = data or bytes(1)
        for call in (lambda data: sound.probe(Codec(), data), decoded):
            with pytest.raises(LeftToPillowError, match=r"soundfile|libsndfile"):
                call(data)


def test_more_than_64_channels_are_refused():
    assert decoded(encoded(tones(10, 64))).shape == (64, 10)
    with pytest.raises(PictureTooLargeError, match="64 channels"):
        decoded(encoded(tones(10, 65)))


def test_a_table_of_weights_is_not_made_larger_than_16_mib():
    plan = Plan.of_sounds([("resample", {"rate": 999_983, "lowpass_filter_width": 64})], 1)
    with pytest.raises(
        PictureTooLargeError, match="999983 frames a second takes a table of more than 16 MiB"
    ):
        decoded(encoded(tones(10)), plan)


# -- Plans --


def test_ops_of_sounds_and_of_pictures_do_not_mix():
    of_pictures = ([0.0] * 3, [1.0] * 3)
    with pytest.raises(PlanError):
        Plan.of_sounds([("random_hflip", {"p": 0.5})], 0)
    with pytest.raises(PlanError):
        Plan([MONO], 1, "uint8", True, *of_pictures)
    with pytest.raises(TypeError, match=r"seneca\._core\.sound"):
        Codec().decode(WHOLE, encoded(tones(9)))
    with pytest.raises(TypeError, match=r"seneca\._core\.sound"):
        Codec().augment_encoded(PLANS["crop"], encoded(tones(9)), 0, 0, 0, 0)
    with pytest.raises(TypeError, match=r"seneca\._core\.sound"):
        batch_write(PLANS["crop"], np.zeros((1, 900, 3), np.uint8), np.zeros((3, 1, 900), np.float32))
    with pytest.raises(TypeError, match="plan of pictures"):
        decoded(encoded(tones(9)), Plan([], 0, "uint8", True, *of_pictures))


@pytest.mark.parametrize(
    "ops, n_head",
    [
        ([CROP], 1),  # a random head
        ([TO_8000], 0),  # DECODED has no rate
        ([("resample", {"rate": 0})], 1),
        ([("resample", {"rate": 8000, "rolloff": 0})], 1),
        ([("resample", {"rate": 8000, "rolloff": 1.1})], 1),
        ([("resample", {"rate": 8000, "lowpass_filter_width": 0})], 1),
        ([("resample", {"rate": rate}) for rate in range(8000, 8005)], 5),
        ([("time_crop", {"frames": 0})], 1),
        ([("time_crop", {"frames": 9, "start": 1, "center": True})], 1),
        ([("random_time_crop", {"frames": (1 << 28) + 1})], 0),
        ([("random_gain", {"p": 2, "gain": (0, 1)})], 0),
        ([("random_gain", {"p": 1, "gain": (1, 0)})], 0),
        ([("random_time_shift", {"p": 1, "shift": (-2, 0)})], 0),
        ([("resample", {"rate": 8000, "resampling_method": "linear"})], 1),
    ],
)
def test_a_plan_out_of_range_is_refused(ops, n_head):
    with pytest.raises(PlanError):
        Plan.of_sounds(ops, n_head, channels=1)


def test_a_plan_of_sounds_has_floats():
    with pytest.raises(PlanError):
        Plan.of_sounds([CROP], 0, "uint8", channels=1)
    with pytest.raises(PlanError):
        Plan.of_sounds([CROP], 0, channels=65)


def test_a_size_is_channels_and_frames_and_has_to_be_known():
    assert PLANS["no head"].output_size() == (2, 900) and PLANS["crop"].output_size() == (1, 900)
    assert PLANS["crop"].copy_bytes == 4 * 900 and PLANS["no head"].copy_bytes == 8 * 900
    for ops, channels in (([CROP], None), ([MONO], None), ([("time_crop", {"frames": 9}), TO_8000, MONO], 2)):
        with pytest.raises(PlanError, match="add a crop to a number of frames"):
            Plan.of_sounds(ops, len(ops) if CROP not in ops else 0, channels=channels).output_size()


def test_a_file_with_other_channels_than_the_pipeline_expects_is_refused():
    with pytest.raises(DecodeError, match="it has 1 channels, and the pipeline expects 2"):
        sound.augment_encoded(Codec(), PLANS["no head"], encoded(tones(9)), 0, 0, 0, 0)
    with pytest.raises(PlanError, match="does not fit"):
        sound.augment_decoded(Codec(), PLANS["no head"], tones(9), 0, 0, 0, 0)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_batch_has_floats_rounded_as_torch_rounds_them(dtype):
    plan = Plan.of_sounds([CROP], 0, dtype, channels=2)
    frames = np.concatenate(
        [tones(4000, 2), [[np.nan, np.inf, -np.inf, 1e-8, 1e5], [0, -0.0, 65_519, 65_520, 1e-40]]], 1
    )
    wanted = torch.from_numpy(frames.astype(np.float32)).to(getattr(torch, dtype))
    out = torch.empty_like(wanted)
    as_numpy = out.view(torch.int16).numpy().view(np.uint16) if dtype == "bfloat16" else out.numpy()
    sound.batch_write(plan, frames.astype(np.float32), as_numpy)
    torch.testing.assert_close(out, wanted, rtol=0, atol=0, equal_nan=True)
