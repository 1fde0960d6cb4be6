/*
 * every_call.h -- every call of a codec that takes a picture's file, with any bytes.
 *
 *   probe, decode_region, augment_encoded, decode --> pixels of the size that is said, or a failure in words
 *
 * Callers    one thread at a time a codec.
 */
#ifndef EVERY_CALL_H
#define EVERY_CALL_H

#include "codec/sn_codec.h"
#include "pictures.h"

#define EVERY_CALL_PIXELS 4096 /* the limit of the codec */

/* All of them. The plan's random numbers are those of `seed` and `number`. Whether the whole picture was decoded. */
int every_call(sn_codec *codec, const sn_plan *plan, picture_file file, uint64_t seed, uint32_t number, sn_rng *rng);

#endif
