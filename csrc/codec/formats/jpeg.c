#include "jpeg.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../base/sn_status.h"
#include "cmyk.h"
#include "huffman.h"
#include "jpeg_header.h"
#include "libjpeg.h"
#include "orientation.h"
#include "raster.h"
#include "recode.h"

/* A step has come to what sn_huffman leaves to libjpeg. */
#define AGAIN 1

/* How struct jpeg_entropy_decoder begins, in every libjpeg-turbo up to now. libjpeg declares it in no header that is
 * installed, but calls it through this pointer, once for each MCU. */
typedef struct {
    void (*start_pass)(j_decompress_ptr info);
    boolean (*decode_mcu)(j_decompress_ptr info, JBLOCKROW *blocks);
} entropy_decoder;

/* How struct jpeg_input_controller begins, likewise. */
typedef struct {
    int (*consume_input)(j_decompress_ptr info);
    void (*reset_input_controller)(j_decompress_ptr info);
    void (*start_input_pass)(j_decompress_ptr info);
    void (*finish_input_pass)(j_decompress_ptr info);
    boolean has_multiple_scans;
    boolean eoi_reached;
} input_controller;

struct sn_jpeg {
    sn_libjpeg lib;       /* the first field: on_mcu() finds the sn_jpeg by it */
    uint32_t orientation; /* 1: stored upright, or not asked */
    uint32_t denominator; /* of the size that is decoded */
    bool plainly;         /* without sn_huffman */
    sn_huffman *huffman;
    sn_raster *raster;
    sn_recoded *recoded; /* made when it is needed first */
    bool is_recoded;     /* a payload is open, and no JPEG */
    sn_recoding *recoding;
    sn_recoded_payload *payload; /* to be written too; NULL: none, or not in this attempt */
    sn_buffer stored;            /* what was decoded, before it is turned */

    /* The arguments of the step under way. */
    const uint8_t *bytes;
    size_t length;
    bool upright;
    sn_rect region;
    sn_buffer *buffer;
    sn_view view;
};

/* -- Steps: they run under sn_libjpeg_attempt(), which is where their errors land -- */

static void leave_to_libjpeg(sn_jpeg *jpeg) __attribute__((noreturn));
static void leave_to_libjpeg(sn_jpeg *jpeg)
{
    sn_libjpeg_fail(&jpeg->lib, AGAIN, "for libjpeg-turbo");
}

/* In place of libjpeg's own. */
static boolean on_mcu(j_decompress_ptr info, JBLOCKROW *blocks)
{
    sn_jpeg *jpeg = info->client_data; /* which points to its first field */

    if (!sn_huffman_decode(jpeg->huffman, blocks))
        leave_to_libjpeg(jpeg);
    return TRUE;
}

/* The contents of a segment, if it begins with this name. */
static const uint8_t *contents(jpeg_saved_marker_ptr marker, const char *name, size_t length)
{
    if (marker->data_length < length || memcmp(marker->data, name, length) != 0)
        return NULL;
    return marker->data + length;
}

/* From the one Exif segment that a usual header has, and the last of XMP: those that Pillow goes by. */
static uint32_t find_orientation(const sn_jpeg *jpeg)
{
    static const char exif_name[] = "Exif\0", xmp_name[] = "http://ns.adobe.com/xap/1.0/";
    const uint8_t *part, *exif = NULL, *xmp = NULL;
    size_t exif_length = 0, xmp_length = 0;

    for (jpeg_saved_marker_ptr marker = jpeg->lib.info.marker_list; marker != NULL; marker = marker->next) {
        if ((part = contents(marker, exif_name, sizeof exif_name)) != NULL) {
            exif = part;
            exif_length = marker->data_length - sizeof exif_name;
        } else if ((part = contents(marker, xmp_name, sizeof xmp_name)) != NULL) {
            xmp = part;
            xmp_length = marker->data_length - sizeof xmp_name;
        }
    }
    return sn_orientation_read(exif, exif_length, xmp, xmp_length);
}

static void read_header(void *argument)
{
    sn_jpeg *jpeg = argument;

    sn_libjpeg_read_header(&jpeg->lib, jpeg->bytes, jpeg->length, jpeg->upright || jpeg->payload != NULL);
    if (jpeg->upright)
        jpeg->orientation = find_orientation(jpeg);
    if (jpeg->payload != NULL && find_orientation(jpeg) != 1)
        jpeg->payload = NULL;
}

/* Scans that end before every coefficient has its last bit make libjpeg smooth each block with
 * its neighbours, and those of a cropped or skipped block are not the picture's. */
static bool is_smoothed(const struct jpeg_decompress_struct *info)
{
    if (!info->progressive_mode || info->coef_bits == NULL)
        return false;
    for (int component = 0; component < info->num_components; component++)
        for (int k = 0; k < DCTSIZE2; k++)
            if (info->coef_bits[component][k] != 0)
                return true;
    return false;
}

/* Restrict the decoder to the columns of the region. Smooth upsampling reads one chroma sample to
 * each side and treats a picture's edge apart, so two more samples are decoded on each side and
 * the region's own pixels never meet an edge that is not the picture's. Returns the first column
 * decoded; libjpeg moves it left to a block's edge. */
static uint32_t crop_columns(sn_jpeg *jpeg)
{
    struct jpeg_decompress_struct *info = &jpeg->lib.info;
    uint32_t margin = 2 * (uint32_t)info->max_h_samp_factor;
    uint32_t right = jpeg->region.left + jpeg->region.width;
    JDIMENSION first = jpeg->region.left > margin ? jpeg->region.left - margin : 0;
    JDIMENSION end = info->output_width - right > margin ? right + margin : info->output_width;
    JDIMENSION count = end - first;

    if (count < info->output_width)
        jpeg_crop_scanline(info, &first, &count);
    return first;
}

/* Columns of MCUs with pixels that are decoded. One component alone has MCUs of one block, which libjpeg counts in
 * more than one way. */
static void want_columns(sn_jpeg *jpeg, uint32_t first)
{
    const struct jpeg_decompress_struct *info = &jpeg->lib.info;
    uint32_t width = (uint32_t)(info->max_h_samp_factor * DCTSIZE) / jpeg->denominator;

    if (info->num_components > 1 && info->output_width > 0)
        sn_huffman_want(jpeg->huffman, first / width, (first + info->output_width - 1) / width);
}

static void read_lines(struct jpeg_decompress_struct *info, uint8_t *first, size_t stride, uint32_t count)
{
    JSAMPROW lines[8];
    uint32_t done = 0;

    while (done < count) {
        uint32_t n = count - done < 8 ? count - done : 8;

        for (uint32_t k = 0; k < n; k++)
            lines[k] = first + (done + k) * stride;
        done += jpeg_read_scanlines(info, lines, n);
    }
}

/* Whether the rows that are not decoded yet cannot fail. libjpeg bridges whatever is wrong with codes, and takes
 * zeros for those behind a marker. It fails where the file ends without one, or where a marker is not the end's. */
static bool is_read_to_its_end(struct jpeg_decompress_struct *info)
{
    const uint8_t *begin = info->src->next_input_byte, *end = begin + info->src->bytes_in_buffer, *marker;

    if (jpeg_input_complete(info) || info->unread_marker == JPEG_EOI)
        return true;
    marker = info->unread_marker == 0 ? sn_huffman_find_end(begin, end) : NULL;
    return marker != NULL && marker[1] == JPEG_EOI;
}

/* What is left of jpeg_finish_decompress() where libjpeg has decoded no row itself: search for the end's marker. */
static void finish(struct jpeg_decompress_struct *info)
{
    input_controller *input = (input_controller *)info->inputctl;

    info->output_scanline = info->output_height;
    input->finish_input_pass(info);
    while (!input->eoi_reached && input->consume_input(info) != JPEG_SUSPENDED)
        ;
}

/* The region by our own code from the codes to the pixels. */
static void draw_region(sn_jpeg *jpeg)
{
    struct jpeg_decompress_struct *info = &jpeg->lib.info;
    sn_rect region = jpeg->region;
    size_t stride = (size_t)region.width * 3;

    if (sn_buffer_reserve(jpeg->buffer, stride * region.height) != 0)
        sn_libjpeg_fail(&jpeg->lib, -ENOMEM, "no memory for the pixels");
    if (!sn_raster_draw(jpeg->raster, jpeg->huffman, jpeg->buffer->data, stride))
        leave_to_libjpeg(jpeg);
    sn_huffman_end(jpeg->huffman, info);
    if (sn_raster_has_more(jpeg->raster) && (sn_raster_is_recoding(jpeg->raster) || !is_read_to_its_end(info))) {
        if (!sn_raster_skip(jpeg->raster, jpeg->huffman))
            leave_to_libjpeg(jpeg);
        sn_huffman_end(jpeg->huffman, info);
    }
    if (!sn_raster_has_more(jpeg->raster))
        finish(info);
    jpeg->view = (sn_view){jpeg->buffer->data, region.height, region.width, stride, NULL, 0};
}

/* Begin the payload that draw_region() is to write. NULL: it is to write none, or there can be none. */
static sn_recoding *begin_payload(sn_jpeg *jpeg, const sn_jpeg_frame *frame)
{
    sn_recoded_payload *to = jpeg->payload;

    if (to == NULL)
        return NULL;
    if (sn_recoding_begin(jpeg->recoding, frame, to->bytes, to->room)) {
        to->rc = SN_E_DECODE; /* unless all goes well */
        return jpeg->recoding;
    }
    to->rc = jpeg->recoding->is_full ? SN_FULL : SN_E_FOR_PILLOW;
    return NULL;
}

static void end_payload(sn_jpeg *jpeg, const sn_recoding *begun)
{
    if (begun == NULL)
        return;
    if (sn_raster_is_recoding(jpeg->raster)) {
        jpeg->payload->length = sn_recoding_end(jpeg->recoding);
        jpeg->payload->rc = jpeg->lib.info.err->num_warnings > 0 ? SN_E_DECODE : SN_OK;
    } else if (jpeg->recoding->is_full) {
        jpeg->payload->rc = SN_FULL;
    }
}

static void read_region(void *argument)
{
    sn_jpeg *jpeg = argument;
    struct jpeg_decompress_struct *info = &jpeg->lib.info;
    sn_rect region = jpeg->region;
    bool cmyk = info->num_components == 4;
    bool whole, ours;
    uint32_t first_column = 0;
    sn_recoding *recoding;
    sn_jpeg_frame frame;
    size_t stride;
    uint8_t *pixels;

    info->out_color_space = cmyk ? JCS_CMYK : JCS_EXT_RGB;
    info->dct_method = JDCT_ISLOW;
    info->do_fancy_upsampling = TRUE;
    info->scale_num = 1;
    info->scale_denom = jpeg->denominator;
    jpeg_start_decompress(info);

    ours = !jpeg->plainly && sn_huffman_begin(jpeg->huffman, info);
    if (ours && jpeg->denominator == 1 && sn_jpeg_frame_of(info, &frame)) {
        recoding = begin_payload(jpeg, &frame);
        if (sn_raster_begin(jpeg->raster, &frame, region, recoding)) {
            draw_region(jpeg);
            end_payload(jpeg, recoding);
            return;
        }
    }
    if (ours)
        ((entropy_decoder *)info->entropy)->decode_mcu = on_mcu;
    whole = is_smoothed(info);
    if (!whole)
        first_column = crop_columns(jpeg);
    if (ours)
        want_columns(jpeg, first_column);
    stride = (size_t)info->output_width * (cmyk ? 4 : 3);
    if (sn_buffer_reserve(jpeg->buffer, stride * (region.height + (size_t)1)) != 0) /* and a row for what is below */
        sn_libjpeg_fail(&jpeg->lib, -ENOMEM, "no memory for the pixels");
    pixels = jpeg->buffer->data;

    if (!whole && region.top > 0)
        jpeg_skip_scanlines(info, region.top);
    else
        read_lines(info, pixels, 0, region.top); /* each over the last; the region comes after */
    read_lines(info, pixels, stride, region.height);

    /* A region that ends above the last row leaves the rest undecoded: that is where the time is saved. */
    if (ours)
        sn_huffman_end(jpeg->huffman, info);
    if (info->output_scanline < info->output_height && !is_read_to_its_end(info))
        read_lines(info, pixels + stride * region.height, 0, info->output_height - info->output_scanline);
    if (info->output_scanline == info->output_height) {
        if (ours)
            sn_huffman_end(jpeg->huffman, info);
        jpeg_finish_decompress(info); /* refuses a bad marker after the last row, as Pillow does */
    }

    if (cmyk)
        for (uint32_t row = 0; row < region.height; row++)
            sn_cmyk_to_rgb(pixels + row * stride, info->output_width);

    jpeg->view.pixels = pixels + (size_t)(region.left - first_column) * 3;
    jpeg->view.height = region.height;
    jpeg->view.width = region.width;
    jpeg->view.stride = stride;
}

static void recode_scans(void *argument)
{
    sn_jpeg *jpeg = argument;

    jpeg->payload->rc = sn_recode_scans(&jpeg->lib.info, jpeg->recoding, jpeg->payload);
}

/* -- The calls -- */

sn_jpeg *sn_jpeg_new(uint64_t max_pixels, char message[SN_JPEG_MESSAGE])
{
    sn_jpeg *jpeg = calloc(1, sizeof *jpeg);

    if (jpeg == NULL)
        return NULL;
    sn_libjpeg_init(&jpeg->lib, max_pixels, message, SN_JPEG_MESSAGE);
    jpeg->huffman = sn_huffman_new();
    jpeg->raster = sn_raster_new();
    if (jpeg->huffman == NULL || jpeg->raster == NULL) {
        sn_jpeg_free(jpeg);
        return NULL;
    }
    return jpeg;
}

void sn_jpeg_free(sn_jpeg *jpeg)
{
    if (jpeg == NULL)
        return;
    sn_jpeg_close(jpeg);
    sn_buffer_release(&jpeg->stored);
    sn_huffman_free(jpeg->huffman);
    sn_raster_free(jpeg->raster);
    free(jpeg->recoded);
    free(jpeg->recoding);
    free(jpeg);
}

int sn_jpeg_open(sn_jpeg *jpeg, const uint8_t *bytes, size_t length, bool upright, sn_recoded_payload *payload,
                 uint32_t *height, uint32_t *width)
{
    bool swapped;
    int rc;

    sn_jpeg_close(jpeg);
    if (payload != NULL) {
        payload->rc = SN_E_FOR_PILLOW; /* unless it is written */
        if (jpeg->recoding == NULL && (jpeg->recoding = malloc(sizeof *jpeg->recoding)) == NULL)
            return -ENOMEM;
    }
    if (length < 3 || bytes[0] != 0xFF || bytes[1] != 0xD8 || bytes[2] != 0xFF) {
        snprintf(jpeg->lib.message, SN_JPEG_MESSAGE, "the first bytes are not a JPEG's");
        return SN_E_FOR_PILLOW;
    }
    if (!sn_jpeg_header_is_usual(bytes, length)) {
        snprintf(jpeg->lib.message, SN_JPEG_MESSAGE, "the JPEG's header is unusual: Pillow decides");
        return SN_E_FOR_PILLOW;
    }
    jpeg->bytes = bytes;
    jpeg->length = length;
    jpeg->upright = upright;
    jpeg->payload = payload;
    jpeg->orientation = 1;
    jpeg->denominator = 1;
    jpeg->plainly = false;
    rc = sn_libjpeg_attempt(&jpeg->lib, read_header, jpeg);
    if (rc == SN_OK) {
        swapped = sn_orientation_swaps(jpeg->orientation);
        *height = swapped ? jpeg->lib.info.image_width : jpeg->lib.info.image_height;
        *width = swapped ? jpeg->lib.info.image_height : jpeg->lib.info.image_width;
    }
    return rc;
}

int sn_jpeg_open_recoded(sn_jpeg *jpeg, const void *payload, size_t bytes, uint32_t *height, uint32_t *width)
{
    sn_jpeg_close(jpeg);
    if (jpeg->recoded == NULL && (jpeg->recoded = calloc(1, sizeof *jpeg->recoded)) == NULL)
        return -ENOMEM;
    if (!sn_recoded_open(jpeg->recoded, payload, bytes)) {
        snprintf(jpeg->lib.message, SN_JPEG_MESSAGE, "its recoded copy is damaged");
        return SN_E_DECODE;
    }
    jpeg->is_recoded = true;
    *height = jpeg->recoded->frame.height;
    *width = jpeg->recoded->frame.width;
    return SN_OK;
}

static uint32_t reduced(uint32_t side, uint32_t denominator)
{
    return (side + denominator - 1) / denominator;
}

sn_reduction sn_jpeg_shrink(sn_jpeg *jpeg, uint32_t denominator)
{
    uint32_t height = jpeg->lib.info.image_height, width = jpeg->lib.info.image_width;
    uint32_t rows = 0, columns = 0; /* before the first of the picture that is turned */

    if (sn_orientation_mirrors_rows(jpeg->orientation))
        rows = reduced(height, denominator) * denominator - height;
    if (sn_orientation_mirrors_columns(jpeg->orientation))
        columns = reduced(width, denominator) * denominator - width;
    if (jpeg->is_recoded)
        return (sn_reduction){1, 0, 0};
    jpeg->denominator = denominator;
    if (sn_orientation_swaps(jpeg->orientation))
        return (sn_reduction){denominator, columns, rows};
    return (sn_reduction){denominator, rows, columns};
}

static int read_recoded(sn_jpeg *jpeg, sn_rect region, sn_buffer *buffer, sn_view *out)
{
    size_t stride = (size_t)region.width * 3;

    if (sn_buffer_reserve(buffer, stride * region.height) != 0 ||
        !sn_raster_begin(jpeg->raster, &jpeg->recoded->frame, region, NULL))
        return -ENOMEM;
    if (!sn_raster_draw_recoded(jpeg->raster, jpeg->recoded, buffer->data, stride)) {
        snprintf(jpeg->lib.message, SN_JPEG_MESSAGE, "its recoded copy is damaged");
        return SN_E_DECODE;
    }
    *out = (sn_view){buffer->data, region.height, region.width, stride, NULL, 0};
    return SN_OK;
}

/* Another attempt, without what may have failed. */
static int begin_again(sn_jpeg *jpeg)
{
    sn_jpeg_close(jpeg);
    jpeg->lib.message[0] = '\0';
    jpeg->plainly = true;
    return sn_libjpeg_attempt(&jpeg->lib, read_header, jpeg);
}

/* Several scans are read once: their rectangle is drawn from the payload. */
static int open_scans(sn_jpeg *jpeg)
{
    sn_recoded_payload *payload = jpeg->payload;
    uint32_t height, width;
    int rc = sn_libjpeg_attempt(&jpeg->lib, recode_scans, jpeg);

    if (rc != SN_OK)
        payload->rc = rc;
    if (payload->rc != SN_OK)
        return begin_again(jpeg);
    return sn_jpeg_open_recoded(jpeg, payload->bytes, payload->length, &height, &width);
}

int sn_jpeg_read(sn_jpeg *jpeg, sn_rect region, sn_buffer *buffer, sn_view *out)
{
    bool turned = jpeg->orientation != 1;
    uint32_t height, width;
    int rc = SN_OK;

    if (jpeg->payload != NULL && jpeg_has_multiple_scans(&jpeg->lib.info))
        rc = open_scans(jpeg);
    if (rc != SN_OK)
        return rc;
    if (jpeg->is_recoded)
        return read_recoded(jpeg, region, buffer, out);
    height = reduced(jpeg->lib.info.image_height, jpeg->denominator);
    width = reduced(jpeg->lib.info.image_width, jpeg->denominator);
    jpeg->region = sn_orientation_stored(jpeg->orientation, region, height, width);
    jpeg->buffer = turned ? &jpeg->stored : buffer;
    rc = sn_libjpeg_attempt(&jpeg->lib, read_region, jpeg);
    if (rc == AGAIN || (rc != SN_OK && jpeg->payload != NULL)) {
        rc = begin_again(jpeg);
        if (rc == SN_OK)
            rc = sn_libjpeg_attempt(&jpeg->lib, read_region, jpeg);
    }
    if (rc != SN_OK)
        return rc;
    *out = jpeg->view;
    if (turned) {
        rc = sn_buffer_reserve(buffer, (size_t)region.height * region.width * 3);
        if (rc != SN_OK)
            return rc;
        sn_orientation_turn(jpeg->orientation, &jpeg->view, buffer->data);
        *out = (sn_view){buffer->data, region.height, region.width, (size_t)region.width * 3, NULL, 0};
    }
    return SN_OK;
}

void sn_jpeg_close(sn_jpeg *jpeg)
{
    sn_libjpeg_close(&jpeg->lib);
    jpeg->is_recoded = false;
    jpeg->payload = NULL;
}
