#include "sn_due.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../base/sn_bits.h"

#define NONE UINT32_MAX

/* The samples that are left before the rest of the permutation, in order; `to` NULL: only count. */
static uint32_t list_left(const sn_due *due, const sn_order *order, uint32_t *to)
{
    uint32_t n = 0;
    const uint32_t *first = sn_due_has_begun(due) ? due->first + due->at_first : order->deferred;
    uint32_t n_first = sn_due_has_begun(due) ? due->n_first - due->at_first : order->count;

    for (uint32_t q = 0; q < due->n_queues; q++)
        for (uint32_t i = due->queues[q].begin; i < due->queues[q].end; i++)
            if (!sn_order_is_taken(order, due->queues[q].samples[i])) {
                if (to)
                    to[n] = due->queues[q].samples[i];
                n++;
            }
    for (uint32_t i = 0; i < n_first; i++)
        if (!sn_order_is_taken(order, first[i])) {
            if (to)
                to[n] = first[i];
            n++;
        }
    return n;
}

int sn_due_begin(sn_due *due, const sn_order *order)
{
    uint64_t words = sn_bits_words(order->n_samples) + 1;
    uint32_t n_first = list_left(due, order, NULL);
    uint64_t *before = malloc(words * sizeof *before);
    uint32_t *first = malloc((n_first ? n_first : 1) * sizeof *first);

    if (!before || !first) {
        free(before);
        free(first);
        return -ENOMEM;
    }
    memcpy(before, order->taken, words * sizeof *before);
    list_left(due, order, first);
    uint32_t place = sn_due_has_begun(due) ? due->place : order->cursor;
    sn_due_free(due);
    *due = (sn_due){.before = before, .first = first, .n_first = n_first, .place = place};
    return 0;
}

void sn_due_free(sn_due *due)
{
    for (uint32_t q = 0; q < due->n_queues; q++)
        free(due->queues[q].samples);
    free(due->queues);
    free(due->first);
    free(due->before);
    memset(due, 0, sizeof *due);
}

uint32_t sn_due_next(sn_due *due, const sn_order *order)
{
    if (due->at_first < due->n_first)
        return due->first[due->at_first++];
    while (due->place < order->perm.n) {
        uint32_t sample = sn_order_at(order, due->place++);
        if (!sn_bit_get(due->before, sample))
            return sample;
    }
    return NONE;
}

sn_due_queue *sn_due_of_class(sn_due *due, uint64_t class)
{
    for (uint32_t q = 0; q < due->n_queues; q++)
        if (due->queues[q].class == class)
            return &due->queues[q];
    if (due->n_queues == due->capacity) {
        uint32_t capacity = due->capacity ? 2 * due->capacity : 8;
        sn_due_queue *queues = realloc(due->queues, capacity * sizeof *queues);
        if (!queues)
            return NULL;
        due->queues = queues;
        due->capacity = capacity;
    }
    due->queues[due->n_queues] = (sn_due_queue){.class = class};
    return &due->queues[due->n_queues++];
}

int sn_due_push(sn_due_queue *queue, uint32_t sample)
{
    if (queue->end == queue->capacity) {
        /* Room is made at the front first: what was taken there is half of it, or it grows. */
        uint32_t kept = queue->end - queue->begin;
        if (queue->begin < kept || queue->begin == 0) {
            uint32_t capacity = queue->capacity ? 2 * queue->capacity : 256;
            uint32_t *samples = realloc(queue->samples, capacity * sizeof *samples);
            if (!samples)
                return -ENOMEM;
            queue->samples = samples;
            queue->capacity = capacity;
        } else {
            memmove(queue->samples, queue->samples + queue->begin, kept * sizeof *queue->samples);
            queue->begin = 0;
            queue->end = kept;
        }
    }
    queue->samples[queue->end++] = sample;
    return 0;
}

int sn_due_trim(sn_due_queue *queue, const sn_order *order)
{
    while (queue->begin < queue->end && sn_order_is_taken(order, queue->samples[queue->begin]))
        queue->begin++;
    return queue->begin < queue->end;
}
