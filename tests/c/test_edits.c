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

/* A range that is narrow, wide, or a single number. */
static void draw_range(double range[2], double least, double most)
{
    range[0] = some(least, most);
    range[1] = sn_rng_below(&rng, 3) ? some(range[0], most) : range[0];
}

static double draw_amount(uint32_t kind)
{
    if (kind == SN_OP_RANDOM_POSTERIZE)
        return sn_rng_below(&rng, 9);
    return kind == SN_OP_RANDOM_SOLARIZE ? some(-10, 300) : some(0, sn_rng_below(&rng, 2) ? 3 : 1e6);
}

/* Chains of one part or two, of any operations, levels and probabilities. */
static void draw_parts(sn_op *op)
{
    uint32_t length = op->kind == SN_OP_TIMM_AUG_MIX ? 1 : 1 + sn_rng_below(&rng, 2);
    uint32_t n_chains = 1 + sn_rng_below(&rng, SN_MAX_PARTS / length);

    op->n_parts = n_chains * length;
    for (uint32_t k = 0; k < op->n_parts; k++)
        op->parts[k] = (sn_part){.operation = sn_rng_below(&rng, SN_N_TIMM_OPERATIONS),
                                 .ends = k % length == length - 1,
                                 .weight = k % length == 0 ? 1 / (float)n_chains : 0,
                                 .probability = sn_rng_below(&rng, 2) ? 1 : 0.5f,
                                 .magnitude = (float)some(0, sn_rng_below(&rng, 4) ? 10 : 1000)};
    op->deviation = sn_rng_below(&rng, 3) ? some(0, 3) : sn_rng_below(&rng, 2) ? INFINITY : 0;
    op->most = sn_rng_below(&rng, 4) ? 10 : some(0, 1000);
    op->warp = sn_rng_below(&rng, 4);
    op->distinct = op->kind == SN_OP_TIMM_AUGMENT && sn_rng_below(&rng, 2);
    if (op->distinct && op->count > n_chains)
        op->count = n_chains;
}

/* What those have that blend chains. */
static void draw_mix(sn_op *op)
{
    op->count = 1 + sn_rng_below(&rng, 7);
    op->depth = sn_rng_below(&rng, 4);
    op->magnitude = 1 + sn_rng_below(&rng, 10);
    op->all_ops = sn_rng_below(&rng, 2);
    op->has_fill = sn_rng_below(&rng, 2);
    op->alpha[0] = some(1e-3, sn_rng_below(&rng, 2) ? 2 : 1000);
}

static void draw_elastic(sn_op *op)
{
    bool is_blurred = sn_rng_below(&rng, 4);

    for (int k = 0; k < 2; k++) {
        op->alpha[k] = some(-1, 1) * (sn_rng_below(&rng, 3) ? 200 : 1e6);
        op->sigma[k] = is_blurred ? some(1e-6, sn_rng_below(&rng, 3) ? 2 : 31.7) : 0;
    }
}

static sn_op draw_op(void)
{
    static const double far[] = {1, 45, 360, 1e6};
    double degrees = far[sn_rng_below(&rng, 4)];
    sn_op op = {.kind = SN_OP_RANDOM_ROTATION +
                        sn_rng_below(&rng, SN_OP_ELASTIC - SN_OP_RANDOM_ROTATION + 1)};

    op.warp = sn_rng_below(&rng, 3);
    op.has_center = sn_rng_below(&rng, 2);
    op.center[0] = some(-degrees, degrees);
    op.center[1] = some(-degrees, degrees);
    for (int c = 0; c < 3; c++)
        op.fill[c] = (uint8_t)sn_rng_below(&rng, 256);
    draw_range(op.degrees, -degrees, degrees);
    draw_range(op.shear, -degrees, degrees);
    draw_range(op.shear + 2, -degrees, degrees);
    draw_range(op.scale, 1e-6, sn_rng_below(&rng, 2) ? 2 : 1e6);
    op.translate[0] = some(0, 1);
    op.translate[1] = some(0, 1);
    op.probability = 1;
    op.amount = draw_amount(op.kind);
    if (op.kind == SN_OP_GAUSSIAN_BLUR) {
        op.height = 1 + 2 * sn_rng_below(&rng, sn_rng_below(&rng, 4) ? 8 : 128);
        op.width = 1 + 2 * sn_rng_below(&rng, sn_rng_below(&rng, 4) ? 8 : 128);
    }
    draw_range(op.sigma, 1e-6, sn_rng_below(&rng, 2) ? 3 : 1e6);
    op.count = sn_rng_below(&rng, SN_MAX_COUNT + 1);
    op.bins = 2 + sn_rng_below(&rng, 40);
    op.magnitude = sn_rng_below(&rng, op.bins);
    op.policy = sn_rng_below(&rng, SN_N_POLICIES);
    if (op.kind == SN_OP_RANDOM_PERSPECTIVE)
        op.amount = some(0, 1);
    if (op.kind == SN_OP_AUG_MIX || op.kind == SN_OP_TIMM_AUG_MIX)
        draw_mix(&op);
    if (op.kind == SN_OP_AUG_MIX || op.kind == SN_OP_ELASTIC)
        op.warp = sn_rng_below(&rng, 2);
    if (op.kind == SN_OP_TIMM_AUGMENT || op.kind == SN_OP_TIMM_AUG_MIX)
        draw_parts(&op);
    if (op.kind == SN_OP_ELASTIC)
        draw_elastic(&op);
    return op;
}

static bool keeps_one_colour(uint32_t kind)
{
    return kind == SN_OP_RANDOM_ROTATION || kind == SN_OP_RANDOM_AFFINE || kind == SN_OP_GAUSSIAN_BLUR ||
           kind == SN_OP_RANDOM_SHARPNESS || kind == SN_OP_RANDOM_PERSPECTIVE;
}

static void test_one(sn_codec *codec, uint32_t round)
{
    sn_plan plan = {.n_ops = 1, .ops = {draw_op()}, .divisor = 255, .std = {1, 1, 1}};
    sn_op *op = &plan.ops[0];
    uint32_t height = 1 + sn_rng_below(&rng, MAX_SIDE), width = 1 + sn_rng_below(&rng, MAX_SIDE);
    size_t bytes = (size_t)3 * height * width;
    uint8_t *pixels = malloc(bytes), *out = malloc(bytes);
    sn_view view = {pixels, height, width, (size_t)3 * width, NULL};
    bool is_plain = sn_rng_below(&rng, 2) == 0;

    CHECK(pixels && out);
    for (size_t k = 0; k < bytes; k++)
        pixels[k] = is_plain ? op->fill[k % 3] : (uint8_t)sn_rng_u32(&rng);
    CHECK_EQUAL(sn_plan_check(&plan), SN_OK, "round %u, kind %u", round, op->kind);
    CHECK_EQUAL(sn_codec_augment_decoded(codec, &plan, &rng, &view, out), SN_OK, "round %u, kind %u", round,
                op->kind);
    if (is_plain && keeps_one_colour(op->kind))
        for (size_t k = 0; k < bytes; k++)
            CHECK_EQUAL(out[k], op->fill[k % 3], "round %u, kind %u, %u x %u, byte %zu", round, op->kind, height,
                        width, k);
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
