/*
 * fuzz_payload.c -- a sample is served from what a cache has of it: ENCODED, RECODED, DECODED or AUGMENTED, with any bytes and
 * any record.
 *
 *   form | plan | kept form, staged | granules | the records' lengths, sizes and places | bytes --> served.h
 */
#include "check.h"
#include "fuzz.h"
#include "recoded_files.h"
#include "served.h"

#define HEADER 20

typedef struct {
    uint8_t form, plan, keep, granules;
    uint32_t length, target_length;
    uint16_t height, width;
    uint16_t granule, target_granule;
} header;

_Static_assert(sizeof(header) == HEADER, "all of it is the input's");

void fuzz_begin(void)
{
    served_begin();
}

/* Mostly one that the segment has, or nearly. */
static uint32_t place_of(uint16_t granule)
{
    return granule < 0xF000 ? granule % 8 : granule * 0x10001u;
}

void fuzz_one(const uint8_t *bytes, size_t length)
{
    header h;

    if (length < HEADER)
        return;
    memcpy(&h, bytes, HEADER);
    bytes += HEADER;
    length -= HEADER;
    served sample = {.plan = h.plan % SERVED_PLANS,
                     .form = SN_ENCODED + h.form % (SN_FORMS - 1),
                     .keep = h.keep % SN_FORMS,
                     .stages = h.keep >> 7,
                     .source = {.granule = place_of(h.granule), .length = h.length},
                     .target = {.granule = place_of(h.target_granule), .length = h.target_length},
                     .bytes = bytes,
                     .length = length,
                     .granules = (uint32_t)(length / SN_GRANULE) + 1 + h.granules % 4};
    sample.source.height = h.height;
    sample.source.width = h.width;
    served_prepare(&sample);
}

static picture_file noise(size_t length, sn_rng *rng)
{
    picture_file made = {malloc(length), length};

    CHECK(made.bytes);
    for (size_t i = 0; i < length; i++)
        made.bytes[i] = (uint8_t)sn_rng_below(rng, 256);
    return made;
}

picture_file fuzz_seed(uint32_t number, sn_rng *rng)
{
    header h = {
        .plan = (uint8_t)(number / 4), .keep = (uint8_t)(number % 3 ? number / 4 : 128), .height = 6, .width = 9};
    picture_file file;

    h.form = (uint8_t)(number % 4);
    enum sn_form form = SN_ENCODED + h.form;
    if (form == SN_ENCODED)
        file = recodable_file(number % 16, rng);
    else if (form == SN_RECODED)
        file = recoded_file(number % 16, rng);
    else
        file = noise(form == SN_DECODED ? (size_t)(h.plan < N_PLANS ? 3 : 4) * h.height * h.width : 64, rng);
    h.length = form == SN_AUGMENTED ? served_copy_bytes(h.plan % SERVED_PLANS) : (uint32_t)file.length;
    h.target_length = served_copy_bytes(h.plan % SERVED_PLANS);
    h.target_granule = number % 5 == 0;
    return fuzz_with_header(&h, sizeof h, file);
}
