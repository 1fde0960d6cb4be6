/*
 * sn_fetches.h -- who is fetching which places: tickets, each for one request and good for one arrival.
 *
 *   place --add()--> a ticket <--join()-- neighbours of it in its container
 *                        |
 *                        +--find(), take()--> its places, and then end()
 *                        |
 *                        +--forget()--> one place fewer: it was dropped. Void, when there are none left.
 *
 * A ticket is a number that never comes again. Therefore one that comes back after its places have gone finds nothing,
 * and no memory is kept for it.
 *
 * Neighbours are in one container. One request brings them, and the bytes between them too. These gaps are 64 KiB of
 * a request at the most, because unwanted bytes cost time as well.
 *
 * Lives in   the pool. A request may move when another one ends: find it again after the mutex was released.
 * Callers    fetchers, and the iterator's thread.
 * Ordering   the pool's mutex is held in every call.
 */
#ifndef SN_FETCHES_H
#define SN_FETCHES_H

#include <stdint.h>

#include "sn_readahead.h"
#include "sn_batch.h"

#define SN_MOST_JOINED 64 /* places of a request */
#define SN_MOST_JOINED_BYTES                                                                                           \
    (1u << 20)                        /* of a request for several places: one more costs as much as an answer's wait */
#define SN_MOST_GAP_BYTES (64u << 10) /* of a request */

/* A request to a fetcher: a range of a container, and the samples whose pieces are in it. */
typedef struct {
    uint64_t ticket, offset;
    uint32_t container, length, n;
    uint32_t samples[SN_MOST_JOINED];
} sn_wanted;

typedef struct {
    sn_wanted wanted;
    sn_batch_item *places[SN_MOST_JOINED]; /* of the samples; NULL: it was dropped, or has its bytes */
    uint32_t gap_bytes;
    uint64_t began_ns;
} sn_request;

typedef struct {
    sn_request under_way[SN_MOST_READERS];
    uint32_t n;
    uint64_t given;
    uint64_t bytes; /* of those n */
} sn_fetches;

/* A request of one place. There are fewer than SN_MOST_READERS: sn_readahead_may_read() has said so. */
sn_request *sn_fetches_add(sn_fetches *fetches, sn_batch_item *place, uint64_t now_ns);

/* Have the request bring this place too, if it is a neighbour of those that it brings: whether it is. */
int sn_fetches_join(sn_fetches *fetches, sn_request *request, sn_batch_item *place);

/* The request of a ticket; NULL: the ticket is void. */
sn_request *sn_fetches_find(sn_fetches *fetches, uint64_t ticket);

/* The place of a request's sample, which the request has no longer; NULL: it was dropped. */
sn_batch_item *sn_fetches_take(sn_request *request, uint32_t i);

/* A request is over, and its ticket void. */
void sn_fetches_end(sn_fetches *fetches, sn_request *request);

/* Take a place out of its request: whether it was in one. `is_over`: it was the last of that request, whose ticket is void. */
int sn_fetches_forget(sn_fetches *fetches, const sn_batch_item *place, int *is_over);

#endif
