/*
 * sn_worker.h -- prepares samples that it is given: a worker process of a job, or an iterator
 * whose order is not Seneca's.
 *
 *   a member draws      --claims-->  worker: begin --> (reads, decodes, writes) --> done --> begin
 *   in its own process                 |
 *   a sequence of the   --samples-->   +-- claimed: what the member held is held here now
 *   user's                             +-- else looked up: a staged copy, kept payloads
 *
 * A claim takes a slot over: it is first held in the worker's ledger and then no more in the
 * member's, so the slot is held at every instant by somebody who lives, and a worker whose
 * member was reaped finds that the claim does not hold and prepares privately.
 *
 * A claim of an exact copy may be of one that another job makes (sn_claim.awaited). The worker prepares all else, and
 * then checks again, until it goes on by itself: see sn_exact_share.h for what it may wait for.
 *
 * Lives in   private memory; its row is the process's own, which several workers may share.
 * Callers    one thread at a time a worker.
 * Blocking   as a draw: sn_worker_begin() up to 100 ms; past it everything comes from storage.
 * Crash      the process's row is reaped; what its workers held is freed.
 */
#ifndef SN_WORKER_H
#define SN_WORKER_H

#include "sn_member.h"

typedef struct sn_worker sn_worker;

/* A worker for this client. Its holder is the process's own row's and outlives the worker; NULL: it looks nothing up.
 * 0; -ENOMEM, and NULL in *out. */
int sn_worker_open(const sn_client *client, sn_worker **out);

/* Hold what serves these samples. `row` and `row_generation` are the member's that made the
 * claims; SN_NONE: there are none, only claims[i].sample counts. Where these samples continue a sequence, at equal
 * distances, their copies are in order. 0, or SN_BUSY: without the lock, everything comes from storage; offers are
 * answered either way. */
int sn_worker_begin(sn_worker *worker, uint32_t row, uint32_t row_generation, const sn_claim *claims, uint32_t n_claims,
                    sn_item *items, sn_offer *offers, uint32_t n_offers);

/* The copies of another seed and epoch come next. */
void sn_worker_name_copies(sn_worker *worker, uint64_t pipeline);

/* The job has asked for the dataset's files again, and this names them as they are now: see sn_client. */
void sn_worker_name_files(sn_worker *worker, uint32_t files_name);

/* Check again what those of these places await that await anything: as sn_member_check_awaited(). What is settled is
 * also reported to the member in this row, so that it wants no copy any more. */
int sn_worker_check_awaited(sn_worker *worker, uint32_t row, uint32_t row_generation, sn_item *items, uint32_t n_items,
                            int takes_over, const uint64_t blamed[SN_MAX_ROWS / 64]);

/* As a member's. -ENOMEM: they stay held until the worker is closed. */
int sn_worker_done(sn_worker *worker, const sn_item *items, uint32_t n_items);
int sn_worker_offer_done(sn_worker *worker, const sn_offer *offer);

/* A copy took this much room: from now on that is asked for. */
void sn_worker_learn(sn_worker *worker, uint32_t copy_bytes);

/* Let go of everything that is done with. No thread may use the worker's slots any more. */
void sn_worker_close(sn_worker *worker);

#endif
