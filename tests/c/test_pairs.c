/* Pairs of pictures and masks, whole and damaged: their masks are the ones that all forms give, and nothing is read
 * or written outside of what a pair has. Prints its seed, and takes it as its argument. */
#include <stdlib.h>

#include "base/sn_rng.h"
#include "check.h"
#include "codec/sn_codec.h"
#include "pairs.h"
#include "plans.h"

#ifdef SN_HAVE_PNG

#define PAIRS 24
#define DAMAGED 12 /* of each pair */

static uint64_t seed;

int main(int argc, char **argv)
{
    sn_plan plans[N_PLANS];
    sn_codec *codec = sn_codec_new(0);
    uint32_t whole = 0, broken = 0;
    sn_rng rng;

    seed = check_seed(argc, argv);
    CHECK(codec);
    pairs_make_plans(plans);
    sn_rng_start(&rng, seed, 0, 0, 0, SN_STREAM_CHOOSE);
    for (uint32_t number = 0; number < PAIRS; number++) {
        uint32_t height = 1 + sn_rng_below(&rng, 90), width = 1 + sn_rng_below(&rng, 90);
        picture_kind kind = {height, width, PICTURE_YCC, 2, 2, 0, 0, 80, 0};
        picture_file picture = picture_make(&kind, &rng), mask = pair_make_mask(height, width, &rng);
        picture_file pair = pair_join(&picture, &mask);

        for (uint32_t i = 0; i < N_PLANS; i++)
            whole += (uint32_t)pair_go_through(codec, &plans[i], &pair, seed, number);
        for (uint32_t k = 0; k < DAMAGED; k++) {
            picture_file bad_mask = k % 2 ? picture_flipped(mask, &rng) : pair_make_mask(height + k, width, &rng);
            picture_file other = pair_join(&picture, &bad_mask);
            picture_file bad = k % 3 == 0   ? picture_truncated(other, &rng)
                               : k % 3 == 1 ? picture_flipped(other, &rng)
                                            : other;

            broken += (uint32_t)!pair_go_through(codec, &plans[k % N_PLANS], &bad, seed, number);
            if (bad.bytes != other.bytes)
                picture_free(&bad);
            picture_free(&other);
            picture_free(&bad_mask);
        }
        picture_free(&picture);
        picture_free(&mask);
        picture_free(&pair);
    }
    CHECK(whole > PAIRS * N_PLANS / 2 && broken > PAIRS * DAMAGED / 4);
    sn_codec_free(codec);
    return 0;
}

#else

int main(void)
{
    return 0;
}

#endif
