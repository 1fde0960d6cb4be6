/*
 * segment.h -- a small segment in use, whose records an input overwrites.
 *
 *   segment_begin() --> segment_edit() --> processes attach, rebuild, draw --> segment_restore() --> segment_edit() --> ...
 *
 * It is crash_world.h's: two processes of two jobs are attached, in the middle of epochs. Their members do not draw any
 * more; the rows and claims of these are there still.
 *
 * An edit has 8 bytes: the kind of record, what is done, a word's place (2 bytes), a number (4 bytes), the lowest first. It
 * may go for that word in all records from there on.
 *
 * Lives in   the target, and a file in /dev/shm.
 * Callers    one thread.
 */
#ifndef SEGMENT_H
#define SEGMENT_H

#include "crash_world.h"
#include "fuzz.h"

#define SEGMENT_EDIT 8u

extern world segment_world;

void segment_begin(void);

/* Overwrite words, in turn, as the bytes say. */
void segment_edit(const uint8_t *bytes, size_t length);

/* The file has these bytes from the beginning on, and is so long; at the most as long as it was. */
void segment_overwrite(const uint8_t *bytes, size_t length, size_t file_bytes);

/* Nobody lives in it any more; both processes do again once it is restored. */
void segment_desert(void);

/* One of the processes, which believes nothing that it finds. */
guest segment_host(uint32_t which, uint64_t seed);

/* All is as segment_begin() has made it, also the name. */
void segment_restore(void);

/* A seed: some bytes that the target reads, and edits that may make sense. */
picture_file segment_seed(const uint8_t *header, size_t length, uint32_t number, sn_rng *rng);

#endif
