/*
 * route.h -- a pipeline's ops, with their random numbers drawn, as passes over pixels.
 *
 *   ops    RandomResizedCrop, flip       -> 1 pass    box -> resize -> flip
 *          Resize, CenterCrop, flip      -> 1 pass    whole -> resize, only the window -> flip
 *          Resize, RandomResizedCrop     -> 2 passes  the first computes only the second's box
 *
 *   one pass:
 *      source          resized (full)       output
 *     +---------+      +-------------+     +-----------+
 *     | +-box-+ |      |  +-window-+ |     | 0 0 0 0 0 |     the window, mirrored if `flip`,
 *     | |     | | ---> |  |        | | --> | 0 window 0|     lies at (top, left) on a canvas of
 *     | +-----+ |      |  +--------+ |     | 0 0 0 0 0 |     zeros: torchvision's padding
 *     +---------+      +-------------+     +-----------+
 *
 * All of it is decided before a pixel is touched, which is what lets the decoder skip the pixels
 * that nobody will look at. Crops and flips only edit the pass at hand; a resize begins a new
 * one unless the pass has neither resized nor padded yet.
 *
 * Callers    any thread; no state but the caller's.
 * Errors     SN_E_PLAN, SN_E_TOO_LARGE.
 */
#ifndef SN_ROUTE_H
#define SN_ROUTE_H

#include <stdbool.h>

#include "../base/sn_rng.h"
#include "jpeg.h"
#include "sn_plan.h"

typedef struct {
    sn_rect box;
    uint32_t full_height, full_width; /* equal to the box: no resize */
    uint32_t filter;                  /* enum sn_filter, if resized */
    sn_rect window;                   /* may be empty: the output is all zeros */
    bool flip;
    uint32_t height, width; /* of the output */
    uint32_t top, left;     /* of the window in it */
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

typedef struct {
    uint32_t n_passes; /* at least 1 */
    sn_pass passes[SN_PLAN_MAX_OPS];
} sn_route;

/* Draw what is random in `ops`, in their order, and lay the route for a picture of this size.
 * `rng` may be NULL if nothing is random. Same rng, same picture, same route. */
int sn_route_lay(sn_route *route, const sn_op *ops, uint32_t n_ops, sn_rng *rng, uint32_t height,
                 uint32_t width, uint64_t max_pixels);

#endif
