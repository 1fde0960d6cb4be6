"""The border to csrc/codec for plans of sounds: arrays in and out, the GIL dropped. Decides nothing.

Each function takes the :class:`~seneca._core.codec.Codec` that does the work, and raises what its methods raise:
LeftToPillowError says that Python's soundfile reads the file, or says what is wrong.
"""

import numpy as np

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from seneca._core.codec cimport (
    Codec,
    sn_batch_write,
    sn_codec_augment_decoded,
    sn_codec_augment_encoded,
    sn_codec_decode,
    sn_codec_head,
    sn_codec_libsndfile,
    sn_codec_probe_sound,
    sn_view,
)
from seneca._core.codes cimport SN_OK
from seneca._core.plan cimport SN_BFLOAT16, SN_FLOAT16, SN_FLOAT32, Plan
from seneca._core.rng cimport SN_STREAM_AUGMENT, sn_rng, sn_rng_start

__all__ = ["augment_decoded", "augment_encoded", "batch_write", "decode", "head", "libsndfile", "probe"]

_ARRAYS = {
    SN_FLOAT32: np.dtype(np.float32),
    SN_FLOAT16: np.dtype(np.float16),
    SN_BFLOAT16: np.dtype(np.uint16),
}


def libsndfile():
    """The version of libsndfile that is loaded, such as "1.2.0"; None: compiled without, Python reads all sounds."""
    cdef int number = sn_codec_libsndfile()
    return f"{number >> 16}.{number >> 8 & 255}.{number & 255}" if number else None


cdef int check_plan(Plan plan) except -1:
    if not plan.value.is_sound:
        raise TypeError("this is a plan of pictures, which Codec's own methods run")
    return 0


cdef object array_of(const sn_view *view):
    array = np.empty((view.height, view.width), np.float32)
    cdef float[:, ::1] out = array
    cdef size_t channel
    if view.width > 0:
        for channel in range(view.height):
            memcpy(&out[channel, 0], view.pixels + channel * view.stride, <size_t>view.width * sizeof(float))
    return array


cdef sn_view view_of(const float[:, ::1] frames) except *:
    """A view that lives as long as the caller keeps ``frames``."""
    cdef sn_view view
    if frames.shape[0] == 0 or frames.shape[1] >= 1 << 32:
        raise ValueError(f"expected float32 (channels, frames), but the shape is {frames.shape[0], frames.shape[1]}")
    view.pixels = <const uint8_t *>&frames[0, 0] if frames.shape[1] else NULL
    view.height = <uint32_t>frames.shape[0]
    view.width = <uint32_t>frames.shape[1]
    view.stride = <size_t>frames.shape[1] * sizeof(float)
    view.mask = NULL
    view.rate = 0
    return view


cdef object handed_out(Codec codec, int rc, const sn_view *view):
    try:  # the view points into the codec: nobody else may enter before it is copied
        return array_of(view) if rc == SN_OK else None
    finally:
        codec.leave(rc)


def probe(Codec codec not None, const uint8_t[::1] data):
    """``(rate, channels, frames)`` as the header says. A damaged file has fewer frames, and some do not say it."""
    cdef uint32_t rate = 0, channels = 0
    cdef uint64_t frames = 0
    cdef int rc
    codec.enter()
    with nogil:
        rc = sn_codec_probe_sound(codec.handle, &data[0], data.shape[0], &rate, &channels, &frames)
    codec.leave(rc)
    return rate, channels, frames


def decode(Codec codec not None, Plan plan not None, const uint8_t[::1] data):
    """DECODED: the sound after the head of ``plan``, float32 ``(channels, frames)``."""
    cdef sn_view view
    cdef int rc
    check_plan(plan)
    codec.enter()
    with nogil:
        rc = sn_codec_decode(codec.handle, &plan.value, &data[0], data.shape[0], &view)
    return handed_out(codec, rc, &view)


def head(Codec codec not None, Plan plan not None, const float[:, ::1] frames, uint32_t rate):
    """DECODED, from a sound that was decoded elsewhere: float32 ``(channels, frames)``, ``rate`` frames a second."""
    cdef sn_view view, source = view_of(frames)
    cdef int rc
    check_plan(plan)
    source.rate = rate
    codec.enter()
    with nogil:
        rc = sn_codec_head(codec.handle, &plan.value, &source, &view)
    return handed_out(codec, rc, &view)


def augment_encoded(Codec codec not None, Plan plan not None, const uint8_t[::1] data, uint64_t seed, uint64_t nonce,
                    uint32_t epoch, uint32_t index):
    """AUGMENTED, straight from the file: float32 ``(channels, frames)`` of ``plan.output_size()``."""
    cdef sn_rng rng
    cdef int rc
    check_plan(plan)
    array = np.empty(plan.output_size(), np.float32)
    cdef float[:, ::1] out = array
    sn_rng_start(&rng, seed, nonce, epoch, index, SN_STREAM_AUGMENT)
    codec.enter()
    with nogil:
        rc = sn_codec_augment_encoded(codec.handle, &plan.value, &rng, &data[0], data.shape[0],
                                      <uint8_t *>&out[0, 0])
    codec.leave(rc)
    return array


def augment_decoded(Codec codec not None, Plan plan not None, const float[:, ::1] frames, uint64_t seed,
                    uint64_t nonce, uint32_t epoch, uint32_t index):
    """AUGMENTED, by the tail of ``plan`` from DECODED: the same as straight from the file."""
    cdef sn_view source = view_of(frames)
    cdef sn_rng rng
    cdef int rc
    check_plan(plan)
    array = np.empty(plan.output_size(), np.float32)
    cdef float[:, ::1] out = array
    sn_rng_start(&rng, seed, nonce, epoch, index, SN_STREAM_AUGMENT)
    codec.enter()
    with nogil:
        rc = sn_codec_augment_decoded(codec.handle, &plan.value, &rng, &source, <uint8_t *>&out[0, 0])
    codec.leave(rc)
    return array


def batch_write(Plan plan not None, const float[:, ::1] augmented, out):
    """Cast ``augmented`` into ``out``, a place in the batch.

    Args:
        plan: Says the dtype.
        augmented: float32 ``(channels, frames)``.
        out: A C-contiguous array of the plan's dtype (bfloat16 as uint16) and that shape.
    """
    cdef uint32_t channels = augmented.shape[0], frames = augmented.shape[1]
    cdef uint8_t[::1] flat
    check_plan(plan)
    if out.shape != (channels, frames) or channels == 0 or frames == 0:
        raise ValueError(f"augmented and out do not fit: {channels} x {frames}, {out.shape}")
    if out.dtype != _ARRAYS[plan.value.dtype] or not out.flags.c_contiguous:
        raise ValueError(f"out must be a C-contiguous array of {_ARRAYS[plan.value.dtype]}, but is {out.dtype}")
    flat = out.reshape(-1).view(np.uint8)
    with nogil:
        sn_batch_write(&plan.value, <const uint8_t *>&augmented[0, 0], channels, frames, NULL, &flat[0])
