/*
 * test_store.c -- members draw, write, commit, abort, let go, leave and die at once; the store
 * agrees with its own rebuild throughout, and no payload is ever another's.
 *
 *   players    a thread and a member each, some with a handle of their own, some sharing one
 *   mortals    one thread, handle after handle: dies with slots in hand, or inside the lock
 *   growers    give memory to the rest of the payload space, two at once
 *   shrinker   takes memory away again, a little at a time: what is punched in use, a reader finds
 *   visitor    checks, changes the split, and sits on the lock until draws give up waiting
 *
 * No codec: a payload is a pattern that its sample, its form, its writer's job and the slot's
 * generation name, so that who reads it sees whether it is whole and the one that was drawn.
 */
#include <pthread.h>
#include <time.h>

#include "base/sn_rng.h"
#include "base/sn_status.h"
#include "cache.h"
#include "check.h"
#include "member/sn_member.h"
#include "slots/sn_slots.h"
#include "store/sn_backing.h"
#include "store/sn_check.h"
#include "store/sn_next_use.h"
#include "store/sn_shrink.h"
#include "store/sn_store.h"

#define N_SAMPLES 300
#define N_HOMES 4   /* handles of players */
#define N_PLAYERS 6 /* the last ones share the first handles */
#define N_MORTALS 8
#define N_EPOCHS 60    /* of each player */
#define N_EXCHANGES 30 /* the first so many; then all have orders of their own, and what is kept makes room */
#define MEET_IN 58     /* the epoch in which all players are half-way at the same time */
#define SIDE 48        /* of a staged copy, in pixels */
#define BESIDE 1000    /* bytes that it has behind its pixels: two granules in all */
#define HAND 8         /* samples in flight */
#define MOST_OFFERS 8
#define PAYLOAD_BYTES (5u << 19)
#define FIRST_GRANULES 450
#define N_GROWERS 2
#define LEAST_GRANULES 220 /* to which it is shrunk */
#define HOGS 4
#define HOG_MS 130 /* a draw waits for 100 */

typedef struct {
    sn_segment *segment;
    uint32_t process_row, number, job;
    sn_rng rng;
    sn_member *member;
    uint8_t drawn[N_SAMPLES];

    sn_item hand[HAND];
    sn_offer offers[MOST_OFFERS], copies[MOST_OFFERS]; /* to be asked; accepted and to be written */
    uint32_t n_hand, n_offers, n_copies;

    uint64_t operations, draws, apart, substitutes, kept, committed, aborted, known;
} player;

static cache shared;
static uint64_t seed;
static _Atomic uint32_t playing, met_in_use; /* by the shrinker */
static pthread_barrier_t together, players_together;

/* Slot -> its occupant's generation, and the jobs that it has served, a bit each. */
static _Atomic uint64_t served[2 * PAYLOAD_BYTES / SN_GRANULE];

static uint64_t mark_of(uint32_t sample, uint32_t form, uint32_t job)
{
    return (uint64_t)job << 40 | (uint64_t)form << 32 | sample;
}

static uint64_t word_at(uint64_t mark, uint32_t generation, uint32_t i)
{
    return i == 0 ? mark : sn_mix64(mark ^ (uint64_t)generation << 44 ^ i);
}

static void write_payload(const player *p, uint32_t slot)
{
    const sn_slot *record = &p->segment->slots[slot];
    uint64_t *words = (uint64_t *)sn_slot_payload(p->segment, record);
    uint64_t mark = mark_of(record->sample, record->form, p->job);

    for (uint32_t i = 0; i < record->length / 8; i++)
        words[i] = word_at(mark, record->generation, i);
}

/* Answers the writer's job. */
static uint32_t read_payload(const player *p, uint32_t slot, uint32_t sample, uint32_t form)
{
    const sn_slot *record = &p->segment->slots[slot];
    const uint64_t *words = (const uint64_t *)sn_slot_payload(p->segment, record);
    uint32_t job = (uint32_t)(words[0] >> 40);

    CHECK_EQUAL(record->sample, sample, "slot %u", slot);
    CHECK_EQUAL(record->form, form, "slot %u", slot);
    for (uint32_t i = 0; i < record->length / 8; i++)
        CHECK_EQUAL(words[i], word_at(mark_of(sample, form, job), record->generation, i),
                    "word %u of slot %u, sample %u, form %u", i, slot, sample, form);
    return job;
}

/* A copy serves a job once, and never the one that made it. */
static void note_use(const player *p, uint32_t slot)
{
    uint64_t before = atomic_fetch_or_explicit(&served[slot], (uint64_t)1 << p->job, memory_order_relaxed);

    CHECK_EQUAL(before >> 32, p->segment->slots[slot].generation, "slot %u", slot);
    CHECK_EQUAL(before >> p->job & 1, 0, "slot %u has served job %u", slot, p->job);
}

/* Whether all members know when they come to which sample. */
static int is_known(player *p)
{
    if (sn_store_enter(p->segment, CACHE_PATIENCE_MS) != 0)
        return 0;
    int known = sn_next_use_is_known(p->segment);
    sn_store_leave(p->segment);
    return known;
}

static void draw(player *p)
{
    sn_offer answers[MOST_OFFERS];
    sn_item items[HAND];
    uint32_t wanted = sn_rng_below(&p->rng, HAND - p->n_hand + 1), drawn;
    uint32_t left = sn_member_left(p->member), n_offers = p->n_offers;

    memcpy(answers, p->offers, sizeof answers);
    p->apart += sn_member_draw(p->member, wanted, items, &drawn, answers, n_offers) == SN_BUSY;
    p->draws++;
    p->known += sn_rng_below(&p->rng, 4) == 0 && is_known(p);
    CHECK_EQUAL(drawn, wanted < left ? wanted : left, "player %u", p->number);
    CHECK_EQUAL(sn_member_left(p->member), left - drawn, "player %u", p->number);
    for (uint32_t i = 0; i < drawn; i++) {
        const sn_item *item = &items[i];

        CHECK_EQUAL(p->drawn[item->sample]++, 0, "player %u, sample %u", p->number, item->sample);
        if (item->source == SN_AUGMENTED)
            note_use(p, item->source_slot);
        if (item->target_slot != SN_NONE)
            atomic_store_explicit(&served[item->target_slot],
                                  (uint64_t)p->segment->slots[item->target_slot].generation << 32 | (uint64_t)1
                                                                                                        << p->job,
                                  memory_order_relaxed);
        p->hand[p->n_hand++] = *item;
    }
    p->n_offers = 0;
    for (uint32_t i = 0; i < n_offers; i++)
        if (answers[i].slot != SN_NONE)
            p->copies[p->n_copies++] = answers[i];
}

static void commit_or_abort(player *p, uint32_t slot)
{
    write_payload(p, slot);
    if (sn_rng_below(&p->rng, 8) == 0) {
        sn_slot_abort(&p->segment->slots[slot]);
        p->aborted++;
    } else {
        sn_slot_commit(p->segment, slot);
        p->committed++;
    }
}

/* One of those in hand, whatever its turn. */
static void prepare(player *p)
{
    uint32_t at = sn_rng_below(&p->rng, p->n_hand);
    sn_item item = p->hand[at];

    p->hand[at] = p->hand[--p->n_hand];
    if (item.source != SN_STORAGE) {
        uint32_t job = read_payload(p, item.source_slot, item.sample, item.source);

        if (item.source == SN_AUGMENTED)
            CHECK(job != p->job && !p->segment->slots[item.source_slot].in_order);
        p->substitutes += item.source == SN_AUGMENTED;
        p->kept += item.source != SN_AUGMENTED;
    }
    if (item.target_slot != SN_NONE)
        commit_or_abort(p, item.target_slot);
    if (item.keep && p->n_offers + p->n_copies < MOST_OFFERS) {
        sn_offer *offer = &p->offers[p->n_offers++];

        *offer = (sn_offer){.sample = item.sample, .form = item.keep, .length = 8 + sn_rng_below(&p->rng, 9000)};
        if (item.keep == SN_DECODED) {
            offer->height = (uint16_t)(3 + sn_rng_below(&p->rng, 50));
            offer->width = (uint16_t)(3 + sn_rng_below(&p->rng, 50));
            offer->length = 3u * offer->height * offer->width;
        }
    }
    sn_member_done(p->member, &item, 1);
}

static void write_copy(player *p)
{
    sn_offer offer = p->copies[--p->n_copies];

    commit_or_abort(p, offer.slot);
    sn_member_offer_done(p->member, &offer);
}

/* An epoch, or `steps` of it. */
static void play(player *p, uint32_t epoch, uint32_t steps)
{
    int exchanges = epoch < N_EXCHANGES;
    sn_member_options options = {
        .epoch = {.n_samples = N_SAMPLES, .places = N_SAMPLES, .seed = seed, .epoch = epoch},
        .job_key = p->job,
        .client = {.decoded_pipeline = 11,
                   .augmented_pipeline = 22,
                   .height = SIDE,
                   .width = SIDE,
                   .copy_bytes = 3 * SIDE * SIDE + BESIDE,
                   .shares = sn_rng_below(&p->rng, 8) != 0 || epoch == MEET_IN,
                   .keeps = !exchanges || sn_rng_below(&p->rng, 4) != 0,
                   .recodes = sn_rng_below(&p->rng, 4) != 0},
        .process_row = p->process_row,
        .in_flight = HAND,
        .substitutes = exchanges && sn_rng_below(&p->rng, 8) != 0,
    };
    int joined, has_met = 0;

    options.epoch.seed += p->job;
    memset(p->drawn, 0, sizeof p->drawn);
    p->n_hand = p->n_offers = p->n_copies = 0;
    CHECK_EQUAL(sn_member_open(p->segment, &options, &p->member, &joined), 0, "player %u", p->number);
    if (joined == 0 && options.client.shares && options.substitutes) /* as others see in its process's row */
        CHECK(atomic_load(&p->segment->rows[p->process_row].exchanges) != 0);
    while (steps-- && (sn_member_left(p->member) || p->n_hand || p->n_copies)) {
        uint32_t next = sn_rng_below(&p->rng, 4);

        p->operations++;
        if (epoch == MEET_IN && !has_met && sn_member_left(p->member) < N_SAMPLES / 2) {
            has_met = 1;
            pthread_barrier_wait(&players_together);
            p->known += is_known(p);
            pthread_barrier_wait(&players_together);
        }
        if (p->n_copies && (next == 0 || p->n_offers + p->n_copies == MOST_OFFERS))
            write_copy(p);
        else if (p->n_hand && (next != 1 || !sn_member_left(p->member)))
            prepare(p);
        else
            draw(p);
    }
    if (sn_member_left(p->member) == 0)
        for (uint32_t sample = 0; sample < N_SAMPLES; sample++)
            CHECK_EQUAL(p->drawn[sample], 1, "player %u, sample %u", p->number, sample);
}

static void *player_work(void *argument)
{
    player *p = argument;

    pthread_barrier_wait(&together);
    for (uint32_t epoch = 0; epoch < N_EPOCHS; epoch++) {
        play(p, epoch, epoch % 3 == 2 ? sn_rng_below(&p->rng, N_SAMPLES) : UINT32_MAX);
        sn_member_close(p->member); /* in every third with slots in hand */
    }
    atomic_fetch_sub(&playing, 1);
    return NULL;
}

/* What a death inside the lock may leave of what is derived: anything. */
static void scribble(sn_segment *segment)
{
    CHECK_EQUAL(sn_store_enter(segment, CACHE_PATIENCE_MS), 0, "to die inside");
    memset(segment->head->lists, 0xAB, sizeof segment->head->lists);
    memset(segment->head->member_rows, 0, sizeof segment->head->member_rows);
    memset(segment->first, 0xCD, segment->n_samples * sizeof *segment->first);
    for (uint32_t word = 0; word < SN_GROUP / 64; word++) /* more than there are slots */
        atomic_store(&segment->committed[word], ~(uint64_t)0);
    atomic_store(&segment->groups[0], ~(uint64_t)0);
    segment->head->granules_free = 7;
    segment->head->candidates_from = 0xEFEFEFEF;
}

static void *mortal_work(void *argument)
{
    player *mortals = argument;

    pthread_barrier_wait(&together);
    for (uint32_t i = 0; i < N_MORTALS; i++) {
        play(&mortals[i], i, 1 + sn_rng_below(&mortals[i].rng, 2 * N_SAMPLES));
        if (i % 2)
            scribble(mortals[i].segment);
        cache_die(mortals[i].segment);
        sn_member_close(mortals[i].member);
    }
    atomic_fetch_sub(&playing, 1);
    return NULL;
}

static void pause_ms(long ms)
{
    struct timespec time = {0, ms * 1000000};
    nanosleep(&time, NULL);
}

static void *grower_work(void *argument)
{
    sn_segment *segment = argument;
    sn_rng rng;
    int rc;

    sn_rng_start(&rng, seed, 0, 0, segment == shared.handles[0], SN_STREAM_ORDER);
    pthread_barrier_wait(&together);
    do {
        rc = sn_backing_grow(segment, 1 + sn_rng_below(&rng, 12));
        CHECK(rc == 0 || rc == SN_BUSY || rc == SN_MISS);
        pause_ms((long)sn_rng_below(&rng, 5));
    } while (rc != SN_MISS);
    return NULL;
}

static void *shrinker_work(void *argument)
{
    sn_segment *segment = argument;
    uint32_t granules = PAYLOAD_BYTES / SN_GRANULE;
    sn_shrunk found = {0};
    sn_rng rng;

    sn_rng_start(&rng, seed, 0, 0, 2, SN_STREAM_ORDER);
    pthread_barrier_wait(&together);
    while (atomic_load(&playing)) {
        uint32_t usable = sn_usable_granules(segment->head);
        if (usable > LEAST_GRANULES + 30) /* below what is given out now, for it to be evicted */
            granules = usable - sn_rng_below(&rng, 30);
        int rc = sn_shrink_pass(segment, granules, &found);
        CHECK(rc == 0 || rc == SN_BUSY || (rc == SN_FULL && found.least > granules));
        if (rc == 0)
            atomic_fetch_add(&met_in_use, found.left);
        pause_ms((long)sn_rng_below(&rng, 8));
    }
    return NULL;
}

static void visit(sn_segment *segment, sn_rng *rng, uint32_t *hogs)
{
    static const uint32_t splits[][SN_FORMS] = {{0, 2000, 2000, 4000, 2000}, {0, 0, 0, 10000},   {0, 10000, 0, 0},
                                                {0, 1000, 5000, 2000, 2000}, {0, 5000, 0, 5000}, {0, 0, 0, 0, 10000}};
    sn_store_stats stats;
    char why[256] = "";

    CHECK_EQUAL(sn_store_enter(segment, CACHE_PATIENCE_MS), 0, "to visit");
    switch (sn_rng_below(rng, 4)) {
    case 0:
        sn_store_change_split(segment, splits[sn_rng_below(rng, sizeof splits / sizeof *splits)],
                              segment->head->n_changes, "a test");
        break;
    case 1:
        sn_store_read_stats(segment, &stats);
        CHECK(stats.free_bytes <= stats.payload_bytes);
        break;
    case 2:
        if (*hogs) {
            pause_ms(HOG_MS);
            --*hogs;
        }
        break;
    default:
        sn_store_reap(segment, 1);
        CHECK_EQUAL(sn_store_check(segment, why, sizeof why), 0, "%s", why);
    }
    sn_store_leave(segment);
}

static void player_make(player *p, uint32_t number, uint32_t handle, uint32_t job)
{
    *p = (player){.segment = shared.handles[handle], .process_row = shared.rows[handle], .number = number, .job = job};
    sn_rng_start(&p->rng, seed, 0, 0, number, SN_STREAM_CHOOSE);
}

int main(int argc, char **argv)
{
    static const uint32_t split[SN_FORMS] = {0, 2000, 2000, 4000, 2000};
    static player players[N_PLAYERS], mortals[N_MORTALS];
    uint64_t job_keys[N_HOMES + N_MORTALS];
    pthread_t threads[N_PLAYERS + 1], growers[N_GROWERS], shrinker;
    sn_shrunk shrunk;
    uint32_t hogs = HOGS, visits = 0;
    player sum = {0};
    sn_rng rng;

    seed = check_seed(argc, argv);
    for (uint32_t i = 0; i < N_HOMES + N_MORTALS; i++)
        job_keys[i] = i == 1 ? 0 : i; /* two processes of one job: its ranks */
    cache_make_part(&shared, N_HOMES + N_MORTALS, job_keys, N_SAMPLES, PAYLOAD_BYTES, FIRST_GRANULES, split);
    CHECK(shared.handles[0]->n_slots <= sizeof served / sizeof *served);

    pthread_barrier_init(&together, NULL, N_PLAYERS + N_GROWERS + 3);
    pthread_barrier_init(&players_together, NULL, N_PLAYERS);
    atomic_store(&playing, N_PLAYERS + 1);
    for (uint32_t i = 0; i < N_PLAYERS; i++) {
        player_make(&players[i], i, i % N_HOMES, (uint32_t)job_keys[i % N_HOMES]);
        CHECK(pthread_create(&threads[i], NULL, player_work, &players[i]) == 0);
    }
    for (uint32_t i = 0; i < N_MORTALS; i++)
        player_make(&mortals[i], N_PLAYERS + i, N_HOMES + i, N_HOMES + i);
    CHECK(pthread_create(&threads[N_PLAYERS], NULL, mortal_work, mortals) == 0);

    for (uint32_t i = 0; i < N_GROWERS; i++)
        CHECK(pthread_create(&growers[i], NULL, grower_work, shared.handles[i]) == 0);
    CHECK(pthread_create(&shrinker, NULL, shrinker_work, shared.handles[2]) == 0);

    sn_rng_start(&rng, seed, 0, 0, 0, SN_STREAM_ORDER);
    pthread_barrier_wait(&together);
    while (atomic_load(&playing)) {
        visit(shared.handles[sn_rng_below(&rng, N_HOMES)], &rng, &hogs);
        visits++;
        pause_ms(1);
    }
    for (uint32_t i = 0; i <= N_PLAYERS; i++)
        pthread_join(threads[i], NULL);
    for (uint32_t i = 0; i < N_GROWERS; i++)
        pthread_join(growers[i], NULL);
    pthread_join(shrinker, NULL);
    CHECK_EQUAL(sn_shrink_pass(shared.handles[0], LEAST_GRANULES, &shrunk), 0, "nobody draws any more");
    CHECK_EQUAL(shrunk.left, 0, "nobody holds anything");
    CHECK_EQUAL(sn_usable_granules(shared.handles[0]->head), LEAST_GRANULES, "from %u", shrunk.before);
    cache_check_and_close(&shared);

    for (uint32_t i = 0; i < N_PLAYERS + N_MORTALS; i++) {
        const player *p = i < N_PLAYERS ? &players[i] : &mortals[i - N_PLAYERS];
        sum.operations += p->operations;
        sum.draws += p->draws;
        sum.apart += p->apart;
        sum.substitutes += p->substitutes;
        sum.kept += p->kept;
        sum.committed += p->committed;
        sum.aborted += p->aborted;
        sum.known += p->known;
    }
    printf("test_store: %" PRIu64 " operations, %" PRIu64 " draws (%" PRIu64 " apart), %" PRIu64
           " substitutes, %" PRIu64 " from what is kept, %" PRIu64 " commits, %" PRIu64
           " aborts, %u visits, %u in use behind the limit, %" PRIu64 " times all orders known\n",
           sum.operations, sum.draws, sum.apart, sum.substitutes, sum.kept, sum.committed, sum.aborted, visits,
           atomic_load(&met_in_use), sum.known);
    CHECK(sum.substitutes > 0 && sum.kept > 0 && sum.committed > 0 && sum.aborted > 0 && sum.known > 0);
    pthread_barrier_destroy(&together);
    pthread_barrier_destroy(&players_together);
    return 0;
}
