/*
 * sn_due.h -- which class of sample is due at each place, where classes must not displace each
 * other.
 *
 *      own order:   a1 b1 a2 a3 b2 ...      samples of class a and of class b
 *      served:      a7 b1 a1 a2 b2 ...      a7 came before its time: its place is a1's to fill,
 *                                           and what it displaced stays next in line of class a
 *
 * Samples change places only with samples of their own class, so each class is spread over the
 * epoch as the permutation spread it, whatever is served when. When classes change, what is
 * left of the order is divided anew.
 *
 * Lives in   private memory, on top of an sn_order, whose own round it replaces once begun.
 * Owns       the displaced samples, a queue a class.
 * Callers    the member's own thread.     Blocking  never.
 */
#ifndef SN_DUE_H
#define SN_DUE_H

#include <stddef.h>

#include "sn_order.h"

typedef struct {
    uint64_t class;
    uint32_t *samples; /* those displaced and not yet taken are at begin .. end - 1 */
    uint32_t begin, end, capacity;
} sn_due_queue;

typedef struct {
    uint64_t *before; /* what had been taken when this began: its places are not due */
    uint32_t *first;  /* samples due before the rest of the permutation */
    uint32_t n_first, at_first, place;
    sn_due_queue *queues;
    uint32_t n_queues, capacity;
} sn_due;

/* Divide what is left of the order anew; the first time takes over from the order's round.
 * 0; -ENOMEM: as it was. */
int sn_due_begin(sn_due *due, const sn_order *order);
void sn_due_free(sn_due *due);

static inline int sn_due_has_begun(const sn_due *due)
{
    return due->before != NULL;
}

/* The sample whose place is next; it may have been taken out of turn. SN_NONE: no place is left. */
uint32_t sn_due_next(sn_due *due, const sn_order *order);

/* The queue of a class; NULL without memory for it. Stays where it is until the next call. */
sn_due_queue *sn_due_of_class(sn_due *due, uint64_t class);

/* A sample's place has come and it is not taken. 0, -ENOMEM. */
int sn_due_push(sn_due_queue *queue, uint32_t sample);

/* The queue without what has been taken at its front: whether there is any left. */
int sn_due_trim(sn_due_queue *queue, const sn_order *order);

#endif
