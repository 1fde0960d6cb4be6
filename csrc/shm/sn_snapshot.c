#include "sn_snapshot.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../base/sn_bits.h"
#include "../base/sn_status.h"
#include "sn_segment.h"
#include "sn_telemetry.h"

#define TRIES 8

static int read_at(int fd, void *to, size_t bytes, uint64_t at)
{
    ssize_t got;
    do
        got = pread(fd, to, bytes, (off_t)at);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return -errno;
    return (size_t)got == bytes ? 0 : SN_E_MAGIC;
}

static int read_both(int fd, sn_header *head, sn_row *rows)
{
    struct stat file;
    int rc = fstat(fd, &file) == 0 ? read_at(fd, head, sizeof *head, 0) : -errno;

    if (rc == 0)
        rc = sn_layout_validate(head, (uint64_t)file.st_size);
    return rc == 0 ? read_at(fd, rows, SN_MAX_ROWS * sizeof *rows, head->rows_at) : rc;
}

/* The name of the dataset, as it was published last. All who use a segment have one dataset: one that has left has
 * named it too. */
static void name_dataset(sn_snapshot *snapshot, const sn_telemetry *before, const sn_telemetry *last)
{
    uint64_t latest = 0;

    for (uint32_t row = 0; row < SN_MAX_ROWS; row++) {
        sn_work work;

        if (last[row].sequence == 0 || !sn_telemetry_agrees(&before[row], &last[row]))
            continue;
        memcpy(&work, (const void *)last[row].words, sizeof work);
        if (work.dataset[0] == 0 || work.published_ms < latest)
            continue;
        latest = work.published_ms;
        memcpy(snapshot->dataset, work.dataset, sizeof snapshot->dataset);
        snapshot->dataset[sizeof snapshot->dataset - 1] = 0;
    }
}

/* What the living have published. A block that changes again and again while it is read is left out. */
static int read_telemetry(int fd, sn_snapshot *snapshot)
{
    sn_telemetry blocks[2][SN_MAX_ROWS];
    int rc = read_at(fd, blocks[0], sizeof blocks[0], snapshot->head.telemetry_at), changing = 1;

    memset(snapshot->published, 0, sizeof snapshot->published);
    memset(snapshot->dataset, 0, sizeof snapshot->dataset);
    for (int i = 1; rc == 0 && changing && i <= TRIES; i++) {
        const sn_telemetry *before = blocks[1 - i % 2], *last = blocks[i % 2];

        changing = 0;
        rc = read_at(fd, blocks[i % 2], sizeof blocks[0], snapshot->head.telemetry_at);
        for (uint32_t row = 0; rc == 0 && row < SN_MAX_ROWS; row++) {
            if (!sn_bit_get(snapshot->alive, row) || sn_bit_get(snapshot->published, row) || last[row].sequence == 0 ||
                last[row].generation != snapshot->rows[row].generation)
                continue;
            if (!sn_telemetry_agrees(&before[row], &last[row])) {
                changing = 1;
                continue;
            }
            memcpy(&snapshot->work[row], (const void *)last[row].words, sizeof snapshot->work[row]);
            snapshot->work[row].name[sizeof snapshot->work[row].name - 1] = 0;
            snapshot->work[row].dataset[sizeof snapshot->work[row].dataset - 1] = 0;
            sn_bit_set(snapshot->published, row);
        }
        name_dataset(snapshot, before, last);
    }
    return rc;
}

int sn_snapshot_take(int fd, sn_snapshot *snapshot)
{
    sn_header head;
    sn_row rows[SN_MAX_ROWS];
    struct stat file;
    int rc = read_both(fd, &snapshot->head, snapshot->rows);

    snapshot->torn = 1;
    for (int i = 0; rc == 0 && snapshot->torn && i < TRIES; i++) {
        rc = read_both(fd, &head, rows);
        snapshot->torn =
            memcmp(&head, &snapshot->head, sizeof head) != 0 || memcmp(rows, snapshot->rows, sizeof rows) != 0;
        memcpy(&snapshot->head, &head, sizeof head); /* with the padding between its fields, which is compared too */
        memcpy(snapshot->rows, rows, sizeof rows);
    }
    if (rc != 0 || fstat(fd, &file) != 0)
        return rc != 0 ? rc : -errno;
    /* st_blocks counts in 512 bytes, whatever the file system's blocks are */
    snapshot->memory_bytes = (uint64_t)file.st_blocks * 512;
    memset(snapshot->alive, 0, sizeof snapshot->alive);
    for (uint32_t row = 0; row < SN_MAX_ROWS; row++)
        if (atomic_load(&snapshot->rows[row].state) == SN_ROW_LIVE && sn_row_has_owner(fd, row))
            sn_bit_set(snapshot->alive, row);
    return read_telemetry(fd, snapshot);
}

int sn_snapshot_read_dataset(int fd, const sn_snapshot *snapshot, uint32_t row, sn_dataset *dataset)
{
    uint64_t at = snapshot->head.traits_at + row * sizeof(sn_traits);
    sn_traits blocks[2];
    int rc = read_at(fd, &blocks[0], sizeof blocks[0], at);

    for (int i = 1; rc == 0 && i <= TRIES; i++) {
        const sn_traits *last = &blocks[i % 2];

        rc = read_at(fd, &blocks[i % 2], sizeof blocks[0], at);
        if (rc != 0 || !sn_traits_agree(&blocks[1 - i % 2], last))
            continue;
        if (last->sequence == 0 || last->generation != snapshot->rows[row].generation)
            return SN_MISS;
        memcpy(dataset, (const void *)last->words, sizeof *dataset);
        dataset->apart[sizeof dataset->apart - 1] = 0;
        return 0;
    }
    return rc != 0 ? rc : SN_MISS;
}
