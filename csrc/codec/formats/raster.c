#include "raster.h"

#include <stdlib.h>
#include <string.h>

#include "../buffer.h"

_Static_assert(SN_RGB_PAST <= SN_BUFFER_SLACK, "pixels are drawn into buffers");

#define SN_MOST_BLOCKS 6 /* of an MCU */
#define BEFORE 32        /* bytes in front of a row of samples, of which the last is its left neighbour */
#define BEHIND (SN_SAMPLES_PAST + 8)

/* A component: its samples in the columns of MCUs that are wanted, in rows that are used again after two of MCUs. */
typedef struct {
    uint32_t across, down;         /* blocks of an MCU */
    uint32_t width, height;        /* samples of the whole picture */
    size_t blocks_across;          /* of a row of MCUs, where they have blocks */
    size_t first_wanted, n_wanted; /* of these, those whose samples are wanted */
    sn_dequantiser by;
    int16_t (*blocks)[SN_BLOCK]; /* of a row of MCUs, zeros between two pictures */
    uint8_t *rows;
    size_t stride;
} component;

struct sn_raster {
    const sn_jpeg_kernels *kernels;
    sn_rect region;
    sn_jpeg_frame frame;
    component components[SN_COMPONENTS];
    uint32_t columns, rows;       /* of MCUs */
    uint32_t first, last;         /* wanted columns of MCUs */
    uint32_t first_with_blocks;   /* the first column that has blocks: `first`, or 0 for a payload */
    sn_recoding *recoding;        /* NULL: no payload is written, or no more */
    uint32_t first_row, next_row; /* of MCUs: the first with samples, the next to decode */
    uint32_t next;                /* row of pixels */
    int16_t (*blocks)[SN_BLOCK];
    uint8_t *samples;
    size_t blocks_room, samples_room;
    bool has_blocks; /* not all of `blocks` are zeros: a picture was left in its midst */
};

sn_raster *sn_raster_new(void)
{
    sn_raster *raster = calloc(1, sizeof *raster);

    if (raster == NULL)
        return NULL;
    raster->kernels = &sn_jpeg_plain;
#ifdef SN_HAVE_SIMD_CODE
    if (sn_simd_usable())
        raster->kernels = &sn_jpeg_simd;
#endif
    return raster;
}

void sn_raster_free(sn_raster *raster)
{
    if (raster == NULL)
        return;
    free(raster->blocks);
    free(raster->samples);
    free(raster);
}

/* -- What is wanted -- */

static bool is_halved(const sn_raster *raster, uint32_t k)
{
    return k > 0 && raster->frame.across == 2;
}

/* Rows and columns of MCUs with the samples of the rectangle and, where samples are halved, of one more to each side. */
static void set_wanted(sn_raster *raster)
{
    uint32_t last = raster->frame.n_components - 1;
    const sn_rect *region = &raster->region;
    uint32_t left = region->left, right = region->left + region->width - 1, top = region->top;

    if (is_halved(raster, last)) {
        uint32_t width = sn_jpeg_width_of(&raster->frame, last);

        left = left / 2 > 0 ? left / 2 - 1 : 0;
        right = right / 2 + 1 < width ? right / 2 + 1 : width - 1;
    }
    if (raster->frame.down == 2)
        top = top / 2 > 0 ? top / 2 - 1 : 0;
    raster->first = left / 8;
    raster->last = right / 8;
    raster->first_row = top / 8;
}

static bool make_room(sn_raster *raster)
{
    size_t n_blocks = 0, n_samples = 0;

    for (uint32_t k = 0; k < raster->frame.n_components; k++) {
        component *c = &raster->components[k];

        c->stride = BEFORE + c->n_wanted * 8 + BEHIND;
        n_blocks += c->blocks_across * c->down;
        n_samples += c->stride * 16 * c->down;
    }
    /* Two rows of a halved component at their full width, and 128 for the colours of grey pictures. */
    n_samples += 3 * (size_t)(raster->region.width + 2 * SN_SAMPLES_PAST);
    if (n_blocks > raster->blocks_room) {
        free(raster->blocks);
        raster->blocks = calloc(n_blocks, sizeof *raster->blocks);
        raster->blocks_room = raster->blocks == NULL ? 0 : n_blocks;
    } else if (raster->has_blocks) {
        memset(raster->blocks, 0, raster->blocks_room * sizeof *raster->blocks);
    }
    if (n_samples > raster->samples_room) {
        free(raster->samples);
        raster->samples = malloc(n_samples);
        raster->samples_room = raster->samples == NULL ? 0 : n_samples;
    }
    raster->has_blocks = false;
    return raster->blocks != NULL && raster->samples != NULL;
}

static void set_component(sn_raster *raster, uint32_t k)
{
    const sn_jpeg_frame *frame = &raster->frame;
    component *c = &raster->components[k];

    c->across = sn_jpeg_across(frame, k);
    c->down = sn_jpeg_down(frame, k);
    c->width = sn_jpeg_width_of(frame, k);
    c->height = sn_jpeg_height_of(frame, k);
    c->n_wanted = (raster->last - raster->first + 1) * c->across;
    c->first_wanted = (raster->first - raster->first_with_blocks) * c->across;
    c->blocks_across = raster->recoding != NULL ? raster->columns * c->across : c->n_wanted;
    c->by = sn_dequantiser_of(frame->quantisers[k]);
}

bool sn_raster_begin(sn_raster *raster, const sn_jpeg_frame *frame, sn_rect region, sn_recoding *recoding)
{
    int16_t (*blocks)[SN_BLOCK];
    uint8_t *rows;

    raster->frame = *frame;
    raster->region = region;
    raster->columns = sn_jpeg_columns(frame);
    raster->rows = sn_jpeg_rows(frame);
    raster->next_row = 0;
    raster->next = region.top;
    set_wanted(raster);
    raster->recoding = recoding;
    raster->first_with_blocks = recoding != NULL ? 0 : raster->first;
    for (uint32_t k = 0; k < frame->n_components; k++)
        set_component(raster, k);
    if (!make_room(raster))
        return false;
    blocks = raster->blocks;
    rows = raster->samples;
    for (uint32_t k = 0; k < frame->n_components; k++) {
        component *c = &raster->components[k];

        c->blocks = blocks;
        c->rows = rows + BEFORE;
        blocks += (size_t)c->blocks_across * c->down;
        rows += c->stride * 16 * c->down;
    }
    return true;
}

/* -- Samples -- */

static uint8_t *row_of(const component *c, uint32_t row)
{
    return c->rows + row % (16 * c->down) * c->stride;
}

/* An edge of the picture is its own neighbour. */
static void mirror_edges(const sn_raster *raster, const component *c, uint32_t first_row)
{
    size_t end = c->width - (size_t)raster->first * 8 * c->across;

    for (uint32_t row = first_row; row < first_row + 8 * c->down; row++) {
        uint8_t *samples = row_of(c, row);

        if (raster->first == 0)
            samples[-1] = samples[0];
        if (raster->last == raster->columns - 1)
            samples[end] = samples[end - 1];
    }
}

/* The row of MCUs that has just been decoded goes into the payload. Blocks without samples are zeros again. */
static void recode_row(sn_raster *raster, bool has_samples)
{
    for (uint32_t k = 0; k < raster->frame.n_components; k++) {
        const component *c = &raster->components[k];
        size_t first = has_samples ? c->first_wanted : c->blocks_across;
        size_t end = has_samples ? c->first_wanted + c->n_wanted : c->blocks_across;

        for (uint32_t down = 0; down < c->down; down++) {
            int16_t (*blocks)[SN_BLOCK] = c->blocks + down * c->blocks_across;
            uint32_t row = raster->next_row * c->down + down;

            if (raster->recoding != NULL && row < sn_jpeg_blocks_down(&raster->frame, k) &&
                !sn_recoding_put(raster->recoding, k, row, (const int16_t (*)[SN_BLOCK])blocks))
                raster->recoding = NULL;
            memset(blocks, 0, first * sizeof *blocks);
            memset(blocks + end, 0, (c->blocks_across - end) * sizeof *blocks);
        }
    }
}

/* The next row of MCUs from its codes. Blocks that nobody wants are passed over. */
static bool decode_row(sn_raster *raster, sn_huffman *huffman, bool has_samples)
{
    int16_t (*blocks[SN_MOST_BLOCKS])[SN_BLOCK];
    bool is_recoding = raster->recoding != NULL;

    for (uint32_t column = 0; column < raster->columns; column++) {
        bool is_wanted = is_recoding || (has_samples && column >= raster->first && column <= raster->last);
        uint32_t n_blocks = 0;

        for (uint32_t k = 0; k < raster->frame.n_components && is_wanted; k++) {
            const component *c = &raster->components[k];

            for (uint32_t down = 0; down < c->down; down++)
                for (uint32_t across = 0; across < c->across; across++)
                    blocks[n_blocks++] =
                        c->blocks + down * c->blocks_across + (column - raster->first_with_blocks) * c->across + across;
        }
        if (!sn_huffman_decode(huffman, is_wanted ? blocks : NULL))
            return false;
    }
    if (is_recoding)
        recode_row(raster, has_samples);
    return true;
}

/* The same from a payload, without blocks that only fill an MCU. */
static bool take_row(sn_raster *raster, sn_recoded *recoded)
{
    for (uint32_t k = 0; k < raster->frame.n_components; k++) {
        const component *c = &raster->components[k];
        uint32_t first = raster->first * c->across, all = sn_jpeg_blocks_across(&raster->frame, k);
        uint32_t n = first + c->n_wanted < all ? (uint32_t)c->n_wanted : all - first;

        for (uint32_t down = 0; down < c->down; down++) {
            uint32_t row = raster->next_row * c->down + down;

            if (row < sn_jpeg_blocks_down(&raster->frame, k) &&
                !sn_recoded_take(recoded, k, row, first, n, c->blocks + down * c->blocks_across))
                return false;
        }
    }
    return true;
}

/* The samples of the next row of MCUs. */
static bool make_samples(sn_raster *raster, sn_huffman *huffman, sn_recoded *recoded)
{
    uint32_t row = raster->next_row;
    bool fits = true, has_samples = row >= raster->first_row;

    raster->has_blocks = true;
    if (huffman != NULL ? !decode_row(raster, huffman, has_samples) : !take_row(raster, recoded))
        return false;
    raster->next_row++;
    for (uint32_t k = 0; k < raster->frame.n_components && has_samples; k++) {
        const component *c = &raster->components[k];

        for (uint32_t down = 0; down < c->down; down++)
            fits &= raster->kernels->idct(c->blocks + down * c->blocks_across + c->first_wanted, c->n_wanted, &c->by,
                                          row_of(c, (row * c->down + down) * 8), c->stride);
        mirror_edges(raster, c, row * c->down * 8);
    }
    raster->has_blocks = false;
    return fits;
}

/* -- Pixels -- */

/* The samples of component `k` in a row of pixels, from the rectangle's first column on. `full`: room for them. */
static const uint8_t *samples_of(const sn_raster *raster, uint32_t k, uint32_t row, uint8_t *full)
{
    const component *c = &raster->components[k];
    uint32_t left = raster->region.left, right = left + raster->region.width - 1, half = left / 2, other = row / 2;
    size_t before = (size_t)raster->first * 8 * c->across;

    if (!is_halved(raster, k))
        return row_of(c, row) + (left - before);
    if (raster->frame.down == 1) {
        raster->kernels->h2v1(row_of(c, row) + (half - before), right / 2 - half + 1, full);
    } else {
        if (row % 2 == 1)
            other = row / 2 + 1 < c->height ? row / 2 + 1 : c->height - 1;
        else if (row > 0)
            other = row / 2 - 1;
        raster->kernels->h2v2(row_of(c, row / 2) + (half - before), row_of(c, other) + (half - before),
                              right / 2 - half + 1, full);
    }
    return full + left % 2;
}

/* The rows of pixels down to `end`. */
static void put_rows(sn_raster *raster, uint32_t end, uint8_t *rgb, size_t stride)
{
    size_t room = raster->region.width + 2 * SN_SAMPLES_PAST;
    uint8_t *full = raster->samples + raster->samples_room - 3 * room;

    for (; raster->next < end; raster->next++) {
        const uint8_t *lines[SN_COMPONENTS] = {NULL, full + 2 * room, full + 2 * room};

        for (uint32_t k = 0; k < raster->frame.n_components; k++)
            lines[k] = samples_of(raster, k, raster->next, full + (k == 1 ? 0 : room));
        raster->kernels->to_rgb(lines[0], lines[1], lines[2], raster->region.width,
                                rgb + (raster->next - raster->region.top) * stride);
    }
}

static bool draw(sn_raster *raster, sn_huffman *huffman, sn_recoded *recoded, uint8_t *rgb, size_t stride)
{
    uint32_t end = raster->region.top + raster->region.height;
    size_t room = raster->region.width + 2 * SN_SAMPLES_PAST;

    memset(raster->samples + raster->samples_room - room, 128, room);
    while (raster->next < end) {
        uint32_t ready;

        if (!make_samples(raster, huffman, recoded))
            return false;
        ready = raster->next_row * 8 * raster->frame.down;
        if (raster->frame.down == 2 && raster->next_row < raster->rows)
            ready--; /* it needs the samples below */
        if (raster->next_row > raster->first_row)
            put_rows(raster, ready < end ? ready : end, rgb, stride);
    }
    return true;
}

bool sn_raster_draw(sn_raster *raster, sn_huffman *huffman, uint8_t *rgb, size_t stride)
{
    if (raster->recoding == NULL)
        sn_huffman_want(huffman, raster->first, raster->last);
    return draw(raster, huffman, NULL, rgb, stride);
}

bool sn_raster_draw_recoded(sn_raster *raster, sn_recoded *recoded, uint8_t *rgb, size_t stride)
{
    raster->next_row = raster->first_row;
    return draw(raster, NULL, recoded, rgb, stride);
}

bool sn_raster_has_more(const sn_raster *raster)
{
    return raster->next_row < raster->rows;
}

bool sn_raster_skip(sn_raster *raster, sn_huffman *huffman)
{
    raster->has_blocks = raster->recoding != NULL;
    for (; raster->next_row < raster->rows; raster->next_row++)
        if (!decode_row(raster, huffman, false))
            return false;
    raster->has_blocks = false;
    return true;
}

bool sn_raster_is_recoding(const sn_raster *raster)
{
    return raster->recoding != NULL;
}
