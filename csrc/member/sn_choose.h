/*
 * sn_choose.h -- which samples fill the places of a draw.
 *
 *   by class      where datasets overlap: a copy, or a sample, of the class that is due
 *   substitutes   staged copies that other jobs made, those first that the fewest want
 *   the poorest   what another job's member lacks too, where that one runs out of copies
 *   its own       the next samples of its own order, but those that are being prepared
 *
 * In this order, until all places are filled. Whatever is chosen is taken: from the order, and in the member's
 * seen bits. A member whose copies are exact fills all places with the next samples of its own order (sn_exact_share.h).
 *
 * Lives in   private memory of its member.
 * Callers    the lock holder.     Blocking  never.
 */
#ifndef SN_CHOOSE_H
#define SN_CHOOSE_H

#include "../base/sn_rng.h"
#include "../draw/sn_due.h"
#include "../draw/sn_order.h"
#include "../store/sn_serve.h"
#include "sn_exact_share.h"
#include "sn_subsets.h"

typedef struct {
    sn_client client; /* of the member's row */
    sn_order order;
    sn_due due;         /* begun where a member of its pipeline is on a subset */
    sn_subsets subsets; /* what its classes are made of */
    sn_peers peers;     /* where its copies are exact */
    sn_rng rng;
    uint32_t in_flight; /* samples drawn and not yet delivered, at most */
    uint32_t prepared;  /* of 65,536 samples, a mean over some 64 draws of this epoch: drawn to be prepared */
    uint8_t exchanges;  /* uses others' copies, in an order that is Seneca's to choose */
    uint8_t exchanged;  /* has served substitutes in this epoch, which so has another order than its permutation */
    uint8_t hands_over; /* to workers, who find kept payloads themselves */
} sn_chooser;

/* Fill `n` cleared places, no more than the order has left. */
void sn_choose(sn_chooser *chooser, uint32_t n, sn_item *items);

/* Check again what a place awaits, in a later section. */
void sn_choose_again(sn_chooser *chooser, int takes_over, sn_item *item);

/* How far behind a member whose copies are exact another may be to be its peer. */
uint32_t sn_choose_window(const sn_chooser *chooser);

void sn_chooser_free(sn_chooser *chooser);

#endif
