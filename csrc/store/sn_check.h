/*
 * sn_check.h -- whether derived state is what a rebuild makes of the truth: for tests and `Segment.check()`.
 *
 *   fold --> copy what is derived --> rebuild --> compare the copy with what the rebuild made
 *
 * Writers commit without the lock. A slot that is committed between the fold and the rebuild is therefore on another
 * list afterwards, and this is no difference.
 *
 * Lives in   private memory: the copy, as large as the records.
 * Callers    the lock holder.
 * Blocking   never, but it examines every record.
 */
#ifndef SN_CHECK_H
#define SN_CHECK_H

#include <stddef.h>

#include "../shm/sn_segment.h"

/* 0; SN_E_CORRUPT with the first difference in `why`; -ENOMEM. It rebuilds, and so mends what it finds wrong. */
int sn_store_check(sn_segment *segment, char *why, size_t size);

#endif
