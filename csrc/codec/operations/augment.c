#include "augment.h"

#include <string.h>

#include "../../base/sn_status.h"
#include "pad.h"

/* How much smaller the decoder may make the picture: as far as the box stays at least as large as
 * what it is resized to, so that a resize that shrinks has enough left to weigh. */
static uint32_t choose_denominator(const sn_pass *pass)
{
    uint32_t denominator = 1;

    if (!sn_pass_is_resized(pass) || (pass->filter != SN_BILINEAR && pass->filter != SN_BICUBIC))
        return 1;
    while (denominator < 8 && pass->box.height / (2 * denominator) >= pass->full_height &&
           pass->box.width / (2 * denominator) >= pass->full_width)
        denominator *= 2;
    return denominator;
}

/* One direction of a resize of the box that begins at `first` and is `count` long; *base is the
 * first sample of the decoder's that it meets. */
static sn_axis axis_of(uint32_t first, uint32_t count, uint32_t denominator, uint32_t lead, uint32_t *base)
{
    uint64_t low = (uint64_t)first + lead, high = low + count;
    sn_axis axis = {0};

    *base = (uint32_t)(low / denominator);
    axis.source = (uint32_t)((high + denominator - 1) / denominator) - *base;
    axis.origin = (double)low / denominator - *base;
    axis.extent = (double)count / denominator;
    return axis;
}

/* The part of the source that the pass reads. Readies the resizer, which knows. */
static int find_span(sn_augmenter *augmenter, const sn_pass *pass, sn_reduction reduction, sn_rect *span)
{
    const sn_rect *box = &pass->box, *window = &pass->window;
    const sn_resizer *resizer = &augmenter->resizer;
    uint32_t top, left;
    sn_axis down, across;
    int rc;

    if (!sn_pass_is_resized(pass)) {
        *span = (sn_rect){box->top + window->top, box->left + window->left, window->height, window->width};
        return SN_OK;
    }
    down = axis_of(box->top, box->height, reduction.denominator, reduction.lead_top, &top);
    across = axis_of(box->left, box->width, reduction.denominator, reduction.lead_left, &left);
    down.full = pass->full_height;
    down.first = window->top;
    down.count = window->height;
    across.full = pass->full_width;
    across.first = window->left;
    across.count = window->width;
    across.flip = pass->flip;
    down.filter = across.filter = pass->filter;
    rc = sn_resizer_prepare(&augmenter->resizer, &down, &across);
    if (rc == SN_OK)
        *span = (sn_rect){top + resizer->down.span_first, left + resizer->across.span_first, resizer->down.span_count,
                          resizer->across.span_count};
    return rc;
}

static sn_view part_of(const sn_view *picture, const sn_rect *part)
{
    sn_view view = {picture->pixels + part->top * picture->stride + (size_t)part->left * 3,
                    part->height,
                    part->width,
                    picture->stride,
                    NULL,
                    0};
    return view;
}

static void copy_rows(const sn_view *from, bool flip, uint8_t *out, ptrdiff_t stride)
{
    for (uint32_t y = 0; y < from->height; y++, out += stride) {
        const uint8_t *row = from->pixels + y * from->stride;

        if (!flip) {
            memcpy(out, row, (size_t)from->width * 3);
            continue;
        }
        for (uint32_t x = 0; x < from->width; x++) {
            const uint8_t *pixel = row + (size_t)(from->width - 1 - x) * 3;

            out[3 * (size_t)x] = pixel[0];
            out[3 * (size_t)x + 1] = pixel[1];
            out[3 * (size_t)x + 2] = pixel[2];
        }
    }
}

/* The window of a pass that has one, from its span, to its place in `out`. */
static int run_window(sn_augmenter *augmenter, const sn_pass *pass, const sn_view *span, uint8_t *out)
{
    ptrdiff_t stride = (ptrdiff_t)pass->width * 3;

    out += pass->top * stride + (ptrdiff_t)pass->left * 3;
    if (pass->vflip) {
        out += (pass->window.height - 1) * stride;
        stride = -stride;
    }
    if (sn_pass_is_resized(pass))
        return sn_resizer_run(&augmenter->resizer, span, out, stride);
    copy_rows(span, pass->flip, out, stride);
    return SN_OK;
}

/* All of a pass, to `out`. */
static int run_pass(sn_augmenter *augmenter, const sn_route *route, const sn_pass *pass, const sn_view *span,
                    uint8_t *out)
{
    int rc = sn_pass_is_empty(pass) ? SN_OK : run_window(augmenter, pass, span, out);

    if (rc != SN_OK)
        return rc;
    if (sn_pass_is_padded(pass))
        sn_pad_around(pass, out);
    for (uint32_t i = 0; i < pass->n_edits && rc == SN_OK; i++)
        rc = sn_edit_run(&augmenter->editor, &route->edits[pass->first_edit + i], out, pass->height, pass->width);
    return rc;
}

/* The pixels of such a pass are a part of its source's, as they are stored there. */
static bool is_mere_crop(const sn_pass *pass)
{
    return !sn_pass_is_resized(pass) && !sn_pass_is_padded(pass) && !pass->flip && !pass->vflip && pass->n_edits == 0;
}

int sn_augment(sn_augmenter *augmenter, const sn_route *route, sn_jpeg *jpeg, bool fast, const sn_view *picture,
               uint8_t *out, sn_view *view)
{
    sn_view current = {0};
    int rc = SN_OK;

    if (jpeg == NULL)
        current = *picture;
    for (uint32_t i = 0; i < route->n_passes; i++) {
        const sn_pass *pass = &route->passes[i];
        bool last = i + 1 == route->n_passes, empty = sn_pass_is_empty(pass);
        sn_buffer *turn = &augmenter->turns[i % 2];
        uint8_t *to = out;
        sn_reduction reduction = {1, 0, 0};
        sn_rect span = {0};

        if (!empty) {
            if (i == 0 && jpeg != NULL && fast)
                reduction = sn_jpeg_shrink(jpeg, choose_denominator(pass));
            rc = find_span(augmenter, pass, reduction, &span);
            if (rc != SN_OK)
                goto out;
            if (i == 0 && jpeg != NULL)
                rc = sn_jpeg_read(jpeg, span, &augmenter->decoded, &current);
            else
                current = part_of(&current, &span);
            if (rc != SN_OK)
                goto out;
        }
        /* It is a view already: nothing is copied if the caller takes views. */
        if (last && out == NULL && is_mere_crop(pass))
            break;
        if (!last || out == NULL) {
            rc = sn_buffer_reserve(turn, (size_t)pass->height * pass->width * 3);
            if (rc != SN_OK)
                goto out;
            to = turn->data;
        }
        rc = run_pass(augmenter, route, pass, &current, to);
        if (rc != SN_OK)
            goto out;
        current = (sn_view){to, pass->height, pass->width, (size_t)pass->width * 3, NULL, 0};
    }
    if (view != NULL)
        *view = current;
out:
    return rc;
}

void sn_augmenter_release(sn_augmenter *augmenter)
{
    sn_resizer_release(&augmenter->resizer);
    sn_editor_release(&augmenter->editor);
    sn_buffer_release(&augmenter->decoded);
    sn_buffer_release(&augmenter->turns[0]);
    sn_buffer_release(&augmenter->turns[1]);
}
