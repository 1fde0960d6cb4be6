/*
 * sn_shrink.h -- a cache gives memory back while jobs use it.
 *
 *   limit falls --> the payloads behind it are evicted, some slots at a time --> what is free behind it is punched
 *        |                    |
 *        |                    +-- held or being written: stays, and counts as left; the next pass tries again
 *        +-- below what members need for their staged copies: refused
 *
 * From the moment the limit falls, no slot is given a granule behind it, and the limit never rises (sn_backing.h).
 * Therefore a granule behind it that is seen free under the lock stays free, and its memory is taken without the lock.
 *
 * Lives in   the segment.
 * Callers    anybody who is attached, without the lock; sn_shrink() needs no row, and is for those who use nothing here.
 * Blocking   up to 100 ms for the lock, which is held for some thousand slots at a time; the kernel, for the memory.
 * Crash      the limit has fallen, and some payloads behind it are still there. The next pass goes on.
 */
#ifndef SN_SHRINK_H
#define SN_SHRINK_H

#include "../shm/sn_segment.h"

typedef struct {
    uint32_t before; /* granules that might be given out, until this pass */
    uint32_t least;  /* that members need for their staged copies */
    uint32_t left;   /* slots behind the limit that are in somebody's hands */
} sn_shrunk;

/* Let no more than these granules be given out, evict the payloads behind, and give their memory back. 0; SN_FULL:
 * members need `least`, and nothing is changed; what sn_store_enter() answers; -ENOMEM. */
int sn_shrink_pass(sn_segment *segment, uint32_t granules, sn_shrunk *found);

/* The same for the segment that is open as `fd`, which is closed: also what sn_segment_attach() answers. */
int sn_shrink(int fd, const char *path, uint32_t granules, sn_shrunk *found);

#endif
