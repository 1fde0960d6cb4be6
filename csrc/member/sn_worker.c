#include "sn_worker.h"

#include <errno.h>
#include <stdlib.h>

#include "../base/sn_crash.h"
#include "../base/sn_status.h"
#include "../slots/sn_slots.h"
#include "../store/sn_rows.h"
#include "../store/sn_store.h"
#include "../store/sn_want.h"
#include "sn_exact_share.h"

#define RECHECK_MS 10 /* the longest wait for the lock; without it, what is awaited is checked again later */
#define SEQUENCE 4 /* so many samples at equal distances are no random order: of n, chance makes them once in n * n */

struct sn_worker {
    sn_client client; /* its holder NULL: private */
    int apart;        /* the lock was not to be had: it is only tried */
    sn_peers peers;   /* who is late, where copies are exact */

    /* Of the samples that nobody drew: the last, its distance from the one before, and how many are at equal distances. */
    uint32_t last, step, n_equal;

    /* Lines to let go of. Its own list: the holder's is the lock holder's to touch. */
    uint32_t *done;
    uint32_t n_done, capacity;
};

int sn_worker_open(const sn_client *client, sn_worker **out)
{
    sn_worker *worker = *out = calloc(1, sizeof *worker);

    if (!worker)
        return -ENOMEM;
    worker->client = sn_client_make(client, client->holder);
    return 0;
}

static void let_go(sn_worker *worker)
{
    for (uint32_t i = 0; i < worker->n_done; i++)
        sn_holder_done(worker->client.holder, worker->done[i]);
    worker->n_done = 0;
    sn_holder_let_go(worker->client.holder);
}

/* Others who draw for this pipeline read here how much room its copies take. */
static void publish_copy_bytes(sn_worker *worker)
{
    sn_row *self = &worker->client.holder->segment->rows[worker->client.holder->row];

    if (self->pipeline == worker->client.augmented_pipeline && self->copy_bytes == worker->client.copy_bytes)
        return;
    self->pipeline = worker->client.augmented_pipeline;
    SN_CRASH_POINT(worker_pipeline);
    self->copy_bytes = worker->client.copy_bytes;
}

/* Whether the member of this job that made the claims is still there. */
static int is_there(const sn_worker *worker, uint32_t row, uint32_t row_generation)
{
    const sn_segment *segment = worker->client.holder->segment;
    const sn_row *self = &segment->rows[worker->client.holder->row];

    return row < SN_MAX_ROWS && atomic_load(&segment->rows[row].state) == SN_ROW_LIVE &&
           segment->rows[row].generation == row_generation && segment->rows[row].job_key == self->job_key;
}

/* Whether it still holds what it claims. */
static int stands(const sn_worker *worker, uint32_t row, uint32_t row_generation, const sn_claim *claim)
{
    const sn_segment *segment = worker->client.holder->segment;

    if (!is_there(worker, row, row_generation) || claim->slot >= segment->n_slots || claim->entry >= segment->n_ledger)
        return 0;
    const sn_slot *slot = &segment->slots[claim->slot];
    return sn_ledger(segment, row)[claim->entry] == claim->slot + 1 && slot->generation == claim->generation &&
           slot->sample == claim->sample;
}

/* Take over what the member holds: 0, or SN_MISS. */
static int take_over(sn_worker *worker, uint32_t row, const sn_claim *claim, sn_item *item)
{
    sn_segment *segment = worker->client.holder->segment;
    uint32_t state = sn_slot_state(&segment->slots[claim->slot]);
    uint32_t entry = SN_NONE;

    if (state == SN_SLOT_READY || state == SN_SLOT_WRITING)
        entry = sn_holder_hold(worker->client.holder, claim->slot);
    SN_CRASH_POINT(claim_held_twice);
    sn_ledger_let_go(segment, row, claim->entry); /* after: held all the time */
    if (entry == SN_NONE)
        return SN_MISS;
    if (state == SN_SLOT_READY || claim->awaited == SN_AWAITS_COPY) {
        item->source = SN_AUGMENTED;
        item->source_slot = claim->slot;
        item->source_entry = entry;
        item->awaited = state == SN_SLOT_READY ? SN_AWAITS_NOTHING : SN_AWAITS_COPY;
        item->peer = (uint8_t)(segment->slots[claim->slot].writer_row % SN_MAX_ROWS);
    } else {
        item->target_slot = claim->slot;
        item->target_entry = entry;
    }
    return 0;
}

/* Where copies are exact, a sample that the member holds no copy of. One that another was to draw is waited for. */
static void look_up_exact(sn_worker *worker, uint32_t row, const sn_claim *claim, sn_item *item)
{
    int is_to_come = claim->awaited == SN_AWAITS_PEER;

    if (sn_exact_share_serve(&worker->peers, &worker->client, item->sample,
                             is_to_come ? SN_MAKES_NOTHING : SN_MAKES_ALL, 1, item) &&
        is_to_come)
        sn_want_taken(worker->client.holder->segment, row, item->sample);
}

/* Whether all samples of a batch that nobody drew continue a sequence: forwards, backwards or in the steps of a rank. */
static int continues_sequence(sn_worker *worker, const sn_claim *claims, uint32_t n_claims)
{
    for (uint32_t i = 0; i < n_claims; i++) {
        uint32_t step = claims[i].sample - worker->last;
        worker->n_equal = step == worker->step ? worker->n_equal + 1 : 2;
        worker->step = step;
        worker->last = claims[i].sample;
    }
    return worker->n_equal >= (n_claims > SEQUENCE ? n_claims : SEQUENCE);
}

int sn_worker_begin(sn_worker *worker, uint32_t row, uint32_t row_generation, const sn_claim *claims, uint32_t n_claims,
                    sn_item *items, sn_offer *offers, uint32_t n_offers)
{
    sn_segment *segment = worker->client.holder ? worker->client.holder->segment : NULL;

    worker->client.in_order = row == SN_NONE && continues_sequence(worker, claims, n_claims);
    for (uint32_t i = 0; i < n_claims; i++)
        sn_item_clear(&items[i], claims[i].sample);
    for (uint32_t i = 0; i < n_offers; i++)
        offers[i].slot = offers[i].entry = SN_NONE;
    if (!segment || sn_store_enter(segment, worker->apart ? 0 : SN_LOCK_DEADLINE_MS) != 0) {
        worker->apart = 1;
        return segment ? SN_BUSY : 0;
    }
    worker->apart = 0;
    sn_store_reap(segment, 0);
    sn_store_fold(segment);
    let_go(worker);
    if (worker->client.shares && worker->client.height == 0)
        publish_copy_bytes(worker);
    for (uint32_t i = 0; i < n_offers; i++)
        sn_serve_offer(&worker->client, &offers[i]);
    for (uint32_t i = 0; i < n_claims; i++) {
        sn_item *item = &items[i];

        if (item->sample >= segment->n_samples)
            continue;
        if (worker->client.exact && claims[i].awaited == SN_AWAITS_PEER && is_there(worker, row, row_generation)) {
            look_up_exact(worker, row, &claims[i], item);
            continue;
        }
        if (!stands(worker, row, row_generation, &claims[i])) {
            /* A member that drew it and holds nothing for it knows that nobody wants it. */
            sn_serve_any(&worker->client, item->sample, row == SN_NONE, item);
            continue;
        }
        if (take_over(worker, row, &claims[i], item) != 0 || item->source != SN_AUGMENTED)
            sn_serve_source(&worker->client, item->sample, item);
    }
    sn_store_leave(segment);
    return 0;
}

void sn_worker_name_copies(sn_worker *worker, uint64_t pipeline)
{
    worker->client.augmented_pipeline = pipeline;
}

void sn_worker_name_files(sn_worker *worker, uint32_t files_name)
{
    worker->client.files_name = files_name;
}

static int done(sn_worker *worker, uint32_t entry)
{
    if (entry == SN_NONE)
        return 0;
    if (worker->n_done == worker->capacity) {
        uint32_t capacity = 2 * worker->capacity + 64;
        uint32_t *larger = realloc(worker->done, capacity * sizeof *larger);
        if (!larger)
            return -ENOMEM;
        worker->done = larger;
        worker->capacity = capacity;
    }
    worker->done[worker->n_done++] = entry;
    return 0;
}

static void make_apart(sn_item *item)
{
    item->awaited = SN_AWAITS_NOTHING;
    item->source = SN_STORAGE; /* its slot stays held until the place is done with */
}

int sn_worker_check_awaited(sn_worker *worker, uint32_t row, uint32_t row_generation, sn_item *items, uint32_t n_items,
                            int takes_over, const uint64_t blamed[SN_MAX_ROWS / 64])
{
    sn_segment *segment = worker->client.holder ? worker->client.holder->segment : NULL;

    if (!segment || sn_store_enter(segment, worker->apart ? 0 : RECHECK_MS) != 0) {
        for (uint32_t i = 0; i < n_items; i++)
            if (items[i].awaited &&
                (items[i].awaited == SN_AWAITS_PEER ? takes_over : sn_bit_get(blamed, items[i].peer)))
                make_apart(&items[i]);
        return SN_BUSY;
    }
    sn_store_reap(segment, 0);
    sn_store_fold(segment);
    for (uint32_t peer = sn_rows_next(blamed, 0); peer < SN_MAX_ROWS; peer = sn_rows_next(blamed, peer + 1))
        sn_peers_blame(&worker->peers, segment, peer);
    for (uint32_t i = 0; i < n_items; i++) {
        uint32_t given_up;

        if (!items[i].awaited)
            continue;
        if (sn_exact_share_again(&worker->peers, &worker->client, takes_over ? SN_MAKES_ALL : SN_MAKES_NOTHING,
                                 &items[i], &given_up) &&
            is_there(worker, row, row_generation))
            sn_want_taken(segment, row, items[i].sample);
        if (done(worker, given_up) != 0)
            break; /* the line stays held until the worker is closed */
    }
    let_go(worker);
    sn_store_leave(segment);
    return 0;
}

int sn_worker_done(sn_worker *worker, const sn_item *items, uint32_t n_items)
{
    int rc = 0;

    for (uint32_t i = 0; i < n_items && rc == 0; i++) {
        rc = done(worker, items[i].source_entry);
        if (rc == 0)
            rc = done(worker, items[i].target_entry);
    }
    return rc;
}

int sn_worker_offer_done(sn_worker *worker, const sn_offer *offer)
{
    return done(worker, offer->entry);
}

void sn_worker_learn(sn_worker *worker, uint32_t copy_bytes)
{
    if (copy_bytes > worker->client.copy_bytes)
        worker->client.copy_bytes = copy_bytes;
}

void sn_worker_close(sn_worker *worker)
{
    sn_segment *segment = worker->client.holder ? worker->client.holder->segment : NULL;

    /* Without the lock the lines stay until the process leaves, which empties its ledger. */
    if (segment && worker->n_done > 0 && sn_store_enter(segment, SN_LOCK_DEADLINE_MS) == 0) {
        sn_store_fold(segment);
        let_go(worker);
        sn_store_leave(segment);
    }
    free(worker->done);
    free(worker);
}
