/*
 * player.h -- what a job does to a segment, one random step at a time, without a codec.
 *
 *   open --> step: draw | prepare | write a copy --> ... --> close
 *
 * A payload is a pattern that its sample, its form, its writer's job and the slot's generation name. Therefore a player
 * that reads one sees whether it is whole, and the one that was drawn.
 *
 * Lives in   private memory of a test.
 * Callers    one thread at a time for each player.
 * Crash      a player may die at any instruction; what it leaves is the test's question.
 */
#ifndef PLAYER_H
#define PLAYER_H

#include "base/sn_rng.h"
#include "member/sn_member.h"

#define PLAYER_MOST_SAMPLES 64
#define PLAYER_MOST_SLOTS 256
#define PLAYER_HAND 6      /* samples that it has drawn and not prepared */
#define PLAYER_IN_FLIGHT 4 /* as it tells others: it needs little of the stage */
#define PLAYER_MOST_OFFERS 4
#define PLAYER_SIDE 4 /* of a staged copy, in pixels */
#define PLAYER_COPY_BYTES (3 * PLAYER_SIDE * PLAYER_SIDE + 16)

/* How a member draws; each has code of its own in csrc/member. */
enum player_kind {
    PLAYER_EXCHANGES = 0, /* lets copies of others take the places of its samples */
    PLAYER_EXACT = 1,     /* copies are the same whoever makes them */
    PLAYER_ORDERED = 2,   /* a fixed order, of which it has a timetable */
    PLAYER_SUBSET = 3,    /* exchanges, on two thirds of the samples */
    PLAYER_KINDS = 4
};

typedef struct {
    sn_segment *segment;
    uint32_t process_row, job;
    enum player_kind kind;
    sn_rng rng;
    sn_member *member; /* NULL: it has none open */
    int hands_over;    /* workers prepare what it draws */
    int is_damaged;    /* the segment's words were flipped: it believes nothing, and checks nothing */

    uint32_t places, in_flight;
    uint8_t drawn[PLAYER_MOST_SAMPLES]; /* by sample: how often */
    sn_item hand[PLAYER_HAND];
    sn_offer offers[PLAYER_MOST_OFFERS], copies[PLAYER_MOST_OFFERS]; /* to be asked; accepted and to be written */
    uint32_t reserved[PLAYER_MOST_SLOTS]; /* by slot: the generation of what it last reserved there; 0: nothing */
    uint32_t generations[PLAYER_HAND], copy_generations[PLAYER_MOST_OFFERS]; /* of the slots that are held */
    uint32_t n_hand, n_offers, n_copies;
    uint64_t served; /* samples that were in the segment */
} player;

/* A player of this job, whose process has this row. */
void player_make(player *p, sn_segment *segment, uint32_t process_row, uint32_t job, uint64_t seed);

/* Begin an epoch; what sn_member_open() answers. */
int player_open(player *p, enum player_kind kind, uint32_t epoch);

/* One step, if there is one to do. 0: its epoch is over and its hands are empty. */
int player_step(player *p);

/* Prepare whatever it has in hand, and end its epoch where it is. */
void player_close(player *p);

/* With the lock held: all that it holds is as it was when it was drawn. */
void player_check_hand(const player *p);

/* Each of its samples was drawn once. */
void player_check_epoch(const player *p);

/* The payload in a slot, written or checked. */
void player_write_payload(const player *p, uint32_t slot);
void player_check_payload(const sn_segment *segment, uint32_t slot);

/* Write it, and mostly commit it. */
void player_finish(player *p, uint32_t slot);

#endif
