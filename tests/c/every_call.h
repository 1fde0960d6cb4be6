/*
 * every_call.h -- every call of a codec that takes a file of a picture or a sound, with any bytes.
 *
 *   probe, decode_region, augment_encoded, decode --> pixels of the size that is said, or a failure in words
 *   probe_sound, augment_encoded; decode, augment_decoded --> the same frames by both ways, or a failure in words
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

/* Of a sound. Whether frames came out both ways; the item that is made of them is added to *digest. */
int every_call_of_sound(sn_codec *codec, const sn_plan *plan, picture_file file, uint64_t seed, uint32_t number,
                        uint64_t *digest);

#endif
