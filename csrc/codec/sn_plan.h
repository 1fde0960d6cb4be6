/*
 * sn_plan.h -- a pipeline of transforms as the native path runs it.
 *
 *   ENCODED --decode--> [head ops] = DECODED --[tail ops]--> AUGMENTED --batch--> tensor
 *                       deterministic         random         uint8 HWC   normalise, cast, layout,
 *                                                                        erase
 *
 * Names and meaning are torchvision's; those of RESIZE_KEEP_RATIO and TIMM_<recipe> are timm's.
 *
 * Lives in   private memory; built once by seneca/_core/plan.pyx, read by every thread.
 * Owns       nothing: plain values.
 */
#ifndef SN_PLAN_H
#define SN_PLAN_H

#include <stdint.h>

#include "rect.h"

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
    SN_OP_RESIZE_KEEP_RATIO = 10,  /* size, longest, filter */
    SN_OP_RANDOM_RESIZE_KEEP_RATIO = 11, /* these, and probability with scale, by_area; aspect_probability
                                            with ratio */
    SN_OP_SCALE_JITTER = 12,       /* size, scale, filter */
    SN_OP_RANDOM_SHORTEST_SIZE = 13, /* one of `count` sizes, max_size, filter */
    SN_OP_RANDOM_ZOOM_OUT = 14,    /* probability; scale: of the sides, from 1; fill */
    SN_OP_RANDOM_ROTATION = 15,    /* degrees, center, warp, fill */
    SN_OP_RANDOM_AFFINE = 16,      /* degrees, translate, scale, shear, center, warp, fill */
    SN_OP_GAUSSIAN_BLUR = 17,      /* size of the kernel, sigma */
    SN_OP_RANDOM_INVERT = 18,      /* probability */
    SN_OP_RANDOM_POSTERIZE = 19,   /* probability; amount: bits */
    SN_OP_RANDOM_SOLARIZE = 20,    /* probability; amount: threshold */
    SN_OP_RANDOM_SHARPNESS = 21,   /* probability; amount: factor */
    SN_OP_RANDOM_AUTOCONTRAST = 22, /* probability */
    SN_OP_RANDOM_EQUALIZE = 23,    /* probability */
    SN_OP_RAND_AUGMENT = 24,       /* count, magnitude, bins, warp, fill */
    SN_OP_TRIVIAL_AUGMENT = 25,    /* bins, warp, fill */
    SN_OP_AUTO_AUGMENT = 26,       /* policy, warp, fill */
    SN_OP_TIMM_AUGMENT = 27,       /* parts, count, distinct, deviation, most, translate, warp, fill */
    SN_OP_TIMM_AUG_MIX = 28,       /* these but for distinct, depth, alpha; count: chains */
    SN_OP_AUG_MIX = 29,            /* magnitude: severity; count: chains, depth, alpha, all_ops, warp, fill */
    SN_OP_RANDOM_PERSPECTIVE = 30, /* probability; amount: distortion; warp, fill */
    SN_OP_ELASTIC = 31,            /* alpha, sigma, warp, fill */
    SN_OP_RANDOM_APPLY = 32,       /* probability; the ops of its span, or none of them */
    SN_OP_RANDOM_CHOICE = 33,      /* one of the branches in its span */
    SN_OP_RANDOM_ORDER = 34,       /* all branches in its span, in a random order */
    SN_OP_BRANCH = 35              /* probability, for RANDOM_CHOICE: the ops of its span */
};

/* Kinds from here on are groups: the next `span` ops are their members. Members keep a picture's size. */
#define SN_FIRST_GROUP SN_OP_RANDOM_APPLY

/* How a resize weighs its samples. Antialiased, as Pillow does it; SN_PLAIN_*: the support is not
 * widened when shrinking, as torchvision's antialias=False on tensors. */
enum sn_filter {
    SN_BILINEAR = 0,
    SN_BICUBIC = 1,
    SN_PLAIN_BILINEAR = 2,
    SN_PLAIN_BICUBIC = 3,
    SN_EITHER = 4 /* BILINEAR or BICUBIC, drawn; of a random resize only */
};

enum sn_padding_mode { SN_PAD_CONSTANT = 0, SN_PAD_EDGE = 1, SN_PAD_REFLECT = 2, SN_PAD_SYMMETRIC = 3 };

/* How a warp looks the colours up. */
enum sn_warp_filter {
    SN_WARP_NEAREST = 0,
    SN_WARP_BILINEAR = 1,
    SN_WARP_BICUBIC = 2,
    SN_WARP_EITHER = 3 /* BILINEAR or BICUBIC, drawn for each warp; of timm's recipes only */
};

enum sn_policy { SN_POLICY_IMAGENET = 0, SN_POLICY_CIFAR10 = 1, SN_POLICY_SVHN = 2, SN_N_POLICIES = 3 };

#define SN_MAX_COUNT 8  /* operations of one RandAugment */
#define SN_MAX_SIZES 16 /* of RandomShortestSize */
#define SN_MAX_PARTS 50 /* of timm's recipes: 25 pairs */

/* The operations of timm's recipes, by its names and in the order of its table. */
enum sn_timm_operation {
    SN_TIMM_AUTO_CONTRAST,
    SN_TIMM_EQUALIZE,
    SN_TIMM_INVERT,
    SN_TIMM_ROTATE,
    SN_TIMM_POSTERIZE,
    SN_TIMM_POSTERIZE_INCREASING,
    SN_TIMM_POSTERIZE_ORIGINAL,
    SN_TIMM_SOLARIZE,
    SN_TIMM_SOLARIZE_INCREASING,
    SN_TIMM_SOLARIZE_ADD,
    SN_TIMM_COLOR,
    SN_TIMM_COLOR_INCREASING,
    SN_TIMM_CONTRAST,
    SN_TIMM_CONTRAST_INCREASING,
    SN_TIMM_BRIGHTNESS,
    SN_TIMM_BRIGHTNESS_INCREASING,
    SN_TIMM_SHARPNESS,
    SN_TIMM_SHARPNESS_INCREASING,
    SN_TIMM_SHEAR_X,
    SN_TIMM_SHEAR_Y,
    SN_TIMM_TRANSLATE_X_REL,
    SN_TIMM_TRANSLATE_Y_REL,
    SN_TIMM_DESATURATE,
    SN_TIMM_GAUSSIAN_BLUR,
    SN_TIMM_GAUSSIAN_BLUR_RAND,
    SN_N_TIMM_OPERATIONS
};

/* One operation of a recipe. Neighbours form a chain, which ends with the part that says so. */
typedef struct {
    uint32_t operation; /* enum sn_timm_operation */
    uint32_t ends;      /* 1: the last one of its chain */
    float weight;       /* of the chain that begins here: how probable it is */
    float probability;  /* that the operation is applied */
    float magnitude;    /* its mean */
} sn_part;

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
    double longest;                           /* how far the longer side decides, from 0 to 1 */
    double aspect_probability;
    uint32_t by_area;                         /* 1: scale is of the area that is kept */
    uint32_t sizes[SN_MAX_SIZES];
    uint32_t n_parts;
    sn_part parts[SN_MAX_PARTS];
    uint32_t distinct;                        /* 1: no chain is chosen twice */
    double deviation;                         /* of magnitudes; infinite: uniform from 0 to the mean */
    double most;                              /* magnitudes are cut to 0 ... this */
    uint32_t depth;                           /* operations of a chain; 0: 1 to 3, drawn */
    uint32_t all_ops, has_fill;               /* has_fill 0: black, which fades in at the edge */
    double alpha[2];
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

/* What is normally distributed: nothing, each value, or the colour of each box. */
enum sn_noise { SN_NOISE_NONE = 0, SN_NOISE_VALUES = 1, SN_NOISE_COLOURS = 2 };

/* RandomErasing, which works on what leaves the pipeline: drawn for each delivery. */
typedef struct {
    double probability; /* 0: none */
    double scale[2], ratio[2];
    uint32_t fewest, most; /* boxes, which share the area; 0: one */
    uint32_t noise;     /* enum sn_noise: value is its mean, deviation is below */
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
    uint32_t has_moves;  /* 1: sn_moves follow the pixels of AUGMENTED, and there is no head */
    uint64_t leaves_above;   /* SN_E_FOR_PILLOW of pictures with more pixels, because Pillow warns of them; 0: of none */
    uint32_t leaves_damaged; /* 1: SN_E_FOR_PILLOW in place of SN_E_DECODE, because Pillow is set to go on from damage */
} sn_plan;

/* How a picture was moved: what a caller needs to move its boxes likewise. Each random op that moves has an entry, in
 * their order:
 *   RANDOM_RESIZED_CROP, RANDOM_CROP   the part that is cut out, of the padded picture
 *   RANDOM_HFLIP, RANDOM_VFLIP         the picture
 *   SCALE_JITTER, RANDOM_SHORTEST_SIZE the new size
 *   RANDOM_ZOOM_OUT                    the place of the picture on its canvas, and the canvas's size
 * All zero: the op did nothing. Warps have none. */
typedef struct {
    uint32_t height, width; /* before the first op */
    sn_rect drawn[SN_PLAN_MAX_OPS];
} sn_moves;

/* How many bytes a pixel of DECODED and AUGMENTED has: red, green and blue, and the mask's if there is one. All
 * pixels of the picture come first, then those of the mask. */
static inline uint32_t sn_plan_pixel_bytes(const sn_plan *plan)
{
    return plan->is_pair ? 4 : 3;
}

/* How many bytes AUGMENTED of this size has. */
static inline uint64_t sn_plan_copy_bytes(const sn_plan *plan, uint32_t height, uint32_t width)
{
    return (uint64_t)sn_plan_pixel_bytes(plan) * height * width + (plan->has_moves ? sizeof(sn_moves) : 0);
}

/* How many bytes a pixel of a batch's masks has; 0: there are none. */
static inline uint32_t sn_plan_mask_bytes(const sn_plan *plan)
{
    return !plan->is_pair ? 0 : plan->mask_dtype == SN_MASK_INT64 ? 8 : 1;
}

#endif
