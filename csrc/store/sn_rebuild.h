/*
 * sn_rebuild.h -- derived state made anew from the truth: the one answer to every crash.
 *
 *   rows, ledgers, slot records, seen bits  -->  sets of rows, lists, chains, granule map, pins, wants, budgets
 *                truth                                                derived
 *
 * A process that dies inside the critical section leaves derived state half-changed. Truth is never half-changed:
 * each record is written fields first and state last (freed state first), a ledger line, a uses mask and a word of
 * seen bits are single stores. The fields are plain stores before an atomic one of the state; the next holder reads
 * them behind the kernel's lock, which orders all that the dead one did before its death.
 *
 * The rebuild validates each record, frees what the dead were writing, drops their pins and clears their jobs' bits.
 * It reads truth and writes derived state (and frees records that cannot stand). Therefore it may itself be killed at
 * any instruction, and anyone may begin it again.
 *
 * Lives in   the segment.
 * Callers    the lock holder: sn_store_entered() where it finds `busy`, sn_store_reap() where somebody died, and
 *            sn_store_check().
 * Blocking   never.
 * Crash      the next lock holder finds `busy` and rebuilds; see sn_store.h for how often.
 */
#ifndef SN_REBUILD_H
#define SN_REBUILD_H

#include "../shm/sn_segment.h"

void sn_store_rebuild(sn_segment *segment);

#endif
