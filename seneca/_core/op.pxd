"""What csrc/codec declares of one operation of a plan, and what fills it."""

from libc.stdint cimport uint8_t, uint16_t, uint32_t


cdef extern from "codec/sn_plan.h" nogil:
    enum:
        SN_MAX_SIZES
        SN_MAX_PARTS
        SN_N_OPS
        SN_IS_FIXED
        SN_KEEPS_SIZE
        SN_ANY_SIZE
        SN_READS_BOXES
        SN_IS_SOUND
        SN_SINC_HANN
        SN_SINC_KAISER
        SN_BILINEAR
        SN_BICUBIC
        SN_PLAIN_BILINEAR
        SN_PLAIN_BICUBIC
        SN_EITHER
        SN_WARP_NEAREST
        SN_WARP_BILINEAR
        SN_WARP_BICUBIC
        SN_WARP_EITHER
        SN_NOISE_NONE
        SN_NOISE_VALUES
        SN_NOISE_COLOURS
        SN_POLICY_IMAGENET
        SN_POLICY_CIFAR10
        SN_POLICY_SVHN
        SN_PAD_CONSTANT
        SN_PAD_EDGE
        SN_PAD_REFLECT
        SN_PAD_SYMMETRIC

    enum sn_argument_type:
        SN_WHOLE
        SN_REAL
        SN_RANGE
        SN_TWO_RANGES
        SN_POINT
        SN_SIZE
        SN_SHORT_OR_SIZE
        SN_SIZES
        SN_REALS
        SN_SIDES
        SN_COLOUR
        SN_BYTE
        SN_GIVEN
        SN_CHAINS
        SN_FILTER
        SN_WARP_FILTER
        SN_PADDING_MODE
        SN_POLICY

    ctypedef struct sn_part:
        uint16_t operation, ends
        float weight, probability, magnitude

    ctypedef struct sn_chains:
        uint32_t count
        sn_part parts[50]

    ctypedef struct sn_sizes:
        uint32_t count
        uint32_t sizes[16]

    ctypedef struct sn_reals:
        uint32_t count
        double values[16]

    ctypedef struct sn_op:
        uint32_t kind

    ctypedef struct sn_argument:
        const char *name
        size_t at
        sn_argument_type type
        double least, most, otherwise

    ctypedef struct sn_kind:
        const char *name
        uint32_t flags
        const sn_argument *arguments

    const sn_kind *sn_kinds
    void sn_op_begin(sn_op *op, uint32_t kind)

    ctypedef struct sn_erase:
        double probability
        double scale[2]
        double ratio[2]
        uint32_t fewest, most, noise
        float value[3]
        float deviation[3]


cdef object word(name, words, value)
cdef object filter_of(interpolation, antialias)
cdef object filter_name(filter)
cdef object padding_name(mode)
cdef int fill_op(sn_op *op, kind, arguments) except -1
cdef int fill_erase(sn_erase *erase, arguments) except -1
