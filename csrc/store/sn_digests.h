/*
 * sn_digests.h -- what each sample came to when it was made first: by this, jobs find out whether they mean the same.
 *
 *   a process makes sample i --> the digest of its bytes meets the word i of the table
 *                                  no word: it becomes the word | equal: agreed | another: who is right is not known
 *
 * Names of datasets and pipelines are fingerprints, and a fingerprint is a guess about code. Therefore each process
 * that makes a sample by the user's code compares it. A table is of one kind of payload (a dataset's ENCODED, DECODED
 * of a pipeline, AUGMENTED of one). It has a word of 64 bits for each sample:
 *
 *   | digest 48 | is fixed 1 | has agreed 1 | maker: generation of the job's bit 8, the job's bit 6 |     0: no word yet
 *
 * A digest is *fixed* if the sample was made with the random generators in states that are named by the sample.
 * Others are of samples that are thought to draw no random numbers. A word *has agreed* if another job's digest was
 * equal to it. Each word counts once for its maker, and once for each other job.
 *
 * A job's bit is given out again when the job has left. Its generation steps each time. Therefore a word of a job that
 * has gone is never taken for the word of one that is here, but after 256 generations. Then two jobs do not compare
 * what one of the two has made, which loses evidence and nothing else.
 *
 * Lives in   the segment: the tables' records in the header, the words behind the row areas; and marks, a bit a
 *            sample, in memory that the processes of one job share.
 * Callers    sn_digests_open(): any thread, without the lock. Others: any thread of a process that has opened the
 *            table and has its row still.
 * Blocking   sn_digests_open(): up to 100 ms for the lock, twice; it clears 8 bytes a sample without it.
 * Ordering   a word is one store and says all of itself. Nothing else depends on it, so relaxed will do. The record of
 *            a table is cleared first and named last, under the lock, after its words have memory and are cleared.
 *            A table is given to another kind only if no living process has it open. Therefore no digest of one kind
 *            is ever met by one of another.
 * Crash      a word is there or is not. A table whose taker died has no kind, and the next who takes it clears it.
 *            A rebuild leaves the words alone, and strikes the dead out of the users (sn_rebuild.h).
 */
#ifndef SN_DIGESTS_H
#define SN_DIGESTS_H

#include "../shm/sn_segment.h"

/* A process's hold on one table. */
typedef struct {
    sn_segment *segment;
    uint32_t table, row;     /* of the process */
    _Atomic uint64_t *marks; /* of its job: samples that it made itself, and that agreed */
} sn_digests;

enum sn_met {
    SN_DIGEST_NEW = 0,     /* no job had made it */
    SN_DIGEST_OWN = 1,     /* this job had, and it was the same */
    SN_DIGEST_EQUAL = 2,   /* another job had, and it was the same */
    SN_DIGEST_CHANGED = 3, /* this job had, and it differed */
    SN_DIGEST_DIFFERS = 4  /* another job had, and it differed */
};

/*
 * Find the table of `kind`, or begin it: for payloads of `form`, which `shape` describes to people. `digests->segment`,
 * `row` and `marks` are the caller's to set; `table` is answered.
 * 0; what sn_store_enter() answers; SN_E_RECORDS: there is no memory for it, or too many kinds are in use.
 */
int sn_digests_open(sn_digests *digests, uint64_t kind, enum sn_form form, const char *shape);

/* This process has made a sample, whose bytes have this digest. Where that agrees, the sample is marked, and counted if
 * it agrees with another job's for the first time. `is_fixed`: see above. `draws`: it is known to have drawn random
 * numbers, so that a digest that is not fixed says nothing; it takes the place of such a one. */
enum sn_met sn_digests_meet(const sn_digests *digests, uint32_t sample, uint64_t digest, int is_fixed, int draws);

/* Whether the table has this digest of a sample that this job has made itself, and that agreed. */
int sn_digests_vouch(const sn_digests *digests, uint32_t sample, uint64_t digest);

/* Whether this job has made the sample itself, and it agreed. */
int sn_digests_is_marked(const sn_digests *digests, uint32_t sample);

/* Whether processes of more than one job have had the table open. */
int sn_digests_have_company(const sn_digests *digests);

/* How many samples this job and another have made, which were equal. */
uint32_t sn_digests_compared(const sn_digests *digests);

/* The same for a process that need not have opened the table, of this kind. */
uint32_t sn_digests_compared_of(const sn_segment *segment, uint32_t row, uint64_t kind);

/* The key of the job whose word a sample has, if it is here still; 0. */
uint64_t sn_digests_maker(const sn_digests *digests, uint32_t sample);

#endif
