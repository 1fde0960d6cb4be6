#include "sn_serve.h"

#include <stdbool.h>

#include "../base/sn_crash.h"
#include "../base/sn_rng.h"
#include "../base/sn_status.h"
#include "../slots/sn_slots.h"
#include "../slots/sn_space.h"
#include "sn_next_use.h"
#include "sn_want.h"

#define MAX_EVICTIONS 8 /* for one reservation */

void sn_item_clear(sn_item *item, uint32_t sample)
{
    *item = (sn_item){.sample = sample,
                      .source_slot = SN_NONE,
                      .source_entry = SN_NONE,
                      .target_slot = SN_NONE,
                      .target_entry = SN_NONE};
}

sn_client sn_client_make(const sn_client *asked, sn_holder *holder)
{
    sn_client client = *asked;

    client.holder = holder;
    if (client.copy_bytes == 0)
        client.copy_bytes = 3u * client.height * client.width;
    return client;
}

static const sn_row *row_of(const sn_client *client)
{
    return &client->holder->segment->rows[client->holder->row];
}

uint32_t sn_serve_find_copy(const sn_client *client, uint32_t sample)
{
    const sn_segment *segment = client->holder->segment;
    uint32_t job = row_of(client)->job % SN_MAX_JOBS;

    if (!client->shares)
        return SN_NONE;
    SN_EACH_OF_SAMPLE (segment, sample, s) {
        const sn_slot *copy = &segment->slots[s];
        if (copy->list >= SN_LIST_WANT && !(copy->uses >> job & 1) && copy->pipeline == client->augmented_pipeline)
            return s;
    }
    return SN_NONE;
}

int sn_serve_copy(sn_client *client, uint32_t slot, sn_item *item)
{
    sn_segment *segment = client->holder->segment;

    if (client->holder->n_free == 0)
        return SN_MISS;
    if (client->height != 0 && segment->slots[slot].length != client->copy_bytes)
        return SN_MISS; /* no copy of this pipeline's: two fingerprints that are equal by accident */
    if (SN_RARELY(segment->slots[slot].sample >= segment->n_samples)) {
        sn_segment_damaged(segment);
        return SN_MISS;
    }
    item->sample = segment->slots[slot].sample;
    item->source = SN_AUGMENTED;
    item->source_slot = slot;
    item->source_entry = sn_holder_hold(client->holder, slot); /* before its want falls: held, it is not freed */
    SN_CRASH_POINT(serve_held);
    sn_want_use(segment, row_of(client)->job, slot);
    return 0;
}

static int is_over_budget(const sn_segment *segment, uint32_t form)
{
    return segment->head->granules_of[form] > segment->head->budget_of[form];
}

static int evict_kept(sn_segment *segment)
{
    for (uint32_t k = 0; k < SN_KEPT_FORMS; k++) {
        enum sn_form form = sn_kept_forms[k];

        if (!is_over_budget(segment, form))
            continue;
        uint32_t left = segment->n_slots;
        for (uint32_t slot = sn_walk_list(segment, segment->head->lists[sn_list_of(form)].head, &left); slot != SN_NONE;
             slot = sn_walk_list(segment, segment->slots[slot].list_next, &left)) {
            if (segment->slots[slot].pins == 0) {
                sn_slot_free(segment, slot);
                return 1;
            }
        }
    }
    return 0;
}

/* Whether the members of this pipeline fill more than their share of the stage. */
static int is_over_its_share(const sn_segment *segment, uint64_t pipeline, uint32_t need)
{
    const sn_header *head = segment->head;
    uint64_t members = 0, mine = 0, staged = need;

    for (uint32_t r = sn_rows_next(head->member_rows, 0); r < SN_MAX_ROWS; r = sn_rows_next(head->member_rows, r + 1)) {
        members++;
        if (segment->rows[r].pipeline == pipeline) {
            mine++;
            staged += segment->rows[r].staged;
        }
    }
    return staged * members > head->budget_of[SN_AUGMENTED] * mine;
}

/* Room for a copy that `want` members are expected to want. A full stage gives up the lowest
 * want, of the own pipeline where that fills more than its share; a copy with less want than all
 * of these is not staged.
 *
 * Of exact copies none is given up for a later one that as many want, and of those that fewer want the newest goes.
 * Members that are behind come to the copies in the order in which these were made: the oldest is the next that they
 * need. If that one went first, a member that is further behind than the stage is large would find none. */
static uint32_t reserve_copy(sn_client *client, uint32_t sample, uint32_t want)
{
    sn_segment *segment = client->holder->segment;
    sn_header *head = segment->head;
    const sn_row *self = row_of(client);
    uint64_t pipeline = client->augmented_pipeline;
    uint32_t need = sn_granules_for(client->copy_bytes);
    sn_payload payload = {
        .sample = sample,
        .length = client->copy_bytes,
        .files_name = client->files_name,
        .form = SN_AUGMENTED,
        .in_order = client->in_order,
        .pipeline = pipeline,
        .uses = (uint64_t)1 << self->job % SN_MAX_JOBS,
    };

    for (int evictions = 0; evictions <= MAX_EVICTIONS; evictions++) {
        int full = head->granules_of[SN_AUGMENTED] + need > head->budget_of[SN_AUGMENTED];
        if (!full) {
            uint32_t slot = sn_slot_reserve(segment, &payload, client->holder->row);
            if (slot != SN_NONE)
                return slot;
            if (head->lists[SN_LIST_FREE_STAGE].count > 0 && evict_kept(segment))
                continue;
        }
        int is_over = is_over_its_share(segment, pipeline, need);
        uint32_t victim =
            sn_want_lowest(segment, client->exact && is_over ? want - 1 : want, is_over ? pipeline : 0, client->exact);
        if (victim == SN_NONE)
            return SN_NONE;
        sn_want_evict(segment, victim);
        SN_CRASH_POINT(serve_evicted);
    }
    return SN_NONE;
}

/* The best payload to prepare this sample from; SN_NONE: storage. */
static uint32_t best_source(const sn_client *client, uint32_t sample)
{
    const sn_segment *segment = client->holder->segment;
    uint32_t best = SN_NONE;

    SN_EACH_OF_SAMPLE (segment, sample, s) {
        const sn_slot *slot = &segment->slots[s];
        if (sn_slot_state(slot) != SN_SLOT_READY)
            continue;
        if (slot->form == SN_DECODED && slot->pipeline == client->decoded_pipeline)
            return s;
        if ((slot->form == SN_RECODED && client->recodes) ||
            (slot->form == SN_ENCODED && (best == SN_NONE || segment->slots[best].form != SN_RECODED)))
            best = s;
    }
    return best;
}

/* Its share has room; whether a record and a run of granules are free is seen in reserving. */
static int has_room(const sn_segment *segment, enum sn_form form, uint32_t granules)
{
    return segment->head->granules_of[form] + granules <= segment->head->budget_of[form];
}

/* Room for one more payload of this form, if it is as large as those that are there. Where payloads of other sizes were
 * freed, the share may have room for it, but in no place in one piece. */
static int has_room_for_one(const sn_segment *segment, enum sn_form form)
{
    const sn_header *head = segment->head;
    uint32_t there = head->lists[sn_list_of(form)].count;
    uint32_t mean = there ? head->granules_of[form] / there : 1;
    int may_fit = mean <= head->largest_run;

    for (uint32_t k = 0; k < SN_KEPT_FORMS; k++)
        may_fit |= is_over_budget(segment, sn_kept_forms[k]);
    return may_fit && has_room(segment, form, mean ? mean : 1);
}

static uint64_t kept_pipeline(const sn_client *client, enum sn_form form)
{
    return form == SN_DECODED ? client->decoded_pipeline : 0;
}

/* The form in which a payload of this sample would be kept. Where all forms are full, samples are divided among them as
 * the payloads are that are there: one whose form changed from time to time would be prepared again for nothing. */
static uint8_t form_to_keep(const sn_client *client, uint32_t sample)
{
    sn_segment *segment = client->holder->segment;
    uint64_t counts[SN_KEPT_FORMS], all = 0, at;

    for (uint32_t k = SN_KEPT_FORMS; k-- > 0;) {
        enum sn_form form = sn_kept_forms[k];
        bool is_one = form != SN_RECODED || client->recodes;

        if (is_one && has_room_for_one(segment, form))
            return (uint8_t)form;
        counts[k] = is_one ? segment->head->lists[sn_list_of(form)].count : 0;
        all += counts[k];
    }
    if (all == 0 || !sn_next_use_is_known(segment))
        return 0;
    at = sn_mix64(sample) % all;
    for (uint32_t k = SN_KEPT_FORMS; k-- > 0; at -= counts[k])
        if (at < counts[k]) {
            enum sn_form form = sn_kept_forms[k];

            return sn_next_use_later(segment, form, kept_pipeline(client, form), sample, SN_FEW_CANDIDATES) == SN_NONE
                       ? 0
                       : (uint8_t)form;
        }
    return 0;
}

void sn_serve_source(sn_client *client, uint32_t sample, sn_item *item)
{
    sn_segment *segment = client->holder->segment;
    uint32_t source = best_source(client, sample);
    uint32_t entry = source == SN_NONE ? SN_NONE : sn_holder_hold(client->holder, source);

    if (entry != SN_NONE) {
        item->source = segment->slots[source].form;
        item->source_slot = source;
        item->source_entry = entry;
    } else if (client->keeps) {
        item->keep = form_to_keep(client, sample);
    }
}

void sn_serve_target(sn_client *client, uint32_t sample, sn_item *item)
{
    sn_serve_target_for(client, sample, 0, item);
}

void sn_serve_target_for(sn_client *client, uint32_t sample, uint32_t least, sn_item *item)
{
    if (!client->shares || client->copy_bytes == 0 || client->holder->n_free == 0)
        return;
    uint32_t want = sn_want_expected(client->holder->segment, row_of(client)->job, client->augmented_pipeline, sample,
                                     client->in_order);
    want = want < least ? least : want;
    if (want > 0)
        item->target_slot = reserve_copy(client, sample, want);
    SN_CRASH_POINT(serve_reserved);
    if (item->target_slot != SN_NONE)
        item->target_entry = sn_holder_hold(client->holder, item->target_slot);
}

void sn_serve_any(sn_client *client, uint32_t sample, int stages, sn_item *item)
{
    uint32_t copy = sn_serve_find_copy(client, sample);

    if (copy != SN_NONE && sn_serve_copy(client, copy, item) == 0)
        return;
    sn_serve_source(client, sample, item);
    if (stages)
        sn_serve_target(client, sample, item);
}

/* Room in the share of the payload's form. What is over its share goes first, then what is needed later. */
static uint32_t reserve_kept(const sn_client *client, const sn_payload *payload)
{
    sn_segment *segment = client->holder->segment;
    enum sn_form form = payload->form;
    int is_known = sn_next_use_is_known(segment);

    for (int evictions = 0; evictions <= MAX_EVICTIONS; evictions++) {
        if (has_room(segment, form, sn_granules_for(payload->length))) {
            uint32_t slot = sn_slot_reserve(segment, payload, client->holder->row);
            if (slot != SN_NONE)
                return slot;
            if (evict_kept(segment))
                continue;
        }
        uint32_t later =
            is_known ? sn_next_use_later(segment, form, payload->pipeline, payload->sample, SN_CANDIDATES) : SN_NONE;
        if (later == SN_NONE)
            return SN_NONE;
        sn_slot_free(segment, later);
        SN_CRASH_POINT(serve_made_room);
    }
    return SN_NONE;
}

void sn_serve_offer(sn_client *client, sn_offer *offer)
{
    sn_segment *segment = client->holder->segment;
    sn_payload payload = {
        .sample = offer->sample,
        .length = offer->length,
        .height = offer->height,
        .width = offer->width,
        .form = offer->form,
        .pipeline = kept_pipeline(client, offer->form),
    };

    if (client->holder->n_free == 0)
        return;
    SN_EACH_OF_SAMPLE (segment, offer->sample, s)
        if (segment->slots[s].form == offer->form && segment->slots[s].pipeline == payload.pipeline)
            return; /* another was faster */
    offer->slot = reserve_kept(client, &payload);
    SN_CRASH_POINT(serve_accepted);
    if (offer->slot != SN_NONE)
        offer->entry = sn_holder_hold(client->holder, offer->slot);
}
