/*
 * sn_fetches.h -- who is fetching which place: tickets, each good for one arrival.
 *
 *   place --add()--> a ticket, out of the pool --take()--> the place
 *                        |
 *                        +--forget()--> void: its place was dropped
 *
 * A ticket is a number that never comes again. Therefore one that comes back after its place has gone finds nothing,
 * and no memory is kept for it.
 *
 * Lives in   the pool.
 * Callers    fetchers, and the iterator's thread.
 * Ordering   the pool's mutex is held in every call.
 */
#ifndef SN_FETCHES_H
#define SN_FETCHES_H

#include <stdint.h>

#include "sn_ahead.h"
#include "sn_batch.h"

/* What a fetcher is to bring. */
typedef struct {
    uint64_t ticket, offset;
    uint32_t sample, container, length;
} sn_wanted;

typedef struct {
    struct {
        sn_place *place;
        uint64_t ticket, began_ns;
    } under_way[SN_MOST_READERS];
    uint32_t n;
    uint64_t given;
} sn_fetches;

/* There are fewer than SN_MOST_READERS: sn_ahead_may_read() has said so. */
sn_wanted sn_fetches_add(sn_fetches *fetches, sn_place *place, uint64_t now_ns);

/* The place of a ticket, which is void from now on, and when it was added; NULL: the ticket is void. */
sn_place *sn_fetches_take(sn_fetches *fetches, uint64_t ticket, uint64_t *began_ns);

/* Make a place's ticket void: whether it had one. */
int sn_fetches_forget(sn_fetches *fetches, const sn_place *place);

#endif
