/*
 * sn_read.h -- the bytes of a sample, from the files of this host.
 *
 *   a file of its own, a piece of a container, or the two files of a pair, one behind the other
 *
 * Callers    any thread, with an sn_file of its own.
 * Blocking   on storage, for ever where that hangs; a FIFO is no file, and is not waited for.
 * Errors     file->rc, and file->why where that is no errno's.
 */
#ifndef SN_READ_H
#define SN_READ_H

#include "sn_batch.h"

#define SN_MAX_FILE_BYTES ((size_t)1 << 30) /* of a sample */

/* Have memory for so many bytes, and keep what is in it: 0 or -ENOMEM. */
int sn_grow(uint8_t **buffer, size_t *capacity, size_t needed);

/* Read a sample's bytes into private memory: a mapping would fault if the file shrank meanwhile. `is_interruptible`: a
 * signal ends it, with -EINTR. `is_ahead`: it does not wait where too many files are open. */
void sn_read_file(const sn_context *context, uint32_t sample, int is_interruptible, int is_ahead, sn_file *file);

#endif
