/*
 * hang.c -- storage that does not answer: preloaded, it holds every read() of one file while another file is there.
 *
 *   HANG_FILE    what the name of the file ends with
 *   HANG_GATE    while this file is there, reading hangs
 *   HANG_HERE    made when a read hangs
 *   HANG_ONCE    if set, only the read that makes it does
 *   HANG_LETS    if set, signals interrupt such a read, as where a file system in user space allows it; else they
 *                do not, as with a dead NFS server
 *
 * Asked with each call, so that a process may set them for itself. A signal that comes once HANG_HERE is there finds the
 * read hanging: until then it is held back.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int is_the_file(int fd, const char *ending)
{
    char link[64], path[PATH_MAX + 1];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX);
    if (length < (ssize_t)strlen(ending))
        return 0;
    path[length] = 0;
    return strcmp(path + length - strlen(ending), ending) == 0;
}

ssize_t read(int fd, void *buffer, size_t count)
{
    const struct timespec pause = {.tv_nsec = 10000000};
    const char *ending = getenv("HANG_FILE"), *gate = getenv("HANG_GATE");

    if (ending && gate && access(gate, F_OK) == 0 && is_the_file(fd, ending)) {
        sigset_t all, before;
        int is_interrupted = 0;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        int here = open(getenv("HANG_HERE"), O_CREAT | O_EXCL | O_WRONLY, 0600);
        int hangs = here >= 0 || !getenv("HANG_ONCE");
        close(here);
        while (hangs && !is_interrupted && access(gate, F_OK) == 0)
            is_interrupted = ppoll(NULL, 0, &pause, &before) != 0 && getenv("HANG_LETS");
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (is_interrupted) {
            errno = EINTR;
            return -1;
        }
    }
    return syscall(SYS_read, fd, buffer, count);
}
