/*
 * test_edits.c -- whatever the size and the numbers, an edit reads and writes its own picture only.
 *
 *   a picture of 1 to MAX_SIDE rows and columns, whose memory ends with it
 *      --one op of any kind, its numbers drawn from all that a plan may have--> as many bytes
 *   a picture of one colour, with that colour around it --warps, blurs, sharpness--> the same
 *
 * A sanitizer sees what is read or written beside them.
 */
#include <math.h>
#include <stdbool.h>

#include "base/sn_status.h"
#include "check.h"
#include "codec/sn_codec.h"

#define N_ROUNDS 6000
#define MAX_SIDE 40

static sn_rng rng;

static double some(double least, double most)
{
    return sn_rng_uniform(&rng, least, most);
}

/* A number within an argument's limits, which is usually small. */
static double number(const sn_argument *argument)
{
    static const double far[] = {1, 3, 45, 360, 1e6};
    double limit = far[sn_rng_below(&rng, 5)];

    if (isinf(argument->most) && sn_rng_below(&rng, 4) == 0)
        return argument->most;
    return some(fmax(argument->least, -limit), fmax(fmin(argument->most, limit), argument->least));
}

static uint32_t whole(const sn_argument *argument)
{
    return (uint32_t)fmin(argument->most, floor(number(argument) + sn_rng_below(&rng, 2)));
}

static void range(double *numbers, const sn_argument *argument)
{
    double one = number(argument), other = sn_rng_below(&rng, 3) ? number(argument) : one;

    numbers[0] = fmin(one, other);
    numbers[1] = fmax(one, other);
}

/* Chains of one part or two, of any operations, levels and probabilities. */
static void draw_chains(sn_chains *chains, uint32_t kind)
{
    uint32_t length = kind == SN_OP_TIMM_AUG_MIX ? 1 : 1 + sn_rng_below(&rng, 2);
    uint32_t n_chains = 1 + sn_rng_below(&rng, SN_MAX_PARTS / length);

    chains->count = n_chains * length;
    for (uint32_t k = 0; k < chains->count; k++)
        chains->parts[k] = (sn_part){.operation = (uint16_t)sn_rng_below(&rng, SN_N_TIMM_OPERATIONS),
                                     .ends = k % length == length - 1,
                                     .weight = k % length == 0 ? 1 / (float)n_chains : 0,
                                     .probability = sn_rng_below(&rng, 2) ? 1 : 0.5f,
                                     .magnitude = (float)some(0, sn_rng_below(&rng, 4) ? 10 : 1000)};
}

static void draw_argument(sn_op *op, const sn_argument *argument, const uint8_t colour[3])
{
    void *at = (char *)op + argument->at;
    double *real = at;

    switch (argument->type) {
    case SN_REAL:
        *real = number(argument);
        break;
    case SN_TWO_RANGES:
        range(real + 2, argument);
        range(real, argument);
        break;
    case SN_RANGE:
        range(real, argument);
        break;
    case SN_POINT:
        real[0] = number(argument);
        real[1] = number(argument);
        break;
    case SN_COLOUR:
        memcpy(at, colour, 3);
        break;
    case SN_CHAINS:
        draw_chains(at, op->kind);
        break;
    case SN_BYTE:
        *(uint8_t *)at = (uint8_t)sn_rng_below(&rng, 256);
        break;
    case SN_SIZE:
        *(sn_size *)at = (sn_size){whole(argument) | 1, whole(argument) | 1}; /* a kernel's sides are odd */
        break;
    default:
        *(uint32_t *)at = whole(argument);
    }
}

/* Any operation that leaves a picture its size, with any arguments that ops.def allows. */
static void draw_op(sn_plan *plan, const uint8_t colour[3])
{
    sn_op *op = &plan->ops[0];
    uint32_t kind;

    do
        kind = 1 + sn_rng_below(&rng, SN_N_OPS - 1);
    while ((sn_kinds[kind].flags & (SN_KEEPS_SIZE | SN_IS_GROUP | SN_IS_SOUND)) != SN_KEEPS_SIZE);
    do {
        sn_op_begin(op, kind);
        for (const sn_argument *argument = sn_kinds[kind].arguments; argument->name != NULL; argument++)
            draw_argument(op, argument, colour);
    } while (sn_plan_check(plan) != SN_OK); /* arguments that do not go together */
}

static bool keeps_one_colour(uint32_t kind)
{
    return kind == SN_OP_RANDOM_ROTATION || kind == SN_OP_RANDOM_AFFINE || kind == SN_OP_GAUSSIAN_BLUR ||
           kind == SN_OP_RANDOM_ADJUST_SHARPNESS || kind == SN_OP_RANDOM_PERSPECTIVE;
}

static void test_one(sn_codec *codec, uint32_t round)
{
    sn_plan plan = {.n_ops = 1, .divisor = 255, .std = {1, 1, 1}};
    uint8_t colour[3] = {(uint8_t)sn_rng_u32(&rng), (uint8_t)sn_rng_u32(&rng), (uint8_t)sn_rng_u32(&rng)};
    sn_op *op = &plan.ops[0];
    uint32_t height = 1 + sn_rng_below(&rng, MAX_SIDE), width = 1 + sn_rng_below(&rng, MAX_SIDE);
    size_t bytes = (size_t)3 * height * width;
    uint8_t *pixels = malloc(bytes), *out = malloc(bytes);
    sn_view view = {pixels, height, width, (size_t)3 * width, NULL, 0};
    bool is_plain = sn_rng_below(&rng, 2) == 0;

    CHECK(pixels && out);
    draw_op(&plan, colour);
    for (size_t k = 0; k < bytes; k++)
        pixels[k] = is_plain ? colour[k % 3] : (uint8_t)sn_rng_u32(&rng);
    CHECK_EQUAL(sn_codec_augment_decoded(codec, &plan, &rng, &view, out), SN_OK, "round %u, kind %u", round, op->kind);
    if (is_plain && keeps_one_colour(op->kind))
        for (size_t k = 0; k < bytes; k++)
            CHECK_EQUAL(out[k], colour[k % 3], "round %u, kind %u, %u x %u, byte %zu", round, op->kind, height, width,
                        k);
    free(pixels);
    free(out);
}

int main(int argc, char **argv)
{
    uint64_t seed = check_seed(argc, argv);
    sn_codec *codec = sn_codec_new(0);

    CHECK(codec);
    for (uint32_t round = 0; round < N_ROUNDS; round++) {
        sn_rng_start(&rng, seed, 0, 0, round, SN_STREAM_ORDER);
        test_one(codec, round);
    }
    sn_codec_free(codec);
    printf("test_edits: %d rounds, each within its picture\n", N_ROUNDS);
    return 0;
}
