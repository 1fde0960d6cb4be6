#include "pictures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include "check.h"

#define MOST_FLIPS 8

static const struct {
    J_COLOR_SPACE given, stored;
    int components;
} colours[PICTURE_COLOURS] = {
    [PICTURE_GREY] = {JCS_GRAYSCALE, JCS_GRAYSCALE, 1},
    [PICTURE_YCC] = {JCS_RGB, JCS_YCbCr, 3},
    [PICTURE_RGB] = {JCS_RGB, JCS_RGB, 3},
    [PICTURE_CMYK] = {JCS_CMYK, JCS_CMYK, 4},
    [PICTURE_YCCK] = {JCS_CMYK, JCS_YCCK, 4},
};

/* libjpeg's own handler for errors ends the program with its reason, which is what a test wants. */
picture_file picture_make(const picture_kind *kind, sn_rng *rng)
{
    struct jpeg_compress_struct info;
    struct jpeg_error_mgr errors;
    int components = colours[kind->colour].components;
    uint32_t slope[2] = {sn_rng_below(rng, 4), sn_rng_below(rng, 4)}, noise = 1 + sn_rng_below(rng, 64);
    uint8_t *row = malloc((size_t)kind->width * (size_t)components), *made = NULL;
    unsigned long length = 0;
    picture_file file;

    CHECK(row);
    info.err = jpeg_std_error(&errors);
    jpeg_create_compress(&info);
    jpeg_mem_dest(&info, &made, &length);
    info.image_height = kind->height;
    info.image_width = kind->width;
    info.input_components = components;
    info.in_color_space = colours[kind->colour].given;
    jpeg_set_defaults(&info);
    jpeg_set_colorspace(&info, colours[kind->colour].stored);
    jpeg_set_quality(&info, kind->quality, TRUE);
    info.comp_info[0].h_samp_factor = kind->across;
    info.comp_info[0].v_samp_factor = kind->down;
    info.restart_interval = kind->restart;
    info.optimize_coding = kind->optimised;
    if (kind->progressive)
        jpeg_simple_progression(&info);
    jpeg_start_compress(&info, TRUE);
    for (uint32_t y = 0; y < kind->height; y++) {
        for (uint32_t x = 0; x < kind->width; x++)
            for (uint32_t c = 0; c < (uint32_t)components; c++)
                row[x * (uint32_t)components + c] =
                    (uint8_t)(slope[0] * y + slope[1] * x + 85 * c + sn_rng_below(rng, noise));
        jpeg_write_scanlines(&info, &row, 1);
    }
    jpeg_finish_compress(&info);
    jpeg_destroy_compress(&info);
    free(row);

    file.length = length;
    file.bytes = realloc(made, length);
    CHECK(file.bytes);
    return file;
}

static picture_file copy_of(picture_file whole, size_t length)
{
    picture_file file = {malloc(length), length};

    CHECK(file.bytes);
    memcpy(file.bytes, whole.bytes, length);
    return file;
}

/* Half of them in the header, where the harm is done, or in the last few bytes. */
picture_file picture_truncated(picture_file whole, sn_rng *rng)
{
    uint32_t length = (uint32_t)whole.length, few = length < 32 ? length : 32;

    if (sn_rng_below(rng, 2))
        return copy_of(whole, length - 1 - sn_rng_below(rng, few - 1));
    return copy_of(whole, 1 + sn_rng_below(rng, length - 1));
}

picture_file picture_flipped(picture_file whole, sn_rng *rng)
{
    picture_file file = copy_of(whole, whole.length);
    uint32_t flips = 1 + sn_rng_below(rng, MOST_FLIPS), header = 700;
    uint32_t reach = sn_rng_below(rng, 3) && header < file.length ? header : (uint32_t)file.length;

    while (flips--) /* not in the two bytes that say JPEG */
        file.bytes[2 + sn_rng_below(rng, reach - 2)] ^= (uint8_t)(1 << sn_rng_below(rng, 8));
    return file;
}

void picture_free(picture_file *file)
{
    free(file->bytes);
    *file = (picture_file){0};
}
