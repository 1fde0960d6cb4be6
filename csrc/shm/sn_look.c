#include "sn_look.h"

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

/* What the living have published. A block that changes again and again while it is read is left out. */
static int read_telemetry(int fd, sn_look *look)
{
    sn_telemetry blocks[2][SN_MAX_ROWS];
    int rc = read_at(fd, blocks[0], sizeof blocks[0], look->head.telemetry_at), changing = 1;

    memset(look->published, 0, sizeof look->published);
    for (int i = 1; rc == 0 && changing && i <= TRIES; i++) {
        const sn_telemetry *before = blocks[1 - i % 2], *last = blocks[i % 2];

        changing = 0;
        rc = read_at(fd, blocks[i % 2], sizeof blocks[0], look->head.telemetry_at);
        for (uint32_t row = 0; rc == 0 && row < SN_MAX_ROWS; row++) {
            if (!sn_bit_get(look->alive, row) || sn_bit_get(look->published, row) || last[row].sequence == 0 ||
                last[row].generation != look->rows[row].generation)
                continue;
            if (!sn_telemetry_agrees(&before[row], &last[row])) {
                changing = 1;
                continue;
            }
            memcpy(&look->work[row], (const void *)last[row].words, sizeof look->work[row]);
            look->work[row].name[sizeof look->work[row].name - 1] = 0;
            sn_bit_set(look->published, row);
        }
    }
    return rc;
}

int sn_look_at(int fd, sn_look *look)
{
    sn_header head;
    sn_row rows[SN_MAX_ROWS];
    struct stat file;
    int rc = read_both(fd, &look->head, look->rows);

    look->torn = 1;
    for (int i = 0; rc == 0 && look->torn && i < TRIES; i++) {
        rc = read_both(fd, &head, rows);
        look->torn = memcmp(&head, &look->head, sizeof head) != 0 || memcmp(rows, look->rows, sizeof rows) != 0;
        memcpy(&look->head, &head, sizeof head); /* with what lies between its fields, which is compared too */
        memcpy(look->rows, rows, sizeof rows);
    }
    if (rc != 0 || fstat(fd, &file) != 0)
        return rc != 0 ? rc : -errno;
    look->memory_bytes = (uint64_t)file.st_blocks * 512; /* st_blocks counts in these, whatever the file system's are */
    memset(look->alive, 0, sizeof look->alive);
    for (uint32_t row = 0; row < SN_MAX_ROWS; row++)
        if (atomic_load(&look->rows[row].state) == SN_ROW_LIVE && sn_row_has_owner(fd, row))
            sn_bit_set(look->alive, row);
    return read_telemetry(fd, look);
}

int sn_look_at_dataset(int fd, const sn_look *look, uint32_t row, sn_dataset *dataset)
{
    uint64_t at = look->head.traits_at + row * sizeof(sn_traits);
    sn_traits blocks[2];
    int rc = read_at(fd, &blocks[0], sizeof blocks[0], at);

    for (int i = 1; rc == 0 && i <= TRIES; i++) {
        const sn_traits *last = &blocks[i % 2];

        rc = read_at(fd, &blocks[i % 2], sizeof blocks[0], at);
        if (rc != 0 || !sn_traits_agree(&blocks[1 - i % 2], last))
            continue;
        if (last->sequence == 0 || last->generation != look->rows[row].generation)
            return SN_MISS;
        memcpy(dataset, (const void *)last->words, sizeof *dataset);
        dataset->apart[sizeof dataset->apart - 1] = 0;
        return 0;
    }
    return rc != 0 ? rc : SN_MISS;
}
