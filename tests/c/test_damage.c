/*
 * test_damage.c -- damaged JPEGs, PNGs and WebPs go through every call of a codec, which reads and writes within them.
 *
 *   whole files --damage--> probe, decode_region, decode, augment_encoded --> pixels, or a failure in words
 *
 * A sanitizer sees a read or a write outside. What a file gives is checked for its size. After damage a codec has to go on: now and
 * then it is given a whole file, of which it has to make what it made before.
 *
 * SENECA_FUZZ=1000000 build/asan/test_damage 7: so many of each format, by seed 7.
 */
#include "base/sn_status.h"
#include "check.h"
#include "codec/sn_codec.h"
#include "every_call.h"
#include "formats.h"
#include "plans.h"

#define N_WHOLE 300 /* of each format */
#define MOST_SIDE 24
#define DEFAULT_COUNT 3000
#define WHOLE_EVERY 50

enum format { JPEG, PNG, WEBP, N_FORMATS };
static const char *const names[] = {"JPEG", "PNG", "WebP"};

static sn_plan plans[N_PLANS];
static uint64_t seed;

static picture_file make(enum format format, sn_rng *rng)
{
    uint32_t height = 1 + sn_rng_below(rng, MOST_SIDE), width = 1 + sn_rng_below(rng, MOST_SIDE);

    if (format == PNG)
        return png_make(height, width, rng);
    if (format == WEBP)
        return webp_make(height, width, rng);
    picture_kind kind = {.height = height, .width = width, .across = 1, .down = 1, .quality = 50};
    kind.colour = sn_rng_below(rng, PICTURE_COLOURS);
    kind.progressive = sn_rng_below(rng, 3) == 0;
    kind.restart = (uint8_t)sn_rng_below(rng, 3);
    if (kind.colour == PICTURE_YCC)
        kind.across = kind.down = 1 + (uint8_t)sn_rng_below(rng, 2);
    return picture_make(&kind, rng);
}

/* What a codec makes of a whole file, as a number. */
static uint64_t digest_of(sn_codec *codec, picture_file file)
{
    sn_view view;
    uint64_t digest = 0;

    CHECK_EQUAL(sn_codec_decode(codec, &plans[PLAN_TRAIN], file.bytes, file.length, &view), 0, "a whole file");
    for (uint32_t y = 0; y < view.height; y++)
        for (uint32_t x = 0; x < 3 * view.width; x++)
            digest = sn_mix64(digest ^ view.pixels[y * view.stride + x]);
    return digest;
}

static void damage_many(enum format format, uint32_t count)
{
    static picture_file whole[N_WHOLE];
    static uint64_t digests[N_WHOLE];
    sn_codec *codec = sn_codec_new(EVERY_CALL_PIXELS);
    uint32_t decoded = 0;
    sn_rng rng;

    CHECK(codec);
    sn_rng_start(&rng, seed, 0, format, 0, SN_STREAM_ORDER);
    for (uint32_t i = 0; i < N_WHOLE; i++) {
        whole[i] = make(format, &rng);
        if (!whole[i].bytes) {
            printf("test_damage: built without the library of %ss\n", names[format]);
            goto out;
        }
        digests[i] = digest_of(codec, whole[i]);
    }
    for (uint32_t number = 0; number < count; number++) {
        sn_rng_start(&rng, seed, 0, format, 1 + number, SN_STREAM_ORDER);
        uint32_t i = sn_rng_below(&rng, N_WHOLE);
        picture_file file = picture_damaged(whole[i], &rng);
        decoded += (uint32_t)every_call(codec, &plans[number % N_PLANS], file, seed, number, &rng);
        picture_free(&file);
        if (number % WHOLE_EVERY == 0)
            CHECK_EQUAL(digest_of(codec, whole[i]), digests[i], "%s %u after damage", names[format], number);
    }
    CHECK(count < DEFAULT_COUNT || (decoded > count / 50 && decoded < count)); /* else the damage says nothing */
    printf("test_damage: %u damaged %ss, of which %u were decoded\n", count, names[format], decoded);
out:
    sn_codec_free(codec);
    for (uint32_t i = 0; i < N_WHOLE; i++)
        picture_free(&whole[i]);
}

int main(int argc, char **argv)
{
    const char *asked = getenv("SENECA_FUZZ");
    uint32_t count = asked ? (uint32_t)strtoul(asked, NULL, 10) : DEFAULT_COUNT;

    seed = check_seed(argc, argv);
    plans_make(plans);
    for (enum format format = 0; format < N_FORMATS; format++)
        damage_many(format, count);
    return 0;
}
