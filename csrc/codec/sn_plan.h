/*
 * sn_plan.h -- a pipeline of transforms as the native path runs it.
 *
 *   ENCODED --decode--> [head ops] = DECODED --[tail ops]--> AUGMENTED --batch--> tensor
 *                       deterministic         random         uint8 HWC   normalise, cast, layout,
 *                                                                        erase
 *
 * Names and meaning are torchvision's.
 *
 * Lives in   private memory; built once by seneca/_pipeline/plan.py, read by every thread.
 * Owns       nothing: plain values.
 */
#ifndef SN_PLAN_H
#define SN_PLAN_H

#include <stdint.h>

#define SN_PLAN_MAX_OPS 16

enum sn_op_kind {
    SN_OP_RESIZE = 1,              /* size, filter; width 0: height is the short side, which
                                      max_size (0: none) may lower so that the long side fits */
    SN_OP_CENTER_CROP = 2,         /* size; smaller pictures are padded with 0 */
    SN_OP_RANDOM_RESIZED_CROP = 3, /* size, scale, ratio, filter: ten tries, then torchvision's
                                      fallback */
    SN_OP_RANDOM_HFLIP = 4,        /* probability */
    SN_OP_RANDOM_VFLIP = 5,        /* probability */
    SN_OP_PAD = 6,                 /* padding, fill, padding_mode */
    SN_OP_RANDOM_CROP = 7,         /* size, then as PAD; pad_if_needed */
    SN_OP_COLOR_JITTER = 8,        /* brightness, contrast, saturation, hue, in a random order */
    SN_OP_RANDOM_GRAYSCALE = 9,    /* probability */
    SN_OP_RANDOM_ROTATION = 10,    /* degrees, center, warp, fill */
    SN_OP_RANDOM_AFFINE = 11,      /* degrees, translate, scale, shear, center, warp, fill */
    SN_OP_GAUSSIAN_BLUR = 12,      /* size of the kernel, sigma */
    SN_OP_RANDOM_INVERT = 13,      /* probability */
    SN_OP_RANDOM_POSTERIZE = 14,   /* probability; amount: bits */
    SN_OP_RANDOM_SOLARIZE = 15,    /* probability; amount: threshold */
    SN_OP_RANDOM_SHARPNESS = 16,   /* probability; amount: factor */
    SN_OP_RANDOM_AUTOCONTRAST = 17, /* probability */
    SN_OP_RANDOM_EQUALIZE = 18,    /* probability */
    SN_OP_RAND_AUGMENT = 19,       /* count, magnitude, bins, warp, fill */
    SN_OP_TRIVIAL_AUGMENT = 20,    /* bins, warp, fill */
    SN_OP_AUTO_AUGMENT = 21,       /* policy, warp, fill */
    SN_OP_RANDOM_APPLY = 22,       /* probability; the ops of its span, or none of them */
    SN_OP_RANDOM_CHOICE = 23,      /* one of the branches in its span */
    SN_OP_RANDOM_ORDER = 24,       /* all branches in its span, in a random order */
    SN_OP_BRANCH = 25              /* probability, for RANDOM_CHOICE: the ops of its span */
};

/* Kinds from here on are groups: the next `span` ops are their members. Members keep a picture's size. */
#define SN_FIRST_GROUP SN_OP_RANDOM_APPLY

/* How a resize weighs its samples. Antialiased, as Pillow does it; SN_PLAIN_*: the support is not
 * widened when shrinking, as torchvision's antialias=False on tensors. */
enum sn_filter { SN_BILINEAR = 0, SN_BICUBIC = 1, SN_PLAIN_BILINEAR = 2, SN_PLAIN_BICUBIC = 3 };

enum sn_padding_mode { SN_PAD_CONSTANT = 0, SN_PAD_EDGE = 1, SN_PAD_REFLECT = 2, SN_PAD_SYMMETRIC = 3 };

/* How a warp looks the colours up. */
enum sn_warp_filter { SN_WARP_NEAREST = 0, SN_WARP_BILINEAR = 1, SN_WARP_BICUBIC = 2 };

enum sn_policy { SN_POLICY_IMAGENET = 0, SN_POLICY_CIFAR10 = 1, SN_POLICY_SVHN = 2, SN_N_POLICIES = 3 };

#define SN_MAX_COUNT 8 /* operations of one RandAugment */

typedef struct {
    uint32_t kind;
    uint32_t height, width, max_size;
    uint32_t filter;       /* enum sn_filter */
    uint32_t padding[4];   /* left, top, right, bottom */
    uint32_t padding_mode; /* enum sn_padding_mode */
    uint32_t pad_if_needed;
    uint8_t fill[3];
    uint8_t mask_fill;     /* of a pair: what a mask has there */
    double scale[2], ratio[2];
    double probability;
    double brightness[2], contrast[2], saturation[2], hue[2]; /* ranges of the factor; {1, 1}, and
                                                                 {0, 0} for hue: left as it is */
    uint32_t warp;                            /* enum sn_warp_filter */
    uint32_t has_center;                      /* 0: the picture's middle */
    double center[2];                         /* x, y */
    double degrees[2], shear[4];              /* ranges: of the turn; along x, along y */
    double translate[2];                      /* most shares of the width and the height */
    double sigma[2];
    double amount;
    uint32_t count, magnitude, bins, policy;  /* magnitude: of the bins, from 0 */
    uint32_t span;                            /* of a group: how many ops after it are its members */
} sn_op;

enum sn_dtype { SN_UINT8 = 0, SN_FLOAT32 = 1, SN_FLOAT16 = 2, SN_BFLOAT16 = 3 };

/* How many bytes a number of the batch has. */
static inline uint32_t sn_dtype_bytes(uint32_t dtype)
{
    return dtype == SN_FLOAT32 ? 4 : dtype == SN_UINT8 ? 1 : 2;
}

enum sn_mask_dtype { SN_MASK_UINT8 = 0, SN_MASK_INT64 = 1 };

enum sn_decode { SN_DECODE_EXACT = 0, SN_DECODE_FAST = 1 };

/* RandomErasing, which works on what leaves the pipeline: drawn for each delivery. */
typedef struct {
    double probability; /* 0: none */
    double scale[2], ratio[2];
    uint32_t noise;     /* 1: normal noise for each value, value is its mean and deviation is below */
    float value[3];     /* in the units of the output */
    float deviation[3];
} sn_erase;

typedef struct {
    uint32_t n_ops;
    uint32_t n_head; /* the first n_head ops are deterministic: their result is DECODED */
    sn_op ops[SN_PLAN_MAX_OPS];

    uint32_t decode;            /* enum sn_decode */
    uint32_t apply_orientation; /* 1: turn the picture as its EXIF orientation says */

    /* Batch: out = (pixel / divisor - mean) / std, rounded once to a float type; the pixel itself
     * for SN_UINT8. */
    uint32_t dtype;
    uint32_t channels_last; /* 0: CHW, 1: HWC */
    float divisor;          /* 255, or 1 to leave 0 ... 255 */
    float mean[3], std[3];
    sn_erase erase;

    uint32_t is_pair;    /* 1: each sample is a picture and its mask, see mask.h */
    uint32_t mask_dtype; /* enum sn_mask_dtype: of the batch's masks */
} sn_plan;

/* How many bytes a pixel of DECODED and AUGMENTED has: red, green and blue, and the mask's if there is one. All
 * pixels of the picture come first, then those of the mask. */
static inline uint32_t sn_plan_pixel_bytes(const sn_plan *plan)
{
    return plan->is_pair ? 4 : 3;
}

/* How many bytes a pixel of a batch's masks has; 0: there are none. */
static inline uint32_t sn_plan_mask_bytes(const sn_plan *plan)
{
    return !plan->is_pair ? 0 : plan->mask_dtype == SN_MASK_INT64 ? 8 : 1;
}

#endif
