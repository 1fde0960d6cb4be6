#include "pad.h"

#include <string.h>

uint32_t sn_pad_seen_at(int64_t at, uint32_t n, uint32_t mode)
{
    int64_t last = (int64_t)n - 1, period;

    if (mode == SN_PAD_EDGE)
        return (uint32_t)(at < 0 ? 0 : at > last ? last : at);
    /* There and back again: the ends are seen once (REFLECT) or twice (SYMMETRIC) on the way. */
    period = mode == SN_PAD_SYMMETRIC ? 2 * (int64_t)n : 2 * last;
    if (period == 0)
        return 0;
    at = (at % period + period) % period;
    return (uint32_t)(at <= last ? at : mode == SN_PAD_SYMMETRIC ? period - 1 - at : period - at);
}

static void paint(uint8_t *pixels, uint32_t n, const uint8_t fill[3])
{
    for (uint32_t x = 0; x < n; x++)
        memcpy(pixels + 3 * (size_t)x, fill, 3);
}

/* Columns `from` to `to` of a row in which the window's pixels are in place. */
static void continue_row(const sn_pass *pass, uint8_t *row, uint32_t from, uint32_t to)
{
    for (uint32_t x = from; x < to; x++) {
        uint32_t seen = sn_pad_seen_at((int64_t)x - pass->left, pass->window.width, pass->border.mode);

        memcpy(row + 3 * (size_t)x, row + 3 * ((size_t)pass->left + seen), 3);
    }
}

void sn_pad_around(const sn_pass *pass, uint8_t *out)
{
    const sn_border *border = &pass->border;
    size_t stride = 3 * (size_t)pass->width;
    uint32_t right = pass->left + pass->window.width, bottom = pass->top + pass->window.height;
    const uint8_t *painted = NULL; /* a row of the fill's colour */

    for (uint32_t y = pass->top; y < bottom; y++) {
        uint8_t *row = out + y * stride;

        if (border->mode == SN_PAD_CONSTANT) {
            paint(row, pass->left, border->fill);
            paint(row + 3 * (size_t)right, pass->width - right, border->fill);
        } else {
            continue_row(pass, row, 0, pass->left);
            continue_row(pass, row, right, pass->width);
        }
    }
    for (uint32_t y = 0; y < pass->height; y++) {
        uint8_t *row = out + y * stride;

        if (pass->top <= y && y < bottom)
            continue;
        if (border->mode != SN_PAD_CONSTANT) {
            uint32_t seen = sn_pad_seen_at((int64_t)y - pass->top, pass->window.height, border->mode);

            memcpy(row, out + (pass->top + seen) * stride, stride);
        } else if (painted != NULL) {
            memcpy(row, painted, stride);
        } else {
            paint(row, pass->width, border->fill);
            painted = row;
        }
    }
}
