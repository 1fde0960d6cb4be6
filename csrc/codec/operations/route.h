/*
 * route.h -- a pipeline's ops, with their random numbers drawn, as passes over pixels.
 *
 *   ops    RandomResizedCrop, flip       -> 1 pass    box -> resize -> flip
 *          Resize, CenterCrop, flip      -> 1 pass    whole -> resize, only the window -> flip
 *          Resize, RandomResizedCrop     -> 2 passes  the first computes only the second's box
 *          RandomCrop, jitter, flip      -> 1 pass    window on its canvas -> flip -> colours
 *
 *   one pass:
 *      source          resized (full)       canvas                output
 *     +---------+      +-------------+     +-----------+         +-----------+
 *     | +-box-+ |      |  +-window-+ |     | # # # # # |         |           |
 *     | |     | | ---> |  |        | | --> | # window #| ------> |   edits   |
 *     | +-----+ |      |  +--------+ |     | # # # # # |         |   done    |
 *     +---------+      +-------------+     +-----------+         +-----------+
 *     the window, mirrored and upended if `flip` and `vflip` say so, lies at (top, left) on the
 *     canvas; around it is the border, a colour or a continuation of the window
 *
 * All of it is decided before a pixel is touched, which is what lets the decoder skip the pixels
 * that are not needed. Crops, pads and flips only edit the pass at hand, and edits are added
 * to it. A new pass begins with
 *   a resize            of a pass that has resized or has a border,
 *   a crop or pad       of a border that continues the window,
 *   a pad               unlike the border that is there,
 *   any of the three    once there are edits: contrast and blurs examine the whole picture,
 *   a flip              once there is a warp, or another edit that moves pixels.
 * To all other edits a mirrored picture is like any other, so flips go on editing.
 *
 * Random numbers are drawn op by op, in each as torchvision draws them:
 *   RANDOM_RESIZED_CROP   ten times at most area, log of the ratio, and if the box fits top, left
 *                         then the filter, if it is either
 *   RANDOM_RESIZE_KEEP_RATIO   whether and the scale, whether and the log of the aspect, the filter, each if it is
 *                         not certain
 *   SCALE_JITTER          the scale
 *   RANDOM_SHORTEST_SIZE, RANDOM_RESIZE   which size
 *   RANDOM_ZOOM_OUT       whether, then the factor, left, top
 *   RANDOM_IOU_CROP       the overlap; for each trial the width, the height and, where the ratio fits, left, top
 *   RANDOM_HFLIP, RANDOM_VFLIP   one
 *   RANDOM_CROP           top, left; nothing if the picture has the crop's size
 *   RANDOM_APPLY          one: whether, then what its members draw
 *   RANDOM_CHOICE         one: which branch, then what its members draw
 *   RANDOM_ORDER          for each place one: which of the branches that are left, then what its members
 *                         draw
 *   all others            see recipe.h
 *
 * Callers    any thread; no state but the caller's.
 * Errors     SN_E_PLAN (`misfit` says which op), SN_E_TOO_LARGE.
 */
#ifndef SN_ROUTE_H
#define SN_ROUTE_H

#include <stdbool.h>

#include "../../base/sn_rng.h"
#include "../formats/jpeg.h"
#include "../sn_plan.h"
#include "edit.h"
#include "iou_crop.h"
#include "recipe.h"

typedef struct {
    sn_rect box;
    uint32_t full_height, full_width; /* equal to the box: no resize */
    uint32_t filter;                  /* enum sn_filter, if resized */
    sn_rect window;                   /* may be empty: the canvas is all border */
    bool flip, vflip;                 /* left and right, top and bottom are exchanged */
    bool flip_first, vflip_first;     /* the same of the box, before it was resized: nearest pixels are then others */
    uint32_t height, width;           /* of the output */
    uint32_t top, left;               /* of the window in it */
    sn_border border;                 /* if the output is larger than the window */
    uint32_t first_edit, n_edits;     /* of the route's, run on the output in this order */
    bool is_warped;                   /* one of them moves pixels */
} sn_pass;

static inline bool sn_pass_is_resized(const sn_pass *pass)
{
    return pass->full_height != pass->box.height || pass->full_width != pass->box.width;
}

static inline bool sn_pass_is_padded(const sn_pass *pass)
{
    return pass->window.height != pass->height || pass->window.width != pass->width;
}

static inline bool sn_pass_is_empty(const sn_pass *pass)
{
    return pass->window.height == 0 || pass->window.width == 0;
}

/* An op begins three passes at most (RANDOM_CROP: pad, pad if needed, crop) and adds
 * SN_RECIPE_MAX edits. */
#define SN_ROUTE_MAX_PASSES (1 + 3 * SN_PLAN_MAX_OPS)
#define SN_ROUTE_MAX_EDITS (SN_RECIPE_MAX * SN_PLAN_MAX_OPS)

typedef struct {
    uint32_t n_passes; /* at least 1 */
    sn_pass passes[SN_ROUTE_MAX_PASSES];
    uint32_t n_edits;
    sn_edit edits[SN_ROUTE_MAX_EDITS];
    uint32_t n_drawn; /* entries of `moves` */
    sn_moves moves;
    sn_moved_boxes boxes;

    /* After SN_E_PLAN: the crop that is larger than the picture, and that picture's size. After
     * SN_E_TOO_LARGE: the size that is over the limit. */
    const sn_op *misfit;
    uint32_t misfit_height, misfit_width;
} sn_route;

/* Draw what is random in `ops`, in their order, and lay the route for a picture of this size, which has these boxes (NULL: none).
 * `rng` may be NULL if nothing is random. Same rng, same picture, same boxes, same route. */
int sn_route_lay(sn_route *route, const sn_op *ops, uint32_t n_ops, sn_rng *rng, uint32_t height, uint32_t width,
                 const sn_boxes *boxes, uint64_t max_pixels);

#endif
