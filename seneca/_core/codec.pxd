"""What the codec's C headers declare, and the classes that own its handles."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t


cdef extern from "base/sn_status.h" nogil:
    enum:
        SN_OK
        SN_E_NOT_JPEG
        SN_E_DECODE
        SN_E_TOO_LARGE
        SN_E_PLAN


cdef extern from "base/sn_rng.h" nogil:
    ctypedef struct sn_rng:
        pass

    enum sn_stream:
        SN_STREAM_AUGMENT
        SN_STREAM_ORDER
        SN_STREAM_CHOOSE
        SN_STREAM_ERASE

    void sn_philox(const uint32_t *key, const uint32_t *counter, uint32_t *out)
    void sn_rng_start(sn_rng *rng, uint64_t seed, uint64_t nonce, uint32_t epoch, uint32_t index,
                      sn_stream stream)
    uint32_t sn_rng_u32(sn_rng *rng)
    double sn_rng_double(sn_rng *rng)
    uint32_t sn_rng_below(sn_rng *rng, uint32_t n)


cdef extern from "codec/sn_plan.h" nogil:
    enum:
        SN_PLAN_MAX_OPS
        SN_OP_RESIZE
        SN_OP_CENTER_CROP
        SN_OP_RANDOM_RESIZED_CROP
        SN_OP_RANDOM_HFLIP
        SN_OP_RANDOM_VFLIP
        SN_OP_PAD
        SN_OP_RANDOM_CROP
        SN_OP_COLOR_JITTER
        SN_OP_RANDOM_GRAYSCALE
        SN_BILINEAR
        SN_BICUBIC
        SN_PLAIN_BILINEAR
        SN_PLAIN_BICUBIC
        SN_PAD_CONSTANT
        SN_PAD_EDGE
        SN_PAD_REFLECT
        SN_PAD_SYMMETRIC
        SN_UINT8
        SN_FLOAT32
        SN_FLOAT16
        SN_BFLOAT16
        SN_DECODE_EXACT
        SN_DECODE_FAST

    ctypedef struct sn_op:
        uint32_t kind, height, width, max_size, filter
        uint32_t padding[4]
        uint32_t padding_mode, pad_if_needed
        uint8_t fill[3]
        double scale[2]
        double ratio[2]
        double probability
        double brightness[2]
        double contrast[2]
        double saturation[2]
        double hue[2]

    ctypedef struct sn_erase:
        double probability
        double scale[2]
        double ratio[2]
        uint32_t noise
        float value[3]
        float deviation[3]

    ctypedef struct sn_plan:
        uint32_t n_ops, n_head
        sn_op ops[16]
        uint32_t decode, apply_orientation, dtype, channels_last
        float divisor
        float mean[3]
        float std[3]
        sn_erase erase

    uint32_t sn_dtype_bytes(uint32_t dtype)


cdef extern from "codec/sn_codec.h" nogil:
    ctypedef struct sn_codec:
        pass

    ctypedef struct sn_view:
        const uint8_t *pixels
        uint32_t height, width
        size_t stride

    sn_codec *sn_codec_new(uint64_t max_pixels)
    void sn_codec_free(sn_codec *codec)
    const char *sn_codec_message(const sn_codec *codec)
    int sn_codec_probe(sn_codec *codec, const uint8_t *data, size_t length, uint32_t *height,
                       uint32_t *width)
    int sn_codec_decode(sn_codec *codec, const sn_plan *plan, const uint8_t *data, size_t length,
                        sn_view *out)
    int sn_codec_decode_region(sn_codec *codec, const uint8_t *data, size_t length, uint32_t top,
                               uint32_t left, uint32_t height, uint32_t width, sn_view *out)
    int sn_codec_head(sn_codec *codec, const sn_plan *plan, const sn_view *picture, sn_view *out)
    int sn_plan_check(const sn_plan *plan)
    int sn_plan_output_size(const sn_plan *plan, uint32_t *height, uint32_t *width)
    int sn_codec_augment_encoded(sn_codec *codec, const sn_plan *plan, sn_rng *rng,
                                 const uint8_t *data, size_t length, uint8_t *out)
    int sn_codec_augment_decoded(sn_codec *codec, const sn_plan *plan, sn_rng *rng,
                                 const sn_view *decoded, uint8_t *out)
    void sn_batch_write(const sn_plan *plan, const uint8_t *augmented, uint32_t height,
                        uint32_t width, sn_rng *rng, void *out)


cdef extern from "codec/colour.h" nogil:
    enum:
        SN_BRIGHTNESS
        SN_CONTRAST
        SN_SATURATION
        SN_HUE

    ctypedef struct sn_colour:
        uint32_t kind
        float factor
        uint8_t turn


cdef extern from "codec/taps.h" nogil:
    ctypedef struct sn_axis:
        uint32_t source
        double origin, extent
        uint32_t full, first, count
        bint flip
        uint32_t filter

    ctypedef struct sn_taps:
        uint32_t span_first, span_count


cdef extern from "codec/resize.h" nogil:
    ctypedef struct sn_resizer:
        sn_taps down, across

    int sn_resizer_prepare(sn_resizer *resizer, const sn_axis *down, const sn_axis *across)
    int sn_resizer_run(sn_resizer *resizer, const sn_view *source, uint8_t *out, size_t stride)
    void sn_resizer_release(sn_resizer *resizer)


cdef extern from "codec/route.h" nogil:
    ctypedef struct sn_rect:
        uint32_t top, left, height, width

    ctypedef struct sn_border:
        uint32_t mode
        uint8_t fill[3]

    ctypedef struct sn_pass:
        sn_rect box
        uint32_t full_height, full_width, filter
        sn_rect window
        bint flip, vflip
        uint32_t height, width, top, left
        sn_border border
        uint32_t first_colour, n_colours

    ctypedef struct sn_route:
        uint32_t n_passes
        sn_pass passes[49]
        sn_colour colours[64]

    int sn_route_lay(sn_route *route, const sn_op *ops, uint32_t n_ops, sn_rng *rng,
                     uint32_t height, uint32_t width, uint64_t max_pixels)


cdef class Plan:
    cdef sn_plan value       # checked once, then never changed: read it from any thread
    cdef readonly uint32_t height, width  # of AUGMENTED; 0 where they depend on the picture


cdef class Codec:
    cdef sn_codec *handle    # owned: made in __cinit__, freed in __dealloc__
    cdef bint busy           # a thread is inside without the GIL
    cdef int enter(self) except -1
    cdef int leave(self, int rc) except -1
    cdef object leave_with(self, int rc, const sn_view *view)


cdef class Rng:
    cdef sn_rng value
