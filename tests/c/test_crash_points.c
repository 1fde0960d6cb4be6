/*
 * test_crash_points.c -- a process dies at each point of base/sn_crash.h, another as it recovers, and a third goes on.
 *
 *   one     at each point, at its first visit, its last and some between: killed, and recovered from
 *   two     each pair: the first is killed at one point, the second, which comes to what that left, at the other
 *
 * A point that no scenario reaches is an error: it would be tested by nobody. PAIRS=n tries so many random pairs,
 * PAIRS=all each.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/sn_status.h"
#include "check.h"
#include "crash_points.h"
#include "crash_world.h"
#include "store/sn_check.h"
#include "store/sn_distrust.h"
#include "store/sn_join.h"
#include "store/sn_store.h"

#define STEPS 24        /* of each member */
#define VISITS 4u       /* of a point at which somebody dies, at the most */
#define SOME_PAIRS 1500 /* unless PAIRS says more */
#define TRIES 20        /* seeds, until each point is passed */
#define TO_THE_END 8    /* every so many recoveries go on through all epochs */

enum scenario {
    GUESTS = 0,   /* into a segment whose users let copies take places, or have exact ones */
    ORDERED = 1,  /* into one whose users all have fixed orders */
    LATE = 2,     /* whose member is kept from the lock for a while */
    FOUNDERS = 3, /* they make a segment, leave it, come again, and take it away */
    DOUBTERS = 4, /* they say that one is not to be trusted */
    SCENARIOS = 5
};

static uint64_t seed, acts_seed; /* of all; of what the process does that is to die */
static world worlds[2];          /* of the first two scenarios */
static char founded[64];
static uint32_t n_points, visits[SCENARIOS][CRASH_MOST_POINTS], recoveries;
static sn_geometry geometry;

static void found(uint32_t job, uint32_t keep)
{
    sn_geometry wanted = geometry;
    guest g;
    player p;

    wanted.keep = keep;
    int rc = guest_join(&g, founded, &wanted, job, acts_seed);
    CHECK(rc == SN_ATTACH_CREATED || rc == SN_ATTACH_JOINED);
    guest_act(&g, GUEST_GROWS, 0);
    player_make(&p, g.segment, g.row, job, acts_seed);
    player_open(&p, PLAYER_EXCHANGES, 0);
    for (int i = 0; i < 12; i++)
        player_step(&p);
    player_close(&p);
    guest_leave(&g);
}

/* What the process does that is to die. */
static void act(enum scenario scenario, uint32_t job)
{
    guest g;
    int rc;

    switch (scenario) {
    case GUESTS:
    case ORDERED:
        CHECK_EQUAL(guest_join(&g, worlds[scenario].path, &geometry, job, acts_seed), SN_ATTACH_JOINED, "job %u", job);
        guest_acts(&g, STEPS);
        guest_leave(&g);
        break;
    case LATE:
        CHECK_EQUAL(guest_join(&g, worlds[GUESTS].path, &geometry, job, acts_seed), SN_ATTACH_JOINED, "job %u", job);
        guest_act(&g, GUEST_IS_LATE, STEPS);
        guest_leave(&g);
        break;
    case FOUNDERS:
        found(job, SN_KEEP_FOREVER);
        found(job + 1, SN_KEEP_FOREVER);
        CHECK_EQUAL(sn_discard(open(founded, O_RDWR | O_CLOEXEC), founded), 0, "nobody uses it");
        found(job, 0);
        found(job, 1000);
        sn_sweep(open(founded, O_RDWR | O_CLOEXEC), founded);
        break;
    default:
        rc = guest_join(&g, founded, &geometry, job, acts_seed);
        CHECK(rc == SN_ATTACH_CREATED || rc == SN_ATTACH_JOINED);
        sn_distrust_report(g.segment, job, 3, SN_DECODED);
        guest_leave(&g);
    }
}

/* Answers as world_wait(). `point` n_points: it lives. */
static int run(enum scenario scenario, uint32_t job, uint32_t point, uint32_t visit)
{
    pid_t pid = world_fork();

    if (pid == 0) {
        alarm(30);
        if (point < n_points)
            crash_points_die_at(point, visit);
        act(scenario, job);
        _exit(0);
    }
    return world_wait(pid);
}

static void begin(enum scenario scenario)
{
    if (scenario < FOUNDERS)
        world_restore(&worlds[scenario == ORDERED]);
    else
        unlink(founded);
}

static void recover_founded(void)
{
    char why[256] = "";
    guest g;

    alarm(30);
    int rc = guest_join(&g, founded, &geometry, 9, seed);
    CHECK(rc == SN_ATTACH_CREATED || rc == SN_ATTACH_JOINED);
    CHECK_EQUAL(sn_store_enter(g.segment, 5000), 0, "recovery");
    CHECK_EQUAL(sn_store_reap(g.segment, 1), 0, "who came has reaped the dead");
    CHECK_EQUAL(sn_store_check(g.segment, why, sizeof why), 0, "%s", why);
    sn_store_leave(g.segment);
    guest_act(&g, PLAYER_EXCHANGES, STEPS);
    guest_leave(&g);
}

static void recover(enum scenario scenario, const char *after)
{
    int is_guest = scenario < FOUNDERS;
    pid_t pid = is_guest ? world_fork_survivor() : world_fork();

    recoveries++;
    if (pid == 0) {
        if (is_guest)
            world_recover(&worlds[scenario == ORDERED], recoveries % TO_THE_END == 0);
        else
            recover_founded(); /* of a segment that is not trusted it makes another */
        _exit(0);
    }
    CHECK_EQUAL(world_wait(pid), 0, "scenario %d, after a death at %s", (int)scenario, after);
}

static void count_visits(enum scenario scenario)
{
    const uint32_t *watched = crash_points_watch();

    begin(scenario);
    CHECK_EQUAL(run(scenario, 3, n_points, 0), 0, "nobody dies");
    crash_points_stop();
    memcpy(visits[scenario], watched, sizeof visits[scenario]);
    recover(scenario, "no death");
}

/* The scenario in which both points are passed, the first if there are several; SCENARIOS: there is none. */
static enum scenario of_both(uint32_t first, uint32_t second)
{
    enum scenario scenario = GUESTS;

    while (scenario < SCENARIOS && (!visits[scenario][first] || !visits[scenario][second]))
        scenario++;
    return scenario;
}

static bool all_visited(void)
{
    bool all = true;

    for (uint32_t point = 0; point < n_points; point++)
        all &= of_both(point, point) < SCENARIOS;
    return all;
}

static void die_once(enum scenario scenario, uint32_t point, sn_rng *rng, uint32_t *deaths)
{
    uint32_t all = visits[scenario][point];

    for (uint32_t i = 0; i < VISITS && i < all; i++) {
        uint32_t visit = i == 0 ? 1 : i == 1 ? all : 1 + sn_rng_below(rng, all);
        begin(scenario);
        CHECK_EQUAL(run(scenario, 3, point, visit), -SIGKILL, "%s", crash_points_name(point));
        recover(scenario, crash_points_name(point));
        ++*deaths;
    }
}

/* Whether the second died too: what the first left may lead past its point. */
static int die_twice(uint32_t first, uint32_t second, sn_rng *rng)
{
    enum scenario scenario = of_both(first, second);
    char what[128];

    begin(scenario);
    uint32_t visit = 1 + sn_rng_below(rng, visits[scenario][first]);
    CHECK_EQUAL(run(scenario, 3, first, visit), -SIGKILL, "%s, visit %u of %u in scenario %d", crash_points_name(first),
                visit, visits[scenario][first], (int)scenario);
    int ended = run(scenario, 7, second, 1 + (sn_rng_below(rng, 2) ? sn_rng_below(rng, 3) : 0));
    snprintf(what, sizeof what, "%s, then %s", crash_points_name(first), crash_points_name(second));
    CHECK(ended == 0 || ended == -SIGKILL);
    recover(scenario, what);
    return ended == -SIGKILL;
}

int main(int argc, char **argv)
{
    const char *asked = getenv("PAIRS");
    uint32_t deaths = 0, pairs = 0, both = 0, unreached = 0;
    sn_rng rng;

    seed = check_seed(argc, argv);
    sn_rng_start(&rng, seed, 0, 0, 0, SN_STREAM_ORDER);
    n_points = crash_points_count();
    for (int i = 0; i < 2; i++) {
        world_make(&worlds[i], seed, i == ORDERED);
        world_save(&worlds[i]);
    }
    geometry = worlds[0].geometry;
    world_name(founded, "founded");
    acts_seed = seed - 1;
    do { /* what a guest comes to depends on chance: with one seed in six, a point is missed */
        acts_seed++;
        for (enum scenario scenario = GUESTS; scenario < SCENARIOS; scenario++)
            count_visits(scenario);
    } while (!all_visited() && acts_seed < seed + TRIES - 1);

    for (uint32_t point = 0; point < n_points; point++) {
        uint32_t before = deaths;
        for (enum scenario scenario = GUESTS; scenario < SCENARIOS; scenario++)
            die_once(scenario, point, &rng, &deaths);
        if (deaths == before) {
            fprintf(stderr, "nothing reaches the point %s\n", crash_points_name(point));
            unreached++;
        }
    }
    uint32_t wanted = asked && strcmp(asked, "all") != 0 ? (uint32_t)strtoul(asked, NULL, 10) : SOME_PAIRS;
    for (uint32_t first = 0; first < n_points; first++)
        for (uint32_t second = 0; second < n_points; second++)
            if ((asked && strcmp(asked, "all") == 0) || sn_rng_below(&rng, n_points * n_points) < wanted)
                if (of_both(first, second) < SCENARIOS) {
                    both += (uint32_t)die_twice(first, second, &rng);
                    pairs++;
                }
    begin(GUESTS);
    for (int i = 0; i < 2; i++)
        world_close(&worlds[i]);
    unlink(founded);
    printf("test_crash_points: %u points, %u deaths at one, %u pairs (%u of two deaths), %u recoveries\n", n_points,
           deaths, pairs, both, recoveries);
    CHECK_EQUAL(unreached, 0, "points");
    CHECK(deaths >= n_points && both > 0);
    return 0;
}
