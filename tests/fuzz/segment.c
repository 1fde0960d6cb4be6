#define _GNU_SOURCE
#include "segment.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"
#include "records.h"
#include "shm/sn_row.h"
#include "store/sn_store.h"

#define MOST_SEED_EDITS 6
#define PATIENCE_MS 5000

_Static_assert(sizeof(sn_row) == sizeof(sn_slot), "an edit goes from record to record");

world segment_world;

static region regions[RECORDS_MOST];
static uint32_t n_regions;
static uint64_t own_rows[WORLD_HANDLES][SN_MAX_ROWS / 64];
static off_t file_bytes;
static blkcnt_t file_blocks; /* that it has when all that is saved is in it */
static char away[80];        /* where it is while its name is gone */
static int is_away, is_cut, is_over;

/* In place of the C library's: a file that has lost its last name cannot get it back. */
int unlink(const char *path)
{
    if (away[0] && strcmp(path, segment_world.path) == 0 && !is_away && !is_over) {
        is_away = 1;
        return rename(path, away);
    }
    return (int)syscall(SYS_unlink, path);
}

/* Before crash_world.c takes the name away. */
static void take_away(void)
{
    is_over = 1;
    if (is_away)
        syscall(SYS_unlink, away);
}

static sn_segment *handle(uint32_t i)
{
    return segment_world.hosts[i].segment;
}

/* Punch holes where nothing is saved: rows that an input has claimed have their areas there. */
static void clear_others(void)
{
    size_t at = 0;

    for (uint32_t i = 0; i <= segment_world.n_regions; i++) {
        size_t end = i < segment_world.n_regions ? segment_world.regions[i].at : (size_t)file_bytes;
        if (end > at)
            CHECK(fallocate(handle(0)->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at, (off_t)(end - at)) ==
                  0);
        at = i < segment_world.n_regions ? end + segment_world.regions[i].bytes : at;
    }
}

static void restore_locks(void)
{
    for (uint32_t i = 0; i < WORLD_HANDLES; i++) {
        sn_segment *segment = handle(i);
        if (memcmp(segment->own_rows, own_rows[i], sizeof own_rows[i]) == 0)
            continue;
        for (uint32_t row = 0; row < SN_MAX_ROWS; row++)
            if (sn_row_is_own(segment, row) && !sn_bit_get(own_rows[i], row))
                sn_row_unlock(segment, row);
        for (uint32_t row = 0; row < SN_MAX_ROWS; row++)
            if (!sn_row_is_own(segment, row) && sn_bit_get(own_rows[i], row))
                CHECK_EQUAL(sn_row_lock(segment, row), 0, "row %u", row);
    }
}

void segment_begin(void)
{
    struct stat file;

    world_make(&segment_world, 1, 0);
    snprintf(away, sizeof away, "%s-away", segment_world.path);
    CHECK(atexit(take_away) == 0);
    CHECK_EQUAL(sn_store_enter(handle(0), PATIENCE_MS), 0,
                "to reap"); /* else the first who comes rebuilds, and mends */
    CHECK(sn_store_reap(handle(0), 1) > 0);
    sn_store_leave(handle(0));
    for (uint32_t i = 0; i < WORLD_HANDLES; i++)
        memcpy(own_rows[i], handle(i)->own_rows, sizeof own_rows[i]);
    world_save(&segment_world);
    world_restore(&segment_world);
    n_regions = records_find(handle(0), regions);
    CHECK(fstat(handle(0)->fd, &file) == 0);
    file_bytes = file.st_size;
    clear_others();
    CHECK(fstat(handle(0)->fd, &file) == 0);
    file_blocks = file.st_blocks;
}

static void edit_word(uint32_t *word, uint32_t words, uint32_t at, uint8_t what, uint32_t value)
{
    switch (what % 4) {
    case 0:
        word[at] = value;
        break;
    case 1:
        word[at] ^= value;
        break;
    case 2:
        word[at] = word[value % words];
        break;
    default: /* so many words from there on are lost */
        for (uint32_t i = at; i < words && i - at <= value % (SN_GRANULE / 4); i++)
            word[i] = 0;
    }
}

static void edit(const uint8_t *bytes)
{
    const region *r = &regions[bytes[0] % n_regions];
    uint32_t words = (uint32_t)(r->bytes / 4), at = (bytes[2] | (uint32_t)bytes[3] << 8) % words, value;
    uint32_t *word = (uint32_t *)(void *)((uint8_t *)handle(0)->head + r->at);
    int is_of_all = (bytes[1] & 4) != 0 && bytes[1] % 4 < 2;

    memcpy(&value, bytes + 4, sizeof value);
    do { /* of all records from there on: a row and a slot have as many words */
        edit_word(word, words, at, bytes[1], value);
        at += sizeof(sn_slot) / 4;
    } while (is_of_all && at < words);
}

void segment_edit(const uint8_t *bytes, size_t length)
{
    for (; length >= SEGMENT_EDIT; bytes += SEGMENT_EDIT, length -= SEGMENT_EDIT)
        edit(bytes);
}

void segment_overwrite(const uint8_t *bytes, size_t length, size_t new_bytes)
{
    CHECK(new_bytes <= (size_t)file_bytes);
    is_cut = new_bytes < (size_t)file_bytes;
    if (is_cut)
        CHECK(ftruncate(handle(0)->fd, (off_t)new_bytes) == 0);
    length = length < new_bytes ? length : new_bytes;
    CHECK(pwrite(handle(0)->fd, bytes, length, 0) == (ssize_t)length);
}

void segment_desert(void)
{
    for (uint32_t i = 0; i < WORLD_HANDLES; i++)
        for (uint32_t row = 0; row < SN_MAX_ROWS; row++)
            if (sn_row_is_own(handle(i), row))
                sn_row_unlock(handle(i), row);
}

guest segment_host(uint32_t which, uint64_t seed)
{
    guest g = segment_world.hosts[which];

    g.is_damaged = 1;
    g.seed = seed;
    sn_rng_start(&g.rng, seed, 1, 0, which, SN_STREAM_CHOOSE);
    return g;
}

void segment_restore(void)
{
    struct stat file;

    if (is_away)
        CHECK(rename(away, segment_world.path) == 0);
    is_away = 0;
    restore_locks();
    for (uint32_t i = 0; i < WORLD_HANDLES; i++) {
        sn_segment *segment = handle(i);
        CHECK(pthread_mutex_trylock(&segment->mutex) == 0); /* nobody has left it locked */
        pthread_mutex_unlock(&segment->mutex);
        segment->is_damaged = 0;
        CHECK(!atomic_load(&segment->guarded.is_cut));
    }
    if (is_cut)
        CHECK(ftruncate(handle(0)->fd, file_bytes) == 0);
    is_cut = 0;
    world_restore(&segment_world);
    CHECK(fstat(handle(0)->fd, &file) == 0);
    if (file.st_blocks != file_blocks)
        clear_others();
}

picture_file segment_seed(const uint8_t *header, size_t length, uint32_t number, sn_rng *rng)
{
    uint32_t n = sn_rng_below(rng, MOST_SEED_EDITS);
    picture_file edits = {malloc(n * SEGMENT_EDIT + 1), n * SEGMENT_EDIT};

    CHECK(edits.bytes);
    for (uint32_t i = 0; i < n; i++) {
        uint8_t *bytes = edits.bytes + i * SEGMENT_EDIT;
        uint32_t value = sn_rng_below(rng, 3) ? sn_rng_below(rng, 70) : sn_rng_u32(rng);
        bytes[0] = (uint8_t)(number + i);
        bytes[1] = (uint8_t)sn_rng_below(rng, 8);
        bytes[2] = (uint8_t)sn_rng_below(rng, 256);
        bytes[3] = (uint8_t)sn_rng_below(rng, 4);
        memcpy(bytes + 4, &value, sizeof value);
    }
    return fuzz_with_header(header, length, edits);
}
