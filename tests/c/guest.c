#define _GNU_SOURCE
#include "guest.h"

#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/sn_status.h"
#include "check.h"
#include "member/sn_worker.h"
#include "shm/sn_row.h"
#include "shm/sn_telemetry.h"
#include "slots/sn_slots.h"
#include "store/sn_backing.h"
#include "store/sn_digests.h"
#include "store/sn_hints.h"
#include "store/sn_join.h"
#include "store/sn_shrink.h"
#include "store/sn_store.h"
#include "tsan.h"

#define ROUNDS 3  /* of a worker */
#define AT_ONCE 4 /* samples that it is given */
#define TRIES 10  /* to join one that somebody else is about to take away */

int guest_join(guest *g, const char *path, const sn_geometry *geometry, uint32_t job, uint64_t seed)
{
    int rc = SN_E_GONE;

    memset(g, 0, sizeof *g);
    g->job = job;
    g->seed = seed;
    sn_rng_start(&g->rng, seed, 1, 0, job, SN_STREAM_CHOOSE);
    for (int i = 0; rc == SN_E_GONE && i < TRIES; i++) {
        int fd = open(path, O_RDWR | O_CLOEXEC | O_CREAT, 0600);
        CHECK(fd >= 0);
        rc = sn_join(fd, path, geometry, 0, job, NULL, NULL, &g->segment, &g->row);
    }
    return rc;
}

void guest_leave(guest *g)
{
    int rc = sn_leave(g->segment, g->row);

    CHECK(rc == 0 || rc == SN_BUSY || g->is_damaged);
    sn_holder_free(&g->holder);
    tsan_locks_closed();
    sn_segment_close(g->segment);
    g->segment = NULL;
}

static void make_player(guest *g, player *p)
{
    player_make(p, g->segment, g->row, g->job, g->seed + sn_rng_u32(&g->rng));
    p->is_damaged = g->is_damaged;
}

static void be_member(guest *g, enum player_kind kind, uint32_t steps)
{
    player p;

    make_player(g, &p);
    player_open(&p, kind, kind == PLAYER_EXACT ? 0 : sn_rng_below(&g->rng, 4));
    while (steps-- && player_step(&p))
        g->steps++;
    g->served += p.served;
    if (sn_rng_below(&g->rng, 2))
        sn_member_retire(p.member);
    player_close(&p);
}

static void finish_work(guest *g, player *p, sn_worker *worker, const sn_item *items, sn_offer *offers, uint32_t n)
{
    for (uint32_t i = 0; i < AT_ONCE; i++) {
        if (items[i].source != SN_STORAGE && !items[i].awaited && !g->is_damaged)
            player_check_payload(g->segment, items[i].source_slot);
        if (items[i].target_slot != SN_NONE)
            player_finish(p, items[i].target_slot);
    }
    for (uint32_t i = 0; i < n; i++)
        if (offers[i].slot != SN_NONE) {
            player_finish(p, offers[i].slot);
            sn_worker_offer_done(worker, &offers[i]);
        }
    CHECK_EQUAL(sn_worker_done(worker, items, AT_ONCE), 0, "memory");
}

/* Claims of what a member drew, and in the last round samples that nobody drew. */
static void be_worker(guest *g, enum player_kind kind)
{
    uint64_t nobody[SN_MAX_ROWS / 64] = {0};
    uint32_t generation, n = g->segment->n_samples;
    sn_client client = {.decoded_pipeline = 11,
                        .augmented_pipeline = kind == PLAYER_EXACT ? 33 : 22,
                        .copy_bytes = PLAYER_COPY_BYTES,
                        .shares = 1,
                        .keeps = 1,
                        .recodes = 1,
                        .exact = kind == PLAYER_EXACT};
    sn_worker *worker;
    player p;

    make_player(g, &p);
    p.hands_over = 1;
    player_open(&p, kind, 0);
    uint32_t row = sn_member_row(p.member, &generation);
    if (!g->holder.segment)
        CHECK_EQUAL(sn_holder_init(&g->holder, g->segment), 0, "memory");
    g->holder.row = g->row;
    client.holder = &g->holder;
    CHECK_EQUAL(sn_worker_open(&client, &worker), 0, "memory");
    for (uint32_t round = 0; round < ROUNDS; round++) {
        sn_claim claims[AT_ONCE] = {{0}};
        sn_item items[AT_ONCE];
        sn_offer offers[] = {
            {.sample = sn_rng_below(&g->rng, n), .length = 40, .form = SN_ENCODED},
            {.sample = sn_rng_below(&g->rng, n), .length = 27, .height = 3, .width = 3, .form = SN_DECODED}};
        uint32_t drawn = 0, claimant = row;

        sn_member_draw(p.member, AT_ONCE, items, &drawn, NULL, 0);
        sn_member_claims(p.member, items, drawn, claims);
        if (drawn < AT_ONCE || round == ROUNDS - 1) {
            claimant = SN_NONE;
            for (uint32_t i = 0; i < AT_ONCE; i++)
                claims[i] = (sn_claim){.sample = sn_rng_below(&g->rng, n), .slot = SN_NONE};
        }
        sn_worker_begin(worker, claimant, generation, claims, AT_ONCE, items, offers, 2);
        sn_worker_check_awaited(worker, claimant, generation, items, AT_ONCE, 1, nobody);
        g->steps += AT_ONCE;
        finish_work(g, &p, worker, items, offers, 2);
    }
    sn_worker_close(worker);
    player_close(&p);
}

static void compare_digests(guest *g)
{
    _Atomic uint64_t marks[PLAYER_MOST_SAMPLES / 64 + 1] = {0};
    sn_digests digests = {.segment = g->segment, .row = g->row, .marks = marks};

    for (uint32_t own = 0; own < 2; own++) {
        int rc = sn_digests_open(&digests, 77 + own * (1 + g->job % 4), SN_DECODED, "uint8 [3, 4]");
        CHECK(rc == 0 || rc == SN_BUSY || rc == SN_E_RECORDS || g->is_damaged);
        for (uint32_t sample = 0; rc == 0 && sample < 4; sample++)
            sn_digests_meet(&digests, sample, sn_mix64(sample), 1, 0);
    }
}

static void publish(guest *g)
{
    sn_work work = {.since_ms = 1, .published_ms = 2, .delivered = 3, .served = {1, 1}, .name = "a guest"};
    sn_dataset dataset = {.like = 1, .n = 0};

    sn_telemetry_write(g->segment, g->row, &work);
    sn_traits_write(g->segment, g->row, &dataset);
    sn_hint_pace(g->segment, g->row, 1 + sn_rng_below(&g->rng, 100), 50);
}

/* A member draws while somebody sits on the lock, and is behind with what others see of it. */
static void be_late(guest *g)
{
    uint64_t nobody[SN_MAX_ROWS / 64] = {0};
    int fd = open(g->segment->path, O_RDWR | O_CLOEXEC), awaits = 0;
    player p;

    make_player(g, &p);
    player_open(&p, PLAYER_EXACT, 0);
    while (!awaits && sn_member_left(p.member) > PLAYER_HAND && player_step(&p))
        for (uint32_t i = 0; i < p.n_hand; i++)
            awaits |= p.hand[i].awaited == SN_AWAITS_PEER;
    CHECK(fd >= 0 && flock(fd, LOCK_EX) == 0);
    for (uint32_t i = 0; awaits && i < p.n_hand; i++) {
        sn_item *item = &p.hand[i];
        if (item->awaited)
            CHECK_EQUAL(sn_member_check_awaited(p.member, &item, 1, 1, nobody), SN_BUSY, "somebody has the lock");
    }
    if (!awaits) {
        while (p.n_hand > 0)
            p.hand[--p.n_hand].awaited = 0; /* as if it hung: they stay held until it closes */
        player_step(&p);
    }
    close(fd);
    while (player_step(&p))
        ;
    player_close(&p);
}

static void enter_and(guest *g, void (*act)(guest *g))
{
    if (sn_store_enter(g->segment, SN_LOCK_DEADLINE_MS) != 0)
        return;
    act(g);
    sn_store_leave(g->segment);
}

static void change_split(guest *g)
{
    static const uint32_t splits[][SN_FORMS] = {
        {0, 2500, 2500, 3000, 2000}, {0, 0, 0, 10000, 0}, {0, 10000, 0, 0, 0}, {0, 1000, 6000, 2000, 1000}};

    sn_store_change_split(g->segment, splits[sn_rng_below(&g->rng, 4)], g->segment->head->n_changes, "a guest");
}

static void reap(guest *g)
{
    sn_store_reap(g->segment, 1);
}

void guest_act(guest *g, uint32_t act, uint32_t steps)
{
    sn_shrunk found;

    switch (act) {
    case 0:
    case 1:
    case 2:
    case 3:
        be_member(g, (enum player_kind)act, steps);
        break;
    case 4:
        be_worker(g, PLAYER_EXCHANGES);
        break;
    case 5:
        be_worker(g, PLAYER_EXACT);
        break;
    case 6:
        enter_and(g, change_split);
        break;
    case GUEST_GROWS:
        sn_backing_grow(g->segment, 1 + sn_rng_below(&g->rng, 3));
        break;
    case 8: {
        uint32_t usable = sn_usable_granules(g->segment->head), least = g->segment->n_granules * 2 / 3;
        if (usable > least)
            sn_shrink_pass(g->segment, usable - 1 - sn_rng_below(&g->rng, 2), &found);
        break;
    }
    case GUEST_REAPS:
        enter_and(g, reap);
        break;
    case GUEST_COMPARES:
        compare_digests(g);
        break;
    case GUEST_PUBLISHES:
        publish(g);
        break;
    case GUEST_IS_LATE:
        be_late(g);
        break;
    default:
        be_member(g, PLAYER_EXCHANGES, 2 * steps); /* it has learned what a copy takes */
    }
}

void guest_acts(guest *g, uint32_t steps)
{
    uint32_t acts[GUEST_ACTS];

    for (uint32_t i = 0; i < GUEST_ACTS; i++) {
        uint32_t at = sn_rng_below(&g->rng, i + 1);
        acts[i] = acts[at];
        acts[at] = i;
    }
    for (uint32_t i = 0; i < GUEST_ACTS; i++)
        guest_act(g, acts[i], steps);
}
