/*
 * fuzz_live.c -- records are overwritten while members draw. They go on, and so does one more process that comes.
 *
 *   kinds | act | edits of a valid segment --> two members draw, open before --> another joins, acts --> it is rebuilt
 */
#include "check.h"
#include "fuzz.h"
#include "records.h"
#include "segment.h"

#define STEPS_BEFORE 3
#define STEPS 8

void fuzz_begin(void)
{
    segment_begin();
}

static void go_on(player *players, uint32_t steps)
{
    for (uint32_t i = 0; i < steps; i++)
        for (uint32_t k = 0; k < WORLD_HANDLES; k++)
            player_step(&players[k]);
}

void fuzz_one(const uint8_t *bytes, size_t length)
{
    uint8_t kinds = fuzz_byte(&bytes, &length), act = fuzz_byte(&bytes, &length);
    player players[WORLD_HANDLES];

    for (uint32_t k = 0; k < WORLD_HANDLES; k++) {
        const guest *host = &segment_world.hosts[k];
        player_make(&players[k], host->segment, host->row, host->job, kinds / 16 + k);
        player_open(&players[k], (enum player_kind)(kinds >> 2 * k & 3), 0);
    }
    go_on(players, STEPS_BEFORE);
    segment_edit(bytes, length);
    for (uint32_t k = 0; k < WORLD_HANDLES; k++)
        players[k].is_damaged = 1;
    go_on(players, STEPS);
    guest host = segment_host(act / GUEST_ACTS % WORLD_HANDLES, act);
    guest_act(&host, act % GUEST_ACTS, STEPS);
    go_on(players, STEPS_BEFORE);
    for (uint32_t k = 0; k < WORLD_HANDLES; k++)
        player_close(&players[k]);
    records_check_rebuilt(segment_world.hosts[0].segment);
    segment_restore();
}

picture_file fuzz_seed(uint32_t number, sn_rng *rng)
{
    uint8_t header[2] = {(uint8_t)(7 * number), (uint8_t)number};

    return segment_seed(header, sizeof header, number, rng);
}
