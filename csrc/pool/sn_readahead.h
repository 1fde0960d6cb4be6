/*
 * sn_readahead.h -- the files that readers have read before a preparer wants them, and how many to read at a time.
 *
 *   place --began()--> being read --done()--> read ahead, in order --take()--> a preparer's --keep_spare()--> buffer, used again
 *                                                                                 |
 *              how many readers <---------------- means of a place <--choose()----+
 *
 * Lives in   the pool.
 * Callers    the pool's threads, and the iterator's.
 * Ordering   the pool's mutex is held in every call.
 */
#ifndef SN_READAHEAD_H
#define SN_READAHEAD_H

#include <stdint.h>

#include "sn_batch.h"

#define SN_MOST_READERS 64  /* files that are read ahead at a time: 3,000 a second where each takes 20 ms */
#define SN_MOST_SPARES 128  /* buffers for files, kept for the next */
#define SN_FIRST_FETCHES 64 /* at a time, before anything is known of them; and where the waiting thread prepares */
#define SN_LEAST_FETCHES 4  /* at a time: one that is late must not hold up all */

typedef struct {
    sn_batch_item *first, *last;    /* read ahead, and not claimed yet */
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
} sn_readahead;

void sn_readahead_init(sn_readahead *ahead);
void sn_readahead_free(sn_readahead *ahead);

/* Whether one more file may be read, or one more request be made, for so many preparers. `requested`: bytes that requests
 * under way will bring; files that are being read now are counted here. */
int sn_readahead_may_read(const sn_readahead *ahead, uint32_t preparers, uint64_t requested);

/* Containers are external: there are readers from the beginning, and always. */
void sn_readahead_fetches(sn_readahead *ahead);

/* A reader has taken a place. */
void sn_readahead_began(sn_readahead *ahead);

/* A buffer for a file, or an empty one. */
sn_file sn_readahead_spare(sn_readahead *ahead);

/* The reader, or the request, has ended. `rc` is sn_read_ahead()'s. Its places are to be added, or abandoned. */
void sn_readahead_ended(sn_readahead *ahead, int rc);

/* A request has brought so many files. */
void sn_readahead_brought(sn_readahead *ahead, uint32_t files);

/* For how many files a thread asks other hosts at a time. */
uint32_t sn_readahead_at_once(const sn_readahead *ahead);

/* Whether so many preparers are about to run out of files, with those that are under way; and there is room for those that
 * other hosts may have. */
int sn_readahead_may_ask(const sn_readahead *ahead, uint32_t preparers);

/* A file of so many bytes has come. */
void sn_readahead_saw(sn_readahead *ahead, size_t bytes);

/* A file is read. */
void sn_readahead_add(sn_readahead *ahead, sn_batch_item *place);

/* A preparer, or whoever drops its batch, takes over one that was added. */
void sn_readahead_take(sn_readahead *ahead, sn_batch_item *place);

/* After a place that is prepared: choose how many files to read at a time. That took `busy_ns` without reading. */
void sn_readahead_choose(sn_readahead *ahead, const sn_batch_item *place, uint64_t busy_ns, uint32_t preparers);

/* The buffer of a file is used again, or freed. */
void sn_readahead_keep_spare(sn_readahead *ahead, sn_file *file);

#endif
