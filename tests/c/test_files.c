/*
 * test_files.c -- many files are asked for size and time, by as many threads as their storage wants.
 *
 * fstatat() is this file's own here: it can be slow, as storage behind a network is, and counts who waits at once.
 */
#define _GNU_SOURCE
#include "base/sn_files.h"
#include "base/sn_rng.h"
#include "check.h"

#include <errno.h>
#include <stdbool.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#define N_FILES 1000u
#define FOLDERS 7u

static atomic_uint now_waiting, most_waiting;
static atomic_bool is_slow;

int fstatat(int fd, const char *name, struct stat *file, int flags)
{
    if (atomic_load(&is_slow)) {
        struct timespec pause = {.tv_nsec = 200000};
        unsigned waiting = atomic_fetch_add(&now_waiting, 1) + 1, most = atomic_load(&most_waiting);
        while (waiting > most && !atomic_compare_exchange_weak(&most_waiting, &most, waiting)) {
        }
        nanosleep(&pause, NULL);
        atomic_fetch_sub(&now_waiting, 1);
    }
    return (int)syscall(SYS_newfstatat, fd, name, file, flags);
}

typedef struct {
    char folder[64];
    char *paths;
    uint64_t offsets[N_FILES + 1];
} tree;

static void make(tree *made, sn_rng *rng)
{
    char *end;

    strcpy(made->folder, "/tmp/seneca-test-files-XXXXXX");
    CHECK(mkdtemp(made->folder));
    CHECK((made->paths = malloc(N_FILES * 96)) != NULL);
    end = made->paths;
    for (uint32_t i = 0; i < N_FILES; i++) {
        uint32_t in = i * FOLDERS / N_FILES;
        made->offsets[i] = (uint64_t)(end - made->paths);
        int length = sprintf(end, "%s/%u", made->folder, in);
        if (mkdir(end, 0700) != 0)
            CHECK(errno == EEXIST);
        length += sprintf(end + length, "/%u", i);
        int fd = open(end, O_CREAT | O_EXCL | O_WRONLY, 0600);
        CHECK(fd >= 0);
        CHECK(ftruncate(fd, (off_t)sn_rng_u32(rng) * 4) == 0); /* sparse, and beyond 32 bits */
        struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
                                    {.tv_sec = (time_t)sn_rng_u32(rng) - 100000, .tv_nsec = i}};
        CHECK(futimens(fd, times) == 0);
        close(fd);
        end += length + 1;
    }
    made->offsets[N_FILES] = (uint64_t)(end - made->paths);
}

static void check_all(const tree *made, unsigned threads)
{
    static sn_file found[N_FILES];
    size_t failed = 0;

    memset(found, 0xff, sizeof found);
    CHECK_EQUAL(sn_files_stat(made->paths, made->offsets, N_FILES, threads, found, &failed), 0, "%u threads", threads);
    CHECK_EQUAL(failed, N_FILES, "%u threads", threads);
    for (uint32_t i = 0; i < N_FILES; i++) {
        struct stat file;
        CHECK(stat(made->paths + made->offsets[i], &file) == 0);
        CHECK_EQUAL(found[i].size_bytes, file.st_size, "file %u, %u threads", i, threads);
        CHECK_EQUAL(found[i].mode, file.st_mode, "file %u, %u threads", i, threads);
        CHECK_EQUAL(found[i].mtime_ns, (int64_t)file.st_mtim.tv_sec * 1000000000 + file.st_mtim.tv_nsec,
                    "file %u, %u threads", i, threads);
        CHECK_EQUAL(found[i].ctime_ns, (int64_t)file.st_ctim.tv_sec * 1000000000 + file.st_ctim.tv_nsec,
                    "file %u, %u threads", i, threads);
    }
}

/* Whichever threads meet the missing files, the first of these is reported. */
static void check_missing(tree *made, sn_rng *rng)
{
    static sn_file found[N_FILES];
    uint32_t first = N_FILES;

    for (unsigned k = 0; k < 5; k++) {
        uint32_t i = sn_rng_below(rng, N_FILES);
        unlink(made->paths + made->offsets[i]);
        first = i < first ? i : first;
    }
    for (unsigned threads = 1; threads <= 16; threads *= 2) {
        size_t failed = N_FILES;
        CHECK_EQUAL(sn_files_stat(made->paths, made->offsets, N_FILES, threads, found, &failed), -ENOENT, "%u threads",
                    threads);
        CHECK_EQUAL(failed, first, "%u threads", threads);
    }
}

static void remove_all(tree *made)
{
    for (uint32_t i = 0; i < N_FILES; i++)
        unlink(made->paths + made->offsets[i]);
    for (uint32_t i = 0; i < FOLDERS; i++) {
        char folder[96];
        sprintf(folder, "%s/%u", made->folder, i);
        CHECK(rmdir(folder) == 0);
    }
    CHECK(rmdir(made->folder) == 0);
    free(made->paths);
}

int main(int argc, char **argv)
{
    static tree made;
    sn_rng rng;

    sn_rng_start(&rng, check_seed(argc, argv), 1, 0, 0, SN_STREAM_CHOOSE);
    make(&made, &rng);
    for (unsigned threads = 0; threads <= 16; threads = threads * 2 + 1)
        check_all(&made, threads);
    atomic_store(&is_slow, true);
    check_all(&made, 2);
    CHECK(atomic_load(&most_waiting) > 4); /* more than were asked for: slow storage is asked by many */
    atomic_store(&is_slow, false);
    check_missing(&made, &rng);
    remove_all(&made);
    return 0;
}
