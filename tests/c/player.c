#include "player.h"

#include <string.h>

#include "base/sn_status.h"
#include "check.h"
#include "shm/sn_row.h"
#include "slots/sn_slots.h"

static uint64_t mark_of(uint32_t sample, uint32_t form, uint32_t job)
{
    return (uint64_t)job << 40 | (uint64_t)form << 32 | sample;
}

static uint64_t word_at(uint64_t mark, uint32_t generation, uint32_t i)
{
    return i == 0 ? mark : sn_mix64(mark ^ (uint64_t)generation << 44 ^ i);
}

/* Of a damaged record as much as there is. */
static uint32_t words_of(const player *p, const sn_slot *record)
{
    uint64_t room = (uint64_t)p->segment->n_granules * SN_GRANULE, at = (uint64_t)record->granule * SN_GRANULE;

    if (!p->is_damaged || at + record->length <= room)
        return record->length / 8;
    return at < room ? (uint32_t)((room - at) / 8) : 0;
}

void player_write_payload(const player *p, uint32_t slot)
{
    const sn_slot *record = &p->segment->slots[slot];
    uint64_t *words = (uint64_t *)sn_slot_payload(p->segment, record);
    uint64_t mark = mark_of(record->sample, record->form, p->job);

    for (uint32_t i = 0; i < words_of(p, record); i++)
        words[i] = word_at(mark, record->generation, i);
}

void player_check_payload(const sn_segment *segment, uint32_t slot)
{
    const sn_slot *record = &segment->slots[slot];
    const uint64_t *words = (const uint64_t *)sn_slot_payload(segment, record);
    uint32_t job = (uint32_t)(words[0] >> 40);

    for (uint32_t i = 0; i < record->length / 8; i++)
        CHECK_EQUAL(words[i], word_at(mark_of(record->sample, record->form, job), record->generation, i),
                    "word %u of slot %u, sample %u, form %u", i, slot, record->sample, record->form);
}

void player_finish(player *p, uint32_t slot)
{
    player_write_payload(p, slot);
    if (sn_rng_below(&p->rng, 8) == 0)
        sn_slot_abort(&p->segment->slots[slot]);
    else
        sn_slot_commit(p->segment, slot);
}

void player_make(player *p, sn_segment *segment, uint32_t process_row, uint32_t job, uint64_t seed)
{
    memset(p, 0, sizeof *p);
    p->segment = segment;
    p->process_row = process_row;
    p->job = job;
    CHECK(segment->n_samples <= PLAYER_MOST_SAMPLES && segment->n_slots <= PLAYER_MOST_SLOTS);
    sn_rng_start(&p->rng, seed, 0, 0, job, SN_STREAM_CHOOSE);
}

int player_open(player *p, enum player_kind kind, uint32_t epoch)
{
    uint32_t n = p->segment->n_samples, samples[PLAYER_MOST_SAMPLES];
    int exchanges = kind == PLAYER_EXCHANGES || kind == PLAYER_SUBSET, joined;
    sn_member_options options = {
        .epoch = {.n_samples = n, .places = n, .seed = 1, .epoch = epoch},
        .job_key = p->job,
        .client = {.decoded_pipeline = 11,
                   .augmented_pipeline = kind == PLAYER_EXACT ? 33 : 22,
                   .height = PLAYER_SIDE,
                   .width = PLAYER_SIDE,
                   .copy_bytes = PLAYER_COPY_BYTES,
                   .shares = 1,
                   .keeps = 1,
                   .recodes = (uint8_t)(p->job % 2),
                   .exact = kind == PLAYER_EXACT},
        .process_row = p->process_row,
        .in_flight = PLAYER_IN_FLIGHT,
        .substitutes = (uint8_t)exchanges,
        .hands_over = (uint8_t)p->hands_over,
        .family = kind == PLAYER_EXACT ? 44 : 0,
    };

    if (kind != PLAYER_EXACT)
        options.epoch.own_seed = 1 + p->job;           /* an order of its own */
    if (kind == PLAYER_EXCHANGES && p->job % 4 == 3) { /* learns how much memory a copy takes */
        options.client.height = options.client.width = 0;
        options.client.copy_bytes = 0;
    }
    if (kind == PLAYER_SUBSET) {
        for (uint32_t i = 0; i < n; i++)
            samples[i] = i;
        options.epoch.samples = samples + p->job % 3 * (n / 6);
        options.epoch.count = options.epoch.places = n * 2 / 3;
    }
    p->kind = kind;
    p->places = options.epoch.places;
    memset(p->drawn, 0, sizeof p->drawn);
    p->n_hand = p->n_offers = p->n_copies = 0;
    CHECK_EQUAL(sn_member_open(p->segment, &options, &p->member, &joined), 0, "job %u", p->job);
    return joined;
}

static uint32_t generation_of(const player *p, const sn_item *item)
{
    uint32_t slot = item->source_slot != SN_NONE ? item->source_slot : item->target_slot;

    return slot != SN_NONE ? p->segment->slots[slot].generation : 0;
}

/* Who holds a claim to an earlier occupant sees by the generation that it is gone. */
static void note_reserved(player *p, uint32_t slot)
{
    uint32_t generation = p->segment->slots[slot].generation;

    CHECK(p->is_damaged || generation != p->reserved[slot]);
    p->reserved[slot] = generation;
}

static void draw(player *p)
{
    sn_offer answers[PLAYER_MOST_OFFERS];
    sn_item items[PLAYER_HAND];
    uint32_t wanted = sn_rng_below(&p->rng, PLAYER_HAND - p->n_hand + 1), drawn, n_offers = p->n_offers;

    memcpy(answers, p->offers, sizeof answers);
    int rc = sn_member_draw(p->member, wanted, items, &drawn, answers, n_offers);
    CHECK(rc == 0 || rc == SN_BUSY || p->is_damaged);
    CHECK(drawn <= wanted);
    for (uint32_t i = 0; i < drawn; i++) {
        CHECK(items[i].sample < p->segment->n_samples || p->is_damaged);
        if (items[i].sample < p->segment->n_samples)
            p->drawn[items[i].sample]++;
        if (!p->is_damaged)
            CHECK_EQUAL(p->drawn[items[i].sample], 1, "job %u, sample %u", p->job, items[i].sample);
        if (items[i].target_slot != SN_NONE)
            note_reserved(p, items[i].target_slot);
        p->generations[p->n_hand] = generation_of(p, &items[i]);
        p->hand[p->n_hand++] = items[i];
    }
    p->n_offers = 0;
    for (uint32_t i = 0; i < n_offers; i++)
        if (answers[i].slot != SN_NONE) {
            p->copy_generations[p->n_copies] = p->segment->slots[answers[i].slot].generation;
            p->copies[p->n_copies++] = answers[i];
        }
}

static void offer(player *p, const sn_item *item)
{
    sn_offer *made = &p->offers[p->n_offers++];

    *made = (sn_offer){.sample = item->sample, .form = item->keep, .length = 8 + sn_rng_below(&p->rng, 150)};
    if (sn_rng_below(&p->rng, 4) == 0)
        made->length = SN_GRANULE + 8;
    if (item->keep == SN_DECODED) {
        made->height = 3;
        made->width = (uint16_t)(3 + sn_rng_below(&p->rng, 5));
        made->length = 3u * made->height * made->width;
    }
}

/* What somebody else was to make. */
static void check_again(player *p, uint32_t at)
{
    uint64_t blamed[SN_MAX_ROWS / 64] = {0};
    sn_item *item = &p->hand[at];

    if (item->awaited == SN_AWAITS_COPY && sn_rng_below(&p->rng, 3) == 0)
        sn_bit_set(blamed, item->peer % SN_MAX_ROWS);
    sn_member_check_awaited(p->member, &item, 1, (int)sn_rng_below(&p->rng, 2), blamed);
    p->generations[at] = generation_of(p, item);
}

/* One of those in hand, whatever its turn. */
static void prepare(player *p)
{
    uint32_t at = sn_rng_below(&p->rng, p->n_hand);

    if (p->hand[at].awaited != SN_AWAITS_NOTHING) {
        check_again(p, at);
        return;
    }
    sn_item item = p->hand[at];
    p->hand[at] = p->hand[--p->n_hand];
    p->generations[at] = p->generations[p->n_hand];
    if (item.source != SN_STORAGE && !p->is_damaged) {
        const sn_slot *record = &p->segment->slots[item.source_slot];
        CHECK_EQUAL(record->sample, item.sample, "slot %u", item.source_slot);
        CHECK_EQUAL(record->form, item.source, "slot %u", item.source_slot);
        CHECK_EQUAL(sn_slot_state(record), SN_SLOT_READY, "slot %u", item.source_slot);
        player_check_payload(p->segment, item.source_slot);
        p->served++;
    }
    if (item.target_slot != SN_NONE)
        player_finish(p, item.target_slot);
    if (item.keep && p->n_offers + p->n_copies < PLAYER_MOST_OFFERS)
        offer(p, &item);
    sn_member_done(p->member, &item, 1);
}

static void write_copy(player *p)
{
    sn_offer copy = p->copies[--p->n_copies];

    player_finish(p, copy.slot);
    sn_member_offer_done(p->member, &copy);
}

int player_step(player *p)
{
    uint32_t next = sn_rng_below(&p->rng, 4), left = sn_member_left(p->member);

    if (!left && !p->n_hand && !p->n_copies)
        return 0;
    if (p->n_copies && (next == 0 || p->n_offers + p->n_copies == PLAYER_MOST_OFFERS))
        write_copy(p);
    else if (p->n_hand && (next != 1 || !left))
        prepare(p);
    else
        draw(p);
    return 1;
}

void player_close(player *p)
{
    sn_member_close(p->member);
    p->member = NULL;
    p->n_hand = p->n_offers = p->n_copies = 0;
}

static void check_held(const player *p, uint32_t row, uint32_t entry, uint32_t slot, uint32_t generation, int writes)
{
    const sn_slot *record = &p->segment->slots[slot];

    CHECK_EQUAL(sn_ledger(p->segment, row)[entry], slot + 1, "job %u, line %u", p->job, entry);
    CHECK_EQUAL(record->generation, generation, "job %u, slot %u", p->job, slot);
    CHECK(record->pins >= 1);
    if (writes)
        CHECK_EQUAL(sn_slot_state(record), SN_SLOT_WRITING, "job %u, slot %u", p->job, slot);
}

void player_check_hand(const player *p)
{
    uint32_t generation, row = sn_member_row(p->member, &generation);

    if (row == SN_NONE)
        return;
    for (uint32_t i = 0; i < p->n_hand; i++) {
        const sn_item *item = &p->hand[i];
        if (item->source_slot != SN_NONE && item->source != SN_STORAGE)
            check_held(p, row, item->source_entry, item->source_slot, p->generations[i], 0);
        else if (item->target_slot != SN_NONE)
            check_held(p, row, item->target_entry, item->target_slot, p->generations[i], 1);
    }
    for (uint32_t i = 0; i < p->n_copies; i++)
        check_held(p, row, p->copies[i].entry, p->copies[i].slot, p->copy_generations[i], 1);
}

void player_check_epoch(const player *p)
{
    uint32_t n = 0;

    for (uint32_t sample = 0; sample < p->segment->n_samples; sample++)
        n += p->drawn[sample];
    CHECK_EQUAL(n, p->places, "job %u", p->job);
}
