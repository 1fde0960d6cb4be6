"""What csrc/codec declares of one operation of a plan, and what fills it."""

from libc.stdint cimport uint8_t, uint32_t


cdef extern from "codec/sn_plan.h" nogil:
    enum:
        SN_MAX_SIZES
        SN_MAX_PARTS
        SN_OP_RESIZE
        SN_OP_CENTER_CROP
        SN_OP_RANDOM_RESIZED_CROP
        SN_OP_RANDOM_HFLIP
        SN_OP_RANDOM_VFLIP
        SN_OP_PAD
        SN_OP_RANDOM_CROP
        SN_OP_COLOR_JITTER
        SN_OP_RANDOM_GRAYSCALE
        SN_OP_RANDOM_ROTATION
        SN_OP_RANDOM_AFFINE
        SN_OP_GAUSSIAN_BLUR
        SN_OP_RANDOM_INVERT
        SN_OP_RANDOM_POSTERIZE
        SN_OP_RANDOM_SOLARIZE
        SN_OP_RANDOM_SHARPNESS
        SN_OP_RANDOM_AUTOCONTRAST
        SN_OP_RANDOM_EQUALIZE
        SN_OP_RAND_AUGMENT
        SN_OP_TRIVIAL_AUGMENT
        SN_OP_AUTO_AUGMENT
        SN_OP_RESIZE_KEEP_RATIO
        SN_OP_RANDOM_RESIZE_KEEP_RATIO
        SN_OP_SCALE_JITTER
        SN_OP_RANDOM_SHORTEST_SIZE
        SN_OP_RANDOM_ZOOM_OUT
        SN_OP_TIMM_AUGMENT
        SN_OP_TIMM_AUG_MIX
        SN_OP_AUG_MIX
        SN_OP_RANDOM_PERSPECTIVE
        SN_OP_ELASTIC
        SN_OP_RANDOM_APPLY
        SN_OP_RANDOM_CHOICE
        SN_OP_RANDOM_ORDER
        SN_OP_BRANCH
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

    ctypedef struct sn_part:
        uint32_t operation, ends
        float weight, probability, magnitude

    ctypedef struct sn_op:
        uint32_t kind, height, width, max_size, filter
        uint32_t padding[4]
        uint32_t padding_mode, pad_if_needed
        uint8_t fill[3]
        uint8_t mask_fill
        double scale[2]
        double ratio[2]
        double probability
        double brightness[2]
        double contrast[2]
        double saturation[2]
        double hue[2]
        uint32_t warp, has_center
        double center[2]
        double degrees[2]
        double shear[4]
        double translate[2]
        double sigma[2]
        double amount
        uint32_t count, magnitude, bins, policy, span
        double longest, aspect_probability
        uint32_t by_area
        uint32_t sizes[16]
        uint32_t n_parts
        sn_part parts[50]
        uint32_t distinct
        double deviation, most
        uint32_t depth, all_ops, has_fill
        double alpha[2]

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
