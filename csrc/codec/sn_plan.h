/*
 * sn_plan.h -- a pipeline of transforms as the native path runs it.
 *
 *   ENCODED --decode--> [head ops] = DECODED --[tail ops]--> AUGMENTED --batch--> tensor
 *                       deterministic         random         uint8 HWC   normalise, layout
 *
 * Lives in   private memory; built once by seneca/_pipeline/plan.py, read by every thread.
 * Owns       nothing: plain values.
 */
#ifndef SN_PLAN_H
#define SN_PLAN_H

#include <stdint.h>

#define SN_PLAN_MAX_OPS 16

enum sn_op_kind {
    SN_OP_RESIZE = 1,              /* size = height, width; width 0: height is the short side */
    SN_OP_CENTER_CROP = 2,         /* size; smaller pictures are padded with 0, as torchvision */
    SN_OP_RANDOM_RESIZED_CROP = 3, /* size, scale, ratio: ten tries, then torchvision's fallback */
    SN_OP_RANDOM_HFLIP = 4         /* probability */
};

typedef struct {
    uint32_t kind;
    uint32_t height, width;
    double scale[2], ratio[2];
    double probability;
} sn_op;

enum sn_dtype { SN_UINT8 = 0, SN_FLOAT32 = 1 };

typedef struct {
    uint32_t n_ops;
    uint32_t n_head; /* the first n_head ops are deterministic: their result is DECODED */
    sn_op ops[SN_PLAN_MAX_OPS];

    /* Batch: out = (pixel / 255 - mean) / std for SN_FLOAT32, the pixel itself for SN_UINT8. */
    uint32_t dtype;
    uint32_t channels_last; /* 0: CHW, 1: HWC */
    float mean[3], std[3];
} sn_plan;

#endif
