/*
 * recoded.h -- a JPEG's coefficients in a layout that is read at the pace of memory, without loss.
 *
 *   rows of blocks --sn_recoding_*--> payload --sn_recoded_open, sn_recoded_take--> any blocks of any row
 *
 * A third of the time of a decoded crop, or more, goes into Huffman codes, which are read bit by bit from the file's
 * beginning on. A payload is a little larger than its file, and each row of blocks begins at an address of its own. It
 * is of no pipeline: any crop of it is drawn by raster.h, with the pixels that the file gives.
 *
 *   head | the offset of each row of blocks, of the first component, the second and the third, and of the end
 *        | segments of SN_BLOCKS_AT_ONCE blocks, or fewer at the end of a row, each row's in turn
 *   segment: its bytes | the first block's first coefficient | how many bits the following blocks' have
 *            | presence | these, as differences to the block before | codes, four bits each | masks | fields
 *   presence: of each block four bits, its place in a table of frequent ones, or 15 | a byte of each that has 15
 *
 * For presence, codes, masks and fields see group_kernels.h. All numbers are little-endian; all but `row` at any byte.
 *
 * Callers    one thread at a time an sn_recoding or sn_recoded; any number of them may read one payload.
 * Blocking   never.
 * Payloads   are not trusted: whatever the bytes are, nothing outside them is read, nor written outside the blocks.
 */
#ifndef SN_RECODED_H
#define SN_RECODED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../kernels/group_kernels.h"
#include "jpeg_frame.h"

/* -- Writing -- */

typedef struct {
    const sn_group_kernels *kernels;
    sn_jpeg_frame frame;
    sn_dequantiser by[SN_COMPONENTS];
    uint32_t first_row[SN_COMPONENTS + 1]; /* of each component, of all rows */
    uint8_t *payload, *at, *end;
    bool is_full;       /* why the last call failed */
    uint8_t place[256]; /* of each presence in the table of frequent ones */
    sn_put_groups groups;
} sn_recoding;

/* Begin a payload at `payload`, where `room` bytes may be written, aligned to 4. False: that is too few, or
 * a quantiser has more than 8 bits. */
bool sn_recoding_begin(sn_recoding *recoding, const sn_jpeg_frame *frame, void *payload, size_t room);

/* Put a row of all blocks of a component. Rows come in any order, each once. False: there is no room, or a product is
 * beyond SN_MOST_PRODUCT. */
bool sn_recoding_put(sn_recoding *recoding, uint32_t component, uint32_t row, const int16_t (*blocks)[SN_BLOCK]);

/* All rows are there: the length of the payload. */
size_t sn_recoding_end(sn_recoding *recoding);

/* -- Reading -- */

/* What a byte of places says of two blocks. */
typedef struct {
    uint8_t presence[2];
    uint8_t n_codes;
    uint8_t is_rare; /* bit 0: the first block's presence is in a byte of its own; bit 1: the second's */
} sn_presence_pair;

typedef struct {
    const sn_group_kernels *kernels;
    sn_jpeg_frame frame;
    uint32_t first_row[SN_COMPONENTS + 1];
    sn_presence_pair pairs[256];
    const uint8_t *payload;
    size_t bytes;
    const uint32_t *rows;
    uint8_t presence[SN_BLOCKS_AT_ONCE]; /* of a segment, as codes and firsts */
    uint8_t codes[SN_BLOCKS_AT_ONCE * SN_GROUPS + 1];
    int16_t firsts[SN_BLOCKS_AT_ONCE];
    uint8_t copy[UINT16_MAX + SN_FIELDS_PAST]; /* of a segment at the payload's end, with bytes behind it */
} sn_recoded;

/* Open a payload, aligned to 4; it stays where it is. False: it is damaged, or of another version. */
bool sn_recoded_open(sn_recoded *recoded, const void *payload, size_t bytes);

/* Take `n` blocks of a row from `first` on, all of the component; `blocks` are zeros. False: the payload is damaged, and
 * the blocks are any. */
bool sn_recoded_take(sn_recoded *recoded, uint32_t component, uint32_t row, uint32_t first, uint32_t n,
                     int16_t (*blocks)[SN_BLOCK]);

#endif
