/*
 * test_pacing.c -- whether a member that is in front may draw, or waits for one that is far behind.
 *
 *   a play: members of one order, each with an invented clock. `go` draws, makes and takes batches of a member, which waits
 *           for them or does not; then the member in front is asked whether it may draw
 *
 * Everything but the numbers of samples is the same in all plays, and no play depends on how long anything takes.
 */
#include "base/sn_rng.h"
#include "base/sn_status.h"
#include "cache.h"
#include "check.h"
#include "member/sn_member.h"
#include "member/sn_pacing.h"
#include "slots/sn_slots.h"
#include "store/sn_store.h"

#define N_SAMPLES 8000u
#define BATCH 4u
#define IN_FLIGHT 12u /* so peers are no more than 6 behind */
#define STAGE 100u    /* copies, of a granule each */
#define MS 1000000u
#define PATIENCE (100u * MS)
#define TAKES (4u * MS) /* a batch, by whoever waits for it */
#define MOST 6u

static uint64_t seed;
static cache shared;

typedef struct {
    sn_member *member;
    uint32_t handle;
    int was_held_up; /* since it drew last */
    uint64_t now;    /* by its own clock, with which no other's is compared */
} job;

/* A member of its own job. `order` 0 is that of the others. */
static job join(uint32_t handle, uint32_t order)
{
    sn_member_options options = {
        .epoch = {.n_samples = N_SAMPLES, .places = N_SAMPLES, .seed = seed + order, .epoch = 1},
        .job_key = handle,
        .client =
            {.decoded_pipeline = 100, .augmented_pipeline = 200, .height = 16, .width = 16, .shares = 1, .exact = 1},
        .process_row = shared.rows[handle],
        .in_flight = IN_FLIGHT,
        .family = 77,
    };
    job joined = {.handle = handle, .now = 1000 * MS};
    int rc;

    CHECK_EQUAL(sn_member_open(shared.handles[handle], &options, &joined.member, &rc), 0, "job %u", handle);
    CHECK_EQUAL(rc, 0, "job %u", handle);
    return joined;
}

/* Whoever finishes places says so. */
static void finish(const job *j, uint32_t places)
{
    atomic_fetch_add(sn_member_progress(j->member), places);
}

/* Draw and make so many samples. Whether the training loop waits for them: it takes its time else. */
static void go(job *j, uint32_t samples, int waits)
{
    sn_item items[BATCH], *awaiting[BATCH];
    const uint64_t nobody[SN_MAX_ROWS / 64] = {0};
    uint32_t drawn, n;

    for (; samples > 0; samples -= drawn) {
        int slowly = j->was_held_up || sn_member_waits_for_laggard(j->member);
        CHECK_EQUAL(sn_member_draw(j->member, samples < BATCH ? samples : BATCH, items, &drawn, NULL, 0), 0, "job %u",
                    j->handle);
        CHECK(drawn > 0);
        n = 0;
        for (uint32_t i = 0; i < drawn; i++)
            if (items[i].awaited)
                awaiting[n++] = &items[i];
        CHECK_EQUAL(sn_member_check_awaited(j->member, awaiting, n, 1, nobody), 0, "job %u", j->handle);
        for (uint32_t i = 0; i < drawn; i++)
            if (items[i].target_slot != SN_NONE)
                sn_slot_commit(shared.handles[j->handle], items[i].target_slot);
        sn_member_done(j->member, items, drawn);
        finish(j, drawn);
        j->now += TAKES;
        sn_member_taken(j->member, drawn, waits ? TAKES : 0, j->now, slowly);
        j->was_held_up = 0;
    }
}

static int may_draw(job *j)
{
    int may = sn_member_may_draw(j->member, PATIENCE, j->now);

    j->was_held_up |= !may;
    return may;
}

static void leave(const job *j)
{
    sn_member_close(j->member);
}

/* One in front, which has drawn so much, and one that is behind. The one in front comes first, so that it finds the other
 * where that is. */
static void set_apart(job *front, uint32_t at, job *behind, uint32_t is_at)
{
    *front = join(0, 0);
    go(front, at - BATCH, 1);
    CHECK(may_draw(front)); /* nobody is there */
    *behind = join(1, 0);
    go(behind, is_at, 1);
}

static void one_in_front_draws_at_an_eighth_of_the_pace_of_one_that_is_behind(void)
{
    job front, behind;

    set_apart(&front, 1000, &behind, 100);
    CHECK(may_draw(&front)); /* it has not looked yet */
    for (uint32_t turn = 0; turn < 5; turn++) {
        go(&front, BATCH, 1);
        CHECK(!may_draw(&front));
        finish(&behind, SN_SLOWER * BATCH - 1);
        CHECK(!may_draw(&front));
        finish(&behind, 1);
        CHECK(may_draw(&front));
    }
    leave(&behind);
    CHECK(may_draw(&front));
    go(&front, BATCH, 1);
    CHECK(may_draw(&front));
    leave(&front);
}

/* A patience is as long as a batch is to wait for this pace. */
static void a_batch_that_has_waited_long_waits_for_half_of_that(void)
{
    job front, behind;

    set_apart(&front, 1000, &behind, 100);
    go(&front, BATCH, 1);
    CHECK(!may_draw(&front));
    for (uint32_t made = 1; made < SN_SLOWER / 2 * BATCH; made++) {
        front.now += PATIENCE / 2; /* no more, where it waits so long: then it stands */
        finish(&behind, 1);
        CHECK(!may_draw(&front));
    }
    finish(&behind, 1);
    CHECK(may_draw(&front) && sn_member_waits_for_laggard(front.member));
    go(&front, BATCH, 1);
    CHECK(!may_draw(&front));
    finish(&behind, SN_SLOWER / 2 * BATCH);
    CHECK(!may_draw(&front)); /* the next batch has waited for no time yet */
    front.now += PATIENCE;
    CHECK(!may_draw(&front));
    front.now += 1;
    CHECK(may_draw(&front));
    leave(&front);
    leave(&behind);
}

static void it_goes_on_once_the_other_is_near_and_does_not_wait_for_it_again(void)
{
    job front, behind;

    set_apart(&front, 1000, &behind, 100);
    go(&front, BATCH, 1);
    while (sn_member_left(behind.member) > sn_member_left(front.member) + IN_FLIGHT / 2 + BATCH) {
        may_draw(&front);
        CHECK(sn_member_waits_for_laggard(front.member));
        go(&behind, BATCH, 1);
    }
    go(&behind, BATCH, 1);
    CHECK(may_draw(&front) && !sn_member_waits_for_laggard(front.member));
    for (uint32_t i = 0; i < 1000 / BATCH; i++) {
        go(&front, BATCH, 1);
        CHECK(may_draw(&front) && !sn_member_waits_for_laggard(front.member));
    }
    leave(&front);
    leave(&behind);
}

static void one_that_stands_costs_one_patience_and_no_more_in_the_epoch(void)
{
    job front, behind;

    set_apart(&front, 1000, &behind, 100);
    go(&front, BATCH, 1);
    CHECK(!may_draw(&front));
    front.now += PATIENCE;
    CHECK(!may_draw(&front));
    finish(&behind, 1); /* while it goes on, it has its patience anew; half of it, where the batch waits so long */
    for (uint32_t turn = 0; turn < 10; turn++) {
        CHECK(!may_draw(&front));
        front.now += PATIENCE / 2;
        CHECK(!may_draw(&front));
        finish(&behind, 1);
    }
    CHECK(!may_draw(&front));
    front.now += PATIENCE / 2;
    CHECK(!may_draw(&front));
    front.now += 1;
    CHECK(may_draw(&front) && !sn_member_waits_for_laggard(front.member));
    go(&behind, 20, 1);
    for (uint32_t turn = 0; turn < 20; turn++) {
        go(&front, BATCH, 1);
        CHECK(may_draw(&front) && !sn_member_waits_for_laggard(front.member));
    }
    leave(&behind);
    behind = join(1, 0); /* another, in the same row */
    go(&behind, 100, 1);
    go(&front, BATCH, 1);
    CHECK(!may_draw(&front));
    leave(&front);
    leave(&behind);
}

static void one_that_is_slow_is_waited_for_twice_as_long_as_the_one_in_front_would_need(void)
{
    job front, behind;
    uint64_t until;

    set_apart(&front, 1000, &behind, 100);
    go(&front, BATCH, 1);
    CHECK(!may_draw(&front));
    until = front.now + 2ull * 900 * (TAKES / BATCH);
    for (; front.now + 50 * MS < until; front.now += 50 * MS, finish(&behind, 1))
        CHECK(!may_draw(&front) || sn_member_waits_for_laggard(front.member));
    front.now = until;
    may_draw(&front);
    CHECK(sn_member_waits_for_laggard(front.member));
    front.now++;
    finish(&behind, 1);
    CHECK(may_draw(&front) && !sn_member_waits_for_laggard(front.member));
    leave(&front);
    leave(&behind);
}

/* Whether the one in front waits, in a play of its own. */
static int holds_up(int front_waits, int behind_waits, uint32_t order, uint32_t at, uint32_t is_at)
{
    job front = join(0, 0), behind;

    go(&front, at - BATCH, front_waits);
    behind = join(1, order);
    go(&behind, is_at, behind_waits);
    go(&front, BATCH, front_waits);
    int held = !may_draw(&front);
    CHECK_EQUAL(held, sn_member_waits_for_laggard(front.member), "at %u and %u", at, is_at);
    CHECK(may_draw(&behind)); /* whoever is behind never waits */
    leave(&front);
    leave(&behind);
    return held;
}

static void only_jobs_that_the_loader_limits_wait_and_only_for_such_jobs_of_their_order(void)
{
    CHECK(holds_up(1, 1, 0, 1000, 100));
    CHECK(!holds_up(0, 1, 0, 1000, 100));
    CHECK(!holds_up(1, 0, 0, 1000, 100));
    CHECK(!holds_up(1, 1, 5, 1000, 100));
    CHECK(!holds_up(1, 1, 0, 1000, 3 * BATCH)); /* too early to say what limits it */
}

static void it_waits_only_if_the_stage_is_too_small_and_it_pays(void)
{
    CHECK(!holds_up(1, 1, 0, 200 + STAGE / 2, 200));
    CHECK(holds_up(1, 1, 0, 200 + STAGE / 2 + BATCH, 200));
    CHECK(holds_up(1, 1, 0, N_SAMPLES / 2, 24));
    CHECK(!holds_up(1, 1, 0, N_SAMPLES / 2 + 24, 24));
}

static void of_several_the_last_that_pays_is_waited_for(void)
{
    job front[3], behind[2];

    for (uint32_t i = 0; i < 3; i++) /* three in front: what is left is to be three times what lies between */
        front[i] = join(i, 0);
    for (uint32_t at = 0; at < 1000; at += BATCH)
        for (uint32_t i = 0; i < 3; i++)
            go(&front[i], BATCH, 1);
    behind[0] = join(3, 0);
    go(&behind[0], 500, 1);
    behind[1] = join(4, 0);
    go(&behind[1], 40, 1);
    go(&front[0], BATCH, 1);
    CHECK(!may_draw(&front[0]));
    finish(&behind[0], SN_SLOWER * BATCH);
    CHECK(!may_draw(&front[0]));
    finish(&behind[1], SN_SLOWER * BATCH);
    CHECK(may_draw(&front[0]));
    front[0].now += PATIENCE + 1; /* the last one stands: then it is the other's turn */
    CHECK(may_draw(&front[0]));
    go(&front[0], BATCH, 1);
    CHECK(!may_draw(&front[0]));
    finish(&behind[0], SN_SLOWER * BATCH);
    CHECK(may_draw(&front[0]));
    go(&behind[0], BATCH, 1); /* is itself in front of the last, and waits for it */
    CHECK(!may_draw(&behind[0]));
    for (uint32_t i = 0; i < 3; i++)
        leave(&front[i]);
    leave(&behind[0]);
    leave(&behind[1]);
}

/* Whether three that are together wait for so many that are at their beginning. */
static int three_wait_for(uint32_t n_behind)
{
    job front[3], behind[2];

    for (uint32_t i = 0; i < 3; i++)
        front[i] = join(i, 0);
    for (uint32_t at = 0; at < 2500; at += BATCH)
        for (uint32_t i = 0; i < 3; i++)
            go(&front[i], BATCH, 1);
    for (uint32_t i = 0; i < n_behind; i++) {
        behind[i] = join(3 + i, 0);
        go(&behind[i], 40, 1);
    }
    go(&front[0], BATCH, 1);
    int held = !may_draw(&front[0]);
    for (uint32_t i = 0; i < 3; i++)
        leave(&front[i]);
    for (uint32_t i = 0; i < n_behind; i++)
        leave(&behind[i]);
    return held;
}

/* One in front waits at this distance, as another play shows. */
static void it_pays_less_the_more_wait_and_more_the_more_come(void)
{
    CHECK(!three_wait_for(1));
    CHECK(three_wait_for(2));
}

static void one_that_died_is_not_waited_for_once_that_is_found(void)
{
    job front, behind = join(MOST, 0);

    go(&behind, 40, 1);
    front = join(0, 0);
    go(&front, 600, 1);
    CHECK(!may_draw(&front));
    cache_die(shared.handles[MOST]);
    sn_member_close(behind.member);
    CHECK(!may_draw(&front));
    CHECK_EQUAL(sn_store_enter(shared.handles[1], CACHE_PATIENCE_MS), 0, "to reap");
    CHECK(sn_store_reap(shared.handles[1], 1) > 0);
    sn_store_leave(shared.handles[1]);
    CHECK(may_draw(&front));
    leave(&front);
}

int main(int argc, char **argv)
{
    static const uint32_t split[SN_FORMS] = {0, 0, 0, 10000};
    static const uint64_t job_keys[MOST + 1] = {0, 1, 2, 3, 4, 5, 6};

    seed = check_seed(argc, argv);
    cache_make(&shared, MOST + 1, job_keys, N_SAMPLES, STAGE * SN_GRANULE, split);
    one_in_front_draws_at_an_eighth_of_the_pace_of_one_that_is_behind();
    a_batch_that_has_waited_long_waits_for_half_of_that();
    it_goes_on_once_the_other_is_near_and_does_not_wait_for_it_again();
    one_that_stands_costs_one_patience_and_no_more_in_the_epoch();
    one_that_is_slow_is_waited_for_twice_as_long_as_the_one_in_front_would_need();
    only_jobs_that_the_loader_limits_wait_and_only_for_such_jobs_of_their_order();
    it_waits_only_if_the_stage_is_too_small_and_it_pays();
    of_several_the_last_that_pays_is_waited_for();
    it_pays_less_the_more_wait_and_more_the_more_come();
    one_that_died_is_not_waited_for_once_that_is_found();
    cache_check_and_close(&shared);
    printf("test_pacing: all plays\n");
    return 0;
}
