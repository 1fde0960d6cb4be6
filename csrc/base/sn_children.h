/*
 * sn_children.h -- what the child processes of this process read.
 *
 *   /proc/<process>/task/<process>/children --> /proc/<child>/io --> bytes
 *
 * Lives in   nothing.
 * Callers    any thread.
 * Blocking   never; a handful of files in /proc are read.
 */
#ifndef SN_CHILDREN_H
#define SN_CHILDREN_H

#include <stdint.h>

/* The bytes that the children of the main thread which live now have read so far by system calls, from files, pipes and
 * sockets. 0 where /proc does not say. */
uint64_t sn_children_read(void);

#endif
