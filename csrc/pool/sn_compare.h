/*
 * sn_compare.h -- a cached payload against what its file comes to now.
 *
 * A place is compared where its file has changed (it is suspect), or where the draw asked for a check. A difference is
 * reported to the segment: sn_distrust.h.
 *
 * Callers    the thread that claimed the place, with scratch memory of its own.
 * Blocking   on storage.
 */
#ifndef SN_COMPARE_H
#define SN_COMPARE_H

#include "sn_scratch.h"

/* Serve a place from storage whose payload may be wrong: its file has changed, and has not come to the same; or a job has
 * found the cache to differ from what its dataset makes, also if the place was drawn before that was known. */
void sn_compare_source(sn_scratch *scratch, const sn_context *context, sn_batch_item *place);

/* Pillow has decoded the file of a suspect, whose DECODED payload could not be compared before. */
void sn_compare_decoded(const sn_context *context, const sn_batch_item *place, const sn_view *decoded);

#endif
