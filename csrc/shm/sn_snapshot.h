/*
 * sn_snapshot.h -- a snapshot of a segment, taken from outside, for people and programs that watch it.
 *
 *   open read-only --> sn_snapshot_take() --> a copy of the header, of all rows and of what they publish; which rows live
 *
 * Whoever takes one is no participant: it has no row, takes no lock, maps nothing and writes nothing. Therefore it may
 * be killed or stopped at any time, and no user of the segment notices. It cannot be hurt either: it reads with
 * pread(2), which a file that is cut off meanwhile answers with fewer bytes, and no signal.
 *
 * Lives in   the caller's private memory.
 * Callers    any process that may read the segment; any thread.
 * Blocking   never.
 * Ordering   users change header and rows meanwhile. Two reads are made until they agree. What both found then was
 *            there between them, unless it changed there and back. After a few tries the last read is taken, and
 *            `torn` says so. Life is asked about later: a row may have lost its owner since.
 */
#ifndef SN_SNAPSHOT_H
#define SN_SNAPSHOT_H

#include "sn_layout.h"

typedef struct {
    sn_header head;
    sn_row rows[SN_MAX_ROWS];
    uint64_t alive[SN_MAX_ROWS / 64]; /* rows in use whose owner lives */
    sn_work work[SN_MAX_ROWS];        /* what the rows in `published` have written */
    uint64_t published[SN_MAX_ROWS / 64];
    char dataset[SN_DATASET_NAME]; /* its name, as it was published last, also by who has left; "": not known */
    uint64_t memory_bytes;         /* that the segment takes now */
    int torn;                      /* header and rows changed while they were read */
} sn_snapshot;

/* Take a snapshot of the segment that is open as `fd`, for reading at least: 0; SN_E_MAGIC (none, or one that is being
 * made), SN_E_VERSION, SN_E_CORRUPT, -errno. Whether anybody uses it says sn_anyone_alive(), of any version. */
int sn_snapshot_take(int fd, sn_snapshot *snapshot);

/* What the process of a row publishes of its dataset: 0; SN_MISS: nothing, or not as sn_snapshot_take() found the row;
 * -errno. */
int sn_snapshot_read_dataset(int fd, const sn_snapshot *snapshot, uint32_t row, sn_dataset *dataset);

#endif
