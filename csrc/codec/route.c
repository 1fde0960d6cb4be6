#include "route.h"

#include <math.h>

#include "../base/sn_status.h"
#include "sn_codec.h"

/* A side longer than this is refused: its tables alone would be larger than any picture. */
#define MAX_SIDE (1u << 20)

#define CROP_TRIES 10 /* torchvision's */

static sn_pass untouched(uint32_t height, uint32_t width)
{
    sn_pass pass = {0};

    pass.box.height = pass.full_height = pass.window.height = pass.height = height;
    pass.box.width = pass.full_width = pass.window.width = pass.width = width;
    return pass;
}

/* One axis of a crop, which may stick out of the output on either side and is zeros there.
 * `first`, `count`: the window; `at`: its place in the output. */
static void crop_axis(int64_t from, uint32_t size, uint32_t *first, uint32_t *count, uint32_t *at,
                      bool mirrored)
{
    int64_t low = *at > from ? *at : from;
    int64_t high = (int64_t)*at + *count < from + size ? (int64_t)*at + *count : from + size;
    int64_t lost_before = low - *at, lost_after = (int64_t)*at + *count - high;

    if (high <= low) {
        *count = *at = 0;
        return;
    }
    *first += (uint32_t)(mirrored ? lost_after : lost_before);
    *count = (uint32_t)(high - low);
    *at = (uint32_t)(low - from);
}

static void crop(sn_pass *pass, int64_t top, int64_t left, uint32_t height, uint32_t width)
{
    crop_axis(top, height, &pass->window.top, &pass->window.height, &pass->top, false);
    crop_axis(left, width, &pass->window.left, &pass->window.width, &pass->left, pass->flip);
    pass->height = height;
    pass->width = width;
}

static void flip(sn_pass *pass)
{
    pass->flip = !pass->flip;
    pass->left = pass->width - pass->left - pass->window.width;
}

static int resize(sn_route *route, uint32_t height, uint32_t width, uint32_t filter,
                  uint64_t max_pixels)
{
    sn_pass *pass = &route->passes[route->n_passes - 1];

    /* What torchvision would hold in full, though only a window of it may be computed here. */
    if (height > MAX_SIDE || width > MAX_SIDE || (uint64_t)height * width > max_pixels)
        return SN_E_TOO_LARGE;
    if (height == pass->height && width == pass->width)
        return SN_OK; /* to the size it has */

    if (sn_pass_is_resized(pass) || sn_pass_is_padded(pass)) {
        route->passes[route->n_passes++] = untouched(pass->height, pass->width);
        pass++;
    }
    /* What was cropped away is out of the filter's sight, as when torchvision resizes a crop. A
     * flip may stay where it is: the filter is symmetric. */
    pass->box.top += pass->window.top;
    pass->box.left += pass->window.left;
    pass->box.height = pass->window.height;
    pass->box.width = pass->window.width;
    pass->full_height = pass->height = height;
    pass->full_width = pass->width = width;
    pass->filter = filter;
    pass->window = (sn_rect){0, 0, height, width};
    return SN_OK;
}

/* Resize(int): the short side becomes `size`, the long side keeps the ratio, rounded down. */
static void keep_ratio(uint32_t size, uint32_t *height, uint32_t *width)
{
    uint32_t shorter = *height < *width ? *height : *width;
    uint32_t longer = *height < *width ? *width : *height;
    double scaled = (double)((uint64_t)size * longer) / shorter;
    uint32_t other = scaled > UINT32_MAX ? UINT32_MAX : (uint32_t)scaled;

    *height = *height == shorter ? size : other;
    *width = shorter == longer ? other : *width == shorter ? size : other;
}

/* torchvision pads a side that is too short by (wanted - side) / 2 before, rounded down, and
 * crops one that is too long at half the excess, rounded as Python rounds: to even. */
static int64_t center(uint32_t side, uint32_t wanted)
{
    if (wanted > side)
        return -(int64_t)((wanted - side) / 2);
    return (int64_t)rint((side - wanted) / 2.0);
}

/* RandomResizedCrop.get_params: a box of random area and, log-uniformly, ratio. */
static sn_rect draw_box(const sn_op *op, sn_rng *rng, uint32_t height, uint32_t width)
{
    double area = (double)height * width, in_ratio = (double)width / height;
    double log_low = log(op->ratio[0]), log_high = log(op->ratio[1]);
    double least = fmin(op->ratio[0], op->ratio[1]), most = fmax(op->ratio[0], op->ratio[1]);
    sn_rect box;

    for (int i = 0; i < CROP_TRIES; i++) {
        double target = area * sn_rng_uniform(rng, op->scale[0], op->scale[1]);
        double ratio = exp(sn_rng_uniform(rng, log_low, log_high));
        double w = rint(sqrt(target * ratio)), h = rint(sqrt(target / ratio));

        if (0 < w && w <= width && 0 < h && h <= height) {
            box.height = (uint32_t)h;
            box.width = (uint32_t)w;
            box.top = sn_rng_below(rng, height - box.height + 1);
            box.left = sn_rng_below(rng, width - box.width + 1);
            return box;
        }
    }
    box.height = height;
    box.width = width;
    if (in_ratio < least)
        box.height = (uint32_t)fmax(1, rint(width / least)); /* 0 rows cannot be resized */
    else if (in_ratio > most)
        box.width = (uint32_t)fmax(1, rint(height * most));
    box.top = (height - box.height) / 2;
    box.left = (width - box.width) / 2;
    return box;
}

/* One op onto the route. A new op comes in here, and in check_op() and sn_plan_output_size(). */
static int add_op(sn_route *route, const sn_op *op, sn_rng *rng, uint64_t max_pixels)
{
    sn_pass *pass = &route->passes[route->n_passes - 1];
    uint32_t height = pass->height, width = pass->width;
    sn_rect box;
    int rc = SN_OK;

    switch (op->kind) {
    case SN_OP_RESIZE:
        if (op->width != 0) {
            height = op->height;
            width = op->width;
        } else {
            keep_ratio(op->height, &height, &width);
        }
        rc = resize(route, height, width, op->filter, max_pixels);
        break;
    case SN_OP_CENTER_CROP:
        crop(pass, center(height, op->height), center(width, op->width), op->height, op->width);
        break;
    case SN_OP_RANDOM_RESIZED_CROP:
        box = draw_box(op, rng, height, width);
        crop(pass, box.top, box.left, box.height, box.width);
        rc = resize(route, op->height, op->width, op->filter, max_pixels);
        break;
    case SN_OP_RANDOM_HFLIP:
        if (sn_rng_double(rng) < op->probability)
            flip(pass);
        break;
    default:
        rc = SN_E_PLAN;
    }
    return rc;
}

int sn_route_lay(sn_route *route, const sn_op *ops, uint32_t n_ops, sn_rng *rng, uint32_t height,
                 uint32_t width, uint64_t max_pixels)
{
    const sn_pass *last;
    int rc = SN_OK;

    route->n_passes = 1;
    route->passes[0] = untouched(height, width);
    for (uint32_t i = 0; rc == SN_OK && i < n_ops; i++)
        rc = add_op(route, &ops[i], rng, max_pixels);
    last = &route->passes[route->n_passes - 1];
    if (rc == SN_OK && (uint64_t)last->height * last->width > max_pixels)
        rc = SN_E_TOO_LARGE;
    return rc;
}
