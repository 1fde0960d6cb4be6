#define _GNU_SOURCE
#include "sn_read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../base/sn_clock.h"
#include "../base/sn_descriptor.h"

#define DESCRIPTOR_NS 2000000000u /* those who read ahead close a file sooner, unless storage hangs */
#define LEASE_NS 60000000000u     /* the kernel takes a lease away after 45 s (/proc/sys/fs/lease-break-time) */

int sn_grow(uint8_t **buffer, size_t *capacity, size_t needed)
{
    if (needed <= *capacity)
        return 0;
    size_t size = needed + needed / 2;
    uint8_t *larger = realloc(*buffer, size);
    if (!larger)
        return -ENOMEM;
    *buffer = larger;
    *capacity = size;
    return 0;
}

/* The file alone that is one: to open a FIFO waits for a writer, and a read from it, a socket or a device may
 * never end. What was opened is asked, so that it cannot be exchanged between the two. O_NONBLOCK opens a FIFO at
 * once and changes nothing for a file, but for one that another process has a lease on (fcntl(2)): EAGAIN, until
 * that has given it back, which the kernel sees to. Who does not read ahead waits for the descriptors of those who do. */
static int open_regular(int is_interruptible, int is_ahead, const char *path, struct stat *file, const char **kind)
{
    const struct timespec pause = {.tv_nsec = 10000000};
    uint64_t give_up_at = 0;
    int fd;

    while ((fd = sn_above_standard(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK))) < 0) {
        if (errno == EINTR && !is_interruptible)
            continue;
        if (errno == ENXIO)
            *kind = "is a socket or a missing device, not a regular file";
        int rc = -errno, is_short = (errno == EMFILE || errno == ENFILE) && !is_ahead;
        if (errno != EAGAIN && !is_short)
            return rc;
        if (give_up_at == 0)
            give_up_at = sn_now_ns() + (is_short ? DESCRIPTOR_NS : LEASE_NS);
        else if (sn_now_ns() > give_up_at)
            return rc;
        if (nanosleep(&pause, NULL) != 0 && is_interruptible)
            return -EINTR;
    }
    int rc = fstat(fd, file) == 0 ? fd : -errno;
    if (rc >= 0 && !S_ISREG(file->st_mode)) {
        *kind = S_ISDIR(file->st_mode)    ? "is a directory, not a regular file"
                : S_ISFIFO(file->st_mode) ? "is a FIFO, not a regular file"
                                          : "is a device, not a regular file";
        rc = S_ISDIR(file->st_mode) ? -EISDIR : -EINVAL;
    }
    if (rc < 0)
        close(fd);
    return rc;
}

static int read_from(int fd, int is_interruptible, sn_file *file)
{
    for (;;) {
        ssize_t n = read(fd, file->bytes + file->length, file->capacity - file->length);
        if (n < 0 && errno == EINTR && !is_interruptible)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : 0;
        file->length += (size_t)n;
        if (file->length > SN_MAX_FILE_BYTES)
            return -EFBIG;
        if (file->length == file->capacity && sn_grow(&file->bytes, &file->capacity, file->length + 1) != 0)
            return -ENOMEM;
    }
}

static int is_as_listed(const struct stat *about, const sn_container *container)
{
    return (uint64_t)about->st_size == container->size_bytes &&
           (int64_t)about->st_mtim.tv_sec * 1000000000 + about->st_mtim.tv_nsec == container->mtime_ns;
}

/* Read a piece of a container. If the container has been replaced, or is replaced meanwhile, these bytes may be
 * of another sample. */
static int read_piece_from(int fd, int is_interruptible, const sn_piece *piece, const sn_container *container,
                           struct stat *about, sn_file *file)
{
    if (piece->length > SN_MAX_FILE_BYTES)
        return -EFBIG;
    file->why = "has changed since it was opened; open it again with seneca.open()";
    if (!is_as_listed(about, container))
        return -ESTALE;
    while (file->length < piece->length) {
        ssize_t n =
            pread(fd, file->bytes + file->length, piece->length - file->length, (off_t)(piece->offset + file->length));
        if (n < 0 && errno == EINTR && !is_interruptible)
            continue;
        if (n < 0) {
            file->why = NULL;
            return -errno;
        }
        if (n == 0)
            return -ESTALE;
        file->length += (size_t)n;
    }
    if (fstat(fd, about) != 0 || !is_as_listed(about, container))
        return -ESTALE;
    file->why = NULL;
    return 0;
}

/* Read a file behind what `file` has, or a piece of it. The size that fstat gives of a whole file is a hint; its end is
 * where read() says so. */
static void read_behind(const sn_context *context, uint64_t path_at, const sn_piece *piece, int is_interruptible,
                        int is_ahead, sn_file *file)
{
    struct stat about;
    int fd = open_regular(is_interruptible, is_ahead, context->paths + path_at, &about, &file->why);

    file->rc = fd < 0 ? fd
                      : sn_grow(&file->bytes, &file->capacity,
                                file->length + (piece ? piece->length : (size_t)about.st_size) + 1);
    if (fd >= 0) {
        int64_t ctime_ns = (int64_t)about.st_ctim.tv_sec * 1000000000 + about.st_ctim.tv_nsec;
        if (ctime_ns > file->ctime_ns)
            file->ctime_ns = ctime_ns;
    }
    if (file->rc == 0)
        file->rc =
            piece ? read_piece_from(fd, is_interruptible, piece, &context->containers[piece->container], &about, file)
                  : read_from(fd, is_interruptible, file);
    if (fd >= 0)
        close(fd);
}

/* Both files of a pair, one behind the other (sn_codec.h). */
static void read_pair(const sn_context *context, uint32_t sample, int is_interruptible, int is_ahead, sn_file *file)
{
    const uint64_t *path_at = &context->path_at[2 * (size_t)sample];

    file->rc = sn_grow(&file->bytes, &file->capacity, SN_PAIR_HEADER);
    if (file->rc != 0)
        return;
    file->length = SN_PAIR_HEADER;
    read_behind(context, path_at[0], NULL, is_interruptible, is_ahead, file);
    if (file->rc != 0)
        return;
    sn_pair_begin(file->bytes, (uint32_t)(file->length - SN_PAIR_HEADER));
    read_behind(context, path_at[1], NULL, is_interruptible, is_ahead, file);
    file->is_of_mask = file->rc != 0;
}

void sn_read_file(const sn_context *context, uint32_t sample, int is_interruptible, int is_ahead, sn_file *file)
{
    const sn_piece *piece = context->pieces ? &context->pieces[sample] : NULL;

    file->length = 0;
    file->ctime_ns = 0;
    file->why = NULL;
    file->is_remote = file->is_of_mask = 0;
    if (context->plan->is_pair)
        read_pair(context, sample, is_interruptible, is_ahead, file);
    else
        read_behind(context, context->path_at[piece ? piece->container : sample], piece, is_interruptible, is_ahead,
                    file);
}
