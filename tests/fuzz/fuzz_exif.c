/*
 * fuzz_exif.c -- the contents of an Exif and of an XMP segment are any bytes: a picture is turned in one of eight ways.
 *
 *   the Exif's length | Exif | XMP --> sn_orientation_read()
 */
#include "check.h"
#include "codec/formats/orientation.h"
#include "exif.h"
#include "fuzz.h"

void fuzz_begin(void)
{
}

/* In memory that ends with it. */
static uint8_t *tight(const uint8_t *bytes, size_t length)
{
    uint8_t *made = malloc(length ? length : 1);

    CHECK(made);
    if (length)
        memcpy(made, bytes, length);
    return made;
}

void fuzz_one(const uint8_t *bytes, size_t length)
{
    size_t wanted = fuzz_byte(&bytes, &length), n = wanted < length ? wanted : length;
    uint8_t *exif = tight(bytes, n), *xmp = tight(bytes + n, length - n);
    uint32_t orientation = sn_orientation_read(exif, n, xmp, length - n);

    CHECK(orientation >= 1 && orientation <= 8);
    free(exif);
    free(xmp);
}

picture_file fuzz_seed(uint32_t number, sn_rng *rng)
{
    picture_file exif = exif_make(number, rng), xmp = xmp_make(number);
    uint8_t length = (uint8_t)exif.length;
    picture_file both = fuzz_with_header(exif.bytes, exif.length, xmp);

    picture_free(&exif);
    return fuzz_with_header(&length, 1, both);
}
