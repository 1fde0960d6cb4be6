/*
 * flac_end.h -- whether a FLAC has all the frames that its header claims.
 *
 * One that was cut off still claims those that it had, and one may claim any number. Its last block says which frames
 * it has, and ends with a checksum at the end of the file. libFLAC finds it by a search that takes as long as half of
 * the decoding.
 *
 * Callers    any thread.
 * Blocking   never.
 */
#ifndef SN_FLAC_END_H
#define SN_FLAC_END_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether the last block of the file ends at its end, and has the last of `frames`. False too: it cannot be found. */
bool sn_flac_has_last(const uint8_t *bytes, size_t length, uint64_t frames);

#endif
