/*
 * iou_crop.h -- RandomIoUCrop's search for a crop that overlaps the picture's boxes enough.
 *
 *   op, random numbers, the picture's size, its boxes and how the ops before moved them --> the crop
 *
 * Callers    route.c; no state but the caller's.
 */
#ifndef SN_IOU_CROP_H
#define SN_IOU_CROP_H

#include <stdbool.h>

#include "../../base/sn_rng.h"
#include "../rect.h"
#include "../sn_plan.h"

/* What an op did to the boxes along one axis: they were moved, or the picture of this side was mirrored. */
typedef struct {
    uint32_t axis; /* 0: x, 1: y */
    bool mirrored;
    float by;
} sn_shift;

#define SN_MAX_SHIFTS (2 * SN_PLAN_MAX_OPS)

typedef struct {
    sn_boxes before; /* the first op */
    float sides[2];  /* then: the picture's width and height */
    uint32_t n_shifts;
    sn_shift shifts[SN_MAX_SHIFTS]; /* in their order */
} sn_moved_boxes;

/* Draw a crop of a picture of this size. False: the picture stays whole, because it was drawn to, because it has no
 * boxes, or because no crop was found; `crop` is then as it was. */
bool sn_draw_iou_crop(const sn_op *op, sn_rng *rng, uint32_t height, uint32_t width, const sn_moved_boxes *boxes,
                      sn_rect *crop);

#endif
