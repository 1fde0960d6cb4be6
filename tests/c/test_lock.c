/*
 * test_lock.c -- the segment's lock: one has it, another waits for so long and no longer, and a forked child has no part in it.
 */
#include <stdio.h>
#include <unistd.h>

#include "base/sn_status.h"
#include "cache.h"
#include "check.h"
#include "crash_world.h"
#include "shm/sn_segment.h"

#define SHORT_MS 20

static cache made;

static void one_has_it_and_another_gives_up(void)
{
    sn_segment *one = made.handles[0], *other = made.handles[1];

    CHECK_EQUAL(sn_lock_enter(one, 0), 0, "nobody has it");
    CHECK_EQUAL(sn_lock_enter(other, 0), SN_BUSY, "another process");
    CHECK_EQUAL(sn_lock_enter(other, SHORT_MS), SN_BUSY, "another process");
    CHECK_EQUAL(sn_lock_enter(one, SHORT_MS), SN_BUSY, "another thread of the same, by the mutex");
    sn_lock_leave(one);
    CHECK_EQUAL(sn_lock_enter(other, 0), 0, "it was let go of");
    sn_lock_leave(other);
}

/* As one that returns from a callback of the user's, which has forked: to let go would free the parent's lock. */
static void a_forked_child_lets_go_of_nothing(void)
{
    sn_segment *one = made.handles[0];

    CHECK_EQUAL(sn_lock_enter(one, 0), 0, "nobody has it");
    pid_t pid = world_fork();
    if (pid == 0) {
        if (sn_lock_enter(one, 0) != SN_E_FORKED)
            _exit(1);
        sn_lock_leave(one);
        _exit(0);
    }
    CHECK_EQUAL(world_wait(pid), 0, "the child");
    CHECK_EQUAL(sn_lock_enter(made.handles[1], 0), SN_BUSY, "the parent has it still");
    sn_lock_leave(one);
    CHECK_EQUAL(sn_lock_enter(made.handles[1], 0), 0, "it was let go of");
    sn_lock_leave(made.handles[1]);
}

int main(int argc, char **argv)
{
    static const uint32_t split[SN_FORMS] = {0, 2500, 2500, 3000, 2000};
    const uint64_t jobs[] = {1, 2};

    check_seed(argc, argv);
    cache_make(&made, 2, jobs, 10, 16 * SN_GRANULE, split);
    one_has_it_and_another_gives_up();
    a_forked_child_lets_go_of_nothing();
    cache_check_and_close(&made);
    printf("test_lock: 2 cases\n");
    return 0;
}
