#include "sn_order.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../base/sn_bits.h"
#include "../base/sn_status.h"

#define NONE UINT32_MAX

/* More than are in preparation at any time on a host of some hundred cores; past it a member
 * prepares the sample itself, which is correct and only less shared. */
#define MAX_DEFERRED 65536u

uint32_t sn_order_at(const sn_order *order, uint32_t place)
{
    uint32_t at = order->fixed ? place : sn_perm_at(&order->perm, place);
    return order->samples ? order->samples[at] : at;
}

int sn_order_init(sn_order *order, const sn_epoch *epoch)
{
    uint32_t n = epoch->samples ? epoch->count : epoch->n_samples;
    int rc = -ENOMEM;

    memset(order, 0, sizeof *order);
    order->n_samples = epoch->n_samples;
    order->fixed = epoch->fixed;
    order->capacity = n < MAX_DEFERRED ? n : MAX_DEFERRED;
    order->taken = calloc(sn_bits_words(epoch->n_samples) + 1, sizeof *order->taken);
    order->deferred = malloc((order->capacity ? order->capacity : 1) * sizeof *order->deferred);
    if (!order->taken || !order->deferred)
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
    for (uint32_t place = epoch->places; place < n; place++)
        sn_order_take(order, sn_order_at(order, place));
    rc = 0;
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
    free(order->deferred);
    memset(order, 0, sizeof *order);
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
    while (order->read < order->count) {
        uint32_t sample = order->deferred[order->read++];
        if (!sn_order_is_taken(order, sample))
            return sample;
    }
    while (order->cursor < order->perm.n) {
        uint32_t sample = sn_order_at(order, order->cursor++);
        if (!sn_order_is_taken(order, sample))
            return sample;
    }
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

void sn_order_take(sn_order *order, uint32_t sample)
{
    sn_bit_set(order->taken, sample);
    order->left--;
}

int sn_order_is_taken(const sn_order *order, uint32_t sample)
{
    return sn_bit_get(order->taken, sample);
}
