/*
 * sn_member.h -- one iterator that draws batches: its order, its row, its held slots.
 *
 *   open --> draw --> (the pool prepares) --> done --> draw ... --> close
 *              |                                |
 *              +-- holds slots in its ledger    +-- lets go of them in the next draw
 *              |
 *              +-- or hands them over to a worker process: claims, see sn_worker.h
 *              |
 *              +-- or awaits what another job's member makes: checks again, see sn_exact_share.h
 *              |
 *              +-- or waits before a draw, for a member that is far behind: see sn_pacing.h
 *              |
 *              +-- or is given the samples, by a sampler of the user's: it has no order, and others expect it nowhere
 *
 * A member with a thread that hangs in its place is retired before it can be closed: its row, which its living
 * process proves alive, goes on holding the slots that the thread may still write, so nobody else is given them.
 *
 * A draw is one critical section for a whole batch. It serves, for each place, a staged copy
 * that another job has prepared (of those that this member can use, one that the fewest others
 * want), or else the next sample of its own order from the best form at hand; and reserves room where
 * what it prepares is of use to others.
 *
 * Lives in   private memory. Its taken bits are the truth of what this epoch has drawn; the
 *            seen bits in its row mirror them for others.
 * Callers    one thread at a time: the iterator's.
 * Blocking   up to SN_LOCK_DEADLINE_MS for the lock. Past it the batch is drawn privately, and
 *            from then on the lock is only tried, until it is had again.
 * Crash      its row is reaped; what it held is freed.
 */
#ifndef SN_MEMBER_H
#define SN_MEMBER_H

#include "../base/sn_rendezvous.h"
#include "../draw/sn_order.h"
#include "../store/sn_serve.h"

typedef struct sn_member sn_member;

typedef struct {
    sn_epoch epoch;
    uint64_t job_key;
    sn_client client;      /* without a holder, for it has its own; copy_bytes 0: learned from those who make copies */
    uint32_t process_row;  /* its process's own, which shows the others that it exchanges */
    uint32_t in_flight;    /* samples drawn and not yet delivered, at most; the epoch's places if these are fewer */
    uint32_t wanted_alone; /* places that a draw takes while no other job draws; 0: as many as it is asked */
    uint8_t substitutes;   /* whether the order is Seneca's to choose */
    uint8_t hands_over;    /* workers prepare what it draws: kept payloads are theirs to find */
    uint64_t family;       /* of exact copies: names them in all epochs. Where another process has published that it
                              takes part in them, its member is expected, and the first copies are staged for it */
} sn_member_options;

/* The claim with which a worker takes over a slot of a draw: a copy to read, or room to write one. */
typedef struct {
    uint32_t sample;
    uint32_t slot; /* SN_NONE: nothing is held for this sample */
    uint32_t generation, entry;
    uint32_t awaited; /* enum sn_awaited */
} sn_claim;

/* A member with a row of its own. `segment` NULL, or no row to be had: a private member,
 * which draws the same epoch without the cache. 0, -ENOMEM, -EINVAL; *joined says which: 0 it has a row,
 * SN_MISS there is no segment, else why none was to be had: SN_BUSY, or what sn_row_claim() answered. */
int sn_member_open(sn_segment *segment, const sn_member_options *options, sn_member **out, int *joined);

/* Draw up to `wanted` places, into room for options.wanted_alone if that is more; *drawn says how many there
 * were (0: the epoch is drawn through). Answers 0, or SN_BUSY when the batch was drawn privately; offers are
 * answered either way. */
int sn_member_draw(sn_member *member, uint32_t wanted, sn_item *items, uint32_t *drawn, sn_offer *offers,
                   uint32_t n_offers);

/* The same of samples that the caller names, in any order and as often as it likes, by a member that has no places of
 * its own. Each exists in the dataset. Copies of others serve them. Copies are staged for others only if the member
 * `substitutes`: its order is uniformly random. Of another order, others would come to its samples in that order. */
int sn_member_draw_given(sn_member *member, const uint32_t *samples, uint32_t n, sn_item *items, sn_offer *offers,
                         uint32_t n_offers);

/* How many places it has come to, of all epochs. */
uint64_t sn_member_place(const sn_member *member);

/* These other hosts make the same copies from now on, of a member whose copies are exact. */
void sn_member_near(sn_member *member, const sn_rendezvous *near);

/* Check again what these places await, of a member whose copies are exact: as they were drawn, and not done.
 * `takes_over`: what nobody makes yet is this member's to make. `blamed`: a bit for each row that was waited for in
 * vain. Where a place awaits nothing any more, it is served or made as its item then says.
 *
 * 0; SN_BUSY without the lock: with `takes_over`, or if its peer is blamed, a place is made from storage and for nobody
 * else; the others are as they were. */
int sn_member_check_awaited(sn_member *member, sn_item *const *items, uint32_t n_items, int takes_over,
                            const uint64_t blamed[SN_MAX_ROWS / 64]);

/* Whether it may draw now, or is to wait for a member that is far behind in the same order: see sn_pacing.h. Asked again
 * and again; `patience_ns`: while that one finishes nothing. Takes no lock. */
int sn_member_may_draw(sn_member *member, uint64_t patience_ns, uint64_t now_ns);

/* Whether it waits for one so far, so that it draws slowly. */
int sn_member_waits_for_laggard(const sn_member *member);

/* The training loop has taken a batch, which it has waited for so long. `slowly`: it was drawn so. */
void sn_member_taken(sn_member *member, uint32_t samples, uint64_t waited_ns, uint64_t now_ns, int slowly);

/* Where to count the places that it has finished, for those that wait for it; NULL: nobody does. */
_Atomic uint32_t *sn_member_progress(const sn_member *member);

/* The claims to what a draw holds, of a member that hands over; in the order of `items`. How many of the claims name a
 * slot. */
uint32_t sn_member_claims(const sn_member *member, const sn_item *items, uint32_t n_items, sn_claim *claims);

/* Its row, which a claim names; SN_NONE for a private member. */
uint32_t sn_member_row(const sn_member *member, uint32_t *generation);

/* Room that its copies take as far as is known; 0: not known. */
uint32_t sn_member_copy_bytes(const sn_member *member);

/* The pool is done with these: every reserved slot is committed or aborted, every pinned
 * payload read. Let go of in the next draw. */
void sn_member_done(sn_member *member, const sn_item *items, uint32_t n_items);
void sn_member_offer_done(sn_member *member, const sn_offer *offer);

uint32_t sn_member_left(const sn_member *member);

/* As sn_order_coming(), of the member's own order. */
uint32_t sn_member_coming(const sn_member *member, uint32_t *samples, uint32_t n);

/* Whether it expects members of other jobs, which will want what it makes now. */
int sn_member_expects(const sn_member *member);

/* How many samples it drew out of turn, for the sake of what other jobs have or need. */
uint32_t sn_member_out_of_turn(const sn_member *member);

/* Draw no more and want nothing more, but hold what is not done: a thread that hangs may write there yet. What is
 * done is let go of. 0; SN_BUSY without the lock: copies wait for it in vain, until it is asked again or closed. */
int sn_member_retire(sn_member *member);

/* One closing section; then the row is free. No thread may use the member's slots any more. */
void sn_member_close(sn_member *member);

#endif
