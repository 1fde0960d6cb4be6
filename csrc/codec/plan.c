/* plan.c -- the table of sn_plan.h, and sn_plan_check() and sn_plan_output_size() of sn_codec.h. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "../base/sn_status.h"
#include "operations/route.h"
#include "sn_codec.h"

#define MAX_BOXES 1000 /* of one erasing */

/* Numbers that rise, within these limits; no NaN. */
static bool rises(const double range[2], double least, double most)
{
    return least <= range[0] && range[0] <= range[1] && range[1] <= most;
}

static bool is_probability(double p)
{
    return 0 <= p && p <= 1;
}

static bool check_resize(const sn_op *op)
{
    uint32_t max_size = op->resize.max_size;

    if (op->size.width != 0)
        return op->size.width <= SN_MAX_SIZE && max_size == 0;
    return max_size == 0 || max_size > op->size.height;
}

static bool check_kernel(const sn_op *op)
{
    return op->gaussian_blur.kernel.height % 2 == 1 && op->gaussian_blur.kernel.width % 2 == 1;
}

static bool check_rand_augment(const sn_op *op)
{
    return op->rand_augment.magnitude < op->rand_augment.bins;
}

static bool is_sigma(double sigma)
{
    return 1 / SN_MAX_NUMBER <= sigma && 8 * sigma + 1 < 2 * SN_GRID_MAX_RADIUS + 2;
}

/* The noise of both directions is blurred, or that of none. */
static bool check_elastic(const sn_op *op)
{
    const double *sigma = op->elastic_transform.sigma;

    return (sigma[0] == 0 && sigma[1] == 0) || (is_sigma(sigma[0]) && is_sigma(sigma[1]));
}

static bool check_time_crop(const sn_op *op)
{
    return !op->time_crop.is_centered || op->time_crop.start == 0;
}

#define ARG(name, member, type, least, most, otherwise)                                                                \
    {#name, offsetof(sn_op, member), SN_##type, least, most, otherwise},
#define OP(KIND, kind, flags, check, ...)                                                                              \
    static const sn_argument kind##_arguments[] = {__VA_ARGS__{NULL, 0, SN_WHOLE, 0, 0, 0}};
#include "ops.def"

const sn_kind sn_kinds[SN_N_OPS] = {
#define OP(KIND, kind, flags, check, ...) [SN_OP_##KIND] = {#kind, flags, check, kind##_arguments},
#include "ops.def"
};

void sn_op_begin(sn_op *op, uint32_t kind)
{
    memset(op, 0, sizeof *op);
    op->kind = kind;
    for (const sn_argument *argument = sn_kinds[kind].arguments; argument->name != NULL; argument++) {
        void *at = (char *)op + argument->at;

        if (argument->type == SN_RANGE)
            ((double *)at)[0] = ((double *)at)[1] = argument->otherwise;
        else if (argument->type == SN_REAL)
            *(double *)at = argument->otherwise;
        else if (argument->otherwise != 0)
            *(uint32_t *)at = (uint32_t)argument->otherwise;
    }
}

static bool are_whole(const uint32_t *numbers, uint32_t n, const sn_argument *limits)
{
    for (uint32_t k = 0; k < n; k++)
        if (!(limits->least <= numbers[k] && numbers[k] <= limits->most))
            return false;
    return true;
}

static bool are_real(const double *numbers, uint32_t n, const sn_argument *limits)
{
    for (uint32_t k = 0; k < n; k++)
        if (!(limits->least <= numbers[k] && numbers[k] <= limits->most))
            return false;
    return true;
}

static bool is_within_limits(const sn_op *op, const sn_argument *argument)
{
    const void *at = (const char *)op + argument->at;
    const double *real = at;
    const uint32_t *whole = at;

    switch (argument->type) {
    case SN_REAL:
        return are_real(real, 1, argument);
    case SN_POINT:
        return are_real(real, 2, argument);
    case SN_RANGE:
        return rises(real, argument->least, argument->most);
    case SN_TWO_RANGES:
        return rises(real, argument->least, argument->most) && rises(real + 2, argument->least, argument->most);
    case SN_SIZE:
        return are_whole(whole, 2, argument);
    case SN_SIDES:
        return are_whole(whole, 4, argument);
    case SN_SIZES:
        return 0 < *whole && *whole <= SN_MAX_SIZES && are_whole(whole + 1, *whole, argument);
    case SN_REALS:
        return 0 < *whole && *whole <= SN_MAX_SIZES && are_real(((const sn_reals *)at)->values, *whole, argument);
    case SN_COLOUR:
    case SN_BYTE:
    case SN_CHAINS: /* sn_timm_check() */
        return true;
    default:
        return are_whole(whole, 1, argument);
    }
}

static bool has_flag(const sn_op *op, uint32_t flag)
{
    return op->kind < SN_N_OPS && (sn_kinds[op->kind].flags & flag) != 0;
}

/* A group with its members, of `n` ops: branches, and nothing but branches, where it chooses among them. */
static bool check_group(const sn_op *op, uint32_t n)
{
    bool has_branches = op->kind == SN_OP_RANDOM_CHOICE || op->kind == SN_OP_RANDOM_ORDER;
    uint32_t past = 1 + op->span, next;
    double sum = 0;

    if ((op->span == 0 && op->kind != SN_OP_BRANCH) || op->span >= n)
        return false;
    for (uint32_t i = 1; i < past; i = next) {
        bool is_group = has_flag(&op[i], SN_IS_GROUP);

        next = i + 1 + (is_group ? op[i].span : 0);
        if (next > past || has_branches != (op[i].kind == SN_OP_BRANCH) || !has_flag(&op[i], SN_KEEPS_SIZE) ||
            (is_group && !check_group(op + i, past - i)))
            return false;
        sum += has_branches ? op[i].chance.p : 0;
    }
    return op->kind != SN_OP_RANDOM_CHOICE || fabs(sum - 1) < 1e-6;
}

static bool check_op(const sn_op *op, bool in_head, uint32_t n)
{
    const sn_kind *kind = &sn_kinds[op->kind < SN_N_OPS ? op->kind : SN_OP_NONE];

    if (kind->name == NULL || (in_head && !(kind->flags & SN_IS_FIXED)))
        return false;
    for (const sn_argument *argument = kind->arguments; argument->name != NULL; argument++)
        if (!is_within_limits(op, argument))
            return false;
    if (!(kind->flags & SN_IS_GROUP))
        return op->span == 0 && (kind->check == NULL || kind->check(op));
    return check_group(op, n);
}

static bool check_batch(const sn_plan *plan)
{
    if (plan->dtype > SN_BFLOAT16 || plan->channels_last > 1)
        return false;
    if (plan->divisor != 255 && plan->divisor != 1)
        return false;
    for (int c = 0; c < 3; c++)
        if (!(fabsf(plan->mean[c]) <= (float)SN_MAX_NUMBER) || !(fabsf(plan->std[c]) <= (float)SN_MAX_NUMBER) ||
            !(fabsf(plan->std[c]) >= (float)(1 / SN_MAX_NUMBER)))
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
           rises(erase->ratio, DBL_TRUE_MIN, DBL_MAX) && erase->noise <= SN_NOISE_COLOURS &&
           erase->fewest <= erase->most && erase->most <= MAX_BOXES;
}

/* Ops of sounds and those of pictures do not mix. A RESAMPLE goes by the rate, which DECODED does not have: it is in
 * the head. */
static bool check_kinds(const sn_plan *plan)
{
    uint32_t n_resamples = 0;

    for (uint32_t i = 0; i < plan->n_ops; i++) {
        bool resamples = plan->ops[i].kind == SN_OP_RESAMPLE;

        if (has_flag(&plan->ops[i], SN_IS_SOUND) != (plan->is_sound == 1) || (resamples && i >= plan->n_head))
            return false;
        n_resamples += resamples;
    }
    return n_resamples <= SN_MAX_RESAMPLES;
}

static bool check_sound(const sn_plan *plan)
{
    if (!plan->is_sound)
        return plan->channels == 0;
    return plan->channels <= SN_MAX_CHANNELS && plan->dtype != SN_UINT8 && !plan->channels_last && !plan->is_pair &&
           !plan->has_moves && !plan->apply_orientation && !plan->leaves_above && !plan->leaves_damaged &&
           plan->decode == SN_DECODE_EXACT && plan->erase.probability <= 0 && !plan->leaves_erasing;
}

/* An op that reads boxes comes where sn_route follows them, and says how it moved the picture. */
static bool check_readers_of_boxes(const sn_plan *plan)
{
    bool are_followed = plan->has_moves;

    for (uint32_t i = 0; i < plan->n_ops; i++) {
        if (has_flag(&plan->ops[i], SN_READS_BOXES) && !are_followed)
            return false;
        are_followed &= has_flag(&plan->ops[i], SN_KEEPS_SIZE) || plan->ops[i].kind == SN_OP_RANDOM_ZOOM_OUT;
    }
    return true;
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
    if (plan->leaves_erasing > 1 || (plan->leaves_erasing && plan->erase.noise == SN_NOISE_VALUES))
        return SN_E_PLAN; /* a number for each value of a rectangle would be as large as the picture */
    if (plan->is_pair > 1 || plan->mask_dtype > SN_MASK_INT64 || (plan->is_pair && plan->apply_orientation))
        return SN_E_PLAN; /* a mask's file has no orientation */
    if (plan->is_sound > 1 || !check_kinds(plan) || !check_sound(plan))
        return SN_E_PLAN;
    return check_readers_of_boxes(plan) && check_batch(plan) && check_erase(&plan->erase) ? SN_OK : SN_E_PLAN;
}

/* The same of sounds: channels and frames. */
static int output_size_of_sound(const sn_plan *plan, uint32_t *channels, uint32_t *frames)
{
    *channels = plan->channels;
    *frames = 0;
    for (uint32_t i = 0; i < plan->n_ops; i++) {
        const sn_op *op = &plan->ops[i];

        if (op->kind == SN_OP_MONO)
            *channels = 1;
        else if (op->kind == SN_OP_RESAMPLE)
            *frames = 0;
        else if (op->kind == SN_OP_TIME_CROP)
            *frames = op->time_crop.frames;
        else if (op->kind == SN_OP_RANDOM_TIME_CROP)
            *frames = op->random_time_crop.frames;
    }
    if (*channels == 0 || *frames == 0)
        return SN_E_PLAN;
    return (uint64_t)*channels * *frames <= SN_MAX_FRAMES ? SN_OK : SN_E_TOO_LARGE;
}

int sn_plan_output_size(const sn_plan *plan, uint32_t *height, uint32_t *width)
{
    uint32_t h = 0, w = 0; /* 0: the picture's */

    if (plan->is_sound)
        return output_size_of_sound(plan, height, width);
    for (uint32_t i = 0; i < plan->n_ops; i++) {
        const sn_op *op = &plan->ops[i];
        uint32_t flags = sn_kinds[op->kind].flags;

        if (flags & SN_ANY_SIZE) {
            h = w = 0;
        } else if ((flags & SN_SETS_SIZE) && op->size.width != 0) {
            h = op->size.height;
            w = op->size.width;
        } else if (!(flags & SN_KEEPS_SIZE) && h != 0) {
            /* It goes by the size at hand, which is known here. */
            sn_route route;
            int rc = sn_route_lay(&route, op, 1, NULL, h, w, NULL, UINT64_MAX);

            if (rc != SN_OK)
                return rc;
            h = route.passes[0].height;
            w = route.passes[0].width;
        }
    }
    if (h == 0)
        return SN_E_PLAN;
    *height = h;
    *width = w;
    return SN_OK;
}
