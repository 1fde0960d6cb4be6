#include "route.h"

#include <math.h>
#include <string.h>

#include "../../base/sn_status.h"
#include "../sn_codec.h"

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

/* One axis of a crop, which may stick out of the output on either side: the border is there.
 * `first`, `count`: the window; `at`: its place in the output. */
static void crop_axis(int64_t from, uint32_t size, uint32_t *first, uint32_t *count, uint32_t *at, bool mirrored)
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

static sn_pass *last_of(sn_route *route)
{
    return &route->passes[route->n_passes - 1];
}

static sn_pass *begin_pass(sn_route *route)
{
    const sn_pass *before = last_of(route);

    route->passes[route->n_passes++] = untouched(before->height, before->width);
    return last_of(route);
}

static bool is_same_fill(const sn_border *a, const sn_border *b)
{
    return a->mode == SN_PAD_CONSTANT && b->mode == SN_PAD_CONSTANT && memcmp(a->fill, b->fill, sizeof a->fill) == 0 &&
           a->mask_fill == b->mask_fill;
}

static int refuse(sn_route *route, uint32_t height, uint32_t width)
{
    route->misfit_height = height;
    route->misfit_width = width;
    return SN_E_TOO_LARGE;
}

/* The picture becomes this rectangle of it, which has `border` where it sticks out. */
static int reframe(sn_route *route, int64_t top, int64_t left, uint32_t height, uint32_t width, const sn_border *border,
                   uint64_t max_pixels)
{
    sn_pass *pass = last_of(route);
    bool sticks_out = top < 0 || left < 0 || top + height > pass->height || left + width > pass->width;

    if (top == 0 && left == 0 && height == pass->height && width == pass->width)
        return SN_OK;
    if (sticks_out && (uint64_t)height * width > max_pixels)
        return refuse(route, height, width);
    if (pass->n_edits > 0)
        pass = begin_pass(route);
    else if (sn_pass_is_padded(pass) &&
             (pass->border.mode != SN_PAD_CONSTANT || (sticks_out && !is_same_fill(&pass->border, border))))
        pass = begin_pass(route);
    if (sticks_out)
        pass->border = *border;
    crop_axis(top, height, &pass->window.top, &pass->window.height, &pass->top, pass->vflip);
    crop_axis(left, width, &pass->window.left, &pass->window.width, &pass->left, pass->flip);
    pass->height = height;
    pass->width = width;
    return SN_OK;
}

/* Inside the picture, which needs no border and cannot grow too large. */
static void crop(sn_route *route, const sn_rect *box)
{
    (void)reframe(route, box->top, box->left, box->height, box->width, NULL, 0);
}

/* For the boxes, see sn_shift. */
static void shift(sn_route *route, uint32_t axis, bool mirrored, float by)
{
    if (route->boxes.n_shifts < SN_MAX_SHIFTS) /* more come of no plan that reads boxes */
        route->boxes.shifts[route->boxes.n_shifts++] = (sn_shift){axis, mirrored, by};
}

static void flip(sn_route *route)
{
    sn_pass *pass = last_of(route)->is_warped ? begin_pass(route) : last_of(route);

    shift(route, 0, true, (float)pass->width);
    pass->flip = !pass->flip;
    pass->left = pass->width - pass->left - pass->window.width;
}

static void vflip(sn_route *route)
{
    sn_pass *pass = last_of(route)->is_warped ? begin_pass(route) : last_of(route);

    shift(route, 1, true, (float)pass->height);
    pass->vflip = !pass->vflip;
    pass->top = pass->height - pass->top - pass->window.height;
}

/* The next entry of how the picture was moved. */
static void note(sn_route *route, sn_rect drawn)
{
    route->moves.drawn[route->n_drawn++] = drawn;
}

static int resize(sn_route *route, uint32_t height, uint32_t width, uint32_t filter, uint64_t max_pixels)
{
    sn_pass *pass = last_of(route);

    /* The picture as torchvision would hold it in full; only a window of it may be computed here. */
    if (height > MAX_SIDE || width > MAX_SIDE || (uint64_t)height * width > max_pixels)
        return refuse(route, height, width);
    if (height == pass->height && width == pass->width)
        return SN_OK; /* to the size it has */

    if (sn_pass_is_resized(pass) || sn_pass_is_padded(pass) || pass->n_edits > 0)
        pass = begin_pass(route);
    /* The filter does not see pixels that were cropped away, as when torchvision resizes a crop. A
     * flip may stay where it is: the filter is symmetric. flip_first is for masks, whose filter is not. */
    pass->flip_first = pass->flip;
    pass->vflip_first = pass->vflip;
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

/* Resize(int): the short side becomes `size`, the long side keeps the ratio, rounded down. Where
 * that is longer than `max_size` (0: never) it becomes `max_size`, and the short side follows;
 * torchvision fails where nothing is left of that one, which here keeps a row. */
static void keep_ratio(uint32_t size, uint32_t max_size, uint32_t *height, uint32_t *width)
{
    uint32_t shorter = *height < *width ? *height : *width;
    uint32_t longer = *height < *width ? *width : *height;
    double scaled = (double)((uint64_t)size * longer) / shorter;
    uint32_t other = scaled > UINT32_MAX ? UINT32_MAX : (uint32_t)scaled;
    bool is_wide = *width > *height;

    if (max_size != 0 && other > max_size) {
        size = (uint32_t)fmax(1, (double)((uint64_t)max_size * size) / other);
        other = max_size;
    }
    *height = is_wide ? size : other;
    *width = is_wide ? other : size;
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
    const double *scale = op->random_resized_crop.scale, *ratios = op->random_resized_crop.ratio;
    double log_low = log(ratios[0]), log_high = log(ratios[1]);
    double least = fmin(ratios[0], ratios[1]), most = fmax(ratios[0], ratios[1]);
    sn_rect box;

    for (int i = 0; i < CROP_TRIES; i++) {
        double target = area * sn_rng_uniform(rng, scale[0], scale[1]);
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

/* The picture with `sides` (left, top, right, bottom) around it. */
static int pad_by(sn_route *route, const uint32_t sides[4], const sn_border *border, uint64_t max_pixels)
{
    const sn_pass *pass = last_of(route);

    return reframe(route, -(int64_t)sides[1], -(int64_t)sides[0], pass->height + sides[1] + sides[3],
                   pass->width + sides[0] + sides[2], border, max_pixels);
}

/* An op that is applied or not moves the whole picture. */
static bool draw_whether(sn_route *route, const sn_op *op, sn_rng *rng)
{
    const sn_pass *pass = last_of(route);
    bool is_applied = sn_rng_double(rng) < op->chance.p;

    note(route, is_applied ? (sn_rect){0, 0, pass->height, pass->width} : (sn_rect){0, 0, 0, 0});
    return is_applied;
}

static int lay_random_crop(sn_route *route, const sn_op *op, sn_rng *rng, uint64_t max_pixels)
{
    const sn_border *border = &op->random_crop.border;
    sn_rect box = {0, 0, op->size.height, op->size.width};
    uint32_t height, width;
    int rc = pad_by(route, op->random_crop.padding, border, max_pixels);

    if (rc != SN_OK)
        return rc;
    height = last_of(route)->height;
    width = last_of(route)->width;
    if (op->random_crop.pad_if_needed) {
        /* torchvision puts what is missing on both sides. */
        uint32_t down = op->size.height > height ? op->size.height - height : 0;
        uint32_t across = op->size.width > width ? op->size.width - width : 0;

        rc = pad_by(route, (uint32_t[4]){across, down, across, down}, border, max_pixels);
        if (rc != SN_OK)
            return rc;
        height += 2 * down;
        width += 2 * across;
    }
    if (height < op->size.height || width < op->size.width) {
        route->misfit = op;
        route->misfit_height = height;
        route->misfit_width = width;
        return SN_E_PLAN;
    }
    if (height != op->size.height || width != op->size.width) {
        box.top = sn_rng_below(rng, height - op->size.height + 1);
        box.left = sn_rng_below(rng, width - op->size.width + 1);
        crop(route, &box);
    }
    note(route, box);
    return SN_OK;
}

static uint32_t draw_filter(uint32_t filter, sn_rng *rng)
{
    if (filter == SN_EITHER)
        return sn_rng_below(rng, 2) ? SN_BICUBIC : SN_BILINEAR;
    return filter;
}

/* timm's ResizeKeepRatio: both sides divided by one number, which the side decides that is closer to what
 * it should be, or with `longest` the other. */
static int keep_ratio_by(sn_route *route, const sn_op *op, sn_rng *rng, double factor, double aspect,
                         uint64_t max_pixels)
{
    const sn_pass *pass = last_of(route);
    double longest = op->resize_keep_ratio.longest;
    double down = (double)pass->height / op->size.height, across = (double)pass->width / op->size.width;
    double by = fmax(down, across) * longest + fmin(down, across) * (1 - longest);

    down = fmin(fmax(1, rint(pass->height * (factor / aspect) / by)), UINT32_MAX);
    across = fmin(fmax(1, rint(pass->width * (factor * aspect) / by)), UINT32_MAX);
    return resize(route, (uint32_t)down, (uint32_t)across, draw_filter(op->resize_keep_ratio.filter, rng), max_pixels);
}

static int lay_resize_keep_ratio(sn_route *route, const sn_op *op, sn_rng *rng, uint64_t max_pixels)
{
    return keep_ratio_by(route, op, rng, 1, 1, max_pixels);
}

static int lay_random_resize_keep_ratio(sn_route *route, const sn_op *op, sn_rng *rng, uint64_t max_pixels)
{
    const double *scale = op->resize_keep_ratio.scale, *ratio = op->resize_keep_ratio.ratio;
    double p = op->resize_keep_ratio.p, aspect_p = op->resize_keep_ratio.aspect_p, factor = 1, aspect = 1;

    if (p > 0 && sn_rng_double(rng) < p) {
        factor = sn_rng_uniform(rng, scale[0], scale[1]);
        factor = op->resize_keep_ratio.by_area ? 1 / sqrt(factor) : factor;
    }
    if (aspect_p > 0 && sn_rng_double(rng) < aspect_p)
        aspect = sqrt(exp(sn_rng_uniform(rng, log(ratio[0]), log(ratio[1]))));
    return keep_ratio_by(route, op, rng, factor, aspect, max_pixels);
}

/* Both sides times a number, rounded down; a row is kept where torchvision fails. */
static int resize_by(sn_route *route, double height, double width, uint32_t filter, uint64_t max_pixels)
{
    sn_rect to = {0, 0, (uint32_t)fmin(fmax(1, floor(height)), UINT32_MAX),
                  (uint32_t)fmin(fmax(1, floor(width)), UINT32_MAX)};

    note(route, to);
    return resize(route, to.height, to.width, filter, max_pixels);
}

/* In single floats, as torchvision multiplies what torch has drawn. It divides the target's second number, its
 * width, by the height. */
static int lay_scale_jitter(sn_route *route, const sn_op *op, sn_rng *rng, uint64_t max_pixels)
{
    uint32_t height = last_of(route)->height, width = last_of(route)->width;
    const double *scale = op->scale_jitter.scale;
    float fits = (float)fmin((double)op->size.width / height, (double)op->size.height / width);
    float factor = fits * (float)sn_rng_uniform(rng, scale[0], scale[1]);

    return resize_by(route, (double)((float)height * factor), (double)((float)width * factor), op->scale_jitter.filter,
                     max_pixels);
}

static int lay_random_shortest_size(sn_route *route, const sn_op *op, sn_rng *rng, uint64_t max_pixels)
{
    const sn_sizes *sizes = &op->random_shortest_size.sizes;
    uint32_t max_size = op->random_shortest_size.max_size;
    uint32_t height = last_of(route)->height, width = last_of(route)->width;
    uint32_t shorter = height < width ? height : width, longer = height < width ? width : height;
    double factor = (double)sizes->sizes[sn_rng_below(rng, sizes->count)] / shorter;

    if (max_size != 0)
        factor = fmin(factor, (double)max_size / longer);
    return resize_by(route, height * factor, width * factor, op->random_shortest_size.filter, max_pixels);
}

static int lay_random_resize(sn_route *route, const sn_op *op, sn_rng *rng, uint64_t max_pixels)
{
    uint32_t height = last_of(route)->height, width = last_of(route)->width;
    uint32_t least = (uint32_t)op->random_resize.size[0], most = (uint32_t)op->random_resize.size[1];

    keep_ratio(least + (uint32_t)sn_rng_below(rng, most - least + 1), 0, &height, &width);
    return resize_by(route, height, width, op->random_resize.filter, max_pixels);
}

static int lay_random_zoom_out(sn_route *route, const sn_op *op, sn_rng *rng, uint64_t max_pixels)
{
    const sn_pass *pass = last_of(route);
    const double *scale = op->random_zoom_out.scale;
    float factor, height, width, top, left;

    if (sn_rng_double(rng) >= op->random_zoom_out.p) {
        note(route, (sn_rect){0, 0, 0, 0});
        return SN_OK;
    }
    factor = (float)sn_rng_uniform(rng, scale[0], scale[1]);
    height = floorf((float)pass->height * factor);
    width = floorf((float)pass->width * factor);
    if (height > MAX_SIDE || width > MAX_SIDE)
        return refuse(route, (uint32_t)fminf(height, 1u << 31), (uint32_t)fminf(width, 1u << 31));
    left = floorf((width - (float)pass->width) * (float)sn_rng_double(rng));
    top = floorf((height - (float)pass->height) * (float)sn_rng_double(rng));
    note(route, (sn_rect){(uint32_t)top, (uint32_t)left, (uint32_t)height, (uint32_t)width});
    shift(route, 0, false, left);
    shift(route, 1, false, top);
    return reframe(route, -(int64_t)top, -(int64_t)left, (uint32_t)height, (uint32_t)width, &op->random_zoom_out.border,
                   max_pixels);
}

static int lay_random_iou_crop(sn_route *route, const sn_op *op, sn_rng *rng, uint64_t max_pixels)
{
    const sn_pass *pass = last_of(route);
    sn_rect box = {0, 0, 0, 0}; /* this says that the picture stays whole */

    (void)max_pixels;
    if (sn_draw_iou_crop(op, rng, pass->height, pass->width, &route->boxes, &box))
        crop(route, &box);
    note(route, box);
    return SN_OK;
}

static void add_edit(sn_route *route, const sn_edit *edit)
{
    sn_pass *pass = last_of(route);

    if (pass->n_edits == 0)
        pass->first_edit = route->n_edits;
    route->edits[route->n_edits++] = *edit;
    pass->n_edits++;
    pass->is_warped |= sn_edit_moves(edit);
}

/* An op that changes a picture which has its size. */
static void add_drawn(sn_route *route, const sn_op *op, sn_rng *rng)
{
    const sn_pass *pass = last_of(route);
    sn_edit edits[SN_RECIPE_MAX];
    uint32_t n = sn_recipe_draw(op, rng, pass->height, pass->width, edits);

    for (uint32_t k = 0; k < n; k++)
        add_edit(route, &edits[k]);
}

static int lay_resize(sn_route *route, const sn_op *op, sn_rng *rng, uint64_t max_pixels)
{
    uint32_t height = op->size.height, width = op->size.width;

    (void)rng;
    if (width == 0) {
        height = last_of(route)->height;
        width = last_of(route)->width;
        keep_ratio(op->size.height, op->resize.max_size, &height, &width);
    }
    return resize(route, height, width, op->resize.filter, max_pixels);
}

static int lay_center_crop(sn_route *route, const sn_op *op, sn_rng *rng, uint64_t max_pixels)
{
    const sn_pass *pass = last_of(route);

    (void)rng;
    return reframe(route, center(pass->height, op->size.height), center(pass->width, op->size.width), op->size.height,
                   op->size.width, &op->center_crop.border, max_pixels);
}

static int lay_random_resized_crop(sn_route *route, const sn_op *op, sn_rng *rng, uint64_t max_pixels)
{
    sn_rect box = draw_box(op, rng, last_of(route)->height, last_of(route)->width);

    note(route, box);
    crop(route, &box);
    return resize(route, op->size.height, op->size.width, draw_filter(op->random_resized_crop.filter, rng), max_pixels);
}

static int lay_random_hflip(sn_route *route, const sn_op *op, sn_rng *rng, uint64_t max_pixels)
{
    (void)max_pixels;
    if (draw_whether(route, op, rng))
        flip(route);
    return SN_OK;
}

static int lay_random_vflip(sn_route *route, const sn_op *op, sn_rng *rng, uint64_t max_pixels)
{
    (void)max_pixels;
    if (draw_whether(route, op, rng))
        vflip(route);
    return SN_OK;
}

static int lay_pad(sn_route *route, const sn_op *op, sn_rng *rng, uint64_t max_pixels)
{
    (void)rng;
    return pad_by(route, op->pad.padding, &op->pad.border, max_pixels);
}

static int add_ops(sn_route *route, const sn_op *ops, uint32_t n_ops, sn_rng *rng, uint64_t max_pixels);

static int add_members(sn_route *route, const sn_op *group, sn_rng *rng, uint64_t max_pixels)
{
    return add_ops(route, group + 1, group->span, rng, max_pixels);
}

static int lay_random_apply(sn_route *route, const sn_op *op, sn_rng *rng, uint64_t max_pixels)
{
    return sn_rng_double(rng) < op->chance.p ? add_members(route, op, rng, max_pixels) : SN_OK;
}

/* One branch: the first up to which the probabilities add up to more than a random number. */
static int lay_random_choice(sn_route *route, const sn_op *op, sn_rng *rng, uint64_t max_pixels)
{
    const sn_op *branch = op + 1, *past = op + 1 + op->span;
    double left = sn_rng_double(rng);

    for (const sn_op *next = branch; next < past && left >= 0; next += 1 + next->span) {
        if (next->chance.p > 0)
            branch = next; /* the last of them where the sum is rounded to less than 1 */
        left -= next->chance.p;
    }
    return add_members(route, branch, rng, max_pixels);
}

/* All branches: each place takes one of those that are left. */
static int lay_random_order(sn_route *route, const sn_op *op, sn_rng *rng, uint64_t max_pixels)
{
    const sn_op *branches[SN_PLAN_MAX_OPS];
    uint32_t n = 0;
    int rc = SN_OK;

    for (const sn_op *next = op + 1; next < op + 1 + op->span; next += 1 + next->span)
        branches[n++] = next;
    for (uint32_t k = 0; k < n && rc == SN_OK; k++) {
        uint32_t other = k + sn_rng_below(rng, n - k);
        const sn_op *branch = branches[other];

        branches[other] = branches[k];
        rc = add_members(route, branch, rng, max_pixels);
    }
    return rc;
}

/* A branch is laid by the group that it belongs to. */
static int lay_branch(sn_route *route, const sn_op *op, sn_rng *rng, uint64_t max_pixels)
{
    (void)route, (void)op, (void)rng, (void)max_pixels;
    return SN_E_PLAN;
}

typedef int lay_function(sn_route *route, const sn_op *op, sn_rng *rng, uint64_t max_pixels);

static lay_function *const laid[SN_N_OPS] = {
#define LAID(KIND, kind, ...) [SN_OP_##KIND] = lay_##kind,
#define DRAWN(...)
#define SOUND(...)
#include "../ops.def"
};

static int add_ops(sn_route *route, const sn_op *ops, uint32_t n_ops, sn_rng *rng, uint64_t max_pixels)
{
    int rc = SN_OK;

    for (uint32_t i = 0; rc == SN_OK; i += 1 + ops[i].span) {
        const sn_pass *last = last_of(route);

        /* After each op: a crop that pads may be large where what leaves the pipeline is not. */
        if ((uint64_t)last->height * last->width > max_pixels)
            rc = refuse(route, last->height, last->width);
        else if (i >= n_ops)
            break;
        else if (laid[ops[i].kind] != NULL)
            rc = laid[ops[i].kind](route, &ops[i], rng, max_pixels);
        else
            add_drawn(route, &ops[i], rng);
    }
    return rc;
}

int sn_route_lay(sn_route *route, const sn_op *ops, uint32_t n_ops, sn_rng *rng, uint32_t height, uint32_t width,
                 const sn_boxes *boxes, uint64_t max_pixels)
{
    route->n_passes = 1;
    route->passes[0] = untouched(height, width);
    route->n_edits = 0;
    route->n_drawn = route->boxes.n_shifts = 0;
    route->boxes.before = boxes ? *boxes : (sn_boxes){NULL, 0, 0};
    route->boxes.sides[0] = (float)width;
    route->boxes.sides[1] = (float)height;
    route->moves = (sn_moves){.height = height, .width = width};
    route->misfit = NULL;
    return add_ops(route, ops, n_ops, rng, max_pixels);
}
