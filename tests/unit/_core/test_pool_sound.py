"""Sounds through the threads of a pool: from files, from what is kept, and from copies."""

import contextlib
import io

import numpy as np
import pytest
import soundfile
from engine import Place
from sound_files import encoded, tones

from seneca._core import sound
from seneca._core.codec import Codec
from seneca._core.plan import Plan
from seneca._core.pool import Stream
from seneca._core.undecoded import encoded as bytes_of
from seneca._core.undecoded import finish_sound, undecoded
from seneca.errors import DecodeError

N = 12
DAMAGED = 5
FOR_PYTHON = 7
PLAN = Plan.of_sounds(
    [
        ("mono", {}),
        ("resample", {"rate": 8000}),
        ("random_time_crop", {"frames": 700}),
        ("random_noise", {"p": 0.5, "snr": (3, 9)}),
    ],
    2,
    "float16",
)
KEEPS_DECODED = (0, 0, 9000, 1000, 0)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """``(paths, bytes of each)``: WAVs, FLACs, Vorbis, a damaged one, and one that is left to Python."""
    folder = tmp_path_factory.mktemp("sounds")
    made = [
        encoded(tones(2000 + 700 * k, 1 + k % 2, seed=k), ("wav", "flac", "vorbis")[k % 3]) for k in range(N)
    ]
    made[DAMAGED] = encoded(tones(20_000), "flac")[:9000]
    soundfile.write(folder / "other.aiff", tones(9000, 2).T, 16_000, format="AIFF")
    made[FOR_PYTHON] = (folder / "other.aiff").read_bytes()
    paths = [folder / f"{k}.sound" for k in range(N)]
    for path, data in zip(paths, made, strict=True):
        path.write_bytes(data)
    return paths, made


def read(data):
    frames = soundfile.read(io.BytesIO(data), dtype="float32", always_2d=True)[0]
    return np.ascontiguousarray(frames.T)


@contextlib.contextmanager
def streaming(place, segment, paths, epoch, **options):
    blob = b"".join(bytes(path) + b"\0" for path in paths)
    offsets = np.cumsum([0] + [len(bytes(path)) + 1 for path in paths]).astype(np.uint64)
    height, width = PLAN.output_size()
    member = place.member(
        segment, epoch=epoch, height=height, width=width, copy_bytes=PLAN.copy_bytes, keeps=True, **options
    )
    stream = Stream(member, PLAN, blob, offsets, seed=3, epoch=epoch, nonce=0, threads=1)
    try:
        yield stream
    finally:
        stream.close()


def drawn(stream, files):
    """``({sample: what came, or the error}, how many were served from each form)``: the rest of an epoch."""
    came, served = {}, np.zeros(5, int)
    while True:
        out = np.zeros((4, *PLAN.output_size()), np.float16)
        batch = stream.draw(out)
        if batch is None:
            break
        while not batch.wait(1000):
            pass
        for position in undecoded(batch):
            assert bytes_of(batch, position) in (files[1][FOR_PYTHON], None)
            finish_sound(batch, position, read(files[1][FOR_PYTHON]), 16_000)
        came |= {int(sample): out[at] for at, sample in enumerate(batch.indices)}
        came |= {int(batch.indices[at]): error for at, error in batch.failures()}
        served += batch.done()["served"]
    stream.flush()
    return came, served


def wanted(data, epoch, sample):
    """What a codec alone makes of it."""
    codec, half = Codec(), np.zeros(PLAN.output_size(), np.float16)
    if sample == FOR_PYTHON:
        head = sound.head(codec, PLAN, read(data), 16_000)
        made = sound.augment_decoded(codec, PLAN, head, 3, 0, epoch, sample)
    else:
        made = sound.augment_encoded(codec, PLAN, data, 3, 0, epoch, sample)
    sound.batch_write(PLAN, made, half)
    return half


def test_sounds_come_as_a_codec_alone_makes_them_from_files_and_from_what_is_kept(files):
    with Place(N, 4 << 20, split=KEEPS_DECODED) as place:
        segment = place.attach(1)
        for epoch in range(3):
            with streaming(place, segment, files[0], epoch, shares=False) as stream:
                came, served = drawn(stream, files)
            assert isinstance(came[DAMAGED], DecodeError) and "lost sync" in str(came[DAMAGED])
            for sample in set(range(N)) - {DAMAGED}:
                np.testing.assert_array_equal(came[sample], wanted(files[1][sample], epoch, sample))
            assert served[2] == (N - 1 if epoch else 0), "the others are kept decoded"
        place.close(segment)


def test_copies_are_those_that_their_maker_would_have_made(files):
    """One job stages what the other one takes, in an epoch of both."""
    with Place(N, 4 << 20, split=(0, 0, 0, 10000, 0)) as place:
        one, other = place.attach(1), place.attach(2)
        with contextlib.ExitStack() as open_streams:
            streams = [
                open_streams.enter_context(streaming(place, segment, files[0], 0)) for segment in (one, other)
            ]
            came = [drawn(stream, files) for stream in streams]
        assert came[0][1][3] + came[1][1][3] > 0, "some were served from copies"
        for found, _ in came:
            for sample in set(range(N)) - {DAMAGED}:
                np.testing.assert_array_equal(found[sample], wanted(files[1][sample], 0, sample))
        place.close(one)
        place.close(other)
