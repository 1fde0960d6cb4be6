/*
 * fuzz_jpeg.c -- see picture.h.
 */
#include "picture.h"
#include "check.h"
#include "exif.h"

PICTURE_TARGET

/* With a segment behind the first marker. */
static picture_file with_segment(picture_file file, const char *name, size_t name_length, picture_file contents)
{
    uint8_t head[64] = {0xFF, 0xD8, 0xFF, 0xE1};
    size_t length = 2 + name_length + contents.length;
    picture_file rest = {malloc(file.length - 2), file.length - 2};

    CHECK(rest.bytes && name_length < sizeof head - 6);
    memcpy(rest.bytes, file.bytes + 2, rest.length);
    picture_free(&file);
    head[4] = (uint8_t)(length >> 8);
    head[5] = (uint8_t)length;
    memcpy(head + 6, name, name_length);
    file = fuzz_with_header(contents.bytes, contents.length, rest);
    picture_free(&contents);
    return fuzz_with_header(head, 6 + name_length, file);
}

picture_file fuzz_seed(uint32_t number, sn_rng *rng)
{
    picture_kind kind = {.height = 1 + sn_rng_below(rng, 24), .width = 1 + sn_rng_below(rng, 24), .quality = 50};
    uint8_t header = (uint8_t)(number * 5);

    kind.colour = number % PICTURE_COLOURS;
    kind.progressive = number % 3 == 0;
    kind.restart = (uint8_t)sn_rng_below(rng, 3);
    kind.across = kind.colour == PICTURE_YCC ? 1 + (uint8_t)sn_rng_below(rng, 2) : 1;
    kind.down = kind.across;
    picture_file file = picture_make(&kind, rng);
    if (number % 4 == 0)
        file = with_segment(file, "Exif\0", 6, exif_make(number, rng));
    else if (number % 4 == 1)
        file = with_segment(file, "http://ns.adobe.com/xap/1.0/", 29, xmp_make(number));
    return fuzz_with_header(&header, 1, file);
}
