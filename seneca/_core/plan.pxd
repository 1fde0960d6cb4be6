"""What csrc/codec declares of plans and routes, and the class that has a plan."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from seneca._core.op cimport sn_erase, sn_op
from seneca._core.rng cimport sn_rng


cdef extern from "codec/sn_plan.h" nogil:
    enum:
        SN_PLAN_MAX_OPS
        SN_UINT8
        SN_FLOAT32
        SN_FLOAT16
        SN_BFLOAT16
        SN_DECODE_EXACT
        SN_DECODE_FAST
        SN_MASK_UINT8
        SN_MASK_INT64

    ctypedef struct sn_plan:
        uint32_t n_ops, n_head
        sn_op ops[16]
        uint32_t decode, apply_orientation, dtype, channels_last
        float divisor
        float mean[3]
        float std[3]
        sn_erase erase
        uint64_t leaves_above
        uint32_t leaves_erasing, is_pair, mask_dtype, has_moves, leaves_damaged
        uint32_t is_sound, channels

    ctypedef struct sn_erasure:
        pass

    ctypedef struct sn_moves:
        uint32_t height, width

    ctypedef struct sn_boxes:
        const float (*sides)[4]
        uint32_t count, are_shares

    uint32_t sn_dtype_bytes(uint32_t dtype)
    uint32_t sn_plan_pixel_bytes(const sn_plan *plan)
    uint64_t sn_plan_item_bytes(const sn_plan *plan, uint32_t height, uint32_t width)
    uint64_t sn_plan_copy_bytes(const sn_plan *plan, uint32_t height, uint32_t width)
    uint32_t sn_plan_mask_bytes(const sn_plan *plan)
    uint32_t sn_plan_erasures(const sn_plan *plan)


cdef extern from "codec/sn_codec.h" nogil:
    int sn_plan_check(const sn_plan *plan)
    int sn_plan_output_size(const sn_plan *plan, uint32_t *height, uint32_t *width)


cdef extern from "codec/operations/colour.h" nogil:
    enum:
        SN_BRIGHTNESS
        SN_CONTRAST
        SN_SATURATION
        SN_HUE

    ctypedef struct sn_colour:
        uint32_t kind
        float factor
        uint8_t turn


cdef extern from "codec/operations/edit.h" nogil:
    enum:
        SN_EDIT_COLOUR
        SN_EDIT_TONE
        SN_EDIT_SHARPNESS
        SN_EDIT_BLUR
        SN_EDIT_WARP
        SN_EDIT_SOFTEN
        SN_EDIT_ELASTIC
        SN_EDIT_MIX_BEGIN
        SN_EDIT_MIX_ADD
        SN_EDIT_MIX_END

    ctypedef struct sn_tone:
        uint32_t kind, amount

    ctypedef struct sn_blur:
        uint32_t height, width
        double sigma

    ctypedef struct sn_warp:
        double matrix[8]
        uint32_t filter
        uint8_t fill[3]
        bint projective

    ctypedef struct sn_elastic:
        uint64_t seed

    ctypedef struct sn_edit:
        uint32_t kind
        sn_colour colour
        sn_tone tone
        float sharpness
        sn_blur blur
        sn_warp warp
        float soften
        sn_elastic elastic
        float weight


cdef extern from "codec/operations/route.h" nogil:
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
        uint32_t first_edit, n_edits

    ctypedef struct sn_route:
        uint32_t n_passes
        sn_pass passes[49]
        sn_edit edits[512]

    int sn_route_lay(sn_route *route, const sn_op *ops, uint32_t n_ops, sn_rng *rng,
                     uint32_t height, uint32_t width, const sn_boxes *boxes, uint64_t max_pixels)


cdef class Plan:
    cdef sn_plan value       # checked once, then never changed: read it from any thread
    cdef readonly uint32_t height, width  # of AUGMENTED; 0 where they depend on the picture; of a sound channels, frames
    cdef readonly uint64_t copy_bytes     # of AUGMENTED
    cdef readonly uint64_t beside_bytes   # of what goes beside one sample of a batch: a mask, or how it was moved
    cdef readonly uint64_t erasure_bytes  # of the erasures of one sample that are left to whoever takes the batch
    cdef int lend(self, others, uint64_t samples, uint8_t **beside, sn_erasure **erasures) except -1
