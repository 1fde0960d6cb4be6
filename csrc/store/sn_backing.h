/*
 * sn_backing.h -- how much of the payload space has memory, and how much of it is given out.
 *
 *   granules   0 ................ backed ................ limit = n_granules      a cache that grows
 *              given out           no memory yet
 *
 *   granules   0 ................ limit ................. backed                  a cache that was shrunk
 *              given out           not any more, punched once free
 *
 * `backed` only grows and `limit` only falls. A slot is given granules below both alone. What a rebuild finds between
 * limit and backed was given out before the limit fell, and stands.
 *
 * Growing has two steps. The kernel gives memory to a piece from `backed` on, without the lock. Then, under the lock,
 * `backed` is raised to the end of that piece. The order is what keeps a bus error away: a granule that is counted has
 * memory. It keeps it, because memory is taken from granules at or behind the limit alone, and the limit never rises.
 * Whatever was punched between the two steps therefore lies at or behind the limit that the second step reads, and the
 * second step counts nothing that lies there.
 *
 * Any process may do it at any time. If two of them give memory to the same piece, the kernel finds the pages of the
 * first there for the second, and only one of them raises the count from the value that both have read.
 *
 * Lives in   the segment's header (truth).
 * Callers    any process that is attached, without the lock; any thread, one at a time for each handle that is closed.
 * Blocking   the kernel, a quarter of a second for each GiB; up to 100 ms for the lock.
 * Ordering   the lock orders both counts. Without it they are read as hints.
 * Crash      before the count is raised: the piece, or a part of it, has memory that nobody counts, and the next who
 *            grows finds it there. After: the rebuild reads the count.
 */
#ifndef SN_BACKING_H
#define SN_BACKING_H

#include "../shm/sn_segment.h"

/* Give memory to the next `granules` of the payload space at the most. 0: they are counted; SN_MISS: all that may
 * have memory has; SN_BUSY: another process was faster, or the lock was not to be had; -ENOSPC, -ENOMEM: there is none;
 * what else sn_store_enter() answers. */
int sn_backing_grow(sn_segment *segment, uint32_t granules);

/* The cache stays at the size that it has. 0: from now on; SN_MISS: it had all, or this was called before; what
 * sn_store_enter() answers. */
int sn_backing_stop(sn_segment *segment);

/* Under the lock: from here on no granule is given out any more. Below the limit until now. */
void sn_backing_set_limit(sn_segment *segment, uint32_t granules);

#endif
