/*
 * test_recoded.c -- a recoded JPEG has the coefficients and the pixels of its file, and a damaged payload harms nothing.
 *
 *   a file --jpeg_read_coefficients--> blocks --plain C--> payload --plain C, vectors--> the same blocks, from anywhere
 *                                             --vectors--> the same bytes
 *          --libjpeg-turbo, whole--> pixels
 *          --sn_huffman--> sn_raster, any rectangle--> the same
 *                        --in the same pass--> payload
 *          --payload-----> sn_raster, any rectangle--> the same
 *   payload with bytes changed, or cut off --plain C, vectors--> both refuse it, or both have the same blocks
 *
 * Rectangles begin at each offset from the MCUs; files are progressive too, and have one row or column. A payload ends
 * where its memory ends.
 */
#include <stdbool.h>
#include <stdio.h>

#include <jpeglib.h>

#include "check.h"
#include "codec/formats/raster.h"
#include "pictures.h"

#define N_FILES 1200
#define N_RECTANGLES 6
#define N_DAMAGED 25 /* payloads of each file; SENECA_FUZZ=10000000 damages so many in all, in an hour */
#define MOST_SIDE 150

static uint64_t seed;
static uint32_t n_in_one_pass;
static sn_rng rng;
static sn_recoding recoding;
static sn_recoded recoded[2];
static const sn_group_kernels *kernels[2] = {&sn_group_plain, &sn_group_plain};

typedef struct {
    uint8_t *bytes;
    size_t length;
} payload;

/* -- Files -- */

static picture_file make(uint32_t number)
{
    static const uint8_t samplings[][2] = {{1, 1}, {2, 1}, {2, 2}};
    picture_kind kind = {.across = 1, .down = 1, .colour = number % 4 == 0 ? PICTURE_GREY : PICTURE_YCC};
    uint32_t sampling = sn_rng_below(&rng, 3), most = number % 3 == 0 ? 20 : MOST_SIDE;

    kind.height = 1 + sn_rng_below(&rng, most);
    kind.width = 1 + sn_rng_below(&rng, number % 10 == 1 ? 700 : most); /* more blocks than one segment */
    kind.restart = sn_rng_below(&rng, 4) == 0 ? 1 + (uint8_t)sn_rng_below(&rng, 5) : 0;
    kind.quality = 1 + (uint8_t)sn_rng_below(&rng, 100);
    kind.optimised = sn_rng_below(&rng, 2) != 0;
    kind.progressive = sn_rng_below(&rng, 4) == 0;
    kind.across = samplings[sampling][0];
    kind.down = samplings[sampling][1];
    return picture_make(&kind, &rng);
}

static void begin(struct jpeg_decompress_struct *info, struct jpeg_error_mgr *errors, picture_file file)
{
    info->err = jpeg_std_error(errors);
    jpeg_create_decompress(info);
    jpeg_mem_src(info, file.bytes, file.length);
    jpeg_read_header(info, TRUE);
}

static void read_by_libjpeg(picture_file file, const sn_jpeg_frame *frame, uint8_t *pixels)
{
    struct jpeg_decompress_struct info;
    struct jpeg_error_mgr errors;

    begin(&info, &errors, file);
    info.out_color_space = JCS_EXT_RGB;
    info.dct_method = JDCT_ISLOW;
    jpeg_start_decompress(&info);
    while (info.output_scanline < info.output_height) {
        uint8_t *line = pixels + (size_t)info.output_scanline * frame->width * 3;

        jpeg_read_scanlines(&info, &line, 1);
    }
    jpeg_destroy_decompress(&info);
}

/* -- Payloads -- */

typedef struct {
    struct jpeg_decompress_struct info;
    struct jpeg_error_mgr errors;
    jvirt_barray_ptr *arrays;
} coefficients;

static int16_t (*row_of(coefficients *of, uint32_t component, uint32_t row)) [SN_BLOCK] {
    return of->info.mem->access_virt_barray((j_common_ptr)&of->info, of->arrays[component], row, 1, FALSE)[0];
}

static payload recode(coefficients *of, const sn_jpeg_frame *frame, const sn_group_kernels *by)
{
    size_t room = 4096 + (size_t)frame->height * frame->width * 12;
    payload made = {malloc(room), 0};

    CHECK(sn_recoding_begin(&recoding, frame, made.bytes, room));
    recoding.kernels = by;
    for (uint32_t k = 0; k < frame->n_components; k++)
        for (uint32_t row = 0; row < sn_jpeg_blocks_down(frame, k); row++)
            CHECK(sn_recoding_put(&recoding, k, row, (const int16_t (*)[SN_BLOCK])row_of(of, k, row)));
    made.length = sn_recoding_end(&recoding);
    made.bytes = realloc(made.bytes, made.length);
    return made;
}

/* Any blocks of a row. */
static void compare_blocks(uint32_t number, coefficients *of, const sn_jpeg_frame *frame)
{
    uint32_t component = sn_rng_below(&rng, frame->n_components), across = sn_jpeg_blocks_across(frame, component);
    uint32_t row = sn_rng_below(&rng, sn_jpeg_blocks_down(frame, component)), first = sn_rng_below(&rng, across);
    uint32_t n = 1 + sn_rng_below(&rng, across - first);
    int16_t (*theirs)[SN_BLOCK] = row_of(of, component, row);

    for (int k = 0; k < 2; k++) {
        int16_t (*blocks)[SN_BLOCK] = calloc(n, sizeof *blocks);

        CHECK(sn_recoded_take(&recoded[k], component, row, first, n, blocks));
        for (uint32_t block = 0; block < n; block++)
            for (int i = 0; i < SN_BLOCK; i++)
                CHECK_EQUAL(blocks[block][i], theirs[first + block][i], "file %u, block %u of %u, coefficient %d",
                            number, first + block, across, i);
        free(blocks);
    }
}

static bool open_both(payload of)
{
    bool is_open[2];

    for (int k = 0; k < 2; k++) {
        is_open[k] = sn_recoded_open(&recoded[k], of.bytes, of.length);
        recoded[k].kernels = kernels[k];
    }
    CHECK_EQUAL(is_open[0], is_open[1], "a payload of %zu bytes", of.length);
    return is_open[0];
}

/* -- Pixels -- */

static sn_rect draw_rectangle(const sn_jpeg_frame *frame)
{
    sn_rect region;

    region.top = sn_rng_below(&rng, frame->height);
    region.left = sn_rng_below(&rng, frame->width);
    region.height = 1 + sn_rng_below(&rng, frame->height - region.top);
    region.width = 1 + sn_rng_below(&rng, frame->width - region.left);
    return region;
}

static void compare_pixels(uint32_t number, const uint8_t *got, const uint8_t *pixels, const sn_jpeg_frame *frame,
                           sn_rect region)
{
    for (uint32_t row = 0; row < region.height; row++)
        for (uint32_t k = 0; k < 3 * region.width; k++)
            CHECK_EQUAL(got[row * region.width * 3 + k],
                        pixels[((size_t)(region.top + row) * frame->width + region.left) * 3 + k],
                        "file %u, %u x %u of %u x %u at %u, %u: row %u, byte %u", number, region.height, region.width,
                        frame->height, frame->width, region.top, region.left, row, k);
}

/* In half of the cases in one pass with a payload, which may not fit. Whether it was written. */
static bool compare_by_codes(uint32_t number, picture_file file, const sn_jpeg_frame *frame, sn_rect region,
                             const uint8_t *pixels, sn_raster *raster, sn_huffman *huffman, uint8_t *rgb, payload *made)
{
    size_t room = made->length - (sn_rng_below(&rng, 4) == 0 ? 1 + sn_rng_below(&rng, (uint32_t)made->length / 2) : 0);
    sn_recoding *to = NULL;
    struct jpeg_decompress_struct info;
    struct jpeg_error_mgr errors;
    bool is_written = false;

    if (sn_rng_below(&rng, 2) == 0 && sn_recoding_begin(&recoding, frame, made->bytes, room))
        to = &recoding;
    begin(&info, &errors, file);
    jpeg_start_decompress(&info);
    if (sn_huffman_begin(huffman, &info)) {
        CHECK(sn_raster_begin(raster, frame, region, to));
        CHECK(sn_raster_draw(raster, huffman, rgb, (size_t)region.width * 3));
        CHECK(!sn_raster_has_more(raster) || sn_raster_skip(raster, huffman));
        sn_huffman_end(huffman, &info);
        CHECK_EQUAL(info.src->bytes_in_buffer, 2, "file %u: what is left is the marker of the end", number);
        compare_pixels(number, rgb, pixels, frame, region);
        if (to != NULL && room < made->length) {
            CHECK(!sn_raster_is_recoding(raster) && recoding.is_full);
        } else if (to != NULL) {
            CHECK(sn_raster_is_recoding(raster));
            CHECK_EQUAL(sn_recoding_end(&recoding), made->length, "file %u", number);
            is_written = true;
        }
    } else {
        CHECK(info.progressive_mode);
    }
    jpeg_destroy_decompress(&info);
    n_in_one_pass += is_written;
    return is_written;
}

/* -- Damage -- */

static payload damage(payload whole)
{
    payload damaged = {malloc(whole.length), whole.length};
    uint32_t n = 1 + sn_rng_below(&rng, 6), from = sn_rng_below(&rng, 2) ? 0 : 204;

    memcpy(damaged.bytes, whole.bytes, whole.length);
    for (uint32_t k = 0; k < n; k++) {
        uint32_t at = from + sn_rng_below(&rng, (uint32_t)whole.length - from);

        damaged.bytes[at] = sn_rng_below(&rng, 2) ? (uint8_t)sn_rng_below(&rng, 256)
                                                  : damaged.bytes[at] ^ (uint8_t)(1u << sn_rng_below(&rng, 8));
    }
    if (sn_rng_below(&rng, 4) == 0) {
        damaged.length = 1 + sn_rng_below(&rng, (uint32_t)whole.length);
        damaged.bytes = realloc(damaged.bytes, damaged.length);
    }
    return damaged;
}

/* Both ways refuse what is damaged, or have the same of it; and draw it, or refuse it, without harm. */
static uint32_t compare_damaged(uint32_t number, payload whole, sn_raster *raster)
{
    payload damaged = damage(whole);
    uint32_t refused = 1;

    if (open_both(damaged)) {
        const sn_jpeg_frame *frame = &recoded[0].frame;
        uint32_t component = sn_rng_below(&rng, frame->n_components), across = sn_jpeg_blocks_across(frame, component);
        uint32_t row = sn_rng_below(&rng, sn_jpeg_blocks_down(frame, component)), first = sn_rng_below(&rng, across);
        uint32_t n = 1 + sn_rng_below(&rng, across - first);
        int16_t (*blocks[2])[SN_BLOCK];
        bool is_read[2];

        for (int k = 0; k < 2; k++) {
            blocks[k] = calloc(n, sizeof **blocks);
            is_read[k] = sn_recoded_take(&recoded[k], component, row, first, n, blocks[k]);
        }
        CHECK_EQUAL(is_read[0], is_read[1], "file %u, row %u of component %u", number, row, component);
        if (is_read[0])
            CHECK(memcmp(blocks[0], blocks[1], n * sizeof **blocks) == 0);
        refused = !is_read[0];
        for (int k = 0; k < 2; k++)
            free(blocks[k]);
        if ((uint64_t)frame->height * frame->width < 1000000) {
            uint8_t *rgb = malloc((size_t)frame->height * frame->width * 3 + SN_RGB_PAST);
            sn_rect region = draw_rectangle(frame);

            CHECK(sn_raster_begin(raster, frame, region, NULL));
            sn_raster_draw_recoded(raster, &recoded[1], rgb, (size_t)region.width * 3);
            free(rgb);
        }
    }
    free(damaged.bytes);
    return refused;
}

int main(int argc, char **argv)
{
    sn_raster *raster = sn_raster_new();
    sn_huffman *huffman = sn_huffman_new();
    const char *fuzz = getenv("SENECA_FUZZ");
    uint32_t n_damaged = fuzz ? (uint32_t)atoi(fuzz) / N_FILES + 1 : N_DAMAGED;
    uint32_t refused = 0, n_frames = 0;
    size_t file_bytes = 0, payload_bytes = 0;

    seed = check_seed(argc, argv);
#ifdef SN_HAVE_SIMD_CODE
    if (sn_simd_usable())
        kernels[1] = &sn_group_simd;
#endif
    CHECK(raster != NULL && huffman != NULL);
    for (uint32_t number = 0; number < N_FILES; number++) {
        coefficients of = {.arrays = NULL};
        sn_jpeg_frame frame;
        picture_file file;

        sn_rng_start(&rng, seed, 0, 0, number, SN_STREAM_ORDER);
        file = make(number);
        begin(&of.info, &of.errors, file);
        of.arrays = jpeg_read_coefficients(&of.info);
        if (sn_jpeg_frame_of(&of.info, &frame)) {
            size_t size = (size_t)frame.height * frame.width * 3;
            uint8_t *pixels = malloc(size), *rgb = malloc(size + SN_RGB_PAST);
            payload plain = recode(&of, &frame, kernels[0]), made = recode(&of, &frame, kernels[1]);
            payload other = recode(&of, &frame, kernels[0]);

            CHECK_EQUAL(made.length, plain.length, "file %u", number);
            CHECK(memcmp(made.bytes, plain.bytes, made.length) == 0);
            read_by_libjpeg(file, &frame, pixels);
            for (int k = 0; k < N_RECTANGLES; k++) {
                sn_rect region = draw_rectangle(&frame);

                if (compare_by_codes(number, file, &frame, region, pixels, raster, huffman, rgb, &other))
                    CHECK(open_both(other));
                else
                    CHECK(open_both(made));
                compare_blocks(number, &of, &frame);
                CHECK(sn_raster_begin(raster, &frame, region, NULL));
                CHECK(sn_raster_draw_recoded(raster, &recoded[k % 2], rgb, (size_t)region.width * 3));
                compare_pixels(number, rgb, pixels, &frame, region);
            }
            for (uint32_t k = 0; k < n_damaged; k++)
                refused += compare_damaged(number, made, raster);
            n_frames++;
            file_bytes += file.length;
            payload_bytes += made.length;
            free(plain.bytes);
            free(other.bytes);
            free(made.bytes);
            free(pixels);
            free(rgb);
        }
        jpeg_destroy_decompress(&of.info);
        picture_free(&file);
    }
    CHECK(n_in_one_pass > n_frames);
    CHECK(n_frames > N_FILES / 2 && refused > n_frames && refused < n_frames * n_damaged);
    printf("test_recoded: %u files, %zu bytes as %zu, %u of %u damaged payloads refused\n", n_frames, file_bytes,
           payload_bytes, refused, n_frames * n_damaged);
    sn_huffman_free(huffman);
    sn_raster_free(raster);
    return 0;
}
