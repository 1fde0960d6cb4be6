/*
 * sn_plan.h -- a pipeline of transforms as the native path runs it.
 *
 *   ENCODED --decode--> [head ops] = DECODED --[tail ops]--> AUGMENTED --batch--> tensor
 *                       deterministic         random         uint8 HWC   normalise, cast, layout,
 *                                                                        erase
 *
 * Names and meaning of operations are torchvision's; those of RESIZE_KEEP_RATIO and TIMM_<recipe> are timm's. Each has
 * a line in ops.def.
 *
 * A plan may be of sounds: all its ops are then SOUND in ops.def, whose meaning is torchaudio's. DECODED and AUGMENTED
 * are float32, one channel after another, each of so many frames. Their size is (channels, frames) where that of
 * pictures is (height, width).
 *
 * Lives in   private memory; built once by seneca/_core/plan.pyx, read by every thread.
 * Owns       nothing: plain values.
 */
#ifndef SN_PLAN_H
#define SN_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rect.h"

#define SN_PLAN_MAX_OPS 16

enum sn_op_kind {
    SN_OP_NONE,
#define OP(KIND, ...) SN_OP_##KIND,
#include "ops.def"
    SN_N_OPS
};

/* The flags of a kind. */
enum sn_op_flags {
    SN_IS_FIXED = 1,     /* draws nothing: may be in the head */
    SN_KEEPS_SIZE = 2,   /* the result has the picture's size: may be a member of a group */
    SN_SETS_SIZE = 4,    /* the result has `size`; width 0: see RESIZE */
    SN_ANY_SIZE = 8,     /* the result's size is drawn, or depends on the picture's */
    SN_IS_GROUP = 16,    /* the next `span` ops are its members */
    SN_READS_BOXES = 32, /* what is drawn depends on the picture's boxes */
    SN_IS_SOUND = 64     /* of a plan of sounds, and of no other */
};

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

/* What the sinc of a RESAMPLE is multiplied with: torchaudio's sinc_interp_hann and sinc_interp_kaiser. */
enum sn_sinc_window { SN_SINC_HANN = 0, SN_SINC_KAISER = 1 };

enum sn_policy { SN_POLICY_IMAGENET = 0, SN_POLICY_CIFAR10 = 1, SN_POLICY_SVHN = 2, SN_N_POLICIES = 3 };

#define SN_MAX_SIZE 65535 /* a JPEG's longest side; what leaves the pipeline need not be longer */
#define SN_MAX_NUMBER                                                                                                  \
    1e6 /* within this, no step of the normalisation leaves the normal floats, which the vector
                               code relies on, and a blended pixel fits an int */
#define SN_MAX_DEGREES 1e6
#define SN_MAX_BINS 1024
#define SN_MAX_ALPHA 1000.0
#define SN_TIMM_MOST 1000.0 /* magnitude */
#define SN_MAX_COUNT 8      /* operations of one RandAugment */
#define SN_MAX_TRIALS 1000  /* of RandomIoUCrop */
#define SN_MAX_SIZES 16     /* of RandomShortestSize, and overlaps */
#define SN_MAX_PARTS 50     /* of timm's recipes: 25 pairs */

#define SN_MAX_CHANNELS 64       /* of a sound */
#define SN_MAX_FRAMES 0x10000000 /* of all channels together that are in memory: 1 GiB of float32 */
#define SN_MAX_RATE 1000000      /* frames a second */
#define SN_MAX_ZERO_CROSSINGS 1024
#define SN_MAX_BETA 100.0 /* within this, the Kaiser window is far from overflow */
#define SN_MAX_DECIBELS 200.0
#define SN_MAX_RESAMPLES 4 /* of one plan: a codec keeps as many tables */

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
    uint16_t operation; /* enum sn_timm_operation */
    uint16_t ends;      /* 1: the last one of its chain */
    float weight;       /* of the chain that begins here: how probable it is */
    float probability;  /* that the operation is applied */
    float magnitude;    /* its mean */
} sn_part;

typedef struct {
    uint32_t count;
    sn_part parts[SN_MAX_PARTS];
} sn_chains;

typedef struct {
    uint32_t count, sizes[SN_MAX_SIZES];
} sn_sizes;

typedef struct {
    uint32_t count;
    double values[SN_MAX_SIZES];
} sn_reals;

typedef struct {
    uint32_t height, width;
} sn_size;

/* The border around a window. */
typedef struct {
    uint32_t mode; /* enum sn_padding_mode; not constant: the canvas shows all of the window */
    uint8_t fill[3];
    uint8_t mask_fill; /* of a pair: what a mask has there */
} sn_border;

/* How a warp looks up colours, and what it has for places outside. */
typedef struct {
    uint32_t filter; /* enum sn_warp_filter */
    uint8_t fill[3], mask_fill;
} sn_warping;

/* The arguments of an op: the member of its kind. Pairs are ranges if nothing else is said, and probabilities are `p`. */
typedef struct {
    uint32_t kind; /* enum sn_op_kind */
    uint32_t span; /* of a group: how many ops after it are its members */
    union {
        sn_size size; /* of each kind that has one: it comes first there */
        struct {
            double p;
        } chance; /* of flips, GRAYSCALE, INVERT, AUTOCONTRAST, EQUALIZE, and groups; of a BRANCH for RANDOM_CHOICE */
        struct {
            sn_size size;      /* width 0: height is the short side, which */
            uint32_t max_size; /* (0: none) may lower so that the long side fits */
            uint32_t filter;   /* enum sn_filter */
        } resize;
        struct {
            sn_size size; /* smaller pictures are padded */
            sn_border border;
        } center_crop;
        struct {
            sn_size size;
            uint32_t filter;
            double scale[2], ratio[2]; /* ten tries, then torchvision's fallback */
        } random_resized_crop;
        struct {
            uint32_t padding[4]; /* left, top, right, bottom */
            sn_border border;
        } pad;
        struct {
            sn_size size;
            uint32_t padding[4], pad_if_needed;
            sn_border border;
        } random_crop;
        struct {
            sn_size size;
            uint32_t filter, by_area;               /* by_area 1: scale is of the area that is kept */
            double longest;                         /* how far the longer side decides, from 0 to 1 */
            double p, scale[2], aspect_p, ratio[2]; /* of RANDOM_RESIZE_KEEP_RATIO */
        } resize_keep_ratio;
        struct {
            sn_size size;
            uint32_t filter;
            double scale[2];
        } scale_jitter;
        struct {
            sn_sizes sizes;
            uint32_t max_size, filter;
        } random_shortest_size;
        struct {
            double size[2]; /* of the shorter side: whole numbers */
            uint32_t filter;
        } random_resize;
        struct {
            double p, scale[2]; /* of the sides, from 1 */
            sn_border border;
        } random_zoom_out;
        struct {
            double scale[2], ratio[2]; /* of the sides, which are drawn one by one; of the width to the height */
            sn_reals overlaps;         /* one is drawn, which a box must reach (Jaccard); from 1: no crop */
            uint32_t trials;           /* until another one is drawn */
        } random_iou_crop;
        struct {
            double brightness[2], contrast[2], saturation[2], hue[2]; /* {1, 1}, and {0, 0} for hue: left as it is */
        } color_jitter;                                               /* in a random order */
        struct {
            double p, brightness[2], contrast[2], saturation[2], hue[2];
        } random_photometric_distort;
        struct {
            double p;
            uint32_t bits;
        } random_posterize;
        struct {
            double p, threshold;
        } random_solarize;
        struct {
            double p, factor;
        } random_adjust_sharpness;
        struct {
            sn_size kernel;
            double sigma[2];
        } gaussian_blur;
        struct {
            sn_warping warp;
            uint32_t has_center; /* 0: the picture's middle */
            double center[2];    /* x, y */
            double degrees[2];
        } random_rotation;
        struct {
            sn_warping warp;
            uint32_t has_center;
            double center[2], degrees[2];
            double translate[2];       /* most shares of the width and the height */
            double scale[2], shear[4]; /* along x, along y */
        } random_affine;
        struct {
            sn_warping warp;
            double p, distortion;
        } random_perspective;
        struct {
            sn_warping warp;
            double alpha[2], sigma[2]; /* along x, along y */
        } elastic_transform;
        struct {
            sn_warping warp;
            uint32_t num_ops, magnitude, bins; /* magnitude: of the bins, from 0 */
        } rand_augment;
        struct {
            sn_warping warp;
            uint32_t bins;
        } trivial_augment_wide;
        struct {
            sn_warping warp;
            uint32_t policy; /* enum sn_policy */
        } auto_augment;
        struct {
            sn_warping warp;
            uint32_t has_fill;                        /* 0: black, which fades in at the edge */
            uint32_t severity, width, depth, all_ops; /* chains; operations of a chain, 0: 1 to 3, drawn */
            double alpha;
        } aug_mix;
        struct {
            sn_warping warp;
            uint32_t num_layers; /* chains */
            uint32_t distinct;   /* 1: no chain is chosen twice */
            uint32_t depth;      /* of TIMM_AUG_MIX: operations of a chain; 0: 1 to 3, drawn */
            double deviation,
                most;     /* of magnitudes; infinite: uniform from 0 to the mean. They are cut to 0 ... most */
            double share; /* of a side: the greatest shift */
            double alpha;
            sn_chains chains;
        } timm; /* TIMM_AUGMENT, TIMM_AUG_MIX */
        struct {
            uint32_t rate, lowpass_filter_width, window; /* enum sn_sinc_window */
            double rolloff, beta;                        /* beta: of the Kaiser window */
        } resample;
        struct {
            uint32_t frames; /* shorter sounds get zeros at the end */
            uint32_t start, is_centered;
        } time_crop;
        struct {
            uint32_t frames; /* likewise */
        } random_time_crop;
        struct {
            double p, gain[2]; /* decibels */
        } random_gain;
        struct {
            double p, snr[2]; /* decibels */
        } random_noise;
        struct {
            double p, shift[2]; /* shares of the length; above 0 it begins later */
            uint32_t rollover;  /* what leaves at one end comes in at the other; 0: zeros do */
        } random_time_shift;
    };
} sn_op;

/* An argument, as its line of ops.def says. The limits are inclusive. */
enum sn_argument_type {
    SN_WHOLE,         /* uint32_t */
    SN_REAL,          /* double */
    SN_RANGE,         /* two, which do not fall */
    SN_TWO_RANGES,    /* two of these */
    SN_POINT,         /* two of any order */
    SN_SIZE,          /* sn_size */
    SN_SHORT_OR_SIZE, /* sn_size whose width may be 0 */
    SN_SIZES,         /* sn_sizes */
    SN_REALS,         /* sn_reals */
    SN_SIDES,         /* four uint32_t */
    SN_COLOUR,        /* three bytes */
    SN_BYTE,
    SN_GIVEN,  /* uint32_t: 1 if there is such an argument */
    SN_CHAINS, /* sn_chains */
    SN_FILTER, /* these: uint32_t, of the enum of this name */
    SN_WARP_FILTER,
    SN_PADDING_MODE,
    SN_POLICY,
    SN_SINC_WINDOW
};

typedef struct {
    const char *name; /* NULL: after the last one */
    size_t at;        /* in sn_op */
    enum sn_argument_type type;
    double least, most, otherwise; /* otherwise: the value where it is not given */
} sn_argument;

typedef struct {
    const char *name; /* in Python */
    uint32_t flags;
    bool (*check)(const sn_op *op);
    const sn_argument *arguments;
} sn_kind;

/* By enum sn_op_kind; the first is empty. */
extern const sn_kind sn_kinds[SN_N_OPS];

/* Make an op of this kind with no argument given. */
void sn_op_begin(sn_op *op, uint32_t kind);

enum sn_dtype { SN_UINT8 = 0, SN_FLOAT32 = 1, SN_FLOAT16 = 2, SN_BFLOAT16 = 3 };

/* How many bytes a number of the batch has. */
static inline uint32_t sn_dtype_bytes(uint32_t dtype)
{
    return dtype == SN_FLOAT32 ? 4 : dtype == SN_UINT8 ? 1 : 2;
}

enum sn_mask_dtype { SN_MASK_UINT8 = 0, SN_MASK_INT64 = 1 };

enum sn_decode { SN_DECODE_EXACT = 0, SN_DECODE_FAST = 1 };

/* The normally distributed values: none, each value, or the colour of each box. */
enum sn_noise { SN_NOISE_NONE = 0, SN_NOISE_VALUES = 1, SN_NOISE_COLOURS = 2 };

/* RandomErasing, which works on what leaves the pipeline: drawn for each delivery. */
typedef struct {
    double probability; /* 0: none */
    double scale[2], ratio[2];
    uint32_t fewest, most; /* boxes, which share the area; 0: one */
    uint32_t noise;        /* enum sn_noise: value is its mean, deviation is below */
    float value[3];        /* in the units of the output */
    float deviation[3];
} sn_erase;

/* A rectangle of a picture that is erased, and the number that each channel gets. All zero: there is none. */
typedef struct {
    sn_rect rect;
    float value[3];
} sn_erasure;

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
    uint32_t leaves_erasing; /* 1: whoever takes the batch erases, by its sn_erasures. Not with SN_NOISE_VALUES */

    uint32_t is_pair;      /* 1: each sample is a picture and its mask, see mask.h */
    uint32_t mask_dtype;   /* enum sn_mask_dtype: of the batch's masks */
    uint32_t has_moves;    /* 1: sn_moves follow the pixels of AUGMENTED, and there is no head */
    uint64_t leaves_above; /* SN_E_FOR_PILLOW of pictures with more pixels, because Pillow warns of them; 0: of none */
    uint32_t
        leaves_damaged; /* 1: SN_E_FOR_PILLOW in place of SN_E_DECODE, because Pillow is set to go on from damage */

    uint32_t
        is_sound; /* 1: each sample is a sound; what the lines above say of pictures then is 0, but for the dtype */
    uint32_t channels; /* that each file has, else it is refused; 0: not known */
} sn_plan;

/* How a picture was moved: what a caller needs to move its boxes likewise. Each random op that moves has an entry, in
 * their order:
 *   RANDOM_RESIZED_CROP, RANDOM_CROP, RANDOM_IOU_CROP   the part that is cut out, of the padded picture
 *   RANDOM_HFLIP, RANDOM_VFLIP         the picture
 *   SCALE_JITTER, RANDOM_SHORTEST_SIZE, RANDOM_RESIZE   the new size
 *   RANDOM_ZOOM_OUT                    the place of the picture on its canvas, and the canvas's size
 * All zero: the op did nothing. Warps have none. */
typedef struct {
    uint32_t height, width; /* before the first op */
    sn_rect drawn[SN_PLAN_MAX_OPS];
} sn_moves;

/* The boxes of a picture before the first op: left, top, right and bottom of each. */
typedef struct {
    const float (*sides)[4];
    uint32_t count;
    uint32_t are_shares; /* 1: of the picture's width and height, in [0, 1]; 0: pixels */
} sn_boxes;

/* How many bytes a pixel of DECODED and AUGMENTED has: red, green and blue, and the mask's if there is one. All
 * pixels of the picture come first, then those of the mask. Of a sound: a frame of one channel. */
static inline uint32_t sn_plan_pixel_bytes(const sn_plan *plan)
{
    return plan->is_pair || plan->is_sound ? 4 : 3;
}

/* How many bytes a row of the picture, or a channel of the sound, has there. */
static inline size_t sn_plan_row_bytes(const sn_plan *plan, uint32_t width)
{
    return (size_t)(plan->is_sound ? 4 : 3) * width;
}

/* How many bytes AUGMENTED of this size has. */
static inline uint64_t sn_plan_copy_bytes(const sn_plan *plan, uint32_t height, uint32_t width)
{
    return (uint64_t)sn_plan_pixel_bytes(plan) * height * width + (plan->has_moves ? sizeof(sn_moves) : 0);
}

/* How many bytes a sample of this size has in the batch. */
static inline uint64_t sn_plan_item_bytes(const sn_plan *plan, uint32_t height, uint32_t width)
{
    return (uint64_t)(plan->is_sound ? 1 : 3) * height * width * sn_dtype_bytes(plan->dtype);
}

/* How many sn_erasures each sample of a batch has, at most; 0: none is left to whoever takes the batch. */
static inline uint32_t sn_plan_erasures(const sn_plan *plan)
{
    if (!plan->leaves_erasing || plan->erase.probability <= 0)
        return 0;
    return plan->erase.most > 0 ? plan->erase.most : 1;
}

/* How many bytes a pixel of a batch's masks has; 0: there are none. */
static inline uint32_t sn_plan_mask_bytes(const sn_plan *plan)
{
    return !plan->is_pair ? 0 : plan->mask_dtype == SN_MASK_INT64 ? 8 : 1;
}

#endif
