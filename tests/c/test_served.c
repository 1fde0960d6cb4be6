/*
 * test_served.c -- what is served from a payload is the payload's, and an overwritten record or payload harms nothing.
 *
 *   a payload of each form, by each plan --sn_prepare--> served
 *   its record overwritten               -------------> served, or not, within the segment
 *
 * tests/fuzz/fuzz_payload.c goes on from here.
 */
#include <errno.h>

#include "base/sn_status.h"
#include "check.h"
#include "served.h"

#define DAMAGED 4000u
#define SIDE 6

static uint8_t bytes[1 << 16];

static served sound(uint32_t plan, enum sn_form form)
{
    served sample = {.plan = plan, .form = form, .bytes = bytes, .granules = 2};
    int is_sound = plan >= N_PLANS;

    sample.source.height = is_sound ? 1 : SIDE;
    sample.source.width = SIDE;
    sample.length = form == SN_AUGMENTED ? served_copy_bytes(plan) : is_sound ? 4000 : 3 * SIDE * SIDE;
    sample.source.length = (uint32_t)sample.length;
    sample.target.length = served_copy_bytes(plan);
    return sample;
}

static void payloads_are_served(void)
{
    for (uint32_t plan = 0; plan < SERVED_PLANS; plan++)
        for (int stages = 0; stages < 2; stages++) {
            served copy = sound(plan, SN_AUGMENTED), decoded = sound(plan, SN_DECODED);
            decoded.stages = stages;
            CHECK_EQUAL(served_prepare(&copy), 0, "a copy, plan %u", plan);
            CHECK_EQUAL(served_prepare(&decoded), 0, "a decoded sample, plan %u", plan);
        }
}

/* As fuzzing found it: the place is in the segment, and not so many bytes behind it. */
static void a_copy_that_ends_outside_is_not_served(void)
{
    for (uint32_t plan = 0; plan < SERVED_PLANS; plan++) {
        served copy = sound(plan, SN_AUGMENTED);
        copy.source.granule = copy.granules + sn_granules_for(copy.length) - 1;
        copy.source.length = 1;
        copy.length = 1;
        CHECK_EQUAL(served_prepare(&copy), -ENOENT, "plan %u", plan);
    }
}

static void a_copy_is_made_in_the_segment(void)
{
    for (uint32_t plan = 0; plan < SERVED_PLANS; plan++) {
        served sample = sound(plan, SN_DECODED);
        sample.stages = 1;
        sample.target.granule = sample.granules + sn_granules_for(sample.target.length) - 1;
        sample.target.length = 1;
        CHECK_EQUAL(served_prepare(&sample), 0, "plan %u", plan);
        sample.target.granule = UINT32_MAX;
        CHECK_EQUAL(served_prepare(&sample), 0, "plan %u", plan);
    }
}

static uint32_t damaged_number(uint32_t number, sn_rng *rng)
{
    switch (sn_rng_below(rng, 4)) {
    case 0:
        return sn_rng_below(rng, 8);
    case 1:
        return number ^ 1u << sn_rng_below(rng, 32);
    case 2:
        return sn_rng_u32(rng);
    default:
        return number;
    }
}

static uint32_t overwritten_records_harm_nothing(uint64_t seed)
{
    uint32_t refused = 0;

    for (uint32_t number = 0; number < DAMAGED; number++) {
        sn_rng rng;
        sn_rng_start(&rng, seed, 0, 0, number, SN_STREAM_ORDER);
        served sample = sound(sn_rng_below(&rng, SERVED_PLANS), 1 + sn_rng_below(&rng, SN_FORMS - 1));
        sample.stages = (int)sn_rng_below(&rng, 2);
        sample.keep = sn_rng_below(&rng, SN_FORMS);
        sample.source.granule = damaged_number(0, &rng);
        sample.target.granule = damaged_number(0, &rng);
        sample.source.length = damaged_number(sample.source.length, &rng);
        sample.target.length = damaged_number(sample.target.length, &rng);
        sample.source.height = (uint16_t)damaged_number(sample.source.height, &rng);
        sample.source.width = (uint16_t)damaged_number(sample.source.width, &rng);
        refused += served_prepare(&sample) != 0;
    }
    return refused;
}

int main(int argc, char **argv)
{
    uint64_t seed = check_seed(argc, argv);

    served_begin();
    payloads_are_served();
    a_copy_that_ends_outside_is_not_served();
    a_copy_is_made_in_the_segment();
    uint32_t refused = overwritten_records_harm_nothing(seed);
    CHECK(refused > DAMAGED / 10 && refused < DAMAGED);
    printf("test_served: of %u overwritten records %u were not served\n", DAMAGED, refused);
    served_end();
    return 0;
}
