/*
 * fuzz_sound.c -- a sound's file, with any bytes: WAV, FLAC, Ogg.
 *
 *   plan, channels | file --> every_call.h
 *
 * No MP3 is a seed: libmpg123 writes about each damaged one to the standard error.
 */
#include "check.h"
#include "every_call.h"
#include "fuzz.h"
#include "plans.h"
#include "sounds.h"

#define MOST_CHANNELS 2u
#define MOST_FRAMES 400u
#define MEETS_ANY_RATE 0x70u
#define MAX_VALUES 65536 /* of the codec: frames and channels */

static sn_plan plans[MOST_CHANNELS][N_SOUND_PLANS];
static sn_codec *codec;

/* libsndfile 1.2 loses a few kilobytes when it refuses a Vorbis file. tests/c/test_sound.c looks for leaks. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

void fuzz_begin(void)
{
    for (uint32_t i = 0; i < MOST_CHANNELS; i++)
        plans_make_sounds(plans[i], 1 + i);
    codec = sn_codec_new(MAX_VALUES);
    CHECK(codec);
}

/* A table of coefficients is made for each pair of rates that is met, in milliseconds if they have no common divisor. */
static int is_usual(picture_file file)
{
    uint32_t rate = 0, channels;
    uint64_t frames;

    return sn_codec_probe_sound(codec, file.bytes, file.length, &rate, &channels, &frames) != 0 || rate % 4000 == 0;
}

void fuzz_one(const uint8_t *bytes, size_t length)
{
    uint8_t number = fuzz_byte(&bytes, &length);
    picture_file file = {(uint8_t *)bytes, length};
    uint32_t plan = number % N_SOUND_PLANS;
    uint64_t digest = 0;

    if ((number & MEETS_ANY_RATE) != MEETS_ANY_RATE && !is_usual(file))
        plan = SOUND_CUT;
    every_call_of_sound(codec, &plans[number >> 7][plan], file, 1, number, &digest);
}

picture_file fuzz_seed(uint32_t number, sn_rng *rng)
{
    static const enum sound_format formats[] = {SOUND_WAV_16,  SOUND_WAV_24,  SOUND_WAV_FLOAT, SOUND_WAV_ADPCM,
                                                SOUND_FLAC_16, SOUND_FLAC_24, SOUND_VORBIS,    SOUND_OPUS};
    sound_kind kind = {formats[number % 8], number % 3 ? 8000 : 16000, 1 + number / 8 % MOST_CHANNELS,
                       1 + sn_rng_below(rng, MOST_FRAMES)};
    uint8_t header = (uint8_t)((kind.channels - 1) << 7 | number / 16);

    if (number >= 32)
        return (picture_file){0};
    picture_file file = sound_make(&kind, rng);
    return file.bytes ? fuzz_with_header(&header, 1, file) : file;
}
