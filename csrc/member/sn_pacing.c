#include "sn_pacing.h"

#include <string.h>

#include "../shm/sn_row.h"
#include "../slots/sn_space.h"

#define LEAST_BATCHES 4u /* taken, before anything is said about what the limit is */
#define MOST_BATCHES 32u /* then the older half counts half */
#define LIMIT_SHARE 4u   /* the loader is the limit if the loop waits for a quarter of its time */
#define SLOW 2u          /* so many times the expected time is too long */

void sn_pacing_init(sn_pacing *regroup)
{
    memset(regroup, 0, sizeof *regroup);
    regroup->row = SN_NONE;
}

static uint32_t drawn_by(const sn_segment *segment, uint32_t row)
{
    return atomic_load_explicit(&segment->rows[row].drawn, memory_order_relaxed);
}

static uint32_t order_of(const sn_segment *segment, uint32_t row)
{
    return atomic_load_explicit(&segment->rows[row].order, memory_order_relaxed);
}

static uint32_t progress_of(const sn_segment *segment, uint32_t row)
{
    return atomic_load_explicit(&segment->telemetry[row].progress, memory_order_relaxed);
}

static int waits(const sn_segment *segment, uint32_t row)
{
    return atomic_load_explicit(&segment->telemetry[row].waits, memory_order_relaxed) != 0;
}

void sn_pacing_taken(sn_pacing *regroup, const sn_segment *segment, uint32_t row, uint32_t samples, uint64_t waited_ns,
                     uint64_t now_ns, int slowly)
{
    uint64_t before = regroup->taken_at_ns;

    regroup->taken_at_ns = slowly ? 0 : now_ns;
    if (slowly || before == 0)
        return;
    if (regroup->batches == MOST_BATCHES) {
        regroup->waited_ns /= 2;
        regroup->passed_ns /= 2;
        regroup->samples /= 2;
        regroup->batches /= 2;
    }
    regroup->waited_ns += waited_ns;
    regroup->passed_ns += now_ns - before;
    regroup->samples += samples;
    regroup->batches++;
    int limits = regroup->batches >= LEAST_BATCHES && regroup->samples > 0 &&
                 regroup->waited_ns * LIMIT_SHARE >= regroup->passed_ns;
    if (limits != regroup->waits)
        atomic_store_explicit(&segment->telemetry[row].waits, (uint32_t)limits, memory_order_relaxed);
    regroup->waits = limits;
}

/* Copies that the members of this pipeline have room for: of a stage that others use too, their share. */
static uint64_t room(const sn_client *client, uint32_t members, uint32_t mine)
{
    uint64_t budget = client->holder->segment->head->budget_of[SN_AUGMENTED];

    return budget * mine / members / sn_granules_for(client->copy_bytes);
}

typedef struct {
    uint32_t rows[SN_MAX_ROWS], gaps[SN_MAX_ROWS], n; /* members that are behind, and by how much */
    uint32_t in_front;                                /* this one, and those that are not behind it */
    uint64_t room;
} field;

static void survey(const sn_pacing *regroup, const sn_client *client, uint32_t window, field *seen)
{
    const sn_segment *segment = client->holder->segment;
    const uint64_t *members = segment->head->member_rows;
    uint32_t self = client->holder->row, order = order_of(segment, self), drawn = drawn_by(segment, self);
    uint32_t all = 0, mine = 0;

    seen->n = 0;
    seen->in_front = 1;
    for (uint32_t row = sn_rows_next(members, 0); row < SN_MAX_ROWS; row = sn_rows_next(members, row + 1)) {
        const sn_row *other = &segment->rows[row];
        all++;
        mine += other->pipeline == client->augmented_pipeline;
        if (other->job == segment->rows[self].job || other->pipeline != client->augmented_pipeline ||
            order_of(segment, row) != order)
            continue;
        uint32_t behind = drawn - drawn_by(segment, row);
        if (drawn <= drawn_by(segment, row) || behind <= window) {
            seen->in_front++;
        } else if (waits(segment, row) && regroup->over[row] != other->generation) {
            seen->rows[seen->n] = row;
            seen->gaps[seen->n++] = behind;
        }
    }
    seen->room = room(client, all, mine);
}

/* The last of those that it pays to wait for; SN_NONE. While half of the stage holds the samples between, the stage
 * serves them. The other half is for what is made until it has come to the first of these copies. */
static uint32_t choose(const field *seen, uint32_t left)
{
    uint32_t chosen = SN_NONE;

    for (uint32_t i = 0; i < seen->n; i++) {
        uint64_t gap = seen->gaps[i], would_come = 0;
        if (2 * gap <= seen->room || (chosen != SN_NONE && gap <= seen->gaps[chosen]))
            continue;
        for (uint32_t k = 0; k < seen->n; k++)
            would_come += seen->gaps[k] <= gap;
        if (gap * seen->in_front <= left * would_come)
            chosen = i;
    }
    return chosen;
}

/* The index of the one that is waited for so far; SN_NONE. */
static uint32_t position(const sn_pacing *regroup, const sn_segment *segment, const field *seen)
{
    for (uint32_t i = 0; i < seen->n; i++)
        if (seen->rows[i] == regroup->row && segment->rows[regroup->row].generation == regroup->generation)
            return i;
    return SN_NONE;
}

void sn_pacing_find(sn_pacing *regroup, const sn_client *client, uint32_t window, uint32_t left, uint32_t drew)
{
    const sn_segment *segment = client->holder->segment;
    field seen;

    if (!regroup->waits || !client->shares || client->copy_bytes == 0) {
        regroup->row = SN_NONE;
        return;
    }
    survey(regroup, client, window, &seen);
    uint32_t chosen = choose(&seen, left), before = position(regroup, segment, &seen);
    if (before != SN_NONE && (chosen == SN_NONE || seen.gaps[chosen] <= seen.gaps[before])) {
        regroup->row = seen.rows[before]; /* go on, until it is near */
    } else if (chosen != SN_NONE) {
        regroup->row = seen.rows[chosen];
        regroup->generation = segment->rows[regroup->row].generation;
        regroup->order = order_of(segment, client->holder->row);
        regroup->window = window;
        regroup->gap = seen.gaps[chosen];
        regroup->in_front = seen.in_front;
        regroup->began_ns = 0;
    } else {
        regroup->row = SN_NONE;
        return;
    }
    regroup->drew = drew;
    regroup->drew_at = progress_of(segment, regroup->row);
    regroup->turn_ns = 0;
}

static void end_wait(sn_pacing *regroup)
{
    regroup->over[regroup->row] = regroup->generation;
    regroup->row = SN_NONE;
}

int sn_pacing_may_draw(sn_pacing *regroup, const sn_segment *segment, uint32_t drawn, uint64_t patience_ns,
                       uint64_t now_ns)
{
    uint32_t row = regroup->row;

    if (row == SN_NONE)
        return 1;
    uint32_t finished = progress_of(segment, row);
    if (regroup->began_ns == 0) {
        regroup->began_ns = regroup->moved_ns = now_ns;
        regroup->moved_at = finished;
    }
    if (finished != regroup->moved_at) {
        regroup->moved_at = finished;
        regroup->moved_ns = now_ns;
    }
    if (regroup->turn_ns == 0)
        regroup->turn_ns = now_ns;
    int is_long = now_ns - regroup->turn_ns > patience_ns;
    uint64_t expected_ns = (uint64_t)regroup->gap * regroup->in_front * (regroup->passed_ns / regroup->samples);
    int is_there = atomic_load(&segment->rows[row].state) == SN_ROW_LIVE && order_of(segment, row) == regroup->order;
    int is_near = drawn_by(segment, row) + regroup->window >= drawn;
    int stands = now_ns - regroup->moved_ns > (is_long ? patience_ns / 2 : patience_ns);
    int is_slow = now_ns - regroup->began_ns > SLOW * expected_ns;
    if (!is_there || is_near || stands || is_slow) {
        end_wait(regroup);
        return 1;
    }
    return finished - regroup->drew_at >= (is_long ? SN_SLOWER / 2 : SN_SLOWER) * regroup->drew;
}
