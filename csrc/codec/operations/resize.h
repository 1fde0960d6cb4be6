/*
 * resize.h -- a resize, as Pillow's Image.resize or torch's interpolate does it; see taps.h.
 *
 *   source rows --across--> ring of a few narrow rows --down--> output rows
 *
 * Each source row is resized across once, a few at a time, into a ring that holds as many rows as
 * an output row is made of, and those that came early, and stays in the first-level cache; each
 * output row is then a weighted sum of those. Rounding to 8 bits happens between the two, as in
 * Pillow. Only a window of the output is computed, and only the span of the source that the window
 * needs is read; of that, rows that no output row is made of, which a plain filter leaves, are passed
 * over. Rows are fetched from memory some way ahead.
 *
 *   sn_resizer_prepare (the two axes) --> spans --> sn_resizer_run (pixels of the spans)
 *
 * Callers    one thread at a time an sn_resizer.
 * Owns       its tables and ring, reused.
 * Errors     -ENOMEM.
 */
#ifndef SN_RESIZE_H
#define SN_RESIZE_H

#include "../kernels/taps.h"
#include "../sn_codec.h"

typedef struct {
    sn_taps down, across;
    sn_buffer ring;
} sn_resizer;

/* Make the tables for these axes; afterwards resizer->down.span_* and ->across.span_* say which
 * source rows and columns sn_resizer_run() wants. */
int sn_resizer_prepare(sn_resizer *resizer, const sn_axis *down, const sn_axis *across);

/* `source` is exactly the span. Writes down.count rows of across.count RGB triples, `stride` bytes
 * apart (negative: from the bottom up), and not one byte between them. */
int sn_resizer_run(sn_resizer *resizer, const sn_view *source, uint8_t *out, ptrdiff_t stride);

void sn_resizer_release(sn_resizer *resizer);

#endif
