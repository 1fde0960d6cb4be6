/*
 * sn_remote_batch.h -- asks other hosts for files and for copies, before storage is asked.
 *
 *   gather --> ask, and wait                                  --> the file of a place, or ahead --> a preparer
 *         \--> ask, prepare other places, take the answers  --/
 *
 * A thread asks for several places at once: that costs a server, and the thread, less than asking for one by one. Where it
 * can, it asks before it prepares a picture, and takes the answers after some more. Then it does not wait. The places that it
 * asked for are its own until it has taken the answers.
 *
 * Lives in   private memory.
 * Callers    sn_pool.c and sn_readers.c, with the pool's mutex, which is not held while other hosts are asked.
 * Blocking   as sn_remote.h says, with the exception of sn_pool_ask_ahead(), which only sends.
 * Ordering   the pool's mutex.
 * Errors     none: a place that other hosts do not have is read from storage.
 */
#ifndef SN_REMOTE_BATCH_H
#define SN_REMOTE_BATCH_H

#include "sn_threads.h"

/* Whether another host is to be asked for the copy of a place. Such a place is left for later: the longer the other host
 * has, the likelier its copy is there. Where containers are external, fetchers ask, and they bring only files. A place that
 * is checked needs its file: a copy does not say whether what is kept here is right. */
static inline int sn_batch_item_wants_copy(const sn_batch_item *place)
{
    int may_ask = !place->batch->context->is_external || sn_batch_item_needs_file(place);

    return place->item.role == SN_ASKS_FOR_COPY && may_ask && !place->check && !place->skips_remote;
}

/* The first place that is DRAWN and wants a copy; NULL: there is none. The mutex is held. */
sn_batch_item *sn_pool_first_wanting(sn_pool *pool);

/* Whether a place that wants a copy comes before what else is to be done, of which `next` is the earliest batch: it waits
 * for the others of its batch and of the one behind it. */
static inline int sn_batch_item_is_due(const sn_batch_item *wanting, const sn_batch *next)
{
    return next->number > wanting->batch->number + 1;
}

/* The request for a place, into memory that was used before. */
sn_asked sn_pool_asked_of(sn_pool *pool, const sn_batch_item *place);

/* Before a place is prepared or read: if the context names other hosts, ask them for what it needs, and for the files of the
 * places that come next, which are then read ahead. The mutex is held, but not while the hosts are asked; the place is this
 * thread's. How long that took, in nanoseconds. */
uint64_t sn_pool_ask_hosts(sn_pool *pool, sn_batch_item *place);

/* Before a place is prepared: if the preparers are about to run out of files, ask for some. They come while this thread
 * prepares, and no thread waits for them. The mutex is held, but not while commands are sent. */
void sn_pool_ask_ahead(sn_pool *pool, sn_batch_item *place, sn_asking *asking);

/* After a place is prepared: whether what was asked for is to be taken now. The later, the likelier it has come; but the
 * preparers must not run out of files, and a batch may need what this thread alone can take. The mutex is held. */
int sn_pool_is_due(const sn_pool *pool, const sn_asking *asking);

/* Take what was asked for, and wait for what has not come. The mutex is held, but not meanwhile. */
void sn_pool_take_ahead(sn_pool *pool, sn_asking *asking);

#endif
