/*
 * sn_copy_wait.h -- until when to wait for other jobs: for copies that these make, and before a draw, until they are near.
 *
 *   a place:  AWAITED --its copy is READY------------------------------------> DRAWN: served
 *                |  \--another member had not drawn it, and nothing else
 *                |      is left to do here------------------------------------> DRAWN: made here
 *                \--its copy failed, or its writer committed nothing for
 *                   sn_patience_ns() while all else of the batch was done-----> DRAWN: made here
 *
 * Preparers never wait for a copy: they pass over places that are AWAITED. The iterator's thread checks, when it draws
 * and while it waits for a batch. Reading a slot's state takes no lock: the slot is held.
 *
 * How long a wait may get. It begins when nothing of the batch is left but places whose copies are being written. Each
 * writer has a clock, which begins anew when it commits one of these copies. When the clock says that the patience is
 * over, the writer is blamed: all places that await it are made here at once, and nothing more is awaited from it until
 * it draws again (member/sn_exact_share.h). So writers that were killed, or stopped, cost one patience, once: at most
 * SN_MOST_PATIENCE_NS, unless one preparation takes more than half of that; and SN_LEAST_PATIENCE_NS for each that
 * takes over from another that did not come. One that is slow is waited for as long as it goes on.
 *
 * Lives in   private memory of the iterator.
 * Callers    the iterator's thread.
 * Blocking   sn_copy_wait_batch() and sn_copy_wait_turn() up to their time-outs, the first also 10 ms for the lock where it checks
 *            again.
 */
#ifndef SN_COPY_WAIT_H
#define SN_COPY_WAIT_H

#include "sn_pool.h"

#define SN_LEAST_PATIENCE_NS 20000000u
#define SN_MOST_PATIENCE_NS 100000000u

typedef struct {
    sn_batch *first, *last;         /* with places that are AWAITED, in the order in which they were drawn */
    uint64_t since_ns[SN_MAX_ROWS]; /* the clock of who writes: when it began; before the wait did, it does not count */
    uint64_t before_draw_ns;        /* that the member has waited since its last draw */
} sn_copy_wait;

/* How long to wait for a writer that commits nothing: four preparations, within limits; but two of them if these take
 * longer than the upper limit. `mean_ns`: of one, here. */
uint64_t sn_patience_ns(uint64_t mean_ns);

/* Wait until the member may draw (member/sn_pacing.h). 0: it may. SN_BUSY: not within `timeout_ms`, or a signal has
 * interrupted the wait: ask again. With 0 it checks, and does not wait. */
int sn_copy_wait_turn(sn_copy_wait *await, sn_pool *pool, sn_member *member, int timeout_ms);

/* A batch is about to be drawn; it was drawn, and is to be submitted after this. */
void sn_copy_wait_begin(sn_copy_wait *await, sn_member *member, sn_batch *batch);
void sn_copy_wait_add(sn_copy_wait *await, sn_batch *batch);

/* A batch is dropped, or complete. */
void sn_copy_wait_forget(sn_copy_wait *await, sn_batch *batch);

/* Poll for copies that have come, before a draw. */
void sn_copy_wait_poll(sn_copy_wait *await, sn_pool *pool, sn_member *member);

/* As sn_pool_wait(), for a batch of which places may be AWAITED. */
int sn_copy_wait_batch(sn_copy_wait *await, sn_pool *pool, sn_member *member, sn_batch *batch, int timeout_ms);

#endif
