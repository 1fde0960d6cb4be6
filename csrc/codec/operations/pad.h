/*
 * pad.h -- the border around a pass's window.
 *
 *   CONSTANT   f f f a b c d f f f      EDGE        a a a a b c d d d d
 *   REFLECT    d c b a b c d c b a      SYMMETRIC   c b a a b c d d c b
 *
 * A border wider than the window goes back and forth in it, as numpy.pad does, which torchvision
 * asks; a window of one pixel is all that its reflection has.
 *
 * Callers    any thread; no state but the caller's.
 */
#ifndef SN_PAD_H
#define SN_PAD_H

#include "route.h"

/* The one of `n` samples that is seen at `at`, which may be before the first or behind the last; not in CONSTANT. */
uint32_t sn_pad_seen_at(int64_t at, uint32_t n, uint32_t mode);

/* Fill `out`, the pass's canvas, around the window that is there already. */
void sn_pad_around(const sn_pass *pass, uint8_t *out);

#endif
