#define _GNU_SOURCE
#include "sn_order.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../base/sn_bits.h"
#include "../base/sn_prefetch.h"
#include "../base/sn_status.h"

#define NONE UINT32_MAX
#define HUGE_PAGE ((uint64_t)2 << 20)

/* More than are in preparation at any time on a host of some hundred cores; past it a member
 * prepares the sample itself, which is correct and only less shared. */
#define MAX_DEFERRED 65536u

/* Scanned at once: their taken bits are on their way from memory together. */
#define GROUP 128u
#define MAX_AHEAD 1024u /* a power of two */

typedef struct sn_readahead {
    uint32_t sample;
    uint32_t after; /* the cursor when it was offered */
} sn_readahead;

/* So many samples that are left may be listed, which takes some 5 ms, where so many times as many places are to be
 * passed. In a permutation that is a table that takes no time. */
#define MOST_REST (1u << 19)
#define SPARSE 8u

uint32_t sn_order_at(const sn_order *order, uint32_t place)
{
    uint32_t at = order->fixed ? place : sn_perm_at(&order->perm, place);
    return order->samples ? order->samples[at] : at;
}

static void take_all(sn_order *order, const uint64_t *taken)
{
    for (uint64_t sample = sn_bits_next(taken, 0, order->n_samples, 1); sample < order->n_samples;
         sample = sn_bits_next(taken, sample + 1, order->n_samples, 1))
        if (!sn_order_is_taken(order, (uint32_t)sample))
            sn_order_take(order, (uint32_t)sample);
}

/* The next draw would, but under the lock. */
static void pass_taken(sn_order *order)
{
    while (order->cursor < order->perm.n && sn_order_is_taken(order, sn_order_at(order, order->cursor)))
        order->cursor++;
    order->scanned = order->cursor;
}

/* Touch all pages now. A page that was only read maps the zero page, and its first write would fault during
 * a draw. In huge pages where there are some, as bits are met at random places. */
static uint64_t *zeroed(uint64_t words)
{
    uint64_t bytes = words * sizeof(uint64_t);
    uint64_t page = bytes < HUGE_PAGE / 2 ? 64 : HUGE_PAGE;
    uint64_t rounded = (bytes + page - 1) / page * page;
    uint64_t *bits = aligned_alloc(page, rounded);

    if (bits && page == HUGE_PAGE)
        madvise(bits, rounded, MADV_HUGEPAGE);
    if (bits)
        memset(bits, 0, bytes);
    return bits;
}

int sn_order_init(sn_order *order, const sn_epoch *epoch)
{
    uint32_t n = epoch->samples ? epoch->count : epoch->n_samples;
    int rc = -ENOMEM;

    memset(order, 0, sizeof *order);
    sn_rng_start(&order->rng, epoch->seed, 0, epoch->epoch, n, SN_STREAM_REST);
    order->n_samples = epoch->n_samples;
    order->in_turn = NONE;
    order->fixed = epoch->fixed;
    order->capacity = n < MAX_DEFERRED ? n : MAX_DEFERRED;
    order->taken = zeroed(sn_bits_words(epoch->n_samples) + 1);
    order->deferred = malloc((order->capacity ? order->capacity : 1) * sizeof *order->deferred);
    order->ahead = malloc(MAX_AHEAD * sizeof *order->ahead);
    if (!order->taken || !order->deferred || !order->ahead)
        goto out;
    rc = sn_perm_init(&order->perm, n, epoch->seed, epoch->epoch);
    if (rc != 0)
        goto out;

    if (epoch->samples) {
        rc = -ENOMEM;
        order->samples = malloc((n ? n : 1) * sizeof *order->samples);
        if (!order->samples)
            goto out;
        memcpy(order->samples, epoch->samples, n * sizeof *order->samples);
        sn_bits_fill(order->taken, 0, epoch->n_samples, 1);
        rc = -EINVAL;
        for (uint32_t i = 0; i < n; i++) {
            if (order->samples[i] >= epoch->n_samples || !sn_bit_get(order->taken, order->samples[i]))
                goto out;
            sn_bit_clear(order->taken, order->samples[i]);
        }
    }
    order->left = n;
    if (epoch->taken)
        take_all(order, epoch->taken);
    for (uint32_t place = n; order->left > epoch->places;) {
        uint32_t sample = sn_order_at(order, --place);
        if (!sn_order_is_taken(order, sample))
            sn_order_take(order, sample);
    }
    order->out_of_turn = 0;
    rc = 0;
    if (epoch->own_seed) {
        order->fixed = 0;
        sn_perm_free(&order->perm);
        rc = sn_perm_init(&order->perm, n, epoch->own_seed, epoch->epoch);
    }
    if (rc == 0 && epoch->taken)
        pass_taken(order);
out:
    if (rc != 0)
        sn_order_free(order);
    return rc;
}

void sn_order_free(sn_order *order)
{
    sn_perm_free(&order->perm);
    free(order->samples);
    free(order->taken);
    free(order->rest);
    free(order->deferred);
    free(order->ahead);
    memset(order, 0, sizeof *order);
}

/* Places that are not scanned yet. */
static uint32_t unscanned(const sn_order *order)
{
    return (order->rest ? order->n_rest : order->perm.n) - order->scanned;
}

static int is_sparse(const sn_order *order)
{
    uint32_t places = unscanned(order);
    return order->perm.n > SN_PERM_TABLE && order->left <= MOST_REST && places / SPARSE > order->left &&
           places > sn_bits_words(order->n_samples); /* which are scanned to list what is left */
}

/* Samples that are deferred, or in `ahead`, are listed too, and will be met once more. Where there is no memory for a
 * list the places are passed one by one. */
void sn_order_shorten(sn_order *order)
{
    uint32_t n = 0, *rest = order->rest;

    if (!is_sparse(order) || (!rest && !(rest = malloc(order->left * sizeof *rest))))
        return;
    for (uint64_t sample = sn_bits_next(order->taken, 0, order->n_samples, 0); sample < order->n_samples;
         sample = sn_bits_next(order->taken, sample + 1, order->n_samples, 0)) {
        uint32_t at = sn_rng_below(&order->rng, n + 1);
        rest[n++] = rest[at];
        rest[at] = (uint32_t)sample;
    }
    order->rest = rest;
    order->n_rest = n;
    order->scanned = 0;
}

void sn_order_fill_ahead(sn_order *order, uint32_t wanted)
{
    if (wanted > MAX_AHEAD - GROUP)
        wanted = MAX_AHEAD - GROUP;
    while (order->ahead_last - order->ahead_first < wanted && unscanned(order) > 0) {
        uint32_t left = unscanned(order), n = left < GROUP ? left : GROUP;
        uint32_t samples[GROUP];
        for (uint32_t i = 0; i < n; i++) {
            samples[i] = order->rest ? order->rest[order->scanned + i] : sn_order_at(order, order->scanned + i);
            sn_prefetch(&order->taken[samples[i] >> 6]);
        }
        for (uint32_t i = 0; i < n; i++) {
            order->scanned++;
            if (!sn_order_is_taken(order, samples[i]))
                order->ahead[order->ahead_last++ % MAX_AHEAD] =
                    (sn_readahead){samples[i], order->rest ? order->cursor : order->scanned};
        }
    }
}

uint32_t sn_order_ahead(const sn_order *order, uint32_t i)
{
    if (i >= order->ahead_last - order->ahead_first)
        return NONE;
    return order->ahead[(order->ahead_first + i) % MAX_AHEAD].sample;
}

uint32_t sn_order_coming(const sn_order *order, uint32_t *samples, uint32_t n)
{
    uint32_t found = 0;

    for (uint32_t place = order->cursor; place < order->perm.n && found < n; place++) {
        uint32_t sample = sn_order_at(order, place);
        if (!sn_order_is_taken(order, sample))
            samples[found++] = sample;
    }
    return found;
}

void sn_order_begin(sn_order *order)
{
    uint32_t unread = order->count - order->read;
    memmove(order->deferred + order->kept, order->deferred + order->read, unread * sizeof *order->deferred);
    order->count = order->kept + unread;
    order->read = order->kept = 0;
}

uint32_t sn_order_next(sn_order *order)
{
    order->in_turn = NONE;
    while (order->read < order->count) {
        uint32_t sample = order->deferred[order->read++];
        if (!sn_order_is_taken(order, sample))
            return sample;
    }
    for (;;) {
        if (order->ahead_first == order->ahead_last)
            sn_order_fill_ahead(order, 1);
        if (order->ahead_first == order->ahead_last)
            break;
        const sn_readahead *next = &order->ahead[order->ahead_first++ % MAX_AHEAD];
        order->cursor = next->after;
        if (!sn_order_is_taken(order, next->sample))
            return order->in_turn = next->sample;
    }
    order->cursor = order->perm.n;
    return NONE;
}

int sn_order_defer(sn_order *order, uint32_t sample)
{
    /* The kept ones fill the places of those already read; past these the list grows. */
    if (order->kept == order->capacity)
        return SN_FULL;
    order->deferred[order->kept++] = sample;
    if (order->kept > order->read)
        order->read = order->count = order->kept;
    return 0;
}

uint32_t sn_order_force(sn_order *order)
{
    for (uint32_t i = 0; i < order->kept; i++)
        if (!sn_order_is_taken(order, order->deferred[i]))
            return order->deferred[i];
    return NONE;
}
