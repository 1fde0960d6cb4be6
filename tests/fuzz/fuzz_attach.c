/*
 * fuzz_attach.c -- a process finds any bytes where a segment is to be, and attaches, acts and leaves; or sweeps it up.
 *
 *   mode | act | edits of a valid segment, or bytes that come over it --> snapshot --> join, act, leave | sweep | discard
 *
 * Processes live in it, or all have died.
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/sn_status.h"
#include "check.h"
#include "fuzz.h"
#include "segment.h"
#include "shm/sn_snapshot.h"
#include "store/sn_join.h"

#define STEPS 12
#define IS_DESERTED 1u
#define IS_OVERWRITTEN 2u
#define IS_SHORT 4u
#define IS_WATCHED 8u
#define IS_OF_OTHER 16u /* the joiner looks for another dataset */

void fuzz_begin(void)
{
    segment_begin();
}

static int open_it(void)
{
    return open(segment_world.path, O_RDWR | O_CLOEXEC);
}

static void watch(int fd)
{
    static sn_snapshot snapshot;
    static sn_dataset dataset;

    if (sn_snapshot_take(fd, &snapshot) == 0)
        for (uint32_t row = 0; row < SN_MAX_ROWS; row += 9)
            sn_snapshot_read_dataset(fd, &snapshot, row, &dataset);
}

static void come_and_go(uint8_t mode, uint8_t act)
{
    sn_geometry geometry = segment_world.geometry;
    guest g;

    geometry.fingerprint[0] += (mode & IS_OF_OTHER) != 0;
    int rc = guest_join(&g, segment_world.path, &geometry, 3, act);
    CHECK(rc < 0 || rc == SN_ATTACH_JOINED || rc == SN_ATTACH_CREATED || rc == SN_BUSY);
    if (rc != SN_ATTACH_JOINED && rc != SN_ATTACH_CREATED) {
        CHECK(!g.segment);
        return;
    }
    g.is_damaged = 1;
    if (rc == SN_ATTACH_JOINED) /* in a new one all is well */
        guest_act(&g, act % GUEST_ACTS, STEPS);
    guest_leave(&g);
}

void fuzz_one(const uint8_t *bytes, size_t length)
{
    uint8_t mode = fuzz_byte(&bytes, &length), act = fuzz_byte(&bytes, &length);

    if (mode & IS_OVERWRITTEN)
        segment_overwrite(bytes, length, mode & IS_SHORT ? length : segment_world.hosts[0].segment->bytes);
    else
        segment_edit(bytes, length);
    if (mode & IS_DESERTED)
        segment_desert();
    int fd = open_it();
    CHECK(fd >= 0);
    sn_left_behind(fd);
    if (mode & IS_WATCHED)
        watch(fd);
    if (mode >> 6 == 1)
        sn_sweep(fd, segment_world.path);
    else if (mode >> 6 == 2)
        sn_discard(fd, segment_world.path);
    else
        close(fd);
    if (mode >> 6 != 1)
        come_and_go(mode, act);
    segment_restore();
}

picture_file fuzz_seed(uint32_t number, sn_rng *rng)
{
    uint8_t header[2] = {(uint8_t)(number * 37 & ~IS_OVERWRITTEN), (uint8_t)number};
    const sn_segment *segment = segment_world.hosts[0].segment;

    if (number % 8 != 7)
        return segment_seed(header, sizeof header, number, rng);
    picture_file head = {malloc(sizeof(sn_header)), sn_rng_below(rng, 2) ? 512 : 64};
    CHECK(head.bytes);
    memcpy(head.bytes, segment->head, head.length);
    header[0] = IS_OVERWRITTEN | IS_WATCHED | (number & 8 ? IS_SHORT : 0) | IS_DESERTED;
    return fuzz_with_header(header, sizeof header, head);
}
