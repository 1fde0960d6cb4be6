"""The border to csrc/codec for what is done to batches: AUGMENTED into a place of one, and MixUp."""

import numpy as np

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from seneca._core.codec cimport sn_batch_mix_up, sn_batch_write
from seneca._core.plan cimport SN_BFLOAT16, SN_FLOAT16, SN_FLOAT32, SN_UINT8, Plan
from seneca._core.rng cimport SN_STREAM_ERASE, sn_rng, sn_rng_start

__all__ = ["batch_write", "mix_up"]

_ARRAYS = {
    SN_UINT8: np.dtype(np.uint8),
    SN_FLOAT32: np.dtype(np.float32),
    SN_FLOAT16: np.dtype(np.float16),
    SN_BFLOAT16: np.dtype(np.uint16),
}


def batch_write(Plan plan, const uint8_t[:, :, ::1] augmented, out, uint64_t seed=0, uint32_t epoch=0,
                uint32_t index=0):
    """Normalise, cast and lay out ``augmented`` into ``out``, a place in the batch, and erase a part of it.

    Args:
        plan: Says dtype, layout and statistics, and what is erased.
        augmented: uint8 ``(height, width, 3)``.
        out: A C-contiguous array of the plan's dtype (bfloat16 as uint16), ``(3, height, width)``,
            or ``(height, width, 3)`` if the plan is channels last.
        seed, epoch, index: Name the random numbers of the erasing.
    """
    cdef uint32_t height = augmented.shape[0], width = augmented.shape[1]
    cdef uint8_t[::1] flat
    cdef sn_rng rng
    cdef object shape = (height, width, 3)
    if plan.value.is_sound:
        raise TypeError("seneca._core.sound writes sounds")
    if not plan.value.channels_last:
        shape = (3, height, width)
    if augmented.shape[2] != 3 or out.shape != shape or height == 0 or width == 0:
        raise ValueError(f"augmented and out do not fit: {height} x {width} x {augmented.shape[2]}, {out.shape}")
    if out.dtype != _ARRAYS[plan.value.dtype] or not out.flags.c_contiguous:
        raise ValueError(f"out must be a C-contiguous array of {_ARRAYS[plan.value.dtype]}, but is {out.dtype}")
    flat = out.reshape(-1).view(np.uint8)
    sn_rng_start(&rng, seed, 0, epoch, index, SN_STREAM_ERASE)
    with nogil:
        sn_batch_write(&plan.value, &augmented[0, 0, 0], height, width, &rng, &flat[0])


def mix_up(float[:, ::1] pictures, double share):
    """MixUp in place: each picture becomes ``share`` of itself and ``1 - share`` of the one before it.

    The one before the first picture is the last. The values are those of torch's ``x * share + y * (1 - share)``.

    Args:
        pictures: float32 ``(pictures, elements)``.
        share: The share of the picture itself.
    """
    cdef float[::1] last
    cdef size_t count = pictures.shape[0], elements = pictures.shape[1]
    if count == 0 or elements == 0:
        return
    last = np.array(pictures[count - 1])
    with nogil:
        sn_batch_mix_up(&pictures[0, 0], count, elements, <float>share, <float>(1.0 - share), &last[0])
