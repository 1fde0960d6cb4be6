/*
 * test_erase.c -- RandomErasing by the batch and by whoever takes it is the same.
 *
 *   a picture --sn_batch_write, erasing------------------------------> elements
 *             --sn_batch_write, which leaves it--> elements, painted by sn_batch_draw_erasures --> the same
 *
 * The memory of each ends with it: a sanitizer sees what is written beside.
 */
#include "check.h"
#include "codec/kernels/element.h"
#include "codec/sn_codec.h"

#define N_ROUNDS 4000
#define MAX_SIDE 40

static sn_rng rng;

static double some(double least, double most)
{
    return sn_rng_uniform(&rng, least, most);
}

static sn_plan draw_plan(void)
{
    sn_plan plan = {.dtype = sn_rng_below(&rng, 4), .channels_last = sn_rng_below(&rng, 2), .divisor = 255};
    sn_erase *erase = &plan.erase;

    erase->probability = sn_rng_below(&rng, 4) ? 1 : 0.5;
    erase->scale[0] = some(0.001, 0.2);
    erase->scale[1] = some(erase->scale[0], 1);
    erase->ratio[0] = some(0.1, 1);
    erase->ratio[1] = some(erase->ratio[0], 8);
    erase->most = sn_rng_below(&rng, 5);
    erase->fewest = sn_rng_below(&rng, erase->most + 1);
    erase->noise = sn_rng_below(&rng, 2) ? SN_NOISE_COLOURS : SN_NOISE_NONE;
    for (int c = 0; c < 3; c++) {
        plan.mean[c] = (float)some(-1, 1);
        plan.std[c] = (float)some(0.1, 2);
        erase->value[c] = (float)(plan.dtype == SN_UINT8 ? sn_rng_below(&rng, 256) : some(-3, 3));
        erase->deviation[c] = plan.dtype == SN_UINT8 ? 0 : (float)some(0, 2);
    }
    return plan;
}

/* Returns how many rectangles there are. */
static uint32_t paint(const sn_plan *plan, const sn_erasure *erasures, uint32_t height, uint32_t width, void *out)
{
    uint32_t n = 0;

    for (uint32_t k = 0; k < sn_plan_erasures(plan); k++) {
        const sn_rect *rect = &erasures[k].rect;

        CHECK(rect->top + rect->height <= height && rect->left + rect->width <= width);
        n += rect->height > 0;
        for (uint32_t y = rect->top; y < rect->top + rect->height; y++)
            for (uint32_t x = rect->left; x < rect->left + rect->width; x++)
                for (uint32_t c = 0; c < 3; c++) {
                    size_t pixel = (size_t)y * width + x;
                    size_t place = plan->channels_last ? 3 * pixel + c : (size_t)c * height * width + pixel;

                    sn_element_put(plan->dtype, out, place, sn_element(plan->dtype, erasures[k].value[c]));
                }
    }
    return n;
}

static uint32_t test_one(uint64_t seed, uint32_t round)
{
    sn_plan erases = draw_plan(), leaves = erases;
    uint32_t height = 1 + sn_rng_below(&rng, MAX_SIDE), width = 1 + sn_rng_below(&rng, MAX_SIDE), n;
    size_t n_pixels = (size_t)height * width, bytes = 3 * n_pixels * sn_dtype_bytes(erases.dtype);
    uint8_t *pixels = malloc(3 * n_pixels), *mine = malloc(bytes), *theirs = malloc(bytes);
    sn_erasure *erasures;
    sn_rng numbers;

    leaves.leaves_erasing = 1;
    erasures = malloc(sn_plan_erasures(&leaves) * sizeof *erasures);
    CHECK(pixels && mine && theirs && erasures);
    CHECK_EQUAL(sn_plan_erasures(&erases), 0, "round %u", round);
    for (size_t k = 0; k < 3 * n_pixels; k++)
        pixels[k] = (uint8_t)sn_rng_u32(&rng);

    sn_rng_start(&numbers, seed, 0, 0, round, SN_STREAM_ERASE);
    sn_batch_write(&erases, pixels, height, width, &numbers, mine);
    sn_batch_write(&leaves, pixels, height, width, NULL, theirs);
    sn_rng_start(&numbers, seed, 0, 0, round, SN_STREAM_ERASE);
    sn_batch_draw_erasures(&leaves, height, width, &numbers, erasures);
    n = paint(&leaves, erasures, height, width, theirs);
    for (size_t k = 0; k < bytes; k++)
        CHECK_EQUAL(theirs[k], mine[k], "round %u, %u x %u, dtype %u, byte %zu", round, height, width, erases.dtype, k);
    free(pixels);
    free(mine);
    free(theirs);
    free(erasures);
    return n;
}

int main(int argc, char **argv)
{
    uint64_t seed = check_seed(argc, argv);
    uint32_t n = 0;

    for (uint32_t round = 0; round < N_ROUNDS; round++) {
        sn_rng_start(&rng, seed, 0, 0, round, SN_STREAM_ORDER);
        n += test_one(seed, round);
    }
    CHECK(n > N_ROUNDS / 2);
    printf("test_erase: %u rectangles, the same by both\n", n);
    return 0;
}
