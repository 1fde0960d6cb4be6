/*
 * sn_exact_share.h -- which of several members that need the same copies makes which of them.
 *
 * For members whose copies are exact: whoever makes a copy, its bytes are the same. They come to their samples in the
 * same order, often within a millisecond of each other. If each searched for a copy and made it where there is none, all
 * would make all of them at the same time. Therefore they divide the samples by hash:
 *
 *   a sample is drawn:   a copy is there ------------> served
 *                        a copy is being written ----> SN_AWAITS_COPY: held, and served once it is READY
 *                        a peer is its owner --------> SN_AWAITS_PEER: nothing is held, and it still counts as wanted
 *                        else -----------------------> made here, staged for the others
 *
 *   checked again:       SN_AWAITS_PEER --> the first three, or made here if there is nothing else left to make
 *                        SN_AWAITS_COPY --> given up if its writer failed, left, or is late: then as if newly drawn
 *
 * A *peer* is a member of another job whose order has the same name, and that has drawn nearly as much of it. The
 * *owner* of a sample is who has the highest hash of (sample, row) of this member and those peers that lack the sample.
 * If a member leaves, only its own samples get other owners. A peer is *late* from the time when somebody waited for
 * it in vain (sn_peers_blame()) until it draws again.
 *
 * With several hosts each host divides all samples among its own members so. What a member makes may have another host as
 * its owner (base/sn_rendezvous.h): then it asks that host for the copy first.
 *
 * Who may wait for whom. Only SN_AWAITS_COPY is ever waited for: a slot that its writer has reserved, and that the
 * writer makes without waiting for anybody. So no two members wait for each other. The wait is bounded by the caller
 * (pool/sn_copy_wait.h). What SN_AWAITS_PEER stands for is made here before anybody waits. No member of the peers need
 * therefore be alive, fast, or of the same opinion about who owns what: opinions only decide how even the work is.
 *
 * Lives in   private memory of its member; reads rows and seen bits.
 * Callers    the lock holder; sn_peers_blame() the member's thread.
 * Blocking   never.
 * Crash      the row of a dead writer is reaped: then it is no peer, and its slots are given up.
 */
#ifndef SN_EXACT_SHARE_H
#define SN_EXACT_SHARE_H

#include "../base/sn_rendezvous.h"
#include "../draw/sn_order.h"
#include "../store/sn_serve.h"

typedef struct {
    uint32_t rows[SN_MAX_ROWS], n; /* the peers, in this critical section */
    struct {
        uint32_t generation, drawn; /* as it was when somebody waited in vain; generation 0: it is not late */
    } late[SN_MAX_ROWS];
    sn_rendezvous hosts;     /* that make the same copies; n 0: this one is alone */
    uint32_t expected_until; /* so much of its order is drawn: until then others of its pipeline are expected */
} sn_peers;

/* A name of the order in which a member comes to its samples; never 0. */
uint32_t sn_order_name(const sn_order *order, uint64_t seed, uint32_t epoch);

/* Find the peers of a client's row that are no more than `window` places behind it. */
void sn_peers_find(sn_peers *peers, const sn_client *client, uint32_t window);

/* Somebody waited in vain for the member in this row. */
void sn_peers_blame(sn_peers *peers, const sn_segment *segment, uint32_t row);

/* The samples that are made here if no copy is there or on its way. */
enum sn_makes { SN_MAKES_NOTHING, SN_MAKES_OWN, SN_MAKES_ALL };

/* Serve a cleared place. `is_source_wanted`: search for a kept payload to make it from. Answers whether the sample is
 * served or awaited as SN_AWAITS_COPY, or this client's to make: then its member wants no copy of it any more. */
int sn_exact_share_serve(sn_peers *peers, sn_client *client, uint32_t sample, enum sn_makes makes, int is_source_wanted,
                         sn_item *item);

/* Check again what a place awaits. `item` is as sn_exact_share_serve() left it; answers the same. The ledger line of what
 * it no longer needs is in *given_up, for the caller to be done with; else that is SN_NONE. */
int sn_exact_share_again(sn_peers *peers, sn_client *client, enum sn_makes makes, sn_item *item, uint32_t *given_up);

#endif
