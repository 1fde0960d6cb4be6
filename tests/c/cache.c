#define _GNU_SOURCE
#include "cache.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sn_bits.h"
#include "base/sn_status.h"
#include "check.h"
#include "store/sn_check.h"
#include "store/sn_join.h"
#include "store/sn_store.h"
#include "tsan.h"

static void share_mapping(sn_segment *handle, const sn_segment *with)
{
    CHECK(munmap(handle->head, handle->bytes) == 0);
    handle->head = with->head;
    handle->rows = with->rows;
    handle->telemetry = with->telemetry;
    handle->slots = with->slots;
    handle->first = with->first;
    handle->wants = with->wants;
    handle->writing = with->writing;
    handle->committed = with->committed;
    handle->groups = with->groups;
    handle->granules = with->granules;
    handle->payload = with->payload;
    handle->traits = with->traits;
    handle->areas = with->areas;
    handle->digests = with->digests;
}

void cache_make(cache *made, uint32_t n_handles, const uint64_t *job_keys, uint32_t n_samples, uint64_t payload_bytes,
                const uint32_t split[SN_FORMS])
{
    cache_make_part(made, n_handles, job_keys, n_samples, payload_bytes, 0, split);
}

void cache_make_part(cache *made, uint32_t n_handles, const uint64_t *job_keys, uint32_t n_samples,
                     uint64_t payload_bytes, uint32_t first_granules, const uint32_t split[SN_FORMS])
{
    sn_geometry geometry = {.fingerprint = {1, 2},
                            .payload_bytes = payload_bytes,
                            .n_samples = n_samples,
                            .first_granules = first_granules};
    char path[64];

    CHECK(n_handles <= CACHE_MAX_HANDLES);
    memcpy(geometry.split, split, sizeof geometry.split);
    snprintf(path, sizeof path, "/dev/shm/seneca-%u-test-c-%d", (unsigned)geteuid(), (int)getpid());
    unlink(path); /* of a process of this number that died */
    made->n_handles = n_handles;
    for (uint32_t i = 0; i < n_handles; i++) {
        int fd = open(path, O_RDWR | O_CLOEXEC | (i == 0 ? O_CREAT | O_EXCL : 0), 0600);

        CHECK(fd >= 0);
        int rc = sn_join(fd, path, &geometry, 0, job_keys[i], NULL, NULL, &made->handles[i], &made->rows[i]);
        CHECK_EQUAL(rc, i == 0 ? SN_ATTACH_CREATED : SN_ATTACH_JOINED, "handle %u", i);
        if (i > 0)
            share_mapping(made->handles[i], made->handles[0]);
    }
    CHECK(unlink(path) == 0);
}

void cache_die(sn_segment *handle)
{
    atomic_store(&handle->forked, 1); /* every call answers as in a child, which has no part in it */
    tsan_locks_closed();
    CHECK(close(handle->fd) == 0);
    handle->fd = -1;
}

void cache_check_empty(sn_segment *segment)
{
    sn_store_stats stats;
    char why[256] = "";
    uint64_t taken = 0, in_use = 0;

    CHECK_EQUAL(sn_store_enter(segment, CACHE_PATIENCE_MS), 0, "the last look");
    sn_store_reap(segment, 1);
    CHECK_EQUAL(sn_store_check(segment, why, sizeof why), 0, "%s", why);
    sn_store_read_stats(segment, &stats);
    CHECK_EQUAL(stats.members, 0, "all have left");
    CHECK_EQUAL(stats.writing, 0, "nobody writes");
    CHECK_EQUAL(stats.slots_of[SN_AUGMENTED], 0, "nobody wants a copy");
    CHECK_EQUAL(stats.bytes_of[SN_AUGMENTED], 0, "nobody wants a copy");
    for (int form = 0; form < SN_FORMS; form++)
        taken += stats.bytes_of[form];
    /* What was written before the limit fell may still lie behind it. */
    CHECK_EQUAL(stats.free_bytes, taken < stats.payload_bytes ? stats.payload_bytes - taken : 0, "free and used");
    for (uint32_t slot = 0; slot < segment->n_slots; slot++)
        CHECK_EQUAL(segment->slots[slot].pins, 0, "slot %u", slot);
    for (uint32_t granule = 0; granule < segment->n_granules; granule++)
        in_use += (uint64_t)sn_bit_get(segment->granules, granule);
    CHECK_EQUAL(in_use * SN_GRANULE, taken, "each granule is of one payload");
    sn_store_leave(segment);
}

void cache_check_and_close(cache *made)
{
    cache_check_empty(made->handles[0]);
    cache_close(made);
}

void cache_close(cache *made)
{
    for (uint32_t i = made->n_handles; i-- > 0;) {
        if (i > 0)
            made->handles[i]->head = NULL; /* the first one's to unmap */
        tsan_locks_closed();
        sn_segment_close(made->handles[i]);
    }
}
