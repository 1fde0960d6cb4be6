/*
 * huffman_tables.h -- what huffman.c looks up: whole coefficients by the next bits of a baseline JPEG's scan.
 *
 *   the codes of a file --sn_huffman_make_dc(), sn_huffman_make_ac()--> tables, kept while the codes stay
 *
 * Blocking   never.
 * Owns       nothing: an sn_huffman has the tables.
 */
#ifndef SN_HUFFMAN_TABLES_H
#define SN_HUFFMAN_TABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jpeglib.h>

/* Bits that a look-up sees. With 10 the tables of a picture stay in the first cache. */
#define LOOKUP_BITS 10
#define ENTRIES (1u << LOOKUP_BITS)

/* Bits that a look-up takes at the most: the value of its last code may lie behind what it sees. Three of them fit
 * between two refills. */
#define MOST_BITS 18

#define LONGEST_CODE 16
#define BLOCK 64 /* coefficients */
#define AWAY 64  /* an advance that leaves every block: the next code is taken by itself */

/* libjpeg-turbo's codes, and what is looked up by the next LOOKUP_BITS bits. */
typedef struct {
    uint8_t counts[LONGEST_CODE + 1]; /* as in the file, by which the tables are known */
    uint8_t symbols[256];
    bool is_made;

    uint16_t one[ENTRIES];            /* bits << 8 | symbol; 0: a longer code */
    uint32_t limit[LONGEST_CODE + 1]; /* codes up to this length are below, with 16 bits */
    int32_t offset[LONGEST_CODE + 1]; /* from a code of this length to its symbol */
} sn_huffman_codes;

/*
 * An entry of two coefficients, or one and nothing:
 *
 *   bits 0-7    of the stream that it takes
 *   bits 8-15   how far the first coefficient is from the last one before
 *   bits 16-23  how far the second is from that last one; AWAY: too long for a look-up
 *   bit  24     the block ends
 *   bits 32-39  the first, bits 40-47 the second, of which 0 changes nothing
 *   bits 48-63  which of the last bits taken are a value that a look-up does not see whole; it belongs to the second
 */
#define ENDS (1u << 24)

/* An entry that skips: bits 0-4 of the stream, bits 5-11 how far, bit 12 the block ends. */
#define SKIP_ENDS (1u << 12)

typedef struct {
    sn_huffman_codes codes;
    uint64_t two[ENTRIES];
    uint16_t skip[ENTRIES];
} sn_ac_table;

/* An entry: bits << 24 | difference, as 16 bits; 0: longer. */
typedef struct {
    sn_huffman_codes codes;
    uint32_t whole[ENTRIES];
} sn_dc_table;

/* A value of `size` bits (F.12 of the standard): those that begin with 0 are negative. */
static inline int32_t sn_huffman_extend(uint32_t bits, uint32_t size)
{
    return (int32_t)bits - (bits >> (size - 1) ? 0 : (int32_t)((1u << size) - 1));
}

/* Make the table of these codes, unless it is made already. jpeg_start_decompress() has refused invalid ones. */
void sn_huffman_make_dc(sn_dc_table *table, const JHUFF_TBL *from);
void sn_huffman_make_ac(sn_ac_table *table, const JHUFF_TBL *from);

#endif
