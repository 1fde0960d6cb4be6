/*
 * sn_telemetry.h -- what each process publishes of its work and of its dataset, for people and programs that watch it.
 *
 *   loader's process  --sn_telemetry_write()-->  the block of its row  --sn_snapshot_take()---------->  who watches
 *                     --sn_traits_write()----->                        --sn_snapshot_read_dataset()->  other jobs, too
 *
 * These are hints. Nothing that a job is served depends on them, and a rebuild neither reads nor changes them. A block
 * names the generation of the row that wrote it. One that a former occupant left is of another generation, therefore
 * it needs no clearing. Members publish two numbers besides, in the blocks of their own rows (sn_pacing.h).
 *
 * Traits show other jobs, which do not share, in what their datasets differ. Sharing ignores them.
 *
 * Lives in   the segment, two blocks for each row.
 * Callers    the owner of a row of kind SN_ROW_HOLDER writes its blocks, from one thread at a time. Anybody reads.
 * Blocking   never.
 * Ordering   the sequence is odd while a block is written. The writer stores it odd, then the words, then it even,
 *            with a fence before the words and a release after them. A reader from outside has only pread(2), which
 *            may copy words in any order. It therefore reads twice. Say that both reads found the same even sequence
 *            and the same words. Had the first seen words of a later write, then the odd sequence that came before
 *            them was there when the second began, and the second would have found another sequence. Had it missed
 *            words of the write that the sequence is of, the second would have found these words. See sn_snapshot.c.
 * Crash      a writer that is killed in between leaves an odd sequence, and readers ignore the block.
 */
#ifndef SN_TELEMETRY_H
#define SN_TELEMETRY_H

#include "sn_segment.h"

/* Write the block of a row that this process owns. In a forked child it does nothing: the row is the parent's. */
void sn_telemetry_write(sn_segment *segment, uint32_t row, const sn_work *work);

/* Whether two copies of a block, read one after the other, are the same complete write. */
int sn_telemetry_agrees(const sn_telemetry *first, const sn_telemetry *second);

/* The same of traits. */
void sn_traits_write(sn_segment *segment, uint32_t row, const sn_dataset *dataset);
int sn_traits_agree(const sn_traits *first, const sn_traits *second);

#endif
