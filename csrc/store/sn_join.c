#include "sn_join.h"

#include <errno.h>
#include <math.h>
#include <sys/file.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../base/sn_crash.h"
#include "../base/sn_status.h"
#include "sn_rows.h"
#include "sn_store.h"

#define JOIN 1000u         /* one that is just now, in sn_header.joins */
#define ATTACH_WAIT_MS 200 /* one try: the caller tries again, and says to the user why it waits */

/* The combined recency and frequency of LRFU (Lee et al., 2001). */
static void note_join(sn_header *head)
{
    uint32_t now = (uint32_t)time(NULL);
    double age_s = now > head->joined_at ? now - head->joined_at : 0;

    head->joins = (uint32_t)fmin(JOIN + head->joins * exp2(-age_s / SN_JOIN_HALF_LIFE_S), UINT32_MAX);
    SN_CRASH_POINT(join_counted);
    head->joined_at = now;
}

/* What it took this process to make a sample, if it has published that. */
static void note_cost(sn_segment *segment, uint32_t row)
{
    const sn_telemetry *block = &segment->telemetry[row];
    uint32_t sequence = atomic_load(&block->sequence);
    sn_work work;

    if (sequence == 0 || sequence % 2 != 0 || atomic_load(&block->generation) != segment->rows[row].generation)
        return;
    memcpy(&work, (const void *)block->words, sizeof work);
    if (work.served[SN_STORAGE] == 0)
        return; /* it has made none from the beginning */
    uint64_t decoded = work.served[SN_STORAGE] + work.served[SN_ENCODED] + work.served[SN_RECODED];
    segment->head->cost_ns =
        (work.spent_ns[SN_CAUSE_STORAGE] + work.spent_ns[SN_CAUSE_ITEM]) / work.served[SN_STORAGE] +
        work.spent_ns[SN_CAUSE_DECODE] / decoded;
}

int sn_join(int fd, const char *path, const sn_geometry *geometry, int64_t newest_ctime, uint64_t job_key,
            sn_progress progress, void *context, sn_segment **out, uint32_t *row)
{
    const sn_participant who = {.kind = SN_ROW_HOLDER, .job_key = job_key};
    sn_segment *segment;
    int attached = sn_segment_attach(fd, path, geometry, newest_ctime, ATTACH_WAIT_MS, progress, context, &segment);
    int rc = attached;

    *out = NULL;
    if (attached != SN_ATTACH_CREATED && attached != SN_ATTACH_JOINED)
        goto out;
    rc = sn_store_entered(segment); /* the lock is held since it was attached */
    if (rc != 0)
        goto out;
    sn_store_reap(segment, 1);
    /* The segment's lock is held from here until the row is claimed. Of the processes of a job that come at once,
     * exactly one finds no row of the job. The dead are reaped and do not count. */
    int is_first = sn_rows_of_job(segment, job_key) == SN_NONE;
    rc = sn_row_claim(segment, &who, row);
    if (rc == 0) {
        segment->head->left_at = 0;
        SN_CRASH_POINT(join_in_use);
        if (is_first)
            note_join(segment->head);
    }
    if (rc != 0 && attached == SN_ATTACH_CREATED)
        sn_segment_unlink(segment); /* nobody has a row in it */
    sn_store_leave(segment);
    if (rc == 0) {
        *out = segment;
        return attached;
    }
    if (attached == SN_ATTACH_JOINED && (rc == -ENOSPC || rc == -ENOMEM))
        rc = SN_E_RECORDS; /* which no other size of the cache would mend */
out:
    sn_segment_close(segment);
    return rc;
}

/* The time for which it is to be kept begins. Under the lock. */
static void note_left(sn_segment *segment)
{
    segment->head->left_at = (uint32_t)time(NULL);
}

/* Nobody uses an abandoned segment again, also if it was to be kept: the last who leaves takes its name away. */
static int leave_abandoned(sn_segment *segment)
{
    int rc = sn_lock_enter(segment, SN_LOCK_DEADLINE_MS);

    if (rc != 0)
        return rc;
    if (!sn_anyone_alive(segment->fd))
        sn_segment_unlink(segment);
    sn_lock_leave(segment);
    return 0;
}

int sn_leave(sn_segment *segment, uint32_t row)
{
    int rc = sn_store_enter(segment, SN_LOCK_DEADLINE_MS);

    if (rc == SN_E_ABANDONED)
        return leave_abandoned(segment);
    if (rc != 0)
        return rc;
    if (row != SN_NONE) {
        note_cost(segment, row);
        sn_row_leave(segment, row);
    }
    SN_CRASH_POINT(leave_row_left);
    if (!sn_anyone_alive(segment->fd) && sn_segment_linked(segment)) {
        if (segment->head->geometry.keep == 0)
            sn_segment_unlink(segment);
        else
            note_left(segment);
    }
    SN_CRASH_POINT(leave_noted);
    sn_store_leave(segment);
    return 0;
}

void sn_sweep(int fd, const char *path)
{
    sn_segment *segment;

    if (sn_anyone_alive(fd)) {
        close(fd);
        return;
    }
    /* This unlinks what is left behind. */
    if (sn_segment_attach(fd, path, NULL, 0, 0, NULL, NULL, &segment) == SN_ATTACH_JOINED &&
        segment->head->left_at == 0)
        note_left(segment);    /* its last users were killed: the time begins now */
    sn_segment_close(segment); /* which frees the lock, if it was had */
}

int sn_discard(int fd, const char *path)
{
    sn_segment *segment;

    if (sn_anyone_alive(fd)) {
        close(fd);
        return SN_BUSY;
    }
    int rc = sn_segment_attach(fd, path, NULL, 0, ATTACH_WAIT_MS, NULL, NULL, &segment);
    if (rc == SN_ATTACH_JOINED) {
        rc = sn_anyone_alive(segment->fd) ? SN_BUSY : 0; /* under the lock, without which nobody comes to live in it */
        if (rc == 0)
            sn_segment_unlink(segment);
    } else if (rc == SN_E_GONE || rc == SN_MISS) {
        rc = 0; /* it was not to be kept, or never completed */
    }
    sn_segment_close(segment);
    return rc;
}

int sn_left_behind(int fd)
{
    sn_header head = {0};
    struct stat file;

    if (sn_anyone_alive(fd) || fstat(fd, &file) != 0 || pread(fd, &head, sizeof head, 0) < 0)
        return 0;
    if (atomic_load(&head.magic) != 0)
        return sn_layout_validate(&head, (uint64_t)file.st_size) == 0 && sn_segment_is_over(&head);
    if (flock(fd, LOCK_SH | LOCK_NB) != 0)
        return 0; /* it is being made */
    /* Who has made it meanwhile claimed a row before it let go of the lock. */
    int left = !sn_anyone_alive(fd) && pread(fd, &head, sizeof head, 0) >= 0 && atomic_load(&head.magic) == 0;
    flock(fd, LOCK_UN);
    return left;
}
