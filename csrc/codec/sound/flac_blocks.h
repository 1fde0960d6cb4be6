/*
 * flac_blocks.h -- the blocks of a FLAC: where they begin, and whether all of them are there.
 *
 *   "fLaC" --STREAMINFO ...--> block block block ... end        a block: header, channels, the sum of both
 *
 * Of a whole file a part is what the whole has there. One that was cut off still claims the frames that it had. Where a
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

#define SN_FLAC_PLACES 64

/* What a byte adds to the sum of what comes after so many bytes behind it. */
typedef struct {
    bool are_made; /* all zero: not yet */
    uint16_t behind[8][256];
} sn_flac_sums;

/* What the header says. */
typedef struct {
    const uint8_t *first, *end; /* the blocks, and whatever is behind them */
    uint32_t block;             /* frames of a block, if all but the last have as many */
    uint32_t most_frames;       /* of a block */
    uint32_t fewest;            /* bytes of a block; 0: not known */
    uint32_t rate, channels, bits;
    uint64_t frames;
} sn_flac_stream;

/* How two channels of a block are written, as its header says it. */
enum sn_flac_layout { SN_FLAC_APART = 0, SN_FLAC_LEFT_SIDE = 8, SN_FLAC_SIDE_RIGHT = 9, SN_FLAC_MID_SIDE = 10 };

typedef struct {
    const uint8_t *samples; /* behind its header */
    uint64_t first;         /* frame */
    uint32_t frames;
    enum sn_flac_layout layout;
    bool is_counted;   /* blocks have one size, and its header has its number and not that of a frame */
    bool is_as_stream; /* its rate, its channels and their bits are those of the stream */
} sn_flac_block;

/* Where a block begins. */
typedef struct {
    const uint8_t *at;
    uint64_t frame;
} sn_flac_place;

/* Some of them, in order. */
typedef struct {
    uint32_t n;
    sn_flac_place of[SN_FLAC_PLACES];
} sn_flac_places;

/* False: it is none, or has no block. */
bool sn_flac_open_stream(sn_flac_stream *stream, const uint8_t *bytes, size_t length);

/* Whether a block begins at `at`, and what its header says. The sum of that agrees. */
bool sn_flac_open_block(const sn_flac_stream *stream, const uint8_t *at, sn_flac_block *block);

/* Whether a block ends with the sum of what is before. */
bool sn_flac_is_sound(sn_flac_sums *sums, const uint8_t *at, const uint8_t *end);

/* Whether the blocks follow each other from frame 0 on, come to stream->frames, and end at the end of the file. False
 * too: something is behind them. Then there are no places. */
bool sn_flac_find_blocks(sn_flac_sums *sums, const sn_flac_stream *stream, sn_flac_places *places);

/* The block with this frame, if the places are known, or the first one. */
sn_flac_place sn_flac_place_of(const sn_flac_stream *stream, const sn_flac_places *places, uint64_t frame);

#endif
