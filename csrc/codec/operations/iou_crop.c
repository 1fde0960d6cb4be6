#include "iou_crop.h"

#include <math.h>
#include <string.h>

#define OVERLAPS_TRIED 1024 /* of a picture in which no crop is found: torchvision would go on for ever */

/* A box where the ops before have moved it, rounded after each as torchvision rounds. */
static void moved_box(const sn_moved_boxes *boxes, uint32_t number, float box[4])
{
    memcpy(box, boxes->before.sides[number], 4 * sizeof *box);
    for (uint32_t k = 0; boxes->before.are_shares && k < 4; k++)
        box[k] *= boxes->sides[k & 1];
    for (uint32_t k = 0; k < boxes->n_shifts; k++) {
        const sn_shift *shift = &boxes->shifts[k];
        float *low = &box[shift->axis], *high = &box[shift->axis + 2], was_low = *low;

        *low = shift->mirrored ? shift->by - *high : *low + shift->by;
        *high = shift->mirrored ? shift->by - was_low : *high + shift->by;
    }
}

/* Whether a box whose middle is in the crop overlaps it as much, in single floats as torchvision has them. */
static bool is_overlapped(const sn_moved_boxes *boxes, const float crop[4], float least)
{
    float of_crop = (crop[2] - crop[0]) * (crop[3] - crop[1]);

    for (uint32_t k = 0; k < boxes->before.count; k++) {
        float box[4], x, y, both, all;

        moved_box(boxes, k, box);
        x = 0.5f * (box[0] + box[2]);
        y = 0.5f * (box[1] + box[3]);
        if (!(crop[0] < x && x < crop[2] && crop[1] < y && y < crop[3]))
            continue;
        both = fmaxf(fminf(box[2], crop[2]) - fmaxf(box[0], crop[0]), 0) *
               fmaxf(fminf(box[3], crop[3]) - fmaxf(box[1], crop[1]), 0);
        all = (box[2] - box[0]) * (box[3] - box[1]) + of_crop - both;
        if (both / all >= least)
            return true;
    }
    return false;
}

/* One trial of RandomIoUCrop. */
static bool try_crop(const sn_op *op, sn_rng *rng, uint32_t height, uint32_t width, const sn_moved_boxes *boxes,
                     float least, sn_rect *crop)
{
    const double *scale = op->random_iou_crop.scale, *ratio = op->random_iou_crop.ratio;
    double in_ratio;

    crop->width = (uint32_t)((float)width * (float)sn_rng_uniform(rng, scale[0], scale[1]));
    crop->height = (uint32_t)((float)height * (float)sn_rng_uniform(rng, scale[0], scale[1]));
    in_ratio = (double)crop->width / crop->height;
    if (crop->width == 0 || crop->height == 0 || !(ratio[0] <= in_ratio && in_ratio <= ratio[1]))
        return false;
    crop->left = (uint32_t)((float)(width - crop->width) * (float)sn_rng_double(rng));
    crop->top = (uint32_t)((float)(height - crop->height) * (float)sn_rng_double(rng));
    return is_overlapped(boxes,
                         (float[4]){(float)crop->left, (float)crop->top, (float)(crop->left + crop->width),
                                    (float)(crop->top + crop->height)},
                         least);
}

bool sn_draw_iou_crop(const sn_op *op, sn_rng *rng, uint32_t height, uint32_t width, const sn_moved_boxes *boxes,
                      sn_rect *crop)
{
    const sn_reals *overlaps = &op->random_iou_crop.overlaps;
    sn_rect tried;

    for (uint32_t i = 0; i < OVERLAPS_TRIED && boxes->before.count > 0; i++) {
        double least = overlaps->values[sn_rng_below(rng, overlaps->count)];

        if (least >= 1)
            return false;
        for (uint32_t trial = 0; trial < op->random_iou_crop.trials; trial++)
            if (try_crop(op, rng, height, width, boxes, (float)least, &tried)) {
                *crop = tried;
                return true;
            }
    }
    return false;
}
