/*
 * sn_guard.h -- a mapped segment whose file is cut off, or cannot be read any more, ends no process.
 *
 *   SIGBUS in the mapping of a segment --> private pages of zeroes from there to its end, and the segment is given up
 *   any other SIGBUS                   --> whoever had the signal before
 *
 * Seneca never cuts off a segment that lives. Something else may: a script that truncates the file, a disk that fails.
 * The kernel answers the next access with SIGBUS, of which a process dies.
 *
 * Lives in   private memory: the handler of SIGBUS, and tables of the mappings of this process, as many as it has needed.
 * Callers    any thread; the handler runs on the one that met the missing page.
 * Ordering   is_cut is stored before there are zeroes in place of payloads: whoever reads it after it has used a payload
 *            knows whether that was one.
 * Fork       a child has the handler and the tables, as it has the mappings.
 *
 * With SENECA_SIGBUS=default no handler is set. One that is set later than a segment is mapped comes before this one.
 */
#ifndef SN_GUARD_H
#define SN_GUARD_H

#include <stdint.h>

#include "sn_layout.h"

typedef struct {
    sn_header *head; /* where the mapping begins */
    uint64_t bytes;  /* that it has */
    int fd;          /* of its file, below 0: closed */

    uint64_t whole_bytes; /* what is the file's of it, and not zeroes */
    _Atomic int is_cut;
} sn_guarded;

/* From when it is mapped, until before it is unmapped and closed. 0, or -ENOMEM: it is not guarded. To forget one that is
 * not guarded does nothing. */
int sn_guard_watch(sn_guarded *guarded, sn_header *head, uint64_t bytes, int fd);
void sn_guard_forget(sn_guarded *guarded);

#endif
