#include "sn_member.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../base/sn_bits.h"
#include "../base/sn_foresee.h"
#include "../base/sn_rng.h"
#include "../base/sn_status.h"
#include "../draw/sn_due.h"
#include "../slots/sn_slots.h"
#include "../slots/sn_space.h"
#include "sn_rows.h"
#include "sn_store.h"
#include "sn_subsets.h"
#include "sn_want.h"

#define DRAW_DEADLINE_MS 100
#define AT_ONCE 256u /* so many samples' lines are on their way from memory together */
#define TRIES 256u   /* at the most, to find what the poorest lacks: each is a word of 64 samples */

struct sn_member {
    sn_segment *segment; /* NULL: private */
    sn_holder holder;
    sn_client client;
    sn_member_options options;
    sn_order order;
    sn_due due;            /* begun where a member of its pipeline is on a subset */
    sn_subsets subsets;    /* what its classes are made of */
    uint32_t subset_row;   /* says which samples are its dataset's; SN_NONE: all, or no row was to be had */
    sn_rng choose;

    /* Lines that workers may claim; each is looked at in every draw until it is empty. */
    uint32_t *handed, n_handed;

    uint32_t prepared; /* of 65,536 samples, a mean over some 64 draws of this epoch: drawn to be prepared */

    int apart; /* drew without the lock since: the mirror is behind, the lock is only tried */
};

static uint32_t stage_need(const sn_member *member)
{
    if (!member->options.shares || member->client.copy_bytes == 0)
        return 0;
    return 2 * member->options.in_flight * sn_granules_for(member->client.copy_bytes);
}

/* Tell the others which samples its dataset has. Without a row for that it exchanges as if it had
 * all of them. */
static void publish_subset(sn_member *member, sn_segment *segment, const sn_participant *who)
{
    sn_participant subset = *who;
    const sn_order *order = &member->order;

    if (!order->samples || !member->options.shares)
        return;
    subset.kind = SN_ROW_SUBSET;
    subset.stage_need = 0;
    subset.subset = sn_subsets_key(order->samples, order->perm.n);
    if (sn_row_claim(segment, &subset, &member->subset_row) != 0)
        return;
    for (uint32_t i = 0; i < order->perm.n; i++)
        sn_bit_clear(sn_seen(segment, member->subset_row), order->samples[i]);
}

/* A row of its own in the segment, all under the lock. */
static int join(sn_member *member, sn_segment *segment)
{
    sn_participant who = {
        .kind = SN_ROW_MEMBER,
        .job_key = member->options.job_key,
        .pipeline = member->options.shares ? member->options.augmented_pipeline : 0,
        .stage_need = stage_need(member),
    };
    int rc = sn_store_enter(segment, DRAW_DEADLINE_MS);

    if (rc != 0)
        return rc;
    sn_store_reap(segment, 1);
    rc = sn_row_claim(segment, &who, &member->holder.row);
    if (rc == 0) {
        memcpy(sn_seen(segment, member->holder.row), member->order.taken, segment->row_words * 8);
        if (member->options.shares)
            sn_want_join(segment, member->holder.row);
        publish_subset(member, segment, &who);
        member->segment = segment;
    }
    sn_store_leave(segment);
    if (rc == 0)
        sn_segment_settle_room(segment, member->holder.row);
    if (member->subset_row != SN_NONE)
        sn_segment_settle_room(segment, member->subset_row);
    return rc;
}

static void destroy(sn_member *member)
{
    sn_order_free(&member->order);
    sn_due_free(&member->due);
    sn_subsets_free(&member->subsets);
    sn_holder_free(&member->holder);
    free(member->handed);
    free(member);
}

int sn_member_open(sn_segment *segment, const sn_member_options *options, sn_member **out, int *shared)
{
    *shared = 0;
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
    member->client = (sn_client){
        .holder = &member->holder,
        .decoded_pipeline = options->decoded_pipeline,
        .augmented_pipeline = options->augmented_pipeline,
        .height = options->height,
        .width = options->width,
        .copy_bytes = options->copy_bytes,
        .shares = options->shares,
        .keeps = options->keeps,
    };
    sn_rng_start(&member->choose, options->epoch.seed, options->job_key, options->epoch.epoch, 0, SN_STREAM_CHOOSE);

    int rc = sn_order_init(&member->order, &options->epoch);
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
    *shared = segment && join(member, segment) == 0;
    *out = member;
    return 0;
}

uint32_t sn_member_left(const sn_member *member)
{
    return member->order.left;
}

uint32_t sn_member_row(const sn_member *member, uint32_t *generation)
{
    *generation = member->segment ? member->segment->rows[member->holder.row].generation : 0;
    return member->holder.row;
}

uint32_t sn_member_copy_bytes(const sn_member *member)
{
    return member->client.copy_bytes;
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
    const uint64_t *live = segment->head->live_rows;
    uint32_t most = member->client.copy_bytes;

    for (uint32_t row = sn_rows_next(live, 0); row < SN_MAX_ROWS; row = sn_rows_next(live, row + 1))
        if (segment->rows[row].pipeline == member->options.augmented_pipeline && segment->rows[row].copy_bytes > most)
            most = segment->rows[row].copy_bytes;
    if (most == member->client.copy_bytes)
        return;
    member->client.copy_bytes = most;
    segment->rows[member->holder.row].stage_need = stage_need(member);
    sn_rows_derive_budgets(segment);
}

/* Bring the mirror up to what was drawn while the lock could not be had. */
static void catch_up(sn_member *member)
{
    sn_segment *segment = member->segment;
    uint32_t row = member->holder.row;
    sn_counted eligible = sn_eligible(segment, row);

    memcpy(sn_seen(segment, row), member->order.taken, segment->row_words * 8);
    for (uint64_t slot = sn_bits_next(eligible.words, 0, segment->n_stage, 1); slot < segment->n_stage;
         slot = sn_bits_next(eligible.words, slot + 1, segment->n_stage, 1))
        if (sn_order_is_taken(&member->order, segment->slots[slot].sample))
            sn_want_drop(segment, row, (uint32_t)slot);
    member->apart = 0;
}

static void take(sn_member *member, uint32_t sample)
{
    sn_order_take(&member->order, sample);
    sn_want_taken(member->segment, member->holder.row, sample);
}

/* Ask for what serving the next samples of its own touches. */
static void foresee(const sn_member *member, uint32_t n)
{
    uint32_t samples[AT_ONCE], known = 0;

    while (known < n && known < AT_ONCE && (samples[known] = sn_order_ahead(&member->order, known)) != SN_NONE)
        known++;
    for (uint32_t i = 0; i < known; i++) {
        sn_foresee(&member->segment->first[samples[i]]);
        sn_fetch(&member->order.taken[samples[i] >> 6]);
    }
    sn_want_foresee(member->segment, samples, known);
}

/* The same for copies, whose records are at hand. */
static void foresee_copies(const sn_member *member, const uint32_t *slots, uint32_t n)
{
    const sn_segment *segment = member->segment;
    const uint64_t *seen = sn_seen(segment, member->holder.row);

    for (uint32_t i = 0; i < n; i++) {
        uint32_t sample = segment->slots[slots[i]].sample;
        if (!segment->slots[slots[i]].alone)
            sn_foresee(&segment->first[sample]);
        sn_slot_foresee_move(segment, slots[i]);
        sn_fetch(&seen[sample >> 6]);
        sn_fetch(&member->order.taken[sample >> 6]);
    }
}

/* Serve staged copies that other jobs made, those first that the fewest want: what is taken by its
 * last leaves room. Answers how many of the `n` places are served. */
static uint32_t serve_substitutes(sn_member *member, uint32_t n, sn_item *items)
{
    sn_segment *segment = member->segment;
    uint32_t row = member->holder.row;
    sn_counted eligible = sn_eligible(segment, row);
    uint32_t slots[SN_PICK_MOST], served = 0, before;

    if (!member->options.shares || !member->options.substitutes)
        return 0;
    do {
        before = served;
        uint32_t picked = *eligible.total == 0 ? 0 :
            sn_want_pick(segment, row, sn_rng_below(&member->choose, *eligible.total), n - served, slots);
        for (uint32_t i = 0; i < picked; i++) {
            if (i % AT_ONCE == 0)
                foresee_copies(member, slots + i, picked - i < AT_ONCE ? picked - i : AT_ONCE);
            /* Of two copies of one sample the first that was taken ended the want of the other. */
            if (!sn_bit_get(eligible.words, slots[i]) ||
                sn_serve_copy(&member->client, slots[i], &items[served]) != 0)
                continue;
            sn_order_take(&member->order, items[served].sample);
            sn_want_served(segment, row, slots[i]);
            served++;
        }
    } while (served < n && served > before);
    return served;
}

/* Another job is making a copy of this sample that will serve this member. */
static int is_on_its_way(const sn_member *member, uint32_t sample)
{
    const sn_segment *segment = member->segment;
    uint32_t job = segment->rows[member->holder.row].job;

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

/* Prepare this sample, or for workers, in an order that is not Seneca's, serve it from a copy of it
 * that is there. */
static void serve_sample(sn_member *member, uint32_t sample, int forced, sn_item *item)
{
    uint32_t copy = member->options.hands_over ? sn_serve_find_copy(&member->client, sample) : SN_NONE;

    item->sample = sample;
    if (copy == SN_NONE || sn_serve_copy(&member->client, copy, item) != 0) {
        if (!member->options.hands_over)
            sn_serve_source(&member->client, sample, item);
        if (!forced)
            sn_serve_target(&member->client, sample, item);
    }
    take(member, sample);
}

static void serve_own(sn_member *member, sn_item *item)
{
    int forced;
    uint32_t sample = next_of_own(member, &forced);
    serve_sample(member, sample, forced, item);
}

static uint32_t enough_copies(const sn_member *member)
{
    return member->options.in_flight / 2;
}

/* Another job's member whose copies do not last for half of what this one has in flight, the one with the
 * fewest; SN_NONE: there is none. More than that is rarely there in a small stage. */
static uint32_t find_poorest(const sn_member *member)
{
    const sn_segment *segment = member->segment;
    const sn_row *self = &segment->rows[member->holder.row];
    const uint64_t *members = segment->head->member_rows;
    uint32_t fewest = enough_copies(member), poorest = SN_NONE;

    for (uint32_t row = sn_rows_next(members, 0); row < SN_MAX_ROWS; row = sn_rows_next(members, row + 1)) {
        const sn_row *other = &segment->rows[row];
        if (other->job != self->job && other->pipeline == self->pipeline && other->eligible < fewest) {
            fewest = other->eligible;
            poorest = row;
        }
    }
    return poorest;
}

/* Those of 64 samples that are left to this member and that the other lacks too. */
static uint64_t lacked_by_both(const sn_order *order, const uint64_t *seen, uint32_t word)
{
    uint64_t exist = word == order->n_samples / 64 ? ((uint64_t)1 << order->n_samples % 64) - 1 : ~(uint64_t)0;
    return ~(order->taken[word] | seen[word]) & exist;
}

/* Whether others follow this member: it prepares three quarters and more of its samples by itself (and has
 * for some ninety draws of the epoch, as its mean begins at 0). What the
 * followers lack it comes to anyway; what it prepared early for them, they could not prepare for it later. */
static int leads(const sn_member *member)
{
    return member->prepared >= 49152;
}

/* A member that runs out of copies prepares by itself next, and late in its epoch what it still lacks others
 * have had. So prepare first what the poorest lacks too. Answers how many of the `n` places are served.
 *
 * That may be few samples of many, so 64 are looked at at once. Each is as likely to be chosen: a word with k
 * of them is kept with probability k / most, and then each of these with 1 / k. */
static uint32_t serve_poorest(sn_member *member, uint32_t n, sn_item *items)
{
    const sn_order *order = &member->order;
    uint32_t served = 0, most = 0, words[TRIES];

    if (n == 0 || !member->options.shares || !member->options.substitutes || leads(member) ||
        member->segment->head->budget_of[SN_AUGMENTED] == 0)
        return 0;
    uint32_t poorest = find_poorest(member);
    if (poorest == SN_NONE)
        return 0;
    uint32_t short_of = enough_copies(member) - member->segment->rows[poorest].eligible;
    const uint64_t *seen = sn_seen(member->segment, poorest);
    for (uint32_t i = 0; i < TRIES; i++) {
        words[i] = sn_rng_below(&member->choose, (uint32_t)sn_bits_words(order->n_samples));
        sn_fetch(&order->taken[words[i]]);
        sn_fetch(&seen[words[i]]);
    }
    for (uint32_t i = 0; i < TRIES; i++) {
        uint32_t k = (uint32_t)__builtin_popcountll(lacked_by_both(order, seen, words[i]));
        most = k > most ? k : most;
    }
    for (uint32_t i = 0; most > 0 && i < TRIES && served < n && served < short_of; i++) {
        uint64_t lacked = lacked_by_both(order, seen, words[i]); /* fewer than before, where some were taken */
        uint32_t which = sn_rng_below(&member->choose, most);
        if (which >= (uint32_t)__builtin_popcountll(lacked))
            continue;
        for (; which > 0; which--)
            lacked &= lacked - 1;
        uint32_t sample = words[i] * 64 + (uint32_t)__builtin_ctzll(lacked);
        if (!is_on_its_way(member, sample))
            serve_sample(member, sample, 0, &items[served++]);
    }
    return served;
}

/* Copies to substitute by class, in the order in which they were picked. */
typedef struct {
    uint32_t slots[SN_PICK_MOST], n;
    uint64_t class_of[SN_PICK_MOST];
    uint64_t classes[SN_MAX_SUBSETS];
    uint32_t next_of[SN_MAX_SUBSETS], n_classes; /* where to look on for a copy of the class */
} sn_picks;

static void pick_by_class(sn_member *member, sn_picks *picks)
{
    sn_segment *segment = member->segment;
    uint32_t row = member->holder.row;

    picks->n = picks->n_classes = 0;
    if (segment->rows[row].eligible > 0)
        picks->n = sn_want_pick(segment, row, sn_rng_below(&member->choose, segment->rows[row].eligible), SN_PICK_MOST,
                                picks->slots);
    for (uint32_t i = 0; i < picks->n; i++)
        picks->class_of[i] = sn_subsets_class(&member->subsets, segment->slots[picks->slots[i]].sample);
}

static int serve_pick(sn_member *member, sn_picks *picks, uint64_t class, sn_item *item)
{
    sn_counted eligible = sn_eligible(member->segment, member->holder.row);
    uint32_t c = 0;

    while (c < picks->n_classes && picks->classes[c] != class)
        c++;
    if (c == SN_MAX_SUBSETS)
        return SN_MISS; /* of so many classes the last are not exchanged */
    if (c == picks->n_classes) {
        picks->classes[c] = class;
        picks->next_of[c] = 0;
        picks->n_classes++;
    }
    while (picks->next_of[c] < picks->n) {
        uint32_t i = picks->next_of[c]++;
        if (picks->class_of[i] == class && sn_bit_get(eligible.words, picks->slots[i]) &&
            sn_serve_copy(&member->client, picks->slots[i], item) == 0) {
            take(member, item->sample);
            return 0;
        }
    }
    return SN_MISS;
}

/* The queue from which the next place is filled, not empty; NULL: there is none, and *sample, where
 * it is not SN_NONE, found no room in one. */
static sn_due_queue *next_due(sn_member *member, uint32_t *sample)
{
    sn_due_queue *queue;

    while ((*sample = sn_due_next(&member->due, &member->order)) != SN_NONE) {
        queue = sn_due_of_class(&member->due, sn_subsets_class(&member->subsets, *sample));
        if (!sn_order_is_taken(&member->order, *sample) && (!queue || sn_due_push(queue, *sample) != 0))
            return NULL;
        if (queue && sn_due_trim(queue, &member->order))
            return queue;
    }
    for (uint32_t q = 0; q < member->due.n_queues; q++)
        if (sn_due_trim(&member->due.queues[q], &member->order))
            return &member->due.queues[q];
    return NULL;
}

/* Where datasets overlap: each place goes to a sample of the class that is due there. Answers how
 * many of the `n` places are served. */
static uint32_t serve_by_class(sn_member *member, uint32_t n, sn_item *items)
{
    sn_picks picks;
    uint32_t sample;

    if (!member->options.shares || !member->options.substitutes)
        return 0;
    int met = sn_subsets_look(&member->subsets, member->segment, member->options.augmented_pipeline);
    if (member->subsets.n == 0)
        return 0;
    if ((met > 0 || !sn_due_has_begun(&member->due)) && sn_due_begin(&member->due, &member->order) != 0 &&
        !sn_due_has_begun(&member->due))
        return 0; /* no memory to exchange by class with */
    pick_by_class(member, &picks);
    for (uint32_t i = 0; i < n; i++) {
        sn_due_queue *queue = next_due(member, &sample);
        if (!queue && sample == SN_NONE)
            return i;
        if (!queue) {
            serve_sample(member, sample, 0, &items[i]);
            continue;
        }
        if (serve_pick(member, &picks, queue->class, &items[i]) == 0)
            continue;
        uint32_t at = queue->begin; /* the first of the class that nobody is preparing, else the first */
        while (at < queue->end && (sn_order_is_taken(&member->order, queue->samples[at]) ||
                                   is_on_its_way(member, queue->samples[at])))
            at++;
        int forced = at == queue->end;
        serve_sample(member, queue->samples[forced ? queue->begin : at], forced, &items[i]);
    }
    return n;
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

static void hand(sn_member *member, uint32_t entry)
{
    if (entry != SN_NONE)
        member->handed[member->n_handed++] = entry;
}

/* Whether no other job draws. */
static int is_alone(const sn_member *member)
{
    const sn_header *head = member->segment->head;
    uint32_t job = member->segment->rows[member->holder.row].job;

    return memcmp(head->member_rows, head->members_of_job[job], sizeof head->member_rows) == 0;
}

int sn_member_draw(sn_member *member, uint32_t wanted, sn_item *items, uint32_t *drawn, sn_offer *offers,
                   uint32_t n_offers)
{
    sn_segment *segment = member->segment;

    sn_order_look_ahead(&member->order, wanted); /* while others may draw */
    int shared = segment && sn_store_enter(segment, member->apart ? 0 : DRAW_DEADLINE_MS) == 0;

    if (shared && wanted < member->options.wanted_alone && is_alone(member))
        wanted = member->options.wanted_alone;
    uint32_t n = wanted < member->order.left ? wanted : member->order.left;
    for (uint32_t i = 0; i < n; i++)
        sn_item_clear(&items[i], 0);
    for (uint32_t i = 0; i < n_offers; i++)
        offers[i].slot = offers[i].entry = SN_NONE;
    *drawn = n;
    if (!shared) {
        draw_apart(member, n, items);
        return segment ? SN_BUSY : 0;
    }

    sn_store_reap(segment, 0);
    sn_store_fold(segment);
    sn_holder_let_go(&member->holder);
    collect_claimed(member);
    if (member->apart)
        catch_up(member);
    if (member->options.shares && member->options.height == 0)
        learn_copy_bytes(member);
    for (uint32_t i = 0; i < n_offers; i++)
        sn_serve_offer(&member->client, &offers[i]);
    sn_order_begin(&member->order);
    uint32_t served = serve_by_class(member, n, items);
    if (served == 0)
        served = serve_substitutes(member, n, items);
    if (n > 0)
        member->prepared += (n - served) * 1024 / n - member->prepared / 64;
    served += serve_poorest(member, n - served, items + served);
    for (uint32_t i = 0; served < n; i++, served++) {
        if (i % AT_ONCE == 0)
            foresee(member, n - served);
        serve_own(member, &items[served]);
    }
    for (uint32_t i = 0; member->options.hands_over && i < n; i++) {
        hand(member, items[i].source_entry);
        hand(member, items[i].target_entry);
    }
    sn_store_leave(segment);
    return 0;
}

void sn_member_claims(const sn_member *member, const sn_item *items, uint32_t n_items, sn_claim *claims)
{
    for (uint32_t i = 0; i < n_items; i++) {
        const sn_item *item = &items[i];
        uint32_t slot = item->source_slot != SN_NONE ? item->source_slot : item->target_slot;

        claims[i] = (sn_claim){.sample = item->sample, .slot = SN_NONE};
        if (slot == SN_NONE)
            continue;
        claims[i].slot = slot;
        claims[i].generation = member->segment->slots[slot].generation; /* held: it cannot change */
        claims[i].entry = item->source_slot != SN_NONE ? item->source_entry : item->target_entry;
    }
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

void sn_member_close(sn_member *member)
{
    sn_segment *segment = member->segment;

    if (segment) {
        if (sn_store_enter(segment, DRAW_DEADLINE_MS) == 0) {
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
