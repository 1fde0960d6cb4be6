/*
 * flac_blocks.h -- whether a FLAC is whole: all its blocks are there, and each has the sum that it ends with.
 *
 * Of such a file a part is what the whole has there. One that was cut off still claims the frames that it had. Where a
 * block in its midst is damaged, libFLAC passes over it, and all frames behind come too early. libFLAC itself finds that
 * out by decoding all. To add up all bytes takes a tenth of that.
 *
 * Callers    one thread at a time an sn_flac_sums.
 * Blocking   never.
 */
#ifndef SN_FLAC_BLOCKS_H
#define SN_FLAC_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a byte adds to the sum of what comes after so many bytes behind it. */
typedef struct {
    bool are_made; /* all zero: not yet */
    uint16_t behind[8][256];
} sn_flac_sums;

/* Whether the blocks follow each other from frame 0 on, come to `frames`, and end at the end of the file. False too:
 * something is behind them. */
bool sn_flac_is_whole(sn_flac_sums *sums, const uint8_t *bytes, size_t length, uint64_t frames);

#endif
