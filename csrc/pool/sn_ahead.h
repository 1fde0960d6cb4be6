/*
 * sn_ahead.h -- the files that readers have read before a preparer wants them, and how many to read at a time.
 *
 *   place --began()--> being read --done()--> read ahead, in order --take()--> a preparer's --keep_spare()--> buffer, used again
 *                                                                                 |
 *              how many readers <---------------- means of a place <--choose()----+
 *
 * Lives in   the pool.
 * Callers    the pool's threads, and the iterator's.
 * Ordering   the pool's mutex is held in every call.
 */
#ifndef SN_AHEAD_H
#define SN_AHEAD_H

#include <stdint.h>

#include "sn_batch.h"

#define SN_MOST_READERS 64  /* files that are read ahead at a time: 3,000 a second where each takes 20 ms */
#define SN_MOST_SPARES 128  /* buffers for files, kept for the next */
#define SN_FIRST_FETCHES 64 /* at a time, before anything is known of them; and where the waiting thread prepares */
#define SN_LEAST_FETCHES 4  /* at a time: one that is late must not hold up all */

typedef struct {
    sn_place *first, *last;         /* read ahead, and not claimed yet */
    uint32_t n, reading;            /* files; and of external containers requests that are under way */
    double bytes;                   /* of those n files */
    uint32_t readers, most_readers; /* that may read at a time */
    uint32_t least_readers;         /* of external containers, which only readers read */
    double read_ns, busy_ns;        /* means of a place: its share of what storage takes, preparing takes */
    double awaited_ns;              /* the mean time that a file is under way: several may be at a time */
    double file_bytes;              /* the mean of a file */
    double together;                /* the mean of a request: files that it brings; 0: none has come */
    uint32_t hosts_asked;           /* other hosts are asked for files: keep buffers for so many more */
    sn_file spares[SN_MOST_SPARES];
    uint32_t n_spares;
} sn_ahead;

void sn_ahead_init(sn_ahead *ahead);
void sn_ahead_free(sn_ahead *ahead);

/* Whether one more file may be read, or one more request be made, for so many preparers. `requested`: bytes that requests
 * under way will bring; files that are being read now are counted here. */
int sn_ahead_may_read(const sn_ahead *ahead, uint32_t preparers, uint64_t requested);

/* Containers are external: there are readers from the beginning, and always. */
void sn_ahead_fetches(sn_ahead *ahead);

/* A reader has taken a place. */
void sn_ahead_began(sn_ahead *ahead);

/* A buffer for a file, or an empty one. */
sn_file sn_ahead_spare(sn_ahead *ahead);

/* The reader, or the request, has ended. `rc` is sn_read_ahead()'s. Its places are to be added, or abandoned. */
void sn_ahead_ended(sn_ahead *ahead, int rc);

/* A request has brought so many files. */
void sn_ahead_brought(sn_ahead *ahead, uint32_t files);

/* For how many files a thread asks other hosts at a time. */
uint32_t sn_ahead_at_once(const sn_ahead *ahead);

/* Whether so many preparers are about to run out of files, with those that are under way; and there is room for those that
 * other hosts may have. */
int sn_ahead_may_ask(const sn_ahead *ahead, uint32_t preparers);

/* A file of so many bytes has come. */
void sn_ahead_saw(sn_ahead *ahead, size_t bytes);

/* A file is read. */
void sn_ahead_add(sn_ahead *ahead, sn_place *place);

/* A preparer, or whoever drops its batch, takes over one that was added. */
void sn_ahead_take(sn_ahead *ahead, sn_place *place);

/* After a place that is prepared: choose how many files to read at a time. That took `busy_ns` without reading. */
void sn_ahead_choose(sn_ahead *ahead, const sn_place *place, uint64_t busy_ns, uint32_t preparers);

/* The buffer of a file is used again, or freed. */
void sn_ahead_keep_spare(sn_ahead *ahead, sn_file *file);

#endif
