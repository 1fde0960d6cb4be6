/* plan.c -- sn_plan_check() and sn_plan_output_size() of sn_codec.h. */
#include <math.h>

#include "../base/sn_status.h"
#include "route.h"
#include "sn_codec.h"

#define MAX_SIZE 65535 /* a JPEG's longest side; what leaves the pipeline need not be longer */

/* Means and deviations are of pixels in [0, 1]; within this, no step of the normalisation leaves
 * the normal floats, which the vector code relies on. */
#define MAX_STATISTIC 1e6f

static bool is_range(const double range[2])
{
    return isfinite(range[0]) && isfinite(range[1]) && 0 < range[0] && range[0] <= range[1];
}

static bool is_size(const sn_op *op, bool width_may_miss)
{
    return 0 < op->height && op->height <= MAX_SIZE && op->width <= MAX_SIZE &&
           (op->width > 0 || width_may_miss);
}

static bool check_op(const sn_op *op, bool in_head)
{
    switch (op->kind) {
    case SN_OP_RESIZE:
        return is_size(op, true);
    case SN_OP_CENTER_CROP:
        return is_size(op, false);
    case SN_OP_RANDOM_RESIZED_CROP:
        return !in_head && is_size(op, false) && is_range(op->scale) && is_range(op->ratio);
    case SN_OP_RANDOM_HFLIP:
        return !in_head && 0 <= op->probability && op->probability <= 1;
    default:
        return false;
    }
}

int sn_plan_check(const sn_plan *plan)
{
    if (plan->n_ops > SN_PLAN_MAX_OPS || plan->n_head > plan->n_ops)
        return SN_E_PLAN;
    for (uint32_t i = 0; i < plan->n_ops; i++)
        if (!check_op(&plan->ops[i], i < plan->n_head))
            return SN_E_PLAN;
    if (plan->dtype != SN_UINT8 && plan->dtype != SN_FLOAT32)
        return SN_E_PLAN;
    for (int c = 0; c < 3; c++)
        if (!(fabsf(plan->mean[c]) <= MAX_STATISTIC) || !(fabsf(plan->std[c]) <= MAX_STATISTIC) ||
            !(fabsf(plan->std[c]) >= 1 / MAX_STATISTIC))
            return SN_E_PLAN;
    return SN_OK;
}

int sn_plan_output_size(const sn_plan *plan, uint32_t *height, uint32_t *width)
{
    uint32_t h = 0, w = 0; /* 0: the picture's */

    for (uint32_t i = 0; i < plan->n_ops; i++) {
        const sn_op *op = &plan->ops[i];

        if (op->kind == SN_OP_RANDOM_HFLIP)
            continue;
        if (op->kind == SN_OP_RESIZE && op->width == 0) {
            /* The short side: fixes both only where they are known already. */
            sn_route route;

            if (h != 0) {
                int rc = sn_route_lay(&route, op, 1, NULL, h, w, UINT64_MAX);

                if (rc != SN_OK)
                    return rc;
                h = route.passes[0].height;
                w = route.passes[0].width;
            }
            continue;
        }
        h = op->height;
        w = op->width;
    }
    if (h == 0)
        return SN_E_PLAN;
    *height = h;
    *width = w;
    return SN_OK;
}
