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
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sn_status.h"
#include "check.h"
#include "crash_world.h"
#include "records.h"
#include "store/sn_join.h"
#include "store/sn_store.h"

#define SOME_FLIPS 60u /* in each region, unless FLIPS says more */
#define STEPS 40       /* of all survivors */
#define HANGS_AFTER_S 20
#define TRIES_OF_KNOWN 5
#define HOLES_EVERY 10u /* of so many trials one makes a page zero */

static uint64_t seed;
static world w;
static _Atomic uint32_t *found; /* trials in which a survivor saw that something cannot be */
static int has_found;
static region regions[RECORDS_MOST];
static uint32_t n_regions;

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

static void let_dead_be_reaped(void)
{
    CHECK_EQUAL(sn_store_enter(w.hosts[0].segment, 5000), 0, "to reap");
    CHECK(sn_store_reap(w.hosts[0].segment, 1) > 0);
    sn_store_leave(w.hosts[0].segment);
}

/* After something was overwritten. */
static void let_others_go_on(sn_rng *rng, const char *what)
{
    uint32_t before = sn_rng_below(rng, 2) * sn_rng_below(rng, 10);
    uint64_t child_seed = sn_rng_u32(rng);

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
        records_check_rebuilt(w.hosts[0].segment);
        _exit(0);
    }
    CHECK_EQUAL(world_wait(pid), 0, "%s", what);
}

static void try_one(const region *r, sn_rng *rng)
{
    char what[128];

    world_restore(&w);
    overwrite(r, rng, what, sizeof what);
    let_others_go_on(rng, what);
}

/* What fuzzing has found. */

static void slots_on_no_list(sn_segment *segment)
{
    for (uint32_t slot = 0; slot < segment->n_slots; slot++)
        if (segment->slots[slot].list != SN_LIST_WRITING)
            segment->slots[slot].list = 249;
}

static const struct {
    const char *name;
    void (*overwrite)(sn_segment *segment);
} known[] = {{"slots are on no list", slots_on_no_list}};

static void try_known(sn_rng *rng)
{
    for (uint32_t i = 0; i < sizeof known / sizeof *known; i++)
        for (int tries = 0; tries < TRIES_OF_KNOWN; tries++) {
            world_restore(&w);
            known[i].overwrite(w.hosts[0].segment);
            let_others_go_on(rng, known[i].name);
        }
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
                n_regions = records_find(w.hosts[0].segment, regions);
            }
            try_one(&regions[i], &rng);
        }
    try_known(&rng);
    world_restore(&w);
    world_close(&w);
    printf(
        "test_flipped_words: %u words or pages overwritten in %u regions, of which survivors found %u; %u segments\n",
        tried, n_regions, atomic_load(found), worlds);
    CHECK(tried == flips * n_regions && tried > 0 && atomic_load(found) > 0);
    return 0;
}
