/*
 * tsan.c -- what ThreadSanitizer has to know about the segment's lock.
 *
 *   flock(LOCK_EX)               orders after  flock(LOCK_UN), close()
 *   fcntl(F_OFD_SETLK, F_WRLCK)  orders after  fcntl(F_OFD_SETLK, F_UNLCK), close()
 *
 * The kernel orders memory where it hands a lock from one holder to the next, as it must between
 * processes; the sanitizer sees a system call and nothing more, and would report all that two
 * handles do under the lock in turn. So both are wrapped, which is narrower than suppressing
 * those reports: who takes a lock, or asks about one, sees what was done before it was let go of,
 * and not one access more is excused.
 *
 * It also has no interceptor for pthread_mutex_clocklock() (before GCC 14), and would take the
 * mutex that it got for one that nobody holds.
 *
 * Lives in   the test programs; empty without -fsanitize=thread.
 */
#define _GNU_SOURCE
#include "tsan.h"

#ifdef __SANITIZE_THREAD__

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void __tsan_acquire(void *address);
void __tsan_release(void *address);

static char order; /* one for all segments; only its address counts */

int fcntl(int fd, int command, ...)
{
    va_list rest;
    struct flock *lock;

    va_start(rest, command);
    lock = va_arg(rest, struct flock *);
    va_end(rest);
    if (command == F_OFD_SETLK && lock->l_type == F_UNLCK)
        __tsan_release(&order);
    long rc = syscall(SYS_fcntl, fd, command, lock);
    if (rc == 0 && (command == F_OFD_GETLK || (command == F_OFD_SETLK && lock->l_type == F_WRLCK)))
        __tsan_acquire(&order);
    return (int)rc;
}

int flock(int fd, int operation)
{
    if (operation & LOCK_UN)
        __tsan_release(&order);
    long rc = syscall(SYS_flock, fd, operation);
    if (rc == 0 && operation & LOCK_EX)
        __tsan_acquire(&order);
    return (int)rc;
}

void tsan_locks_closed(void)
{
    __tsan_release(&order);
}

int pthread_mutex_clocklock(pthread_mutex_t *mutex, clockid_t clock, const struct timespec *deadline)
{
    struct timespec now, until;

    clock_gettime(clock, &now);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += deadline->tv_sec - now.tv_sec;
    until.tv_nsec += deadline->tv_nsec - now.tv_nsec;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    } else if (until.tv_nsec < 0) {
        until.tv_sec--;
        until.tv_nsec += 1000000000;
    }
    return pthread_mutex_timedlock(mutex, &until);
}

#else

void tsan_locks_closed(void)
{
}

#endif
