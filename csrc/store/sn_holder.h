/*
 * sn_holder.h -- the ledger lines of one row, from its owner's side.
 *
 *   free --hold--> names a slot --done--> to let go of --(next critical section)--> free
 *                       |
 *                       +--claimed by a worker: found empty, and free
 *
 * Lives in   private memory of the row's owner.
 * Callers    the lock holder; sn_holder_done() the owner's thread, without the lock.
 * Owns       its two lists of line numbers.
 * Crash      the lines are in the segment; who reaps the row empties them.
 */
#ifndef SN_HOLDER_H
#define SN_HOLDER_H

#include "../shm/sn_segment.h"

typedef struct {
    sn_segment *segment;
    uint32_t row;
    uint32_t *free_entries, n_free;
    uint32_t *done_entries, n_done;
} sn_holder;

/* Room for the lines of one row of `segment`: 0, -ENOMEM. */
int sn_holder_init(sn_holder *holder, sn_segment *segment);
void sn_holder_free(sn_holder *holder);

/* Hold a slot; SN_NONE when every line is taken, and then the slot is not held. */
uint32_t sn_holder_hold(sn_holder *holder, uint32_t slot);

/* This line's slot is not needed any more (SN_NONE: there is none). */
void sn_holder_done(sn_holder *holder, uint32_t entry);

/* Empty the lines that are done with. */
void sn_holder_let_go(sn_holder *holder);

#endif
