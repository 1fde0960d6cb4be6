/*
 * plans.h -- the pipelines that the tests run, one for each way through the codec and the batch.
 *
 *   PLAN_TRAIN     RandomResizedCrop, flip             -> floats, planes
 *   PLAN_TRAIN_2   the same from the same head, other sizes -> bytes, pixels
 *   PLAN_EVAL      Resize, CenterCrop | flip           -> bytes, planes
 *   PLAN_TWO       Resize | RandomResizedCrop, flip    -> floats, pixels
 *   PLAN_COLOUR    Pad | RandomCrop, flip, colours, upright, fast -> halves, planes, erased
 *   PLAN_RECIPE    CenterCrop | affine map, blur and sharpness or not, RandAugment, flip -> floats, planes
 *   PLAN_TIMM      random resize, crop or pad | crop by either filter, timm's RandAugment -> floats, planes, boxes
 *                  erased with a colour each
 *   PLAN_MIX       a resize by one number | perspective, AugMix, timm's AugMix, shifts -> bytes, planes
 *   PLAN_SIZES     sizes that are drawn: zoom out, shorter side, jitter -> bytes, pixels
 *
 * and those of sounds:
 *
 *   SOUND_CROP     Mono, Resample | crop -> floats
 *   SOUND_CHANGED  Mono, Resample upwards, Kaiser window | crop, gain, polarity, noise, shift -> halves
 *   SOUND_STEREO   Resample, cut of two channels, Mono | shift, noise, and then a crop -> floats
 *   SOUND_CUT      cut from a place -> halves of another kind
 */
#ifndef PLANS_H
#define PLANS_H

#include "codec/sn_codec.h"

enum {
    PLAN_TRAIN,
    PLAN_TRAIN_2,
    PLAN_EVAL,
    PLAN_TWO,
    PLAN_COLOUR,
    PLAN_RECIPE,
    PLAN_TIMM,
    PLAN_MIX,
    PLAN_SIZES,
    N_PLANS
};

enum { SOUND_CROP, SOUND_CHANGED, SOUND_STEREO, SOUND_CUT, N_SOUND_PLANS };

void plans_make(sn_plan plans[N_PLANS]);

/* Of sounds of so many channels. */
void plans_make_sounds(sn_plan plans[N_SOUND_PLANS], uint32_t channels);

/* Bytes of one sample in the batch. */
size_t plan_item_bytes(const sn_plan *plan, uint32_t height, uint32_t width);

#endif
