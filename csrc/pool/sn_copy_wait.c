#include "sn_copy_wait.h"

#include "../base/sn_bits.h"
#include "../base/sn_clock.h"
#include "../base/sn_status.h"
#include "../shm/sn_row.h"
#include "../slots/sn_slots.h"

/* A check takes a core from somebody who prepares, and the copy that it misses by a little waits for the next. Four jobs on two
 * cores got 0.88, 0.90 and 0.89 of the rate of share="augmented" with 0.1, 0.4 and 1 ms, with batches of 8. */
#define LEAST_PAUSE_NS 400000u
#define MOST_PAUSE_NS 1000000u
#define AT_ONCE 256u /* places that are checked in one section */

static const uint64_t nobody[SN_MAX_ROWS / 64];

/* The most that anything is waited for: also a laggard, which shares the cores with all others, and may get none for a while. */
static uint64_t most_patience_ns(uint64_t mean_ns)
{
    return 2 * mean_ns < SN_MOST_PATIENCE_NS ? SN_MOST_PATIENCE_NS : 2 * mean_ns;
}

uint64_t sn_patience_ns(uint64_t mean_ns)
{
    if (4 * mean_ns < SN_LEAST_PATIENCE_NS)
        return SN_LEAST_PATIENCE_NS;
    return 4 * mean_ns < SN_MOST_PATIENCE_NS ? 4 * mean_ns : most_patience_ns(mean_ns);
}

int sn_copy_wait_turn(sn_copy_wait *await, sn_pool *pool, sn_member *member, int timeout_ms)
{
    if (!sn_member_waits_for_laggard(member))
        return 0;
    uint64_t patience = most_patience_ns(sn_pool_mean_ns(pool)), now = sn_now_ns();
    uint64_t until = now + (uint64_t)timeout_ms * 1000000;
    struct timespec pause = {.tv_nsec = MOST_PAUSE_NS};
    int was_interrupted = 0;

    while (!sn_member_may_draw(member, patience, now)) {
        if (now >= until || was_interrupted)
            return SN_BUSY;
        was_interrupted = nanosleep(&pause, NULL) != 0;
        uint64_t slept = sn_now_ns() - now;
        await->before_draw_ns += slept;
        now += slept;
    }
    return 0;
}

void sn_copy_wait_begin(sn_copy_wait *await, sn_member *member, sn_batch *batch)
{
    if (batch->context->hosts) {
        sn_rendezvous near;
        sn_hosts_near(batch->context->hosts, sn_member_place(member), &near);
        sn_member_near(member, &near);
    }
    batch->slowly = await->before_draw_ns > 0 || sn_member_waits_for_laggard(member);
    batch->peer_wait_ns = await->before_draw_ns;
    await->before_draw_ns = 0;
}

void sn_copy_wait_add(sn_copy_wait *await, sn_batch *batch)
{
    batch->n_awaited = 0;
    for (uint32_t i = 0; i < batch->n_places; i++) {
        if (batch->places[i].item.awaited) {
            batch->places[i].stage = SN_AWAITED;
            batch->places[i].is_held_back = 1;
            batch->n_awaited++;
        }
    }
    if (batch->n_awaited == 0)
        return;
    batch->next_awaiting = NULL;
    if (await->last)
        await->last->next_awaiting = batch;
    else
        await->first = batch;
    await->last = batch;
}

void sn_copy_wait_forget(sn_copy_wait *await, sn_batch *batch)
{
    sn_batch *before = NULL, *at = await->first;

    for (; at && at != batch; at = at->next_awaiting)
        before = at;
    if (!at)
        return;
    if (before)
        before->next_awaiting = batch->next_awaiting;
    else
        await->first = batch->next_awaiting;
    if (await->last == batch)
        await->last = before;
    batch->n_awaited = 0;
}

static void release(sn_pool *pool, sn_batch_item *place)
{
    place->batch->n_awaited--;
    place->is_held_back = 0;
    sn_batch_doubt(place);
    sn_batch_note(place->batch->context, &place->item);
    sn_pool_release(pool, place);
}

/* What awaits nothing any more, of a batch. */
static void release_settled(sn_pool *pool, sn_batch *batch)
{
    for (uint32_t i = 0; i < batch->n_places; i++)
        if (batch->places[i].is_held_back && batch->places[i].item.awaited == SN_AWAITS_NOTHING)
            release(pool, &batch->places[i]);
}

/* Without the lock: the copies that are READY. The writers of these have gone on. */
static void find_ready(sn_copy_wait *await, sn_pool *pool)
{
    for (sn_batch *batch = await->first; batch; batch = batch->next_awaiting) {
        for (uint32_t i = 0; batch->n_awaited > 0 && i < batch->n_places; i++) {
            sn_batch_item *place = &batch->places[i];
            if (!place->is_held_back || place->item.awaited != SN_AWAITS_COPY ||
                sn_slot_state(&batch->context->segment->slots[place->item.source_slot]) != SN_SLOT_READY)
                continue;
            await->since_ns[place->item.peer] = sn_now_ns();
            place->item.awaited = SN_AWAITS_NOTHING;
            release(pool, place);
        }
    }
}

/* Under the lock: check again what one batch awaits. `what`: only for places that await this; 0: for all. */
static void check_awaited(sn_pool *pool, sn_member *member, sn_batch *batch, uint32_t what, int takes_over,
                          const uint64_t *blamed)
{
    sn_item *items[AT_ONCE];
    uint32_t n = 0;

    for (uint32_t i = 0; i < batch->n_places; i++) {
        sn_batch_item *place = &batch->places[i];
        if (place->is_held_back && (what == 0 || place->item.awaited == what)) {
            place->was_coming |= place->item.awaited == SN_AWAITS_COPY;
            items[n++] = &place->item;
        }
        if (n == AT_ONCE || (n > 0 && i + 1 == batch->n_places)) {
            sn_member_check_awaited(member, items, n, takes_over, blamed);
            n = 0;
        }
    }
    release_settled(pool, batch);
}

static void forget_settled(sn_copy_wait *await)
{
    for (sn_batch *batch = await->first, *next; batch; batch = next) {
        next = batch->next_awaiting;
        if (batch->n_awaited == 0)
            sn_copy_wait_forget(await, batch);
    }
}

void sn_copy_wait_poll(sn_copy_wait *await, sn_pool *pool, sn_member *member)
{
    find_ready(await, pool);
    forget_settled(await);
    for (sn_batch *batch = await->first; batch; batch = batch->next_awaiting)
        check_awaited(pool, member, batch, SN_AWAITS_PEER, 0, nobody);
    forget_settled(await);
}

/* Nothing is left to do here: make what others have not drawn, of the earliest batch that has some. */
static void take_over(sn_copy_wait *await, sn_pool *pool, sn_member *member)
{
    for (sn_batch *batch = await->first; batch; batch = batch->next_awaiting)
        for (uint32_t i = 0; i < batch->n_places; i++)
            if (batch->places[i].is_held_back && batch->places[i].item.awaited == SN_AWAITS_PEER) {
                check_awaited(pool, member, batch, SN_AWAITS_PEER, 1, nobody);
                return;
            }
}

/* The state of the copy that a place of `batch` awaits. */
static uint32_t copy_state(const sn_batch *batch, const sn_batch_item *place)
{
    return sn_slot_state(&batch->context->segment->slots[place->item.source_slot]);
}

/* When the clock of a writer begins that was not waited for before: when the wait did. So a wait gets no longer if one
 * writer after the other does not come; but each has the least patience. */
static uint64_t clock_from(const sn_batch *batch, uint64_t now, uint64_t patience)
{
    uint64_t latest = now - (patience - SN_LEAST_PATIENCE_NS);
    return batch->peer_wait_from_ns > latest ? batch->peer_wait_from_ns : latest;
}

/* Nothing of `batch` is left but copies that others write. Begin the clocks of these, and find whose says that this
 * was long enough: a bit for each in `blamed`. Whether anything is to be made here: a copy may have failed, too. */
static int find_overdue(sn_copy_wait *await, uint64_t mean_ns, sn_batch *batch, uint64_t *blamed)
{
    uint64_t now = sn_now_ns(), patience = sn_patience_ns(mean_ns);
    int any = 0;

    if (batch->peer_wait_from_ns == 0)
        batch->peer_wait_from_ns = now;

    for (uint32_t i = 0; i < batch->n_places; i++) {
        const sn_batch_item *place = &batch->places[i];
        if (!place->is_held_back || place->item.awaited != SN_AWAITS_COPY)
            continue;
        uint64_t *since = &await->since_ns[place->item.peer];
        if (*since < batch->peer_wait_from_ns)
            *since = clock_from(batch, now, patience);
        if (copy_state(batch, place) == SN_SLOT_READY)
            continue;
        if (copy_state(batch, place) != SN_SLOT_WRITING)
            any = 1;
        else if (now - *since > patience)
            sn_bit_set(blamed, place->item.peer);
    }
    return any || sn_rows_next(blamed, 0) < SN_MAX_ROWS;
}

/* Make here what is overdue. Of later batches only what was to come from the blamed is shared out anew. */
static void give_up(sn_copy_wait *await, sn_pool *pool, sn_member *member, sn_batch *batch, const uint64_t *blamed)
{
    check_awaited(pool, member, batch, 0, 1, blamed);
    for (sn_batch *later = await->first; later; later = later->next_awaiting)
        if (later != batch)
            check_awaited(pool, member, later, 0, 0, blamed);
}

int sn_copy_wait_batch(sn_copy_wait *await, sn_pool *pool, sn_member *member, sn_batch *batch, int timeout_ms)
{
    uint64_t began = sn_now_ns(), until = began + (uint64_t)timeout_ms * 1000000, pause = LEAST_PAUSE_NS;
    int rc;

    for (;;) {
        uint64_t blamed[SN_MAX_ROWS / 64] = {0}, now = sn_now_ns(), left = now < until ? until - now : 0;

        if (!await->first) {
            rc = sn_pool_wait_until(pool, batch, until);
            break;
        }
        int is_waiting = batch->n_awaited > 0 && sn_pool_get_load(pool, batch).left == batch->n_awaited;
        rc = sn_pool_wait_until(pool, batch, now + (pause < left ? pause : left));
        if (is_waiting)
            batch->peer_wait_ns += sn_now_ns() - now;
        if (rc == 0 || left == 0)
            break;
        uint32_t before = batch->n_awaited;
        find_ready(await, pool);
        sn_pool_load load = sn_pool_get_load(pool, batch);
        if (load.is_idle)
            take_over(await, pool, member);
        if (is_waiting && find_overdue(await, load.mean_ns, batch, blamed))
            give_up(await, pool, member, batch, blamed);
        forget_settled(await);
        pause = batch->n_awaited < before ? LEAST_PAUSE_NS : pause < MOST_PAUSE_NS ? 2 * pause : pause;
    }
    uint64_t ended = sn_now_ns();
    batch->wait_ns += ended - began;
    if (rc == 0)
        sn_member_taken(member, batch->n_places, batch->wait_ns, ended, batch->slowly);
    return rc;
}
