#define _GNU_SOURCE
#include "sn_files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sn_clock.h"

#define PIECE 64u        /* paths that a thread takes at a time */
#define SLOW_NS 50000    /* a file: fifty times what memory answers in, a tenth of what a network does */
#define SLOW_THREADS 64u /* for storage that is slow: as many requests as an NFS session has slots */

typedef struct {
    const char *paths;
    const uint64_t *offsets;
    size_t n;
    sn_file *out;
    atomic_size_t next;   /* the first path that nobody has taken */
    atomic_size_t failed; /* the first path that failed so far; n: none. Relaxed: it only saves work */
    pthread_mutex_t mutex;
    int error; /* of the path ``failed``, under the mutex */
} sn_stat_work;

/* A folder that is open; fd < 0: none. */
typedef struct {
    char path[PATH_MAX];
    size_t length;
    int fd;
} folder;

static void leave(folder *in)
{
    if (in->fd >= 0)
        close(in->fd);
    in->fd = -1;
}

/* Open the folder of a path, unless it is the one that is open. Where that fails the path is asked as a whole,
 * which fails as well, with the right error, or works where descriptors are short. */
static void enter(folder *in, const char *path, size_t length)
{
    if (in->fd >= 0 && in->length == length && memcmp(in->path, path, length) == 0)
        return;
    leave(in);
    if (length >= sizeof in->path)
        return;
    memcpy(in->path, path, length);
    in->path[length] = '\0';
    in->length = length;
    in->fd = open(in->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static int64_t in_ns(const struct timespec *time)
{
    return (int64_t)time->tv_sec * 1000000000 + time->tv_nsec;
}

static int ask(folder *in, const char *path, size_t length, sn_file *out)
{
    const char *slash = memrchr(path, '/', length);
    struct stat file;
    int rc;

    if (slash && slash > path && slash[1])
        enter(in, path, (size_t)(slash - path));
    else
        leave(in);
    rc = in->fd >= 0 ? fstatat(in->fd, slash + 1, &file, 0) : stat(path, &file);
    if (rc != 0)
        return -errno;
    out->size_bytes = (uint64_t)file.st_size;
    out->mtime_ns = in_ns(&file.st_mtim);
    out->ctime_ns = in_ns(&file.st_ctim);
    out->mode = file.st_mode;
    return 0;
}

static void note_failure(sn_stat_work *work, size_t i, int error)
{
    pthread_mutex_lock(&work->mutex);
    if (i < atomic_load_explicit(&work->failed, memory_order_relaxed)) {
        atomic_store_explicit(&work->failed, i, memory_order_relaxed);
        work->error = error;
    }
    pthread_mutex_unlock(&work->mutex);
}

/* Take one piece. Pieces are taken in order. Therefore the first path that fails is always met. */
static int take(sn_stat_work *work)
{
    size_t first = atomic_fetch_add_explicit(&work->next, PIECE, memory_order_relaxed);
    folder in = {.fd = -1};

    if (first >= work->n || first > atomic_load_explicit(&work->failed, memory_order_relaxed))
        return 0;
    size_t end = work->n - first < PIECE ? work->n : first + PIECE;
    for (size_t i = first; i < end; i++) {
        const char *path = work->paths + work->offsets[i];
        int rc = ask(&in, path, (size_t)(work->offsets[i + 1] - work->offsets[i] - 1), &work->out[i]);
        if (rc != 0) {
            note_failure(work, i, rc);
            break;
        }
    }
    leave(&in);
    return 1;
}

static void *take_all(void *argument)
{
    while (take(argument)) {
    }
    return NULL;
}

int sn_files_stat(const char *paths, const uint64_t *offsets, size_t n, unsigned threads, sn_file *out, size_t *failed)
{
    sn_stat_work work = {.paths = paths, .offsets = offsets, .n = n, .out = out, .mutex = PTHREAD_MUTEX_INITIALIZER};
    pthread_t others[SLOW_THREADS];
    unsigned started = 0;
    sigset_t all, before;

    atomic_init(&work.next, 0);
    atomic_init(&work.failed, n);
    uint64_t begun = sn_now_ns();
    take(&work);
    if (n > PIECE && sn_now_ns() - begun > (uint64_t)SLOW_NS * PIECE)
        threads = SLOW_THREADS;
    else if (threads > SLOW_THREADS)
        threads = SLOW_THREADS;

    sigfillset(&all); /* a handler must not run on a thread of ours */
    pthread_sigmask(SIG_BLOCK, &all, &before);
    while (started + 1 < threads && (size_t)(started + 1) * PIECE < n) {
        if (pthread_create(&others[started], NULL, take_all, &work) != 0)
            break;
        started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    take_all(&work);
    for (unsigned i = 0; i < started; i++)
        pthread_join(others[i], NULL);
    pthread_mutex_destroy(&work.mutex);
    *failed = atomic_load_explicit(&work.failed, memory_order_relaxed);
    return work.error;
}
