/* plan.c -- sn_plan_check() and sn_plan_output_size() of sn_codec.h. */
#include <math.h>

#include "../base/sn_status.h"
#include "operations/route.h"
#include "sn_codec.h"

#define MAX_SIZE 65535 /* a JPEG's longest side; what leaves the pipeline need not be longer */

#define MAX_BOXES 1000 /* of one erasing */

/* Within this, no step of the normalisation leaves the normal floats, which the vector code relies
 * on, and a blended pixel fits an int. */
#define MAX_NUMBER 1e6f

/* Numbers that rise, within these limits; no NaN. */
static bool rises(const double range[2], double least, double most)
{
    return least <= range[0] && range[0] <= range[1] && range[1] <= most;
}

static bool is_positive(const double range[2])
{
    return isfinite(range[1]) && 0 < range[0] && range[0] <= range[1];
}

static bool is_probability(double p)
{
    return 0 <= p && p <= 1;
}

static bool is_size(const sn_op *op)
{
    return 0 < op->height && op->height <= MAX_SIZE && 0 < op->width && op->width <= MAX_SIZE;
}

static bool check_resize(const sn_op *op)
{
    if (op->filter > SN_PLAIN_BICUBIC)
        return false;
    if (op->width != 0)
        return is_size(op) && op->max_size == 0;
    if (op->max_size != 0 && (op->max_size <= op->height || op->max_size > MAX_SIZE))
        return false;
    return 0 < op->height && op->height <= MAX_SIZE;
}

static bool check_sizes(const sn_op *op)
{
    for (uint32_t k = 0; k < op->count && k < SN_MAX_SIZES; k++)
        if (op->sizes[k] == 0 || op->sizes[k] > MAX_SIZE)
            return false;
    return 0 < op->count && op->count <= SN_MAX_SIZES && op->max_size <= MAX_SIZE;
}

static bool check_padding(const sn_op *op)
{
    for (int side = 0; side < 4; side++)
        if (op->padding[side] > MAX_SIZE)
            return false;
    return op->padding_mode <= SN_PAD_SYMMETRIC;
}

static bool keeps_size(uint32_t kind)
{
    return kind == SN_OP_RANDOM_HFLIP || kind == SN_OP_RANDOM_VFLIP || kind == SN_OP_COLOR_JITTER ||
           kind == SN_OP_RANDOM_GRAYSCALE || kind >= SN_FIRST_GROUP || sn_recipe_knows(kind);
}

/* A group with its members, of `n` ops: branches, and nothing but branches, where it chooses among them. */
static bool check_group(const sn_op *op, uint32_t n)
{
    bool has_branches = op->kind == SN_OP_RANDOM_CHOICE || op->kind == SN_OP_RANDOM_ORDER;
    uint32_t past = 1 + op->span, next;
    double sum = 0;

    if (op->kind > SN_OP_BRANCH || (op->span == 0 && op->kind != SN_OP_BRANCH) || op->span >= n)
        return false;
    for (uint32_t i = 1; i < past; i = next) {
        bool is_group = op[i].kind >= SN_FIRST_GROUP;

        next = i + 1 + (is_group ? op[i].span : 0);
        if (next > past || has_branches != (op[i].kind == SN_OP_BRANCH) || !keeps_size(op[i].kind) ||
            (is_group && !check_group(op + i, past - i)))
            return false;
        sum += op[i].probability;
    }
    return is_probability(op->probability) && (op->kind != SN_OP_RANDOM_CHOICE || fabs(sum - 1) < 1e-6);
}

static bool check_op(const sn_op *op, bool in_head, uint32_t n)
{
    if (op->kind < SN_FIRST_GROUP && op->span != 0)
        return false;
    switch (op->kind) {
    case SN_OP_RESIZE:
        return check_resize(op);
    case SN_OP_CENTER_CROP:
        return is_size(op) && op->padding_mode <= SN_PAD_SYMMETRIC;
    case SN_OP_RESIZE_KEEP_RATIO:
        return is_size(op) && is_probability(op->longest) && op->filter <= SN_PLAIN_BICUBIC;
    case SN_OP_RANDOM_RESIZE_KEEP_RATIO:
        return !in_head && is_size(op) && is_probability(op->longest) && op->filter <= SN_EITHER &&
               is_probability(op->probability) && is_probability(op->aspect_probability) && op->by_area <= 1 &&
               is_positive(op->scale) && is_positive(op->ratio);
    case SN_OP_SCALE_JITTER:
        return !in_head && is_size(op) && is_positive(op->scale) && op->filter <= SN_PLAIN_BICUBIC;
    case SN_OP_RANDOM_SHORTEST_SIZE:
        return !in_head && check_sizes(op) && op->filter <= SN_PLAIN_BICUBIC;
    case SN_OP_RANDOM_ZOOM_OUT:
        return !in_head && is_probability(op->probability) && rises(op->scale, 1, MAX_SIZE);
    case SN_OP_RANDOM_RESIZED_CROP:
        return !in_head && is_size(op) && is_positive(op->scale) && is_positive(op->ratio) &&
               op->filter <= SN_EITHER;
    case SN_OP_PAD:
        return check_padding(op);
    case SN_OP_RANDOM_CROP:
        return !in_head && is_size(op) && check_padding(op) && op->pad_if_needed <= 1;
    case SN_OP_COLOR_JITTER:
        return !in_head && rises(op->brightness, 0, MAX_NUMBER) && rises(op->contrast, 0, MAX_NUMBER) &&
               rises(op->saturation, 0, MAX_NUMBER) && rises(op->hue, -0.5, 0.5);
    case SN_OP_RANDOM_HFLIP:
    case SN_OP_RANDOM_VFLIP:
    case SN_OP_RANDOM_GRAYSCALE:
        return !in_head && is_probability(op->probability);
    case SN_OP_RANDOM_APPLY:
    case SN_OP_RANDOM_CHOICE:
    case SN_OP_RANDOM_ORDER:
    case SN_OP_BRANCH:
        return !in_head && check_group(op, n);
    default:
        return !in_head && sn_recipe_check(op);
    }
}

static bool check_batch(const sn_plan *plan)
{
    if (plan->dtype > SN_BFLOAT16 || plan->channels_last > 1)
        return false;
    if (plan->divisor != 255 && plan->divisor != 1)
        return false;
    for (int c = 0; c < 3; c++)
        if (!(fabsf(plan->mean[c]) <= MAX_NUMBER) || !(fabsf(plan->std[c]) <= MAX_NUMBER) ||
            !(fabsf(plan->std[c]) >= 1 / MAX_NUMBER))
            return false;
    return true;
}

static bool check_erase(const sn_erase *erase)
{
    if (erase->probability == 0)
        return true;
    for (int c = 0; c < 3; c++)
        if (!isfinite(erase->value[c]) || !isfinite(erase->deviation[c]) || erase->deviation[c] < 0)
            return false;
    return is_probability(erase->probability) && rises(erase->scale, 0, 1) &&
           is_positive(erase->ratio) && erase->noise <= SN_NOISE_COLOURS && erase->fewest <= erase->most &&
           erase->most <= MAX_BOXES;
}

int sn_plan_check(const sn_plan *plan)
{
    if (plan->n_ops > SN_PLAN_MAX_OPS || plan->n_head > plan->n_ops || plan->has_moves > 1 ||
        (plan->has_moves && (plan->n_head > 0 || plan->is_pair)))
        return SN_E_PLAN;
    for (uint32_t i = 0; i < plan->n_ops; i++)
        if (!check_op(&plan->ops[i], i < plan->n_head, plan->n_ops - i))
            return SN_E_PLAN;
    for (uint32_t i = 0; i < plan->n_ops; i += 1 + plan->ops[i].span)
        if (plan->ops[i].kind == SN_OP_BRANCH)
            return SN_E_PLAN;
    if (plan->decode > SN_DECODE_FAST || plan->apply_orientation > 1)
        return SN_E_PLAN;
    if (plan->is_pair > 1 || plan->mask_dtype > SN_MASK_INT64 || (plan->is_pair && plan->apply_orientation))
        return SN_E_PLAN; /* a mask's file has no orientation */
    return check_batch(plan) && check_erase(&plan->erase) ? SN_OK : SN_E_PLAN;
}

/* The size that such an op makes is drawn, or hangs on the picture's. */
static bool varies(uint32_t kind)
{
    return SN_OP_RESIZE_KEEP_RATIO <= kind && kind <= SN_OP_RANDOM_ZOOM_OUT;
}

int sn_plan_output_size(const sn_plan *plan, uint32_t *height, uint32_t *width)
{
    uint32_t h = 0, w = 0; /* 0: the picture's */

    for (uint32_t i = 0; i < plan->n_ops; i++) {
        const sn_op *op = &plan->ops[i];
        bool adds = op->kind == SN_OP_PAD || (op->kind == SN_OP_RESIZE && op->width == 0);
        bool sets = op->kind == SN_OP_RESIZE || op->kind == SN_OP_CENTER_CROP ||
                    op->kind == SN_OP_RANDOM_RESIZED_CROP || op->kind == SN_OP_RANDOM_CROP;

        if (varies(op->kind)) {
            h = w = 0;
        } else if (adds && h != 0) {
            /* It goes by the size at hand, which is known here. */
            sn_route route;
            int rc = sn_route_lay(&route, op, 1, NULL, h, w, UINT64_MAX);

            if (rc != SN_OK)
                return rc;
            h = route.passes[0].height;
            w = route.passes[0].width;
        } else if (sets && !adds) {
            h = op->height;
            w = op->width;
        }
    }
    if (h == 0)
        return SN_E_PLAN;
    *height = h;
    *width = w;
    return SN_OK;
}
