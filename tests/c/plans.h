/*
 * plans.h -- the pipelines that the tests run, one for each way through the codec and the batch.
 *
 *   PLAN_TRAIN     RandomResizedCrop, flip             -> floats, planes
 *   PLAN_TRAIN_2   the same from the same head, other sizes -> bytes, pixels
 *   PLAN_EVAL      Resize, CenterCrop | flip           -> bytes, planes
 *   PLAN_TWO       Resize | RandomResizedCrop, flip    -> floats, pixels
 */
#ifndef PLANS_H
#define PLANS_H

#include "codec/sn_codec.h"

enum { PLAN_TRAIN, PLAN_TRAIN_2, PLAN_EVAL, PLAN_TWO, N_PLANS };

void plans_make(sn_plan plans[N_PLANS]);

/* Bytes of one sample in the batch. */
size_t plan_item_bytes(const sn_plan *plan, uint32_t height, uint32_t width);

/* sn_batch_write(), which the tests call here alone. `rng` is what the augmenting left. */
void plan_batch_write(const sn_plan *plan, sn_rng *rng, const uint8_t *augmented, uint32_t height,
                      uint32_t width, void *out);

#endif
