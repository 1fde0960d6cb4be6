#include "plans.h"

#include "check.h"

static sn_op resize(uint32_t height, uint32_t width)
{
    return (sn_op){.kind = SN_OP_RESIZE, .height = height, .width = width};
}

static sn_op center_crop(uint32_t height, uint32_t width)
{
    return (sn_op){.kind = SN_OP_CENTER_CROP, .height = height, .width = width};
}

static sn_op random_resized_crop(uint32_t height, uint32_t width)
{
    return (sn_op){.kind = SN_OP_RANDOM_RESIZED_CROP,
                   .height = height,
                   .width = width,
                   .scale = {0.08, 1.0},
                   .ratio = {3.0 / 4, 4.0 / 3}};
}

static sn_op flip(void)
{
    return (sn_op){.kind = SN_OP_RANDOM_HFLIP, .probability = 0.5};
}

static sn_op vertical_flip(void)
{
    return (sn_op){.kind = SN_OP_RANDOM_VFLIP, .probability = 0.5};
}

static sn_op pad(void)
{
    return (sn_op){.kind = SN_OP_PAD, .padding = {3, 1, 0, 2}, .padding_mode = SN_PAD_EDGE};
}

static sn_op random_crop(uint32_t height, uint32_t width)
{
    return (sn_op){.kind = SN_OP_RANDOM_CROP, .height = height, .width = width, .pad_if_needed = 1};
}

static sn_op jitter(void)
{
    return (sn_op){.kind = SN_OP_COLOR_JITTER,
                   .brightness = {0.6, 1.4},
                   .contrast = {0.6, 1.4},
                   .saturation = {0.6, 1.4},
                   .hue = {-0.1, 0.1}};
}

static sn_op grayscale(void)
{
    return (sn_op){.kind = SN_OP_RANDOM_GRAYSCALE, .probability = 0.2};
}

static sn_op affine(void)
{
    return (sn_op){.kind = SN_OP_RANDOM_AFFINE,
                   .degrees = {-40, 40},
                   .translate = {0.2, 0.1},
                   .scale = {0.5, 1.5},
                   .shear = {-20, 20, -5, 5},
                   .warp = SN_WARP_BICUBIC};
}

static sn_op apply(uint32_t span)
{
    return (sn_op){.kind = SN_OP_RANDOM_APPLY, .probability = 0.5, .span = span};
}

static sn_op gaussian_blur(void)
{
    return (sn_op){.kind = SN_OP_GAUSSIAN_BLUR, .height = 5, .width = 7, .sigma = {0.1, 2}};
}

static sn_op sharpness(void)
{
    return (sn_op){.kind = SN_OP_RANDOM_SHARPNESS, .probability = 1, .amount = 1.7};
}

static sn_op rand_augment(void)
{
    return (sn_op){.kind = SN_OP_RAND_AUGMENT, .count = 2, .magnitude = 9, .bins = 31, .warp = SN_WARP_BILINEAR};
}

static void append(sn_plan *plan, sn_op op, int in_head)
{
    plan->ops[plan->n_ops++] = op;
    plan->n_head += (uint32_t)in_head;
}

void plans_make(sn_plan plans[N_PLANS])
{
    static const float mean[3] = {0.485f, 0.456f, 0.406f}, std[3] = {0.229f, 0.224f, 0.225f};

    memset(plans, 0, N_PLANS * sizeof *plans);
    append(&plans[PLAN_TRAIN], random_resized_crop(37, 41), 0); /* rows end amid a vector */
    append(&plans[PLAN_TRAIN], flip(), 0);
    append(&plans[PLAN_TRAIN_2], random_resized_crop(32, 32), 0);
    append(&plans[PLAN_TRAIN_2], flip(), 0);
    append(&plans[PLAN_EVAL], resize(40, 0), 1);
    append(&plans[PLAN_EVAL], center_crop(35, 35), 1);
    append(&plans[PLAN_EVAL], flip(), 0);
    append(&plans[PLAN_TWO], resize(50, 60), 1);
    append(&plans[PLAN_TWO], random_resized_crop(24, 33), 0);
    append(&plans[PLAN_TWO], flip(), 0);
    append(&plans[PLAN_COLOUR], pad(), 1);
    append(&plans[PLAN_COLOUR], random_crop(29, 31), 0);
    append(&plans[PLAN_COLOUR], vertical_flip(), 0);
    append(&plans[PLAN_COLOUR], jitter(), 0);
    append(&plans[PLAN_COLOUR], grayscale(), 0);
    append(&plans[PLAN_RECIPE], center_crop(33, 38), 1);
    append(&plans[PLAN_RECIPE], affine(), 0);
    append(&plans[PLAN_RECIPE], apply(2), 0);
    append(&plans[PLAN_RECIPE], gaussian_blur(), 0);
    append(&plans[PLAN_RECIPE], sharpness(), 0);
    append(&plans[PLAN_RECIPE], rand_augment(), 0);
    append(&plans[PLAN_RECIPE], flip(), 0);
    plans[PLAN_COLOUR].decode = SN_DECODE_FAST;
    plans[PLAN_COLOUR].apply_orientation = 1;
    plans[PLAN_COLOUR].erase = (sn_erase){.probability = 0.5,
                                          .scale = {0.02, 0.33},
                                          .ratio = {0.3, 3.3},
                                          .noise = 1,
                                          .deviation = {1, 1, 1}};

    plans[PLAN_TRAIN].dtype = plans[PLAN_TWO].dtype = plans[PLAN_RECIPE].dtype = SN_FLOAT32;
    plans[PLAN_TRAIN_2].dtype = plans[PLAN_EVAL].dtype = SN_UINT8;
    plans[PLAN_COLOUR].dtype = SN_BFLOAT16;
    for (int i = 0; i < N_PLANS; i++) {
        plans[i].channels_last = i == PLAN_TRAIN_2 || i == PLAN_TWO;
        plans[i].divisor = 255;
        memcpy(plans[i].mean, mean, sizeof mean);
        memcpy(plans[i].std, std, sizeof std);
        CHECK_EQUAL(sn_plan_check(&plans[i]), 0, "plan %d", i);
    }
}

size_t plan_item_bytes(const sn_plan *plan, uint32_t height, uint32_t width)
{
    return (size_t)3 * height * width * sn_dtype_bytes(plan->dtype);
}
