#define _GNU_SOURCE
#include "sn_segment.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "../base/sn_crash.h"
#include "../base/sn_descriptor.h"
#include "../base/sn_status.h"

/* fallocate() starts again from the beginning when a signal interrupts it, so space is reserved in
 * pieces, each with signals blocked. Not posix_fallocate(): where a file system cannot reserve, that writes
 * a byte to each block, which another process may have written meanwhile. */
#define RESERVE_PIECE ((uint64_t)64 << 20)

#define HUGE_PAGE ((uint64_t)SN_HUGE_PAGE)
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif
#define COLLAPSE_TRIES 3

static pthread_mutex_t handles_mutex = PTHREAD_MUTEX_INITIALIZER;
static sn_segment *handles;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void before_fork(void)
{
    pthread_mutex_lock(&handles_mutex);
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&handles_mutex);
}

static void after_fork_in_child(void)
{
    for (sn_segment *segment = handles; segment; segment = segment->next_handle) {
        atomic_store(&segment->forked, 1);
        if (segment->fd >= 0)
            close(segment->fd);
        segment->fd = segment->guarded.fd = -1;
    }
    handles = NULL;
    pthread_mutex_unlock(&handles_mutex);
}

static void register_fork_handlers(void)
{
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

static void register_handle(sn_segment *segment)
{
    pthread_once(&fork_once, register_fork_handlers);
    pthread_mutex_lock(&handles_mutex);
    segment->next_handle = handles;
    handles = segment;
    pthread_mutex_unlock(&handles_mutex);
}

static void forget_handle(sn_segment *segment)
{
    pthread_mutex_lock(&handles_mutex);
    for (sn_segment **at = &handles; *at; at = &(*at)->next_handle) {
        if (*at == segment) {
            *at = segment->next_handle;
            break;
        }
    }
    if (segment->fd >= 0)
        close(segment->fd);
    segment->fd = -1;
    pthread_mutex_unlock(&handles_mutex);
}

static void resolve(sn_segment *segment, const sn_header *layout)
{
    uint8_t *base = (uint8_t *)segment->head;

    segment->rows = (sn_row *)(base + layout->rows_at);
    segment->telemetry = (sn_telemetry *)(base + layout->telemetry_at);
    segment->traits = (sn_traits *)(base + layout->traits_at);
    segment->slots = (sn_slot *)(base + layout->slots_at);
    segment->first = (uint32_t *)(base + layout->first_at);
    segment->wants = base + layout->wants_at;
    segment->writing = (uint32_t *)(base + layout->writing_at);
    segment->committed = (_Atomic uint64_t *)(base + layout->committed_at);
    segment->groups = (_Atomic uint64_t *)(base + layout->groups_at);
    segment->granules = (uint64_t *)(base + layout->granules_at);
    segment->payload = base + layout->payload_at;
    segment->areas = base + layout->areas_at;
    segment->digests = base + layout->digests_at;
    segment->area_bytes = layout->area_bytes;
    segment->seen_in = layout->seen_in;
    segment->eligible_in = layout->eligible_in;
    segment->blocks_in = layout->blocks_in;
    segment->timetable_in = layout->timetable_in;
    segment->digests_bytes = layout->digests_bytes;
    segment->n_samples = layout->geometry.n_samples;
    segment->n_stage = layout->n_stage;
    segment->n_slots = layout->n_slots;
    segment->n_granules = layout->n_granules;
    segment->n_ledger = layout->n_ledger;
    segment->n_writing = layout->n_writing;
    segment->row_words = layout->row_words;
}

/* Records are met at random places, and a page's address has to be looked up for each: seen bits and
 * first slots of many samples take half the time in huge pages. Where there are none they stay. */
static void collapse(const sn_segment *segment, uint64_t at, uint64_t bytes)
{
    for (int tries = 0; tries < COLLAPSE_TRIES; tries++)
        if (madvise((uint8_t *)segment->head + at, bytes, MADV_COLLAPSE) == 0 || errno != EAGAIN)
            return; /* EAGAIN: a page was in somebody's hands */
}

/* Huge pages are those of memory. On a disk, single pages in between would only tear the file into pieces. */
static int lies_in_memory(int fd)
{
    struct statfs fs;
    return fstatfs(fd, &fs) == 0 && fs.f_type == TMPFS_MAGIC;
}

static int has_free(int fd, uint64_t bytes)
{
    struct statvfs fs;
    return fstatvfs(fd, &fs) == 0 && (uint64_t)fs.f_bavail * fs.f_frsize >= bytes;
}

/* The same for memory that is not reserved yet. One small page in each huge one is enough: the kernel makes
 * up for the others as it puts them together, where those that are there it has to copy. */
static void make_huge(const sn_segment *segment, uint64_t at, uint64_t bytes)
{
    for (uint64_t page = at; page < at + bytes; page += HUGE_PAGE)
        if (fallocate(segment->fd, 0, (off_t)page, SN_GRANULE) != 0)
            return; /* whoever needs the memory gets an error when it is reserved */
    collapse(segment, at, bytes);
}

/* A huge page is mapped as one where address and place in the file agree. */
static void *map_at_huge_page(int fd, uint64_t bytes)
{
    uint8_t *range = mmap(NULL, bytes + HUGE_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED)
        return MAP_FAILED;
    uint8_t *base = range + (-(uintptr_t)range & (HUGE_PAGE - 1));
    uint64_t before = (uint64_t)(base - range), pages = (bytes + SN_GRANULE - 1) / SN_GRANULE * SN_GRANULE;

    if (mmap(base, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
        int error = errno;
        munmap(range, bytes + HUGE_PAGE);
        errno = error;
        return MAP_FAILED;
    }
    if (before)
        munmap(range, before);
    munmap(base + pages, bytes + HUGE_PAGE - before - pages);
    return base;
}

/* Through a description of its own: a mapping holds on to the one that it was made from, and a
 * forked child inherits mappings. If that were the one with the locks, the child would keep its
 * dead parent's rows alive although it has closed the descriptor. */
static int map(sn_segment *segment, uint64_t bytes)
{
    struct stat ours, named;
    int rc = 0;

    int fd = sn_above_standard(open(segment->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (fd < 0)
        return errno == ENOENT ? SN_E_GONE : -errno;
    if (fstat(segment->fd, &ours) != 0 || fstat(fd, &named) != 0)
        rc = -errno;
    else if (ours.st_ino != named.st_ino || ours.st_dev != named.st_dev)
        rc = SN_E_GONE;
    void *base = rc == 0 ? map_at_huge_page(fd, bytes) : MAP_FAILED;
    if (rc == 0 && base == MAP_FAILED)
        rc = errno == ENOMEM ? SN_E_MAPPING : -errno;
    close(fd);
    if (rc != 0)
        return rc;
    madvise(base, bytes, MADV_HUGEPAGE);
    segment->head = base;
    segment->bytes = bytes;
    return sn_guard_watch(&segment->guarded, base, bytes, segment->fd);
}

/* Report what the file has in all: some of the records may have been put into huge pages before. */
static int report(int fd, uint64_t total, sn_progress progress, void *context)
{
    struct stat file;
    if (!progress)
        return 0;
    return fstat(fd, &file) == 0 ? progress(context, (uint64_t)file.st_blocks * 512, total) : -errno;
}

static int reserve(int fd, uint64_t from, uint64_t bytes, sn_progress progress, void *context)
{
    int rc = 0;
    for (uint64_t done = 0; done < bytes && rc == 0;) {
        uint64_t piece = bytes - done < RESERVE_PIECE ? bytes - done : RESERVE_PIECE;
        sigset_t all, before;
        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, &before);
        rc = fallocate(fd, 0, (off_t)(from + done), (off_t)piece) == 0 ? 0 : -errno;
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        done += piece;
        if (rc == 0)
            rc = report(fd, bytes, progress, context);
    }
    return rc;
}

static uint64_t granule_at(const sn_segment *segment, uint32_t granule)
{
    return (uint64_t)(segment->payload - (uint8_t *)segment->head) + (uint64_t)granule * SN_GRANULE;
}

int sn_segment_back(const sn_segment *segment, uint32_t from, uint32_t to)
{
    return reserve(segment->fd, granule_at(segment, from), (uint64_t)(to - from) * SN_GRANULE, NULL, NULL);
}

void sn_segment_punch(const sn_segment *segment, uint32_t from, uint32_t to)
{
    uint64_t at = granule_at(segment, from), end = granule_at(segment, to);

    for (; at < end; at += RESERVE_PIECE) {
        uint64_t piece = end - at < RESERVE_PIECE ? end - at : RESERVE_PIECE;
        if (fallocate(segment->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at, (off_t)piece) != 0)
            return; /* the memory stays, as before */
    }
}

static int has_memory(int fd, uint64_t at, uint64_t bytes)
{
    return lseek(fd, (off_t)at, SEEK_HOLE) >= (off_t)(at + bytes);
}

int sn_segment_reserve_area(sn_segment *segment, uint32_t row, enum sn_row_kind kind)
{
    uint8_t *area = segment->areas + row * segment->area_bytes;
    uint64_t bytes = kind != SN_ROW_HOLDER ? segment->timetable_in : segment->seen_in;
    uint64_t at = (uint64_t)(area - (uint8_t *)segment->head);

    if (has_memory(segment->fd, at, bytes))
        return 0; /* one before had it, or it was made at birth */
    int rc = reserve(segment->fd, at, bytes, NULL, NULL);
    if (rc == 0 && kind != SN_ROW_HOLDER)
        atomic_fetch_or(&segment->new_areas[row / 64], (uint64_t)1 << (row % 64));
    return rc;
}

int sn_segment_reserve_timetable(const sn_segment *segment, uint32_t row)
{
    uint64_t at =
        (uint64_t)(segment->areas - (uint8_t *)segment->head) + row * segment->area_bytes + segment->timetable_in;
    uint64_t bytes = sizeof(sn_timetable) + segment->n_samples;

    return has_memory(segment->fd, at, bytes) ? 0 : reserve(segment->fd, at, bytes, NULL, NULL);
}

int sn_segment_clear_digests(const sn_segment *segment, uint32_t table)
{
    uint8_t *words = segment->digests + table * segment->digests_bytes;
    int rc = reserve(segment->fd, (uint64_t)(words - (uint8_t *)segment->head), segment->digests_bytes, NULL, NULL);

    if (rc == 0)
        memset(words, 0, segment->digests_bytes); /* where it had memory, another kind's are in it */
    return rc;
}

void sn_segment_collapse_area(sn_segment *segment, uint32_t row)
{
    uint64_t bit = (uint64_t)1 << (row % 64);
    uint64_t whole =
        (segment->timetable_in + HUGE_PAGE / 4) / HUGE_PAGE * HUGE_PAGE; /* the last if it is nearly full */

    if ((atomic_fetch_and(&segment->new_areas[row / 64], ~bit) & bit) && whole > 0)
        collapse(segment, (uint64_t)(segment->areas - (uint8_t *)segment->head) + row * segment->area_bytes, whole);
}

/* The number of this boot of the host, out of the first digits of its id; 0: the kernel does not say. */
static uint32_t this_boot(void)
{
    char digits[9] = "";
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, digits, sizeof digits - 1);

    if (fd >= 0)
        close(fd);
    return got == (ssize_t)sizeof digits - 1 ? (uint32_t)strtoul(digits, NULL, 16) : 0;
}

/* The file may hold what a creator left who died before writing the magic. No process has it
 * mapped, because joiners map only what has its magic. Therefore it starts from nothing. */
static int create(sn_segment *segment, const sn_geometry *geometry, int64_t newest_ctime, sn_progress progress,
                  void *context)
{
    sn_header layout;
    int rc = sn_layout_compute(geometry, &layout), in_memory = lies_in_memory(segment->fd);
    uint64_t at_birth = rc == 0 ? layout.payload_at + (uint64_t)layout.backed * SN_GRANULE : 0;
    if (rc == 0 && ftruncate(segment->fd, 0) != 0)
        rc = -errno;
    if (rc == 0)
        rc = report(segment->fd, at_birth, progress, context);
    if (rc == 0 && fchmod(segment->fd, 0600) != 0)
        rc = -errno;
    if (rc == 0 && ftruncate(segment->fd, (off_t)layout.segment_bytes) != 0)
        rc = -errno;
    SN_CRASH_POINT(create_sized);
    if (rc == 0)
        rc = map(segment, layout.segment_bytes);
    if (rc == 0) {
        if (in_memory)
            make_huge(segment, 0, layout.payload_at / HUGE_PAGE * HUGE_PAGE);
        rc = reserve(segment->fd, 0, at_birth, progress, context);
        SN_CRASH_POINT(create_reserved);
    }
    if (rc != 0) {
        if (rc != SN_E_GONE)
            sn_segment_unlink(segment);
        return rc;
    }

    layout.boot = this_boot();
    layout.newest_ctime = newest_ctime;
    *segment->head = layout; /* magic is still 0 in it */
    SN_CRASH_POINT(create_planned);
    resolve(segment, &layout);
    /* Fresh pages are zero: rows are free, slots empty, all samples unseen. Derived
     * state is built by the caller's first rebuild, which `busy` asks for. */
    uint64_t area = (layout.timetable_in + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    for (uint32_t i = 1; in_memory && i <= SN_AREAS_AT_BIRTH && layout.timetable_in >= HUGE_PAGE / 2; i++)
        if (has_free(segment->fd, 2 * area)) /* one of them for this process's own row */
            make_huge(segment, layout.areas_at + (SN_MAX_ROWS - i) * layout.area_bytes, area);
    atomic_store(&segment->head->busy, 1);
    SN_CRASH_POINT(create_busy);
    atomic_store_explicit(&segment->head->magic, SN_MAGIC, memory_order_release);
    return SN_ATTACH_CREATED;
}

int sn_segment_is_over(const sn_header *head)
{
    uint32_t boot = head->boot ? this_boot() : 0;

    if (atomic_load(&head->abandoned) || head->geometry.keep == 0 || (boot != 0 && boot != head->boot))
        return 1;
    return head->geometry.keep != SN_KEEP_FOREVER && head->left_at != 0 &&
           time(NULL) - (time_t)head->left_at >= (time_t)head->geometry.keep;
}

static int is_of(const sn_header *layout, const sn_geometry *geometry)
{
    return memcmp(layout->geometry.fingerprint, geometry->fingerprint, sizeof geometry->fingerprint) == 0 &&
           layout->geometry.n_samples == geometry->n_samples;
}

static int join(sn_segment *segment, const sn_geometry *geometry, uint64_t file_bytes)
{
    sn_header layout;
    ssize_t got = pread(segment->fd, &layout, sizeof layout, 0);
    if (got < 0)
        return -errno;
    if ((size_t)got < sizeof layout)
        return SN_E_MAGIC;

    int rc = sn_layout_validate(&layout, file_bytes);
    if (rc != 0)
        return rc;
    int deserted = !sn_anyone_alive(segment->fd);
    int fits = !geometry || is_of(&layout, geometry);
    int in_the_way = !fits && layout.geometry.keep != SN_KEEP_FOREVER;
    if (atomic_load(&layout.abandoned) || (deserted && (in_the_way || sn_segment_is_over(&layout)))) {
        sn_segment_unlink(segment);
        return SN_E_GONE;
    }
    if (!fits)
        return SN_E_MISMATCH;
    rc = map(segment, file_bytes);
    if (rc == 0) {
        resolve(segment, &layout);
        if (deserted) /* kept: it has lain where anything may have come over it */
            atomic_store(&segment->head->busy, 1);
        SN_CRASH_POINT(join_found);
        if (geometry && geometry->keep > layout.geometry.keep)
            segment->head->geometry.keep = geometry->keep;
        rc = SN_ATTACH_JOINED;
    }
    return rc;
}

int sn_segment_attach(int fd, const char *path, const sn_geometry *geometry, int64_t newest_ctime, int wait_ms,
                      sn_progress progress, void *context, sn_segment **out)
{
    struct stat file;
    uint64_t magic = 0;
    int rc;

    sn_segment *segment = calloc(1, sizeof *segment);
    *out = segment;
    if (!segment) {
        close(fd);
        return -ENOMEM;
    }
    segment->fd = fd;
    strncpy(segment->path, path, sizeof segment->path - 1);
    pthread_mutex_init(&segment->mutex, NULL);
    register_handle(segment);

    if (strlen(path) >= sizeof segment->path)
        return -ENAMETOOLONG;
    if (fstat(fd, &file) != 0)
        return -errno;
    if (file.st_uid != geteuid() || !S_ISREG(file.st_mode) || (file.st_mode & 077) != 0 || file.st_nlink > 1)
        return SN_E_OWNER;
    rc = sn_lock_enter(segment, wait_ms);
    if (rc != 0)
        return rc;
    if (fstat(fd, &file) != 0)
        return -errno;
    if (file.st_nlink == 0)
        return SN_E_GONE;
    if (pread(fd, &magic, sizeof magic, 0) < 0)
        return -errno;
    if (magic == 0 && sn_anyone_alive(fd))
        return SN_E_CORRUPT; /* it had a magic: who has made one claims a row before it lets go of the lock */
    if (magic != 0)
        return join(segment, geometry, (uint64_t)file.st_size);
    if (geometry && geometry->payload_bytes)
        return create(segment, geometry, newest_ctime, progress, context);
    sn_segment_unlink(segment); /* its creator died; one that is about to begin opens the name again */
    return SN_MISS;
}

void sn_segment_close(sn_segment *segment)
{
    if (!segment)
        return;
    sn_guard_forget(&segment->guarded);
    forget_handle(segment); /* and closes it: no fork may come between the two */
    if (segment->head)
        munmap(segment->head, segment->bytes);
    free(segment); /* its mutex may be held still (see sn_segment_attach()) and owns nothing */
}

/* Linux has no call that removes a name only if it leads to a certain file, so one race is left. Jobs remove
 * the name under the lock of the file that it leads to, and make a new file only where there is no name.
 * Therefore only a person's rm (or SampleCache.remove()) between these two calls, with a job that makes a new
 * file at once, can give unlink() the new file. That file loses its name alone: its users keep it, and later
 * ones make another. */
void sn_segment_unlink(sn_segment *segment)
{
    if (sn_segment_linked(segment))
        unlink(segment->path);
    SN_CRASH_POINT(unlinked);
}

int sn_segment_linked(const sn_segment *segment)
{
    struct stat ours, named;
    return fstat(segment->fd, &ours) == 0 && ours.st_nlink > 0 && lstat(segment->path, &named) == 0 &&
           ours.st_ino == named.st_ino && ours.st_dev == named.st_dev;
}
