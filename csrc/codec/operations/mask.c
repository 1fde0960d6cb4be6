#include "mask.h"

#include <math.h>
#include <string.h>

#include "../../base/sn_status.h"
#include "pad.h"

#define BORDER -1 /* in a look-up: no pixel of the source */

/* One direction of a pass. */
typedef struct {
    uint32_t box, box_count, full;     /* of the source; what the box is resized to */
    uint32_t window, window_count, at; /* of the resized box; its place on the canvas */
    bool flip, flip_first;
    uint32_t mode; /* enum sn_padding_mode */
} direction;

static direction down_of(const sn_pass *pass)
{
    return (direction){pass->box.top, pass->box.height, pass->full_height, pass->window.top, pass->window.height,
                       pass->top,     pass->vflip,      pass->vflip_first, pass->border.mode};
}

static direction across_of(const sn_pass *pass)
{
    return (direction){pass->box.left, pass->box.width, pass->full_width, pass->window.left, pass->window.width,
                       pass->left,     pass->flip,      pass->flip_first, pass->border.mode};
}

/* torch's nearest pixel, in single floats. */
static uint32_t nearest(uint32_t k, uint32_t count, uint32_t full)
{
    float scale = (float)count / (float)full;
    uint32_t found = (uint32_t)floorf((float)k * scale);

    return found < count ? found : count - 1;
}

/* The sample of the source that is seen at `k` of the canvas, or BORDER. */
static int32_t source_of(const direction *side, uint32_t k)
{
    int64_t seen = (int64_t)k - side->at;
    uint32_t resized;

    if (side->window_count == 0)
        return BORDER;
    if (seen < 0 || seen >= side->window_count) {
        if (side->mode == SN_PAD_CONSTANT)
            return BORDER;
        seen = sn_pad_seen_at(seen, side->window_count, side->mode);
    }
    resized = side->window + (side->flip ? side->window_count - 1 - (uint32_t)seen : (uint32_t)seen);
    if (side->full == side->box_count)
        return (int32_t)(side->box + resized);
    if (side->flip_first)
        resized = side->box_count - 1 - nearest(side->full - 1 - resized, side->box_count, side->full);
    else
        resized = nearest(resized, side->box_count, side->full);
    return (int32_t)(side->box + resized);
}

static void look_up(const direction *side, uint32_t length, int32_t *found)
{
    for (uint32_t k = 0; k < length; k++)
        found[k] = source_of(side, k);
}

/* The canvas of a pass, from a source that is `width` wide. */
static void run_pass(const sn_pass *pass, const int32_t *rows, const int32_t *columns, const uint8_t *from,
                     uint32_t width, uint8_t *to)
{
    uint8_t fill = pass->border.mask_fill;

    for (uint32_t y = 0; y < pass->height; y++, to += pass->width) {
        const uint8_t *row = from + (size_t)width * (size_t)(rows[y] < 0 ? 0 : rows[y]);

        if (rows[y] < 0)
            memset(to, fill, pass->width);
        else if (y > 0 && rows[y] == rows[y - 1])
            memcpy(to, to - pass->width, pass->width);
        else
            for (uint32_t x = 0; x < pass->width; x++)
                to[x] = columns[x] < 0 ? fill : row[columns[x]];
    }
}

/* Whether the canvas is the source as it is. */
static bool moves_nothing(const sn_pass *pass)
{
    return !sn_pass_is_resized(pass) && !sn_pass_is_padded(pass) && !pass->flip && !pass->vflip &&
           pass->window.height == pass->box.height && pass->window.width == pass->box.width;
}

static void run_warp(const sn_warp *warp, const uint8_t *from, uint32_t height, uint32_t width, uint8_t *to)
{
    const double *m = warp->matrix;

    for (uint32_t row = 0; row < height; row++) {
        double down = row + 0.5;

        for (uint32_t column = 0; column < width; column++, to++) {
            double across = column + 0.5, x = m[0] * across + m[1] * down + m[2];
            double y = m[3] * across + m[4] * down + m[5];
            bool is_inside = x >= 0 && x < width && y >= 0 && y < height;

            *to = is_inside ? from[(size_t)y * width + (size_t)x] : warp->mask_fill;
        }
    }
}

int sn_mask_run(sn_masker *masker, const sn_route *route, uint32_t width, const uint8_t *mask, uint8_t *out,
                const uint8_t **result)
{
    const uint8_t *current = mask;
    uint32_t turn = 0;

    for (uint32_t i = 0; i < route->n_passes; i++) {
        const sn_pass *pass = &route->passes[i];
        size_t n_pixels = (size_t)pass->height * pass->width;
        direction down = down_of(pass), across = across_of(pass);

        if (!moves_nothing(pass)) {
            sn_buffer *to = &masker->turns[turn ^= 1];
            int32_t *rows;

            if (sn_buffer_reserve(to, n_pixels) != 0 ||
                sn_buffer_reserve(&masker->lookup, sizeof *rows * ((size_t)pass->height + pass->width)) != 0)
                return -ENOMEM;
            rows = (int32_t *)(void *)masker->lookup.data;
            look_up(&down, pass->height, rows);
            look_up(&across, pass->width, rows + pass->height);
            run_pass(pass, rows, rows + pass->height, current, width, to->data);
            current = to->data;
        }
        for (uint32_t k = 0; k < pass->n_edits; k++) {
            const sn_edit *edit = &route->edits[pass->first_edit + k];
            sn_buffer *to;

            if (edit->kind != SN_EDIT_WARP)
                continue;
            to = &masker->turns[turn ^= 1];
            if (sn_buffer_reserve(to, n_pixels) != 0)
                return -ENOMEM;
            run_warp(&edit->warp, current, pass->height, pass->width, to->data);
            current = to->data;
        }
        width = pass->width;
        if (i + 1 == route->n_passes && out != NULL) {
            memcpy(out, current, n_pixels);
            current = out;
        }
    }
    *result = current;
    return SN_OK;
}

void sn_masker_release(sn_masker *masker)
{
    sn_buffer_release(&masker->turns[0]);
    sn_buffer_release(&masker->turns[1]);
    sn_buffer_release(&masker->lookup);
    sn_buffer_release(&masker->png);
}
