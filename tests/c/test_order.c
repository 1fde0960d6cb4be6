/*
 * test_order.c -- an order whose samples are taken out of turn, until what is left is listed.
 *
 * Every sample is offered until it is taken, and none after; and from the list each sample that is left comes
 * first as often as any other.
 */
#include "base/sn_rng.h"
#include "check.h"
#include "draw/sn_order.h"

#define N_SAMPLES 100000u /* more than a permutation has a table for */
#define BATCH 32u
#define EPOCHS 40u

static uint64_t seed;

/* Others prepare most: of each draw three quarters are taken out of turn, from anywhere. */
static uint32_t take_out_of_turn(sn_order *order, sn_rng *rng, uint32_t n)
{
    uint32_t taken = 0;

    for (int tries = 0; tries < 20000 && taken < n; tries++) {
        uint32_t sample = sn_rng_below(rng, N_SAMPLES);
        if (!sn_order_is_taken(order, sample)) {
            sn_order_take(order, sample);
            taken++;
        }
    }
    return taken;
}

/* One epoch; where the list came in, and how often each part of the dataset was first in it. */
static void go_through(uint32_t epoch, uint32_t *listed, uint32_t firsts[2])
{
    sn_epoch what = {.n_samples = N_SAMPLES, .places = N_SAMPLES, .seed = seed, .epoch = epoch};
    sn_order order;
    sn_rng rng;
    uint32_t offered = 0;

    sn_rng_start(&rng, seed, 1, epoch, 0, SN_STREAM_CHOOSE);
    CHECK_EQUAL(sn_order_init(&order, &what), 0, "epoch %u", epoch);
    while (order.left > 0) {
        const uint32_t *before = order.rest;
        sn_order_shorten(&order);
        sn_order_fill_ahead(&order, BATCH);
        sn_order_begin(&order);
        if (!before && order.rest) {
            (*listed)++;
            CHECK_EQUAL(order.n_rest, order.left, "epoch %u", epoch);
            firsts[order.rest[0] >= N_SAMPLES / 2]++;
        }
        uint32_t n = order.left < BATCH ? order.left : BATCH, own = 0;
        n -= take_out_of_turn(&order, &rng, n - n / 4);
        while (own < n) {
            uint32_t sample = sn_order_next(&order);
            if (sample == UINT32_MAX) { /* all that is left is deferred */
                sample = sn_order_force(&order);
                CHECK(sample != UINT32_MAX);
            } else if (sn_rng_below(&rng, 4) == 0 && sn_order_defer(&order, sample) == 0) {
                continue;
            }
            CHECK_EQUAL(sn_order_is_taken(&order, sample), 0, "sample %u of epoch %u", sample, epoch);
            sn_order_take(&order, sample);
            own++;
        }
        offered += own;
    }
    sn_order_fill_ahead(&order, BATCH);
    sn_order_begin(&order);
    CHECK_EQUAL(sn_order_next(&order), UINT32_MAX, "after epoch %u", epoch);
    CHECK(offered >= N_SAMPLES / 5);
    sn_order_free(&order);
}

int main(int argc, char **argv)
{
    uint32_t listed = 0, firsts[2] = {0, 0};

    seed = check_seed(argc, argv);
    for (uint32_t epoch = 0; epoch < EPOCHS; epoch++)
        go_through(epoch, &listed, firsts);
    CHECK_EQUAL(listed, EPOCHS, "epochs whose rest was listed");
    CHECK(firsts[0] >= 3 && firsts[1] >= 3); /* by chance in one run of 10^9 */
    printf("test_order: seed %" PRIu64 ", %u epochs\n", seed, EPOCHS);
    return 0;
}
