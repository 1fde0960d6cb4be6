#include "sn_member.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../base/sn_bits.h"
#include "../base/sn_crash.h"
#include "../base/sn_status.h"
#include "../slots/sn_slots.h"
#include "../slots/sn_space.h"
#include "../store/sn_hints.h"
#include "../store/sn_rows.h"
#include "../store/sn_store.h"
#include "../store/sn_want.h"
#include "sn_choose.h"
#include "sn_pacing.h"

#define PLACES_AT_ONCE 16384u /* of the timetable, in each draw: half a millisecond */
#define RECHECK_MS 10         /* the longest wait for the lock; without it, what is awaited is checked again later */

struct sn_member {
    sn_segment *segment; /* NULL: private */
    sn_holder holder;
    sn_member_options options;
    sn_chooser chooser;
    uint32_t subset_row; /* says which samples are its dataset's; SN_NONE: all, or no row was to be had */

    /* Lines that workers may claim; each is examined in every draw until it is empty. */
    uint32_t *handed, n_handed;

    /* Its order is fixed, and it publishes when it comes to which sample, if there are other members. */
    int publishes, is_alone;
    uint32_t published; /* so many places of its order are in its timetable */

    sn_pacing regroup; /* where its copies are exact */

    int apart;  /* drew without the lock since: the lock is only tried */
    int behind; /* the mirror of its seen bits is, for then or for another reason */
};

static uint32_t stage_need(const sn_member *member)
{
    if (!member->chooser.client.shares || member->chooser.client.copy_bytes == 0)
        return 0;
    return 2 * member->chooser.in_flight * sn_granules_for(member->chooser.client.copy_bytes);
}

static uint32_t drawn_of(const sn_member *member)
{
    return member->chooser.order.perm.n - member->chooser.order.left;
}

/* Publish which samples its dataset has. Without a row for that it exchanges as if it had
 * all of them. A member whose copies are exact exchanges nothing. */
static void publish_subset(sn_member *member, sn_segment *segment, const sn_participant *who)
{
    sn_participant subset = *who;
    const sn_order *order = &member->chooser.order;

    if (!order->samples || order->perm.n == 0 || !member->chooser.client.shares || member->chooser.client.exact)
        return;
    subset.kind = SN_ROW_SUBSET;
    subset.stage_need = subset.exchanges = 0;
    subset.subset = sn_subsets_key(order->samples, order->perm.n);
    if (sn_row_claim(segment, &subset, &member->subset_row) != 0)
        return;
    for (uint32_t i = 0; i < order->perm.n; i++) {
        sn_bit_clear(sn_seen(segment, member->subset_row), order->samples[i]);
        SN_CRASH_POINT(subset_sample);
    }
}

/* A row of its own in the segment, all under the lock. */
static int join(sn_member *member, sn_segment *segment)
{
    sn_participant who = {
        .kind = SN_ROW_MEMBER,
        .job_key = member->options.job_key,
        .pipeline = member->chooser.client.shares ? member->chooser.client.augmented_pipeline : 0,
        .stage_need = stage_need(member),
        .exchanges = member->chooser.exchanges,
    };
    int rc = 0;

    if (member->chooser.client.exact) {
        who.order = sn_order_name(&member->chooser.order, member->options.epoch.seed, member->options.epoch.epoch);
        who.drawn = drawn_of(member);
        who.expects = (uint32_t)sn_hints_others_exchange(segment, member->options.job_key, member->options.family);
        member->chooser.peers.expected_until = who.expects ? who.drawn + 2 * member->chooser.in_flight : 0;
    }
    rc = sn_store_enter(segment, SN_LOCK_DEADLINE_MS);

    if (rc != 0)
        return rc;
    sn_store_reap(segment, 1);
    rc = sn_row_claim(segment, &who, &member->holder.row);
    if (rc == 0) {
        SN_CRASH_POINT(member_claimed);
        memcpy(sn_seen(segment, member->holder.row), member->chooser.order.taken, segment->row_words * 8);
        SN_CRASH_POINT(member_seen);
        if (member->chooser.client.shares)
            sn_want_join(segment, member->holder.row);
        SN_CRASH_POINT(member_joined);
        publish_subset(member, segment, &who);
        SN_CRASH_POINT(member_has_subset);
        member->segment = segment;
    }
    sn_store_leave(segment);
    if (rc == 0)
        sn_segment_collapse_area(segment, member->holder.row);
    if (member->subset_row != SN_NONE)
        sn_segment_collapse_area(segment, member->subset_row);
    return rc;
}

static void destroy(sn_member *member)
{
    sn_chooser_free(&member->chooser);
    sn_holder_free(&member->holder);
    free(member->handed);
    free(member);
}

int sn_member_open(sn_segment *segment, const sn_member_options *options, sn_member **out, int *joined)
{
    *joined = SN_MISS;
    *out = NULL;
    if (segment && options->epoch.n_samples != segment->n_samples)
        return -EINVAL;
    sn_member *member = calloc(1, sizeof *member);
    if (!member)
        return -ENOMEM;
    member->options = *options;
    member->options.epoch.samples = NULL; /* the order has its own copy */
    member->options.epoch.taken = NULL;
    member->holder.row = member->subset_row = SN_NONE;
    member->chooser.client = sn_client_make(&options->client, &member->holder);
    member->chooser.in_flight = options->in_flight < options->epoch.places ? options->in_flight : options->epoch.places;
    member->chooser.exchanges = options->client.shares && options->substitutes;
    member->chooser.client.in_order = !member->chooser.exchanges;
    member->chooser.hands_over = options->hands_over;
    member->publishes = options->client.keeps && !member->chooser.exchanges && options->epoch.places > 0;
    sn_pacing_init(&member->regroup);
    sn_rng_start(&member->chooser.rng, options->epoch.seed, options->job_key, options->epoch.epoch, 0,
                 SN_STREAM_CHOOSE);

    int rc = sn_order_init(&member->chooser.order, &options->epoch);
    if (rc == 0 && segment)
        rc = sn_holder_init(&member->holder, segment);
    if (rc == 0 && segment && options->hands_over) {
        member->handed = malloc(segment->n_ledger * sizeof(uint32_t));
        rc = member->handed ? 0 : -ENOMEM;
    }
    if (rc != 0) {
        destroy(member);
        return rc;
    }
    if (segment)
        *joined = join(member, segment);
    if (*joined == 0 && (member->chooser.exchanges || member->chooser.client.exact))
        sn_hint_exchange(segment, options->process_row,
                         member->chooser.exchanges ? options->client.augmented_pipeline : options->family);
    *out = member;
    return 0;
}

uint32_t sn_member_coming(const sn_member *member, uint32_t *samples, uint32_t n)
{
    return sn_order_coming(&member->chooser.order, samples, n);
}

uint32_t sn_member_left(const sn_member *member)
{
    return member->chooser.order.left;
}

int sn_member_expects(const sn_member *member)
{
    return drawn_of(member) < member->chooser.peers.expected_until;
}

uint32_t sn_member_out_of_turn(const sn_member *member)
{
    return member->chooser.order.out_of_turn;
}

uint32_t sn_member_row(const sn_member *member, uint32_t *generation)
{
    *generation = member->segment ? member->segment->rows[member->holder.row].generation : 0;
    return member->holder.row;
}

uint32_t sn_member_copy_bytes(const sn_member *member)
{
    return member->chooser.client.copy_bytes;
}

/* Lines that workers have claimed are empty, and free to be used again. */
static void collect_claimed(sn_member *member)
{
    const uint32_t *ledger = sn_ledger(member->segment, member->holder.row);
    uint32_t kept = 0;

    for (uint32_t i = 0; i < member->n_handed; i++) {
        uint32_t entry = member->handed[i];
        if (ledger[entry] == 0)
            member->holder.free_entries[member->holder.n_free++] = entry;
        else
            member->handed[kept++] = entry;
    }
    member->n_handed = kept;
}

/* How much room a copy takes where that is not known beforehand: the most that anybody who makes
 * copies of this pipeline has needed so far. */
static void learn_copy_bytes(sn_member *member)
{
    sn_segment *segment = member->segment;
    sn_client *client = &member->chooser.client;
    const uint64_t *live = segment->head->live_rows;
    uint32_t most = client->copy_bytes;

    for (uint32_t row = sn_rows_next(live, 0); row < SN_MAX_ROWS; row = sn_rows_next(live, row + 1))
        if (segment->rows[row].pipeline == client->augmented_pipeline && segment->rows[row].copy_bytes > most)
            most = segment->rows[row].copy_bytes;
    if (most == client->copy_bytes)
        return;
    client->copy_bytes = most;
    segment->rows[member->holder.row].stage_need = stage_need(member);
    SN_CRASH_POINT(member_needs);
    sn_rows_derive_budgets(segment);
}

/* Bring the mirror up to what was drawn while the lock could not be had. */
static void catch_up(sn_member *member)
{
    sn_segment *segment = member->segment;
    uint32_t row = member->holder.row;
    sn_counted eligible = sn_eligible(segment, row);

    memcpy(sn_seen(segment, row), member->chooser.order.taken, segment->row_words * 8);
    SN_CRASH_POINT(caught_up);
    for (uint64_t slot = sn_bits_next(eligible.words, 0, segment->n_stage, 1); slot < segment->n_stage;
         slot = sn_bits_next(eligible.words, slot + 1, segment->n_stage, 1))
        if (segment->slots[slot].sample < segment->n_samples &&
            sn_order_is_taken(&member->chooser.order, segment->slots[slot].sample))
            sn_want_drop(segment, row, (uint32_t)slot);
    member->apart = member->behind = 0;
}

static void draw_apart(sn_member *member, uint32_t n, sn_item *items)
{
    sn_order_begin(&member->chooser.order);
    for (uint32_t i = 0; i < n; i++) {
        items[i].sample = sn_order_next(&member->chooser.order);
        sn_order_take(&member->chooser.order, items[i].sample);
    }
    member->apart = member->behind = 1;
}

static void hand(sn_member *member, uint32_t entry)
{
    if (entry != SN_NONE)
        member->handed[member->n_handed++] = entry;
}

/* Go on with its timetable, without the lock. No draw pauses for all of it: it takes the time of half a second for ten
 * million samples that Seneca permutes. */
static void make_timetable(sn_member *member)
{
    const sn_order *order = &member->chooser.order;
    sn_timetable *timetable = sn_timetable_of(member->segment, member->holder.row);
    uint32_t n = order->perm.n, end = n - member->published < PLACES_AT_ONCE ? n : member->published + PLACES_AT_ONCE;

    if (member->published == 0) {
        if (sn_segment_reserve_timetable(member->segment, member->holder.row) != 0) {
            member->publishes = 0;
            return;
        }
        timetable->decoded_pipeline = member->chooser.client.decoded_pipeline;
        SN_CRASH_POINT(timetable_begun);
        timetable->places = n;
        if (order->samples)
            memset(timetable->part_of, SN_NEVER, order->n_samples);
    }
    for (; member->published < end; member->published++)
        timetable->part_of[sn_order_at(order, member->published)] =
            (uint8_t)((uint64_t)member->published * SN_PARTS / n);
    SN_CRASH_POINT(timetable_longer);
}

/* Publish where it is, and note when nobody is expected any more. */
static void publish_drawn(sn_member *member)
{
    sn_row *self = &member->segment->rows[member->holder.row];

    atomic_store_explicit(&self->drawn, drawn_of(member), memory_order_relaxed);
    self->has_timetable = member->publishes && member->published == member->chooser.order.perm.n;
    SN_CRASH_POINT(member_drawn);
    if (self->expects && drawn_of(member) >= member->chooser.peers.expected_until) {
        self->expects = 0;
        sn_rows_derive_budgets(member->segment);
    }
}

/* Whether no other job draws. */
static int is_alone(const sn_member *member)
{
    const sn_header *head = member->segment->head;
    uint32_t job = member->segment->rows[member->holder.row].job % SN_MAX_JOBS;

    return memcmp(head->member_rows, head->members_of_job[job], sizeof head->member_rows) == 0;
}

static void refuse(sn_offer *offers, uint32_t n_offers)
{
    for (uint32_t i = 0; i < n_offers; i++)
        offers[i].slot = offers[i].entry = SN_NONE;
}

/* The first step of each draw, under the lock. */
static void begin_draw(sn_member *member, sn_offer *offers, uint32_t n_offers)
{
    sn_store_reap(member->segment, 0);
    sn_store_fold(member->segment);
    sn_holder_let_go(&member->holder);
    collect_claimed(member);
    if (member->behind)
        catch_up(member);
    if (member->chooser.client.shares && member->chooser.client.height == 0)
        learn_copy_bytes(member);
    for (uint32_t i = 0; i < n_offers; i++)
        sn_serve_offer(&member->chooser.client, &offers[i]);
}

int sn_member_draw_given(sn_member *member, const uint32_t *samples, uint32_t n, sn_item *items, sn_offer *offers,
                         uint32_t n_offers)
{
    sn_segment *segment = member->segment;

    for (uint32_t i = 0; i < n; i++)
        sn_item_clear(&items[i], samples[i]);
    refuse(offers, n_offers);
    if (!segment)
        return 0;
    if (sn_store_enter(segment, member->apart ? 0 : SN_LOCK_DEADLINE_MS) != 0) {
        member->apart = 1;
        return SN_BUSY;
    }
    member->apart = 0;
    begin_draw(member, offers, n_offers);
    for (uint32_t i = 0; i < n; i++)
        sn_serve_any(&member->chooser.client, samples[i], member->chooser.exchanges, &items[i]);
    sn_store_leave(segment);
    return 0;
}

int sn_member_draw(sn_member *member, uint32_t wanted, sn_item *items, uint32_t *drawn, sn_offer *offers,
                   uint32_t n_offers)
{
    sn_segment *segment = member->segment;

    if (member->chooser.exchanged) /* this and the next while others may draw */
        sn_order_shorten(&member->chooser.order);
    sn_order_fill_ahead(&member->chooser.order, wanted);
    int shared = segment && sn_store_enter(segment, member->apart ? 0 : SN_LOCK_DEADLINE_MS) == 0;

    if (shared)
        member->is_alone = is_alone(member);
    if (shared && member->is_alone && wanted < member->options.wanted_alone)
        wanted = member->options.wanted_alone;
    uint32_t n = wanted < member->chooser.order.left ? wanted : member->chooser.order.left;
    for (uint32_t i = 0; i < n; i++)
        sn_item_clear(&items[i], 0);
    refuse(offers, n_offers);
    *drawn = n;
    if (!shared) {
        draw_apart(member, n, items);
        return segment ? SN_BUSY : 0;
    }

    begin_draw(member, offers, n_offers);
    sn_choose(&member->chooser, n, items);
    if (member->chooser.client.exact || member->publishes)
        publish_drawn(member);
    if (member->chooser.client.exact)
        sn_pacing_find(&member->regroup, &member->chooser.client, sn_choose_window(&member->chooser),
                       member->chooser.order.left, n);
    for (uint32_t i = 0; member->options.hands_over && i < n; i++) {
        hand(member, items[i].source_entry);
        hand(member, items[i].target_entry);
    }
    sn_store_leave(segment);
    if (member->publishes && !member->is_alone && member->published < member->chooser.order.perm.n)
        make_timetable(member);
    return 0;
}

static int divides(const sn_member *member)
{
    return member->segment && member->chooser.client.exact;
}

_Atomic uint32_t *sn_member_progress(const sn_member *member)
{
    return divides(member) ? &member->segment->telemetry[member->holder.row].progress : NULL;
}

void sn_member_taken(sn_member *member, uint32_t samples, uint64_t waited_ns, uint64_t now_ns, int slowly)
{
    if (divides(member))
        sn_pacing_taken(&member->regroup, member->segment, member->holder.row, samples, waited_ns, now_ns, slowly);
}

int sn_member_waits_for_laggard(const sn_member *member)
{
    return member->regroup.row != SN_NONE;
}

int sn_member_may_draw(sn_member *member, uint64_t patience_ns, uint64_t now_ns)
{
    return !divides(member) ||
           sn_pacing_may_draw(&member->regroup, member->segment, drawn_of(member), patience_ns, now_ns);
}

uint64_t sn_member_place(const sn_member *member)
{
    return (uint64_t)member->options.epoch.epoch * member->chooser.order.perm.n + drawn_of(member);
}

void sn_member_near(sn_member *member, const sn_rendezvous *near)
{
    member->chooser.peers.hosts = *near;
}

static void make_apart(sn_item *item)
{
    item->awaited = SN_AWAITS_NOTHING;
    item->source = SN_STORAGE; /* its slot stays held until the place is settled */
}

int sn_member_check_awaited(sn_member *member, sn_item *const *items, uint32_t n_items, int takes_over,
                            const uint64_t blamed[SN_MAX_ROWS / 64])
{
    sn_segment *segment = member->segment;
    sn_chooser *chooser = &member->chooser;

    if (!segment || sn_store_enter(segment, member->apart ? 0 : RECHECK_MS) != 0) {
        for (uint32_t i = 0; i < n_items; i++)
            if (items[i]->awaited == SN_AWAITS_PEER ? takes_over : sn_bit_get(blamed, items[i]->peer)) {
                make_apart(items[i]);
                member->behind = 1;
            }
        return SN_BUSY;
    }
    sn_store_reap(segment, 0);
    sn_store_fold(segment);
    sn_holder_let_go(&member->holder);
    if (member->behind)
        catch_up(member);
    for (uint32_t row = sn_rows_next(blamed, 0); row < SN_MAX_ROWS; row = sn_rows_next(blamed, row + 1))
        sn_peers_blame(&chooser->peers, segment, row);
    sn_peers_find(&chooser->peers, &chooser->client, sn_choose_window(chooser));
    for (uint32_t i = 0; i < n_items; i++)
        sn_choose_again(chooser, takes_over, items[i]);
    sn_holder_let_go(&member->holder); /* what was given up: others lack its room */
    sn_store_leave(segment);
    return 0;
}

uint32_t sn_member_claims(const sn_member *member, const sn_item *items, uint32_t n_items, sn_claim *claims)
{
    uint32_t held = 0;

    for (uint32_t i = 0; i < n_items; i++) {
        const sn_item *item = &items[i];
        uint32_t slot = item->source_slot != SN_NONE ? item->source_slot : item->target_slot;

        claims[i] = (sn_claim){.sample = item->sample, .slot = SN_NONE, .awaited = item->awaited};
        held += slot != SN_NONE || item->awaited;
        if (slot == SN_NONE)
            continue;
        claims[i].slot = slot;
        claims[i].generation = member->segment->slots[slot].generation; /* held: it cannot change */
        claims[i].entry = item->source_slot != SN_NONE ? item->source_entry : item->target_entry;
    }
    return held;
}

void sn_member_done(sn_member *member, const sn_item *items, uint32_t n_items)
{
    for (uint32_t i = 0; i < n_items; i++) {
        sn_holder_done(&member->holder, items[i].source_entry);
        sn_holder_done(&member->holder, items[i].target_entry);
    }
}

void sn_member_offer_done(sn_member *member, const sn_offer *offer)
{
    sn_holder_done(&member->holder, offer->entry);
}

int sn_member_retire(sn_member *member)
{
    sn_segment *segment = member->segment;
    int rc = segment ? sn_store_enter(segment, SN_LOCK_DEADLINE_MS) : 0;

    if (!segment || rc != 0)
        return rc;
    sn_store_fold(segment);
    sn_holder_let_go(&member->holder);
    sn_row_retire(segment, member->holder.row);
    SN_CRASH_POINT(member_retired);
    if (member->subset_row != SN_NONE)
        sn_row_leave(segment, member->subset_row);
    member->subset_row = SN_NONE;
    sn_store_leave(segment);
    return 0;
}

void sn_member_close(sn_member *member)
{
    sn_segment *segment = member->segment;

    if (segment) {
        if (sn_store_enter(segment, SN_LOCK_DEADLINE_MS) == 0) {
            sn_store_fold(segment);
            sn_row_leave(segment, member->holder.row);
            if (member->subset_row != SN_NONE)
                sn_row_leave(segment, member->subset_row);
            sn_store_leave(segment);
        } else if (!atomic_load(&segment->forked)) {
            sn_row_desert(segment, member->holder.row);
            if (member->subset_row != SN_NONE)
                sn_row_desert(segment, member->subset_row);
        }
    }
    destroy(member);
}
