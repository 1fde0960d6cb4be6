/*
 * sn_order.h -- the order in which one member would take its samples if it were alone.
 *
 *      permutation:  7 2 9 4 | 1 8 0 | ...      deferred:  2 4
 *                            ^ cursor           (others were preparing them)
 *                              -------> ahead: found before the draw, without the lock
 *
 * A round offers candidates, the deferred first; the caller takes or defers each. What is
 * taken out of turn (a substitute) is skipped when its turn comes, so a displaced sample
 * simply stays next in line, and every sample is taken exactly once.
 *
 * Late in an epoch that takes most samples out of turn, many places would have to be passed for each sample that is
 * left. Then what is left may be listed, and the list, in a random order of its own, takes the place of the rest of
 * the permutation.
 *
 * Lives in   private memory: it goes on when the segment cannot be had.
 * Owns       the taken bits, by sample (what is not this member's counts as taken).
 * Callers    the member's own thread.     Blocking  never.
 */
#ifndef SN_ORDER_H
#define SN_ORDER_H

#include <stdint.h>

#include "../base/sn_bits.h"
#include "../base/sn_rng.h"
#include "sn_perm.h"

typedef struct {
    sn_perm perm;
    uint32_t *samples; /* place -> sample; NULL: the whole dataset, place is sample */
    int fixed;         /* the samples as they are, not permuted */
    uint32_t n_samples;
    uint32_t cursor;
    uint32_t left;    /* samples not yet taken */
    uint32_t in_turn; /* the candidate that comes as the permutation has it; SN_NONE: it was deferred, or is taken */
    uint32_t out_of_turn; /* how many of the taken samples were not in turn */
    uint64_t *taken;
    uint32_t *rest, n_rest;     /* what was left when that was listed; NULL: not yet */
    sn_rng rng;                 /* for the order of these */
    struct sn_readahead *ahead; /* what was untaken of the places from the cursor, or of the rest, to `scanned` */
    uint32_t ahead_first, ahead_last, scanned;
    uint32_t *deferred;
    uint32_t read, kept, count, capacity;
} sn_order;

/* The arguments of an epoch. */
typedef struct {
    uint32_t n_samples;      /* of the dataset */
    const uint32_t *samples; /* the member's own, each once; NULL: all */
    uint32_t count;          /* how many these are */
    uint32_t places;         /* to be taken: samples behind them in the order are dropped (drop_last) */
    uint64_t seed;
    uint64_t own_seed; /* not 0: what the seed does not drop comes in a permutation of this one */
    uint32_t epoch;
    uint8_t fixed;         /* in the order given: no permutation */
    const uint64_t *taken; /* by sample: taken before, in an epoch that goes on; NULL: none */
} sn_epoch;

/* 0; -ENOMEM; -EINVAL for a sample that does not exist or comes twice. */
int sn_order_init(sn_order *order, const sn_epoch *epoch);
void sn_order_free(sn_order *order);

/* Between rounds, where the order may be any: list what is left if there are many places to pass for it. */
void sn_order_shorten(sn_order *order);

/* Find the next candidates, some `wanted` of them, and note them in `ahead`. */
void sn_order_fill_ahead(sn_order *order, uint32_t wanted);

/* The i-th candidate in `ahead`, the next one first; SN_NONE behind the last. It may be taken by now. */
uint32_t sn_order_ahead(const sn_order *order, uint32_t i);

/* Begin a round: the deferred are asked again. */
void sn_order_begin(sn_order *order);

/* The next candidate; SN_NONE when this round has none left. */
uint32_t sn_order_next(sn_order *order);

/* Not now. 0, or SN_FULL: no room to remember it, take it. */
int sn_order_defer(sn_order *order, uint32_t sample);

/* One that was deferred in this round, when there is nothing else; SN_NONE without one. */
uint32_t sn_order_force(sn_order *order);

/* The samples that come next if none is taken out of turn, `n` at the most, which stay where they are; how many. */
uint32_t sn_order_coming(const sn_order *order, uint32_t *samples, uint32_t n);

/* The sample at a place of the permutation. */
uint32_t sn_order_at(const sn_order *order, uint32_t place);

static inline void sn_order_take(sn_order *order, uint32_t sample)
{
    order->out_of_turn += sample != order->in_turn;
    sn_bit_set(order->taken, sample);
    order->left--;
}

static inline int sn_order_is_taken(const sn_order *order, uint32_t sample)
{
    return sn_bit_get(order->taken, sample);
}

#endif
