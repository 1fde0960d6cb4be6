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

    for (int i = 0; i < N_PLANS; i++) {
        int floats = i == PLAN_TRAIN || i == PLAN_TWO;

        plans[i].dtype = floats ? SN_FLOAT32 : SN_UINT8;
        plans[i].channels_last = i == PLAN_TRAIN_2 || i == PLAN_TWO;
        plans[i].divisor = 255;
        memcpy(plans[i].mean, mean, sizeof mean);
        memcpy(plans[i].std, std, sizeof std);
        CHECK_EQUAL(sn_plan_check(&plans[i]), 0, "plan %d", i);
    }
}

size_t plan_item_bytes(const sn_plan *plan, uint32_t height, uint32_t width)
{
    return (size_t)3 * height * width * (plan->dtype == SN_FLOAT32 ? sizeof(float) : 1);
}

void plan_batch_write(const sn_plan *plan, sn_rng *rng, const uint8_t *augmented, uint32_t height,
                      uint32_t width, void *out)
{
    sn_batch_write(plan, augmented, height, width, rng, out);
}
