"""The border to csrc/codec: owns handles, drops the GIL, translates errors, decides nothing."""

import functools
import hashlib

import numpy as np

from libc.string cimport memcpy, memset

from seneca._core.codes import picture_error
from seneca._core.codes cimport SN_E_DECODE, SN_E_FOR_PILLOW, SN_E_TOO_LARGE, SN_FULL, SN_OK
from seneca._core.op cimport filter_of
from seneca._core.plan cimport Plan, sn_moves, sn_plan_pixel_bytes
from seneca._core.rng cimport SN_STREAM_AUGMENT, sn_rng, sn_rng_start

__all__ = ["Codec", "jpeg_library", "libdeflate", "libjpeg_turbo", "libpng", "libwebp", "resize", "simd"]


def simd():
    """The vector instructions that the codec uses in this process, "AVX2" or "NEON"; None: plain C."""
    cdef const char *name = sn_codec_simd()
    return None if name is NULL else name.decode()


def libjpeg_turbo():
    """The version of libjpeg-turbo that the codec was compiled with, such as "2.1.5"."""
    cdef int number = sn_codec_libjpeg_turbo()
    return f"{number // 1000000}.{number // 1000 % 1000}.{number % 1000}"


def libpng():
    """The version of libpng that the codec was compiled with, such as "1.6.39"; None: without, Pillow decodes PNGs."""
    cdef int number = sn_codec_libpng()
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}" if number else None


def libdeflate():
    """The version of libdeflate that the codec was compiled with, such as "1.14"; None: without, PNGs take longer."""
    cdef int number = sn_codec_libdeflate()
    return f"{number >> 8}.{number & 255}" if number else None


def libwebp():
    """The version of libwebp that is loaded, such as "1.2.4"; None: compiled without, Pillow decodes WebPs."""
    cdef int number = sn_codec_libwebp()
    return f"{number >> 16}.{number >> 8 & 255}.{number & 255}" if number else None


cdef object array_of(const sn_view *view):
    """A picture's pixels; of a pair ``(picture, mask)``."""
    array = np.empty((view.height, view.width, 3), np.uint8)
    cdef uint8_t[:, :, ::1] out = array
    cdef uint8_t[:, ::1] of_mask
    cdef size_t y
    for y in range(view.height):
        memcpy(&out[y, 0, 0], view.pixels + y * view.stride, <size_t>view.width * 3)
    if view.mask is NULL:
        return array
    mask = np.empty((view.height, view.width), np.uint8)
    of_mask = mask
    memcpy(&of_mask[0, 0], view.mask, <size_t>view.height * view.width)
    return array, mask


cdef sn_view view_of(object given) except *:
    """A view that lives as long as the caller keeps ``given``: a picture, or ``(picture, mask)``."""
    cdef sn_view view
    cdef const uint8_t[:, ::1] mask
    cdef const uint8_t[:, :, :] picture
    if isinstance(given, tuple):
        pixels, of_mask = given
        view = view_of(pixels)
        mask = of_mask
        if mask.shape[0] != view.height or mask.shape[1] != view.width:
            raise ValueError(f"the mask has shape {of_mask.shape}, and its picture {pixels.shape}")
        view.mask = &mask[0, 0]
        return view
    picture = given
    if picture.shape[0] == 0 or picture.shape[1] == 0 or picture.shape[2] != 3:
        raise ValueError("expected a picture of shape (height, width, 3), not empty")
    if picture.strides[2] != 1 or picture.strides[1] != 3 or picture.strides[0] < 3 * picture.shape[1]:
        raise ValueError("expected rows of RGB triples close together; numpy.ascontiguousarray makes them")
    view.pixels = &picture[0, 0, 0]
    view.height = <uint32_t>picture.shape[0]
    view.width = <uint32_t>picture.shape[1]
    view.stride = <size_t>picture.strides[0]
    view.mask = NULL
    view.rate = 0
    return view


cdef int refuse_sounds(Plan plan) except -1:
    if plan.value.is_sound:
        raise TypeError("seneca._core.sound runs plans of sounds")
    return 0


cdef int check_kind(Plan plan, given) except -1:
    refuse_sounds(plan)
    if isinstance(given, tuple) != bool(plan.value.is_pair):
        raise TypeError("a plan of pairs takes (picture, mask), and no other plan does")
    return 0


cdef object room_for(Plan plan):
    """Memory for AUGMENTED, flat."""
    refuse_sounds(plan)
    height, width = plan.output_size()
    return np.empty(sn_plan_pixel_bytes(&plan.value) * height * width, np.uint8)


cdef object shaped(Plan plan, flat):
    """Such memory as a picture, or of a pair as ``(picture, mask)``."""
    height, width = plan.output_size()
    picture = flat[:3 * height * width].reshape(height, width, 3)
    return (picture, flat[3 * height * width:].reshape(height, width)) if plan.value.is_pair else picture


cdef class Codec:
    """Decoder state and scratch memory, for one thread at a time.

    Args:
        max_pixels: Pictures with more, decoded or resized, are refused; None: none is.

    Its methods raise DecodeError (a damaged file), LeftToPillowError, PictureTooLargeError, PlanError,
    MemoryError; and RuntimeError when a second thread comes in, which would share the scratch.

    With a plan of pairs, ``data`` is what ``seneca.data.pairs.joined_bytes`` makes, and each picture that goes in or
    comes out is ``(picture, mask)``: the mask uint8 ``(height, width)``.
    """

    def __cinit__(self, max_pixels=None):
        self.handle = sn_codec_new(max_pixels or 0)
        if self.handle is NULL:
            raise MemoryError("no memory for a codec")

    def __dealloc__(self):
        sn_codec_free(self.handle)

    cdef int enter(self) except -1:
        if self.busy:
            raise RuntimeError("a Codec serves one thread at a time; give each thread its own")
        self.busy = True
        return 0

    cdef int leave(self, int rc) except -1:
        self.busy = False
        if rc != SN_OK:
            raise picture_error(rc, sn_codec_message(self.handle).decode("utf-8", "replace"))
        return 0

    cdef object leave_with(self, int rc, const sn_view *view):
        try:  # the view points into the codec: nobody else may enter before it is copied
            return array_of(view) if rc == SN_OK else None
        finally:
            self.leave(rc)

    def probe(self, const uint8_t[::1] data):
        """``(height, width)`` by the header alone."""
        cdef uint32_t height = 0, width = 0
        cdef int rc
        self.enter()
        with nogil:
            rc = sn_codec_probe(self.handle, &data[0], data.shape[0], &height, &width)
        self.leave(rc)
        return height, width

    def decode(self, Plan plan, const uint8_t[::1] data):
        """DECODED: the picture after the head of ``plan``, uint8 ``(height, width, 3)``."""
        cdef sn_view view
        cdef int rc
        refuse_sounds(plan)
        self.enter()
        with nogil:
            rc = sn_codec_decode(self.handle, &plan.value, &data[0], data.shape[0], &view)
        return self.leave_with(rc, &view)

    def decode_region(self, const uint8_t[::1] data, uint32_t top, uint32_t left, uint32_t height,
                      uint32_t width):
        """A rectangle of the picture, without any op: uint8 ``(height, width, 3)``."""
        cdef sn_view view
        cdef int rc
        self.enter()
        with nogil:
            rc = sn_codec_decode_region(self.handle, &data[0], data.shape[0], top, left, height, width,
                                        &view)
        return self.leave_with(rc, &view)

    def head(self, Plan plan, picture):
        """DECODED, from a picture that was decoded elsewhere."""
        cdef sn_view view, source = view_of(picture)
        cdef int rc
        check_kind(plan, picture)
        self.enter()
        with nogil:
            rc = sn_codec_head(self.handle, &plan.value, &source, &view)
        return self.leave_with(rc, &view)

    def augment_encoded(self, Plan plan, const uint8_t[::1] data, uint64_t seed, uint64_t nonce,
                        uint32_t epoch, uint32_t index):
        """AUGMENTED, straight from the file: uint8 ``(height, width, 3)`` of ``output_size()``."""
        return self.augment(plan, data, rng_of(seed, nonce, epoch, index), False, NULL)

    def augment_recoded(self, Plan plan, const uint8_t[::1] payload, uint64_t seed, uint64_t nonce,
                        uint32_t epoch, uint32_t index):
        """AUGMENTED, from what :meth:`recode` gives: the same as straight from the file."""
        return self.augment(plan, payload, rng_of(seed, nonce, epoch, index), True, NULL)

    def augment_and_recode(self, Plan plan, const uint8_t[::1] data, uint64_t seed, uint64_t nonce,
                           uint32_t epoch, uint32_t index):
        """``(AUGMENTED, RECODED)``, of :meth:`augment_encoded` and :meth:`recode`, in one pass."""
        room = np.empty(sn_codec_most_recoded(data.shape[0]) or 1, np.uint8)
        cdef uint8_t[::1] out = room
        cdef sn_recoded_payload payload
        payload.bytes, payload.room = &out[0], out.shape[0]
        augmented = self.augment(plan, data, rng_of(seed, nonce, epoch, index), False, &payload)
        return augmented, self.recoded(&payload, room)

    def recode(self, const uint8_t[::1] data):
        """RECODED: the coefficients of a JPEG, uint8, flat; None: it has no such payload that is worth keeping."""
        room = np.empty(sn_codec_most_recoded(data.shape[0]) or 1, np.uint8)
        cdef uint8_t[::1] out = room
        cdef sn_recoded_payload payload
        payload.bytes, payload.room = &out[0], out.shape[0]
        self.enter()
        with nogil:
            sn_codec_recode(self.handle, &data[0], data.shape[0], &payload)
        self.busy = False
        return self.recoded(&payload, room)

    cdef augment(self, Plan plan, const uint8_t[::1] data, sn_rng rng, bint is_recoded, sn_recoded_payload *payload):
        array = room_for(plan)
        cdef uint8_t[::1] out = array
        cdef int rc
        self.enter()
        with nogil:
            if payload != NULL:
                rc = sn_codec_augment_and_recode(self.handle, &plan.value, &rng, &data[0], data.shape[0], payload, &out[0])
            elif is_recoded:
                rc = sn_codec_augment_recoded(self.handle, &plan.value, &rng, &data[0], data.shape[0], &out[0])
            else:
                rc = sn_codec_augment_encoded(self.handle, &plan.value, &rng, &data[0], data.shape[0], &out[0])
        self.leave(rc)
        return shaped(plan, array)

    cdef recoded(self, const sn_recoded_payload *payload, room):
        if payload.rc in (SN_E_FOR_PILLOW, SN_E_DECODE, SN_E_TOO_LARGE, SN_FULL):
            return None
        if payload.rc != 0:
            raise picture_error(payload.rc, "no memory for a recoded copy")
        return room[:payload.length]

    def augment_decoded(self, Plan plan, picture, uint64_t seed, uint64_t nonce, uint32_t epoch, uint32_t index):
        """AUGMENTED, by the tail of ``plan`` from DECODED."""
        array = room_for(plan)
        cdef uint8_t[::1] out = array
        cdef sn_view source = view_of(picture)
        cdef sn_rng rng = rng_of(seed, nonce, epoch, index)
        cdef int rc
        check_kind(plan, picture)
        self.enter()
        with nogil:
            rc = sn_codec_augment_decoded(self.handle, &plan.value, &rng, &source, &out[0])
        self.leave(rc)
        return shaped(plan, array)

    def set_boxes(self, boxes, are_shares=False):
        """The boxes of the pictures that are augmented from now on: float32 ``(n, 4)``, C-contiguous; in pixels, or as
        shares of the picture's sides."""
        cdef const float[:, ::1] sides = boxes
        cdef sn_boxes given
        if boxes.shape[1] != 4:
            raise ValueError(f"a box has 4 sides, but the shape is {boxes.shape}")
        given.count, given.are_shares = len(boxes), bool(are_shares)
        given.sides = <const float (*)[4]>&sides[0, 0] if len(boxes) else NULL
        self.enter()
        self.boxes = boxes
        sn_codec_set_boxes(self.handle, given)
        self.leave(SN_OK)

    def moves(self):
        """How the last call of these two has moved its picture, as a batch says it (``sn_moves``): uint32, flat."""
        array = np.empty(sizeof(sn_moves) // 4, np.uint32)
        cdef uint32_t[::1] out = array
        self.enter()
        memcpy(&out[0], sn_codec_moves(self.handle), sizeof(sn_moves))
        self.leave(SN_OK)
        return array


def resize(const uint8_t[:, :, :] picture, size, box, interpolation="bilinear", antialias=True):
    """Resize a box that may fall between pixels: for tests, and to see the result.

    Args:
        picture: uint8 ``(height, width, 3)``.
        size: ``(height, width)`` of the result.
        box: ``(left, top, right, bottom)``, inside the picture and not empty: Pillow's
            ``Image.resize(box=...)``.
        interpolation: ``"bilinear"`` or ``"bicubic"``.
        antialias: As torchvision's.
    """
    cdef sn_view source = view_of(picture)
    cdef sn_resizer resizer
    cdef sn_axis down, across
    cdef int rc
    array = np.empty((*size, 3), np.uint8)
    cdef uint8_t[:, :, ::1] out = array
    cdef double left, top, right, bottom
    left, top, right, bottom = box
    if not (0 <= left < right <= source.width and 0 <= top < bottom <= source.height) or array.size == 0:
        raise ValueError(f"box {box!r} or size {size!r} is empty, or not inside {source.height} x {source.width}")
    memset(&resizer, 0, sizeof(resizer))
    memset(&down, 0, sizeof(down))
    down.filter = filter_of(interpolation, antialias)
    across = down
    down.source, down.origin, down.extent = source.height, top, bottom - top
    across.source, across.origin, across.extent = source.width, left, right - left
    down.full = down.count = size[0]
    across.full = across.count = size[1]
    rc = sn_resizer_prepare(&resizer, &down, &across)
    if rc == SN_OK:
        source.pixels += resizer.down.span_first * source.stride + 3 * <size_t>resizer.across.span_first
        source.height, source.width = resizer.down.span_count, resizer.across.span_count
        rc = sn_resizer_run(&resizer, &source, &out[0, 0, 0], 3 * <size_t>across.count)
    sn_resizer_release(&resizer)
    if rc != SN_OK:
        raise picture_error(rc, "no memory for the resize")
    return array


cdef inline sn_rng rng_of(uint64_t seed, uint64_t nonce, uint32_t epoch, uint32_t index):
    cdef sn_rng rng
    sn_rng_start(&rng, seed, nonce, epoch, index, SN_STREAM_AUGMENT)
    return rng


@functools.cache
def jpeg_library():
    """A digest of the libjpeg-turbo that this process has loaded, as 32 hexadecimal digits.

    It is equal in all processes that load the same build, from whatever path. Another build may make other
    pixels of the same file. The first call hashes the library, in about a millisecond.
    """
    cdef sn_span spans[SN_LIBRARY_SPANS]
    cdef int i, count = sn_jpeg_library(spans)
    digest = hashlib.blake2b(digest_size=16)
    for i in range(count):
        digest.update(<const uint8_t[:spans[i].length]>spans[i].start)
    return digest.hexdigest()
