#include "sn_batch.h"

#include <stdlib.h>

sn_batch *sn_batch_new(const sn_trip *trip, uint32_t n_places, uint32_t n_copies)
{
    sn_batch *batch = calloc(1, sizeof *batch);
    if (!batch)
        return NULL;
    batch->trip = trip;
    batch->n_places = n_places;
    batch->n_copies = n_copies;
    batch->places = calloc(n_places ? n_places : 1, sizeof *batch->places);
    batch->copies = calloc(n_copies ? n_copies : 1, sizeof *batch->copies);
    if (!batch->places || !batch->copies) {
        free(batch->places);
        free(batch->copies);
        free(batch);
        return NULL;
    }
    return batch;
}

void sn_batch_settle(sn_batch *batch, sn_member *member)
{
    for (uint32_t i = 0; i < batch->n_places; i++) {
        sn_place *place = &batch->places[i];
        if (!atomic_load_explicit(&place->settled, memory_order_acquire))
            continue;
        sn_member_done(member, &place->item, 1);
        place->item.source_entry = place->item.target_entry = SN_NONE;
    }
}

void sn_batch_choose_checks(sn_batch *batch, uint32_t n_places, uint32_t every, uint32_t *left)
{
    for (uint32_t i = 0; i < n_places; i++) {
        sn_place *place = &batch->places[i];
        if ((place->item.source == SN_ENCODED || place->item.source == SN_DECODED) && --*left == 0) {
            place->check = 1;
            *left = every;
        }
    }
}

void sn_batch_free(sn_batch *batch)
{
    if (!batch)
        return;
    for (uint32_t i = 0; i < batch->n_places; i++) {
        free(batch->places[i].message);
        free(batch->places[i].kept);
    }
    for (uint32_t i = 0; i < batch->n_copies; i++)
        free(batch->copies[i].payload);
    free(batch->places);
    free(batch->copies);
    free(batch);
}
