#include "sn_exact_share.h"

#include "../base/sn_bits.h"
#include "../base/sn_rng.h"
#include "../shm/sn_row.h"
#include "../slots/sn_slots.h"

static const sn_row *row_of(const sn_client *client)
{
    return &client->holder->segment->rows[client->holder->row];
}

uint32_t sn_order_name(const sn_order *order, uint64_t seed, uint32_t epoch)
{
    uint64_t name = sn_mix64(order->perm.n + 1);

    if (!order->fixed)
        name = sn_mix64(name ^ seed) + epoch;
    for (uint32_t place = 0; order->samples && place < order->perm.n; place++)
        name = sn_mix64(name ^ order->samples[place]);
    return (uint32_t)(name >> 32) | 1;
}

static int is_late(const sn_peers *peers, const sn_segment *segment, uint32_t row)
{
    return peers->late[row].generation == segment->rows[row].generation &&
           peers->late[row].drawn == atomic_load_explicit(&segment->rows[row].drawn, memory_order_relaxed);
}

void sn_peers_blame(sn_peers *peers, const sn_segment *segment, uint32_t row)
{
    peers->late[row].generation = segment->rows[row].generation;
    peers->late[row].drawn = atomic_load_explicit(&segment->rows[row].drawn, memory_order_relaxed);
}

void sn_peers_find(sn_peers *peers, const sn_client *client, uint32_t window)
{
    const sn_segment *segment = client->holder->segment;
    const uint64_t *members = segment->head->member_rows;
    const sn_row *self = row_of(client);
    uint32_t order = atomic_load_explicit(&self->order, memory_order_relaxed);
    uint32_t drawn = atomic_load_explicit(&self->drawn, memory_order_relaxed);

    peers->n = 0;
    for (uint32_t row = sn_rows_next(members, 0); row < SN_MAX_ROWS; row = sn_rows_next(members, row + 1)) {
        const sn_row *other = &segment->rows[row];
        if (other->job != self->job && other->pipeline == self->pipeline &&
            atomic_load_explicit(&other->order, memory_order_relaxed) == order &&
            atomic_load_explicit(&other->drawn, memory_order_relaxed) + window >= drawn &&
            !is_late(peers, segment, row))
            peers->rows[peers->n++] = row;
    }
}

static uint64_t weight(const sn_segment *segment, uint32_t row, uint64_t of_sample)
{
    return sn_mix64(of_sample ^ ((uint64_t)segment->rows[row].generation << 32 | row));
}

/* Whether this member is the owner of a sample. */
static int is_owner(const sn_peers *peers, const sn_client *client, uint32_t sample)
{
    const sn_segment *segment = client->holder->segment;
    uint64_t of_sample = sn_mix64(sample + 1), own = weight(segment, client->holder->row, of_sample);

    for (uint32_t i = 0; i < peers->n; i++)
        if (!sn_bit_get(sn_seen(segment, peers->rows[i]), sample) && weight(segment, peers->rows[i], of_sample) > own)
            return 0;
    return 1;
}

/* Whether whoever reserved this copy is there, and not late. It may have failed all the same. */
static int is_coming(const sn_peers *peers, const sn_segment *segment, const sn_slot *copy)
{
    uint32_t row = copy->writer_row % SN_MAX_ROWS;
    const sn_row *writer = &segment->rows[row];

    return atomic_load(&writer->state) == SN_ROW_LIVE && writer->generation == copy->writer_generation &&
           sn_slot_state(copy) == SN_SLOT_WRITING && !is_late(peers, segment, row);
}

/* A copy of the sample that this job may use: READY, or else one that is coming; SN_NONE. */
static uint32_t find_copy(const sn_peers *peers, const sn_client *client, uint32_t sample)
{
    const sn_segment *segment = client->holder->segment;
    uint32_t job = row_of(client)->job % SN_MAX_JOBS, coming = SN_NONE;

    SN_EACH_OF_SAMPLE (segment, sample, s) {
        const sn_slot *copy = &segment->slots[s];
        if (copy->form != SN_AUGMENTED || copy->pipeline != client->augmented_pipeline || copy->uses >> job & 1)
            continue;
        if (sn_slot_state(copy) == SN_SLOT_READY)
            return s; /* also where no fold has found it yet */
        if (is_coming(peers, segment, copy))
            coming = s;
    }
    return coming;
}

int sn_exact_share_serve(sn_peers *peers, sn_client *client, uint32_t sample, enum sn_makes makes, int is_source_wanted,
                         sn_item *item)
{
    const sn_segment *segment = client->holder->segment;
    uint32_t copy = find_copy(peers, client, sample);

    item->sample = sample;
    if (copy != SN_NONE && sn_serve_copy(client, copy, item) == 0) {
        if (sn_slot_state(&segment->slots[copy]) != SN_SLOT_READY) {
            item->awaited = SN_AWAITS_COPY;
            item->peer = (uint8_t)(segment->slots[copy].writer_row % SN_MAX_ROWS);
        }
        return 1;
    }
    if (makes == SN_MAKES_NOTHING || (makes == SN_MAKES_OWN && !is_owner(peers, client, sample))) {
        item->awaited = SN_AWAITS_PEER;
        return 0;
    }
    item->role = sn_rendezvous_role(&peers->hosts, sample);
    if (is_source_wanted)
        sn_serve_source(client, sample, item);
    uint32_t drawn = atomic_load_explicit(&row_of(client)->drawn, memory_order_relaxed);
    sn_serve_target_for(client, sample, drawn < peers->expected_until, item);
    return 1;
}

int sn_exact_share_again(sn_peers *peers, sn_client *client, enum sn_makes makes, sn_item *item, uint32_t *given_up)
{
    const sn_segment *segment = client->holder->segment;

    *given_up = SN_NONE;
    if (item->awaited == SN_AWAITS_COPY) {
        const sn_slot *copy = &segment->slots[item->source_slot]; /* held: it is the same */
        if (sn_slot_state(copy) == SN_SLOT_READY)
            item->awaited = SN_AWAITS_NOTHING;
        if (item->awaited == SN_AWAITS_NOTHING || is_coming(peers, segment, copy))
            return 1;
        *given_up = item->source_entry;
    }
    sn_item_clear(item, item->sample);
    return sn_exact_share_serve(peers, client, item->sample, makes, 1, item);
}
