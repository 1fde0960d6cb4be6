#include "sn_member.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../base/sn_bits.h"
#include "../base/sn_rng.h"
#include "../base/sn_status.h"
#include "../slots/sn_slots.h"
#include "../slots/sn_space.h"
#include "sn_rows.h"
#include "sn_store.h"
#include "sn_want.h"

#define DRAW_DEADLINE_MS 100
#define MAX_EVICTIONS 8 /* for one reservation */

struct sn_member {
    sn_segment *segment;
    uint32_t row; /* SN_NONE: private */
    sn_member_options options;
    sn_order order;
    sn_rng choose;
    uint32_t copy_bytes;

    /* Ledger lines of its own: those free, and those to let go of in the next draw. */
    uint32_t *free_entries, n_free;
    uint32_t *done_entries, n_done;

    int apart; /* drew without the lock since: the mirror is behind, the lock is only tried */
};

int sn_member_open(sn_segment *segment, const sn_member_options *options, sn_member **out, int *shared)
{
    *shared = 0;
    *out = NULL;
    if ((uint64_t)3 * options->height * options->width > UINT32_MAX ||
        (segment && options->epoch.n_samples != segment->n_samples))
        return -EINVAL;
    sn_member *member = calloc(1, sizeof *member);
    if (!member)
        return -ENOMEM;
    member->options = *options;
    member->options.epoch.samples = NULL; /* the order has its own copy */
    member->row = SN_NONE;
    member->copy_bytes = 3u * options->height * options->width;
    sn_rng_start(&member->choose, options->epoch.seed, options->job_key, options->epoch.epoch, 0, SN_STREAM_CHOOSE);

    int rc = sn_order_init(&member->order, &options->epoch);
    if (rc != 0)
        goto out;
    if (!segment)
        goto opened;

    rc = -ENOMEM;
    member->free_entries = malloc(segment->n_ledger * sizeof(uint32_t));
    member->done_entries = malloc(segment->n_ledger * sizeof(uint32_t));
    if (!member->free_entries || !member->done_entries)
        goto out;
    for (uint32_t entry = segment->n_ledger; entry > 0; entry--)
        member->free_entries[member->n_free++] = entry - 1;

    sn_participant who = {
        .kind = SN_ROW_MEMBER,
        .job_key = options->job_key,
        .pipeline = options->shares ? options->augmented_pipeline : 0,
        .stage_need = options->shares ? 2 * options->in_flight * sn_granules_for(member->copy_bytes) : 0,
    };
    rc = sn_store_enter(segment, DRAW_DEADLINE_MS);
    if (rc == 0) {
        sn_store_reap(segment, 1);
        rc = sn_row_claim(segment, &who, &member->row);
        if (rc == 0) {
            memcpy(sn_seen(segment, member->row), member->order.taken, segment->row_words * 8);
            if (options->shares)
                sn_want_join(segment, member->row);
            member->segment = segment;
            *shared = 1;
        }
        sn_store_leave(segment);
    }
opened:
    rc = 0;
    *out = member;
out:
    if (rc != 0) {
        sn_order_free(&member->order);
        free(member->free_entries);
        free(member->done_entries);
        free(member);
    }
    return rc;
}

uint32_t sn_member_left(const sn_member *member)
{
    return member->order.left;
}

/* Hold a slot; SN_NONE when every ledger line is taken, and then the slot is not held. */
static uint32_t hold(sn_member *member, uint32_t slot)
{
    if (member->n_free == 0)
        return SN_NONE;
    uint32_t entry = member->free_entries[--member->n_free];
    sn_ledger_hold(member->segment, member->row, entry, slot);
    return entry;
}

static void let_go_of_done(sn_member *member)
{
    while (member->n_done > 0) {
        uint32_t entry = member->done_entries[--member->n_done];
        sn_ledger_let_go(member->segment, member->row, entry);
        member->free_entries[member->n_free++] = entry;
    }
}

/* Bring the mirror up to what was drawn while the lock could not be had. */
static void catch_up(sn_member *member)
{
    sn_segment *segment = member->segment;
    sn_counted eligible = sn_eligible(segment, member->row);

    memcpy(sn_seen(segment, member->row), member->order.taken, segment->row_words * 8);
    for (uint64_t slot = sn_bits_next(eligible.words, 0, segment->n_stage, 1); slot < segment->n_stage;
         slot = sn_bits_next(eligible.words, slot + 1, segment->n_stage, 1))
        if (sn_order_is_taken(&member->order, segment->slots[slot].sample))
            sn_want_drop(segment, member->row, (uint32_t)slot);
    member->apart = 0;
}

static void take(sn_member *member, uint32_t sample)
{
    sn_order_take(&member->order, sample);
    sn_want_taken(member->segment, member->row, sample);
}

/* Serve a staged copy that another job made. */
static int serve_substitute(sn_member *member, sn_item *item)
{
    sn_segment *segment = member->segment;
    sn_counted eligible = sn_eligible(segment, member->row);

    if (!member->options.shares || !member->options.substitutes || *eligible.total == 0 || member->n_free == 0)
        return SN_MISS;
    uint32_t slot = sn_counted_select(eligible, sn_rng_below(&member->choose, *eligible.total));
    if (segment->slots[slot].length != member->copy_bytes)
        return SN_MISS; /* no copy of this pipeline's: two fingerprints that are equal by accident */
    item->sample = segment->slots[slot].sample;
    item->source = SN_AUGMENTED;
    item->source_slot = slot;
    item->source_entry = hold(member, slot); /* before its want falls: held, it is not freed */
    sn_want_use(segment, segment->rows[member->row].job, slot);
    take(member, item->sample);
    return 0;
}

/* Another job is making a copy of this sample that will serve this member. */
static int is_on_its_way(const sn_member *member, uint32_t sample)
{
    const sn_segment *segment = member->segment;
    uint32_t job = segment->rows[member->row].job;

    for (uint32_t s = sn_slot_first(segment, sample); s != SN_NONE; s = segment->slots[s].next_of_sample) {
        const sn_slot *copy = &segment->slots[s];
        if (copy->list == SN_LIST_WRITING && copy->form == SN_AUGMENTED && !(copy->uses >> job & 1) &&
            copy->pipeline == member->options.augmented_pipeline && sn_slot_state(copy) != SN_SLOT_FAILED)
            return 1;
    }
    return 0;
}

/* The next sample of its own order that nobody is preparing; when there is none left, one that
 * somebody is: passing over never blocks. */
static uint32_t next_of_own(sn_member *member, int *forced)
{
    uint32_t sample;

    *forced = 0;
    while ((sample = sn_order_next(&member->order)) != SN_NONE)
        if (!member->options.shares || !member->options.substitutes || !is_on_its_way(member, sample) ||
            sn_order_defer(&member->order, sample) != 0)
            return sample;
    *forced = 1;
    return sn_order_force(&member->order);
}

static int evict_kept(sn_segment *segment)
{
    for (uint32_t form = SN_ENCODED; form <= SN_DECODED; form++) {
        if (segment->head->granules_of[form] <= segment->head->budget_of[form])
            continue;
        uint32_t list = form == SN_DECODED ? SN_LIST_DECODED : SN_LIST_ENCODED;
        for (uint32_t slot = segment->head->lists[list].head; slot != SN_NONE; slot = segment->slots[slot].list_next) {
            if (segment->slots[slot].pins == 0) {
                sn_slot_free(segment, slot);
                return 1;
            }
        }
    }
    return 0;
}

/* Room for a copy that `want` members are expected to want. A full stage gives up the lowest
 * want, this member's own where it fills more than its share; a copy with less want than all
 * of these is not staged. */
static uint32_t reserve_copy(sn_member *member, uint32_t sample, uint32_t want)
{
    sn_segment *segment = member->segment;
    sn_header *head = segment->head;
    sn_row *self = &segment->rows[member->row];
    uint32_t need = sn_granules_for(member->copy_bytes);
    uint32_t members = 0;
    for (uint32_t i = 0; i < SN_MAX_ROWS / 64; i++)
        members += (uint32_t)__builtin_popcountll(head->member_rows[i]);
    uint32_t share = head->budget_of[SN_AUGMENTED] / members;
    sn_payload payload = {
        .sample = sample,
        .length = member->copy_bytes,
        .height = member->options.height,
        .width = member->options.width,
        .form = SN_AUGMENTED,
        .pipeline = member->options.augmented_pipeline,
        .uses = (uint64_t)1 << self->job,
    };

    for (int evictions = 0; evictions <= MAX_EVICTIONS; evictions++) {
        int full = head->granules_of[SN_AUGMENTED] + need > head->budget_of[SN_AUGMENTED];
        if (!full) {
            uint32_t slot = sn_slot_reserve(segment, &payload, member->row);
            if (slot != SN_NONE)
                return slot;
            if (head->lists[SN_LIST_FREE_STAGE].count > 0 && evict_kept(segment))
                continue;
        }
        uint32_t victim = sn_want_lowest(segment, want, self->staged + need > share ? member->row : SN_NONE);
        if (victim == SN_NONE)
            return SN_NONE;
        sn_want_evict(segment, victim);
    }
    return SN_NONE;
}

/* The best payload to prepare this sample from; SN_NONE: storage. */
static uint32_t best_source(const sn_member *member, uint32_t sample)
{
    const sn_segment *segment = member->segment;
    uint32_t best = SN_NONE;

    for (uint32_t s = sn_slot_first(segment, sample); s != SN_NONE; s = segment->slots[s].next_of_sample) {
        const sn_slot *slot = &segment->slots[s];
        if (sn_slot_state(slot) != SN_SLOT_READY)
            continue;
        if (slot->form == SN_DECODED && slot->pipeline == member->options.decoded_pipeline)
            return s;
        if (slot->form == SN_ENCODED)
            best = s;
    }
    return best;
}

/* Its share has room; whether a record and a run of granules are free is seen in reserving. */
static int has_room(const sn_segment *segment, enum sn_form form, uint32_t granules)
{
    return segment->head->granules_of[form] + granules <= segment->head->budget_of[form];
}

/* Room for one more payload of this form, if it is as large as those that are there. */
static int has_room_for_one(const sn_segment *segment, enum sn_form form)
{
    const sn_header *head = segment->head;
    uint32_t there = head->lists[form == SN_DECODED ? SN_LIST_DECODED : SN_LIST_ENCODED].count;
    uint32_t mean = there ? head->granules_of[form] / there : 1;
    return has_room(segment, form, mean ? mean : 1);
}

static void prepare_own(sn_member *member, uint32_t sample, int forced, sn_item *item)
{
    sn_segment *segment = member->segment;

    item->sample = sample;
    uint32_t source = best_source(member, sample);
    uint32_t entry = source == SN_NONE ? SN_NONE : hold(member, source);
    if (entry != SN_NONE) {
        item->source = segment->slots[source].form;
        item->source_slot = source;
        item->source_entry = entry;
    } else if (member->options.keeps) {
        item->keep = has_room_for_one(segment, SN_DECODED)   ? SN_DECODED
                     : has_room_for_one(segment, SN_ENCODED) ? SN_ENCODED
                                                             : 0;
    }
    if (member->options.shares && !forced && member->n_free > 0) {
        uint32_t want = sn_want_expected(segment, member->row, sample);
        if (want > 0)
            item->target_slot = reserve_copy(member, sample, want);
        if (item->target_slot != SN_NONE)
            item->target_entry = hold(member, item->target_slot);
    }
    take(member, sample);
}

static void answer_offer(sn_member *member, sn_offer *offer)
{
    sn_segment *segment = member->segment;
    sn_payload payload = {
        .sample = offer->sample,
        .length = offer->length,
        .height = offer->height,
        .width = offer->width,
        .form = offer->form,
        .pipeline = offer->form == SN_DECODED ? member->options.decoded_pipeline : 0,
    };

    if (member->n_free == 0 || !has_room(segment, offer->form, sn_granules_for(offer->length)))
        return;
    for (uint32_t s = sn_slot_first(segment, offer->sample); s != SN_NONE; s = segment->slots[s].next_of_sample)
        if (segment->slots[s].form == offer->form && segment->slots[s].pipeline == payload.pipeline)
            return; /* another was faster */
    for (int evictions = 0; evictions <= MAX_EVICTIONS && offer->slot == SN_NONE; evictions++) {
        offer->slot = sn_slot_reserve(segment, &payload, member->row);
        if (offer->slot == SN_NONE && !evict_kept(segment)) /* what is over its share goes first */
            break;
    }
    if (offer->slot != SN_NONE)
        offer->entry = hold(member, offer->slot);
}

static void draw_apart(sn_member *member, uint32_t n, sn_item *items)
{
    sn_order_begin(&member->order);
    for (uint32_t i = 0; i < n; i++) {
        items[i].sample = sn_order_next(&member->order);
        sn_order_take(&member->order, items[i].sample);
    }
    member->apart = 1;
}

int sn_member_draw(sn_member *member, uint32_t wanted, sn_item *items, uint32_t *drawn, sn_offer *offers,
                   uint32_t n_offers)
{
    sn_segment *segment = member->segment;
    uint32_t n = wanted < member->order.left ? wanted : member->order.left;

    for (uint32_t i = 0; i < n; i++)
        items[i] = (sn_item){.source_slot = SN_NONE, .source_entry = SN_NONE, .target_slot = SN_NONE,
                             .target_entry = SN_NONE};
    for (uint32_t i = 0; i < n_offers; i++)
        offers[i].slot = offers[i].entry = SN_NONE;
    *drawn = n;
    if (!segment || sn_store_enter(segment, member->apart ? 0 : DRAW_DEADLINE_MS) != 0) {
        draw_apart(member, n, items);
        return segment ? SN_BUSY : 0;
    }

    sn_store_reap(segment, 0);
    sn_store_fold(segment);
    let_go_of_done(member);
    if (member->apart)
        catch_up(member);
    for (uint32_t i = 0; i < n_offers; i++)
        answer_offer(member, &offers[i]);
    sn_order_begin(&member->order);
    for (uint32_t i = 0; i < n; i++) {
        int forced;
        if (serve_substitute(member, &items[i]) == 0)
            continue;
        uint32_t sample = next_of_own(member, &forced);
        prepare_own(member, sample, forced, &items[i]);
    }
    sn_store_leave(segment);
    return 0;
}

static void done(sn_member *member, uint32_t entry)
{
    if (entry != SN_NONE)
        member->done_entries[member->n_done++] = entry;
}

void sn_member_done(sn_member *member, const sn_item *items, uint32_t n_items)
{
    for (uint32_t i = 0; i < n_items; i++) {
        done(member, items[i].source_entry);
        done(member, items[i].target_entry);
    }
}

void sn_member_offer_done(sn_member *member, const sn_offer *offer)
{
    done(member, offer->entry);
}

void sn_member_close(sn_member *member)
{
    sn_segment *segment = member->segment;

    if (segment) {
        if (sn_store_enter(segment, DRAW_DEADLINE_MS) == 0) {
            sn_store_fold(segment);
            sn_row_leave(segment, member->row);
            sn_store_leave(segment);
        } else if (!atomic_load(&segment->forked)) {
            sn_row_desert(segment, member->row);
        }
    }
    sn_order_free(&member->order);
    free(member->free_entries);
    free(member->done_entries);
    free(member);
}
