/*
 * test_huffman.c -- sn_huffman's coefficients are libjpeg-turbo's, and a damaged JPEG gives libjpeg-turbo's pixels.
 *
 *   a baseline file --jpeg_read_coefficients--> coefficients of each block
 *                   --sn_huffman_decode------>  the same where they are wanted, zeros where not
 *   the same damaged --libjpeg-turbo alone--> pixels
 *                    --sn_jpeg_read-------->  the same
 *
 * The file of each case has a sampling, colours, codes, restart markers and sides of its own. Damage is done behind the
 * header: there the codes are.
 */
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>

#include <jpeglib.h>
#include <jerror.h>

#include "base/sn_status.h"
#include "check.h"
#include "codec/formats/huffman.h"
#include "codec/formats/jpeg.h"
#include "pictures.h"

#define N_FILES 400
#define N_DAMAGED 6 /* of each file */
#define MAX_PIXELS 1000000

static uint64_t seed;

static picture_file make(uint32_t number, sn_rng *rng)
{
    picture_kind kind = {.across = 1, .down = 1};

    kind.height = 1 + sn_rng_below(rng, 90);
    kind.width = 1 + sn_rng_below(rng, 90);
    kind.colour = number % PICTURE_COLOURS;
    kind.restart = sn_rng_below(rng, 3) == 0 ? 1 + (uint8_t)sn_rng_below(rng, 5) : 0;
    kind.quality = 5 + (uint8_t)sn_rng_below(rng, 96); /* up to 100, whose values are long */
    kind.optimised = sn_rng_below(rng, 2) != 0;
    if (kind.colour == PICTURE_YCC || kind.colour == PICTURE_YCCK || kind.colour == PICTURE_GREY) {
        kind.across = 1 + (uint8_t)sn_rng_below(rng, 2);
        kind.down = 1 + (uint8_t)sn_rng_below(rng, 2);
    }
    return picture_make(&kind, rng);
}

/* Where the codes begin: behind the header of the scan. */
static uint32_t find_codes(picture_file file)
{
    for (uint32_t at = 2; at + 4 <= file.length; at += 2 + (uint32_t)(file.bytes[at + 2] << 8 | file.bytes[at + 3]))
        if (file.bytes[at + 1] == 0xDA)
            return at + 2 + (uint32_t)(file.bytes[at + 2] << 8 | file.bytes[at + 3]);
    CHECK(false);
    return 0;
}

/* -- Coefficients -- */

static void compare_blocks(uint32_t number, int16_t (*ours)[64], const int16_t *theirs, bool is_wanted)
{
    for (int k = 0; k < 64; k++)
        CHECK_EQUAL((*ours)[k], is_wanted ? theirs[k] : 0, "file %u, coefficient %d", number, k);
}

/* libjpeg's own handler for errors ends the program. */
static void begin(struct jpeg_decompress_struct *info, struct jpeg_error_mgr *errors, picture_file file)
{
    info->err = jpeg_std_error(errors);
    jpeg_create_decompress(info);
    jpeg_mem_src(info, file.bytes, file.length);
    jpeg_read_header(info, TRUE);
}

/* All MCUs of a scan, some rows and columns of which are not wanted. */
static void compare_coefficients(uint32_t number, picture_file file, sn_huffman *huffman, sn_rng *rng)
{
    struct jpeg_decompress_struct info, other;
    struct jpeg_error_mgr errors;
    jvirt_barray_ptr *arrays;
    int16_t space[D_MAX_BLOCKS_IN_MCU][64], (*blocks[D_MAX_BLOCKS_IN_MCU])[64];
    uint32_t first, last;

    begin(&info, &errors, file);
    begin(&other, &errors, file);
    arrays = jpeg_read_coefficients(&other);
    jpeg_start_decompress(&info);
    CHECK(sn_huffman_begin(huffman, &info));
    first = sn_rng_below(rng, info.MCUs_per_row);
    last = first + sn_rng_below(rng, info.MCUs_per_row - first);
    sn_huffman_want(huffman, first, last);
    for (int k = 0; k < D_MAX_BLOCKS_IN_MCU; k++)
        blocks[k] = &space[k];
    for (uint32_t row = 0; row < info.MCU_rows_in_scan; row++) {
        bool is_row_wanted = sn_rng_below(rng, 4) != 0;

        for (uint32_t column = 0; column < info.MCUs_per_row; column++) {
            int n = 0;

            memset(space, 0, sizeof space);
            CHECK(sn_huffman_decode(huffman, is_row_wanted ? blocks : NULL));
            for (int c = 0; c < info.comps_in_scan; c++) {
                const jpeg_component_info *component = info.cur_comp_info[c];

                for (int k = 0; k < component->MCU_blocks; k++, n++) {
                    uint32_t y = row * (uint32_t)component->MCU_height + (uint32_t)(k / component->MCU_width);
                    uint32_t x = column * (uint32_t)component->MCU_width + (uint32_t)(k % component->MCU_width);
                    JBLOCKARRAY theirs = other.mem->access_virt_barray((j_common_ptr)&other,
                                                                       arrays[component->component_index], y, 1, FALSE);

                    compare_blocks(number, blocks[n], theirs[0][x], is_row_wanted && first <= column && column <= last);
                }
            }
        }
    }
    sn_huffman_end(huffman, &info);
    CHECK_EQUAL(info.src->bytes_in_buffer, 2, "file %u: what is left is the marker of the end", number);
    jpeg_destroy_decompress(&info);
    jpeg_destroy_decompress(&other);
}

/* -- Pixels -- */

/* A source and errors as those of sn_jpeg. */
typedef struct {
    struct jpeg_error_mgr errors;
    jmp_buf jump;
} answer;

static void on_error(j_common_ptr info)
{
    longjmp(((answer *)info->err)->jump, 1);
}

static void on_message(j_common_ptr info, int level)
{
    (void)info;
    (void)level;
}

static void do_nothing(j_decompress_ptr info)
{
    (void)info;
}

static boolean fill(j_decompress_ptr info)
{
    if (info->output_scanline < info->output_height)
        on_error((j_common_ptr)info);
    return FALSE;
}

static void skip(j_decompress_ptr info, long count)
{
    size_t n = count > 0 ? (size_t)count : 0;

    if (n > info->src->bytes_in_buffer) {
        fill(info);
        n = info->src->bytes_in_buffer;
    }
    info->src->next_input_byte += n;
    info->src->bytes_in_buffer -= n;
}

/* By libjpeg-turbo alone. False: it refuses the file. */
static bool read_by_libjpeg(picture_file file, uint8_t *pixels)
{
    struct jpeg_source_mgr source = {.next_input_byte = file.bytes, .bytes_in_buffer = file.length};
    struct jpeg_decompress_struct info;
    volatile bool is_read = false;
    answer to;

    info.err = jpeg_std_error(&to.errors);
    to.errors.error_exit = on_error;
    to.errors.emit_message = on_message;
    source.init_source = source.term_source = do_nothing;
    source.fill_input_buffer = fill;
    source.skip_input_data = skip;
    source.resync_to_restart = jpeg_resync_to_restart;
    jpeg_create_decompress(&info);
    if (setjmp(to.jump) == 0) {
        info.src = &source;
        jpeg_read_header(&info, TRUE);
        info.out_color_space = JCS_EXT_RGB;
        jpeg_start_decompress(&info);
        while (info.output_scanline < info.output_height) {
            uint8_t *line = pixels + (size_t)info.output_scanline * info.output_width * 3;

            jpeg_read_scanlines(&info, &line, 1);
        }
        jpeg_finish_decompress(&info);
        is_read = true;
    }
    jpeg_destroy_decompress(&info);
    return is_read;
}

/* Bits of the codes flipped, a marker put among them, or the end cut off. */
static picture_file damage(picture_file whole, sn_rng *rng)
{
    picture_file file = {malloc(whole.length), whole.length};
    uint32_t codes = find_codes(whole), n = (uint32_t)whole.length - codes;

    CHECK(file.bytes);
    memcpy(file.bytes, whole.bytes, whole.length);
    switch (sn_rng_below(rng, 4)) {
    case 0:
        if (n > 3) {
            uint32_t at = codes + sn_rng_below(rng, n - 3);

            file.bytes[at] = 0xFF;
            file.bytes[at + 1] = (uint8_t)sn_rng_below(rng, 256);
        }
        break;
    case 1:
        file.length -= sn_rng_below(rng, n);
        file.bytes = realloc(file.bytes, file.length);
        CHECK(file.bytes);
        break;
    default:
        for (uint32_t flips = 1 + sn_rng_below(rng, 4); flips > 0; flips--)
            file.bytes[codes + sn_rng_below(rng, n)] ^= (uint8_t)(1 << sn_rng_below(rng, 8));
    }
    return file;
}

/* Whether libjpeg-turbo reads it. */
static bool compare_pixels(uint32_t number, picture_file file, sn_jpeg *jpeg, sn_rng *rng)
{
    uint32_t height, width;
    sn_buffer buffer = {0};
    sn_rect region;
    sn_view view;
    uint8_t *pixels;
    bool is_read;
    int rc;

    CHECK_EQUAL(sn_jpeg_open(jpeg, file.bytes, file.length, false, NULL, &height, &width), 0, "file %u", number);
    pixels = malloc((size_t)height * width * 3);
    CHECK(pixels);
    is_read = read_by_libjpeg(file, pixels);
    region.top = sn_rng_below(rng, height);
    region.left = sn_rng_below(rng, width);
    region.height = height - region.top;
    if (sn_rng_below(rng, 2))
        region.height = 1 + sn_rng_below(rng, region.height);
    region.width = 1 + sn_rng_below(rng, width - region.left);
    rc = sn_jpeg_read(jpeg, region, &buffer, &view);
    if (is_read) {
        CHECK_EQUAL(rc, 0, "file %u", number);
        for (uint32_t y = 0; y < view.height; y++)
            for (uint32_t x = 0; x < 3 * view.width; x++)
                CHECK_EQUAL(view.pixels[y * view.stride + x],
                            pixels[((size_t)(region.top + y) * width + region.left) * 3 + x],
                            "file %u, row %u, byte %u", number, y, x);
    }
    if (!is_read && region.top + region.height == height && rc != SN_E_FOR_PILLOW) /* as it is if its kind is unknown */
        CHECK_EQUAL(rc, SN_E_DECODE, "file %u, which libjpeg-turbo refuses", number);
    sn_jpeg_close(jpeg);
    sn_buffer_release(&buffer);
    free(pixels);
    return is_read;
}

int main(int argc, char **argv)
{
    char message[SN_JPEG_MESSAGE];
    sn_huffman *huffman = sn_huffman_new();
    sn_jpeg *jpeg = sn_jpeg_new(MAX_PIXELS, message);
    uint32_t read = 0, damaged = 0;
    sn_rng rng;

    seed = check_seed(argc, argv);
    CHECK(huffman && jpeg);
    for (uint32_t number = 0; number < N_FILES; number++) {
        picture_file file;

        sn_rng_start(&rng, seed, 0, 0, number, SN_STREAM_ORDER);
        file = make(number, &rng);
        compare_coefficients(number, file, huffman, &rng);
        /* Seneca's own code makes RGB of CMYK. */
        for (int k = 0; k < N_DAMAGED && number % PICTURE_COLOURS < PICTURE_CMYK; k++, damaged++) {
            picture_file other = damage(file, &rng);

            read += compare_pixels(number, other, jpeg, &rng);
            picture_free(&other);
        }
        picture_free(&file);
    }
    CHECK(read > damaged / 4);
    sn_huffman_free(huffman);
    sn_jpeg_free(jpeg);
    printf("test_huffman: %d files, %u damaged, of which libjpeg-turbo reads %u\n", N_FILES, damaged, read);
    return 0;
}
