/*
 * sn_descriptor.h -- descriptors that are not taken for standard streams.
 *
 * A process may begin with its standard streams closed. What it opens next gets the number 0, 1 or 2, and
 * whatever a library prints goes into that file or socket.
 *
 * Lives in   nothing: a call.
 * Callers    any thread, with each descriptor that it has just opened.
 * Blocking   never.
 */
#ifndef SN_DESCRIPTOR_H
#define SN_DESCRIPTOR_H

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* The same open file behind a number above the standard streams', closed on exec; `fd` is closed if it was one
 * of theirs. A failure (below 0) stays one; where no number is left: -1, and errno. What another thread prints
 * between open() and this call still goes to the file. */
static inline int sn_above_standard(int fd)
{
    if (fd < 0 || fd > STDERR_FILENO)
        return fd;
    int above = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), error = errno;
    close(fd);
    errno = error;
    return above;
}

#endif
