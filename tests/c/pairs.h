/*
 * pairs.h -- pairs of a picture and a mask, the pipelines that take them, and all that a codec makes of one.
 *
 * Owns       nothing: as pictures.h.
 */
#ifndef PAIRS_H
#define PAIRS_H

#include "pictures.h"
#include "plans.h"

/* Those of plans.h, of pairs. */
void pairs_make_plans(sn_plan plans[N_PLANS]);

/* The file of a mask of random classes. Empty: built without libpng. */
picture_file pair_make_mask(uint32_t height, uint32_t width, sn_rng *rng);

picture_file pair_join(const picture_file *picture, const picture_file *mask);

/* All that a codec makes of a pair. Whether all of it could be made. */
int pair_go_through(sn_codec *codec, const sn_plan *plan, const picture_file *pair, uint64_t seed, uint32_t number);

#endif
