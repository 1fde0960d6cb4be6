#include "sn_choose.h"

#include "../base/sn_bits.h"
#include "../base/sn_prefetch.h"
#include "../base/sn_status.h"
#include "../slots/sn_slots.h"
#include "../store/sn_want.h"

#define AT_ONCE 256u /* so many samples' lines are on their way from memory together */
#define TRIES 256u   /* at the most, to find what the poorest lacks: each is a word of 64 samples */

static sn_segment *segment_of(const sn_chooser *chooser)
{
    return chooser->client.holder->segment;
}

static uint32_t row_of(const sn_chooser *chooser)
{
    return chooser->client.holder->row;
}

static void take(sn_chooser *chooser, uint32_t sample)
{
    sn_order_take(&chooser->order, sample);
    sn_want_taken(segment_of(chooser), row_of(chooser), sample);
}

/* Ask for what serving the next samples of its own touches. */
static void prefetch(const sn_chooser *chooser, uint32_t n)
{
    uint32_t samples[AT_ONCE], known = 0;

    while (known < n && known < AT_ONCE && (samples[known] = sn_order_ahead(&chooser->order, known)) != SN_NONE)
        known++;
    for (uint32_t i = 0; i < known; i++) {
        sn_prefetch(&segment_of(chooser)->first[samples[i]]);
        sn_fetch(&chooser->order.taken[samples[i] >> 6]);
    }
    sn_want_prefetch(segment_of(chooser), samples, known);
}

/* The same for copies, whose records are at hand. */
static void prefetch_copies(const sn_chooser *chooser, const uint32_t *slots, uint32_t n)
{
    const sn_segment *segment = segment_of(chooser);

    for (uint32_t i = 0; i < n; i++) {
        if (!segment->slots[slots[i]].alone)
            sn_prefetch(&segment->first[segment->slots[slots[i]].sample]);
        sn_slot_prefetch_move(segment, slots[i]);
    }
}

/* Take samples that no slot but the served one holds anything of: there is no other copy to lose its want. In a
 * loop of their own their lines come from memory together. */
static void take_alone(sn_chooser *chooser, const uint32_t *samples, uint32_t n)
{
    uint64_t *seen = sn_seen(segment_of(chooser), row_of(chooser));

    for (uint32_t i = 0; i < n; i++) {
        sn_bit_set(seen, samples[i]);
        sn_order_take(&chooser->order, samples[i]);
    }
}

/* Serve staged copies that other jobs made, those first that the fewest want: what is taken by its
 * last leaves room. Answers how many of the `n` places are served. */
static uint32_t serve_substitutes(sn_chooser *chooser, uint32_t n, sn_item *items)
{
    sn_segment *segment = segment_of(chooser);
    uint32_t row = row_of(chooser);
    sn_counted eligible = sn_eligible(segment, row);
    uint32_t slots[SN_PICK_MOST], alone[SN_PICK_MOST], served = 0, before;

    do {
        uint32_t n_alone = 0;
        before = served;
        uint32_t picked =
            *eligible.total == 0
                ? 0
                : sn_want_pick(segment, row, sn_rng_below(&chooser->rng, *eligible.total), n - served, slots);
        for (uint32_t i = 0; i < picked; i++) {
            if (i % AT_ONCE == 0)
                prefetch_copies(chooser, slots + i, picked - i < AT_ONCE ? picked - i : AT_ONCE);
            int is_alone = segment->slots[slots[i]].alone;
            /* Of two copies of one sample the first that was taken ended the want of the other. */
            if (!sn_bit_get(eligible.words, slots[i]) || sn_serve_copy(&chooser->client, slots[i], &items[served]) != 0)
                continue;
            if (is_alone)
                alone[n_alone++] = items[served].sample;
            else
                take(chooser, items[served].sample);
            served++;
        }
        take_alone(chooser, alone, n_alone);
    } while (served < n && served > before);
    return served;
}

/* Another job is making a copy of this sample that will serve this member. */
static int is_on_its_way(const sn_chooser *chooser, uint32_t sample)
{
    const sn_segment *segment = segment_of(chooser);
    uint32_t job = segment->rows[row_of(chooser)].job % SN_MAX_JOBS;

    SN_EACH_OF_SAMPLE (segment, sample, s) {
        const sn_slot *copy = &segment->slots[s];
        if (copy->list == SN_LIST_WRITING && copy->form == SN_AUGMENTED && !(copy->uses >> job & 1) &&
            copy->pipeline == chooser->client.augmented_pipeline && !copy->in_order &&
            sn_slot_state(copy) != SN_SLOT_FAILED)
            return 1;
    }
    return 0;
}

/* The next sample of its own order that nobody is preparing; when there is none left, one that
 * somebody is: passing over never blocks. */
static uint32_t next_of_own(sn_chooser *chooser, int *forced)
{
    uint32_t sample;

    *forced = 0;
    while ((sample = sn_order_next(&chooser->order)) != SN_NONE)
        if (!chooser->exchanges || !is_on_its_way(chooser, sample) || sn_order_defer(&chooser->order, sample) != 0)
            return sample;
    *forced = 1;
    return sn_order_force(&chooser->order);
}

/* Prepare this sample, or for workers, in an order that is not Seneca's, serve it from a copy of it
 * that is there. */
static void serve_sample(sn_chooser *chooser, uint32_t sample, int forced, sn_item *item)
{
    uint32_t copy = chooser->hands_over ? sn_serve_find_copy(&chooser->client, sample) : SN_NONE;

    item->sample = sample;
    if (copy == SN_NONE || sn_serve_copy(&chooser->client, copy, item) != 0) {
        if (!chooser->hands_over)
            sn_serve_source(&chooser->client, sample, item);
        if (!forced)
            sn_serve_target(&chooser->client, sample, item);
    }
    take(chooser, sample);
}

/* Where copies are exact. Until it is known who serves the sample, the member wants it as far as others can see. */
static void serve_exact(sn_chooser *chooser, sn_item *item)
{
    uint32_t sample = sn_order_next(&chooser->order);

    if (sn_exact_share_serve(&chooser->peers, &chooser->client, sample, SN_MAKES_OWN, !chooser->hands_over, item))
        take(chooser, sample);
    else
        sn_order_take(&chooser->order, sample);
}

void sn_choose_again(sn_chooser *chooser, int takes_over, sn_item *item)
{
    uint32_t given_up;

    if (sn_exact_share_again(&chooser->peers, &chooser->client, takes_over ? SN_MAKES_ALL : SN_MAKES_OWN, item,
                             &given_up))
        sn_want_taken(segment_of(chooser), row_of(chooser), item->sample);
    sn_holder_done(chooser->client.holder, given_up);
}

/* Half of what is in flight: the other half is the time in which the peer makes what this member comes to next. */
uint32_t sn_choose_window(const sn_chooser *chooser)
{
    return chooser->in_flight / 2;
}

static void serve_own(sn_chooser *chooser, sn_item *item)
{
    int forced;
    uint32_t sample = next_of_own(chooser, &forced);
    serve_sample(chooser, sample, forced, item);
}

static uint32_t enough_copies(const sn_chooser *chooser)
{
    return chooser->in_flight / 2;
}

/* Another job's member whose copies do not last for half of what this one has in flight, the one with the
 * fewest; SN_NONE: there is none. More than that is rarely there in a small stage. One that has drawn its epoch
 * through counts as well, while its last batches are on their way. */
static uint32_t find_poorest(const sn_chooser *chooser)
{
    const sn_segment *segment = segment_of(chooser);
    const sn_row *self = &segment->rows[row_of(chooser)];
    const uint64_t *members = segment->head->member_rows;
    uint32_t fewest = enough_copies(chooser), poorest = SN_NONE;

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

/* Whether others follow this member: it prepares three quarters and more of its samples by itself (and has for
 * some ninety draws of the epoch, as its mean begins at 0). What the followers lack it comes to anyway; what it
 * prepared early for them, they could not prepare for it later. */
static int leads(const sn_chooser *chooser)
{
    return chooser->prepared >= 49152;
}

/* A member that runs out of copies prepares by itself next, and late in its epoch what it still lacks others
 * have had. So prepare first what the poorest lacks too. Answers how many of the `n` places are served.
 *
 * That may be few samples of many, so 64 are examined at once. Each is as likely to be chosen: a word with k
 * of them is kept with probability k / most, and then each of these with 1 / k. */
static uint32_t serve_poorest(sn_chooser *chooser, uint32_t n, sn_item *items)
{
    const sn_order *order = &chooser->order;
    uint32_t served = 0, most = 0, words[TRIES];

    if (n == 0 || leads(chooser) || segment_of(chooser)->head->budget_of[SN_AUGMENTED] == 0)
        return 0;
    uint32_t poorest = find_poorest(chooser);
    if (poorest == SN_NONE)
        return 0;
    uint32_t short_of = enough_copies(chooser) - segment_of(chooser)->rows[poorest].eligible;
    const uint64_t *seen = sn_seen(segment_of(chooser), poorest);
    for (uint32_t i = 0; i < TRIES; i++) {
        words[i] = sn_rng_below(&chooser->rng, (uint32_t)sn_bits_words(order->n_samples));
        sn_fetch(&order->taken[words[i]]);
        sn_fetch(&seen[words[i]]);
    }
    for (uint32_t i = 0; i < TRIES; i++) {
        uint32_t k = (uint32_t)__builtin_popcountll(lacked_by_both(order, seen, words[i]));
        most = k > most ? k : most;
    }
    for (uint32_t i = 0; most > 0 && i < TRIES && served < n && served < short_of; i++) {
        uint64_t lacked = lacked_by_both(order, seen, words[i]); /* fewer than before, where some were taken */
        uint32_t which = sn_rng_below(&chooser->rng, most);
        if (which >= (uint32_t)__builtin_popcountll(lacked))
            continue;
        for (; which > 0; which--)
            lacked &= lacked - 1;
        uint32_t sample = words[i] * 64 + (uint32_t)__builtin_ctzll(lacked);
        if (!is_on_its_way(chooser, sample))
            serve_sample(chooser, sample, 0, &items[served++]);
    }
    return served;
}

/* Copies to substitute by class, in the order in which they were picked. */
typedef struct {
    uint32_t slots[SN_PICK_MOST], n;
    uint64_t class_of[SN_PICK_MOST];
    uint64_t classes[SN_MAX_SUBSETS];
    uint32_t next_of[SN_MAX_SUBSETS], n_classes; /* where to search on for a copy of the class */
} sn_picks;

static void pick_by_class(sn_chooser *chooser, sn_picks *picks)
{
    sn_segment *segment = segment_of(chooser);
    uint32_t row = row_of(chooser);

    picks->n = picks->n_classes = 0;
    if (segment->rows[row].eligible > 0)
        picks->n = sn_want_pick(segment, row, sn_rng_below(&chooser->rng, segment->rows[row].eligible), SN_PICK_MOST,
                                picks->slots);
    for (uint32_t i = 0; i < picks->n; i++)
        picks->class_of[i] = segment->slots[picks->slots[i]].sample < segment->n_samples
                                 ? sn_subsets_class(&chooser->subsets, segment->slots[picks->slots[i]].sample)
                                 : 0;
}

static int serve_pick(sn_chooser *chooser, sn_picks *picks, uint64_t class, sn_item *item)
{
    sn_counted eligible = sn_eligible(segment_of(chooser), row_of(chooser));
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
            sn_serve_copy(&chooser->client, picks->slots[i], item) == 0) {
            take(chooser, item->sample);
            return 0;
        }
    }
    return SN_MISS;
}

/* The queue from which the next place is filled, not empty; NULL: there is none, and *sample, where
 * it is not SN_NONE, found no room in one. */
static sn_due_queue *next_due(sn_chooser *chooser, uint32_t *sample)
{
    sn_due_queue *queue;

    while ((*sample = sn_due_next(&chooser->due, &chooser->order)) != SN_NONE) {
        queue = sn_due_of_class(&chooser->due, sn_subsets_class(&chooser->subsets, *sample));
        if (!sn_order_is_taken(&chooser->order, *sample) && (!queue || sn_due_push(queue, *sample) != 0))
            return NULL;
        if (queue && sn_due_trim(queue, &chooser->order))
            return queue;
    }
    for (uint32_t q = 0; q < chooser->due.n_queues; q++)
        if (sn_due_trim(&chooser->due.queues[q], &chooser->order))
            return &chooser->due.queues[q];
    return NULL;
}

/* Where datasets overlap: each place goes to a sample of the class that is due there. Answers how
 * many of the `n` places are served. */
static uint32_t serve_by_class(sn_chooser *chooser, uint32_t n, sn_item *items)
{
    sn_picks picks;
    uint32_t sample;

    int met = sn_subsets_update(&chooser->subsets, segment_of(chooser), chooser->client.augmented_pipeline);
    if (chooser->subsets.n == 0)
        return 0;
    if ((met > 0 || !sn_due_has_begun(&chooser->due)) && sn_due_begin(&chooser->due, &chooser->order) != 0 &&
        !sn_due_has_begun(&chooser->due))
        return 0; /* no memory to exchange by class with */
    pick_by_class(chooser, &picks);
    for (uint32_t i = 0; i < n; i++) {
        sn_due_queue *queue = next_due(chooser, &sample);
        if (!queue && sample == SN_NONE)
            return i;
        if (!queue) {
            serve_sample(chooser, sample, 0, &items[i]);
            continue;
        }
        if (serve_pick(chooser, &picks, queue->class, &items[i]) == 0)
            continue;
        uint32_t at = queue->begin; /* the first of the class that nobody is preparing, else the first */
        while (at < queue->end &&
               (sn_order_is_taken(&chooser->order, queue->samples[at]) || is_on_its_way(chooser, queue->samples[at])))
            at++;
        int forced = at == queue->end;
        chooser->order.in_turn = at == queue->begin ? queue->samples[at] : SN_NONE;
        serve_sample(chooser, queue->samples[forced ? queue->begin : at], forced, &items[i]);
    }
    return n;
}

void sn_choose(sn_chooser *chooser, uint32_t n, sn_item *items)
{
    uint32_t served = 0;

    sn_order_begin(&chooser->order);
    if (chooser->client.exact)
        sn_peers_find(&chooser->peers, &chooser->client, sn_choose_window(chooser));
    if (chooser->exchanges) {
        served = serve_by_class(chooser, n, items);
        if (served == 0)
            served = serve_substitutes(chooser, n, items);
        chooser->exchanged |= served > 0;
        if (n > 0)
            chooser->prepared += (n - served) * 1024 / n - chooser->prepared / 64;
        served += serve_poorest(chooser, n - served, items + served);
    }
    for (uint32_t i = 0; served < n; i++, served++) {
        if (i % AT_ONCE == 0)
            prefetch(chooser, n - served);
        if (chooser->client.exact)
            serve_exact(chooser, &items[served]);
        else
            serve_own(chooser, &items[served]);
    }
}

void sn_chooser_free(sn_chooser *chooser)
{
    sn_order_free(&chooser->order);
    sn_due_free(&chooser->due);
    sn_subsets_free(&chooser->subsets);
}
