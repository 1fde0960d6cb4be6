/*
 * sn_segment.h -- one process's hold on a segment: the mapping, the lock, the proof of life.
 *
 *   on the whole file, flock(2):   the segment's lock
 *   on byte 1 + row, an OFD lock:  "this row's owner lives"
 *
 * Both belong to an open file description: the kernel gives them back when the last descriptor of
 * their owner closes, however it died. They do not see each other. To take a lock on a byte the
 * kernel walks all such locks of the file, one a row; flock takes 0.6 of the time, with 16 rows.
 * Not a robust mutex: over 19,617 kills of its owner 26 left the survivors stalled; of locks that
 * are a description's none, in 11,386 with an OFD lock and in 10,737 with flock.
 *
 * Lives in   private memory; points into the mapping.
 * Callers    any thread; one description a handle, so an in-process mutex stands before
 *            the file's lock (threads of one description do not exclude each other).
 * Blocking   only sn_lock_enter(), up to its deadline, and sn_segment_attach().
 * Crash      the kernel frees the lock; `busy` stays set, by which the next holder knows.
 * Fork       the child's copy of the handle is dead: its descriptor is closed at once (an
 *            inherited one would keep the parent's rows alive) and every call answers
 *            SN_E_FORKED. It never unlocks: that would free the parent's locks.
 */
#ifndef SN_SEGMENT_H
#define SN_SEGMENT_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "sn_guard.h"
#include "sn_layout.h"

#define SN_PATH_BYTES 4096

typedef struct sn_segment {
    int fd;
    _Atomic int forked;
    size_t bytes;

    /* Resolved once from a validated layout; never read again from shared memory. */
    sn_header *head;
    sn_row *rows;
    sn_telemetry *telemetry; /* a block for each row */
    sn_traits *traits;       /* likewise */
    sn_slot *slots;
    uint32_t *first;                      /* sample -> its first slot */
    uint8_t *wants;                       /* staged slot -> how many members are eligible for its copy */
    uint32_t *writing;                    /* the slots that are being written */
    _Atomic uint64_t *committed, *groups; /* of these, hints: a bit a slot, and a bit a group that has such */
    uint64_t *granules;
    uint8_t *payload;
    uint8_t *areas, *digests;
    uint64_t area_bytes, seen_in, eligible_in, blocks_in, timetable_in, digests_bytes; /* as in the header */
    uint32_t n_samples, n_stage, n_slots, n_granules, n_ledger, n_writing, row_words;

    _Atomic int is_damaged; /* something was found that cannot be: see sn_segment_damaged() */
    sn_guarded guarded;     /* whether there are zeroes in place of some of it */
    pthread_mutex_t mutex;
    uint32_t next_probe, sections;                /* whose life is asked about next; sections that might have */
    int64_t probed_at;                            /* second in which one last did */
    uint64_t own_rows[SN_MAX_ROWS / 64];          /* rows whose byte this description locks */
    _Atomic uint64_t new_areas[SN_MAX_ROWS / 64]; /* reserved by this process and not settled yet */
    struct sn_segment *next_handle;               /* of this process, for the fork handler */
    char path[SN_PATH_BYTES]; /* of the segment's file, absolute: the only place where it is searched for */
} sn_segment;

/* Asked before anything is reserved and after each piece, with what the file has then and what it will have:
 * 0 to go on; a failure (below 0) ends the creation, which answers it. */
typedef int (*sn_progress)(void *context, uint64_t done_bytes, uint64_t total_bytes);

/* How attaching ended well. */
enum sn_attach { SN_ATTACH_CREATED = 10, SN_ATTACH_JOINED = 11 };

/*
 * Make a handle on the file `path` (absolute) that is open as `fd`, creating the segment
 * when there is none in it yet. The descriptor becomes the handle's, also on failure.
 *
 * With `geometry` NULL it joins whatever is there, with payload_bytes 0 what is of this dataset;
 * neither makes one: SN_MISS where nothing is. What nobody uses is unlinked (SN_E_GONE) unless it is to
 * be kept; so is what was kept long enough, what is kept for some time and is of another dataset, and what
 * was not or could not be created, and what another boot of the host left. A segment that is joined is kept
 * as long as `geometry` asks for, if that is longer than was asked for before. `newest_ctime` goes into one that is created:
 * see sn_header.
 *
 * Answers SN_ATTACH_CREATED or SN_ATTACH_JOINED *with the lock held*: the caller claims its
 * row and leaves with sn_lock_leave(), so that nobody sees a segment without a living row.
 *
 * Fails with SN_E_OWNER, SN_E_GONE (unlinked meanwhile: open the name again),
 * SN_E_MISMATCH (joined with another dataset), SN_E_MAGIC, SN_E_VERSION, SN_E_CORRUPT,
 * SN_BUSY (the lock was not had in `wait_ms`: another is creating it, or hangs), -ENOSPC,
 * SN_E_MAPPING (no address space), -EOPNOTSUPP (the file system cannot reserve room), -ENAMETOOLONG, -ENOMEM,
 * and what `progress` answers. On failure *out is a handle for sn_segment_close() alone (NULL: no memory for
 * it), which frees the lock where it was had.
 */
int sn_segment_attach(int fd, const char *path, const sn_geometry *geometry, int64_t newest_ctime, int wait_ms,
                      sn_progress progress, void *context, sn_segment **out);

/* Unmap and close; the kernel frees every lock of this description. */
void sn_segment_close(sn_segment *segment);

#define SN_RARELY(condition) __builtin_expect((condition) != 0, 0)

/* Something was found in the segment that no process writes there. Whoever finds it leaves it alone, goes on, and leaves
 * `busy` set: then the next one rebuilds. Therefore a word that was overwritten costs payloads, and no process its life. */
static inline void sn_segment_damaged(const sn_segment *segment)
{
    /* Not a call: where it is found there are no others, and registers would be saved for it each time. */
    atomic_store_explicit(&((sn_segment *)segment)->is_damaged, 1, memory_order_relaxed);
}

/* Memory for what a row of this kind uses of its row area, under the lock: 0, -ENOSPC, -errno. What was
 * reserved once stays, with its content. */
int sn_segment_reserve_area(sn_segment *segment, uint32_t row, enum sn_row_kind kind);

/* Memory for the timetable of a row that is the caller's, without the lock: 0, -ENOSPC, -errno. Likewise. */
int sn_segment_reserve_timetable(const sn_segment *segment, uint32_t row);

/* The words of a table of digests; see sn_digests.h. They have memory where a process has opened the table. */
static inline _Atomic uint64_t *sn_segment_digests(const sn_segment *segment, uint32_t table)
{
    return (_Atomic uint64_t *)(segment->digests + table * segment->digests_bytes);
}

/* Memory for them, cleared, without the lock: 0, -ENOSPC, -errno. Whoever calls has made sure that nobody uses them. */
int sn_segment_clear_digests(const sn_segment *segment, uint32_t table);

/* Memory for these granules, whether or not they have some: 0, -ENOSPC, -errno. Without the lock; a death leaves
 * some of it there. sn_segment_punch() takes it away again: whoever touches such a granule gets another, of zeroes. */
int sn_segment_back(const sn_segment *segment, uint32_t from, uint32_t to);
void sn_segment_punch(const sn_segment *segment, uint32_t from, uint32_t to);

/* Put a row area that this process has reserved into huge pages, where the kernel has them. Once; without the
 * lock, as the kernel waits for every processor meanwhile: tens of milliseconds where all are busy. */
void sn_segment_collapse_area(sn_segment *segment, uint32_t row);

/* Of a segment that nobody uses: whether it goes now, because it was not to be kept, or no longer, or was given up,
 * or because the host has booted since: of a file on a disk the kernel may have written some pages and not others. */
int sn_segment_is_over(const sn_header *head);

/* Whether the name still leads to the segment's file, and not to another cache by now; if it does, take the
 * name away (under the lock). */
int sn_segment_linked(const sn_segment *segment);
void sn_segment_unlink(sn_segment *segment);

/*
 * Take the lock. 0; SN_BUSY when it was not had within `deadline_ms` (0: one try);
 * SN_E_FORKED; -errno. What another process did under the lock is seen: the flock
 * calls order memory, and a fence stands beside them for the compiler.
 * A `busy` word that is found set is the caller's to handle (sn_store_enter()).
 */
int sn_lock_enter(sn_segment *segment, int deadline_ms);
void sn_lock_leave(sn_segment *segment);

/* A row's proof of life. Under the lock. */
int sn_row_lock(sn_segment *segment, uint32_t row); /* 0, or SN_BUSY: someone holds it */
void sn_row_unlock(sn_segment *segment, uint32_t row);

/* Without the lock: count as dead, so that somebody reaps what the row holds. */
void sn_row_desert(sn_segment *segment, uint32_t row);
int sn_row_is_own(const sn_segment *segment, uint32_t row);   /* of this process */
int sn_row_is_alive(const sn_segment *segment, uint32_t row); /* a system call, but for an own one */

/* Whether any row of the segment behind `fd` has a living owner, other than through `fd` itself.
 * Asks the kernel alone: needs no lock, and trusts nothing that is stored in the segment. */
int sn_anyone_alive(int fd);

/* The same for one row. */
int sn_row_has_owner(int fd, uint32_t row);

#endif
