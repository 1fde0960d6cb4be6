/*
 * test_sound.c -- whatever way a sound goes, the same numbers come out.
 *
 *   files of each format --read a stretch--> the same stretch of the whole
 *                        --ops on the file--> AUGMENTED                  equal
 *                        --head--> DECODED --tail--> AUGMENTED
 *   damaged files        --all calls--> frames, or a failure in words; and if both ways give frames, the same
 *
 * One codec is used for all, so that what it carries over from the last sound shows. A sanitizer sees a read or a write
 * outside.
 *
 * SENECA_FUZZ=1000000 build/asan/test_sound 7: so many damaged files of each format, by seed 7. Of MP3s only then:
 * libmpg123 writes about each to the standard error.
 */
#include "base/sn_status.h"
#include "check.h"
#include "codec/sn_codec.h"
#include "codec/sound/flac_blocks.h"
#include "codec/sound/sound_file.h"
#include "every_call.h"
#include "formats.h"
#include "plans.h"
#include "sounds.h"

#define N_WHOLE 12 /* of each format */
#define MOST_FRAMES 9000
#define MOST_CHANNELS 3
#define N_STRETCHES 40
#define DEFAULT_COUNT 600
#define WHOLE_EVERY 25
#define FLAC_FRAMES_AT 21 /* the count's low 36 bits end 5 bytes on */

static const uint32_t rates[] = {8000, 16000, 44100, 48000};
static sn_plan plans[MOST_CHANNELS + 1][N_SOUND_PLANS];
static uint64_t seed;

static sound_kind draw_kind(enum sound_format format, sn_rng *rng)
{
    sound_kind kind = {format, rates[sn_rng_below(rng, 4)], 1 + sn_rng_below(rng, MOST_CHANNELS),
                       1 + sn_rng_below(rng, MOST_FRAMES)};

    if (format == SOUND_OPUS) /* which has few rates */
        kind.rate = kind.rate == 44100 ? 48000 : kind.rate;
    if ((format == SOUND_MP3 || format == SOUND_WAV_ADPCM) && kind.channels > 2)
        kind.channels = 2;
    return kind;
}

/* -- Stretches -- */

static void check_stretch(const sn_planes *whole, const sn_planes *part, const char *name)
{
    for (uint32_t channel = 0; channel < part->channels; channel++)
        for (uint64_t k = 0; k < part->count; k++) {
            int64_t frame = part->first + (int64_t)k;
            float got = *sn_planes_at(part, channel, frame), wanted = 0;

            if (frame >= 0 && frame < (int64_t)whole->count)
                wanted = *sn_planes_at(whole, channel, frame);
            if (memcmp(&got, &wanted, sizeof got) != 0)
                check_failed(__FILE__, __LINE__, "%s: frame %lld of channel %u is %g and not %g", name,
                             (long long)frame, channel, got, wanted);
        }
}

/* Any stretches of a file, in any order, also such that begin before it or end behind it. */
static int test_stretches(picture_file bytes, const sound_kind *kind, sn_rng *rng)
{
    char message[SN_SOUND_MESSAGE];
    sn_sound_file file = {.message = message};
    sn_buffer of_whole = {0}, of_part = {0};
    sn_planes whole, part;
    bool mono = sn_rng_below(rng, 2);
    int is_exact;

    CHECK_EQUAL(sn_sound_open(&file, bytes.bytes, bytes.length, true), 0, "%s", sound_names[kind->format]);
    CHECK_EQUAL(file.rate, kind->rate, "%s", sound_names[kind->format]);
    CHECK_EQUAL(file.channels, kind->channels, "%s", sound_names[kind->format]);
    CHECK_EQUAL(sn_sound_read_all(&file, mono, &of_whole, &whole), 0, "%s", sound_names[kind->format]);
    CHECK(kind->format >= SOUND_VORBIS || whole.count >= kind->frames);
    is_exact = file.is_exact;
    for (uint32_t k = 0; k < N_STRETCHES && is_exact; k++) {
        int64_t first = (int64_t)sn_rng_below(rng, kind->frames + 200) - 100;
        uint64_t count = sn_rng_below(rng, sn_rng_below(rng, 2) ? 100 : kind->frames + 200);

        if (sn_rng_below(rng, 4) == 0) {
            sn_sound_close(&file);
            CHECK_EQUAL(sn_sound_open(&file, bytes.bytes, bytes.length, true), 0, "again");
        }
        CHECK_EQUAL(sn_sound_read_part(&file, mono, first, count, &of_part, &part), 0, "%s", message);
        check_stretch(&whole, &part, sound_names[kind->format]);
    }
    sn_sound_close(&file);
    sn_buffer_release(&of_whole);
    sn_buffer_release(&of_part);
    sn_sound_release(&file);
    return is_exact;
}

/* -- Both ways -- */

static uint64_t digest_of(sn_codec *codec, picture_file file, const sound_kind *kind)
{
    uint64_t digest = 0;

    for (uint32_t plan = 0; plan < N_SOUND_PLANS; plan++)
        for (uint32_t number = 0; number < 5; number++)
            CHECK(every_call_of_sound(codec, &plans[kind->channels][plan], file, seed, number, &digest));
    return digest;
}

/* -- Damage -- */

/* A header that claims more frames than there are; not of formats that do not say it there. */
static void test_claims(sn_codec *codec, picture_file file, const sound_kind *kind)
{
    const sn_plan *plan = &plans[kind->channels][SOUND_CROP];
    uint64_t nothing = 0;

    if (kind->format != SOUND_FLAC_16)
        return;
    for (uint32_t claimed = 0; claimed < 4; claimed++) {
        memset(file.bytes + FLAC_FRAMES_AT + 1, claimed == 3 ? 0 : 0xff >> claimed, 4); /* 0: it does not say */
        CHECK(every_call_of_sound(codec, plan, file, seed, claimed, &nothing));
    }
}

static bool is_whole(const uint8_t *bytes, size_t length, uint64_t frames)
{
    static sn_flac_sums sums;
    sn_flac_places places;
    sn_flac_stream stream;

    CHECK(sn_flac_open_stream(&stream, bytes, length));
    stream.frames = frames;
    if (sn_flac_find_blocks(&sums, &stream, &places))
        return true;
    CHECK_EQUAL(places.n, 0, "of a file that is not whole");
    return false;
}

/* A FLAC that was cut off, or whose last block has another sum, lacks that block. The sum has 16 bits: a cut one is right
 * by chance once in 65,536. */
static void test_last_block(picture_file file, const sound_kind *kind, sn_rng *rng)
{
    int by_chance = 0;

    if (kind->format != SOUND_FLAC_16 && kind->format != SOUND_FLAC_24)
        return;
    CHECK(is_whole(file.bytes, file.length, kind->frames));
    for (int k = 0; k < 20; k++) {
        uint8_t *in_sum = file.bytes + file.length - 1 - sn_rng_below(rng, 2), byte = *in_sum;

        by_chance += is_whole(file.bytes, file.length - 1 - sn_rng_below(rng, 40), kind->frames);
        *in_sum ^= (uint8_t)(1u << sn_rng_below(rng, 8));
        CHECK(!is_whole(file.bytes, file.length, kind->frames));
        *in_sum = byte;
    }
    CHECK(by_chance <= 2);
    CHECK(!is_whole(file.bytes, file.length, (uint64_t)kind->frames + 1));
}

/* libsndfile 1.2 loses a few kilobytes when it refuses a Vorbis file. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:vorbis_info_init\n";
}

static void test_format(enum sound_format format, uint32_t count)
{
    picture_file whole[N_WHOLE] = {{0}};
    sound_kind kinds[N_WHOLE];
    uint64_t digests[N_WHOLE], nothing = 0;
    sn_codec *codec = sn_codec_new(0);
    uint32_t decoded = 0;
    int exact = 0;
    sn_rng rng;

    CHECK(codec);
    sn_rng_start(&rng, seed, 0, format, 0, SN_STREAM_ORDER);
    for (uint32_t i = 0; i < N_WHOLE; i++) {
        kinds[i] = draw_kind(format, &rng);
        whole[i] = sound_make(&kinds[i], &rng);
        if (!whole[i].bytes) {
            printf("test_sound: no library writes it here: %s\n", sound_names[format]);
            goto out;
        }
        exact += test_stretches(whole[i], &kinds[i], &rng);
        test_last_block(whole[i], &kinds[i], &rng);
        digests[i] = digest_of(codec, whole[i], &kinds[i]);
    }
    CHECK_EQUAL(exact, format < SOUND_VORBIS && format != SOUND_WAV_ADPCM ? N_WHOLE : 0, "%s", sound_names[format]);
    for (uint32_t number = 0; number < count; number++) {
        sn_rng_start(&rng, seed, 0, format, 1 + number, SN_STREAM_ORDER);
        uint32_t i = sn_rng_below(&rng, N_WHOLE);
        picture_file file = picture_damaged(whole[i], &rng);
        decoded += (uint32_t)every_call_of_sound(codec, &plans[kinds[i].channels][number % N_SOUND_PLANS], file, seed,
                                                 number, &nothing);
        picture_free(&file);
        if (number % WHOLE_EVERY == 0)
            CHECK_EQUAL(digest_of(codec, whole[i], &kinds[i]), digests[i], "%s, %u after damage", sound_names[format],
                        number);
    }
    for (uint32_t i = 0; i < N_WHOLE; i++)
        test_claims(codec, whole[i], &kinds[i]);
    printf("test_sound: %s: %u damaged, of which %u were decoded\n", sound_names[format], count, decoded);
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
    for (uint32_t channels = 1; channels <= MOST_CHANNELS; channels++)
        plans_make_sounds(plans[channels], channels);
    for (enum sound_format format = 0; format < SOUND_FORMATS; format++)
        test_format(format, asked || format != SOUND_MP3 ? count : 0);
    return 0;
}
