"""What csrc/codec declares of decoding and resizing, and the class that owns a codec."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from seneca._core.plan cimport Plan, sn_boxes, sn_moves, sn_plan
from seneca._core.rng cimport sn_rng


cdef extern from "codec/sn_codec.h" nogil:
    ctypedef struct sn_codec:
        pass

    ctypedef struct sn_view:
        const uint8_t *pixels
        uint32_t height, width
        size_t stride
        const uint8_t *mask
        uint32_t rate

    const char *sn_codec_simd()
    int sn_codec_libjpeg_turbo()
    int sn_codec_libpng()
    int sn_codec_libwebp()
    int sn_codec_libdeflate()
    int sn_codec_libsndfile()
    sn_codec *sn_codec_new(uint64_t max_pixels)
    void sn_codec_free(sn_codec *codec)
    const char *sn_codec_message(const sn_codec *codec)
    void sn_codec_set_boxes(sn_codec *codec, sn_boxes boxes)
    const sn_moves *sn_codec_moves(const sn_codec *codec)
    int sn_codec_probe(sn_codec *codec, const uint8_t *data, size_t length, uint32_t *height,
                       uint32_t *width)
    int sn_codec_probe_sound(sn_codec *codec, const uint8_t *data, size_t length, uint32_t *rate, uint32_t *channels,
                             uint64_t *frames)
    int sn_codec_decode(sn_codec *codec, const sn_plan *plan, const uint8_t *data, size_t length,
                        sn_view *out)
    int sn_codec_decode_region(sn_codec *codec, const uint8_t *data, size_t length, uint32_t top,
                               uint32_t left, uint32_t height, uint32_t width, sn_view *out)
    int sn_codec_head(sn_codec *codec, const sn_plan *plan, const sn_view *picture, sn_view *out)
    int sn_codec_augment_encoded(sn_codec *codec, const sn_plan *plan, sn_rng *rng,
                                 const uint8_t *data, size_t length, uint8_t *out)
    size_t sn_codec_most_recoded(size_t length)
    ctypedef struct sn_recoded_payload:
        void *bytes
        size_t room, length
        int rc
    int sn_codec_augment_and_recode(sn_codec *codec, const sn_plan *plan, sn_rng *rng, const uint8_t *data, size_t length,
                                    sn_recoded_payload *payload, uint8_t *out)
    int sn_codec_recode(sn_codec *codec, const uint8_t *data, size_t length, sn_recoded_payload *payload)
    int sn_codec_augment_recoded(sn_codec *codec, const sn_plan *plan, sn_rng *rng,
                                 const void *payload, size_t length, uint8_t *out)
    int sn_codec_augment_decoded(sn_codec *codec, const sn_plan *plan, sn_rng *rng,
                                 const sn_view *decoded, uint8_t *out)
    void sn_batch_write(const sn_plan *plan, const uint8_t *augmented, uint32_t height,
                        uint32_t width, sn_rng *rng, void *out)
    void sn_batch_write_mask(const sn_plan *plan, const uint8_t *mask, uint32_t height, uint32_t width, void *out)
    void sn_batch_mix_up(float *pictures, size_t count, size_t elements, float share, float rest,
                         const float *last)


cdef extern from "codec/formats/library.h" nogil:
    enum:
        SN_LIBRARY_SPANS

    ctypedef struct sn_span:
        const uint8_t *start
        size_t length

    int sn_jpeg_library(sn_span *spans)


cdef extern from "codec/kernels/taps.h" nogil:
    ctypedef struct sn_axis:
        uint32_t source
        double origin, extent
        uint32_t full, first, count
        bint flip
        uint32_t filter

    ctypedef struct sn_taps:
        uint32_t span_first, span_count


cdef extern from "codec/operations/resize.h" nogil:
    ctypedef struct sn_resizer:
        sn_taps down, across

    int sn_resizer_prepare(sn_resizer *resizer, const sn_axis *down, const sn_axis *across)
    int sn_resizer_run(sn_resizer *resizer, const sn_view *source, uint8_t *out, size_t stride)
    void sn_resizer_release(sn_resizer *resizer)


cdef class Codec:
    cdef sn_codec *handle    # owned: made in __cinit__, freed in __dealloc__
    cdef bint busy           # a thread is inside without the GIL
    cdef object boxes        # that the codec has
    cdef int enter(self) except -1
    cdef int leave(self, int rc) except -1
    cdef object leave_with(self, int rc, const sn_view *view)
    cdef object augment(self, Plan plan, const uint8_t[::1] data, sn_rng rng, bint is_recoded, sn_recoded_payload *payload)
    cdef object recoded(self, const sn_recoded_payload *payload, object room)
