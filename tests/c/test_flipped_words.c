/*
 * test_flipped_words.c -- something writes into a segment that is none of Seneca's, and no process dies of it.
 *
 *   a word of a record is overwritten, or a page of records becomes zeroes --> survivors and a guest go on, for some steps
 *                                                                      --> the segment is rebuilt, and what is derived agrees
 *
 * What the survivors are served may be wrong: payloads have no checksums. But nobody faults, and nobody hangs.
 *
 * FLIPS=n overwrites so many words in each region.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sn_status.h"
#include "check.h"
#include "crash_world.h"
#include "shm/sn_row.h"
#include "store/sn_check.h"
#include "store/sn_join.h"
#include "store/sn_store.h"

#define SOME_FLIPS 60u /* in each region, unless FLIPS says more */
#define STEPS 40       /* of all survivors */
#define HANGS_AFTER_S 20
#define ROWS_LOOKED_AT 16u /* of the row areas: members have the last */
#define HOLES_EVERY 10u    /* of so many trials one makes a page zero */

typedef struct {
    const char *name;
    size_t at, bytes;
} region;

static uint64_t seed;
static world w;
static _Atomic uint32_t *found; /* trials in which a survivor saw that something cannot be */
static int has_found;
static region regions[16];
static uint32_t n_regions;

static void add(const char *name, size_t at, size_t end)
{
    CHECK(n_regions < sizeof regions / sizeof *regions && end > at);
    regions[n_regions++] = (region){name, at, end - at};
}

static void find_regions(void)
{
    const sn_header *head = w.hosts[0].segment->head;
    size_t areas = head->areas_at + (SN_MAX_ROWS - ROWS_LOOKED_AT) * head->area_bytes;

    n_regions = 0;
    add("the plan", 0, offsetof(sn_header, busy));
    add("the header", offsetof(sn_header, busy), offsetof(sn_header, lists));
    add("lists", offsetof(sn_header, lists), offsetof(sn_header, n_changes));
    add("choices", offsetof(sn_header, n_changes), sizeof *head);
    add("rows", head->rows_at, head->rows_at + SN_MAX_ROWS * sizeof(sn_row));
    add("telemetry", head->telemetry_at, head->slots_at);
    add("slots", head->slots_at, head->slots_at + w.hosts[0].segment->n_slots * sizeof(sn_slot));
    add("first slots", head->first_at, head->wants_at);
    add("wants", head->wants_at, head->writing_at);
    add("the writing list", head->writing_at, head->committed_at);
    add("committed bits", head->committed_at, head->granules_at);
    add("the granule map", head->granules_at, head->granules_at + sn_bits_words(WORLD_GRANULES) * 8);
    add("row areas of members", areas, areas + ROWS_LOOKED_AT * head->area_bytes);
    add("row areas of processes", head->areas_at, head->areas_at + 4 * head->area_bytes);
}

/* Words that are in use are more interesting than zeroes: of several that are drawn the first that is none. */
static size_t choose_word(const region *r, sn_rng *rng)
{
    const uint8_t *base = (const uint8_t *)w.hosts[0].segment->head;
    size_t at = 0;

    for (int i = 0; i < 4; i++) {
        at = r->at + 4u * sn_rng_below(rng, (uint32_t)((r->bytes + 3) / 4));
        if (*(const uint32_t *)(base + at) != 0)
            break;
    }
    return at;
}

static void overwrite(const region *r, sn_rng *rng, char *what, size_t size)
{
    uint8_t *base = (uint8_t *)w.hosts[0].segment->head;

    if (sn_rng_below(rng, HOLES_EVERY) == 0) {
        size_t page = (r->at + sn_rng_below(rng, (uint32_t)r->bytes)) / SN_GRANULE * SN_GRANULE;
        CHECK(fallocate(w.hosts[0].segment->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)page, SN_GRANULE) ==
              0);
        snprintf(what, size, "%s: a hole at %zu", r->name, page);
        return;
    }
    size_t at = choose_word(r, rng);
    uint32_t *word = (uint32_t *)(base + at), before = *word;
    switch (sn_rng_below(rng, 6)) {
    case 0:
        *word = ~before;
        break;
    case 1:
        *word = sn_rng_u32(rng);
        break;
    case 2:
        *word = 0;
        break;
    case 3:
        *word = UINT32_MAX;
        break;
    case 4:
        *word ^= 1u << sn_rng_below(rng, 32);
        break;
    default:
        *word = before ^ (sn_rng_below(rng, 256) << 8 * sn_rng_below(rng, 4));
    }
    snprintf(what, size, "%s: %u at %zu became %u", r->name, before, at, *word);
}

static void go_on(uint32_t steps)
{
    for (uint32_t i = 0; i < steps; i++)
        for (uint32_t k = 0; k < WORLD_PLAYERS; k++)
            if (w.players[k].member) {
                player_step(&w.players[k]);
                /* Nobody is inside: who was last has found something. */
                if (atomic_load(&w.hosts[0].segment->head->busy) && !has_found) {
                    has_found = 1;
                    atomic_fetch_add(found, 1);
                }
            }
}

/* A newcomer, who may find that the segment is none any more. */
static void be_guest(sn_rng *rng)
{
    guest g;
    int rc = guest_join(&g, w.path, &w.geometry, 3, sn_rng_u32(rng));

    if (rc != SN_ATTACH_JOINED && rc != SN_ATTACH_CREATED)
        return;
    g.is_damaged = 1;
    for (int i = 0; i < 3; i++)
        guest_act(&g, sn_rng_below(rng, GUEST_ACTS), STEPS);
    guest_leave(&g);
}

/* Whoever enters next rebuilds, as after a death. */
static void check_rebuilt(void)
{
    sn_segment *segment = w.hosts[0].segment;
    char why[256] = "";

    atomic_store(&segment->head->busy, 1);
    int rc = sn_store_enter(segment, 5000);
    CHECK(rc == 0 || (rc == SN_E_ABANDONED && atomic_load(&segment->head->abandoned) != 0));
    if (rc != 0)
        return;
    CHECK_EQUAL(sn_store_check(segment, why, sizeof why), 0, "%s", why);
    sn_store_leave(segment);
}

static void let_dead_be_reaped(void)
{
    CHECK_EQUAL(sn_store_enter(w.hosts[0].segment, 5000), 0, "to reap");
    CHECK(sn_store_reap(w.hosts[0].segment, 1) > 0);
    sn_store_leave(w.hosts[0].segment);
}

static void try_one(const region *r, sn_rng *rng)
{
    char what[128];
    uint32_t before = sn_rng_below(rng, 2) * sn_rng_below(rng, 10);
    uint64_t child_seed = sn_rng_u32(rng);

    world_restore(&w);
    overwrite(r, rng, what, sizeof what);
    pid_t pid = world_fork_survivor();
    if (pid == 0) {
        alarm(HANGS_AFTER_S);
        sn_rng_start(rng, child_seed, 0, 0, 0, SN_STREAM_CHOOSE);
        for (uint32_t k = 0; k < WORLD_PLAYERS; k++)
            w.players[k].is_damaged = 1;
        go_on(before);
        be_guest(rng);
        go_on(STEPS);
        for (uint32_t k = 0; k < WORLD_PLAYERS; k++)
            if (w.players[k].member && sn_rng_below(rng, 2))
                player_close(&w.players[k]);
        check_rebuilt();
        _exit(0);
    }
    CHECK_EQUAL(world_wait(pid), 0, "%s", what);
}

/* One that nobody trusts any more loses its name, and newcomers make another. */
static int has_its_name(void)
{
    struct stat ours, named;

    return stat(w.path, &named) == 0 && fstat(w.hosts[0].segment->fd, &ours) == 0 && ours.st_ino == named.st_ino;
}

int main(int argc, char **argv)
{
    const char *asked = getenv("FLIPS");
    uint32_t flips = asked ? (uint32_t)strtoul(asked, NULL, 10) : SOME_FLIPS, tried = 0, worlds = 0;
    sn_rng rng;

    seed = check_seed(argc, argv);
    sn_rng_start(&rng, seed, 0, 0, 0, SN_STREAM_ORDER);
    found = mmap(NULL, sizeof *found, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(found != MAP_FAILED);
    for (uint32_t i = 0; i == 0 || i < n_regions; i++)
        for (uint32_t flip = 0; flip < flips; flip++, tried++) {
            if (worlds == 0 || !has_its_name() || flip % 500 == 499) {
                if (worlds++ > 0) {
                    world_restore(&w);
                    world_close(&w);
                }
                world_make(&w, sn_rng_u32(&rng), worlds % 3 == 2);
                let_dead_be_reaped(); /* else the first who comes rebuilds, and mends */
                world_save(&w);
                find_regions();
            }
            try_one(&regions[i], &rng);
        }
    world_restore(&w);
    world_close(&w);
    printf(
        "test_flipped_words: %u words or pages overwritten in %u regions, of which survivors found %u; %u segments\n",
        tried, n_regions, atomic_load(found), worlds);
    CHECK(tried == flips * n_regions && tried > 0 && atomic_load(found) > 0);
    return 0;
}
