/*
 * test_plan.c -- a plan is accepted as long as all its arguments are within their limits, and refused otherwise.
 *
 *   each kind of op, by the table of ops.def --> accepted
 *   one argument of it below, above, or no number --> SN_E_PLAN
 *   groups, sounds, pairs, the batch, erasing --> likewise, case by case
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/sn_status.h"
#include "check.h"
#include "codec/sn_codec.h"

static sn_plan plan;

/* Of one op, and nothing else that is special. */
static void begin(uint32_t kind)
{
    memset(&plan, 0, sizeof plan);
    plan.n_ops = 1;
    plan.dtype = SN_FLOAT32;
    plan.divisor = 255;
    for (int c = 0; c < 3; c++)
        plan.std[c] = 1;
    sn_op_begin(&plan.ops[0], kind);
    plan.is_sound = (sn_kinds[kind].flags & SN_IS_SOUND) != 0;
    plan.n_head = kind == SN_OP_RESAMPLE;
    plan.has_moves = (sn_kinds[kind].flags & SN_READS_BOXES) != 0;
}

static void check_is(int rc, const char *what)
{
    CHECK_EQUAL(sn_plan_check(&plan), rc, "%s of %s", what, plan.n_ops ? sn_kinds[plan.ops[0].kind].name : "nothing");
}

static int is_real(const sn_argument *argument)
{
    return argument->type == SN_REAL || argument->type == SN_RANGE || argument->type == SN_TWO_RANGES ||
           argument->type == SN_POINT || argument->type == SN_REALS;
}

/* How many numbers it has, from where on. */
static uint32_t numbers_of(const sn_argument *argument, void **at)
{
    *at = (char *)&plan.ops[0] + argument->at;
    switch (argument->type) {
    case SN_RANGE:
    case SN_POINT:
    case SN_SIZE:
        return 2;
    case SN_TWO_RANGES:
    case SN_SIDES:
        return 4;
    case SN_SIZES:
        *at = ((sn_sizes *)*at)->sizes;
        return 2;
    case SN_REALS:
        *at = ((sn_reals *)*at)->values;
        return 2;
    case SN_COLOUR:
    case SN_BYTE:
    case SN_CHAINS:
        return 0;
    case SN_SHORT_OR_SIZE: /* the width: other rules */
    default:
        return 1;
    }
}

static void fill(const sn_argument *argument)
{
    double value = argument->otherwise != 0 ? argument->otherwise : 1;
    void *at;

    if (argument->type == SN_SIZES || argument->type == SN_REALS)
        *(uint32_t *)((char *)&plan.ops[0] + argument->at) = 2; /* the count comes first in both */
    uint32_t n = numbers_of(argument, &at);
    value = fmin(fmax(value, argument->least), argument->most);
    for (uint32_t i = 0; i < n; i++)
        if (is_real(argument))
            ((double *)at)[i] = value;
        else
            ((uint32_t *)at)[i] = (uint32_t)value;
}

static void make(uint32_t kind)
{
    sn_op *op = &plan.ops[0];

    begin(kind);
    for (const sn_argument *argument = sn_kinds[kind].arguments; argument->name; argument++)
        fill(argument);
    if (kind == SN_OP_RESIZE)
        op->resize.max_size = 0; /* it is of the shorter side alone */
    if (kind == SN_OP_TIME_CROP)
        op->time_crop.is_centered = 0; /* or it begins somewhere */
    if (kind == SN_OP_TIMM_AUGMENT || kind == SN_OP_TIMM_AUG_MIX)
        op->timm.chains = (sn_chains){.count = 1, .parts = {{SN_TIMM_ROTATE, 1, 1, 0.5f, 5}}};
    if (sn_kinds[kind].flags & SN_IS_GROUP) { /* with a member, where it may stand */
        op->span = 1;
        plan.n_ops = 2;
        plan.ops[1] = (sn_op){.kind = SN_OP_RANDOM_HFLIP, .chance = {0.5}};
        if (kind == SN_OP_RANDOM_CHOICE || kind == SN_OP_RANDOM_ORDER)
            plan.ops[1] = (sn_op){.kind = SN_OP_BRANCH, .chance = {1}};
        if (kind == SN_OP_BRANCH) {
            plan.ops[1] = plan.ops[0];
            plan.ops[0] = (sn_op){.kind = SN_OP_RANDOM_CHOICE, .span = 1};
            plan.ops[1].span = 0;
        }
    }
}

static void check_real(double *number, const sn_argument *argument)
{
    const double before = *number;
    const double wrong[] = {NAN, nextafter(argument->least, -INFINITY), nextafter(argument->most, INFINITY)};

    for (int i = 0; i < 3; i++) {
        *number = wrong[i];
        if (!(argument->least <= wrong[i] && wrong[i] <= argument->most)) /* INFINITY may be a limit */
            check_is(SN_E_PLAN, argument->name);
    }
    *number = before;
}

static void check_whole(uint32_t *number, const sn_argument *argument)
{
    const uint32_t before = *number;

    if (argument->least > 0) {
        *number = (uint32_t)argument->least - 1;
        check_is(SN_E_PLAN, argument->name);
    }
    *number = (uint32_t)argument->most + 1;
    check_is(SN_E_PLAN, argument->name);
    *number = before;
}

static void check_argument(const sn_argument *argument)
{
    uint32_t *count = (uint32_t *)((char *)&plan.ops[0] + argument->at);
    void *at;
    uint32_t n = numbers_of(argument, &at);

    for (uint32_t i = 0; i < n; i++)
        if (is_real(argument))
            check_real((double *)at + i, argument);
        else
            check_whole((uint32_t *)at + i, argument);
    if (argument->type == SN_SIZES || argument->type == SN_REALS)
        for (uint32_t i = 0; i < 2; i++) {
            *count = i ? SN_MAX_SIZES + 1 : 0;
            check_is(SN_E_PLAN, argument->name);
            *count = 2;
        }
    if ((argument->type == SN_RANGE || argument->type == SN_TWO_RANGES) && argument->least < argument->most) {
        double *range = at, before = range[n - 2];
        range[n - 2] = range[n - 1] < argument->most ? argument->most : argument->least;
        if (range[n - 2] > range[n - 1])
            check_is(SN_E_PLAN, argument->name); /* it falls */
        range[n - 2] = before;
    }
}

static uint32_t each_argument_has_its_limits(void)
{
    uint32_t checked = 0;

    for (uint32_t kind = 1; kind < SN_N_OPS; kind++) {
        make(kind);
        check_is(SN_OK, "all arguments");
        for (const sn_argument *argument = sn_kinds[kind].arguments; argument->name; argument++, checked++)
            if (kind != SN_OP_BRANCH && strcmp(argument->name, "span") != 0)
                check_argument(argument);
        check_is(SN_OK, "all arguments again");
        plan.n_head = plan.n_ops;
        if (!(sn_kinds[kind].flags & SN_IS_FIXED))
            check_is(SN_E_PLAN, "in the head");
        plan.n_head = kind == SN_OP_RESAMPLE;
        if (!(sn_kinds[kind].flags & SN_IS_GROUP)) {
            plan.ops[0].span = 1;
            plan.n_ops = 2;
            plan.ops[1] = plan.ops[0];
            check_is(SN_E_PLAN, "a span");
        }
    }
    return checked;
}

/* A change to a plan that was accepted: refused, and accepted again without it. */
#define REFUSED(change)                                                                                                \
    do {                                                                                                               \
        sn_plan before = plan;                                                                                         \
        check_is(SN_OK, "before " #change);                                                                            \
        change;                                                                                                        \
        check_is(SN_E_PLAN, #change);                                                                                  \
        plan = before;                                                                                                 \
    } while (0)

#define ACCEPTED(change)                                                                                               \
    do {                                                                                                               \
        change;                                                                                                        \
        check_is(SN_OK, #change);                                                                                      \
    } while (0)

static void rules_of_single_kinds(void)
{
    sn_op *op = &plan.ops[0];

    make(SN_OP_RESIZE);
    ACCEPTED(op->size = ((sn_size){100, 50}));
    REFUSED(op->resize.max_size = 500);
    REFUSED(op->size.width = SN_MAX_SIZE + 1);
    ACCEPTED(op->size = ((sn_size){100, 0}));
    REFUSED(op->resize.max_size = 100);
    ACCEPTED(op->resize.max_size = 101);
    make(SN_OP_GAUSSIAN_BLUR);
    REFUSED(op->gaussian_blur.kernel.height = 2);
    REFUSED(op->gaussian_blur.kernel.width = 4);
    make(SN_OP_RAND_AUGMENT);
    REFUSED(op->rand_augment.magnitude = op->rand_augment.bins);
    make(SN_OP_ELASTIC_TRANSFORM);
    REFUSED(op->elastic_transform.sigma[0] = 0);
    REFUSED(op->elastic_transform.sigma[1] = 0);
    REFUSED(op->elastic_transform.sigma[0] = 1e5);
    REFUSED(op->elastic_transform.sigma[1] = 1e5);
    ACCEPTED(op->elastic_transform.sigma[0] = op->elastic_transform.sigma[1] = 0);
    make(SN_OP_TIME_CROP);
    REFUSED(op->time_crop.is_centered = 1);
    ACCEPTED(op->time_crop.start = 0);
    ACCEPTED(op->time_crop.is_centered = 1);
    make(SN_OP_AUG_MIX);
    REFUSED(op->aug_mix.width = 31);
    ACCEPTED(op->aug_mix.depth = 0);
    make(SN_OP_RANDOM_IOU_CROP);
    REFUSED(plan.has_moves = 0);
}

static void chains_of_timm(void)
{
    sn_op *op = &plan.ops[0];
    sn_chains *chains = &op->timm.chains;

    make(SN_OP_TIMM_AUGMENT);
    REFUSED(chains->count = 0);
    REFUSED(chains->count = SN_MAX_PARTS + 1);
    REFUSED(chains->parts[0].ends = 0);
    REFUSED(chains->parts[0].ends = 2);
    REFUSED(chains->parts[0].operation = SN_N_TIMM_OPERATIONS);
    REFUSED(chains->parts[0].weight = 0.5f);
    REFUSED(chains->parts[0].weight = NAN);
    REFUSED(chains->parts[0].probability = 1.5f);
    REFUSED(chains->parts[0].magnitude = NAN);
    REFUSED(op->timm.distinct = 1; op->timm.num_layers = 2);
    REFUSED(op->timm.num_layers = 32; chains->count = 2; chains->parts[1] = chains->parts[0];
            chains->parts[0].ends = 0); /* 64 edits */
    make(SN_OP_TIMM_AUG_MIX);
    REFUSED(op->timm.num_layers = 0);
    REFUSED(op->timm.num_layers = 16);
    REFUSED(chains->count = 2; chains->parts[1] = chains->parts[0]; chains->parts[0].ends = 0);
    ACCEPTED(op->timm.depth = 0);
}

static void groups(void)
{
    const sn_op flip = {.kind = SN_OP_RANDOM_HFLIP, .chance = {0.5}},
                crop = {.kind = SN_OP_CENTER_CROP, .size = {4, 4}};
    const sn_op empty = {.kind = SN_OP_BRANCH, .chance = {0.5}}, maybe = {.kind = SN_OP_RANDOM_APPLY, .span = 1};

    make(SN_OP_RANDOM_APPLY);
    REFUSED(plan.ops[0].span = 0);
    REFUSED(plan.ops[0].span = 2);
    REFUSED(plan.ops[1] = crop);
    REFUSED(plan.ops[1] = empty);
    REFUSED(plan.ops[1] = maybe);
    REFUSED(plan.ops[1].kind = SN_N_OPS);
    ACCEPTED(plan.n_ops = 3; plan.ops[0].span = 2; plan.ops[1] = maybe; plan.ops[2] = flip);
    REFUSED(plan.ops[2] = crop);
    REFUSED(plan.ops[0].span = 1); /* the member's member is beyond its end */
    make(SN_OP_RANDOM_CHOICE);
    REFUSED(plan.ops[1] = flip);
    REFUSED(plan.ops[1].chance.p = 0.5);
    ACCEPTED(plan.n_ops = 4; plan.ops[0].span = 3; plan.ops[1] = empty; plan.ops[2] = empty; plan.ops[2].span = 1;
             plan.ops[3] = flip);
    REFUSED(plan.ops[3] = crop);
    make(SN_OP_RANDOM_ORDER);
    REFUSED(plan.ops[1] = flip);
    ACCEPTED(plan.ops[1].chance.p = 0.5);
    make(SN_OP_RANDOM_HFLIP);
    REFUSED(plan.ops[0] = empty);
    REFUSED(plan.ops[0].kind = SN_OP_NONE);
    REFUSED(plan.ops[0].kind = SN_N_OPS);
}

static void plans_as_a_whole(void)
{
    make(SN_OP_CENTER_CROP);
    REFUSED(plan.n_ops = SN_PLAN_MAX_OPS + 1);
    REFUSED(plan.n_head = 2);
    REFUSED(plan.has_moves = 2);
    REFUSED(plan.has_moves = 1; plan.n_head = 1);
    REFUSED(plan.has_moves = 1; plan.is_pair = 1);
    REFUSED(plan.decode = SN_DECODE_FAST + 1);
    REFUSED(plan.apply_orientation = 2);
    REFUSED(plan.leaves_erasing = 2);
    REFUSED(plan.leaves_erasing = 1; plan.erase.noise = SN_NOISE_VALUES);
    REFUSED(plan.is_pair = 2);
    REFUSED(plan.mask_dtype = SN_MASK_INT64 + 1);
    REFUSED(plan.is_pair = 1; plan.apply_orientation = 1);
    REFUSED(plan.is_sound = 2);
    REFUSED(plan.is_sound = 1);
    REFUSED(plan.channels = 1);
    REFUSED(plan.dtype = SN_BFLOAT16 + 1);
    REFUSED(plan.channels_last = 2);
    REFUSED(plan.divisor = 2);
    ACCEPTED(plan.divisor = 1);
    for (int c = 0; c < 3; c++) {
        REFUSED(plan.mean[c] = NAN);
        REFUSED(plan.mean[c] = 2e6f);
        REFUSED(plan.std[c] = NAN);
        REFUSED(plan.std[c] = -2e6f);
        REFUSED(plan.std[c] = 1e-7f);
    }
    ACCEPTED(plan.is_pair = 1; plan.n_head = 1);
    ACCEPTED(plan.n_ops = plan.n_head = 0);
}

static void erasing(void)
{
    make(SN_OP_CENTER_CROP);
    plan.erase = (sn_erase){.probability = 0.5, .scale = {0.1, 0.3}, .ratio = {0.3, 3.3}, .fewest = 1, .most = 2};
    REFUSED(plan.erase.probability = 1.5);
    REFUSED(plan.erase.probability = -1);
    REFUSED(plan.erase.probability = NAN);
    REFUSED(plan.erase.scale[1] = 2);
    REFUSED(plan.erase.ratio[0] = 0);
    REFUSED(plan.erase.noise = SN_NOISE_COLOURS + 1);
    REFUSED(plan.erase.fewest = 3);
    REFUSED(plan.erase.most = 1001);
    for (int c = 0; c < 3; c++) {
        REFUSED(plan.erase.value[c] = INFINITY);
        REFUSED(plan.erase.deviation[c] = NAN);
        REFUSED(plan.erase.deviation[c] = -1);
    }
    ACCEPTED(plan.erase = (sn_erase){.value = {INFINITY}}); /* nothing is erased */
}

static void sounds(void)
{
    make(SN_OP_RANDOM_TIME_CROP);
    REFUSED(plan.channels = SN_MAX_CHANNELS + 1);
    REFUSED(plan.dtype = SN_UINT8);
    REFUSED(plan.channels_last = 1);
    REFUSED(plan.is_pair = 1);
    REFUSED(plan.has_moves = 1);
    REFUSED(plan.apply_orientation = 1);
    REFUSED(plan.leaves_above = 1);
    REFUSED(plan.leaves_damaged = 1);
    REFUSED(plan.decode = SN_DECODE_FAST);
    REFUSED(plan.erase.probability = 0.5; plan.erase.ratio[0] = plan.erase.ratio[1] = 1);
    REFUSED(plan.leaves_erasing = 1);
    REFUSED(plan.ops[0] = (sn_op){.kind = SN_OP_RANDOM_HFLIP});
    make(SN_OP_RESAMPLE);
    REFUSED(plan.n_head = 0);
    ACCEPTED(for (int i = 1; i < SN_MAX_RESAMPLES; i++) plan.ops[i] = plan.ops[0];
             plan.n_ops = plan.n_head = SN_MAX_RESAMPLES);
    REFUSED(plan.ops[plan.n_ops] = plan.ops[0]; plan.n_head = ++plan.n_ops);
}

/* -- The size that comes out -- */

static void check_size(int rc, uint32_t height, uint32_t width)
{
    uint32_t h = 0, w = 0;

    CHECK_EQUAL(sn_plan_output_size(&plan, &h, &w), rc, "%u x %u", height, width);
    if (rc == SN_OK)
        CHECK(h == height && w == width);
}

static void sizes_of_pictures(void)
{
    make(SN_OP_RANDOM_HFLIP);
    check_size(SN_E_PLAN, 0, 0); /* the picture's own */
    make(SN_OP_CENTER_CROP);
    plan.ops[0].size = (sn_size){20, 30};
    check_size(SN_OK, 20, 30);
    plan.n_ops = 2;
    plan.ops[1] = (sn_op){.kind = SN_OP_PAD, .pad = {.padding = {1, 2, 3, 4}}};
    check_size(SN_OK, 26, 34);
    plan.ops[1] = (sn_op){.kind = SN_OP_RESIZE, .size = {10, 0}}; /* the shorter side */
    check_size(SN_OK, 10, 15);
    plan.ops[1] = (sn_op){.kind = SN_OP_RANDOM_RESIZE, .random_resize = {.size = {5, 6}}};
    check_size(SN_E_PLAN, 0, 0);
    plan.ops[0] = (sn_op){.kind = SN_OP_PAD, .pad = {.padding = {1, 2, 3, 4}}};
    plan.ops[1] = (sn_op){.kind = SN_OP_RANDOM_HFLIP};
    check_size(SN_E_PLAN, 0, 0);
}

static void sizes_of_sounds(void)
{
    make(SN_OP_RANDOM_TIME_CROP);
    plan.ops[0].random_time_crop.frames = 500;
    check_size(SN_E_PLAN, 0, 0); /* how many channels there are is not known */
    plan.channels = 2;
    check_size(SN_OK, 2, 500);
    plan.ops[0].random_time_crop.frames = SN_MAX_FRAMES;
    check_size(SN_E_TOO_LARGE, 0, 0);
    plan.n_ops = 3;
    plan.ops[0] = (sn_op){.kind = SN_OP_TIME_CROP, .time_crop = {.frames = 9}};
    plan.ops[1] = (sn_op){.kind = SN_OP_MONO};
    plan.ops[2] = (sn_op){.kind = SN_OP_RANDOM_POLARITY};
    check_size(SN_OK, 1, 9);
    plan.ops[2] = (sn_op){.kind = SN_OP_RESAMPLE};
    check_size(SN_E_PLAN, 0, 0);
}

int main(int argc, char **argv)
{
    check_seed(argc, argv);
    uint32_t checked = each_argument_has_its_limits();
    rules_of_single_kinds();
    chains_of_timm();
    groups();
    plans_as_a_whole();
    erasing();
    sounds();
    sizes_of_pictures();
    sizes_of_sounds();
    CHECK(checked > SN_N_OPS);
    printf("test_plan: %u arguments of %u kinds\n", checked, SN_N_OPS - 1);
    return 0;
}
