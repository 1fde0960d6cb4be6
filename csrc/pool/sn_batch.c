#include "sn_batch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

sn_batch *sn_batch_new(const sn_context *context, uint32_t n_places, uint32_t n_copies)
{
    sn_batch *batch = calloc(1, sizeof *batch);
    if (!batch)
        return NULL;
    batch->context = context;
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
    for (uint32_t i = 0; i < n_places; i++)
        batch->places[i].batch = batch;
    return batch;
}

void sn_offers_free(sn_offers *offers)
{
    for (uint32_t i = 0; i < offers->n; i++)
        free(offers->copies[i].payload);
    free(offers->copies);
    memset(offers, 0, sizeof *offers);
}

static int reserve(sn_offers *offers, uint32_t n)
{
    if (n <= offers->capacity)
        return 0;
    uint32_t capacity = 2 * n + 64;
    sn_copy *larger = realloc(offers->copies, capacity * sizeof *larger);
    if (!larger)
        return -ENOMEM;
    offers->copies = larger;
    offers->capacity = capacity;
    return 0;
}

int sn_offers_collect(sn_offers *offers, sn_batch *batch)
{
    int rc = reserve(offers, offers->n + batch->n_places);

    for (uint32_t i = 0; i < batch->n_places && rc == 0; i++) {
        sn_batch_item *place = &batch->places[i];
        if (place->status != 0 || !place->kept)
            continue;
        offers->copies[offers->n++] = (sn_copy){place->kept, place->offer};
        place->kept = NULL;
    }
    return rc;
}

void sn_batch_doubt(sn_batch_item *place)
{
    const sn_context *context = place->batch->context;
    sn_item *item = &place->item;
    uint8_t change =
        context->changes ? atomic_load_explicit(&context->changes[item->sample], memory_order_relaxed) : SN_UNCHANGED;

    if (change == SN_UNCHANGED)
        return;
    place->skips_remote = 1; /* what other hosts have may be of the time before, too */
    if (change == SN_COMPARED || item->awaited != SN_AWAITS_NOTHING || item->source == SN_STORAGE)
        return;
    if (item->source != SN_AUGMENTED) {
        place->is_suspect = place->check = 1;
    } else if (context->segment->slots[item->source_slot].files_name != context->files_name) {
        item->source = SN_STORAGE; /* the slot stays held until the place is settled */
    }
}

/* Of the places that are served from a kept form choose each that comes so many such places after the one
 * before; those of samples that were not checked yet, where these are noted; and those whose files have changed. */
static void choose_checks(sn_batch *batch, uint32_t drawn, uint32_t *until_check)
{
    uint64_t *checked = batch->context->checked;

    for (uint32_t i = 0; i < drawn; i++) {
        sn_batch_item *place = &batch->places[i];
        sn_batch_doubt(place);
        if (batch->context->check_every == 0 || !sn_is_kept(place->item.source))
            continue;
        if (--*until_check == 0) {
            place->check = 1;
            *until_check = batch->context->check_every;
        }
        if (checked && !sn_bit_get(checked, place->item.sample)) {
            place->check = 1;
            sn_bit_set(checked, place->item.sample);
        }
    }
}

/* What is known to have no RECODED payload is kept ENCODED. */
static void pass_over_unrecoded(sn_batch *batch, uint32_t drawn)
{
    const uint64_t *unrecoded = batch->context->unrecoded;

    for (uint32_t i = 0; unrecoded && i < drawn; i++) {
        sn_item *item = &batch->places[i].item;

        if (item->keep == SN_RECODED && sn_bit_get(unrecoded, item->sample))
            item->keep = SN_ENCODED;
    }
}

sn_note sn_batch_note_of(const sn_context *context, const sn_item *item)
{
    uint32_t slot = item->source == SN_AUGMENTED ? item->source_slot : item->target_slot;

    return (sn_note){
        .slot = slot,
        .generation = slot != SN_NONE ? context->segment->slots[slot].generation : 0,
        .form = item->source,
    };
}

void sn_batch_note(const sn_context *context, const sn_item *item)
{
    if (context->notes)
        context->notes[item->sample] = sn_batch_note_of(context, item);
}

/* `given`: the samples; NULL: those that are next in the member's order. Returns how many were drawn, or -ENOMEM. */
static int64_t draw(sn_batch *batch, sn_member *member, sn_offers *offers, uint32_t *until_check, const uint32_t *given)
{
    sn_item *items = malloc((batch->n_places + 1) * sizeof *items);
    sn_offer *answers = malloc((offers->n + 1) * sizeof *answers);
    uint32_t drawn = batch->n_places;
    int rc = items && answers ? 0 : -ENOMEM;

    if (rc != 0)
        goto out;
    for (uint32_t i = 0; i < offers->n; i++)
        answers[i] = offers->copies[i].offer;
    if (given)
        sn_member_draw_given(member, given, drawn, items, answers, offers->n);
    else
        sn_member_draw(member, batch->n_places, items, &drawn, answers, offers->n);
    batch->n_copies = 0;
    for (uint32_t i = 0; i < offers->n; i++) {
        if (answers[i].slot == SN_NONE)
            free(offers->copies[i].payload);
        else
            batch->copies[batch->n_copies++] = (sn_copy){offers->copies[i].payload, answers[i]};
    }
    offers->n = 0;
    for (uint32_t i = 0; i < drawn; i++)
        batch->places[i].item = items[i];
    pass_over_unrecoded(batch, drawn);
    choose_checks(batch, drawn, until_check);
out:
    free(items);
    free(answers);
    return rc ? rc : (int64_t)drawn;
}

int sn_batch_draw(sn_batch *batch, sn_member *member, sn_offers *offers, uint32_t *until_check, uint32_t *indices)
{
    int64_t drawn = draw(batch, member, offers, until_check, NULL);

    for (int64_t i = 0; i < drawn; i++) {
        indices[i] = batch->places[i].item.sample;
        sn_batch_note(batch->context, &batch->places[i].item);
    }
    return drawn < 0 ? (int)drawn : 0;
}

int sn_batch_draw_given(sn_batch *batch, sn_member *member, sn_offers *offers, uint32_t *until_check,
                        const uint32_t *samples, const uint64_t *turns)
{
    int64_t drawn = draw(batch, member, offers, until_check, samples);

    for (int64_t i = 0; i < drawn; i++)
        batch->places[i].turn = turns[i];
    return drawn < 0 ? (int)drawn : 0;
}

void sn_batch_settle(sn_batch *batch, sn_member *member)
{
    for (uint32_t i = 0; i < batch->n_places; i++) {
        sn_batch_item *place = &batch->places[i];
        if (!atomic_load_explicit(&place->settled, memory_order_acquire))
            continue;
        sn_member_done(member, &place->item, 1);
        place->item.source_entry = place->item.target_entry = SN_NONE;
    }
}

void sn_batch_done(sn_batch *batch, sn_member *member)
{
    sn_batch_settle(batch, member);
    for (uint32_t i = 0; i < batch->n_copies; i++)
        sn_member_offer_done(member, &batch->copies[i].offer);
    for (uint32_t i = 0; batch->context->unrecoded && i < batch->n_places; i++)
        if (batch->places[i].unrecoded)
            sn_bit_set(batch->context->unrecoded, batch->places[i].item.sample);
}

void sn_batch_sum(const sn_batch *batch, sn_batch_sums *sums)
{
    memset(sums, 0, sizeof *sums);
    sums->peer_wait_ns = batch->peer_wait_ns;
    for (uint32_t i = 0; i < batch->n_places; i++) {
        const sn_batch_item *place = &batch->places[i];

        sums->read_bytes += place->read_bytes;
        if (place->status != 0)
            continue;
        int is_made = place->item.source != SN_AUGMENTED && !place->is_copy;
        sums->served[place->is_copy ? SN_AUGMENTED : place->item.source]++;
        sums->prepared += is_made;
        sums->staged += place->item.target_slot != SN_NONE;
        sums->damaged += place->damaged;
        sums->in_vain += place->was_coming && is_made;
        sums->checked += place->check;
        sums->different += place->different;
        sums->n_read += place->spent.read != 0 && !place->is_remote && !place->is_copy;
        sums->n_remote += place->is_remote;
        sums->n_copies += place->is_copy;
        sums->n_prepare += place->spent.prepare != 0;
        sums->n_decode += place->spent.decode != 0;
        sums->n_augment += place->spent.augment != 0;
        sums->n_recode += place->spent.recode != 0;
        sums->n_redraw += place->spent.redraw != 0;
        if (place->unrecoded)
            sums->unrecoded[place->unrecoded - 1]++;
        if (!place->is_copy)
            *(place->is_remote ? &sums->remote_ns : &sums->spent.read) += place->spent.read;
        sums->spent.blocked += place->spent.blocked;
        sums->spent.prepare += place->spent.prepare;
        sums->spent.decode += place->spent.decode;
        sums->spent.augment += place->spent.augment;
        sums->spent.recode += place->spent.recode;
        sums->spent.redraw += place->spent.redraw;
        if (place->spent.decode != 0)
            sums->decoded_bytes += place->offer.length;
    }
}

void sn_batch_free(sn_batch *batch)
{
    if (!batch)
        return;
    for (uint32_t i = 0; i < batch->n_places; i++) {
        free(batch->places[i].message);
        free(batch->places[i].kept);
        free(batch->places[i].file.bytes);
    }
    for (uint32_t i = 0; i < batch->n_copies; i++)
        free(batch->copies[i].payload);
    free(batch->places);
    free(batch->copies);
    free(batch);
}
