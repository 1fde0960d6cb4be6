#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>

#include "../base/sn_clock.h"
#include "../base/sn_status.h"
#include "sn_segment.h"

/* A critical section takes some ten microseconds: try again soon, then less often. */
#define FIRST_PAUSE_NS 10000
#define LONGEST_PAUSE_NS 500000

static int ofd_range(int fd, int command, short type, uint32_t first, uint32_t count, struct flock *lock)
{
    memset(lock, 0, sizeof *lock);
    lock->l_type = type;
    lock->l_whence = SEEK_SET;
    lock->l_start = first;
    lock->l_len = count;
    int rc;
    do
        rc = fcntl(fd, command, lock);
    while (rc != 0 && errno == EINTR);
    return rc == 0 ? 0 : -errno;
}

static int ofd(const sn_segment *segment, int command, short type, uint32_t byte, struct flock *lock)
{
    return ofd_range(segment->fd, command, type, byte, 1, lock);
}

static int try_lock(int fd)
{
    int rc;
    do
        rc = flock(fd, LOCK_EX | LOCK_NB);
    while (rc != 0 && errno == EINTR);
    if (rc == 0)
        return 0;
    return errno == EWOULDBLOCK ? SN_BUSY : -errno;
}

/* Another thread or process has it. */
static int wait_for_lock(sn_segment *segment, int has_mutex, int deadline_ms)
{
    uint64_t until_ns = sn_now_ns() + (uint64_t)deadline_ms * 1000000;
    struct timespec deadline = sn_time_at(until_ns), pause = {0, FIRST_PAUSE_NS};
    int rc;

    if (!has_mutex && pthread_mutex_clocklock(&segment->mutex, CLOCK_MONOTONIC, &deadline) != 0)
        return SN_BUSY;
    while ((rc = try_lock(segment->fd)) == SN_BUSY && sn_now_ns() < until_ns) {
        nanosleep(&pause, NULL);
        if (pause.tv_nsec < LONGEST_PAUSE_NS)
            pause.tv_nsec *= 2;
    }
    if (rc != 0)
        pthread_mutex_unlock(&segment->mutex);
    return rc;
}

int sn_lock_enter(sn_segment *segment, int deadline_ms)
{
    if (atomic_load(&segment->forked))
        return SN_E_FORKED;

    int has_mutex = pthread_mutex_trylock(&segment->mutex) == 0;
    int rc = has_mutex ? try_lock(segment->fd) : SN_BUSY;
    if (rc == SN_BUSY)
        rc = wait_for_lock(segment, has_mutex, deadline_ms);
    else if (rc != 0)
        pthread_mutex_unlock(&segment->mutex);
    if (rc == 0)
        atomic_thread_fence(memory_order_seq_cst);
    return rc;
}

void sn_lock_leave(sn_segment *segment)
{
    atomic_thread_fence(memory_order_seq_cst);
    flock(segment->fd, LOCK_UN); /* in a forked child, whose descriptor is closed, of nothing */
    pthread_mutex_unlock(&segment->mutex);
}

int sn_row_lock(sn_segment *segment, uint32_t row)
{
    struct flock lock;
    int rc = ofd(segment, F_OFD_SETLK, F_WRLCK, 1 + row, &lock);
    if (rc == -EAGAIN || rc == -EACCES)
        return SN_BUSY;
    if (rc == 0)
        segment->own_rows[row / 64] |= (uint64_t)1 << (row % 64);
    return rc;
}

void sn_row_unlock(sn_segment *segment, uint32_t row)
{
    struct flock lock;
    segment->own_rows[row / 64] &= ~((uint64_t)1 << (row % 64));
    ofd(segment, F_OFD_SETLK, F_UNLCK, 1 + row, &lock);
}

void sn_row_desert(sn_segment *segment, uint32_t row)
{
    pthread_mutex_lock(&segment->mutex); /* own_rows is the mutex's; it is never held for long */
    sn_row_unlock(segment, row);
    pthread_mutex_unlock(&segment->mutex);
}

int sn_row_is_own(const sn_segment *segment, uint32_t row)
{
    return (int)(segment->own_rows[row / 64] >> (row % 64) & 1);
}

/* When the kernel cannot be asked, no process is declared dead. */
static int is_locked(int fd, uint32_t first, uint32_t count)
{
    struct flock lock;
    return ofd_range(fd, F_OFD_GETLK, F_WRLCK, first, count, &lock) != 0 || lock.l_type != F_UNLCK;
}

int sn_row_is_alive(const sn_segment *segment, uint32_t row)
{
    /* Through the description that holds it a lock seems free. */
    return sn_row_is_own(segment, row) || is_locked(segment->fd, 1 + row, 1);
}

int sn_row_has_owner(int fd, uint32_t row)
{
    return is_locked(fd, 1 + row, 1);
}

int sn_anyone_alive(int fd)
{
    return is_locked(fd, 1, SN_MAX_ROWS);
}
