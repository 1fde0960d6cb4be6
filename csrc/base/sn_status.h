/*
 * sn_status.h -- what a function answers.
 *
 *      > 0   an answer that is not a failure (a miss, a full stage)
 *        0   done
 *      < 0   a failure: one of ours (below -4096), or -errno
 *
 * Lives in   every folder.
 * Errors     translated once, in seneca/_core, into an exception that says what to change.
 */
#ifndef SN_STATUS_H
#define SN_STATUS_H

enum sn_status {
    SN_OK = 0,

    /* Answers. */
    SN_MISS = 1, /* not there */
    SN_FULL = 2, /* no room, and nothing that may be given up for it */
    SN_BUSY = 3, /* not within the deadline: go on without, or ask again */

    /* Failures: the segment. */
    SN_E_MAGIC = -5001,     /* not a segment of ours */
    SN_E_VERSION = -5002,   /* another layout version */
    SN_E_CORRUPT = -5003,   /* the header contradicts itself or the file */
    SN_E_ABANDONED = -5004, /* given up after three failed rebuilds */
    SN_E_GONE = -5005,      /* unlinked: newcomers make another */
    SN_E_ROWS_FULL = -5006, /* every row has a living owner */
    SN_E_JOBS_FULL = -5007, /* 64 jobs are attached */
    SN_E_FORKED = -5008,    /* the handle belongs to the parent process */
    SN_E_MISMATCH = -5009,  /* the segment is of another dataset or size */
    SN_E_CLOSED = -5010,    /* the handle was closed */
    SN_E_OWNER = -5011,     /* the object belongs to another user, or others may open it */
    SN_E_RECORDS = -5012,   /* no memory for the records of one more of its users */
    SN_E_MAPPING = -5013,   /* no address space for its mapping in this process */

    /* Failures: the pictures. */
    SN_E_FOR_PILLOW = -5101, /* another format, or rare in its own: Pillow decodes it, or says what is wrong */
    SN_E_DECODE = -5102,     /* the file is damaged; the codec holds the reason */
    SN_E_TOO_LARGE = -5103,  /* more pixels or memory than the limit */
    SN_E_PLAN = -5104        /* the pipeline does not fit the picture or is malformed */
};

#endif
