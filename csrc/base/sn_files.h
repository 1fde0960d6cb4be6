/*
 * sn_files.h -- the size, the times and the kind of many files, asked for by several threads at once.
 *
 *   paths     /data/a/1.jpg\0/data/a/2.jpg\0/data/b/1.jpg\0
 *   offsets   0              15             30              45
 *   out       size, times, kind ... of each                as stat() has them, through links
 *
 * The threads take pieces of neighbouring paths. Paths of one folder follow each other. Therefore a thread opens the
 * folder once for a piece, and asks for names in it, which spares most of the way through the tree.
 *
 * Storage that answers slowly is asked by more threads: they wait, and need no core.
 *
 * Callers    any thread, several at once.
 * Blocking   on storage, for ever where that hangs. Signals are handled by the caller's thread, after the call.
 * Errors     -errno of the first path that cannot be asked, and its index in ``failed``.
 */
#ifndef SN_FILES_H
#define SN_FILES_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint64_t size_bytes;
    int64_t mtime_ns; /* of the content, as its writer says; since 1970, negative before */
    int64_t ctime_ns; /* of the content or the inode, as the kernel says: nobody can set it */
    uint64_t mode;    /* st_mode: what kind of file it is */
} sn_file;

/* Ask for ``n`` files. ``offsets`` has n + 1 entries; each path ends in a NUL. The caller's thread is one of
 * ``threads``, and alone if no other can be started. What is in ``out`` after a failure is not determined. */
int sn_files_stat(const char *paths, const uint64_t *offsets, size_t n, unsigned threads, sn_file *out, size_t *failed);

#endif
