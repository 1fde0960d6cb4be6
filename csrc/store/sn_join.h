/*
 * sn_join.h -- one process comes to a segment, and leaves it.
 *
 *   join    attach --> rebuild where `busy` is set --> reap the dead --> claim a row --> let go of the lock
 *   leave   take the lock --> give the row back --> nobody else lives? take the name away --> let go of the lock
 *   sweep   nobody lives? take the name away, unless it is to be kept; discard: also then
 *
 * A segment may be kept for some time after the last who leaves. If its last users were killed, the time is counted from
 * the first sweep after that.
 *
 * The join of a job is counted once, by the first of its processes: worker processes come anew with each epoch. Who leaves
 * says what a sample cost it. Where several kept segments are to share some memory, `seneca prune --to` gives up the one
 * first that is worth least for its size.
 *
 * A process claims its row before it lets go of the lock. Therefore a segment without a living row is one whose users
 * have died, and never one that somebody has just made.
 *
 * Lives in   the caller's private memory: the handle and the number of the row.
 * Callers    sn_join(), sn_sweep(), sn_discard(), sn_left_behind(): any thread, without a lock.
 *            sn_leave(): the thread that closes the handle next.
 * Blocking   sn_join(): up to 200 ms for the lock, and as long as a creation takes.
 *            sn_leave(): up to 100 ms for the lock. sn_discard(): up to 200 ms for it. sn_sweep(),
 *            sn_left_behind(): never.
 * Crash      a death before the claim leaves a segment that nobody lives in, which the next who comes unlinks; a death
 *            after it leaves a row without an owner, which is reaped.
 */
#ifndef SN_JOIN_H
#define SN_JOIN_H

#include "../shm/sn_segment.h"
#include "../shm/sn_telemetry.h"

#define SN_JOIN_HALF_LIFE_S 1800.0 /* after so many seconds a join counts for half */

/*
 * Join the segment in the file `path` (absolute) that is open as `fd`, or make it; `geometry`, `newest_ctime`, `progress`
 * and `context` as for sn_segment_attach().
 * The descriptor is the callee's, also on failure.
 *
 * SN_ATTACH_CREATED or SN_ATTACH_JOINED: *segment is the caller's to close, and *row the row of this process.
 * Else *segment is NULL, and the answer is that of sn_segment_attach(), sn_store_enter() or sn_row_claim(), or
 * SN_E_RECORDS: it could be joined, but there is no memory for the records of one more process. What this process made
 * and could not claim a row in is unlinked.
 */
int sn_join(int fd, const char *path, const sn_geometry *geometry, int64_t newest_ctime, uint64_t job_key,
            sn_progress progress, void *context, sn_segment **segment, uint32_t *row);

/*
 * Leave. With `row` SN_NONE the row stays: a thread may still write to what it holds. Either way this process counts no
 * more, so the name goes if nobody else lives, unless the segment is to be kept. An abandoned one is not.
 *
 * 0; else what sn_store_enter() answers: the lock was not to be had. Then the row counts as dead once the handle is closed,
 * and somebody reaps it. The handle is the caller's to close.
 */
int sn_leave(sn_segment *segment, uint32_t row);

/* Take the name away from the segment that is open as `fd`, if no living process uses it and it is not to be kept any
 * longer. Closes the descriptor. A segment in use is left in peace: its lock is not even tried. */
void sn_sweep(int fd, const char *path);

/* The same for a segment that is to be kept: 0, the name is gone; SN_BUSY, somebody uses it; what sn_segment_attach()
 * answers, where it is no segment of this version. */
int sn_discard(int fd, const char *path);

/* Whether sn_sweep() would take the name away. It changes nothing, and `fd` may be open for reading only. Of a segment that
 * is incomplete it tries the lock for a moment: a process that is making one holds it. */
int sn_left_behind(int fd);

#endif
