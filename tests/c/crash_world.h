/*
 * crash_world.h -- a small segment in use, in which others die, and what a survivor does then.
 *
 *   two survivors, in the middle of their epochs, and the row of one that died     the segment's file
 *        |                                                                            |
 *        +--- a guest (guest.h) joins and is killed at some place  ------------------>+
 *        +--- a copy of the survivors recovers, checks everything, goes on, leaves -->+
 *
 * The copy is a child process that shares the survivors' file descriptions, and with them their locks. Therefore it is a
 * survivor, and the test's own state stays as it was.
 *
 * Lives in   the test, and files in /dev/shm.
 * Callers    one thread.
 */
#ifndef CRASH_WORLD_H
#define CRASH_WORLD_H

#include <sys/types.h>

#include "guest.h"

#define WORLD_SAMPLES 24u
#define WORLD_GRANULES 48u
#define WORLD_FIRST_GRANULES 42u
#define WORLD_HANDLES 2u
#define WORLD_PLAYERS 4u
#define WORLD_REGIONS 8u

typedef struct {
    char path[64];
    sn_geometry geometry;
    uint64_t seed;
    guest hosts[WORLD_HANDLES];
    player players[WORLD_PLAYERS];
    struct {
        size_t at, bytes;
    } regions[WORLD_REGIONS]; /* of the file: all that is used of it */
    uint32_t n_regions;
    uint8_t *saved; /* their content, one after the other */
    size_t saved_bytes;
} world;

/* `is_ordered`: all members have fixed orders, so that the next uses of what is kept are known. */
void world_make(world *w, uint64_t seed, int is_ordered);
void world_close(world *w);

/* Keep the segment's content, and bring it back. */
void world_save(world *w);
void world_restore(const world *w);

/* fork(), of which the child ends with its parent, however that ends. Stopped processes would stay for ever. */
pid_t world_fork(void);
void world_end_with(pid_t parent); /* the same, in a child that was made in another way */

/* A child process with the survivors' locks, as it is; the handles are good in it. */
pid_t world_fork_survivor(void);

/* In such a child: the survivors' segment is another file from now on, and their locks are on that. */
void world_move_to(world *w, const char *path);

/* In such a child. Recover, check everything, let a newcomer come, go on, leave. `to_the_end`: through all epochs. */
void world_recover(world *w, int to_the_end);

/* Wait for a child: 0, its exit code, or -signal. */
int world_wait(pid_t pid);

/* A name in /dev/shm, for this process. It is taken away when the process ends. */
void world_name(char path[64], const char *what);

#endif
